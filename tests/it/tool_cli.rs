//! `butlerd tool`, `help` and `version`, as a person types them.

use std::process::Command;

use serde_json::Value;

use crate::support::{Household, butlerd};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_is_shown_and_called_with_words() {
    let household = Household::new();
    let _daemon = household.start().await;
    let cli = |args: &[&str]| {
        let (code, out, err) = household.cli(args);
        (code, format!("{out}{err}"))
    };
    let (code, said) = cli(&["tool", "show", "health", "measurement_log"]);
    assert!(code == 0 && said.contains("--kind") && said.contains("NEEDED"), "{said}");
    let (code, said) =
        cli(&["tool", "call", "health", "measurement_log", "--kind", "weight", "--value", r#"{"kg": 80.5}"#, "--json"]);
    let logged: Value = serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"));
    assert!(code == 0 && logged["result"]["status"] != "error", "{said}");
    let (code, said) = cli(&["tool", "call", "health", "measurement_latest", "--kind=weight"]);
    assert!(code == 0 && said.contains("80.5"), "{said}");
    let (code, said) = cli(&["tool", "call", "health", "measurement_latest", r#"{"kind": "weight"}"#, "--json"]);
    assert!(code == 0 && said.contains("80.5"), "{said}");
    let (code, said) = cli(&["tool", "call", "health", "measurement_latest", "--kint", "weight"]);
    assert!(code == 2 && said.contains("did you mean --kind?") && said.contains("tool show health"), "{said}");
    let (code, said) = cli(&["tool", "call", "health", "measurement_latst", "--kind", "weight"]);
    assert!(code == 1 && said.contains("Did you mean measurement_latest?"), "{said}");
}

#[test]
fn help_and_version_are_commands() {
    let cli = |args: &[&str]| {
        let done = Command::new(butlerd()).args(args).output().expect("butlerd runs");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        (done.status.code().unwrap_or(-1), text(done.stdout), text(done.stderr))
    };
    let (code, out, err) = cli(&["help"]);
    assert!(code == 0 && out.contains("Every day:\n  open"), "{out}{err}");
    assert_eq!(cli(&["--help"]).1, out);
    let (code, of_tool, _) = cli(&["help", "tool"]);
    assert!(code == 0 && of_tool.contains("Call a butler's tool"), "{of_tool}");
    let (code, out, err) = cli(&["version"]);
    assert_eq!((code, out.trim()), (0, concat!("butlerd ", env!("CARGO_PKG_VERSION"))), "{err}");
}
