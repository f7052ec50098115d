//! A session's skills: which it has where, what the system prompt says of them, and the one event of their use.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use serde_json::Value;

use super::adapters::{Adapter, Outcome, Parser, RunEvent, SkillAccess};
use super::workspace::SKILLS_SEEN;
use base::text;
use config::Skill;
use config::skills::ordered;
use process::ExitInfo;
use tools::{SKILL_LIST, SKILL_READ, skill_loaded};

/// Skills beyond these are listed by their names alone.
const MAX_DESCRIBED: usize = 20;
/// Bytes of a description in the list.
const MAX_ABOUT: usize = 400;

/// The skills of one session, those first that its prompt calls for.
pub(super) struct SessionSkills {
    skills: Vec<Skill>,
    access: SkillAccess,
    tools: BuiltIn,
}

/// Which built-in tools a session's program may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BuiltIn {
    None,
    /// Some, which could use a skill's files.
    Some,
    /// One of them runs programs, and so a skill's scripts.
    Shell,
}

impl BuiltIn {
    /// Those of a program with these tools granted.
    pub fn of(adapter: &dyn Adapter, granted: &[String]) -> Self {
        match granted {
            [] => Self::None,
            _ if adapter.runs_programs(granted) => Self::Shell,
            _ => Self::Some,
        }
    }
}

impl SessionSkills {
    pub fn new(skills: &[Skill], prompt: &str, access: SkillAccess, tools: BuiltIn) -> Self {
        Self { skills: ordered(skills, prompt), access, tools }
    }

    /// What must be copied into the workspace: nothing, where nothing there could read it.
    pub fn in_workspace(&self) -> &[Skill] {
        match self.access {
            SkillAccess::Served if self.tools == BuiltIn::None => &[],
            _ => &self.skills,
        }
    }

    /// The butler's tools that this session has no use for, because its program does the same by itself. Files beside
    /// a skill's text it can only read through butlerd.
    pub fn needless_tools(&self) -> &'static [&'static str] {
        match self.access {
            SkillAccess::Served => &[],
            SkillAccess::Own(_) if self.companions() => &[SKILL_LIST],
            SkillAccess::Own(_) => &[SKILL_LIST, SKILL_READ],
        }
    }

    fn companions(&self) -> bool {
        self.skills.iter().any(|s| s.has_companions)
    }

    /// The system prompt with the list of skills, and how to read one.
    pub fn announced(&self, system_prompt: String) -> String {
        if self.skills.is_empty() {
            return system_prompt;
        }
        let how = match self.access {
            SkillAccess::Served => "To read one, call the tool skill_read with its name.",
            SkillAccess::Own(how) => how,
        };
        let mut out = system_prompt;
        // Writing to a String cannot fail.
        let _ = write!(
            out,
            "\n\n# Skills\n\nWorkflows written for you. Before work that one of them covers, read it. {how}"
        );
        if self.companions() {
            let _ = write!(out, " A file that a skill refers to: skill_read with the skill's name and the file.");
        }
        if self.tools == BuiltIn::Shell && self.skills.iter().any(|s| s.has_scripts) {
            let _ = write!(
                out,
                " Scripts of a skill can be run: they are in {SKILLS_SEEN}/<skill>/ of your working directory."
            );
        }
        self.list(&mut out);
        out
    }

    fn list(&self, out: &mut String) {
        out.push('\n');
        let (described, named) = self.skills.split_at(self.skills.len().min(MAX_DESCRIBED));
        for skill in described {
            let _ = write!(out, "\n- {}: {}", skill.name, text::truncate(&skill.description, MAX_ABOUT));
        }
        if !named.is_empty() {
            let names: Vec<&str> = named.iter().map(|s| s.name.as_str()).collect();
            let _ = write!(out, "\n- and: {}", names.join(", "));
        }
    }
}

/// A parser that also tells [`RunEvent::SkillUsed`] after the first successful reading of each skill.
pub(super) fn watched(inner: Box<dyn Parser>) -> Box<dyn Parser> {
    Box::new(Watched { inner, open: HashMap::new(), used: HashSet::new() })
}

struct Watched {
    inner: Box<dyn Parser>,
    /// The skill that a call loads which has no result yet, by the call's id.
    open: HashMap<String, String>,
    used: HashSet<String>,
}

impl Watched {
    /// Notes an event; the skill of which it tells the first use.
    fn use_in(&mut self, event: &RunEvent) -> Option<String> {
        match event {
            RunEvent::ToolCall { id, name, arguments } if name == SKILL_READ => {
                let skill = skill_loaded(arguments).filter(|skill| !self.used.contains(*skill))?;
                self.open.insert(id.clone(), skill.to_owned());
                None
            }
            RunEvent::ToolResult { id, is_error, content, .. } => {
                let skill = self.open.remove(id).filter(|_| !is_error && !refused(content))?;
                self.used.insert(skill.clone()).then_some(skill)
            }
            _ => None,
        }
    }
}

/// Whether a result is a tool's refusal, which is no error of the protocol.
fn refused(content: &str) -> bool {
    serde_json::from_str::<Value>(content).is_ok_and(|v| v["status"] == "error")
}

impl Parser for Watched {
    fn line(&mut self, line: &str) -> Vec<RunEvent> {
        let mut told = Vec::new();
        for event in self.inner.line(line) {
            let used = self.use_in(&event).map(|name| RunEvent::SkillUsed { name });
            told.push(event);
            told.extend(used);
        }
        told
    }

    fn finish(&mut self, exit: ExitInfo, stderr_tail: &str) -> Outcome {
        self.inner.finish(exit, stderr_tail)
    }
}

#[cfg(test)]
#[path = "skills_tests.rs"]
mod tests;
