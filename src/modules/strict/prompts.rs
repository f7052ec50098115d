//! What a model is told of a butler: `CLAUDE.md`, `AGENTS.md` and what they include.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::{ButlerContents, finding};
use base::text::truncate;
use config::{Finding, Place};
use sessions::prompt::{PromptError, TOOL_LIST, system_prompt};

/// So much of a file is looked at: more than any prompt may have.
const LONGEST: u64 = 2 << 20;
/// What `CLAUDE.md` says, and nothing else.
const ENTRY: &str = "@AGENTS.md";
/// With what `AGENTS.md` begins.
const SHARED: &str = "@../shared/AGENTS.md";
/// Under it stands what the butler notes; its lines are counted by nobody.
const NOTES: &str = "# Notes to self";
/// Lines of `AGENTS.md` before the notes: every session reads them.
const MOST_LINES: usize = 100;
/// A numbered list of more points is a workflow.
const MOST_STEPS: usize = 3;
/// A table of more rows is one to look things up in.
const MOST_ROWS: usize = 8;
/// A fenced block of more lines is a worked example.
const MOST_EXAMPLE: usize = 10;
/// Bytes of a wrong line that are told.
const TOLD: usize = 60;

pub(super) fn check(known: &ButlerContents<'_>) -> Vec<Finding> {
    let dir = &known.butler.dir;
    let (entry, agents) = (dir.join("CLAUDE.md"), dir.join("AGENTS.md"));
    let (told, identity) = (text(&entry), text(&agents));
    let mut found = Vec::new();
    if told.trim() != ENTRY {
        let wrong = told.lines().enumerate().find(|(_, line)| !line.trim().is_empty() && line.trim() != ENTRY);
        let (at, line) = wrong.unwrap_or_default();
        let problem = format!("found \"{}\"", truncate(line.trim(), TOLD));
        let expected = format!("`{ENTRY}` alone: who the butler is stands there");
        found.push(finding(Place::Line(entry, at + 1), problem, expected));
    }
    let first = identity.lines().next().unwrap_or_default();
    if first.trim_end() != SHARED {
        let problem = format!("found \"{}\"", truncate(first, TOLD));
        let expected = format!("`{SHARED}` as the first line: what holds for every butler");
        found.push(finding(Place::Line(agents.clone(), 1), problem, expected));
    }
    if !identity.lines().any(|line| line.trim_end() == NOTES) {
        let place = Place::Line(agents.clone(), identity.lines().count().max(1));
        found.push(finding(
            place,
            format!("no `{NOTES}`"),
            "that heading at the end, under which the butler's own notes come",
        ));
    }
    found.extend(too_much(&agents, &identity));
    found.extend(includes(known));
    found
}

/// A missing file was told; bytes that are no text are told with the includes.
pub(super) fn text(file: &Path) -> String {
    let mut text = String::new();
    // What is longer is no prompt, and is told with the includes.
    let read = std::fs::File::open(file).and_then(|file| file.take(LONGEST).read_to_string(&mut text));
    let text = if read.is_ok() { text } else { String::new() };
    text.trim_start_matches('\u{feff}').to_owned()
}

/// What belongs in a skill, which is read when it is wanted.
fn too_much(file: &Path, text: &str) -> Vec<Finding> {
    // Of the list of tools no session reads a line.
    let ([begin, end], mut listing, mut listed) = (TOOL_LIST, false, 0);
    let read = |line| {
        listing |= str::starts_with(line, begin);
        let read = if listing { "" } else { line };
        listed += usize::from(listing);
        listing &= !line.starts_with(end);
        read
    };
    let lines: Vec<&str> = text.lines().take_while(|line| line.trim_end() != NOTES).map(read).collect();
    let mut found = Vec::new();
    let mut say = |at: usize, problem: String, what: &str| {
        let expected = format!("{what} in a skill, and here one line that names it");
        found.push(finding(Place::Line(file.to_owned(), at + 1), problem, expected));
    };
    if lines.len() - listed > MOST_LINES {
        let problem = format!("found {} lines, of which every session reads each", lines.len() - listed);
        say(MOST_LINES, problem, &format!("at most {MOST_LINES}, the rest"));
    }
    for (at, steps) in runs(&lines, numbered, |line| line.trim().is_empty() || line.starts_with([' ', '\t'])) {
        if steps > MOST_STEPS {
            say(at, format!("found a workflow of {steps} steps"), "it");
        }
    }
    for (at, rows) in runs(&lines, |line| line.trim_start().starts_with('|'), |_| false) {
        // Two of them are the table's head.
        if rows > MOST_ROWS + 2 {
            say(at, format!("found a table of {} rows", rows - 2), "it");
        }
    }
    let mut open = None;
    for (at, line) in lines.iter().enumerate() {
        if line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~") {
            match open.take() {
                None => open = Some(at),
                Some(begin) if at - begin - 1 > MOST_EXAMPLE => {
                    say(begin, format!("found an example of {} lines", at - begin - 1), "it");
                }
                Some(_) => {}
            }
        }
    }
    found
}

/// Where rows of such lines begin, and how many there are in each; `between` may stand among them.
fn runs(lines: &[&str], such: impl Fn(&str) -> bool, between: impl Fn(&str) -> bool) -> Vec<(usize, usize)> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    let mut open = false;
    for (at, line) in lines.iter().enumerate() {
        match found.last_mut().filter(|_| open) {
            Some((_, count)) if such(line) => *count += 1,
            Some(_) => open = between(line),
            None if such(line) => {
                open = true;
                found.push((at, 1));
            }
            None => {}
        }
    }
    found
}

/// `1. Do this`, `2) Do that`
fn numbered(line: &str) -> bool {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.len() < line.len() && (rest.starts_with(". ") || rest.starts_with(") "))
}

/// The prompt as it would be put together.
fn includes(known: &ButlerContents<'_>) -> Option<Finding> {
    let dir = &known.butler.dir;
    let roster = dir.parent().unwrap_or(dir);
    let e = system_prompt(roster, dir).err()?;
    let whole = |path: &PathBuf| Place::Line(path.clone(), 1);
    let (place, problem, expected) = match &e {
        // The file itself is missing, which was told.
        PromptError::Read { .. } => return None,
        PromptError::Missing { from, reference, source } => {
            let problem = format!("found `{reference}`, which can't be read ({source})");
            (
                Place::Line(from.path.clone(), from.line),
                problem,
                "a file of the roster, named from this file's place on",
            )
        }
        PromptError::NotRelative { from, reference } => {
            let place = Place::Line(from.path.clone(), from.line);
            (place, format!("found `{reference}`"), "a relative path, from this file's place on")
        }
        PromptError::Outside { from, reference, .. } => {
            let place = Place::Line(from.path.clone(), from.line);
            (place, format!("found `{reference}`, which leads out of the roster"), "a file of the roster")
        }
        PromptError::Cycle { from, chain } => {
            let place = Place::Line(from.path.clone(), from.line);
            (place, format!("found a circle: {chain}"), "no file that includes itself by others")
        }
        PromptError::TooDeep { from, chain } => {
            let place = Place::Line(from.path.clone(), from.line);
            (place, format!("found too many files in one another: {chain}"), "at most 8")
        }
        PromptError::NotText { path } => (whole(path), "found bytes that are no UTF-8".to_owned(), "a text"),
        PromptError::TooLarge { path } => {
            (whole(path), "found more than 1 MiB with all its includes".to_owned(), "what a model can be told")
        }
    };
    Some(finding(place, problem, expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Vec<(usize, String)> {
        let found = too_much(Path::new("A.md"), text);
        let place = |f: Finding| match f.place {
            Place::Line(_, line) => (line, f.problem),
            Place::Key(_) => unreachable!("a line"),
        };
        found.into_iter().map(place).collect()
    }

    #[test]
    fn what_belongs_in_a_skill_is_told_where_it_begins() {
        assert_eq!(told("a\n1. x\n2. y\n3. z\n\nb\n1. x\n2. y\n"), []);
        assert_eq!(told("a\n\n1. x\n   more\n\n2. y\n3. z\n4. w\n"), [(3, "found a workflow of 4 steps".to_owned())]);
        let table = "| a | b |\n|---|---|\n".to_owned() + &"| 1 | 2 |\n".repeat(9);
        assert_eq!(told(&table), [(1, "found a table of 9 rows".to_owned())]);
        let fenced = format!("x\n```\n{}```\n", "line\n".repeat(11));
        assert_eq!(told(&fenced), [(2, "found an example of 11 lines".to_owned())]);
        assert_eq!(told(&"line\n".repeat(100)), []);
        assert_eq!(told(&"line\n".repeat(101))[0].0, 101);
        assert_eq!(told(&format!("# Notes to self\n{}", "line\n".repeat(300))), []);
    }
}
