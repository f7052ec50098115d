//! A butler that keeps a journal: what was said to it, what is asked at its socket, how its rows and files are, and a
//! model that syncs as a test says.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::Trust;
use base::local::{ConnectionError, Refusal};
use journal::client::Client;
use journal::section::Section;
use journal::wire::{Level, Op, Status, SyncStatus};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testkit::model::ScriptedModel;
use tokio_postgres::Client as Db;
use uuid::Uuid;

use super::{Daemon, Household, eventually};

/// The butler that keeps a journal.
pub const GENERAL: &str = "general";

/// A sync session that is shown what the owner and the household said, and does this. `{{number.1}}` is the range's end.
pub fn own_pass(steps: Value) -> Value {
    pass("What the owner and the household said is shown", steps)
}

/// A sync session that is shown what others said, and does this.
pub fn others_pass(steps: Value) -> Value {
    pass("These are words of others\\.", steps)
}

fn pass(whose: &str, steps: Value) -> Value {
    json!({"when": format!("(?s)^Memory sync: .*{whose}.*call journal_checkpoint with end = (\\d+)"), "steps": steps})
}

pub fn call(tool: &str, arguments: Value) -> Value {
    json!({"call": {"tool": tool, "arguments": arguments}})
}

/// The call that ends a pass.
pub fn checkpoint(summary: &str) -> Value {
    call("journal_checkpoint", json!({"end": "{{number.1}}", "summary": summary}))
}

/// The system prompts of the requests in which these words stand, in their order.
pub fn system_prompts(model: &ScriptedModel, words: &str) -> Vec<String> {
    let asked = model.requests().into_iter().filter(|request| request.body["messages"].to_string().contains(words));
    asked.map(|request| joined(&request.body["system"])).collect()
}

/// The prompts of sync sessions, one for each.
pub fn sync_prompts(model: &ScriptedModel) -> Vec<String> {
    let first = |body: &Value| joined(&body["messages"][0]["content"]);
    let mut prompts: Vec<String> = Vec::new();
    for request in model.requests() {
        let prompt = first(&request.body);
        if prompt.contains("Memory sync: work these conversations") && !prompts.contains(&prompt) {
            prompts.push(prompt);
        }
    }
    prompts
}

fn joined(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    }
}

/// A message that nobody is to deal with any more, written as it is accepted.
const SAID: &str = "INSERT INTO switchboard.message_inbox
    (request_id, dedupe_key, dedupe_by, state, settled_at, tier, lane, channel, provider, endpoint, sender, trust,
     observed_at, received_at, body, envelope, context, triage)
    VALUES ($1, $1::uuid::text, 'event', 'done', now(), 2, $2, 'telegram', 't', 'bot:home', $3, $4, now(), now(),
            $5, $6, '{}', '{\"action\": \"skip\"}')";

impl Household {
    /// The shipped butler `general` in a household that has never had it: its first start is still to come.
    pub fn with_general(self) -> Self {
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("roster/general");
        let copied = std::process::Command::new("cp").arg("-a").arg(shipped).arg(self.roster()).status();
        assert!(copied.expect("cp runs").success());
        self
    }

    /// Sessions of general wait for what they are told at their start, however busy the machine is: others begin
    /// without it after some tenths of a second.
    pub fn patient(self) -> Self {
        let memory = "[modules.memory]\nenabled = true\n";
        let patience = "\n[modules.memory.retrieval]\ndeadline = \"10s\"\n";
        self.replace("general/butler.toml", memory, &format!("{memory}{patience}"))
    }

    /// With these settings of the journal.
    pub fn journal_settings(self, lines: &str) -> Self {
        self.replace("general/butler.toml", "[modules.journal]\n", &format!("[modules.journal]\n{lines}\n"))
    }

    /// What the daemon answers at the journal's socket, or refuses.
    pub fn ask<T: DeserializeOwned>(&self, op: Op) -> Result<T, Refusal> {
        self.asked(op.clone()).unwrap_or_else(|e| panic!("{op:?}: {e}"))
    }

    /// The same, where the daemon may be away.
    pub fn asked<T: DeserializeOwned>(&self, op: Op) -> Result<Result<T, Refusal>, ConnectionError> {
        let ask = || Client::open(Some(&self.data()), None, Duration::from_secs(30))?.ask(op);
        match tokio::task::block_in_place(ask) {
            Err(ConnectionError::Refused(refusal)) => Ok(Err(refusal)),
            Err(other) => Err(other),
            Ok(done) => Ok(Ok(done)),
        }
    }

    /// What it answers; a refusal fails the test.
    pub fn told<T: DeserializeOwned>(&self, op: Op) -> T {
        self.ask(op.clone()).unwrap_or_else(|refusal| panic!("{op:?}: {refusal:?}"))
    }

    /// How it refuses: the code and the sentence.
    pub fn refused(&self, op: Op) -> (String, String) {
        match self.ask::<Value>(op.clone()) {
            Err(refusal) => (refusal.code, refusal.message),
            Ok(done) => panic!("{op:?} was done: {done}"),
        }
    }

    /// Waits until the journal has begun: rows and files.
    pub async fn journal_begun(&self) -> Status {
        eventually("the journal begins", || async {
            match self.asked::<Status>(Op::Status).map_err(|e| e.to_string())? {
                Ok(status) if status.files.iter().all(|file| file.level != Level::Missing) => {
                    let there = status.files.iter().all(|file| self.journal_path(&file.file).exists());
                    if there { Ok(status) } else { Err("its files are not there".to_owned()) }
                }
                other => Err(format!("{other:?}")),
            }
        })
        .await
    }

    /// Starts a daemon that dies at its next passage of the point. What the journal does of itself in its start is
    /// none: it is over before passages count.
    pub async fn journal_dying_at(&self, point: &str) -> Daemon {
        // This file and the note on it are written anew as the last of what a start does.
        let (file, note) = (self.journal_path("sessions/today.md"), self.journal_path(".written/sessions~today.md"));
        drop((std::fs::remove_file(&file), std::fs::remove_file(&note)));
        let armed = self.path().join("armed");
        drop(std::fs::remove_file(&armed));
        let dying = Self::again(self, "BUTLERD_CRASH_POINT", point)
            .env("BUTLERD_STOP_ARMED", armed.to_str().expect("a path in UTF-8"));
        let daemon = dying.start().await;
        eventually("the journal's start is over", || {
            let there = file.exists() && note.exists();
            std::future::ready(if there { Ok(()) } else { Err(format!("{} is not written", note.display())) })
        })
        .await;
        self.journal_begun().await;
        std::fs::write(&armed, "").expect("the file that arms it");
        daemon
    }

    pub fn sync_status(&self) -> SyncStatus {
        self.told(Op::SyncStatus)
    }

    /// Waits until so many checkpoints are there, nobody syncs any more, and the files followed: what a sync changed is
    /// committed first and written then. An edited file stays as it is.
    pub async fn synced(&self, db: &Db, checkpoints: i64) {
        eventually("the sync's end", || async {
            let found = (count(db, "journal_checkpoints").await, count(db, "journal_syncs WHERE state = 'open'").await);
            if found == (checkpoints, 0) {
                Ok(())
            } else {
                Err(format!("{found:?} {:?}", self.told::<Status>(Op::Status)))
            }
        })
        .await;
        eventually("the files follow", || async {
            let rows = files_of_rows(db).await;
            let edited = self.told::<Status>(Op::Status).edited;
            let behind = |(file, text): &(&String, &String)| {
                !edited.contains(file) && std::fs::read_to_string(self.journal_path(file)).ok().as_ref() != Some(text)
            };
            match rows.iter().find(behind) {
                None => Ok(()),
                Some((file, _)) => Err(format!("{file} is not as its rows are")),
            }
        })
        .await;
    }

    pub fn journal_path(&self, file: &str) -> PathBuf {
        self.data().join("journal/owner/general").join(file)
    }

    /// The text of a file on the disk.
    pub fn journal_file(&self, file: &str) -> String {
        std::fs::read_to_string(self.journal_path(file)).unwrap_or_else(|e| panic!("{file}: {e}"))
    }

    /// The owner's login, for the owner's rows.
    pub async fn rows(&self) -> Db {
        let db = self.owner().await;
        db.batch_execute("SET butlerd.tenant = 'owner'").await.expect("a tenant");
        db
    }

    /// Looks that each file is what the rows say, byte by byte, and that no other file is there.
    pub async fn rows_and_files_agree(&self, db: &Db, when: &str) {
        let rows = files_of_rows(db).await;
        let root = self.journal_path("");
        let mut files = BTreeMap::new();
        for directory in ["", "reference", "sessions", "archive", "users"] {
            for entry in std::fs::read_dir(root.join(directory)).expect("the directory").flatten() {
                let path = entry.path();
                if path.is_file() {
                    let name = path.strip_prefix(&root).expect("below it").display().to_string();
                    files.insert(name, std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{when}: {e}")));
                }
            }
        }
        assert_eq!(files, rows, "{when}");
    }
}

/// Each file as the rows have it.
pub async fn files_of_rows(db: &Db) -> BTreeMap<String, String> {
    let sql = "SELECT file, text, trust FROM general.journal_sections
               WHERE tenant_id = 'owner' AND ended IS NULL ORDER BY file, place, begun, id";
    let mut files = BTreeMap::<String, String>::new();
    for row in db.query(sql, &[]).await.expect("the sections") {
        let section = Section::new(row.get::<_, String>("text"), Trust::from_name(row.get("trust")));
        files.entry(row.get("file")).or_default().push_str(&section.shown());
    }
    files
}

/// Rows of a table of general's, or of what follows its name.
pub async fn count(db: &Db, of: &str) -> i64 {
    db.query_one(&format!("SELECT count(*) FROM general.{of}"), &[]).await.expect("a count").get(0)
}

/// Something that was said to general, one message after the other. Strangers and contacts have conversations of their
/// own.
pub async fn said(db: &Db, trust: &str, texts: &[String]) {
    let sender = if trust == "owner" { "4711" } else { trust };
    for text in texts {
        said_by(db, (trust, sender), text).await;
    }
}

/// The same, by somebody who calls himself so: as identity and as displayed name.
pub async fn said_by(db: &Db, (trust, name): (&str, &str), text: &str) {
    let hand = "INSERT INTO general.route_inbox (id, request_id, kind, route, trust, state, settled_at)
                VALUES ($1, $2, 'message', '{}', $3, 'done', now())";
    let (request, envelope) = (Uuid::now_v7(), json!({"sender": {"identity": name, "display_name": name}}));
    let lane = format!("lane of {trust}");
    db.execute(SAID, &[&request, &lane, &name, &trust, &text, &envelope]).await.expect("a message");
    db.execute(hand, &[&Uuid::now_v7(), &request, &trust]).await.expect("a part");
}

/// So many texts of the owner.
pub fn texts(n: usize) -> Vec<String> {
    (1..=n).map(|n| format!("The garden needs task number {n}.")).collect()
}
