//! `butlerd chat`: at a terminal with an editor for the line, otherwise line by line.

mod attach;
mod editor;
mod follow;
mod history;
mod live;
mod notes;
mod plain;
mod slash;
mod terminal;
mod told;

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Caller, Outcome};
use attach::Attachment;

/// `chat`
#[derive(Debug, Args)]
pub struct ChatArgs {
    /// Whom to talk to [default: the switchboard chooses a butler for each message]
    pub butler: Option<String>,
    /// The conversation that the messages belong to
    #[arg(long, value_name = "NAME", default_value = "main")]
    pub thread: String,
    /// A file that goes with the first message; may be given again
    #[arg(long, value_name = "FILE")]
    pub attach: Vec<PathBuf>,
}

pub async fn run(caller: Caller, args: ChatArgs) -> Outcome {
    let mut attached = Vec::new();
    for file in &args.attach {
        attached.push(attach::read(file, &attached, caller.config.admin.max_body.0)?);
    }
    let terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    match terminal && !caller.out.json && std::env::var_os("TERM").is_none_or(|term| term != "dumb") {
        true => terminal::run(caller, args, attached).await,
        false => plain::run(caller, args, attached).await,
    }
}

/// A message as `POST /api/chat` takes it, under an id of its own.
fn message(text: &str, butler: Option<&str>, thread: &str, attached: &[Attachment]) -> Value {
    let mut body = json!({"text": text, "butler": butler, "thread": thread, "id": Uuid::now_v7().to_string()});
    if !attached.is_empty() {
        body["attachments"] = attached.iter().map(Attachment::body).collect();
    }
    body
}
