//! What sessions cost: by day, butler, model and schedule, and what is left of the budgets.

use admin::calls::HouseApiServer;
use jiff::ToSpan;
use maud::{Markup, html};
use rust_decimal::prelude::ToPrimitive;
use sessions::budget::{By, Cost, Costs, LimitLeft};

use super::answers::or_not_now;
use crate::parts::{Tone, count, empty, line, money, sessions, toned};
use crate::plot::{Plot, Series};
use crate::reply::{Answer, PageError, View};
use crate::route::{Route, get};
use crate::visit::Visit;

pub(crate) const ROUTES: &[Route] = &[get("/costs", |visit| Box::pin(show(visit)))];

/// So many bars a plot has room for.
const BARS: usize = 12;
const PERIODS: [(u32, &str); 4] = [(1, "Today"), (7, "7 days"), (30, "30 days"), (90, "90 days")];

async fn show(visit: &Visit) -> Answer {
    let days = match visit.query.get("days") {
        None => 30,
        Some(text) => text
            .parse()
            .ok()
            .filter(|n| (1..=366).contains(n))
            .ok_or_else(|| PageError::invalid("The period must be from 1 to 366 days."))?,
    };
    let (calls, ext) = (&visit.calls, &visit.ext);
    let (butlers, models, schedules, by_day, budgets) = tokio::join!(
        calls.costs(ext, Some(days), By::Butler),
        calls.costs(ext, Some(days), By::Model),
        calls.costs(ext, Some(days), By::Schedule),
        calls.costs(ext, Some(days), By::Day),
        calls.budgets(ext),
    );
    let (butlers, by_day) = (butlers?, by_day?);
    let body = html! {
        p.tabs { @for (n, name) in PERIODS {
            a href={ "/costs?days=" (n) } aria-current=[(n == days).then_some("true")] { (name) }
        } }
        div.columns {
            section { h2 { "In this period" } p.big { (money(butlers.total.usd)) } (total(&butlers.total)) }
            section { h2 { "This month" } p.big { (money(butlers.month.usd)) }
                p { "Until its end about " (money(butlers.month.forecast_usd)) "." }
                p.dim { (butlers.month.basis) } }
            section { h2 { "Budgets" } (or_not_now(&budgets, |all| limits(all))) }
        }
        h2 { "By day" } (plot(&by_day))
        h2 { "By butler" } (bars("Cost by butler", &butlers)) (table("Butler", &butlers))
        h2 { "By model" }
        (or_not_now(&models, |costs| html! { (bars("Cost by model", costs)) (table("Model", costs)) }))
        h2 { "By schedule and cause" }
        (or_not_now(&schedules, |costs| html! { (bars("Cost by schedule and cause", costs)) (table("Cause", costs)) }))
    };
    Ok(View::new("Costs", body).with_plots().into())
}

fn total(cost: &Cost) -> Markup {
    html! { p.dim { (sessions(cost.sessions)) ", " (count(i128::from(cost.tokens))) " tokens"
    @if let Some(schemas) = cost.schema_tokens { ", of these about " (count(i128::from(schemas))) " for tools' schemas" }
    @if cost.sessions_of_unknown_cost > 0 { "; the cost of " (sessions(cost.sessions_of_unknown_cost)) " is not known" }
    "." } }
}

/// A bar for each day. One without a session cost nothing; one whose cost is not known is left open.
fn plot(costs: &Costs) -> Markup {
    if costs.rows.is_empty() {
        return empty("No session in these days.");
    }
    let (mut labels, mut values, mut day) = (Vec::new(), Vec::new(), costs.from);
    while day <= costs.until {
        let name = day.to_string();
        let row = costs.rows.iter().find(|row| row.name.as_deref() == Some(&name));
        values.push(row.map_or(Some(0.0), |row| row.usd.and_then(|usd| usd.0.to_f64())));
        labels.push(name);
        day = day.saturating_add(1.day());
    }
    let series = vec![Series { name: "cost", values }];
    Plot { title: "Cost by day", unit: "$", labels, times: None, series, bars: true }.draw()
}

/// A bar for each of those that cost most. Where all cost nothing, or there is but one, a plot would say nothing.
fn bars(title: &'static str, costs: &Costs) -> Markup {
    let known = |row: &Cost| row.usd.and_then(|usd| usd.0.to_f64());
    let mut rows: Vec<&Cost> = costs.rows.iter().filter(|row| known(row) != Some(0.0)).collect();
    if rows.len() < 2 {
        return html! {};
    }
    rows.sort_by(|a, b| known(b).unwrap_or_default().total_cmp(&known(a).unwrap_or_default()));
    rows.truncate(BARS);
    let labels = rows.iter().map(|row| line(name(row), 24)).collect();
    let series = vec![Series { name: "cost", values: rows.into_iter().map(known).collect() }];
    Plot { title, unit: "$", labels, times: None, series, bars: true }.draw()
}

fn name(row: &Cost) -> &str {
    row.name.as_deref().unwrap_or("a model that nobody named")
}

fn table(head: &str, costs: &Costs) -> Markup {
    if costs.rows.is_empty() {
        return empty("No session in this period.");
    }
    html! { div.wide tabindex="0" { table {
        thead { tr { th { (head) } th.num { "Cost" } th.num { "Sessions" } th.num { "Of unknown cost" } th.num { "Tokens" } } }
        tbody { @for row in &costs.rows { tr {
            th scope="row" { (name(row)) }
            td.num { (money(row.usd)) } td.num { (count(i128::from(row.sessions))) }
            td.num { (count(i128::from(row.sessions_of_unknown_cost))) } td.num { (count(i128::from(row.tokens))) }
        } } }
    } } }
}

pub(super) fn limits(all: &[LimitLeft]) -> Markup {
    html! {
        @if all.is_empty() { (empty("No limit is set for a day. See [spawner.budgets] of the settings.")) }
        ul.rows { @for limit in all {
            @let share = limit.used_share();
            @let tone = match share { Some(n) if n >= 1.0 => Tone::Bad, Some(n) if n >= 0.8 => Tone::Warn, _ => Tone::Good };
            li { strong { (limit.scope) }
                @if let Some((limit, left)) = limit.limit_usd.zip(limit.left_usd) { ": " (left) " of " (limit) " left" }
                @if let Some((limit, left)) = limit.limit_tokens.zip(limit.left_tokens) {
                    ": " (count(i128::from(left))) " of " (count(i128::from(limit))) " tokens left"
                }
                @if let Some(share) = share { " " (toned(tone, &format!("{:.0} % used", share * 100.0))) } }
        } }
    }
}
