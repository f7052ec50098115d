//! What a session learned, taken from its transcript when the assistant stops.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use base::Clock;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::input::Input;
use super::state::StateDirectory;
use super::transcript::{self, Excerpt};
use super::{Daemon, HookError, Surroundings, extract};
use crate::connection::ConnectionError;

/// So many memories are made at most each time the assistant stops.
pub const MOST_AT_ONCE: usize = 5;
/// And so many of a whole session.
pub const MOST_OF_A_SESSION: usize = 20;
/// Mark what was made so.
const TAGS: [&str; 2] = ["auto", "source:stop-hook"];
/// So many lines that a session was shown are kept, so that it does not store them as news.
const MOST_KNOWN: usize = 200;
/// So many characters of each.
const LONGEST_KNOWN: usize = 600;
/// How a session went on is forgotten after so long.
const KEPT: SignedDuration = SignedDuration::from_hours(60 * 24);
/// So many files at most are looked at for that.
const LOOKED_AT: usize = 500;
/// Nothing is asked of the daemon that could not be answered any more.
const LAST_QUESTION: Duration = Duration::from_millis(850);
const FOLDER: &str = "transcripts";

/// How far a session's transcript was read.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Progress {
    offset: u64,
    /// How many memories were made.
    stored: usize,
    /// Hashes of all that was sent, so that nothing is sent twice.
    sent: BTreeSet<String>,
    /// What the session was shown of memories, the newest last.
    known: Vec<String>,
}

/// Makes memories of what is new in the transcript.
///
/// How far it was read is kept when all of it was sent: a Stop that broke off is made up for by the next one.
pub fn store(input: &Input, around: &Surroundings<'_>, daemon: &mut dyn Daemon) -> Result<(), HookError> {
    let key = input.own_session().map(str::to_owned).or_else(|| Some(input.transcript()?.display().to_string()));
    let file = key.map(|key| format!("{FOLDER}/{}.json", short_hash(&key)));
    let Some((state, file)) = around.state.zip(file) else {
        // How far the transcript was read can't be kept, and so only the last message is sure to be new.
        let mut excerpt = Excerpt::default();
        add_last_message(input, &mut excerpt);
        return send(&excerpt, &mut Progress::default(), around.until, daemon);
    };
    // Another Stop of this session is at work.
    let Some(_lock) = state.lock(&format!("{file}.lock")) else { return Ok(()) };
    let before = state.read(&file);
    if before.is_none() {
        forget_old(state);
    }
    let mut progress: Progress = before.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    let mut excerpt = match input.transcript() {
        Some(path) => transcript::read(path, progress.offset).map_err(HookError::Transcript)?,
        None => Excerpt { end: progress.offset, ..Excerpt::default() },
    };
    add_last_message(input, &mut excerpt);
    progress.know(&excerpt.known);
    let sent = send(&excerpt, &mut progress, around.until, daemon);
    if sent.is_ok() {
        progress.offset = excerpt.end;
    }
    let text = serde_json::to_string(&progress).unwrap_or_default();
    state.replace(&file, &text).map_err(|error| HookError::State(state.path(&file), error))?;
    sent
}

/// The last message may come before the transcript has it.
fn add_last_message(input: &Input, excerpt: &mut Excerpt) {
    let last = input.text("last_assistant_message");
    if !last.is_empty() && !excerpt.texts.iter().any(|text| text == last) {
        excerpt.texts.push(last.to_owned());
    }
}

fn send(excerpt: &Excerpt, progress: &mut Progress, until: Instant, daemon: &mut dyn Daemon) -> Result<(), HookError> {
    let most = MOST_AT_ONCE.min(MOST_OF_A_SESSION.saturating_sub(progress.stored));
    let known: Vec<&str> = progress.known.iter().chain(&excerpt.known).map(String::as_str).collect();
    let mut found = extract::memories(&excerpt.texts, &known);
    found.retain(|memory| !progress.sent.contains(&short_hash(&memory.content)));
    extract::best(&mut found, most);
    for memory in found {
        if Instant::now() + LAST_QUESTION > until {
            return Err(HookError::Unfinished);
        }
        let kind = memory.kind.as_str();
        let answer = daemon.ask("remember", json!({"type": kind, "content": memory.content, "tags": TAGS}));
        let answer = answer.or_else(judged)?;
        // What was known already takes no place of anything new.
        progress.stored += usize::from(answer["status"] == "stored");
        progress.sent.insert(short_hash(&memory.content));
    }
    Ok(())
}

/// What the daemon did not want to remember is no failure; that it could not is one.
pub fn judged(error: ConnectionError) -> Result<Value, ConnectionError> {
    match error {
        ConnectionError::Refused(refusal) if refusal.code != "unavailable" => Ok(Value::Null),
        error => Err(error),
    }
}

impl Progress {
    fn know(&mut self, more: &[String]) {
        for text in more {
            let text: String = text.chars().take(LONGEST_KNOWN).collect();
            if !self.known.contains(&text) {
                self.known.push(text);
            }
        }
        self.known.drain(..self.known.len().saturating_sub(MOST_KNOWN));
    }
}

fn short_hash(text: &str) -> String {
    base::text::hex(&Sha256::digest(text.as_bytes())[..16])
}

/// Removes how sessions went on that ended long ago.
fn forget_old(state: &StateDirectory) {
    let Ok(files) = std::fs::read_dir(state.path(FOLDER)) else { return };
    let now = Clock::of_environment().now();
    for file in files.flatten().take(LOOKED_AT) {
        let changed = file.metadata().and_then(|of| of.modified()).ok().and_then(|at| Timestamp::try_from(at).ok());
        if changed.is_some_and(|changed| now.duration_since(changed) > KEPT) {
            let _ = std::fs::remove_file(file.path());
        }
    }
}
