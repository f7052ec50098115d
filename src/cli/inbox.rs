//! `butlerd inbox`

use clap::Subcommand;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::common::{Id, Newest};
use super::out::{Out, Tone};
use super::text::{block, one_line};
use super::{Caller, Outcome};
use admin::IdKind;
use admin::api::InboxApiClient;
use inbox::Reopened;
use inbox::messages::{Entry, Part, Said};

/// `inbox`
#[derive(Debug, Subcommand)]
pub enum Inbox {
    /// List the newest messages
    List {
        /// Only messages in this state
        #[arg(long, value_name = "STATE", value_parser = ["accepted", "processing", "done", "dead"])]
        state: Option<String>,
        #[command(flatten)]
        newest: Newest,
    },
    /// Show one message with its parts and answers
    Show { id: Id },
    /// Take up a dead message again. What its sessions did before may be done a second time
    Retry { id: Id },
    /// Give a message to another butler
    Reroute {
        id: Id,
        butler: String,
        /// Only this part of it, by its number
        #[arg(long, value_name = "N")]
        part: Option<i32>,
    },
}

pub async fn run(caller: Caller, what: Inbox) -> Outcome {
    let calls = caller.quick()?;
    let named = async |id: &Id| caller.id(IdKind::Message, id).await;
    match what {
        Inbox::List { state, newest } => caller.list(calls.inbox_list(state, Some(newest.limit), None).await, list),
        Inbox::Show { id } => caller.show(calls.inbox_show(named(&id).await?).await, show),
        Inbox::Retry { id } => caller.show(calls.inbox_retry(named(&id).await?).await, reopened),
        Inbox::Reroute { id, butler, part } => {
            caller.show(calls.inbox_reroute(named(&id).await?, butler, part).await, reopened)
        }
    }
}

/// The rows of an entry that this version can read.
fn rows<T: DeserializeOwned>(of: &[Value]) -> Vec<T> {
    of.iter().filter_map(|row| Deserialize::deserialize(row).ok()).collect()
}

fn tone(state: &str) -> Tone {
    match state {
        "done" => Tone::Good,
        "dead" => Tone::Bad,
        "rerouted" => Tone::Faint,
        _ => Tone::Warn,
    }
}

fn list(out: &Out, entries: &[Entry]) {
    out.table(entries)
        .ids("MESSAGE", |e| e.request_id)
        .column("RECEIVED", |e| out.moment(e.received_at))
        .column("CHANNEL", |e| &e.channel)
        .column("FROM", |e| one_line(&e.sender, 30))
        .column("TRUST", |e| &e.trust)
        .column("STATE", |e| (tone(&e.state), &e.state))
        .column("TEXT", |e| one_line(&e.body, 60))
        .print("Inbox is empty");
}

fn show(out: &Out, entry: &Entry) {
    out.fields()
        .field("message", entry.request_id)
        .field("received", out.moment(entry.received_at))
        .field("from", format!("{} ({}) over {}", one_line(&entry.sender, 80), entry.trust, entry.channel))
        .field("thread", &entry.thread)
        .field("state", (tone(&entry.state), &entry.state))
        .field("error", &entry.last_error)
        .print();
    out.line("");
    out.line(&block(&entry.body));
    let parts: Vec<Part> = rows(&entry.segments);
    if !parts.is_empty() {
        out.line("");
        out.table(&parts)
            .column("PART", |p| p.n)
            .column("BUTLER", |p| &p.butler)
            .column("CHOSEN BY", |p| &p.chosen_by)
            .column("STATE", |p| (tone(&p.state), &p.state))
            .column("TEXT", |p| one_line(&p.prompt, 60))
            .column("ERROR", |p| p.error.as_deref().map(|e| one_line(e, 100)))
            .print("");
    }
    for reply in rows::<Said>(&entry.replies) {
        let said = reply.message.as_deref().or(reply.emoji.as_deref()).unwrap_or_default();
        let note = if reply.auto { " (sent for it)" } else { "" };
        let who = out.paint(Tone::Head, &format!("{}:", reply.butler));
        out.line(&format!("\n{who}{note} {}", block(said)));
    }
}

fn reopened(out: &Out, done: &Reopened) {
    let to = match done.butlers.as_slice() {
        [] => "the switchboard chooses a butler".to_owned(),
        butlers => format!("it goes to {}", butlers.join(", ")),
    };
    out.line(&format!("Message {} is taken up again; {to}.", done.request_id));
    if !done.taken_before.is_empty() {
        let steps: Vec<String> = done.taken_before.iter().map(|step| one_line(step, 80)).collect();
        let steps = steps.join(", ");
        out.toned(
            Tone::Warn,
            &format!("These steps were taken before. They are not undone and may be taken again: {steps}"),
        );
    }
    if let Some(rule) = &done.rule {
        out.line(&format!("To send such messages there at once:\n  {}", one_line(rule, 1000)));
    }
}
