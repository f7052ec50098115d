//! What becomes of a message, shown at a terminal as it happens.

use std::cell::Cell;
use std::collections::HashSet;
use std::rc::Rc;

use tokio::sync::Notify;
use uuid::Uuid;

use super::progress::Progress;
use crate::markdown::Speech;
use crate::out::Tone;
use crate::screen::Screen;
use crate::text::one_line;
use inbox::News;

/// The end of an unfinished line that stands in the status.
const TAIL: usize = 70;

/// Whether the person waits for the message, or goes on meanwhile.
#[derive(Default)]
pub struct Stage {
    aside: Cell<bool>,
    begun: Cell<bool>,
    /// It goes on later by itself: nobody needs to wait.
    pub waits: Notify,
}

impl Stage {
    /// From now on the person does something else.
    pub fn set_aside(&self) {
        self.aside.set(true);
    }

    /// Whether somebody works on it, or has tried to.
    pub fn has_begun(&self) -> bool {
        self.begun.get()
    }
}

/// Shows what becomes of one message.
pub struct Live {
    progress: Progress,
    screen: Screen,
    stage: Rc<Stage>,
    /// The text that is being written.
    written: Option<Written>,
    /// Texts that were shown as they were written, by butler.
    shown: Vec<(String, String)>,
    /// Sessions that have answered by themselves: what they write besides is a remark.
    answered: HashSet<Uuid>,
}

struct Written {
    session: Uuid,
    speech: Speech,
    text: String,
}

impl Live {
    pub fn new(progress: Progress, screen: &Screen, stage: &Rc<Stage>) -> Self {
        let (screen, stage) = (screen.clone(), stage.clone());
        Self { progress, screen, stage, written: None, shown: Vec::new(), answered: HashSet::new() }
    }

    pub fn show(&mut self, news: &News) {
        self.stage.begun.set(self.stage.begun.get() || !matches!(news, News::Accepted { .. }));
        match news {
            News::Accepted { request_id, .. } => {
                self.progress.request = Some(*request_id);
                self.status(if self.progress.named { "handed on" } else { "looking for the right butler" });
            }
            News::Routed { butler, .. } => {
                self.progress.routed(butler);
                self.status(&format!("{} is called", one_line(butler, 40)));
            }
            News::Session { butler, .. } => self.thinks(butler),
            News::TextDelta { butler, session_id, start, text } => self.write(butler, *session_id, *start, text),
            News::Text { butler, session_id, text, .. } => self.text(butler, *session_id, text),
            News::Stage { butler, stage, by, text, .. } => {
                self.progress.stage(stage, by.as_deref(), text);
                self.thinks(butler);
            }
            News::ToolCall { butler, session_id, name, arguments, .. } => {
                self.progress.release(Some(*session_id));
                if name == "notify" {
                    // What it says is shown when it is said.
                    self.answered.insert(*session_id);
                } else {
                    self.progress.called(name, arguments);
                }
                self.status(&format!("{} calls {}", one_line(butler, 40), one_line(name, 60)));
            }
            News::ToolResult { butler, is_error, name, content, .. } => {
                if *is_error {
                    self.progress.call_failed(name, content);
                }
                self.thinks(butler);
            }
            News::Waiting { butler, why, again_ms } => self.waits(butler.as_deref(), why, *again_ms),
            News::Reply { butler, kind, message, emoji, .. } => {
                let said = message.as_deref().or(emoji.as_deref()).unwrap_or_default();
                let tone = self.progress.replied(butler, kind, said);
                let written = |(who, text): &(String, String)| who == butler && text == said.trim();
                if tone == Tone::Bad || !self.shown.iter().any(written) {
                    Speech::say(&self.progress.out, butler, tone, said);
                }
            }
            News::Ended { state, error } => {
                self.broken_off();
                self.progress.ended(state, error.as_deref());
            }
            News::Unknown => {}
        }
    }

    /// A piece of a text that is being written. One at a time is shown so; others come whole.
    fn write(&mut self, butler: &str, session: Uuid, start: usize, piece: &str) {
        if self.answered.contains(&session) || self.written.as_ref().is_some_and(|w| w.session != session) {
            return;
        }
        if start == 0 {
            self.broken_off();
            let speech = Speech::new(&self.progress.out, butler, Tone::Head);
            self.written = Some(Written { session, speech, text: String::new() });
        }
        // Whoever has missed a piece waits for the whole.
        let Some(written) = self.written.as_mut().filter(|w| w.text.len() == start) else { return };
        written.text.push_str(piece);
        written.speech.push(piece);
        let rest = written.speech.unfinished();
        let cut = rest.char_indices().rev().nth(TAIL).map_or(0, |(at, _)| at);
        let tail = format!("{}{}", if cut > 0 { "…" } else { "" }, &rest[cut..]);
        self.status(if tail.trim().is_empty() { "writing" } else { &tail });
    }

    /// A text that is whole. What was written of it is not shown again.
    fn text(&mut self, butler: &str, session: Uuid, text: &str) {
        self.progress.release(Some(session));
        match self.written.take_if(|w| w.session == session) {
            Some(mut written) if text.starts_with(&written.text) => {
                written.speech.push(&text[written.text.len()..]);
                written.speech.end();
                self.shown.push((butler.to_owned(), text.trim().to_owned()));
            }
            begun => {
                self.written = begun;
                self.broken_off();
                self.progress.held.insert(session, (butler.to_owned(), text.to_owned()));
            }
        }
        self.thinks(butler);
    }

    /// What was begun has no end.
    fn broken_off(&mut self) {
        if let Some(mut written) = self.written.take() {
            written.speech.end();
            self.progress.faint("  (it broke off here)");
        }
    }

    fn waits(&mut self, butler: Option<&str>, why: &str, again_ms: u64) {
        self.broken_off();
        self.progress.waits(butler, why);
        self.status(&format!("the next try comes in {}", crate::text::span(again_ms.cast_signed())));
        self.stage.waits.notify_one();
    }

    fn thinks(&self, butler: &str) {
        self.status(&format!("{} is thinking", one_line(butler, 40)));
    }

    fn status(&self, what: &str) {
        if !self.stage.aside.get() {
            self.screen.status(&base::text::clean(what));
        }
    }
}
