//! `butlerd secret`

use serde_json::json;

use super::args::Secret;
use super::out::{Out, Table, Tone};
use super::problem::Problem;
use super::{Caller, Outcome, prompt};
use admin::{ApiClient, Sealed};

/// The phase of a butler's boot that looks for its keys.
const KEY_PHASE: &str = "core credentials";

/// What is asked of the daemon, once a value was read.
pub enum Request {
    Set(String, Sealed),
    List,
    Remove(String),
}

/// Refuses values on the command line, and reads the value from where it may stand.
pub fn prepare(what: Secret, out: Out) -> Result<Request, Problem> {
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
                    "That is no name for a secret: capital letters, digits and `_`, as in ANTHROPIC_API_KEY.",
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
    let calls = caller.client.quick()?;
    let out = caller.out;
    match request {
        Request::Set(name, value) => {
            let stored = calls.secret_set(name, value).await.map_err(caller.failed())?;
            done(out, "stored", &stored.name, &format!("{} is stored, encrypted.", stored.name));
            // The next session finds it; a butler that did not start for want of a key tries again only when told.
            if let Ok(status) = calls.status().await {
                for b in status.butlers.iter().filter(|b| b.failed_phase.as_deref() == Some(KEY_PHASE)) {
                    out.aside(&format!("{} was parked for want of a key: `butlerd reload` starts it.", b.name));
                }
            }
        }
        Request::Remove(name) => {
            let gone = calls.secret_remove(name).await.map_err(caller.failed())?;
            done(out, "removed", &gone.name, &format!("{} is removed.", gone.name));
        }
        Request::List => {
            let list = calls.secret_list().await.map_err(caller.failed())?;
            if out.json {
                out.value(&list);
            } else if list.is_empty() {
                out.line("No secret is stored. Store one with: butlerd secret set NAME");
            } else {
                let mut table = Table::new(&["NAME", "STORED"]);
                for secret in &list {
                    let at = secret.updated_at.map(|t| caller.moment(t));
                    table.row(vec![(Tone::Plain, secret.name.clone()), (Tone::Plain, at.unwrap_or_default())]);
                }
                out.table(&table);
            }
        }
    }
    Ok(0)
}

fn done(out: Out, status: &str, name: &str, sentence: &str) {
    match out.json {
        true => out.value(&json!({"status": status, "name": name})),
        false => out.line(sentence),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::USAGE;

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
            let problem = prepare(what, Out::new(false)).err().unwrap();
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
