//! What went wrong, for whoever typed the command: one sentence, and the next thing to try.

use serde_json::{Value, json};

use super::out::Out;
use super::text::count;
use admin::{ClientError, PlaceError};
use config::{Mistake, Refused};

/// Refused, or failed.
pub const FAILED: i32 = 1;
/// Wrong usage or configuration.
pub const USAGE: i32 = 2;
/// The daemon can't be reached.
pub const UNREACHABLE: i32 = 3;

/// Why a command ends otherwise than well.
#[derive(Debug)]
pub struct Problem {
    /// The process's exit code.
    pub exit: i32,
    /// A stable name.
    pub code: String,
    pub message: String,
    /// What to try next; empty where the message says it.
    pub next: String,
    /// Mistakes of the configuration, if that is what is wrong.
    pub mistakes: Vec<Mistake>,
}

impl Problem {
    pub fn new(exit: i32, code: &str, message: impl Into<String>, next: impl Into<String>) -> Self {
        Self { exit, code: code.to_owned(), message: message.into(), next: next.into(), mistakes: Vec::new() }
    }

    /// Wrong usage.
    pub fn usage(message: impl Into<String>, next: impl Into<String>) -> Self {
        Self::new(USAGE, "usage", message, next)
    }

    /// What the daemon answered can't be read.
    pub fn foreign(error: &dyn std::fmt::Display) -> Self {
        let message = format!("The daemon's answer can't be read: {error}.");
        Self::new(FAILED, "foreign_answer", message, "Run the same version of butlerd as the daemon.")
    }

    /// As a program reads it.
    pub fn to_json(&self) -> Value {
        let mut shown = json!({"status": "error", "code": self.code, "error": self.message});
        if !self.next.is_empty() {
            shown["next"] = json!(self.next);
        }
        if !self.mistakes.is_empty() {
            shown["mistakes"] = json!(self.mistakes);
        }
        shown
    }

    /// Tells it: people on standard error, programs where they read the answer.
    pub fn tell(&self, out: &Out) {
        if out.json {
            return out.value(&self.to_json());
        }
        for mistake in &self.mistakes {
            out.aside(&mistake.to_string());
        }
        out.aside(&format!("butlerd: {}", self.message));
        if !self.next.is_empty() {
            out.aside(&format!("         {}", self.next));
        }
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        let mistakes: Vec<Mistake> = refused.mistakes().cloned().collect();
        let message = format!("The configuration has {}.", count(mistakes.len(), "mistake"));
        let next = "`butlerd config` prints every setting with its meaning.";
        Self { mistakes, ..Self::new(USAGE, "configuration", message, next) }
    }
}

impl From<ClientError> for Problem {
    fn from(error: ClientError) -> Self {
        let message = match &error {
            // The daemon's own sentence is whole already.
            ClientError::Refused(failure) => failure.message.clone(),
            other => format!("{}.", other.to_string().trim_end_matches('.')),
        };
        let (exit, code, next) = match &error {
            ClientError::Place(PlaceError::NotRunning { .. }) => (
                UNREACHABLE,
                "not_running",
                "Start it with `butlerd serve`, or name its data directory with --data-dir DIR.",
            ),
            ClientError::Place(PlaceError::Gone { .. }) => {
                (UNREACHABLE, "not_running", "Start it again with `butlerd serve`.")
            }
            ClientError::Place(PlaceError::Unreadable { denied: true, .. }) => {
                (FAILED, "forbidden", "Run this as the user that butlerd runs as.")
            }
            ClientError::Place(PlaceError::Unreadable { .. }) => (
                UNREACHABLE,
                "not_running",
                "The daemon may be starting or stopping just now; try again, or restart it.",
            ),
            ClientError::Unreachable { .. } => (UNREACHABLE, "unreachable", "Read its log; if it hangs, restart it."),
            ClientError::Refused(failure) => (refused(&failure.code), failure.code.as_str(), next_after(&failure.code)),
            ClientError::Foreign { .. } => (FAILED, "foreign_answer", "Run the same version of butlerd as the daemon."),
        };
        Self::new(exit, code, message, next)
    }
}

/// The exit code of a refusal with this code: some say that what was typed makes no sense.
pub fn refused(code: &str) -> i32 {
    if ["invalid_arguments", "invalid_cron"].contains(&code) { USAGE } else { FAILED }
}

/// What helps after a refusal whose own sentence does not say it.
fn next_after(code: &str) -> &'static str {
    match code {
        "butler_unavailable" | "unavailable" => "`butlerd status` says more.",
        "capacity" => "`butlerd sessions list` shows what is running.",
        "no_model" => "`butlerd doctor` shows which keys are there.",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use admin::Failure;

    #[test]
    fn each_kind_has_its_exit_code() {
        let gone = PlaceError::Gone { file: "/d/run/daemon.json".into(), pid: 7 };
        let denied =
            PlaceError::Unreadable { file: "/d/run/daemon.json".into(), problem: "denied".into(), denied: true };
        let unreachable = ClientError::Unreachable { addr: "a".into(), problem: "refused".into() };
        for (error, exit) in [
            (ClientError::Place(PlaceError::NotRunning { data_dir: "/d".into() }), UNREACHABLE),
            (ClientError::Place(gone), UNREACHABLE),
            (ClientError::Place(denied), FAILED),
            (unreachable, UNREACHABLE),
            (ClientError::Refused(Failure::new("forbidden", "No.")), FAILED),
            (ClientError::Refused(Failure::new("invalid_arguments", "No.")), USAGE),
            (ClientError::Refused(Failure::new("invalid_cron", "No.")), USAGE),
        ] {
            let problem = Problem::from(error);
            assert_eq!(problem.exit, exit, "{problem:?}");
            assert!(problem.message.ends_with('.') && !problem.message.ends_with(".."), "{problem:?}");
        }
    }

    #[test]
    fn programs_get_all_of_it() {
        let shown = Problem::new(FAILED, "x", "It broke.", "Mend it.").to_json();
        assert_eq!(shown, json!({"status": "error", "code": "x", "error": "It broke.", "next": "Mend it."}));
    }
}
