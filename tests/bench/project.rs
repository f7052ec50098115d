//! What a coding assistant waits for at each prompt, and whether it is told what bears on it: hooks and commands as
//! processes, from their start to their end, in turns with two floors of the same run.
//!
//! The floors are `true`, which does nothing, and this very program when all it does is to say a line to a bare echo at
//! a Unix socket. Memories and prompts are `tests/data/project/`: a thousand notes on one product in the manner of
//! changelogs and decision records, and two hundred prompts, each with the notes that a colleague would call related.
//! For the times, nine thousand more of made-up words stand beside them. A prompt is a hit if the hook tells the note
//! that answers it; a line is unrelated if it is none of those that the prompt lists.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::daemon::Daemon;
use crate::household::Household;
use crate::table::{self, Verdict, median, p95};
use crate::{Failed, Plan};

/// A hook, process start included, p95.
const HOOK_MS: f64 = 15.0;
/// A search by the command line, p50.
const RECALL_MS: f64 = 8.0;
/// Of 100 prompts whose memory is there, so many are told it.
const HITS: f64 = 95.0;
/// Of 100 lines that are told, so many have nothing to do with the prompt at most.
const UNRELATED: f64 = 5.0;
/// Memories of the large project.
const MANY: usize = 10_000;
/// Hooks that store something at once.
const AT_ONCE: usize = 100;

#[derive(Deserialize)]
struct Memory {
    key: String,
    #[serde(rename = "type")]
    kind: String,
    content: String,
}

#[derive(Deserialize)]
struct Prompt {
    prompt: String,
    relevant: HashSet<String>,
    answer: Option<String>,
}

pub async fn measure(plan: &Plan) -> Result<(), Failed> {
    let memories: Vec<Memory> = read("memories.jsonl")?;
    let mut prompts: Vec<Prompt> = read("prompts.jsonl")?;
    if plan.is_quick() {
        prompts.truncate(20);
    }
    let household = Household::with_workshop()?;
    let daemon = Daemon::start(&household, &[]).await?;
    let told = |developer: &Developer| -> Result<Hits, Failed> {
        let mut hits = Hits::default();
        let keys: HashMap<&str, &str> = memories.iter().map(|m| (head(&m.content), &*m.key)).collect();
        for (n, prompt) in prompts.iter().enumerate() {
            let (_, text) = developer.prompt(&format!("precision-{n}"), &prompt.prompt)?;
            hits.count(prompt, &lines(&text), &keys);
        }
        Ok(hits)
    };
    let few = Developer::new(&household, "few")?;
    few.import(memories.iter().map(|m| (&*m.kind, m.content.clone())))?;
    let of_few = told(&few)?;
    let many = Developer::new(&household, "many")?;
    let filler = (memories.len()..MANY).map(|n| ("Learning", made_up(n)));
    many.import(memories.iter().map(|m| (&*m.kind, m.content.clone())).chain(filler))?;
    let of_many = told(&many)?;
    let times = Times::measure(&household, &many, &prompts)?;
    let stored = at_once(&household, &many)?;
    table::project_head(prompts.len(), MANY);
    table::project(
        "hook of a prompt",
        &times.hook,
        &times,
        Some(Verdict::at_most("project.hook", p95(&times.hook), HOOK_MS, "ms, p95")),
    );
    let recall = Verdict::at_most("project.recall", median(&times.recall), RECALL_MS, "ms, p50");
    table::project("recall by the command line", &times.recall, &times, Some(recall));
    table::project("one line to a bare echo", &times.echo, &times, None);
    table::project("true", &times.nothing, &times, None);
    table::note(&format!("{MANY} memories: {}", of_many.text(MANY)));
    table::note(&format!("{} memories: {}", memories.len(), of_few.text(memories.len())));
    let all = Verdict::at_least("project.at_once", stored as f64, AT_ONCE as f64, "stored");
    table::note(&format!("{AT_ONCE} hooks at once, each with something to store: {stored} stored   {all}"));
    daemon.stop().await
}

fn read<T: serde::de::DeserializeOwned>(name: &str) -> Result<Vec<T>, Failed> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/project").join(name);
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    text.lines().map(|line| serde_json::from_str(line).map_err(|e| format!("{name}: {e}: {line}").into())).collect()
}

/// What a line of a hook shows of a memory for certain, whatever its length.
fn head(content: &str) -> &str {
    content.char_indices().nth(50).map_or(content, |(at, _)| &content[..at])
}

/// A sentence of made-up words: what is not looked for.
fn made_up(n: usize) -> String {
    let mut state = n as u64 + 1;
    let mut next = |most: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % most
    };
    let parts =
        ["ka", "lor", "mi", "ten", "su", "var", "po", "dre", "ni", "gal", "ho", "bes", "ru", "zim", "fe", "tol"];
    let mut words = Vec::new();
    for at in 0..18 {
        let syllables = 2 + next(2);
        let word: String = (0..syllables).map(|_| parts[next(parts.len())]).collect();
        words.push(match at {
            3 => "because".to_owned(),
            7 => "the".to_owned(),
            11 => "of".to_owned(),
            _ => word,
        });
    }
    words.join(" ")
}

/// A developer's repository.
struct Developer {
    at: PathBuf,
    home: PathBuf,
    socket: PathBuf,
}

impl Developer {
    fn new(household: &Household, name: &str) -> Result<Self, Failed> {
        let (at, home) = (household.directory(name)?, household.directory("home")?);
        for args in [&["init", "-q", "-b", "main"][..], &["commit", "-q", "--allow-empty", "-m", name]] {
            let identity = ["-c", "user.name=Ada Coder", "-c", "user.email=ada@example.org"];
            let done = Command::new("git").args(identity).args(args).current_dir(&at).status()?;
            if !done.success() {
                return Err(format!("git {args:?} in {}", at.display()).into());
            }
        }
        Ok(Self { at, home, socket: household.data().join("run/project.sock") })
    }

    /// Runs butlerd to its end: milliseconds, and what it said.
    fn butlerd(&self, args: &[&str], input: &str) -> Result<(f64, String), Failed> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_butlerd"));
        command.args(args).current_dir(&self.at).env("HOME", &self.home);
        timed(command.env("BUTLERD_PROJECT_SOCKET", &self.socket), input)
    }

    fn import<'a>(&self, memories: impl Iterator<Item = (&'a str, String)>) -> Result<(), Failed> {
        let records: Vec<Value> = memories
            .enumerate()
            .map(|(n, (kind, content))| {
                json!({"id": format!("{}-{n}", self.at.display()), "content": content, "experience_type": kind,
                       "importance": 0.6, "created_at": "2026-10-01T10:00:00Z"})
            })
            .collect();
        let count = records.len();
        let export = json!({"version": 1, "format": "wt-memory-export", "project": "bench",
            "exported_at": "2026-10-01T10:00:00Z", "count": count, "records": records});
        let file = self.home.join("export.json");
        std::fs::write(&file, export.to_string())?;
        let (_, said) = self.butlerd(&["project", "import", &file.display().to_string(), "--json"], "")?;
        let said: Value = serde_json::from_str(&said).map_err(|e| format!("import: {e}: {said}"))?;
        if said["imported"] != count {
            return Err(format!("{count} memories were to be imported: {said}").into());
        }
        Ok(())
    }

    /// What the hook of a prompt says in a session, and how long that takes.
    fn prompt(&self, session: &str, prompt: &str) -> Result<(f64, String), Failed> {
        let input = json!({"session_id": session, "cwd": self.at, "hook_event_name": "UserPromptSubmit",
                           "prompt": prompt});
        let (ms, said) = self.butlerd(&["hook", "UserPromptSubmit"], &input.to_string())?;
        let told: Value = if said.trim().is_empty() { Value::Null } else { serde_json::from_str(&said)? };
        Ok((ms, told["hookSpecificOutput"]["additionalContext"].as_str().unwrap_or_default().to_owned()))
    }
}

/// Runs a program to its end: milliseconds, and what it said.
pub fn timed(command: &mut Command, input: &str) -> Result<(f64, String), Failed> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = Instant::now();
    let mut child = command.spawn()?;
    if let Some(mut pipe) = child.stdin.take() {
        // One that reads nothing has left already.
        drop(pipe.write_all(input.as_bytes()));
    }
    let out = child.wait_with_output()?;
    let ms = started.elapsed().as_secs_f64() * 1e3;
    if !out.status.success() {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&out.stderr)).into());
    }
    Ok((ms, String::from_utf8_lossy(&out.stdout).into_owned()))
}

/// The memories among the lines that a hook says.
fn lines(text: &str) -> Vec<String> {
    let told = text.lines().filter_map(|line| line.strip_prefix("- [")?.split_once("] "));
    told.map(|(_, content)| content.to_owned()).collect()
}

/// How well prompts were told what bears on them.
#[derive(Default)]
struct Hits {
    answerable: usize,
    hits: usize,
    lines: usize,
    unrelated: usize,
    silent: usize,
    rightly_silent: usize,
}

impl Hits {
    fn count(&mut self, prompt: &Prompt, told: &[String], keys: &HashMap<&str, &str>) {
        let keys: Vec<Option<&str>> = told.iter().map(|line| keys.get(head(line)).copied()).collect();
        if let Some(answer) = &prompt.answer {
            self.answerable += 1;
            self.hits += usize::from(keys.contains(&Some(&**answer)));
        } else {
            self.silent += 1;
            self.rightly_silent += usize::from(told.is_empty());
        }
        self.lines += keys.len();
        self.unrelated += keys.iter().filter(|key| !key.is_some_and(|key| prompt.relevant.contains(key))).count();
    }

    /// `of`: how many memories there are.
    fn text(&self, of: usize) -> String {
        let share = |of: usize, all: usize| if all == 0 { 0.0 } else { 100.0 * of as f64 / all as f64 };
        let (hits, unrelated) = (share(self.hits, self.answerable), share(self.unrelated, self.lines));
        format!(
            "{} of {} prompts got the memory that answers them   {}; {} of {} lines unrelated   {}; {} of {} prompts \
             without a memory got none",
            self.hits,
            self.answerable,
            Verdict::at_least(&format!("project.hits_of_{of}"), hits, HITS, "of 100"),
            self.unrelated,
            self.lines,
            Verdict::at_most(&format!("project.unrelated_of_{of}"), unrelated, UNRELATED, "of 100"),
            self.rightly_silent,
            self.silent,
        )
    }
}

/// Milliseconds of each process.
#[derive(Default)]
pub struct Times {
    pub hook: Vec<f64>,
    pub recall: Vec<f64>,
    pub echo: Vec<f64>,
    pub nothing: Vec<f64>,
}

impl Times {
    fn measure(household: &Household, many: &Developer, prompts: &[Prompt]) -> Result<Self, Failed> {
        let socket = household.directory("echo")?.join("echo.sock");
        serve_echo(UnixListener::bind(&socket)?);
        let mut times = Self::default();
        for (n, prompt) in prompts.iter().enumerate() {
            times.nothing.push(timed(&mut Command::new("true"), "")?.0);
            let mut echo = Command::new(std::env::current_exe()?);
            times.echo.push(timed(echo.arg("floor-ask").arg(&socket), "")?.0);
            times.hook.push(many.prompt(&format!("time-{n}"), &prompt.prompt)?.0);
            times.recall.push(many.butlerd(&["project", "recall", "--json", "--", &prompt.prompt], "")?.0);
        }
        Ok(times)
    }
}

/// Says each line again.
pub fn serve_echo(listener: UnixListener) {
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut line = String::new();
            let mut reader = BufReader::new(&stream);
            // A client that has left needs no answer.
            if reader.read_line(&mut line).is_ok() {
                drop((&stream).write_all(line.as_bytes()));
            }
        }
    });
}

/// The floor of a question: a line to the socket at `args[0]`, and back.
pub fn ask(args: &[String]) -> Result<(), Failed> {
    let mut stream = UnixStream::connect(args.first().ok_or("no socket")?)?;
    stream.write_all(b"{\"op\":\"recall\"}\n")?;
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut said = String::new();
    stream.read_to_string(&mut said)?;
    if said.is_empty() { Err("no echo".into()) } else { Ok(()) }
}

/// Hooks at once, each after a session that found out one thing. Returns how many of those are remembered.
fn at_once(household: &Household, developer: &Developer) -> Result<usize, Failed> {
    let transcripts = household.directory("transcripts")?;
    let found = |n: usize| format!("The root cause was that `{}` kept its lock in case {n}.", made_up(n + MANY));
    std::thread::scope(|scope| {
        let run = |n: usize| -> Result<(), Failed> {
            let transcript = transcripts.join(format!("{n}.jsonl"));
            let said = json!({"type": "assistant", "message": {"role": "assistant",
                "content": [{"type": "text", "text": found(n)}]}});
            std::fs::write(&transcript, format!("{said}\n"))?;
            let input = json!({"session_id": format!("stop-{n}"), "transcript_path": transcript, "cwd": developer.at,
                "hook_event_name": "Stop", "stop_hook_active": false});
            developer.butlerd(&["hook", "Stop"], &input.to_string()).map(drop)
        };
        let all: Vec<_> = (0..AT_ONCE).map(|n| scope.spawn(move || run(n))).collect();
        all.into_iter().try_for_each(|one| one.join().map_err(|_| "a hook's thread panicked")?)
    })?;
    let (_, listed) = developer.butlerd(&["project", "list", "--limit", "500", "--json"], "")?;
    let listed: Value = serde_json::from_str(&listed)?;
    let contents: Vec<&str> =
        listed.as_array().into_iter().flatten().filter_map(|record| record["content"].as_str()).collect();
    Ok((0..AT_ONCE).filter(|n| contents.iter().any(|c| c.contains(&format!("in case {n}.")))).count())
}
