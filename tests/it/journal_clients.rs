//! The journal with the real Claude Code, pinned, asking a scripted model: as a butler's runtime that works
//! conversations in, and as a person runs it, with the hooks that `butlerd journal install-hooks` writes. What the model
//! was sent is the proof.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testkit::model::{LoggedRequest, ScriptedModel};
use what_was_left_out::left_out;

use crate::chat::say;
use crate::project_clients::{Assistant, ROUNDS, claude};
use crate::support::journal::files_of_rows;
use crate::support::{Daemon, Household, eventually, model};

/// The butler that keeps the journal.
const GENERAL: &str = "general";
const SETTINGS: &str = "[modules.journal]\n";
const CORE: &str = "=== CORE MEMORY (always loaded) ===";
const END_CORE: &str = "=== END CORE MEMORY ===";
/// As a session is asked to summarize; the skill's description has the words before the range.
const ACTION: &str = "[Action Required] invoke /memory-sync --begin";
/// What the sync's session says of what it kept.
const SUMMARY: &str = "Decisions: the fence is of oak. Focus: the garden.";
/// So many messages of the owner, each of which is answered.
const TASKS: usize = 35;

/// What the sync's prompt has to have before the model answers at all: all conversations in their order, from the first
/// to the last answer, then the state of each file. Its groups are what the model answers from: the decision, the last
/// conversation's id as JSON, and who the butler is.
fn shown_to_the_sync() -> String {
    let conversations = concat!(
        r"=== CONVERSATIONS TO PROCESS ===\n",
        r"\[\d+\] \[20[^\n]* IN \(chat:cli\): garden task 1\n",
        r"\[\d+\] \[20[^\n]* OUT \(chat:[^\n]*\): Noted, dear owner\.\n",
        r".* IN \(chat:cli\): garden task 7\. Decided: ([^\n]+)\n",
        r".* IN \(chat:cli\): garden task 35\n",
        r"(\[\d+\]) \[20[^\n]* OUT \(chat:[^\n]*\): Noted, dear owner\.\n",
    );
    let state = concat!(
        r"\n=== CURRENT MEMORY STATE ===\n",
        r"--- core\.md ---\n# Core Memory\n\n\*\*Identity:\*\* ([^,\n]+).*",
        r"\n--- reference/decisions\.md ---\n.*\n--- reference/projects\.md ---\n.*",
        r"\n--- reference/preferences\.md ---\n.*\n--- sessions/today\.md ---\n# Session Log: 20",
    );
    format!("(?s)Memory sync: .*{conversations}{state}")
}

/// All words in a value, however deep.
fn words(value: &Value) -> String {
    let all = |values: Vec<String>| values.into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>().join("\n");
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => all(list.iter().map(words).collect()),
        Value::Object(map) => all(map.values().map(words).collect()),
        _ => String::new(),
    }
}

/// The first request in which a text stands: what its session began with.
fn began(model: &ScriptedModel, text: &str) -> LoggedRequest {
    let asked = |request: &LoggedRequest| {
        request.body["tools"].as_array().is_some_and(|tools| !tools.is_empty())
            && words(&request.body["messages"]).contains(text)
    };
    model.requests().into_iter().find(asked).unwrap_or_else(|| panic!("the model was never asked: {text}"))
}

/// Each of these stands in the text, one after the other.
fn in_order(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let at = rest.find(part).unwrap_or_else(|| panic!("no {part:?} where it should be in\n{text}"));
        rest = &rest[at + part.len()..];
    }
}

impl Household {
    /// What `butlerd journal …` prints.
    fn journal(&self, args: &[&str]) -> String {
        let args: Vec<&str> = ["journal"].iter().chain(args).copied().collect();
        let (code, out, err) = tokio::task::block_in_place(|| self.cli(&args));
        assert_eq!(code, 0, "{args:?}: {out}{err}");
        out
    }

    /// What it prints for programs.
    fn journal_json(&self, args: &[&str]) -> Value {
        let args: Vec<&str> = args.iter().chain(&["--json"]).copied().collect();
        let text = self.journal(&args);
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{args:?}: {e}: {text}"))
    }

    /// Waits until so many conversations are unsummarized, and returns the first and the last.
    async fn unsummarized(&self, wanted: i64) -> (i64, i64) {
        let status = eventually("the conversations", || async {
            let status = self.journal_json(&["sync", "--status"]);
            if status["unsummarized_count"] == wanted { Ok(status) } else { Err(status.to_string()) }
        })
        .await;
        let id = |key: &str| status[key].as_i64().unwrap_or_else(|| panic!("no {key}: {status}"));
        (id("begin_id"), id("end_id"))
    }

    /// Each file is what the rows say, byte by byte.
    fn files_and_rows_agree(&self) {
        let status = self.journal_json(&["status"]);
        assert_eq!((&status["edited"], &status["troubles"]), (&json!([]), &json!([])), "{status}");
        let files = status["files"].as_array().unwrap_or_else(|| panic!("no files: {status}"));
        assert!(files.len() >= 6, "{status}");
        for file in files.iter().filter_map(|file| file["file"].as_str()) {
            let row = self.journal_json(&["show", file]);
            assert_eq!(row["text"], self.journal_file(file), "{file}");
        }
    }

    /// What a person does about a range: reads it, edits a file, has the edit taken in, and makes the checkpoint.
    fn synced_by_hand(&self, (begin, end): (i64, i64), (from, to): (&str, &str), summary: &str) -> String {
        let (begin, end) = (begin.to_string(), end.to_string());
        let range = self.journal(&["sync", "--begin", &begin, "--end", &end]);
        assert!(range.ends_with(&format!("=== END ===\nRange: {begin} to {end}\n")), "{range}");
        let before = self.journal_file("core.md");
        assert!(before.contains(from), "{before}");
        std::fs::write(self.journal_path("core.md"), before.replace(from, to)).expect("the edit");
        let accepted = self.journal_json(&["accept", "--yes"]);
        assert_eq!(accepted, json!({"taken": ["core.md"], "conflicts": [], "changed": [], "refused": []}));
        self.journal(&["checkpoint", &end, "--summary", summary]);
        range
    }
}

/// Says something to the butler, and waits for its answer.
async fn told(daemon: &Daemon, text: &str) {
    let events = say(daemon, json!({"text": text, "butler": GENERAL, "thread": "garden"})).await;
    assert_eq!(
        events.last().map(|event| &event["state"]),
        Some(&json!("done")),
        "{text}: {events:?}\n{}",
        daemon.log()
    );
}

/// Claude Code as the butler's runtime reads what was said and how the files are as soon as it is more than the threshold,
/// keeps what it decides is worth it, and makes the checkpoint that the next session begins with. (Specification 004, 5.4
/// and 9.3)
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_code_works_conversations_in_and_the_next_session_begins_with_them() {
    let test = "journal_clients::claude_code_works_conversations_in_and_the_next_session_begins_with_them";
    let Some(program) = std::env::var_os("BUTLERD_TEST_CLAUDE") else {
        return left_out(test, "BUTLERD_TEST_CLAUDE is not set; `eval \"$(.ci/run clients)\"` installs it");
    };
    let kept = json!([
        {"tool": "journal_write", "arguments": {"file": "reference/decisions.md", "title": "The fence",
            "text": "{{match.1}}", "context": "The owner decided it in the garden.", "status": "active"}},
        {"tool": "journal_log", "arguments": {"text": "{{match.3}}, and 35 tasks in the garden were noted"}}]);
    let checkpoint = json!({"end": "{{match.2./0}}", "summary": SUMMARY});
    let model = model(json!([
        {"when": shown_to_the_sync(), "steps": [
            {"call": {"tool": "journal_read", "arguments": {"file": "reference/decisions.md"}}}, {"calls": kept},
            {"call": {"tool": "journal_checkpoint", "arguments": checkpoint}}, {"say": "It is worked in."}]},
        {"when": "^(?s:.*)garden task \\d+", "steps": [{"say": "Noted, dear owner."}]},
    ]))
    .await;
    // The last answer is one more than the threshold.
    let settings = format!("{SETTINGS}threshold = {}\ncooldown = \"1s\"\n", 2 * TASKS - 1);
    let household = Household::with_model(&model)
        .runtime(GENERAL, "type = \"claude-code\"")
        .model(GENERAL, "claude-sonnet-4-5")
        .replace("general/butler.toml", SETTINGS, &settings)
        .env("BUTLERD_SPAWNER__CLIS__CLAUDE", program.to_str().expect("a path"));
    let daemon = household.start().await;
    for n in 1..=TASKS {
        let decided = if n == 7 { ". Decided: The fence is of oak." } else { "" };
        if n == TASKS {
            household.unsummarized(2 * TASKS as i64 - 2).await;
            assert_eq!(household.journal_json(&["checkpoints"])["items"], json!([]), "not before there is too much");
        }
        told(&daemon, &format!("garden task {n}{decided}")).await;
    }
    let made = eventually("the checkpoint", || async {
        let made = household.journal_json(&["checkpoints"])["items"].take();
        if made == json!([]) { Err(household.journal(&["status"])) } else { Ok(made) }
    })
    .await;
    let log = household.journal_json(&["log", "1000"])["items"].take();
    let (first, last) = (log[0]["id"].clone(), log[2 * TASKS - 1]["id"].clone());
    let made = |key: &str| &made[0][key];
    assert_eq!([made("start_id"), made("end_id"), made("count")], [&first, &last, &json!(2 * TASKS)]);
    assert_eq!(made("summary"), SUMMARY);
    household.files_and_rows_agree();
    let decisions = household.journal_file("reference/decisions.md");
    in_order(&decisions, &["The fence\n- **Decision:** The fence is of oak.", "- **Status:** active\n"]);
    assert!(
        household.journal_file("sessions/today.md").contains("- I am general, and 35 tasks in the garden were noted\n")
    );

    // The next session begins with it, and asks for no other sync.
    told(&daemon, "garden task 99").await;
    let system = words(&began(&model, "garden task 99").body["system"]);
    in_order(
        &system,
        &[CORE, "# Core Memory", END_CORE, "=== REFERENCE: reference/decisions.md ===", "The fence is of oak."],
    );
    in_order(&system, &[END_CORE, &format!("[Last Checkpoint Summary] {SUMMARY}"), "[Recent Conversations] (id "]);
    assert!(system.find("# Memory Context").is_none_or(|at| Some(at) > system.find(END_CORE)), "{system}");
    assert!(!system.contains(ACTION) && !system.contains("garden task 35"), "{system}");
    household.unsummarized(2).await;
    let db = household.owner().await;
    db.batch_execute("SET butlerd.tenant = 'owner'").await.expect("the tenant");
    let row = db.query_one("SELECT count(*), bool_or(by_hand) FROM general.journal_syncs", &[]).await.expect("a row");
    assert_eq!((row.get::<_, i64>(0), row.get::<_, bool>(1)), (1, false), "one, and nobody asked for it");
    let of_sync = "SELECT runtime, state FROM general.sessions WHERE prompt LIKE '%Memory sync: %'";
    let sessions = db.query(of_sync, &[]).await.expect("the sessions");
    let sessions: Vec<(String, String)> = sessions.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(sessions, [("claude-code".to_owned(), "succeeded".to_owned())]);
}

/// A person's Claude Code with the journal's hooks.
struct Interactive<'a> {
    assistant: Assistant<'a>,
    household: &'a Household,
    model: &'a ScriptedModel,
    /// What the hooks were written into.
    settings: PathBuf,
}

impl<'a> Interactive<'a> {
    /// In a home of its own, with the hooks in the settings of all of the person's sessions.
    async fn with_hooks(assistant: Assistant<'a>, household: &'a Household, model: &'a ScriptedModel) -> Self {
        let home = assistant.environment.iter().find(|(name, _)| *name == "CLAUDE_CONFIG_DIR").expect("a home");
        let settings = Path::new(&home.1).join("settings.json");
        let (program, path) = (crate::support::butlerd(), settings.display().to_string());
        assistant.run(program, &["journal", "install-hooks", "--settings", &path]).await;
        let skill = std::fs::read_to_string(settings.with_file_name("skills/memory-sync/SKILL.md"));
        assert!(skill.expect("the skill").contains("name: memory-sync"));
        Self { assistant, household, model, settings }
    }

    /// The command that the settings have for an event.
    fn command(&self, event: &str) -> String {
        let text = std::fs::read_to_string(&self.settings).expect("the settings");
        let settings: Value = serde_json::from_str(&text).expect("JSON");
        let command = settings["hooks"][event][0]["hooks"][0]["command"].as_str();
        command.unwrap_or_else(|| panic!("no hook of {event}: {settings}")).to_owned()
    }

    /// What the hook prints as a session starts. It gives up after a tenth of a second, and says nothing then.
    fn printed(&self) -> String {
        let developer = &self.assistant.developer;
        let input = json!({"session_id": uuid::Uuid::now_v7(), "cwd": developer.at, "source": "startup",
            "hook_event_name": "SessionStart"});
        for _ in 0..ROUNDS {
            let args = ["-c", &self.command("SessionStart")];
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

    /// What Claude Code first sends the model in a new session, and what the hook prints: the model was sent just that.
    async fn started(&self, about: &str) -> (String, String) {
        let printed = self.printed();
        for round in 1..=ROUNDS {
            let prompt = format!("Good morning, {about}, round {round}.");
            assert_eq!(self.assistant.claude(&prompt, &[]).await, "Good morning.");
            let sent = words(&began(self.model, &prompt).body["messages"]);
            if sent.contains(CORE) {
                assert!(sent.contains(&printed), "the hook prints\n{printed}\n\nand the model was sent\n{sent}");
                return (sent, printed);
            }
        }
        panic!("the hook was late {ROUNDS} times: {}", self.household.journal(&["status"]));
    }

    /// What a session of the household's own, started by the owner, begins with.
    async fn own(&self, daemon: &Daemon, about: &str) -> String {
        for round in 1..=ROUNDS {
            let prompt = format!("Look around, {about}, round {round}.");
            let done = daemon.mcp(GENERAL).ok("trigger", json!({"prompt": prompt})).await;
            assert_eq!(done["success"], true, "{done}\n{}", daemon.log());
            let system = words(&began(self.model, &prompt).body["system"]);
            if system.contains(CORE) {
                return system;
            }
        }
        panic!("the journal was late {ROUNDS} times:\n{}", daemon.log());
    }
}

/// A household whose journal a person keeps, with a model that answers both of them. `remembers`: memory tells its own
/// sessions something, too, however busy the machine is.
async fn by_hand(remembers: bool) -> (ScriptedModel, Household) {
    let model = model(json!([
        {"when": "Good morning, ", "steps": [{"say": "Good morning."}]},
        {"when": "Look around, ", "steps": [{"say": "I see."}]},
        {"when": "garden task \\d+", "steps": [{"say": "Noted, dear owner."}]},
    ]))
    .await;
    let memory = match remembers {
        true => "[modules.memory]\nenabled = true\n[modules.memory.retrieval]\ndeadline = \"10s\"",
        false => "[modules.memory]\nenabled = false",
    };
    let household = Household::with_model(&model)
        .replace("general/butler.toml", "[modules.memory]\nenabled = true", memory)
        .replace("general/butler.toml", SETTINGS, &format!("{SETTINGS}sync = \"by_hand\"\n"));
    (model, household)
}

/// Claude Code begins with core memory and the last checkpoint, told as the household's own sessions are, is asked to
/// summarize when too much was said, and not any more when a person has. (Specification 004, 9.5)
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_code_begins_with_the_journal_as_the_household_s_own_sessions_do() {
    let test = "journal_clients::claude_code_begins_with_the_journal_as_the_household_s_own_sessions_do";
    let (model, household) = by_hand(false).await;
    let Some(assistant) = claude(test, &household, &model) else { return };
    let assistant = with_socket(assistant, &household);
    let daemon = household.start().await;
    let person = Interactive::with_hooks(assistant, &household, &model).await;
    told(&daemon, "garden task 0").await;
    let range = household.unsummarized(2).await;
    let edit = ("## Active Working State\n", "## Active Working State\nThe garden: a fence is planned.\n");
    let shown = household.synced_by_hand(range, edit, "Focus: a fence is planned.");
    in_order(&shown, &["IN (chat:cli): garden task 0\n", ": Noted, dear owner.\n", "--- core.md ---\n# Core Memory\n"]);

    let (sent, text) = person.started("little was said").await;
    assert!(
        text.starts_with(&format!("{CORE}\n\n{}\n\n{END_CORE}\n\n", household.journal_file("core.md").trim())),
        "{text}"
    );
    in_order(&text, &["a fence is planned.\n", END_CORE, "[Last Checkpoint Summary] Focus: a fence is planned."]);
    assert_eq!((sent.matches(CORE).count(), sent.matches(ACTION).count()), (1, 0), "{sent}");
    let own = person.own(&daemon, "little was said").await;
    assert!(own.contains(&text), "the hook prints\n{text}\n\nand a session of the household's own has\n{own}");

    // Sixteen conversations and their answers are more than thirty.
    for n in 1..=16 {
        told(&daemon, &format!("garden task {n}")).await;
    }
    let (begin, end) = household.unsummarized(32).await;
    let action = format!("{ACTION} {begin} --end {end}");
    let (sent, text) = person.started("much was said").await;
    assert!(text.ends_with(&format!("\n\n{action}")), "{text}");
    in_order(&text, &["[Last Checkpoint Summary] Focus: a fence", "garden task 14\n", "garden task 16\n", &action]);
    assert!(!text.contains("garden task 13\n"), "the last six are told: {text}");
    // The start says it, and the prompt once more, unless that hook was late.
    assert!((1..=2).contains(&sent.matches(&action).count()), "{sent}");
    let own = person.own(&daemon, "much was said").await;
    assert!(own.contains(&text), "the hook prints\n{text}\n\nand a session of the household's own has\n{own}");

    let edit = ("a fence is planned.\n", "the fence stands.\n");
    let shown = household.synced_by_hand((begin, end), edit, SUMMARY);
    in_order(&shown, &["garden task 1\n", "garden task 16\n", "a fence is planned.\n"]);
    household.files_and_rows_agree();
    let (sent, text) = person.started("a person summarized it").await;
    in_order(&text, &["the fence stands.\n", END_CORE, &format!("[Last Checkpoint Summary] {SUMMARY}")]);
    assert!(!sent.contains(ACTION) && !sent.contains("garden task 16"), "{sent}");
    let own = person.own(&daemon, "a person summarized it").await;
    assert!(own.contains(&text), "the hook prints\n{text}\n\nand a session of the household's own has\n{own}");
}

/// Where the household's journal is asked.
fn with_socket<'a>(mut assistant: Assistant<'a>, household: &Household) -> Assistant<'a> {
    let socket = household.data().join("run/journal.sock").display().to_string();
    assistant.environment.push(("BUTLERD_JOURNAL_SOCKET", socket));
    assistant
}

/// Where project memory is on as well, one text says both: core memory, what the project knows, and the rest. Each of
/// the two has its hooks in settings of its own, as a person installs them, and nothing is told twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_code_is_told_the_journal_and_project_memory_in_one() {
    let test = "journal_clients::claude_code_is_told_the_journal_and_project_memory_in_one";
    let (model, household) = by_hand(true).await;
    let household = household.and_workshop();
    // The daemon is where both look for it.
    let share = household.path().join(".local/share");
    std::fs::create_dir_all(&share).expect("the directory");
    std::os::unix::fs::symlink(household.data(), share.join("butlerd")).expect("the link");
    let Some(mut assistant) = claude(test, &household, &model) else { return };
    assistant.environment.push(("BUTLERD_PROJECT_SOCKET", String::new()));
    let daemon = household.start().await;
    assistant.init("claude").await;
    let sheet = "Deploy with `make ship`, because plain pushes skip the migrations";
    assistant.developer.remember("Learning", "cheat-sheet", sheet);
    let person = Interactive::with_hooks(assistant, &household, &model).await;
    told(&daemon, "garden task 1").await;
    household.unsummarized(2).await;

    let both = person.both_printed(sheet);
    in_order(
        &both,
        &[CORE, "# Core Memory", END_CORE, "\n\n=== OPERATIONAL CHEAT SHEET ===\n", sheet, "\n=== END ==="],
    );
    in_order(&both, &["=== END ===\n\n[Recent Conversations] (id ", "IN (chat:cli): garden task 1\n"]);
    // The household's own sessions are told the same around what memory tells them, byte by byte.
    let fact = json!({"subject": "owner", "predicate": "car", "content": "drives a green Saab"});
    daemon.mcp(GENERAL).ok("memory_store_fact", fact).await;
    let own = person.own(&daemon, "which car do I drive?").await;
    let (core, after) = both.split_once(&format!("{END_CORE}\n\n")).expect("the end of core memory");
    let (_, rest) = after.split_once("\n=== END ===\n\n").expect("the end of what the project knows");
    let (_, after) =
        own.split_once(&format!("{core}{END_CORE}\n\n# Memory Context\n")).unwrap_or_else(|| panic!("{both}\n\n{own}"));
    let (memory, _) = after.split_once(&format!("\n\n{rest}")).unwrap_or_else(|| panic!("{both}\n\n{own}"));
    assert!(memory.contains("green Saab") && !memory.contains("[Recent Conversations]"), "{own}");
    for round in 1..=ROUNDS {
        let prompt = format!("Good morning, both memories, round {round}.");
        person.assistant.claude(&prompt, &[]).await;
        let sent = words(&began(&model, &prompt).body["messages"]);
        if sent.contains(&both) {
            let told = [
                CORE,
                "=== OPERATIONAL CHEAT SHEET ===",
                "[Recent Conversations]",
                "SessionStart hook additional context",
            ];
            assert_eq!(told.map(|part| sent.matches(part).count()), [1; 4], "{sent}");
            return;
        }
        assert!(!(sent.contains(CORE) && sent.contains(sheet)), "both came, in another way than\n{both}\n\n{sent}");
    }
    panic!("hooks were late {ROUNDS} times");
}

impl Interactive<'_> {
    /// What the hook prints of both memories.
    fn both_printed(&self, of_project: &str) -> String {
        let printed = (0..ROUNDS).map(|_| self.printed()).find(|text| text.contains(of_project));
        printed.unwrap_or_else(|| panic!("project memory was late {ROUNDS} times"))
    }
}

/// A flat memory of before: nine kilobytes in one file, and decisions of their own.
fn flat(household: &Household, kind: &str) -> PathBuf {
    let dir = household.path().join(kind);
    std::fs::create_dir_all(&dir).expect("the directory");
    let notes: String = (1..=40).map(|n| format!("- Note {n} of the {kind} memory: {}\n", "x".repeat(180))).collect();
    let context = format!(
        "# Context ({kind})\n\n## User\nName: Ada. Principle: short answers.\n\n## Services\n- The gate's camera\n\n\
         ### Old focus\nThe fence of oak is being built.\n\n## Notes\n{notes}"
    );
    std::fs::write(dir.join("context.md"), context).expect("a file");
    std::fs::write(dir.join("decisions.md"), "# Decisions\n\n### Larch\nThe bench is of larch.\n").expect("a file");
    dir
}

/// All files below a directory with their bytes.
fn originals(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir).expect("it").flatten().map(|entry| entry.path()).collect();
    files.sort();
    files.into_iter().map(|path| (path.clone(), std::fs::read(path).expect("a file"))).collect()
}

/// What the model does that divides an old memory, as far as it comes.
fn divides() -> Value {
    let write = |file: &str, title: &str, text: &str| json!({"tool": "journal_write", "arguments": {"file": file, "title": title, "text": text}});
    json!([
        {"call": {"tool": "journal_read", "arguments": {"file": "reference/context.md"}}},
        {"calls": [
            write("core.md", "User Profile", "- Name: {{match.1}}"),
            write("core.md", "Services", "- The gate's camera"),
            write("core.md", "Key References", &"y".repeat(2900)),
            write("core.md", "Active Working State", "{{match.2}}"),
            write("reference/projects.md", "The fence", "It is being built."),
            {"tool": "journal_log", "arguments": {"text": "The old memory was divided"}}]},
        {"call": {"tool": "journal_archive", "arguments": {"file": "reference/context.md", "title": "Old focus"}}},
    ])
}

/// Claude Code as the butler's runtime divides the one file of an old memory: core memory stays below its budget, the
/// originals stay as they are, all of it can be taken back, and of a session that fails nothing stays. (Specification 004,
/// 8.2)
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_code_divides_an_old_memory_or_leaves_nothing_of_it() {
    let test = "journal_clients::claude_code_divides_an_old_memory_or_leaves_nothing_of_it";
    let Some(program) = std::env::var_os("BUTLERD_TEST_CLAUDE") else {
        return left_out(test, "BUTLERD_TEST_CLAUDE is not set; `eval \"$(.ci/run clients)\"` installs it");
    };
    let when = |kind: &str| {
        format!(
            r"(?s)Divide an old memory file\..*=== CONTEXT\.MD ===\n# Context \({kind}\).*Name: (\w+)\..*### Old focus\n([^\n]+)\n.*Note 40 "
        )
    };
    let steps = |end: Value| Value::Array(divides().as_array().into_iter().flatten().cloned().chain([end]).collect());
    let model = model(json!([
        {"when": when("good"), "steps": steps(json!({"say": "It is divided."}))},
        {"when": when("doomed"), "steps": steps(json!({"fail": {"status": 400, "body": "no more"}}))},
    ]))
    .await;
    let household = Household::with_model(&model)
        .runtime(GENERAL, "type = \"claude-code\"")
        .model(GENERAL, "claude-sonnet-4-5")
        .replace("general/butler.toml", SETTINGS, &format!("{SETTINGS}sync = \"by_hand\"\n"))
        .env("BUTLERD_SPAWNER__CLIS__CLAUDE", program.to_str().expect("a path"));
    let daemon = household.start().await;
    household.journal_begun().await;
    let db = household.rows().await;
    let before = files_of_rows(&db).await;
    let dir = flat(&household, "doomed");
    let (path, given) = (dir.to_str().expect("a path"), originals(&dir));
    let dry = household.journal(&["migrate", path, "--dry-run"]);
    assert!(dry.contains("context.md -> reference/context.md") && files_of_rows(&db).await == before, "{dry}");
    let state_of = async |session: &str| {
        eventually("the session's end", || async {
            let sql = "SELECT state, runtime FROM general.sessions WHERE id::text = $1 AND state NOT IN ('queued', 'running')";
            let row = db.query_opt(sql, &[&session]).await.expect("the session").ok_or_else(|| "it goes on".to_owned())?;
            Ok((row.get::<_, String>(0), row.get::<_, String>(1)))
        })
        .await
    };
    let session_of = |out: &str| {
        let (_, after) =
            out.split_once("A session divides context.md: butlerd sessions show ").unwrap_or_else(|| panic!("{out}"));
        after.split_whitespace().next().expect("an id").to_owned()
    };

    // One that breaks off in the middle leaves nothing but the copy.
    let session = session_of(&household.journal(&["migrate", path]));
    assert_eq!(state_of(&session).await, ("failed".to_owned(), "claude-code".to_owned()), "{}", daemon.log());
    eventually("what it wrote is taken back", || async {
        let troubles = household.journal_json(&["status"])["troubles"].to_string();
        if troubles.contains("came to nothing, and what it wrote was taken back") { Ok(()) } else { Err(troubles) }
    })
    .await;
    let rows = files_of_rows(&db).await;
    for file in ["core.md", "reference/projects.md", "sessions/today.md"] {
        assert_eq!(rows[file], before[file], "{file}");
    }
    assert_eq!(rows["reference/context.md"].as_bytes(), given[0].1, "the copy is whole");
    household.rows_and_files_agree(&db, "after a session that failed").await;
    household.journal(&["migrate", "--rollback"]);
    assert_eq!(files_of_rows(&db).await, before, "and that is taken back, too");
    assert_eq!(household.journal_json(&["status"])["troubles"], json!([]));

    // One that comes to its end.
    let good = flat(&household, "good");
    let session = session_of(&household.journal(&["migrate", good.to_str().expect("a path")]));
    assert_eq!(state_of(&session).await, ("succeeded".to_owned(), "claude-code".to_owned()), "{}", daemon.log());
    let core = household.journal_file("core.md");
    in_order(
        &core,
        &["## User Profile\n- Name: Ada\n", "## Active Working State\nThe fence of oak is being built.\n", "None yet."],
    );
    assert!(core.len() < 3072 && core.contains("## Services\n- The gate's camera\n"), "{} bytes: {core}", core.len());
    let refused = model.requests().iter().filter(|request| request.body.to_string().contains("over_budget")).count();
    assert!(refused > 0, "what did not fit was refused");
    assert!(household.journal_file("reference/projects.md").contains("### The fence\n"));
    assert!(household.journal_file("reference/decisions.md").contains("### Larch\nThe bench is of larch.\n"));
    assert!(household.journal_file("sessions/today.md").contains(" - The old memory was divided\n"));
    let (left, archived) =
        (household.journal_file("reference/context.md"), household.journal_file("archive/context.md"));
    assert!(
        !left.contains("### Old focus") && archived.contains("### Old focus\nThe fence of oak"),
        "{left}\n{archived}"
    );
    household.files_and_rows_agree();
    assert_eq!((originals(&dir), originals(&good).len()), (given, 2), "the originals are where they were");
    let out = household.journal(&["migrate", "--rollback"]);
    assert_eq!(files_of_rows(&db).await, before, "{out}");
    household.rows_and_files_agree(&db, "after the migration was taken back").await;
}
