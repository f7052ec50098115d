//! `butlerd costs`

use clap::Args;

use super::common::BadArgument;
use super::out::{Out, Tone};
use super::table::Cell;
use super::text::{count, one_line};
use super::{Caller, Outcome};
use admin::api::HouseApiClient;
use sessions::budget::{By, Cost, Costs};

/// `costs`
#[derive(Debug, Args)]
pub struct CostsArgs {
    /// The last N days, today included [default: this month]
    #[arg(long, value_name = "N", conflicts_with = "month", value_parser = clap::value_parser!(u32).range(1..=3660))]
    pub days: Option<u32>,
    /// From the first of this month on
    #[arg(long)]
    pub month: bool,
    /// What the rows stand for: `butler`, `schedule`, `model` or `day`
    #[arg(long, value_name = "WHAT", default_value = "butler", value_parser = costs_by)]
    pub by: By,
}

fn costs_by(text: &str) -> Result<By, BadArgument> {
    text.parse().map_err(|_| BadArgument(format!("one of {}", By::NAMES.join(", "))))
}

pub async fn run(caller: Caller, args: CostsArgs) -> Outcome {
    caller.show(caller.quick()?.costs(args.days, args.by).await, show)
}

fn show(out: &Out, costs: &Costs) {
    let days = match costs.from == costs.until {
        true => costs.from.to_string(),
        false => format!("{} to {}", costs.from, costs.until),
    };
    if costs.rows.is_empty() {
        out.line(&format!("No sessions, {days}"));
    } else {
        out.line(&format!("{}, by {}", days, heading(costs.by).to_lowercase()));
        table(out, costs).iter().for_each(|line| out.line(line));
    }
    out.line("");
    month(costs).iter().for_each(|line| out.line(line));
}

fn heading(by: By) -> &'static str {
    match by {
        By::Butler => "BUTLER",
        By::Schedule => "STARTED BY",
        By::Model => "MODEL",
        By::Day => "DAY",
    }
}

/// The rows, and the sum of them.
fn table(out: &Out, costs: &Costs) -> Vec<String> {
    let name = |cost: &Cost| cost.name.as_deref().map_or_else(|| "(not named)".to_owned(), |n| one_line(n, 60));
    let rows = costs.rows.iter().map(|cost| (Tone::Plain, name(cost), cost));
    let rows: Vec<(Tone, String, &Cost)> = rows.chain([(Tone::Head, "all".to_owned(), &costs.total)]).collect();
    let usd = |(tone, _, cost): &(Tone, String, &Cost)| match cost.usd {
        Some(usd) => Cell::from((*tone, usd)),
        None => Cell::from((Tone::Warn, "unknown")),
    };
    out.table(&rows)
        .column(heading(costs.by), |r| (r.0, &r.1))
        .column("SESSIONS", |r| (r.0, r.2.sessions))
        .column("TOKENS", |r| (r.0, r.2.tokens))
        .column("FOR SCHEMAS, ABOUT", |r| r.2.schema_tokens.map(|n| (r.0, n)))
        .column("COST", usd)
        .column("OF UNKNOWN COST", |r| Some(r.2.sessions_of_unknown_cost).filter(|n| *n > 0).map(|n| (Tone::Warn, n)))
        .lines()
}

/// The month, as sentences.
fn month(costs: &Costs) -> Vec<String> {
    let month = &costs.month;
    let unknown = match month.sessions_of_unknown_cost {
        0 => String::new(),
        n => format!(", without {} of unknown cost", count(usize::try_from(n).unwrap_or(usize::MAX), "session")),
    };
    let so_far = month.usd.map_or_else(|| "nothing that is known".to_owned(), |usd| usd.to_string());
    let forecast = match month.forecast_usd {
        Some(usd) => format!("Forecast for the whole month: {usd}, going by {}.", month.basis),
        None => format!("No forecast for the month: {}.", month.basis),
    };
    vec![format!("This month so far: {so_far}{unknown}."), forecast]
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Money;
    use sessions::budget::Month;

    #[test]
    fn what_is_unknown_is_called_so() {
        let usd = |text: &str| Money::parse(text);
        let row = |name: &str, unknown: u64, usd: Option<Money>| Cost {
            name: Some(name.into()),
            sessions: 2,
            sessions_of_unknown_cost: unknown,
            tokens: 7,
            schema_tokens: usd.is_some().then_some(3),
            usd,
        };
        let costs = Costs {
            from: "2026-11-01".parse().unwrap(),
            until: "2026-11-21".parse().unwrap(),
            by: By::Butler,
            rows: vec![row("health", 0, usd("0.0108")), row("travel", 2, None)],
            total: row("", 2, usd("0.0108")),
            month: Month {
                usd: usd("0.0108"),
                sessions_of_unknown_cost: 2,
                forecast_usd: None,
                basis: "there is nothing".into(),
            },
        };
        let shown = table(&crate::out::tests::plain(), &costs).join("\n");
        assert!(shown.contains("$0.0108") && shown.contains("unknown") && !shown.contains("$0.00 "), "{shown}");
        let said = month(&costs);
        assert_eq!(said[0], "This month so far: $0.0108, without 2 sessions of unknown cost.");
        assert_eq!(said[1], "No forecast for the month: there is nothing.");
    }
}
