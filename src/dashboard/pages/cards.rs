//! A butler's own cards: what its owner wants to see of it, as the roster's files declare it.

use admin::Need;
use jiff::Timestamp;
use maud::{Markup, html};
use serde_json::{Map, Value};
use tools::sql::{ButlerPage, Card, CardKind, PageRows, Unit};

use crate::parts::{Tone, empty, line, note};
use crate::plot::{Plot, Series, number};
use crate::visit::Visit;

type Row = Map<String, Value>;

/// All cards of a butler, each with what it shows now. Nothing where it has none.
pub(super) async fn cards(visit: &Visit, name: &str) -> Markup {
    let Ok(grant) = visit.grant(Need::Look) else { return html! {} };
    let Ok(butler) = visit.calls.butler(&grant, name).await else { return html! {} };
    let pages = match butler.pages() {
        Ok(pages) => pages,
        Err(why) => return note(Tone::Bad, &html! { "Its cards can't be shown: " (why.to_string()) }),
    };
    let caller = visit.calls.caller(&grant);
    let wanted: Vec<(&ButlerPage, &Card)> = pages.iter().filter_map(|page| Some((page, page.card.as_ref()?))).collect();
    if wanted.is_empty() {
        return html! {};
    }
    let mut shown = Vec::new();
    for (page, card) in wanted {
        let rows = butler.read_page(&caller, &page.path, Map::new()).await;
        shown.push(html! { section.card {
            h2 { (card.title) }
            @match &rows {
                Ok(rows) => (one(visit, card, rows)),
                Err(why) => (note(Tone::Warn, &html! { (why.to_string()) })),
            }
        } });
    }
    html! { div.columns { @for card in &shown { (card) } } }
}

fn one(visit: &Visit, card: &Card, rows: &PageRows) -> Markup {
    if rows.rows.is_empty() {
        return empty("Nothing yet.");
    }
    let body = match &card.shows {
        CardKind::Number { value, unit, note } => figure(&rows.rows[0], value, unit.as_ref(), note.as_deref()),
        CardKind::Table { columns } => table(visit, &rows.rows, columns),
        CardKind::Line { x, y, unit } => plot(visit, card, &rows.rows, (x, y, unit.as_ref()), false),
        CardKind::Bar { x, y, unit } => plot(visit, card, &rows.rows, (x, y, unit.as_ref()), true),
        CardKind::Timeline { at, label } => timeline(visit, &rows.rows, at, label),
    };
    html! { (body) @if rows.truncated { p.dim { "There is more than is shown here." } } }
}

fn unit_of(unit: Option<&Unit>, row: &Row) -> String {
    match unit {
        Some(Unit::Text(text)) => text.clone(),
        Some(Unit::Column { column }) => row.get(column).and_then(Value::as_str).unwrap_or_default().to_owned(),
        None => String::new(),
    }
}

fn figure(row: &Row, value: &str, unit: Option<&Unit>, note: Option<&str>) -> Markup {
    let value = row.get(value).unwrap_or(&Value::Null);
    html! {
        p.big { @if value.is_null() { span.dim { "unknown" } } @else { (plain(value)) " " (unit_of(unit, row)) } }
        @if let Some(note) = note.and_then(|note| row.get(note)).filter(|note| !note.is_null()) {
            p.dim { (line(&plain(note), 200)) }
        }
    }
}

fn table(visit: &Visit, rows: &[Row], columns: &[String]) -> Markup {
    html! { div.wide tabindex="0" { table {
        thead { tr { @for column in columns { th { (column.replace('_', " ")) } } } }
        tbody { @for row in rows { tr { @for column in columns {
            @let value = row.get(column).unwrap_or(&Value::Null);
            @if value.is_number() { td.num { (plain(value)) } } @else { td { (shown(visit, value)) } }
        } } } }
    } } }
}

fn plot(
    visit: &Visit,
    card: &Card,
    rows: &[Row],
    (x, y, unit): (&str, &[String], Option<&Unit>),
    bars: bool,
) -> Markup {
    let unit = unit_of(unit, &rows[0]);
    let at = |row: &Row| row.get(x).and_then(Value::as_str).and_then(|text| text.parse::<Timestamp>().ok());
    let times: Option<Vec<Timestamp>> = rows.iter().map(at).collect();
    let times = times.filter(|_| !bars);
    let labels = match &times {
        Some(times) => times.iter().map(|at| visit.now.zoned(*at).strftime("%-d %b %H:%M").to_string()).collect(),
        None => rows.iter().map(|row| plain(row.get(x).unwrap_or(&Value::Null))).collect(),
    };
    let value = |row: &Row, column: &str| match row.get(column)? {
        Value::Number(n) => n.as_f64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    let series =
        y.iter().map(|column| Series { name: column, values: rows.iter().map(|r| value(r, column)).collect() });
    let series = series.collect();
    let times = times.map(|times| times.iter().map(|at| at.as_second()).collect());
    Plot { title: &card.title, unit: &unit, labels, times, series, bars }.draw()
}

fn timeline(visit: &Visit, rows: &[Row], at: &str, label: &str) -> Markup {
    html! { ul.rows { @for row in rows {
        li { strong { (shown(visit, row.get(at).unwrap_or(&Value::Null))) } " " (line(&plain(row.get(label).unwrap_or(&Value::Null)), 200)) }
    } } }
}

/// A value as people read it: a moment in their own zone.
fn shown(visit: &Visit, value: &Value) -> Markup {
    let moment = value.as_str().filter(|text| text.len() > 12).and_then(|text| text.parse::<Timestamp>().ok());
    match moment {
        Some(at) => visit.now.when(at),
        None => html! { (line(&plain(value), 300)) },
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => "–".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(n) => n.as_f64().filter(|_| n.is_f64()).map_or_else(|| n.to_string(), number),
        Value::Bool(yes) => (if *yes { "yes" } else { "no" }).to_owned(),
        other => other.to_string(),
    }
}
