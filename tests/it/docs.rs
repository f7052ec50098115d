//! README and docs: every link leads somewhere, every command works, what is made from the code is as the code is.

mod commands;
mod examples;
mod metrics;
mod pages;
mod recording;
mod reference;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use serde_json::{Value, json};
use testkit::model::ScriptedModel;

use crate::inbound::{ended, ingest, message};
use crate::support::{Daemon, Household, model};
use commands::{Shown, named, shown};
use pages::{pages, root};

const LIMIT_README: usize = 150;

/// Commands that another test runs, and where; their fixed words are looked up there.
const ELSEWHERE: &[(&str, &str)] = &[
    ("approvals approve", "approvals.rs"),
    ("approvals reject", "approvals.rs"),
    ("approvals revoke", "approvals.rs"),
    ("approvals rule", "standing_rules.rs"),
    ("approvals show", "approvals_shown.rs"),
    ("backup", "backup.rs"),
    ("calendar add", "calendar_caldav.rs"),
    ("calendar conflicts", "calendar_choices.rs"),
    ("calendar free", "calendar_caldav.rs"),
    ("calendar list", "calendar_caldav.rs"),
    ("calendar sync", "calendar_caldav.rs"),
    ("chat", "chat.rs"),
    ("check", "setup.rs"),
    ("demo", "docs/recording.rs"),
    ("deliveries cancel", "deliveries.rs"),
    ("deliveries resolve", "deliveries.rs"),
    ("deliveries retry", "deliveries.rs"),
    ("deliveries save", "telegram_out.rs"),
    ("deliveries send", "telegram_out.rs"),
    ("doctor", "setup.rs"),
    ("inbox reroute", "inbox.rs"),
    ("inbox retry", "inbox.rs"),
    ("ingest", "inbox.rs"),
    ("init", "first_hour.rs"),
    ("connect caldav", "connect_accounts.rs"),
    ("connect carddav", "connect_accounts.rs"),
    ("connect email", "email.rs"),
    ("connect google --contacts", "contacts_google.rs"),
    ("connect telegram", "telegram.rs"),
    ("contacts conflicts", "calendar_choices.rs"),
    ("contacts matches", "contacts.rs"),
    ("contacts merge", "contacts.rs"),
    ("contacts pair", "telegram.rs"),
    ("contacts split", "contacts.rs"),
    ("contacts sync", "contacts.rs"),
    ("init --service", "setup.rs"),
    ("memory edit", "memory_owner.rs"),
    ("memory forget", "memory_owner.rs"),
    ("memory import", "memory_owner.rs"),
    ("memory undo", "memory_owner.rs"),
    ("new butler", "setup.rs"),
    ("new mcp", "recipes.rs"),
    ("new tool", "setup.rs"),
    ("notes rm", "notes.rs"),
    ("reload", "reload.rs"),
    ("restore", "backup.rs"),
    ("secret set", "environment.rs"),
    ("serve", "support/daemon.rs"),
    ("sessions tail", "transcript.rs"),
    ("test", "scenarios.rs"),
    ("undo health/", "undo.rs"),
    ("undo SESSION", "undo.rs"),
];

#[test]
fn links_lead_to_pages_and_headings_that_are_there() {
    let pages = pages();
    let anchors: BTreeMap<&Path, Vec<String>> = pages.iter().map(|p| (p.path.as_path(), p.anchors())).collect();
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for page in &pages {
        for (line, target) in page.links().into_iter().filter(|(_, target)| !target.contains("://")) {
            seen += 1;
            let (file, anchor) = target.split_once('#').map_or((target.as_str(), None), |(f, a)| (f, Some(a)));
            let to = if file.is_empty() { page.path.clone() } else { joined(&page.path, file) };
            let at = format!("{}:{line}: {target}", page.path.display());
            if !root().join(&to).exists() {
                wrong.push(format!("{at}: there is no {}", to.display()));
            } else if page.path.starts_with("docs") && !to.starts_with("docs") {
                wrong.push(format!("{at}: in the book of docs/ this link leads nowhere; name the file in backticks"));
            } else if let Some(anchor) =
                anchor.filter(|a| !anchors.get(&*to).is_some_and(|all| all.iter().any(|x| x == a)))
            {
                wrong.push(format!("{at}: {} has no heading #{anchor}: {:?}", to.display(), anchors.get(&*to)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 100, "{seen}");
}

/// A relative link, from the page that it stands on.
fn joined(page: &Path, link: &str) -> PathBuf {
    let mut path = page.parent().expect("a directory").to_owned();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            part => path.push(part),
        }
    }
    path
}

#[test]
fn each_page_of_docs_stands_in_the_summary_and_in_the_list() {
    let pages = pages();
    let targets = |name: &str| -> Vec<PathBuf> {
        let page = pages.iter().find(|page| page.path == Path::new(name)).expect("the page");
        let mut found: Vec<PathBuf> = page.links().iter().map(|(_, link)| joined(&page.path, link)).collect();
        found.sort();
        found
    };
    let in_docs = |except: &[&str]| -> Vec<PathBuf> {
        let paths = pages.iter().map(|page| page.path.clone()).filter(|path| path.starts_with("docs"));
        paths.filter(|path| !except.iter().any(|name| path == Path::new(name))).collect()
    };
    assert_eq!(targets("docs/SUMMARY.md"), in_docs(&["docs/SUMMARY.md"]));
    let listed: BTreeSet<PathBuf> = targets("docs/README.md").into_iter().collect();
    assert_eq!(listed, in_docs(&["docs/SUMMARY.md", "docs/README.md"]).into_iter().collect());
    let lines = std::fs::read_to_string(root().join("README.md")).expect("README").lines().count();
    assert!(lines <= LIMIT_README, "README.md has {lines} lines, {LIMIT_README} at most");
}

#[test]
fn messages_in_troubleshooting_are_those_of_the_code() {
    let mut code = String::new();
    for file in rust_files(&root().join("src")) {
        let text = std::fs::read_to_string(file).expect("a file");
        // A text may go on in the next line.
        code += &text.split("\\\n").map(str::trim_start).collect::<String>();
    }
    // The first letter may become a capital on the way.
    let code = code.to_lowercase();
    let fixed = |part: &str| code.contains(&part.trim().to_lowercase());
    let pages = pages();
    let page = pages.iter().find(|page| page.path.ends_with("troubleshooting.md")).expect("the page");
    let mut wrong = Vec::new();
    let messages: Vec<&str> = page.headings().filter(|h| h.starts_with('`') && h.ends_with('`')).collect();
    for message in &messages {
        let parts = message.trim_matches('`').split('…').filter(|part| part.trim().len() > 3);
        wrong.extend(parts.filter(|part| !fixed(part)).map(|part| format!("{message}: nothing says {part:?}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(messages.len() > 20, "{messages:?}");
}

fn rust_files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in std::fs::read_dir(dir).expect("a directory").flatten().map(|entry| entry.path()) {
        match path.is_dir() {
            true => found.extend(rust_files(&path)),
            false => found.extend(path.extension().is_some_and(|e| e == "rs").then_some(path)),
        }
    }
    found
}

/// What a command is listed under, if another test runs it: the most exact entry.
fn elsewhere(command: &Shown) -> Option<&'static (&'static str, &'static str)> {
    let typed = command.words.join(" ");
    let fits = |start: &str| {
        typed == start || typed.strip_prefix(start).is_some_and(|rest| start.ends_with('/') || rest.starts_with(' '))
    };
    let mut all: Vec<_> = ELSEWHERE.iter().filter(|(start, _)| fits(start)).collect();
    all.sort_by_key(|(start, _)| start.len());
    all.pop()
}

/// All commands of the pages, each once.
fn all_commands() -> Vec<Shown> {
    let mut wrong = Vec::new();
    let mut all: Vec<Shown> = Vec::new();
    for page in pages() {
        for command in shown(&page, &mut wrong) {
            if !all.iter().any(|known| known.words == command.words) {
                all.push(command);
            }
        }
        let named = page.code().into_iter().filter_map(|(line, code)| Some((line, named(&code)?, code)));
        wrong.extend(named.map(|(line, why, code)| format!("{}:{line}: `{code}`: {why}", page.path.display())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    all
}

#[test]
fn commands_that_other_tests_run_are_run_there() {
    let all = all_commands();
    let mut wrong = Vec::new();
    for entry @ (start, file) in ELSEWHERE {
        let text = std::fs::read_to_string(root().join("tests/it").join(file)).unwrap_or_default();
        let fixed = start.split(' ').filter(|word| !word.ends_with("SESSION") && !word.ends_with('/'));
        let fixed: Vec<String> = fixed.map(|word| format!("\"{word}\"")).collect();
        // In a row, or the first alone where a helper puts it before the others.
        let helped = || {
            let (first, rest) = fixed.split_first()?;
            Some(!rest.is_empty() && text.contains(&format!("&[{first}]")) && text.contains(&rest.join(", ")))
        };
        if !text.contains(&fixed.join(", ")) && helped() != Some(true) {
            wrong.push(format!("tests/it/{file} has no {} for `butlerd {start}`", fixed.join(", ")));
        }
        if !all.iter().any(|command| elsewhere(command) == Some(entry)) {
            wrong.push(format!("no page shows `butlerd {start}` any more"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(all.len() > 80, "{} commands", all.len());
}

/// A household in which something has happened, for commands to look at.
struct LivedIn {
    household: Household,
    daemon: Daemon,
    _model: ScriptedModel,
    /// By the first word of the command that takes it.
    ids: BTreeMap<&'static str, String>,
}

impl LivedIn {
    async fn begin() -> Self {
        let model = model(json!([
            {"when": "Route the message in", "steps": [
                {"call": {"tool": "route_to_butler", "arguments": {"butler": "health", "prompt": "hello"}}}]},
            {"when": "weighed|Log 81.4", "steps": [
                {"call": {"tool": "measurement_log", "arguments": {"kind": "weight", "value": {"kg": 81.4}}}},
                {"say": "Logged."}]},
            {"when": "I slept badly", "steps": [
                {"call": {"tool": "symptom_log", "arguments": {"name": "headache", "severity": 3}}}, {"say": "It waits."}]},
            {"when": "die of this", "steps": [{"fail": {"status": 400, "times": 99}}]},
            {"when": "hello", "steps": [{"say": "Good morning, Ada."}]},
        ]))
        .await;
        // All butlers: the pages name them, and the reference is of them all.
        let household = Household::whole_with_model(&model);
        let daemon = household.start().await;
        let told = |args: &[&str], input: &str| -> Value {
            let (code, out, err) = household.cli_with_input(&[args, &["--json"]].concat(), input);
            assert_eq!(code, 0, "{args:?}: {out}{err}");
            // Of a stream the last line.
            let last = serde_json::from_str(out.lines().last().unwrap_or_default());
            serde_json::from_str(&out).or(last).unwrap_or_else(|e| panic!("{args:?}: {e}: {out}"))
        };
        told(&["chat"], "hello\n");
        daemon.mcp("general").ok("notify", json!({"intent": "send", "message": "The kettle boils."})).await;
        let session = told(&["trigger", "health", "Log 81.4 kg"], "")["session_id"].clone();
        let first = |args: &[&str], id: &str| -> Value {
            let list = told(args, "");
            let within = || list.as_object().and_then(|page| page.values().find(|part| part.is_array()));
            let row = within().unwrap_or(&list)[0].clone();
            row.get(id).cloned().unwrap_or_else(|| panic!("{args:?}: {list}"))
        };
        let (request, delivery) = (first(&["inbox", "list"], "request_id"), first(&["deliveries", "list"], "id"));
        let memory = told(&["memory", "add", "drives a green car", "--butler", "general"], "")["id"].clone();
        let ids = [
            ("sessions", &session),
            ("timeline", &session),
            ("inbox", &request),
            ("deliveries", &delivery),
            ("memory", &memory),
        ];
        let ids = ids.map(|(first, id)| (first, id.as_str().unwrap_or_else(|| panic!("no id for {first}")).to_owned()));
        Self { household, daemon, _model: model, ids: ids.into() }
    }

    /// Something goes wrong as well: a call waits for the owner, and a message dies.
    async fn trouble(&self) {
        let gate = "[modules.health]\n\n[modules.approvals.gated_tools.symptom_log]\nrisk_tier = \"low\"\n";
        let file = self.household.roster().join("health/butler.toml");
        let toml = std::fs::read_to_string(&file).expect("the settings").replace("[modules.health]\n", gate);
        std::fs::write(&file, toml).expect("the settings are written");
        for args in [&["reload"][..], &["trigger", "health", "I slept badly"]] {
            let (code, out, err) = self.household.cli(args);
            assert_eq!(code, 0, "{args:?}: {out}{err}");
        }
        let mut envelope = message("dead", "thread-dead", "die of this");
        envelope["control"]["pinned_target"] = json!("health");
        let (status, accepted) = ingest(&self.daemon, &envelope).await;
        assert_eq!(status, 202, "{accepted}");
        let end = ended(&self.daemon, accepted["request_id"].as_str().expect("an id")).await;
        assert_eq!(end["state"], "dead", "{end}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_on_the_pages_runs_and_the_reference_is_of_this_code() {
    let lived_in = LivedIn::begin().await;
    // Before a tool is gated, which shows.
    reference::tools(&lived_in.daemon).await;
    lived_in.trouble().await;
    let LivedIn { household, daemon, ids, _model } = lived_in;
    let here: Vec<Shown> = all_commands().into_iter().filter(|command| elsewhere(command).is_none()).collect();
    let mut wrong = Vec::new();
    for command in &here {
        let first = command.words[0].as_str();
        let mut words: Vec<&str> = command.words.iter().map(String::as_str).collect();
        for word in words.iter_mut().filter(|word| commands::PLACEHOLDERS.contains(word)) {
            *word = ids.get(first).unwrap_or_else(|| panic!("{}: nothing is known for {word}", command.line()));
        }
        if first == "memory" {
            words.extend(["--butler", "general"]);
        }
        let (code, out, err) = household.cli(&words);
        if code != 0 {
            wrong.push(format!("{}: {}: {code}\n{out}{err}", command.at, words.join(" ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    eprintln!("{} commands run here, {} by other tests", here.len(), all_commands().len() - here.len());
    metrics::of_a_running_household(&daemon).await;
}
