//! `butlerd costs`

use clap::Args;

use super::out::{Out, Table, Tone, count, one_line};
use super::{Caller, Outcome};
use admin::ApiClient;
use sessions::budget::{By, Cost, Costs};

/// `costs`
#[derive(Debug, Args)]
pub struct CostsArgs {
    /// So many days, today included [default: this month]
    #[arg(long, value_name = "N", conflicts_with = "month", value_parser = clap::value_parser!(u32).range(1..=3660))]
    pub days: Option<u32>,
    /// From the first of this month on
    #[arg(long)]
    pub month: bool,
    /// What the rows stand for: `butler`, `schedule` or `model`
    #[arg(long, value_name = "WHAT", default_value = "butler", value_parser = costs_by)]
    pub by: By,
}

fn costs_by(text: &str) -> Result<By, String> {
    By::from_name(text).ok_or_else(|| format!("one of {}", By::NAMES.join(", ")))
}

pub async fn run(caller: Caller, args: CostsArgs) -> Outcome {
    let costs = caller.client.quick()?.costs(args.days, args.by).await.map_err(caller.failed())?;
    match caller.out.json {
        true => caller.out.value(&costs),
        false => show(caller.out, &costs),
    }
    Ok(0)
}

fn show(out: Out, costs: &Costs) {
    let days = match costs.from == costs.until {
        true => costs.from.to_string(),
        false => format!("{} to {}", costs.from, costs.until),
    };
    if costs.rows.is_empty() {
        out.line(&format!("No session started, {days}."));
    } else {
        out.line(&format!("{}, by {}", days, heading(costs.by).to_lowercase()));
        out.table(&table(costs));
    }
    out.line("");
    month(costs).iter().for_each(|line| out.line(line));
}

fn heading(by: By) -> &'static str {
    match by {
        By::Butler => "BUTLER",
        By::Schedule => "STARTED BY",
        By::Model => "MODEL",
    }
}

fn table(costs: &Costs) -> Table {
    let mut table = Table::new(&[heading(costs.by), "SESSIONS", "TOKENS", "COST", "OF UNKNOWN COST"]);
    let row = |cost: &Cost, name: String, tone: Tone| {
        let usd = match cost.usd {
            Some(usd) => (tone, usd.to_string()),
            None => (Tone::Warn, "unknown".to_owned()),
        };
        let unknown = match cost.sessions_of_unknown_cost {
            0 => (Tone::Plain, String::new()),
            n => (Tone::Warn, n.to_string()),
        };
        vec![(tone, name), (tone, cost.sessions.to_string()), (tone, cost.tokens.to_string()), usd, unknown]
    };
    for cost in &costs.rows {
        let name = cost.name.as_deref().map_or_else(|| "(not named)".to_owned(), |n| one_line(n, 60));
        table.row(row(cost, name, Tone::Plain));
    }
    table.row(row(&costs.total, "all".to_owned(), Tone::Head));
    table
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
        let row = |name: &str, unknown: u64, usd| Cost {
            name: Some(name.into()),
            sessions: 2,
            sessions_of_unknown_cost: unknown,
            tokens: 7,
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
        let shown = format!("{:?}", table(&costs));
        assert!(shown.contains("$0.0108") && shown.contains("unknown") && !shown.contains("$0.00\""), "{shown}");
        let said = month(&costs);
        assert_eq!(said[0], "This month so far: $0.0108, without 2 sessions of unknown cost.");
        assert_eq!(said[1], "No forecast for the month: there is nothing.");
    }
}
