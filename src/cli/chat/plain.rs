//! The chat line by line: for scripts, and for terminals that can't do more.

use std::collections::HashMap;
use std::io::IsTerminal;

use uuid::Uuid;

use super::attach::Attachment;
use super::follow::Follow;
use super::notes::ChatNotes;
use super::{ChatArgs, message};
use crate::events::SHOWN;
use crate::lines;
use crate::out::{Out, Tone};
use crate::problem::{FAILED, Problem};
use crate::reach::Reach;
use crate::text::{block, brief, one_line};
use crate::{Caller, Outcome};
use inbox::News;

pub async fn run(caller: Caller, args: ChatArgs, mut attached: Vec<Attachment>) -> Outcome {
    let out = caller.out.clone();
    let terminal = std::io::stdin().is_terminal();
    let mut lines = lines::typed();
    let reach = Reach::new(&caller);
    if terminal {
        let who = args.butler.as_deref().unwrap_or("the household");
        out.aside(&out.paint(Tone::Faint, &format!("You talk to {}. Ctrl-D ends it.", one_line(who, 40))));
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
        let body = message(text.trim_end(), args.butler.as_deref(), &args.thread, &attached);
        let mut follow = Follow::new(reach.clone());
        let mut view = View { out: out.clone(), named: args.butler.is_some(), held: HashMap::new() };
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
        attached.clear();
    }
}

/// Shows what becomes of one message.
struct View {
    out: Out,
    /// The person has named the butler.
    named: bool,
    /// The last text of each session: it may turn out to be the answer, which is shown once.
    held: HashMap<Uuid, (String, String)>,
}

impl View {
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
            News::Reply { butler, kind, message, emoji, .. } => {
                let said = message.as_deref().or(emoji.as_deref()).unwrap_or_default();
                self.held.retain(|_, (who, text)| who != butler || text.trim() != said.trim());
                let tone = if kind == "failure" { Tone::Bad } else { Tone::Head };
                out.line(&format!("{} {}", out.paint(tone, &format!("{}:", one_line(butler, 40))), block(said)));
            }
            News::Ended { state, error } => {
                self.release(None);
                if let (Some(error), "dead") = (error, state.as_str()) {
                    out.aside(&out.paint(Tone::Bad, &format!("The message failed: {}", one_line(error, 1000))));
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
