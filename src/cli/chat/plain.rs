//! The chat line by line: for scripts, and for terminals that can't do more.

use std::collections::HashMap;
use std::io::IsTerminal;

use uuid::Uuid;

use super::attach::Attachment;
use super::follow::Follow;
use super::notes::ChatNotes;
use super::slash::{COMMANDS, NAMES, Said};
use super::{ChatArgs, attach, message, told};
use crate::events::SHOWN;
use crate::lines::{self, Lines};
use crate::out::{Out, Tone};
use crate::problem::{FAILED, Problem};
use crate::reach::Reach;
use crate::text::{block, brief, one_line};
use crate::{Caller, Outcome, approvals};
use inbox::News;

pub async fn run(caller: Caller, args: ChatArgs, attached: Vec<Attachment>) -> Outcome {
    let out = caller.out.clone();
    let terminal = std::io::stdin().is_terminal();
    let mut lines = lines::typed();
    let reach = Reach::new(&caller);
    let ChatArgs { butler, thread, .. } = args;
    let mut talk = Talk { butler, thread, attached };
    if terminal {
        let who = talk.butler.as_deref().unwrap_or("the household");
        out.aside(&out.paint(
            Tone::Faint,
            &format!("You talk to {}. /help lists what you can do here; Ctrl-D ends it.", one_line(who, 40)),
        ));
    }
    let mut exit = 0;
    let mut notes = ChatNotes::new(&caller);
    // What came while nobody was there.
    notes.look(0).await;
    loop {
        if terminal {
            out.ask("> ");
        }
        let line = loop {
            tokio::select! {
                line = lines.recv() => break line,
                shown = notes.next() => if shown && terminal {
                    out.ask("> ");
                },
                _ = tokio::signal::ctrl_c() => return Ok(exit),
            }
        };
        let Some(line) = line else { return Ok(exit) };
        let (_, text) = line.map_err(|e| Problem::usage(format!("What was typed can't be read: {e}."), ""))?;
        if text.trim().is_empty() {
            continue;
        }
        let text = match terminal {
            // A script's lines are messages, however they begin.
            false => text,
            true => match talk.command(&caller, &text, &mut lines).await {
                Typed::Message(text) => text.trim_start().to_owned(),
                Typed::Done => continue,
                Typed::Quit => return Ok(exit),
            },
        };
        let body = message(text.trim_end(), talk.butler.as_deref(), &talk.thread, &talk.attached);
        let mut follow = Follow::new(reach.clone());
        let mut view = View::new(&out, talk.butler.is_some());
        let said = tokio::select! {
            said = follow.say(&body, |news| view.show(news)) => Some(said),
            _ = tokio::signal::ctrl_c() => None,
        };
        match said.unwrap_or_else(|| Err(follow.left())) {
            Ok(true) => {}
            Ok(false) => exit = FAILED,
            // The next one may be right.
            Err(problem) if terminal && problem.code == "invalid_envelope" => problem.tell(&out),
            Err(problem) => return Err(problem),
        }
        talk.attached.clear();
    }
}

/// What the next message goes with.
struct Talk {
    butler: Option<String>,
    thread: String,
    attached: Vec<Attachment>,
}

/// What a person typed.
enum Typed {
    Message(String),
    /// A command, which is done.
    Done,
    Quit,
}

impl Talk {
    /// Does what was typed, if it is a command.
    async fn command(&mut self, caller: &Caller, text: &str, lines: &mut Lines) -> Typed {
        let out = &caller.out;
        match Said::of(text.trim_end_matches(['\r', '\n'])) {
            Said::Message(text) => return Typed::Message(text),
            Said::Quit => return Typed::Quit,
            Said::Nothing => {}
            Said::Help => out.line(COMMANDS),
            Said::New => self.thread = Uuid::now_v7().to_string(),
            Said::File(file) | Said::Attach(Some(file)) => {
                match attach::read(&file, &self.attached, caller.config.admin.max_body.0) {
                    Ok(file) => {
                        out.aside(&format!("{} goes with your next message.", file.shown()));
                        self.attached.push(file);
                    }
                    Err(problem) => problem.tell(out),
                }
            }
            Said::Attach(None) => match self.attached.as_slice() {
                [] => out.aside("No file waits for your next message. /attach FILE"),
                files => files.iter().for_each(|f| out.aside(&format!("{} goes with your next message.", f.shown()))),
            },
            Said::Approve(id) => {
                let ask = async |question: &str| {
                    out.ask(&format!("{question} "));
                    let line = lines.recv().await?.ok();
                    line.map(|(_, answer)| answer.trim().to_lowercase())
                };
                if let Err(problem) = approvals::in_turn(caller, id.as_ref(), ask).await {
                    problem.tell(out);
                }
            }
            Said::Wrong(why) => out.aside(&format!("{why} Commands: {}", NAMES.join(", "))),
        }
        Typed::Done
    }
}

/// Shows what becomes of one message.
struct View {
    out: Out,
    /// The person has named the butler.
    named: bool,
    /// The last text of each session: it may turn out to be the answer, which is shown once.
    held: HashMap<Uuid, (String, String)>,
    request: Option<Uuid>,
    /// A butler has said that it failed.
    failed: bool,
    /// It was told that it waits.
    waited: bool,
}

impl View {
    fn new(out: &Out, named: bool) -> Self {
        Self { out: out.clone(), named, held: HashMap::new(), request: None, failed: false, waited: false }
    }

    fn show(&mut self, news: &News) {
        if self.out.json {
            // Each text comes whole as well.
            return if !matches!(news, News::TextDelta { .. }) {
                self.out.record(news)
            };
        }
        let out = self.out.clone();
        let faint = |text: &str| out.toned(Tone::Faint, text);
        match news {
            News::Accepted { request_id, .. } => self.request = Some(*request_id),
            News::Routed { butler, .. } if !self.named => faint(&format!("→ {}", one_line(butler, 40))),
            News::Text { butler, session_id, text, .. } => {
                self.release(Some(*session_id));
                self.held.insert(*session_id, (butler.clone(), text.clone()));
            }
            News::ToolCall { session_id, name, arguments, .. } => {
                self.release(Some(*session_id));
                faint(&format!("  {} {}", one_line(name, 80), brief(arguments, SHOWN)));
            }
            News::ToolResult { is_error: true, name, content, .. } => {
                faint(&format!("  {} failed: {}", one_line(name, 80), one_line(content, SHOWN)));
            }
            News::Waiting { butler, why, .. } if !std::mem::replace(&mut self.waited, true) => {
                out.aside(&out.paint(Tone::Warn, &told::waits(butler.as_deref(), why)));
            }
            News::Reply { butler, kind, message, emoji, .. } => {
                let said = message.as_deref().or(emoji.as_deref()).unwrap_or_default();
                self.held.retain(|_, (who, text)| who != butler || text.trim() != said.trim());
                let failure = kind == "failure";
                self.failed |= failure;
                let tone = if failure { Tone::Bad } else { Tone::Head };
                out.line(&format!("{} {}", out.paint(tone, &format!("{}:", one_line(butler, 40))), block(said)));
            }
            News::Ended { state, error } => {
                self.release(None);
                if state != "dead" {
                    return;
                }
                if let Some(error) = error.as_deref().filter(|_| !self.failed) {
                    out.aside(&out.paint(Tone::Bad, &told::failed(error)));
                }
                if let Some(request) = self.request {
                    out.aside(&out.paint(Tone::Faint, &told::remedy(request)));
                }
            }
            _ => {}
        }
    }

    /// Shows what was held back, of one session or of all: it was no answer.
    fn release(&mut self, session: Option<Uuid>) {
        let ids: Vec<Uuid> = self.held.keys().copied().filter(|id| session.is_none_or(|s| s == *id)).collect();
        for (_, text) in ids.iter().filter_map(|id| self.held.remove(id)) {
            for line in block(&text).lines() {
                self.out.toned(Tone::Faint, &format!("  {line}"));
            }
        }
    }
}
