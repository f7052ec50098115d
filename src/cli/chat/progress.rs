//! What becomes of a message, as it is told at a terminal and line by line.

use std::collections::HashMap;

use serde_json::Value;
use uuid::Uuid;

use crate::events::SHOWN;
use crate::out::{Out, Tone};
use crate::text::{block, brief, one_line};

/// What was told of one message.
pub struct Progress {
    pub out: Out,
    /// The person has named the butler.
    pub named: bool,
    pub request: Option<Uuid>,
    /// The last text of each session that is not shown yet: it may turn out to be the answer, which is shown once.
    pub held: HashMap<Uuid, (String, String)>,
    /// A butler has said that it failed.
    failed: bool,
    /// It was told that it waits.
    waited: bool,
}

impl Progress {
    pub fn new(out: &Out, named: bool) -> Self {
        Self { out: out.clone(), named, request: None, held: HashMap::new(), failed: false, waited: false }
    }

    /// A butler got it.
    pub fn routed(&self, butler: &str) {
        if !self.named {
            self.faint(&format!("→ {}", one_line(butler, 40)));
        }
    }

    pub fn called(&self, tool: &str, arguments: &Value) {
        self.faint(&format!("  {} {}", one_line(tool, 80), brief(arguments, SHOWN)));
    }

    pub fn call_failed(&self, tool: &str, content: &str) {
        self.faint(&format!("  {} failed: {}", one_line(tool, 80), one_line(content, SHOWN)));
    }

    /// It can't go on just now.
    pub fn waits(&mut self, butler: Option<&str>, why: &str) {
        if std::mem::replace(&mut self.waited, true) {
            return;
        }
        let who = butler.map_or_else(String::new, |butler| format!("{}: ", one_line(butler, 40)));
        let why = one_line(why, 500);
        let why = why.trim_end_matches('.');
        self.aside(Tone::Warn, &format!("{who}{why}; butlerd tries again by itself, and the answer is shown here."));
    }

    /// A butler has answered. Returns the tone of the answer.
    pub fn replied(&mut self, butler: &str, kind: &str, said: &str) -> Tone {
        self.held.retain(|_, (who, text)| who != butler || text.trim() != said.trim());
        let failure = kind == "failure";
        self.failed |= failure;
        if failure { Tone::Bad } else { Tone::Head }
    }

    /// It came to its end, which may be none that anybody wanted, and no butler may have said so.
    pub fn ended(&mut self, state: &str, error: Option<&str>) {
        self.release(None);
        if state != "dead" {
            return;
        }
        if let Some(error) = error.filter(|_| !self.failed) {
            self.aside(Tone::Bad, &format!("The message failed: {}", one_line(error, 1000)));
        }
        if let Some(request) = self.request {
            self.aside(Tone::Faint, &format!("  Once that is mended: butlerd inbox retry {request}"));
        }
    }

    /// Shows what was held back, of one session or of all: it was no answer.
    pub fn release(&mut self, session: Option<Uuid>) {
        let ids: Vec<Uuid> = self.held.keys().copied().filter(|id| session.is_none_or(|s| s == *id)).collect();
        for (_, text) in ids.iter().filter_map(|id| self.held.remove(id)) {
            for line in block(&text).lines() {
                self.out.toned(Tone::Faint, &format!("  {line}"));
            }
        }
    }

    /// Shows how far a session of several is.
    pub fn stage(&self, stage: &str, by: Option<&str>, text: &str) {
        let by = by.map(|by| format!(", {}", one_line(by, 60))).unwrap_or_default();
        self.aside(Tone::Faint, &format!("  {}{by}: {}", one_line(stage, 40), one_line(text, 200)));
    }

    pub fn faint(&self, text: &str) {
        self.out.toned(Tone::Faint, text);
    }

    fn aside(&self, tone: Tone, text: &str) {
        self.out.aside(&self.out.paint(tone, text));
    }
}
