//! `butlerd chat`: at a terminal with an editor for the line, otherwise line by line.

mod attach;
mod editor;
mod follow;
mod history;
mod live;
mod notes;
mod plain;
mod progress;
mod slash;
mod terminal;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use uuid::Uuid;

use super::approvals_walk::{Whole, walk};
use super::out::Tone;
use super::reach::Reach;
use super::text::one_line;
use super::{Caller, Outcome};
use attach::Attachment;
use notes::ChatNotes;
use slash::{COMMANDS, EDITOR, NAMES, Said};

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
        false => plain::run(Chat::new(caller, args, attached)).await,
    }
}

/// Says one thing, and shows what becomes of it until it is answered.
pub async fn once(caller: Caller, args: ChatArgs, text: String) -> Outcome {
    plain::once(Chat::new(caller, args, Vec::new()), &text).await
}

/// A conversation, however its lines are read.
struct Chat {
    caller: Caller,
    reach: Reach,
    notes: ChatNotes,
    butler: Option<String>,
    thread: String,
    /// What goes with the next message.
    attached: Vec<Attachment>,
    exit: i32,
}

impl Chat {
    fn new(caller: Caller, args: ChatArgs, attached: Vec<Attachment>) -> Self {
        let (reach, notes) = (Reach::new(&caller), ChatNotes::new(&caller));
        Self { caller, reach, notes, butler: args.butler, thread: args.thread, attached, exit: 0 }
    }

    fn greet(&self) {
        let who = one_line(self.butler.as_deref().unwrap_or("the household"), 40);
        self.say(&format!("You talk to {who}. /help lists what you can do here; Ctrl-D ends it."));
    }

    /// The next message as `POST /api/chat` takes it, under an id of its own.
    fn message(&mut self, text: &str) -> Value {
        let id = Uuid::now_v7().to_string();
        let mut body = json!({"text": text, "butler": self.butler, "thread": self.thread, "id": id});
        if !self.attached.is_empty() {
            body["attachments"] = self.attached.drain(..).map(|file| file.body()).collect();
        }
        body
    }

    /// Does what was typed; a message and the end of the chat are the caller's. `ask` gives the answer to a question.
    async fn command(&mut self, said: Said, mut ask: impl AsyncFnMut(&str) -> Option<String>) {
        let out = &self.caller.out;
        let edited = out.screen.is_some();
        match said {
            Said::Nothing | Said::Message(_) | Said::Quit => {}
            Said::Help => {
                out.line(COMMANDS);
                if edited {
                    out.line(EDITOR);
                }
            }
            Said::New => {
                self.thread = Uuid::now_v7().to_string();
                if edited {
                    self.say(
                        "A new conversation: nothing of what was said before is told to anybody who answers in it.",
                    );
                }
            }
            Said::File(file) => {
                let question = format!("Attach {}? [Y/n]", one_line(&file.display().to_string(), 200));
                if !edited || ask(&question).await.is_some_and(|answer| ["", "y", "yes"].contains(&answer.as_str())) {
                    self.attach(&file);
                }
            }
            Said::Attach(Some(file)) => self.attach(&file),
            Said::Attach(None) if self.attached.is_empty() => {
                self.say("No file waits for your next message. /attach FILE")
            }
            Said::Attach(None) => self.tell_attached(0),
            Said::Approve(id) => {
                if let Err(problem) = walk(&self.caller, id.as_ref(), Whole(ask, 0)).await {
                    problem.tell(out);
                }
            }
            Said::Wrong(why) => self.say(&format!("{why} Commands: {}", NAMES.join(", "))),
        }
    }

    fn attach(&mut self, file: &Path) {
        match attach::read(file, &self.attached, self.caller.config.admin.max_body.0) {
            Ok(file) => {
                self.attached.push(file);
                self.tell_attached(self.attached.len() - 1);
            }
            Err(problem) => problem.tell(&self.caller.out),
        }
    }

    /// Tells which files wait for a message, from this one on.
    fn tell_attached(&self, from: usize) {
        for file in self.attached.iter().skip(from) {
            self.say(&format!("{} goes with your next message.", file.shown()));
        }
    }

    /// Tells what is no part of what is said.
    fn say(&self, text: &str) {
        let out = &self.caller.out;
        out.aside(&out.paint(Tone::Faint, text));
    }
}
