//! What a person's program and the daemon say to each other over the journal socket: one JSON object a line, each way.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use base::local::{MAX_LINE, Refusal};

use crate::file::{FileName, Kind};
use crate::pack::{Part, joined};

/// A request, one line: what is to be done. Each has its own answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Op {
    /// What an interactive session is told as it starts: [`Start`]. With `bytes` it has at most so many bytes as it may
    /// else have characters.
    Start {
        #[serde(default)]
        bytes: bool,
    },
    /// What an interactive session is told at a prompt: [`Threshold`].
    Threshold,
    /// Fills what is empty from the templates: [`Initialized`].
    Init,
    /// [`Status`].
    Status,
    /// [`SyncStatus`].
    SyncStatus,
    /// What was said from `begin` to `end`, and how the journal stands: [`Range`]. Begins a sync by hand, which the
    /// checkpoint ends. With `all` also what others than the owner and the house said.
    Range { begin: i64, end: i64, all: bool },
    /// Has the daemon sync now: [`SyncBegun`].
    Sync,
    /// Ends a sync by hand: [`Checkpoint`].
    Checkpoint { end: i64, summary: String },
    /// The latest, the newest first; with `before` those with a lower number: a list of [`Checkpoint`].
    Checkpoints {
        most: u32,
        #[serde(default)]
        before: Option<i64>,
    },
    /// What was said last, the oldest of them first: a list of [`Said`].
    Log { most: u32 },
    /// One file as the journal has it: [`FileText`].
    Show { file: String },
    /// Files that somebody edited, each with what changed: a list of [`Edit`].
    Edits,
    /// Takes edits in, as far as the files still have these hashes: [`Accepted`]. `looked`: a person was shown them at a
    /// terminal and said yes. `deletions`: without that, too, lines of a log may go.
    Accept {
        edits: Vec<EditId>,
        #[serde(default)]
        looked: bool,
        #[serde(default)]
        deletions: bool,
    },
    /// Takes the last sync's or the last accepted edit's changes back, or only says which these are: [`Undone`].
    Undo { dry_run: bool },
    /// [`Rotated`].
    Rotate,
    /// [`Checked`].
    Check,
    /// Takes files of another layout in: [`Migrated`].
    Migrate { files: Vec<FileText>, dry_run: bool },
    /// Takes the last migration back: [`Migrated`].
    MigrateBack,
}

/// An answer, one line.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Done(Value),
    /// Nothing was done.
    Refused(Refusal),
}

/// What a session is told as it starts, in the order in which it is shown. What others tell it as well goes between.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Start {
    /// Core memory, with its marks; `None`: there is none.
    pub core: Option<String>,
    /// References, the last checkpoint, recent conversations, and what is to be done: what fits where nobody else tells
    /// anything.
    #[serde(default)]
    pub parts: Vec<Part>,
}

impl Start {
    /// All behind core memory; `None`: there is nothing.
    pub fn rest(&self) -> Option<String> {
        (!self.parts.is_empty()).then(|| joined(&self.parts))
    }
}

/// What a session is told at a prompt.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Threshold {
    /// `[Action Required] invoke /memory-sync --begin X --end Y`; `None`: nothing is to be done.
    pub action: Option<String>,
}

/// What `init` did.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Initialized {
    /// Where the files are.
    pub dir: String,
    /// All directories, from `dir`.
    pub directories: Vec<String>,
    /// Files that were made of templates, from `dir`.
    pub created: Vec<String>,
    /// Files that were there.
    pub skipped: Vec<String>,
    /// What somebody has to know or do.
    pub notes: Vec<String>,
}

/// How large a file may be, and is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[schemars(rename = "JournalFileLevel")]
pub enum Level {
    Ok,
    Warn,
    Over,
    /// It is not there.
    Missing,
}

/// A file as `status` and `check` show it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "JournalFileState")]
pub struct FileState {
    /// As the specification calls it: `Core memory`, `Decisions`, …
    pub label: String,
    /// From the journal's directory.
    pub file: String,
    pub bytes: u64,
    /// `### ` headings of a reference file.
    pub entries: Option<u64>,
    /// Of the day's log: its day.
    pub date: Option<String>,
    /// Most bytes that it should have.
    pub budget: Option<u64>,
    pub level: Level,
}

/// How the journal is.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "JournalStatus")]
pub struct Status {
    pub butler: String,
    /// Where the files are.
    pub dir: String,
    pub files: Vec<FileState>,
    /// Logs of earlier days.
    pub sessions: u64,
    /// Files in `archive/`.
    pub archive: u64,
    /// Conversations since the last checkpoint; `None`: the log can't be read now.
    pub sync: Option<SyncStatus>,
    pub last_checkpoint: Option<Checkpoint>,
    /// More unsummarized conversations than this start a sync.
    pub threshold: u32,
    /// Files that somebody edited and nobody accepted yet.
    pub edited: Vec<String>,
    /// What is not as it should be, in sentences.
    pub troubles: Vec<String>,
}

/// How far the conversations are summarized. Exactly these keys.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "JournalSyncStatus")]
pub struct SyncStatus {
    pub unsummarized_count: i64,
    pub last_checkpoint_summary: Option<String>,
    pub last_checkpoint_id: Option<i64>,
    /// The first and the last conversation that no checkpoint covers; `None`: there is none.
    pub begin_id: Option<i64>,
    pub end_id: Option<i64>,
}

/// The two sections of a sync by hand.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Range {
    pub begin: i64,
    pub end: i64,
    /// What was said, ready to print.
    pub conversations: String,
    /// Each file of the journal with its beginning.
    pub state: Vec<FileText>,
    /// What somebody has to know, such as that others' words are left out.
    pub notes: Vec<String>,
}

/// A file with its text.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "JournalFile")]
pub struct FileText {
    pub file: String,
    pub text: String,
}

/// What became of the wish for a sync.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SyncBegun {
    /// `started`, `under_way` or `nothing`.
    pub status: String,
    /// What to tell the person.
    pub note: String,
}

/// A checkpoint: what was said up to its end is summarized.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "JournalCheckpoint")]
pub struct Checkpoint {
    pub id: i64,
    pub start_id: i64,
    pub end_id: i64,
    /// How many conversations that are.
    pub count: i64,
    pub summary: String,
    pub made_at: Timestamp,
}

/// Something that was said.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Said {
    pub id: i64,
    pub at: Timestamp,
    /// `IN` or `OUT`.
    pub direction: String,
    pub channel: String,
    pub person: String,
    /// `owner`, `system`, `known` or `stranger`.
    pub trust: String,
    pub text: String,
}

/// A file that somebody edited.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "JournalEdit")]
pub struct Edit {
    pub id: EditId,
    /// The lines that went, with `-`, and that came, with `+`.
    pub diff: String,
    /// What else changed meanwhile so that both are kept, in sentences.
    pub conflicts: Vec<String>,
}

/// Names one state of an edited file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "JournalEditId")]
pub struct EditId {
    pub file: String,
    /// SHA-256 of the file's bytes, in hexadecimal.
    pub sha256: String,
}

/// What became of edits.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Accepted {
    pub taken: Vec<String>,
    /// Where the journal had changed too: both are kept.
    pub conflicts: Vec<String>,
    /// Files that changed since they were shown: nothing was taken from them.
    pub changed: Vec<String>,
    /// Edits that wait as they are.
    #[serde(default)]
    pub refused: Vec<RefusedEdit>,
}

/// An edit that is not taken in.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RefusedEdit {
    pub file: String,
    /// In sentences, with what to do.
    pub why: String,
}

impl Edit {
    /// How many lines of a day's log it takes away or changes. A log only grows, so mostly that is a mistake.
    pub fn gone_from_log(&self) -> usize {
        let is_log = FileName::read(&self.id.file).is_some_and(|file| matches!(file.kind(), Kind::Today | Kind::Day));
        let came: Vec<&str> = self.diff.lines().filter_map(|line| line.strip_prefix('+')).collect();
        // A last line that only got its end is there still.
        let went = self.diff.lines().filter_map(|line| line.strip_prefix('-'));
        went.filter(|line| is_log && !line.trim().is_empty() && !came.contains(line)).count()
    }
}

/// A change of the journal that was taken back, or would be.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Undone {
    /// Its number in the history.
    pub step: i64,
    /// `sync` or `person`.
    pub kind: String,
    /// Who made it: a tool, or a user of the machine (`uid:1000`).
    pub actor: String,
    pub at: Timestamp,
    /// What that changes.
    pub files: Vec<FileDiff>,
    /// What somebody has to know.
    pub notes: Vec<String>,
}

/// What changes in a file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileDiff {
    pub file: String,
    /// The lines that go, with `-`, and that come, with `+`.
    pub diff: String,
}

/// What the rotation did, in the lines that the specification's program prints.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Rotated {
    pub lines: Vec<String>,
}

/// What the integrity check found and did.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Checked {
    pub files: Vec<FileState>,
    /// What is wrong, or was put right, in sentences.
    pub findings: Vec<String>,
    /// Nothing is left to do.
    pub ok: bool,
}

/// What a migration did, would do, or took back.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Migrated {
    /// Files of the journal that got something, with what they got it from.
    pub taken: Vec<String>,
    /// What was left alone, with the reason.
    pub left: Vec<String>,
    /// What somebody has to know or do.
    pub notes: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_a_log_lost_are_counted() {
        let gone = |file: &str, diff: &str| {
            let id = EditId { file: file.to_owned(), sha256: "00".to_owned() };
            Edit { id, diff: diff.to_owned(), conflicts: Vec::new() }.gone_from_log()
        };
        let log = |diff: &str| gone("sessions/today.md", diff);
        assert_eq!(log("@@ line 3 @@\n+**10:00** - new\n"), 0);
        assert_eq!(log("@@ line 3 @@\n-**09:00** - one\n+**09:00** - one\n+**10:00** - new\n"), 0);
        assert_eq!(log("@@ line 3 @@\n-**09:00** - one\n-**09:30** - two\n+**09:00** - other\n-\n"), 2);
        assert_eq!(gone("reference/ideas.md", "-**09:00** - one\n"), 0);
    }
}
