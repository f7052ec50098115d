//! What the assistant writes to a hook's standard input.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::Value;
use uuid::Uuid;

use super::json::json;
use super::{HookError, transcript};

/// The variable in which the assistant names its project's directory.
const DIRECTORY_VARIABLE: &str = "CLAUDE_PROJECT_DIR";
/// Longer ids of sessions are cut.
const LONGEST_SESSION: usize = 200;

/// An object of whatever fields this version of the assistant has. Those that are missing, or of another type, are empty.
pub struct Input(Value);

impl Input {
    pub fn read(text: &str) -> Result<Self, HookError> {
        let value = json(text).map_err(HookError::Json)?;
        if value.is_object() { Ok(Self(value)) } else { Err(HookError::NoObject) }
    }

    pub fn value(&self, name: &str) -> &Value {
        &self.0[name]
    }

    pub fn text(&self, name: &str) -> &str {
        self.0[name].as_str().unwrap_or_default()
    }

    pub fn flag(&self, name: &str) -> bool {
        self.0[name].as_bool().unwrap_or_default()
    }

    pub fn tool(&self) -> &str {
        self.text("tool_name")
    }

    /// An argument of the tool. Of one that is no text, its JSON.
    pub fn tool_text(&self, name: &str) -> String {
        base::text::of_value(&self.0["tool_input"][name])
    }

    /// Whether the developer ended the tool himself.
    pub fn is_interrupt(&self) -> bool {
        ["is_interrupt", "isInterrupt", "interrupted"].iter().any(|name| self.flag(name))
            || self.text("error").trim_start().starts_with("[Request interrupted")
    }

    /// Whose ledger it is: the session's, or a subagent's, which sees nothing of what its session was shown. None: nobody
    /// said so.
    pub fn session(&self) -> Option<String> {
        let session = self.own_session()?;
        let agent = self.text("agent_id").trim();
        let whole = if agent.is_empty() { session.to_owned() } else { format!("{session}/{agent}") };
        Some(whole.chars().take(LONGEST_SESSION).collect())
    }

    /// The session's own id. `unknown` is what scripts say that found none, and it is no session that could be shared.
    pub fn own_session(&self) -> Option<&str> {
        Some(self.text("session_id").trim()).filter(|id| !id.is_empty() && *id != "unknown")
    }

    pub fn transcript(&self) -> Option<&Path> {
        Some(self.text("transcript_path")).filter(|path| !path.is_empty()).map(Path::new)
    }

    /// What a subagent is to do. Where the event does not say it, the transcript does.
    pub fn task(&self) -> String {
        let names = ["prompt", "task", "task_description", "description"];
        let said = names.iter().map(|name| self.text(name)).find(|text| !text.trim().is_empty());
        let last = || self.transcript().and_then(|path| transcript::last_task(path, self.text("agent_type")));
        said.map(str::to_owned).or_else(last).unwrap_or_default()
    }

    /// The directory that is worked in.
    pub fn directory(&self) -> PathBuf {
        let named = Some(PathBuf::from(self.text("cwd")));
        let variable = || std::env::var_os(DIRECTORY_VARIABLE).map(PathBuf::from);
        let is_usable = |path: &PathBuf| path.is_absolute() && path.is_dir();
        let directory = named.filter(is_usable).or_else(|| variable().filter(is_usable));
        directory.or_else(|| std::env::current_dir().ok()).unwrap_or_else(|| PathBuf::from("/"))
    }
}

/// A session of this process alone, for an event that names none: a shared one would keep memories from others.
pub fn process_session() -> String {
    static OWN: OnceLock<String> = OnceLock::new();
    OWN.get_or_init(|| format!("process-{}", Uuid::now_v7())).clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_somebodys_own() {
        let session = |text: &str| Input::read(text).unwrap().session();
        assert_eq!(session(r#"{"session_id": "a"}"#).as_deref(), Some("a"));
        assert_eq!(session(r#"{"session_id": "a", "agent_id": "b"}"#).as_deref(), Some("a/b"));
        for none in ["{}", r#"{"session_id": "unknown"}"#, r#"{"session_id": " "}"#, r#"{"session_id": 7}"#] {
            assert_eq!(session(none), None, "{none}");
        }
        assert_eq!(process_session(), process_session());
        assert!(process_session().len() > 20);
    }

    #[test]
    fn the_directory_is_the_one_that_is_named_if_it_is_there() {
        let here = tempfile::tempdir().unwrap();
        let of = |cwd: &Path| Input(serde_json::json!({"cwd": cwd})).directory();
        assert_eq!(of(here.path()), here.path());
        assert_ne!(of(&here.path().join("gone")), here.path().join("gone"));
        assert_ne!(of(Path::new("relative")), Path::new("relative"));
    }
}
