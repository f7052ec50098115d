//! Notes in the chat: what butlers and butlerd itself have for the owner.

use std::collections::HashSet;
use std::time::Duration;

use http::Method;
use outbox::Note;
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use crate::Caller;
use crate::markdown::Speech;
use crate::out::{Out, Tone};
use crate::reach::Reach;

/// How many seconds a question for notes waits for one.
const WAIT: u64 = 25;

/// What the daemon answers about notes.
#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    notes: Vec<Note>,
}

/// What butlers and butlerd itself have for the owner, as it comes.
pub struct ChatNotes {
    reach: Reach,
    out: Out,
    /// Shown here, whether or not the daemon knows.
    shown: HashSet<Uuid>,
}

impl ChatNotes {
    pub fn new(caller: &Caller) -> Self {
        Self { reach: Reach::new(caller), out: caller.out.clone(), shown: HashSet::new() }
    }

    /// Waits for the next ones and shows them. Dropped while it waits, it has shown nothing.
    pub async fn next(&mut self) -> bool {
        let shown = self.look(WAIT).await;
        if !shown {
            // It may have been refused at once.
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        shown
    }

    /// Shows what there is, or comes within so many seconds. A daemon that can't be asked shows nothing: what is typed
    /// finds out why.
    pub async fn look(&mut self, wait: u64) -> bool {
        let path = format!("/api/chat/notes?wait={wait}");
        let Ok(response) = self.reach.send(Method::GET, &path, None).await else { return false };
        let Ok(Answer { notes }) = response.json().await else { return false };
        if notes.is_empty() {
            return false;
        }
        for note in notes.iter().filter(|note| self.shown.insert(note.id)) {
            match self.out.json {
                true => self.out.record(&json!({"event": "note", "note": note})),
                false => Speech::say(&self.out, &note.from, Tone::Head, &note.message),
            }
        }
        let ids: Vec<Uuid> = notes.iter().map(|note| note.id).collect();
        // Not taken, they are offered again, and known here.
        let _ = self.reach.send(Method::POST, "/api/chat/notes", Some(&json!({"seen": ids}))).await;
        true
    }
}
