//! `butlerd deliveries`

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::common::{Id, Newest};
use super::out::{Out, Tone};
use super::problem::{FAILED, Problem};
use super::text::{block, one_line};
use super::{Caller, Outcome};
use admin::api::DeliveriesApiClient;
use admin::{IdKind, SavedFile};
use outbox::{Changed, DeliveryPreview, DeliveryView, MESSENGER};

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
    /// Send somebody a message
    Send(NewMessage),
    /// Save a file that came along with a message, where its channel shows none
    Save {
        /// Which file, as the message says it
        file: String,
        /// Where to; never over another file [default: the file's name, here]
        #[arg(long, value_name = "PATH")]
        path: Option<PathBuf>,
    },
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

/// What is to be sent
#[derive(Debug, Args)]
pub struct NewMessage {
    /// The text; `-` reads it from standard input
    message: String,
    /// Whom: a person whom the household knows, or a configured end [default: the owner]
    #[arg(long, value_name = "WHO")]
    to: Option<String>,
    /// Over which channel [default: the one that the owner chose]
    #[arg(long, value_name = "CHANNEL")]
    channel: Option<String>,
    #[arg(long, value_name = "TEXT")]
    subject: Option<String>,
    /// Only high is delivered in the owner's quiet hours
    #[arg(long, value_name = "PRIORITY", value_parser = ["high", "medium", "low"])]
    priority: Option<String>,
    /// Only show to whom it would go, when, and how it would look there
    #[arg(long)]
    dry_run: bool,
}

pub async fn run(caller: Caller, what: Deliveries) -> Outcome {
    let calls = caller.quick()?;
    let named = async |id: &Id| caller.id(IdKind::Delivery, id).await;
    let changed = match what {
        Deliveries::Send(new) => return send(&caller, new).await,
        Deliveries::Save { file, path } => {
            return save(&caller, &caller.got(calls.deliveries_file(file).await)?, path);
        }
        Deliveries::List { state, butler, newest } => {
            let found = calls.deliveries_list(butler, state, Some(newest.limit), None).await;
            return caller.list(found, list);
        }
        Deliveries::Show { id } => return caller.show(calls.deliveries_show(named(&id).await?).await, show),
        Deliveries::Retry { id } => calls.deliveries_retry(named(&id).await?).await,
        Deliveries::Cancel { id } => calls.deliveries_cancel(named(&id).await?).await,
        Deliveries::Resolve { id, arrived, .. } => calls.deliveries_resolve(named(&id).await?, arrived).await,
    };
    caller.show(changed, tell)
}

async fn send(caller: &Caller, new: NewMessage) -> Outcome {
    let NewMessage { message, to, channel, subject, priority, dry_run } = new;
    let message = match message.as_str() {
        "-" => std::io::read_to_string(std::io::stdin())
            .map_err(|e| Problem::usage(format!("The text can't be read: {e}."), ""))?,
        _ => message,
    };
    if message.trim().is_empty() {
        return Err(Problem::usage("The message is empty, and nothing was sent.", ""));
    }
    if dry_run {
        let looked = caller.quick()?.deliveries_preview(message, to, channel, subject, priority).await;
        return caller.show(looked, preview);
    }
    let args = json!({"intent": "send", "message": message, "recipient": to, "channel": channel, "subject": subject,
                      "priority": priority});
    let sent: Value = caller.tool(MESSENGER, "notify", args).await?;
    if sent["delivery_id"].is_null() {
        let why = sent["error"].as_str().unwrap_or("Nothing was sent.").to_owned();
        return Err(Problem::new(FAILED, "not_sent", why, ""));
    }
    let bad = ["failed", "dead", "unknown"].iter().any(|state| sent["state"] == *state);
    caller.out.answer(&sent, |out, sent| {
        let text = |key: &str| one_line(sent[key].as_str().unwrap_or_default(), 200);
        out.line(&format!(
            "Delivery {} to {} over {}: {}.",
            text("delivery_id"),
            text("recipient"),
            text("channel"),
            text("state")
        ));
        for more in ["error", "note"] {
            if let Some(said) = sent[more].as_str() {
                out.aside(&one_line(said, 500));
            }
        }
    })?;
    Ok(if bad { FAILED } else { 0 })
}

fn preview(out: &Out, looked: &DeliveryPreview) {
    let whom = match looked.own {
        true => format!("the owner alone ({})", one_line(&looked.target, 200)),
        false => format!("{} ({}), outside of the house", one_line(&looked.name, 100), one_line(&looked.target, 200)),
    };
    out.fields()
        .field("to", whom)
        .field("over", &looked.channel)
        .field("when", looked.deferred_until.map_or_else(|| "at once".to_owned(), |at| out.moment(at)))
        .field("refused", &looked.refused)
        .print();
    for message in &looked.messages {
        out.line("");
        out.line(&block(message));
    }
    for note in &looked.notes {
        out.aside(note);
    }
    out.aside("Nothing was sent.");
}

/// Writes a file where there is none.
fn save(caller: &Caller, file: &SavedFile, path: Option<PathBuf>) -> Outcome {
    let path = path.unwrap_or_else(|| PathBuf::from(&file.name));
    let cant = |why: String| {
        Problem::new(FAILED, "not_saved", format!("{} can't be written: {why}.", path.display()), "Use --path.")
    };
    let content = STANDARD.decode(&file.content_base64).map_err(|e| cant(e.to_string()))?;
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    let written = opened.and_then(|mut opened| opened.write_all(&content).and_then(|()| opened.sync_all()));
    written.map_err(|e| cant(e.to_string()))?;
    let said = json!({"status": "saved", "path": path.display().to_string(), "size": content.len()});
    caller.out.answer(&said, |out, _| out.line(&format!("{} is saved.", path.display())))
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
    for file in &d.files {
        let kept =
            if file.kept { format!("; butlerd deliveries save {}", file.handle) } else { "; not kept".to_owned() };
        out.aside(&format!(
            "File: {} ({}, {} bytes){kept}",
            one_line(&file.name, 200),
            one_line(&file.media_type, 100),
            file.size
        ));
    }
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
