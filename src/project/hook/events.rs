//! What is done at each event.

use std::sync::mpsc::Sender;
use std::time::Duration;

use serde_json::{Value, json};

use super::injection::{Injection, ProjectPart};
use super::input::Input;
use super::worker::Report;
use super::{DEADLINE, Daemon, HookError, STOP_DEADLINE, Surroundings};
use super::{block, clean, commit, recent, stop};
use crate::record::CHEAT_SHEET;

/// Memories less relevant than this are not injected.
pub const FLOOR: f64 = 0.35;
/// What may be injected when a session starts, in tokens.
pub const BUDGET_AT_START: u64 = 700;
/// What may be injected at any other event, in tokens.
pub const BUDGET: u64 = 400;

/// So many characters of a prompt, or of a subagent's task, are searched for.
const PROMPT: usize = 2000;
/// So many characters of a command.
const COMMAND: usize = 200;
/// So many of an error at its beginning, and as many at its end.
const HALF_ERROR: usize = 500;
/// Shorter errors say nothing.
const SHORTEST_ERROR: usize = 10;
/// Recently changed files that are named when a session starts.
const RECENT_FILES: usize = 10;

/// The events that a hook is run for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, strum::EnumString, strum::IntoStaticStr, strum::VariantNames)]
pub enum Event {
    SessionStart,
    UserPromptSubmit,
    PreToolUse,
    PostToolUse,
    PostToolUseFailure,
    SubagentStart,
    SubagentStop,
    Stop,
    PreCompact,
}

base::named!(Event, from_name);

impl Event {
    pub fn deadline(self) -> Duration {
        if self == Self::Stop { STOP_DEADLINE } else { DEADLINE }
    }
}

/// What is to be done, as far as the input alone says it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Work {
    Nothing,
    /// All memories may be injected again.
    Forget,
    /// A session starts; with `forget` all memories may be injected again.
    Start {
        forget: bool,
    },
    /// Memories that bear on a text are injected.
    Inject(Inject),
    /// Memories are made of the transcript.
    Store,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inject {
    pub text: String,
    pub limit: u64,
    pub heading: &'static str,
    /// Whether the rules of the project are asked, too.
    pub rules: bool,
    /// The message of a commit that was just made.
    pub commit: Option<String>,
}

pub fn work(event: Event, input: &Input) -> Work {
    let inject = |text: String, limit| inject(text, limit, block::PROJECT_MEMORY);
    match event {
        // What a resumed session was shown, it still has.
        Event::SessionStart => Work::Start { forget: input.text("source") != "resume" },
        Event::UserPromptSubmit => match inject(clean::cut_plainly(input.text("prompt"), PROMPT), 5) {
            Work::Inject(prompt) => Work::Inject(Inject { rules: true, ..prompt }),
            other => other,
        },
        Event::PreToolUse if input.tool() == "Skill" => {
            let part = |names: &[&str]| names.iter().map(|name| input.tool_text(name)).find(|text| !text.is_empty());
            let name = part(&["skill", "command", "name"]).unwrap_or_default();
            let arguments = part(&["args", "arguments"]).unwrap_or_default();
            inject(clean::cut_plainly(&format!("{name} {arguments}"), PROMPT), 3)
        }
        Event::PostToolUse => match input.tool() {
            "Read" => inject(last_parts(&input.tool_text("file_path")), 2),
            "Bash" => {
                let command = input.tool_text("command");
                match inject(clean::cut_plainly(&command, COMMAND), 2) {
                    Work::Inject(bash) => {
                        let commit = commit::message(&command, input.value("tool_response"));
                        Work::Inject(Inject { commit, ..bash })
                    }
                    other => other,
                }
            }
            _ => Work::Nothing,
        },
        Event::PostToolUseFailure if input.tool() == "Bash" && !input.is_interrupt() => {
            self::inject(error_of(input.text("error")), 3, block::PAST_FIXES)
        }
        Event::SubagentStart => inject(clean::cut_plainly(&input.task(), PROMPT), 3),
        Event::Stop if !input.flag("stop_hook_active") => Work::Store,
        Event::PreCompact => Work::Forget,
        Event::PreToolUse | Event::PostToolUseFailure | Event::SubagentStop | Event::Stop => Work::Nothing,
    }
}

fn inject(text: String, limit: u64, heading: &'static str) -> Work {
    if text.trim().is_empty() {
        return Work::Nothing;
    }
    Work::Inject(Inject { text, limit, heading, rules: false, commit: None })
}

/// The last two parts of a path: the rest is the same for every file of a project.
fn last_parts(path: &str) -> String {
    let parts: Vec<&str> = path.split(['/', '\\']).filter(|part| !part.is_empty()).collect();
    parts[parts.len().saturating_sub(2)..].join("/")
}

/// What is searched for of an error: programs name it first or last. Nothing, where it says nothing.
fn error_of(error: &str) -> String {
    let plain = clean::visible(error);
    let after_code = plain.strip_prefix("Exit code ").map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    let said = after_code.unwrap_or(&plain).trim();
    let length = said.chars().count();
    if length < SHORTEST_ERROR {
        return String::new();
    }
    if length <= 2 * HALF_ERROR {
        return said.to_owned();
    }
    let first: String = said.chars().take(HALF_ERROR).collect();
    let last: String = said.chars().skip(length - HALF_ERROR).collect();
    format!("{first} {last}")
}

/// A hook at work: what it was run for, whom it asks, and where what it says goes.
pub(super) struct Hook<'a> {
    pub event: Event,
    pub input: &'a Input,
    pub around: &'a Surroundings<'a>,
    pub daemon: &'a mut dyn Daemon,
    pub reports: &'a Sender<Report>,
}

impl Hook<'_> {
    pub fn perform(mut self, work: Work) -> Result<(), HookError> {
        match work {
            Work::Nothing => Ok(()),
            Work::Forget => self.forget(),
            Work::Start { forget } => {
                if forget {
                    self.forget()?;
                }
                self.start()
            }
            Work::Inject(what) => self.tell(&what),
            Work::Store => stop::store(self.input, self.around, self.daemon),
        }
    }

    /// Has a text printed, and which memories stand in it.
    fn say(&self, text: Option<String>, told: Injection) {
        if let Some(text) = text {
            // Nobody listens after the deadline.
            let _ = self.reports.send(Report::Text(ProjectPart { text, told }));
        }
    }

    /// A session without an id has no ledger that could be cleared.
    fn forget(&mut self) -> Result<(), HookError> {
        if let Some(session) = self.input.session() {
            self.daemon.ask("forget_session", json!({"session": session}))?;
        }
        Ok(())
    }

    fn ask(&mut self, queries: Value, budget: u64) -> Result<(Vec<block::Line>, Injection), HookError> {
        let session = self.input.session().unwrap_or_else(super::input::process_session);
        let answer = self.daemon.ask(
            "inject",
            json!({"event": self.event.as_str(), "session": session, "queries": queries, "floor": FLOOR,
                   "budget_tokens": budget}),
        )?;
        Ok((block::lines(&answer), Injection { session, memories: block::injected(&answer) }))
    }

    fn start(&mut self) -> Result<(), HookError> {
        let mut context = vec![self.around.name.to_owned()];
        context.extend(recent::names(self.around.top, RECENT_FILES, self.around.until));
        let queries = json!([
            {"text": "", "limit": 5, "tags": [CHEAT_SHEET]},
            {"text": context.join(" "), "limit": 5},
        ]);
        let (lines, told) = self.ask(queries, BUDGET_AT_START)?;
        let (sheet, context): (Vec<_>, Vec<_>) = lines.into_iter().partition(|line| line.has_tag(CHEAT_SHEET));
        let blocks = [block::memory(block::CHEAT_SHEET, &sheet), block::memory(block::PROJECT_CONTEXT, &context)];
        self.say(block::together(blocks), told);
        Ok(())
    }

    fn tell(&mut self, what: &Inject) -> Result<(), HookError> {
        let mut rules = Vec::new();
        if what.rules {
            match (self.around.rules)(self.input.text("prompt")) {
                Ok(fitting) => rules = fitting,
                // Memories are worth having without them.
                Err(why) => {
                    let _ = self.reports.send(Report::Missed(why));
                }
            }
        }
        let rules = block::rules(&rules);
        // What must be said is said whatever becomes of the question; more is said in its place.
        self.say(rules.clone(), Injection::default());
        let (lines, told) = self.ask(json!([{"text": what.text, "limit": what.limit}]), BUDGET)?;
        self.say(block::together([rules, block::memory(what.heading, &lines)]), told);
        // Afterwards: else the commit would be what is found for its own command. What was said is printed in any case.
        if let Some(message) = &what.commit {
            let memory = json!({"type": "Context", "content": message, "tags": ["auto", commit::TAG]});
            self.daemon.ask("remember", memory).or_else(stop::judged)?;
        }
        Ok(())
    }
}
