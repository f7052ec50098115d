//! Scripts of skills that nothing could run.
//!
//! Only where the runtime is granted built-in tools: elsewhere a script is a text to read.

use std::io::Read;

use super::{ButlerContents, finding};
use config::skills::{SKILL_FILE, SkillFile};
use config::{Finding, Place, Skill};

/// How a program begins that needs no interpreter.
const PROGRAM: &[u8] = b"\x7fELF";

pub(super) fn check(known: &ButlerContents<'_>) -> Vec<Finding> {
    match known.butler.runtime.tools.is_empty() {
        true => Vec::new(),
        false => known.butler.skills.iter().flat_map(of_skill).collect(),
    }
}

fn of_skill(skill: &Skill) -> Vec<Finding> {
    let files = skill.files().unwrap_or_default();
    // Some file systems call every file executable.
    let no_bits = files.iter().any(|file| file.executable && file.path.to_str() == Some(SKILL_FILE));
    files.iter().filter(|file| !file.is_dir && !no_bits).filter_map(|file| of_file(skill, file)).collect()
}

fn of_file(skill: &Skill, file: &SkillFile) -> Option<Finding> {
    let path = skill.dir.join(&file.path);
    let mut head = Vec::new();
    std::fs::File::open(&path).ok()?.take(4).read_to_end(&mut head).ok()?;
    let (problem, expected) = match (head.starts_with(b"#!"), file.executable) {
        (true, false) => ("begins with `#!` and is not executable", "`chmod +x`, or no `#!`"),
        (false, true) if head != PROGRAM => {
            ("is executable and names no interpreter", "`#!/bin/sh` or the like first, or `chmod -x`")
        }
        _ => return None,
    };
    Some(finding(Place::Line(path, 1), problem, expected))
}
