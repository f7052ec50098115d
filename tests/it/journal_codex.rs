//! The journal with the real Codex, pinned, as a person runs it with the hooks that `butlerd journal install-hooks`
//! writes. What the model was sent is the proof.

use std::path::Path;

use serde_json::{Value, json};
use testkit::model::ScriptedModel;

use crate::project_clients::{Assistant, ROUNDS, codex};
use crate::support::journal::{said, texts};
use crate::support::{Household, butlerd, model};
use journal::start::MOST;
use journal::wire::{Accepted, Edit, Op};

const CORE: &str = "=== CORE MEMORY (always loaded) ===";
const ACTION: &str = "[Action Required] invoke /memory-sync --begin";

/// All words in a value, however deep.
fn words(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(list) => list.iter().for_each(|one| words(one, found)),
        Value::Object(map) => map.values().for_each(|one| words(one, found)),
        _ => {}
    }
}

/// What the model was first sent with these words, each text of it apart.
fn sent(model: &ScriptedModel, prompt: &str) -> Vec<String> {
    for request in model.requests() {
        let mut found = Vec::new();
        words(&request.body["input"], &mut found);
        if found.iter().any(|text| text.contains(prompt)) {
            return found;
        }
    }
    panic!("the model was never asked: {prompt}");
}

/// The command that Codex's hooks have for an event.
fn command(home: &Path, event: &str) -> String {
    let text = std::fs::read_to_string(home.join("hooks.json")).expect("the hooks");
    let hooks: Value = serde_json::from_str(&text).expect("JSON");
    hooks["hooks"][event][0]["hooks"][0]["command"]
        .as_str()
        .unwrap_or_else(|| panic!("no hook {event}: {hooks}"))
        .to_owned()
}

/// What the hook prints as a session starts. It gives up after a tenth of a second, and says nothing then.
fn printed(codex: &Assistant<'_>, home: &Path) -> String {
    let developer = &codex.developer;
    let input = json!({"session_id": uuid::Uuid::now_v7(), "cwd": developer.at, "source": "startup",
        "hook_event_name": "SessionStart"});
    for _ in 0..ROUNDS {
        let args = ["-c", &command(home, "SessionStart")];
        let out = tokio::task::block_in_place(|| developer.run(Path::new("/bin/sh"), &args, &input.to_string()));
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let told: Value = serde_json::from_slice(&out.stdout).expect("JSON");
        let text = told["hookSpecificOutput"]["additionalContext"].as_str().expect("a context");
        if text.contains(CORE) {
            return text.to_owned();
        }
    }
    panic!("the hook was late {ROUNDS} times");
}

/// A new session of Codex: what the model was sent as the journal's text, and what the hook prints.
async fn started(codex: &Assistant<'_>, home: &Path, model: &ScriptedModel, about: &str) -> (Vec<String>, String) {
    let printed = printed(codex, home);
    for round in 1..=ROUNDS {
        let prompt = format!("Good morning, {about}, round {round}.");
        // Nobody is there to trust the hooks by /hooks, as a person does once.
        codex.run(&codex.program, &["exec", "--json", "--dangerously-bypass-hook-trust", &prompt]).await;
        let sent = sent(model, &prompt);
        if sent.iter().any(|text| text.contains(CORE)) {
            return (sent, printed);
        }
    }
    panic!("the hook was late {ROUNDS} times, or Codex does not run it");
}

/// Codex begins with core memory, is asked to summarize when too much was said, and is sent what the hook prints, byte by
/// byte, also where that is as long as may be.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codex_begins_with_the_journal_byte_by_byte() {
    let test = "journal_codex::codex_begins_with_the_journal_byte_by_byte";
    let model = model(json!([{"when": "Good morning, ", "steps": [{"say": "Good morning."}]}])).await;
    let household = Household::new().journal_settings("sync = \"by_hand\"");
    let Some((mut codex, home)) = codex(test, &household, &model) else { return };
    let socket = household.data().join("run/journal.sock").display().to_string();
    codex.environment.push(("BUTLERD_JOURNAL_SOCKET", socket));
    let _daemon = household.start().await;
    household.journal_begun().await;
    codex.run(butlerd(), &["journal", "install-hooks"]).await;
    assert!(command(&home, "SessionStart").contains("BUTLERD_HOOK_OF=codex "), "what Codex counts is its own");
    let core = household.journal_file("core.md").replace("None yet.", "a\tb ä 日本 \"quoted\" \\ <b>&amp;</b>");
    std::fs::write(household.journal_path("core.md"), &core).expect("an edit");
    let edits: Vec<Edit> = household.told(Op::Edits);
    let edits = edits.into_iter().map(|edit| edit.id).collect();
    household.told::<Accepted>(Op::Accept { edits, looked: true, deletions: false });

    let (first, text) = started(&codex, &home, &model, "little was said").await;
    assert!(text.starts_with(&format!("{CORE}\n\n{}\n\n=== END CORE MEMORY ===", core.trim())), "{text}");
    let of = |sent: &[String]| sent.iter().filter(|sent| sent.contains(CORE)).cloned().collect::<Vec<_>>();
    assert_eq!(of(&first), [text], "byte by byte, and once");
    assert!(!first.iter().any(|text| text.contains(ACTION)), "{first:?}");

    // As much as may be: the newest of what was said stand whole, and what is to be done is the last line.
    let db = household.rows().await;
    let long: Vec<String> = texts(31).into_iter().map(|text| format!("{text} {}", "ö".repeat(700))).collect();
    said(&db, "owner", &long).await;
    let status = household.sync_status();
    let action = format!("{ACTION} {} --end {}", status.begin_id.expect("a first"), status.end_id.expect("a last"));
    let (second, text) = started(&codex, &home, &model, "much was said").await;
    assert!((MOST - 2000..=MOST).contains(&text.len()), "{} bytes", text.len());
    assert!(text.ends_with(&format!("\n\n{action}")) && text.contains("task number 31. öö"), "{text}");
    assert_eq!(of(&second), [text], "nothing of it is cut");
    // The prompt says it once more, unless that hook was late.
    let asked = second.iter().filter(|text| text.contains(&action)).count();
    assert!((1..=2).contains(&asked), "{second:?}");
}
