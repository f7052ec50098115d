//! `butlerd secret`

use std::ffi::OsString;

use clap::Subcommand;
use serde_json::json;

use super::out::Out;
use super::problem::Problem;
use super::{Caller, Outcome, prompt};
use admin::Sealed;
use admin::api::{HouseApiClient, SecretsApiClient};

/// `secret`
#[derive(Debug, Subcommand)]
pub enum Secret {
    /// Store a secret; type its value when asked, or pipe it in
    Set {
        /// Such as ANTHROPIC_API_KEY
        name: String,
        /// Taken only to be refused: a value on a command line is in the shell's history and in every process list.
        #[arg(hide = true)]
        value: Vec<OsString>,
    },
    /// List the names of the stored secrets
    List,
    /// Remove a secret
    Rm { name: String },
}

/// The phases of a butler's boot that look for its keys and variables.
const KEY_PHASES: [&str; 2] = ["core credentials", "environment"];

/// What is asked of the daemon, once a value was read.
pub enum Request {
    Set(String, Sealed),
    List,
    Remove(String),
}

/// Refuses values on the command line, and reads the value from where it may stand.
pub fn prepare(what: Secret, out: &Out) -> Result<Request, Problem> {
    match what {
        Secret::List => Ok(Request::List),
        Secret::Rm { name } => Ok(Request::Remove(name)),
        Secret::Set { name, value } => {
            if !value.is_empty() || name.contains('=') {
                return Err(exposed());
            }
            if !is_name(&name) {
                // Not repeated: whoever gives the value first and the name never would see it in a log.
                return Err(Problem::usage(
                    "That is not a name for a secret: use capital letters, digits and `_`, as in ANTHROPIC_API_KEY.",
                    "Run: butlerd secret set NAME, then type the value when asked.",
                ));
            }
            if out.json {
                return Ok(Request::Set(name, prompt::secret("Value")?.into()));
            }
            let value = prompt::secret(&format!("Value of {name} (not shown)"))?;
            Ok(Request::Set(name, value.into()))
        }
    }
}

/// A value was given as an argument.
fn exposed() -> Problem {
    Problem::usage(
        "A secret's value is never taken from the command line, where the shell's history and every process list \
         show it. Nothing was stored.",
        "Run: butlerd secret set NAME, then type the value, or pipe it in. If the value was real, replace it: it has \
         been seen.",
    )
}

/// Names are those of environment variables.
fn is_name(name: &str) -> bool {
    let first = name.bytes().next().is_some_and(|b| b.is_ascii_uppercase() || b == b'_');
    first && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

pub async fn run(caller: Caller, request: Request) -> Outcome {
    let calls = caller.quick()?;
    let out = &caller.out;
    let done = |status: &str, name: &str, sentence: String| {
        out.answer(&json!({"status": status, "name": name}), |out, _| out.line(&sentence))
    };
    match request {
        Request::Set(name, value) => {
            let stored = caller.got(calls.secret_set(name, value).await)?;
            let name = stored.name;
            done("stored", &name, format!("{name} is stored, encrypted."))?;
            // The next session finds it; a butler that did not start for want of a key tries again only when told.
            if let Ok(status) = calls.status().await {
                let waits = |phase: &str| KEY_PHASES.contains(&phase);
                for b in status.butlers.iter().filter(|b| b.failed_phase.as_deref().is_some_and(waits)) {
                    out.aside(&format!("{} was parked for want of a key: `butlerd reload` starts it.", b.name));
                }
            }
            if !stored.read_at_start_by.is_empty() {
                let who = stored.read_at_start_by.join(", ");
                out.aside(&format!("Modules of {who} read it when they start: `butlerd reload` hands it to them."));
            }
            Ok(0)
        }
        Request::Remove(name) => {
            let name = caller.got(calls.secret_remove(name).await)?.name;
            done("removed", &name, format!("{name} is removed."))
        }
        Request::List => caller.list(calls.secret_list().await, |out, secrets| {
            out.table(secrets)
                .column("NAME", |s| &s.name)
                .column("STORED", |s| s.updated_at.map(|at| out.moment(at)))
                .print("No secrets are stored. Store one with: butlerd secret set NAME");
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::problem::USAGE;
    use super::*;

    #[test]
    fn a_value_on_the_command_line_is_refused_and_not_repeated() {
        let given = |name: &str, value: &[&str]| Secret::Set {
            name: name.to_owned(),
            value: value.iter().map(|v| (*v).into()).collect(),
        };
        for what in [
            given("KEY", &["sk-secret"]),
            given("KEY=sk-secret", &[]),
            given("sk-secret", &[]),
            given("KEY", &["sk", "-secret"]),
        ] {
            let problem = prepare(what, &Out::new(false)).err().unwrap();
            assert_eq!(problem.exit, USAGE);
            assert!(!format!("{problem:?}").contains("secret\"") && !problem.message.contains("sk-"), "{problem:?}");
        }
    }

    #[test]
    fn names_are_those_of_variables() {
        assert!(is_name("ANTHROPIC_API_KEY") && is_name("_X1"));
        for bad in ["", "1A", "a", "A-B", "A B", "Ä"] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
