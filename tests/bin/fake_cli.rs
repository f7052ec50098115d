//! A child that misbehaves: it plays Claude Code for a household whose `spawner.clis.claude` names it, and does what
//! its prompt says.
//!
//! It reads the prompt as that program does (its standard input), finds its one MCP server as that program does
//! (`--mcp-config`), and writes the same lines of JSON. Each line of the prompt that begins with `do ` is a step; all
//! others are passed over. A step that tries something notes in the report whether it went well, with the error's name
//! and what was found; the report is the run's result, unless `finish` says another text. So tests read in the
//! session's `output` what a child could do.
//!
//! Speaking: `start` (shakes hands with the butler's server and says so), `start failed`, `say TEXT`,
//! `call TOOL [JSON]`, `call-forever TOOL [JSON]`, `model` (one request to the model's API), `http ADDRESS TOKEN TOOL`
//! (a call elsewhere, or as somebody else, whose token is in parts joined by `+`; `own` is its own), `finish [TEXT]`,
//! `finish-turned`, `half` (of a line), `raw TEXT`, `flood stdout|stderr|both BYTES words|line|events|wide`,
//! `spill FILE` (each line of the file, its token and its environment, in every encoding and on every way out).
//!
//! Living: `wait MS`, `hang`, `deaf` (to every signal that can be ignored), `mute` (its output closed), `stop` (by
//! SIGSTOP), `exit CODE`, `die SIGNAL`, `eat BYTES`, `undying` (no death signal with its parent), and
//! `fork plain|setsid|double|hidden|unmarked|loud|hopper`, see [`family`].
//!
//! Looking around: `dump`, `survey PATH`, `read PATH`, `list PATH`, `write PATH`, `exec PATH`, `litter`, `tcp ADDRESS`,
//! `mptcp ADDRESS`, `fastopen ADDRESS`, `udp ADDRESS`, `bind ADDRESS`, `unix PATH`, `abstract NAME`,
//! `signal PID|parent`, `unmark`, `syscall NAME`.
//! In paths `~` is the home, and `.` the working directory.
//!
//! With `--mcp-server` or `--mcp-replay` it is an MCP server instead, see [`server`] and [`replay`].

#[path = "fake_cli/attempts.rs"]
mod attempts;
#[path = "fake_cli/family.rs"]
mod family;
#[path = "fake_cli/myself.rs"]
mod myself;
#[path = "fake_cli/replay.rs"]
mod replay;
#[path = "fake_cli/server.rs"]
mod server;
#[path = "fake_cli/speech.rs"]
mod speech;
#[path = "fake_cli/spill.rs"]
mod spill;

use std::io::{Read, Write};

use serde_json::{Value, json};

/// What a step found, or the name of the error that stopped it, such as `EACCES`.
pub type Tried = Result<Value, String>;

/// Plays the prompt.
pub fn main() {
    let started_ns = monotonic_ns();
    if std::env::args().any(|arg| arg == "--version") {
        println!("0.0.0 (a child that misbehaves)");
        return;
    }
    match std::env::args().collect::<Vec<_>>().as_slice() {
        [_, mode, file] if mode == "--mcp-server" => return server::serve(file),
        // What follows is for the program whose place it takes.
        [_, mode, file, ..] if mode == "--mcp-replay" => return server::replay(file),
        _ => {}
    }
    let mut prompt = String::new();
    if let Err(e) = std::io::stdin().read_to_string(&mut prompt) {
        eprintln!("the prompt can't be read: {e}");
        std::process::exit(64);
    }
    let mut run = Run { started_ns, speech: speech::Speech::of_process(), steps: Vec::new() };
    for step in prompt.lines().filter_map(|line| line.strip_prefix("do ")) {
        if !run.step(step.trim()) {
            eprintln!("there is no step `{step}`");
            std::process::exit(64);
        }
    }
}

/// Nanoseconds of the clock that all processes share and nobody sets.
fn monotonic_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes into a timespec of ours.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

struct Run {
    /// When this program began.
    started_ns: u64,
    speech: speech::Speech,
    /// The report so far.
    steps: Vec<Value>,
}

impl Run {
    /// Does one step; `false` if there is none of this name.
    fn step(&mut self, step: &str) -> bool {
        let (verb, rest) = step.split_once(' ').unwrap_or((step, ""));
        match verb {
            "start" => self.speech.start(rest != "failed"),
            "say" => self.speech.say(rest),
            "call" => drop(self.call(rest)),
            "call-forever" => while self.call(rest).is_ok() {},
            "finish" if rest.is_empty() => self.finish(&self.report()),
            "finish" => self.finish(rest),
            "finish-turned" => self.finish(&turned(&self.report())),
            "spill" => spill::everything(rest, &mut self.speech),
            "half" => print_now(r#"{"type":"result","subtype":"success","is_error":false,"result":"al"#),
            "raw" => print_now(&format!("{rest}\n")),
            "flood" => flood(rest),
            "wait" => family::wait(rest.parse().unwrap_or(0)),
            "hang" => family::hang(),
            "deaf" => family::deaf(),
            "mute" => family::mute(),
            "stop" => family::die(libc::SIGSTOP),
            "exit" => std::process::exit(rest.parse().unwrap_or(0)),
            "die" => family::die(rest.parse().unwrap_or(libc::SIGKILL)),
            "undying" => family::undying(),
            _ => {
                let tried = match verb {
                    "model" => self.speech.model(),
                    "http" => self.speech.elsewhere(rest),
                    "eat" => myself::eat(rest.parse().unwrap_or(usize::MAX)),
                    "dump" => Ok(myself::dump()),
                    "fork" => family::fork(rest),
                    _ => match attempts::attempt(verb, rest) {
                        Some(tried) => tried,
                        None => return false,
                    },
                };
                self.note(step, tried);
            }
        }
        true
    }

    fn call(&mut self, rest: &str) -> Tried {
        let (tool, arguments) = rest.split_once(' ').unwrap_or((rest, "{}"));
        let tried = self.speech.call(tool, arguments);
        // An endless caller shall not eat memory besides.
        if self.steps.len() < 1000 {
            self.note(&format!("call {tool}"), tried.clone());
        }
        tried
    }

    fn note(&mut self, step: &str, tried: Tried) {
        self.steps.push(match tried {
            Ok(found) => json!({"step": step, "ok": true, "found": found}),
            Err(error) => json!({"step": step, "ok": false, "error": error}),
        });
    }

    /// The times are of the clock that all processes share.
    fn report(&self) -> String {
        json!({"started_ns": self.started_ns, "finished_ns": monotonic_ns(), "pid": std::process::id(),
               "steps": self.steps})
        .to_string()
    }

    fn finish(&mut self, text: &str) {
        self.speech.finish(text);
    }
}

/// With each letter replaced by the one 13 places on; done twice it is the text itself. In a report that is not turned
/// butlerd hides what is secret.
fn turned(text: &str) -> String {
    let turn = |c: char| match c {
        'A'..='M' | 'a'..='m' => (c as u8 + 13) as char,
        'N'..='Z' | 'n'..='z' => (c as u8 - 13) as char,
        other => other,
    };
    text.chars().map(turn).collect()
}

/// Writes and gives up where nobody reads.
fn print_now(text: &str) {
    let mut out = std::io::stdout().lock();
    if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
        std::process::exit(1);
    }
}

/// `WHERE BYTES SHAPE`: as fast as it is taken.
fn flood(rest: &str) {
    let mut words = rest.split(' ');
    let (to, bytes, shape) = (words.next().unwrap_or("stdout"), words.next(), words.next().unwrap_or("words"));
    let bytes: usize = bytes.and_then(|b| b.parse().ok()).unwrap_or(100 << 20);
    let event = |block: Value| json!({"type": "assistant", "message": {"content": [block]}}).to_string() + "\n";
    // Small numbers: parsed, a megabyte of them is many megabytes.
    let wide = || event(json!({"type": "thinking", "thoughts": vec![1; 400_000]}));
    let chunk = match shape {
        "line" => "x".repeat(64 << 10),
        "events" => event(json!({"type": "text", "text": "y".repeat(100)})).repeat(400),
        "wide" => wide(),
        _ => "never a word of sense\n".repeat(3000),
    };
    let mut left = bytes;
    while left > 0 {
        let part = &chunk.as_bytes()[..left.min(chunk.len())];
        let out = to == "stderr" || std::io::stdout().write_all(part).is_ok();
        let err = to == "stdout" || std::io::stderr().write_all(part).is_ok();
        if !(out && err) {
            std::process::exit(1);
        }
        left -= part.len();
    }
    let _ = std::io::stdout().flush();
}
