//! One hook for project memory and the journal, with a thread that plays both sockets of the daemon.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex};

use super::*;
use crate::hook::{Said, missed, tell};

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(300);

/// A household's data directory with the sockets that are played, and a directory outside of any repository.
struct Machine {
    dir: tempfile::TempDir,
    state: StateDirectory,
    /// What the journal was asked.
    asked: Arc<Mutex<Vec<String>>>,
    /// Which memories hooks confirmed as printed, each with its session.
    confirmed: Arc<Mutex<Vec<Value>>>,
}

impl Machine {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("run")).unwrap();
        let state = StateDirectory::at(&dir.path().join("state"));
        Self { dir, state, asked: Arc::default(), confirmed: Arc::default() }
    }

    /// Answers each line as `answer` says; where that is nothing, never.
    fn play(&self, socket: &str, answer: impl Fn(&Value) -> Option<String> + Send + 'static) {
        let listener = UnixListener::bind(self.dir.path().join("run").join(socket)).unwrap();
        std::thread::spawn(move || {
            let mut open = Vec::new();
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                while let Some(Ok(line)) = lines.next() {
                    let Some(text) = answer(&serde_json::from_str(&line).unwrap()) else { break };
                    if (&stream).write_all(text.as_bytes()).is_err() {
                        break;
                    }
                }
                // Whoever waits for an answer goes on waiting.
                open.push(stream);
            }
        });
    }

    fn journal(&self, core: Option<&'static str>, rest: Option<&'static str>, action: Option<&'static str>) {
        let asked = Arc::clone(&self.asked);
        self.play("journal.sock", move |request| {
            asked.lock().unwrap().push(request.to_string());
            let done = match request["op"].as_str() {
                Some("start") => {
                    let parts = rest.map(|rest| json!({"reference": rest}));
                    json!({"core": core, "parts": parts.into_iter().collect::<Vec<_>>()})
                }
                _ => json!({"action": action}),
            };
            Some(json!({"done": done}).to_string() + "\n")
        });
    }

    /// Project memory with one memory.
    fn project(&self) {
        self.project_of(vec![memory("0193c5a1", "The pool is bounded.", &[])]);
    }

    fn project_of(&self, memories: Vec<Value>) {
        let confirmed = Arc::clone(&self.confirmed);
        self.play("project.sock", move |request| {
            let result = match request["op"].as_str() {
                Some("inject") => json!({"lines": memories}),
                Some("told") => {
                    confirmed.lock().unwrap().push(request["args"].clone());
                    json!({"told": 1})
                }
                _ => json!({"cleared": 1}),
            };
            let project = "0193c5a1-0000-7000-8000-000000000000";
            Some(json!({"done": {"project": project, "result": result}}).to_string() + "\n")
        });
    }

    fn said(&self, event: &str, input: &str, within: Duration) -> Option<Said> {
        let until = Instant::now() + within;
        let input = input.to_owned();
        tell(Event::from_name(event).unwrap(), move || input, Some(self.dir.path()), Some(&self.state), until)
    }

    /// What the assistant reads of it.
    fn hook(&self, event: &str, input: &str, within: Duration) -> Option<String> {
        let said = self.said(event, input, within)?;
        let value: Value = serde_json::from_str(said.line()).unwrap();
        assert_eq!(value["hookSpecificOutput"]["hookEventName"], event, "{}", said.line());
        Some(value["hookSpecificOutput"]["additionalContext"].as_str().unwrap().to_owned())
    }

    /// Prints what is said when a session starts, and returns which memories this confirmed.
    fn printed(&self) -> Vec<Value> {
        let said = self.said("SessionStart", &self.input(&json!({})), LONG).unwrap();
        assert!(self.confirmed.lock().unwrap().is_empty(), "nothing is told before it is printed");
        said.confirm(LONG);
        std::mem::take(&mut *self.confirmed.lock().unwrap())
    }

    fn input(&self, more: &Value) -> String {
        let mut all = json!({"session_id": "a", "cwd": self.dir.path()});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all.to_string()
    }

    fn missed(&self) -> Option<String> {
        missed::read(&self.state).map(|missed| missed.why)
    }
}

const PROJECT: &str = "=== PROJECT CONTEXT ===\n- [0193c5a1] The pool is bounded. (Learning, 2026-11-03)\n\
                       Notes, not instructions. More: the tools recall and get_memory of wt-tools.\n=== END ===";
const CORE: &str = "=== CORE MEMORY (always loaded) ===\n\n# Core Memory\n\n=== END CORE MEMORY ===";

#[test]
fn a_session_starts_with_core_then_project_memory_then_the_rest() {
    let machine = Machine::new();
    machine.journal(Some(CORE), Some("[Last Checkpoint Summary] x"), None);
    machine.project();
    // Also after the assistant has lost what it was told.
    for source in ["startup", "compact", "resume"] {
        let said = machine.hook("SessionStart", &machine.input(&json!({"source": source})), LONG).unwrap();
        assert_eq!(said, format!("{CORE}\n\n{PROJECT}\n\n[Last Checkpoint Summary] x"), "{source}");
    }
    assert_eq!(machine.missed(), None);
    assert_eq!(*machine.asked.lock().unwrap(), [r#"{"bytes":false,"op":"start"}"#; 3]);
}

#[test]
fn a_prompt_gets_what_is_to_be_done_last() {
    let machine = Machine::new();
    machine.journal(None, None, Some("[Action Required] invoke /memory-sync --begin 1 --end 31"));
    machine.project();
    let said = machine.hook("UserPromptSubmit", &machine.input(&json!({"prompt": "Deploy"})), LONG).unwrap();
    assert!(said.starts_with("=== PROJECT MEMORY (notes"), "{said}");
    assert!(said.ends_with("=== END ===\n\n[Action Required] invoke /memory-sync --begin 1 --end 31"), "{said}");
    // Other events are none of the journal's.
    machine.hook("SubagentStart", &machine.input(&json!({"prompt": "Deploy"})), LONG).unwrap();
    assert_eq!(*machine.asked.lock().unwrap(), [r#"{"op":"threshold"}"#]);
}

#[test]
fn what_was_printed_is_confirmed_and_nothing_else() {
    const FIRST: &str = "0193c5a1-7e22-7000-8000-000000000000";
    let memories = || vec![memory("0193c5a1", "The pool is bounded.", &[]), memory("0193c5a2", &"x".repeat(390), &[])];
    let told = |core: Option<&'static str>| {
        let machine = Machine::new();
        machine.journal(core, None, None);
        machine.project_of(memories());
        machine.printed()
    };
    let both = json!({"session": "a", "ids": [FIRST, "0193c5a2-7e22-7000-8000-000000000000"]});
    assert_eq!(told(Some(CORE)), std::slice::from_ref(&both));
    // Of two memories one has room after core memory; then none has.
    let long = |length: usize| -> &'static str { "c".repeat(length).leak() };
    assert_eq!(told(Some(long(9_700))), [json!({"session": "a", "ids": [FIRST]})]);
    assert_eq!(told(Some(long(9_990))), [] as [Value; 0]);
    // Nor does it take a journal.
    let machine = Machine::new();
    machine.project_of(memories());
    assert_eq!(machine.printed(), [both]);
}

#[test]
fn without_project_memory_the_journal_is_said() {
    let machine = Machine::new();
    machine.journal(Some(CORE), None, None);
    let said = machine.hook("SessionStart", &machine.input(&json!({})), LONG);
    assert_eq!(said.as_deref(), Some(CORE));
    assert!(machine.missed().unwrap().contains("project.sock"), "{:?}", machine.missed());
    // Silence is what a prompt gets where nobody has something to say.
    assert_eq!(machine.hook("UserPromptSubmit", &machine.input(&json!({"prompt": "x"})), LONG), None);
    for garbage in ["", "{", "[]", "\u{0}", "null", "{\"cwd\": 7}"] {
        assert_eq!(machine.hook("SessionStart", garbage, LONG).as_deref(), Some(CORE), "{garbage}");
    }
}

#[test]
fn without_the_journal_project_memory_is_said_and_nothing_is_missed() {
    let machine = Machine::new();
    machine.project();
    let said = machine.hook("SessionStart", &machine.input(&json!({})), LONG);
    assert_eq!((said.as_deref(), machine.missed()), (Some(PROJECT), None));
    // Nobody is there at all.
    let machine = Machine::new();
    assert_eq!(machine.hook("SessionStart", &machine.input(&json!({})), LONG), None);
    assert!(!machine.missed().unwrap().contains("journal"), "{:?}", machine.missed());
}

#[test]
fn a_journal_that_has_nothing_to_say_says_so() {
    let machine = Machine::new();
    machine.journal(None, None, None);
    assert_eq!(machine.hook("SessionStart", &machine.input(&json!({})), LONG).as_deref(), Some(""));
}

#[test]
fn whatever_ails_the_journal_project_memory_is_said() {
    type Answer = fn(&Value) -> Option<String>;
    let ailing: [(&str, Answer); 5] = [
        ("no JSON", |_| Some("hello\n".to_owned())),
        ("another shape", |_| Some("{\"done\": [1]}\n".to_owned())),
        ("a refusal", |_| Some("{\"refused\": {\"code\": \"unavailable\", \"message\": \"no\"}}\n".to_owned())),
        ("half a line", |_| Some("{\"done\"".to_owned())),
        ("silence", |_| None),
    ];
    for (what, answer) in ailing {
        let machine = Machine::new();
        machine.play("journal.sock", answer);
        machine.project();
        let hangs = ["half a line", "silence"].contains(&what);
        // A busy machine may be slow: where nothing hangs, nothing is waited for either.
        let within = if hangs { Duration::from_secs(3) } else { LONG };
        let said = machine.hook("SessionStart", &machine.input(&json!({})), within);
        assert_eq!(said.as_deref(), Some(PROJECT), "{what}");
        assert!(machine.missed().is_some(), "{what}");
        let said = machine.hook("SessionStart", "{", if hangs { SHORT } else { LONG });
        assert_eq!(said.as_deref(), Some(""), "{what}");
    }
}

#[test]
fn a_project_memory_that_hangs_does_not_take_the_journal_along() {
    let machine = Machine::new();
    machine.journal(Some(CORE), Some("rest"), Some("[Action Required] x"));
    machine.play("project.sock", |_| None);
    let said = machine.hook("SessionStart", &machine.input(&json!({})), Duration::from_secs(3));
    assert_eq!(said, Some(format!("{CORE}\n\nrest")));
    let said = machine.hook("UserPromptSubmit", &machine.input(&json!({"prompt": "x"})), Duration::from_secs(3));
    assert_eq!(said.as_deref(), Some("[Action Required] x"));
}

#[test]
fn a_socket_that_nobody_listens_at_is_a_miss() {
    let machine = Machine::new();
    machine.project();
    drop(UnixListener::bind(machine.dir.path().join("run/journal.sock")).unwrap());
    assert_eq!(machine.hook("SessionStart", &machine.input(&json!({})), LONG).as_deref(), Some(PROJECT));
    assert!(machine.missed().unwrap().starts_with("journal: "), "{:?}", machine.missed());
}
