//! `butlerd deliveries`

use clap::Subcommand;

use super::common::{Id, Newest};
use super::out::{Out, Tone};
use super::text::{block, one_line};
use super::{Caller, Outcome};
use admin::IdKind;
use admin::api::DeliveriesApiClient;
use outbox::{Changed, DeliveryView};

/// `deliveries`
#[derive(Debug, Subcommand)]
pub enum Deliveries {
    /// List the newest deliveries
    List {
        /// Only deliveries in this state; `waiting`: for a channel that the household does not have; `bad`: those that
        /// are unknown, failed or dead
        #[arg(long, value_name = "STATE",
              value_parser = ["pending", "deferred", "waiting", "sending", "sent", "unknown", "failed", "dead", "bad"])]
        state: Option<String>,
        /// Only what this butler sends; `butlerd`: the daemon's own notices
        #[arg(long, value_name = "NAME")]
        butler: Option<String>,
        #[command(flatten)]
        newest: Newest,
    },
    /// Show one delivery with its tries
    Show { id: Id },
    /// Send a failed, dead or unknown delivery once more; an unknown one may then arrive twice
    Retry { id: Id },
    /// Call off a delivery that has not left
    Cancel { id: Id },
    /// Say whether an unknown delivery arrived
    #[command(group = clap::ArgGroup::new("end").required(true))]
    Resolve {
        id: Id,
        /// It arrived
        #[arg(long, group = "end")]
        arrived: bool,
        /// It did not arrive: send it once more
        #[arg(long, group = "end")]
        not_arrived: bool,
    },
}

pub async fn run(caller: Caller, what: Deliveries) -> Outcome {
    let calls = caller.quick()?;
    let named = async |id: &Id| caller.id(IdKind::Delivery, id).await;
    let changed = match what {
        Deliveries::List { state, butler, newest } => {
            let found = calls.deliveries_list(butler, state, Some(newest.limit)).await;
            return caller.list(found, list);
        }
        Deliveries::Show { id } => return caller.show(calls.deliveries_show(named(&id).await?).await, show),
        Deliveries::Retry { id } => calls.deliveries_retry(named(&id).await?).await,
        Deliveries::Cancel { id } => calls.deliveries_cancel(named(&id).await?).await,
        Deliveries::Resolve { id, arrived, .. } => calls.deliveries_resolve(named(&id).await?, arrived).await,
    };
    caller.show(changed, tell)
}

fn tell(out: &Out, changed: &Changed) {
    let now = match changed.state.as_str() {
        "pending" => "is sent once more",
        "failed" => "is called off",
        _ => "counts as sent",
    };
    out.line(&format!("Delivery {} {now}; it was {}.", changed.id, changed.before));
    if changed.before == "unknown" && changed.state == "pending" {
        out.toned(Tone::Warn, "If the first one did arrive after all, it arrives twice.");
    }
}

/// Its state; what was put aside troubles nobody any more.
fn standing(delivery: &DeliveryView) -> (Tone, String) {
    let tone = match (delivery.state.as_str(), &delivery.discarded) {
        (state, Some(_)) => return (Tone::Faint, format!("{state}, put aside")),
        ("sent", _) => Tone::Good,
        ("failed" | "dead" | "unknown", _) => Tone::Bad,
        _ => Tone::Warn,
    };
    let state = match delivery.state.as_str() {
        "waiting" => "waiting for a channel",
        state => state,
    };
    (tone, state.to_owned())
}

fn said(delivery: &DeliveryView) -> &str {
    delivery.message.as_deref().or(delivery.emoji.as_deref()).unwrap_or_default()
}

fn list(out: &Out, found: &[DeliveryView]) {
    out.table(found)
        .ids("DELIVERY", |d| d.id)
        .column("MADE", |d| out.moment(d.created_at))
        .column("BY", |d| &d.origin)
        .column("CHANNEL", |d| &d.channel)
        .column("TO", |d| one_line(&d.target, 30))
        .column("STATE", standing)
        .column("TEXT", |d| one_line(said(d), 60))
        .print("No deliveries");
}

fn show(out: &Out, d: &DeliveryView) {
    let aside = d.discarded.as_ref().map(|aside| {
        let text = |key: &str| one_line(aside[key].as_str().unwrap_or_default(), 500);
        format!("by {}: {}", text("by"), text("reason"))
    });
    out.fields()
        .field("delivery", d.id)
        .field("by", &d.origin)
        .field("to", format!("{} over {}", one_line(&d.target, 200), d.channel))
        .field("what", format!("{}, {}, priority {}", d.kind, d.intent, d.priority))
        .field("state", standing(d))
        .field("put aside", aside)
        .field("reason", &d.reason)
        .field("error", &d.last_error)
        .field("made", out.moment(d.created_at))
        .field("due", out.moment(d.due_at))
        .field("ended", d.settled_at.map(|at| out.moment(at)))
        .field("request", d.request_id)
        .field("session", d.session_id)
        .field("receipt", d.receipt.as_ref().map(|r| one_line(&r.to_string(), 500)))
        .print();
    out.line("");
    if let Some(subject) = &d.subject {
        out.toned(Tone::Head, &one_line(subject, 500));
    }
    out.line(&block(said(d)));
    if !d.tries.is_empty() {
        out.line("");
        out.table(&d.tries)
            .column("TRY", |t| t.n)
            .column("BEGAN", |t| out.moment(t.begun_at))
            .column("END", |t| t.outcome.as_deref().unwrap_or("under way"))
            .column("WHAT WAS SEEN", |t| &t.detail)
            .print("");
    }
}
