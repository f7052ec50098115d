//! `butlerd deliveries`

use clap::Subcommand;
use jiff::tz::TimeZone;
use uuid::Uuid;

use super::out::{Out, Table, Tone, block, moment, one_line};
use super::{Caller, Outcome};
use admin::ApiClient;
use outbox::{Changed, DeliveryView};

/// `deliveries`
#[derive(Debug, Subcommand)]
pub enum Deliveries {
    /// The newest deliveries
    List {
        /// Only those of this state; `bad`: those that are unknown, failed or dead
        #[arg(long, value_name = "STATE",
              value_parser = ["pending", "deferred", "sending", "sent", "unknown", "failed", "dead", "bad"])]
        state: Option<String>,
        /// Only what this butler wanted sent; `butlerd`: the daemon's own notices
        #[arg(long, value_name = "NAME")]
        butler: Option<String>,
        /// How many
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=200))]
        limit: u32,
    },
    /// One delivery with its tries
    Show {
        #[arg(value_parser = delivery_id)]
        id: Uuid,
    },
    /// Send it once more: one that failed, is dead, or unknown, which may then arrive twice
    Retry {
        #[arg(value_parser = delivery_id)]
        id: Uuid,
    },
    /// Call off one that has not left
    Cancel {
        #[arg(value_parser = delivery_id)]
        id: Uuid,
    },
    /// Say of an unknown one whether it arrived
    #[command(group = clap::ArgGroup::new("end").required(true))]
    Resolve {
        #[arg(value_parser = delivery_id)]
        id: Uuid,
        /// It arrived
        #[arg(long, group = "end")]
        arrived: bool,
        /// It did not: send it once more
        #[arg(long, group = "end")]
        not_arrived: bool,
    },
}

fn delivery_id(typed: &str) -> Result<Uuid, String> {
    Uuid::parse_str(typed).map_err(|_| format!("`{typed}` is no delivery's id; see `butlerd deliveries list`"))
}

pub async fn run(caller: Caller, what: Deliveries) -> Outcome {
    let out = caller.out;
    let calls = caller.client.quick()?;
    let changed = match what {
        Deliveries::List { state, butler, limit } => {
            let found = calls.deliveries_list(butler, state, Some(limit)).await.map_err(caller.failed())?;
            match out.json {
                true => out.value(&found),
                false => list(out, &found, &caller.zone()),
            }
            return Ok(0);
        }
        Deliveries::Show { id } => {
            let found = calls.deliveries_show(id).await.map_err(caller.failed())?;
            match out.json {
                true => out.value(&found),
                false => show(out, &found, &caller.zone()),
            }
            return Ok(0);
        }
        Deliveries::Retry { id } => calls.deliveries_retry(id).await,
        Deliveries::Cancel { id } => calls.deliveries_cancel(id).await,
        Deliveries::Resolve { id, arrived, .. } => calls.deliveries_resolve(id, arrived).await,
    };
    let changed = changed.map_err(caller.failed())?;
    match out.json {
        true => out.value(&changed),
        false => tell(out, &changed),
    }
    Ok(0)
}

fn tell(out: Out, changed: &Changed) {
    let now = match changed.state.as_str() {
        "pending" => "is sent once more",
        "failed" => "is called off",
        _ => "counts as sent",
    };
    out.line(&format!("The delivery {} {now}; it was {}.", changed.id, changed.before));
    if changed.before == "unknown" && changed.state == "pending" {
        out.line(&out.paint(Tone::Warn, "If the first one did arrive after all, it arrives twice."));
    }
}

fn tone(state: &str) -> Tone {
    match state {
        "sent" => Tone::Good,
        "failed" | "dead" | "unknown" => Tone::Bad,
        _ => Tone::Warn,
    }
}

/// Its state; what was put aside troubles nobody any more.
fn standing(delivery: &DeliveryView) -> (Tone, String) {
    match delivery.discarded {
        Some(_) => (Tone::Faint, format!("{}, put aside", delivery.state)),
        None => (tone(&delivery.state), delivery.state.clone()),
    }
}

fn said(delivery: &DeliveryView) -> &str {
    delivery.message.as_deref().or(delivery.emoji.as_deref()).unwrap_or_default()
}

fn list(out: Out, found: &[DeliveryView], zone: &TimeZone) {
    if found.is_empty() {
        return out.line("There is no such delivery.");
    }
    let mut table = Table::new(&["DELIVERY", "MADE", "BY", "CHANNEL", "TO", "STATE", "TEXT"]);
    for delivery in found {
        table.row(vec![
            (Tone::Plain, delivery.id.to_string()),
            (Tone::Plain, moment(delivery.created_at, zone)),
            (Tone::Plain, delivery.origin.clone()),
            (Tone::Plain, delivery.channel.clone()),
            (Tone::Plain, one_line(&delivery.target, 30)),
            standing(delivery),
            (Tone::Plain, one_line(said(delivery), 60)),
        ]);
    }
    out.table(&table);
}

fn show(out: Out, delivery: &DeliveryView, zone: &TimeZone) {
    let line = |name: &str, text: &str| {
        out.line(&format!("{}{text}", out.paint(Tone::Faint, &format!("{name:<10}"))));
    };
    line("delivery", &delivery.id.to_string());
    line("by", &delivery.origin);
    line("to", &format!("{} over {}", one_line(&delivery.target, 200), delivery.channel));
    line("what", &format!("{}, {}, priority {}", delivery.kind, delivery.intent, delivery.priority));
    let (tone, state) = standing(delivery);
    line("state", &out.paint(tone, &state));
    if let Some(aside) = &delivery.discarded {
        let text = |key: &str| one_line(aside[key].as_str().unwrap_or_default(), 500);
        line("put aside", &format!("by {}: {}", text("by"), text("reason")));
    }
    if let Some(reason) = &delivery.reason {
        line("reason", reason);
    }
    if let Some(error) = &delivery.last_error {
        line("error", &one_line(error, 1000));
    }
    line("made", &moment(delivery.created_at, zone));
    line("due", &moment(delivery.due_at, zone));
    if let Some(at) = delivery.settled_at {
        line("ended", &moment(at, zone));
    }
    line("request", &delivery.request_id.to_string());
    if let Some(session) = delivery.session_id {
        line("session", &session.to_string());
    }
    if let Some(receipt) = &delivery.receipt {
        line("receipt", &one_line(&receipt.to_string(), 500));
    }
    out.line("");
    if let Some(subject) = &delivery.subject {
        out.line(&out.paint(Tone::Head, &one_line(subject, 500)));
    }
    out.line(&block(said(delivery)));
    if delivery.tries.is_empty() {
        return;
    }
    out.line("");
    let mut table = Table::new(&["TRY", "BEGUN", "END", "WHAT WAS SEEN"]);
    for attempt in &delivery.tries {
        table.row(vec![
            (Tone::Plain, attempt.n.to_string()),
            (Tone::Plain, moment(attempt.begun_at, zone)),
            (Tone::Plain, attempt.outcome.clone().unwrap_or_else(|| "under way".to_owned())),
            (Tone::Plain, one_line(attempt.detail.as_deref().unwrap_or_default(), 200)),
        ]);
    }
    out.table(&table);
}
