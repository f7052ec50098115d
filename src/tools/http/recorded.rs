//! Answers from a file instead of the network: what scenarios are played with, and how that file is made.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::plan::Plan;
use super::send::{Answer, Prepared, SendError};
use base::redact::household;

/// Where answers come from, in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Network,
    /// The recordings alone.
    Recordings,
    /// The recordings, and the network for what they don't have, which is added to them.
    Record,
}

static SOURCE: OnceLock<Source> = OnceLock::new();

/// From now on HTTP tools of this process get their answers there. Called once, before any of them is made.
pub fn answer_from(source: Source) {
    let _ = SOURCE.set(source);
}

pub(super) fn source() -> Source {
    SOURCE.get().copied().unwrap_or(Source::Network)
}

/// A request and what came back, as they stand in the file. Secrets stand in it by their names.
#[derive(Debug, Serialize, Deserialize)]
struct Exchange {
    method: String,
    url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<Value>,
    #[serde(flatten)]
    end: End,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum End {
    Json { content_type: String, json: Value },
    Text { content_type: String, text: String },
    Failed { failed: String },
}

/// One tool's file.
#[derive(Debug)]
pub(super) struct Recordings {
    path: PathBuf,
    /// One call at a time reads and writes it.
    turn: tokio::sync::Mutex<()>,
}

impl Recordings {
    /// `file`: the tool's own.
    pub fn of(file: &Path) -> Self {
        let name = Path::new(file.file_name().unwrap_or_default()).with_extension("json");
        let butler = file.parent().and_then(Path::parent).unwrap_or(Path::new(""));
        Self { path: butler.join("tests").join(super::RECORDINGS).join(name), turn: tokio::sync::Mutex::default() }
    }

    /// What was recorded for the request, or what `ask` brings, if that is allowed. `request` has the secrets by name.
    pub async fn answer(
        &self,
        plan: &Plan,
        request: &Prepared,
        ask: impl Future<Output = Result<Answer, SendError>>,
    ) -> Result<Answer, SendError> {
        let _turn = self.turn.lock().await;
        let mut all = self.read()?;
        let same =
            |e: &&Exchange| e.method == plan.method.as_str() && e.url == request.url.as_str() && e.body == request.body;
        if let Some(found) = all.iter().find(same) {
            return found.end.answer();
        }
        if source() != Source::Record {
            let path = self.path.display();
            let what = format!(
                "no answer to {} {} is recorded in {path}; `butlerd test --record` asks for it",
                plan.method, request.url
            );
            return Err(SendError::Failed(what));
        }
        let answer = ask.await;
        let end = End::of(&answer);
        all.push(Exchange {
            method: plan.method.to_string(),
            url: request.url.to_string(),
            body: request.body.clone(),
            end,
        });
        self.write(&all)?;
        answer
    }

    fn read(&self) -> Result<Vec<Exchange>, SendError> {
        match std::fs::read(&self.path) {
            Ok(text) => serde_json::from_slice(&text).map_err(|e| self.failed(&e)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(e) => Err(self.failed(&e)),
        }
    }

    fn write(&self, all: &[Exchange]) -> Result<(), SendError> {
        let text = serde_json::to_string_pretty(all).map_err(|e| self.failed(&e))?;
        let dir = self.path.parent().unwrap_or(Path::new(""));
        let written =
            std::fs::create_dir_all(dir).and_then(|()| std::fs::write(&self.path, household().clean(text) + "\n"));
        written.map_err(|e| self.failed(&e))
    }

    fn failed(&self, why: &dyn std::error::Error) -> SendError {
        SendError::Failed(format!("{}: {why}", self.path.display()))
    }
}

impl End {
    fn of(answer: &Result<Answer, SendError>) -> Self {
        match answer {
            Err(SendError::Failed(why) | SendError::Unknown(why)) => End::Failed { failed: why.clone() },
            Ok(Answer { body, content_type }) => match serde_json::from_slice(body) {
                Ok(json) => End::Json { content_type: content_type.clone(), json },
                Err(_) => {
                    End::Text { content_type: content_type.clone(), text: String::from_utf8_lossy(body).into_owned() }
                }
            },
        }
    }

    fn answer(&self) -> Result<Answer, SendError> {
        match self {
            End::Json { content_type, json } => {
                Ok(Answer { body: json.to_string().into_bytes(), content_type: content_type.clone() })
            }
            End::Text { content_type, text } => {
                Ok(Answer { body: text.clone().into_bytes(), content_type: content_type.clone() })
            }
            End::Failed { failed } => Err(SendError::Failed(failed.clone())),
        }
    }
}
