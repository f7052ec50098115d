//! A session's skills: which it has where, what the system prompt says of them, and the one event of their use.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use serde_json::Value;

use super::adapters::{Outcome, Parser, RunEvent, SkillAccess};
use super::child::ExitInfo;
use crate::base::text;
use crate::config::Skill;
use crate::config::skills::ordered;
use crate::tools::{SKILL_LIST, SKILL_READ, skill_loaded};

/// Skills beyond these are listed by their names alone.
const MAX_DESCRIBED: usize = 20;
/// Bytes of a description in the list.
const MAX_ABOUT: usize = 400;

/// The skills of one session, those first that its prompt calls for.
pub(super) struct SessionSkills {
    skills: Vec<Skill>,
    access: SkillAccess,
    /// Whether the program has built-in tools that could use a skill's files.
    has_tools: bool,
}

impl SessionSkills {
    pub fn new(skills: &[Skill], prompt: &str, access: SkillAccess, granted_tools: &[String]) -> Self {
        Self { skills: ordered(skills, prompt), access, has_tools: !granted_tools.is_empty() }
    }

    /// What must be copied into the workspace: nothing, where nothing there could read it.
    pub fn in_workspace(&self) -> &[Skill] {
        match self.access {
            SkillAccess::Served if !self.has_tools => &[],
            _ => &self.skills,
        }
    }

    /// The butler's tools that this session has no use for, because its program does the same by itself. Files beside
    /// a skill's text it can only read through butlerd.
    pub fn needless_tools(&self) -> &'static [&'static str] {
        match self.access {
            SkillAccess::Served => &[],
            SkillAccess::Own { .. } if self.companions() => &[SKILL_LIST],
            SkillAccess::Own { .. } => &[SKILL_LIST, SKILL_READ],
        }
    }

    fn companions(&self) -> bool {
        self.skills.iter().any(|s| s.has_companions)
    }

    /// The system prompt with the list of skills, and how to read one.
    pub fn announced(&self, system_prompt: String) -> String {
        let how = match self.access {
            SkillAccess::Served => Some("To read one, call the tool skill_read with its name."),
            SkillAccess::Own { how, .. } => how,
        };
        if self.skills.is_empty() || (how.is_none() && !self.companions()) {
            return system_prompt;
        }
        let mut out = system_prompt;
        // Writing to a String cannot fail.
        let _ = write!(out, "\n\n# Skills\n\nWorkflows written for you. Before work that one of them covers, read it.");
        if let Some(how) = how {
            let _ = write!(out, " {how}");
        }
        if self.companions() {
            let _ = write!(out, " A file that a skill refers to: skill_read with the skill's name and the file.");
        }
        if how.is_some() {
            self.list(&mut out);
        }
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

/// A parser that tells the first successful reading of each skill as [`RunEvent::SkillUsed`], by whichever tool.
pub(super) fn watched(inner: Box<dyn Parser>, access: SkillAccess) -> Box<dyn Parser> {
    Box::new(Watched { inner, access, open: HashMap::new(), used: HashSet::new() })
}

struct Watched {
    inner: Box<dyn Parser>,
    access: SkillAccess,
    /// Calls that load a skill and have no result yet: the call and the skill, by the call's id.
    open: HashMap<String, (RunEvent, String)>,
    used: HashSet<String>,
}

impl Watched {
    /// The skill that a call loads.
    fn loads(&self, tool: &str, arguments: &Value) -> Option<String> {
        if tool == SKILL_READ {
            return skill_loaded(arguments).map(str::to_owned);
        }
        match self.access {
            SkillAccess::Own { loaded, .. } => loaded(tool, arguments),
            SkillAccess::Served => None,
        }
    }

    fn event(&mut self, event: RunEvent, out: &mut Vec<RunEvent>) {
        match event {
            RunEvent::ToolCall { id, name, arguments } => {
                let skill = self.loads(&name, &arguments).filter(|skill| !self.used.contains(skill));
                let call = RunEvent::ToolCall { id: id.clone(), name, arguments };
                match skill {
                    Some(skill) => drop(self.open.insert(id, (call, skill))),
                    None => out.push(call),
                }
            }
            RunEvent::ToolResult { id, name, is_error, content } => match self.open.remove(&id) {
                Some((_, skill)) if !is_error && !refused(&content) => {
                    if self.used.insert(skill.clone()) {
                        out.push(RunEvent::SkillUsed { name: skill });
                    }
                }
                held => {
                    out.extend(held.map(|(call, _)| call));
                    out.push(RunEvent::ToolResult { id, name, is_error, content });
                }
            },
            RunEvent::Final => {
                // Whose results never came.
                out.extend(self.open.drain().map(|(_, (call, _))| call));
                out.push(RunEvent::Final);
            }
            other => out.push(other),
        }
    }
}

/// Whether a result is a tool's refusal, which is no error of the protocol.
fn refused(content: &str) -> bool {
    serde_json::from_str::<Value>(content).is_ok_and(|v| v["status"] == "error")
}

impl Parser for Watched {
    fn line(&mut self, line: &str) -> Vec<RunEvent> {
        let mut out = Vec::new();
        for event in self.inner.line(line) {
            self.event(event, &mut out);
        }
        out
    }

    fn finish(&mut self, exit: ExitInfo, stderr_tail: &str) -> Outcome {
        self.inner.finish(exit, stderr_tail)
    }
}

#[cfg(test)]
#[path = "skills_tests.rs"]
mod tests;
