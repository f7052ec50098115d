//! What a hook says of the journal, before and after what it says of project memory. Neither waits for the other.

use std::path::Path;
use std::time::{Duration, Instant};

use super::HookError;
use super::events::Event;
use super::worker::{Report, Worker};
use journal::client::{self, Client};
use journal::start::{MOST, Measure};
use journal::wire::{Op, Start, Threshold};

use base::local::ConnectionError;

/// The variable in which a registration says of which assistant the hook is: another than Claude Code.
pub const ASSISTANT_VARIABLE: &str = "BUTLERD_HOOK_OF";
/// What it says in Codex's hooks.
pub const CODEX: &str = "codex";

/// What the assistant counts that runs this hook. It keeps [`MOST`] of what a hook says, and puts the rest where its
/// model does not look.
pub fn measure() -> Measure {
    match std::env::var(ASSISTANT_VARIABLE) {
        Ok(assistant) if assistant == CODEX => Measure::Bytes,
        _ => Measure::Characters,
    }
}

/// What the journal says at an event.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct JournalPart {
    /// Before project memory: core memory.
    pub first: Option<String>,
    /// After it.
    pub last: Option<String>,
}

/// Asks the journal, beside whatever else is asked. None: it has nothing to do with this event, or is not on this
/// machine.
pub fn begin(event: Event, data_dir: Option<&Path>, until: Instant) -> Option<Worker<JournalPart>> {
    if !matches!(event, Event::SessionStart | Event::UserPromptSubmit) {
        return None;
    }
    if !client::candidates(data_dir, None).iter().any(|path| path.exists()) {
        return None;
    }
    let data_dir = data_dir.map(Path::to_owned);
    Some(Worker::begin("journal", move |reports| {
        let left = until.saturating_duration_since(Instant::now());
        if let Some(part) = ask(event, data_dir.as_deref(), left)? {
            // Nobody listens after the deadline.
            let _ = reports.send(Report::Text(part));
        }
        Ok(())
    }))
}

/// None: the socket there is another user's household's.
fn ask(event: Event, data_dir: Option<&Path>, within: Duration) -> Result<Option<JournalPart>, HookError> {
    let mut client = match Client::open(data_dir, None, within) {
        Ok(client) => client,
        Err(ConnectionError::Closed { .. }) => return Ok(None),
        Err(error) => return Err(HookError::Journal(error)),
    };
    if event == Event::SessionStart {
        let Start { core, rest } =
            client.ask(Op::Start { bytes: measure() == Measure::Bytes }).map_err(HookError::Journal)?;
        return Ok(Some(JournalPart { first: core, last: rest }));
    }
    let Threshold { action } = client.ask(Op::Threshold).map_err(HookError::Journal)?;
    Ok(Some(JournalPart { first: None, last: action }))
}

/// One text of both, of at most [`MOST`]. Core memory comes first and whole, then what project memory says, and of the
/// rest the lines that fit. Empty: neither says anything.
pub fn together(part: &JournalPart, project: Option<&str>, measure: Measure) -> String {
    let mut text = String::new();
    add(&mut text, part.first.as_deref(), true, measure);
    add(&mut text, project, true, measure);
    add(&mut text, part.last.as_deref(), false, measure);
    text
}

fn add(text: &mut String, block: Option<&str>, has_end: bool, measure: Measure) {
    let Some(block) = block.map(|block| block.trim_end_matches('\n')).filter(|block| !block.trim().is_empty()) else {
        return;
    };
    let gap = if text.is_empty() { "" } else { "\n\n" };
    let room = MOST.saturating_sub(measure.of(text) + gap.len());
    if let Some(fitting) = fitting(block, room, has_end, measure) {
        text.push_str(gap);
        text.push_str(&fitting);
    }
}

/// As many lines from the beginning as have room, whole. `has_end`: the last line closes the block and stays.
fn fitting(block: &str, room: usize, has_end: bool, measure: Measure) -> Option<String> {
    if measure.of(block) <= room {
        return Some(block.to_owned());
    }
    let end = block.lines().next_back().filter(|_| has_end);
    let mut left = room.checked_sub(end.map_or(0, |end| measure.of(end) + 1))?;
    let mut kept: Vec<&str> = Vec::new();
    for line in block.lines() {
        let Some(rest) = left.checked_sub(measure.of(line) + usize::from(!kept.is_empty())) else { break };
        left = rest;
        kept.push(line);
    }
    if kept.is_empty() {
        return None;
    }
    kept.extend(end);
    Some(kept.join("\n").trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(first: Option<&str>, last: Option<&str>) -> JournalPart {
        JournalPart { first: first.map(str::to_owned), last: last.map(str::to_owned) }
    }

    fn together(part: &JournalPart, project: Option<&str>) -> String {
        super::together(part, project, Measure::Characters)
    }

    #[test]
    fn core_comes_first_and_the_rest_last() {
        assert_eq!(together(&part(Some("core\n"), Some("rest")), Some("project")), "core\n\nproject\n\nrest");
        assert_eq!(together(&part(None, Some("rest")), None), "rest");
        assert_eq!(together(&part(Some(" "), None), Some("project")), "project");
        assert_eq!(together(&JournalPart::default(), None), "");
    }

    #[test]
    fn whole_lines_of_the_rest_fill_what_is_left() {
        let (core, project) = ("ö".repeat(3000), "p".repeat(2000));
        let lines: Vec<String> = (0..200).map(|n| format!("{n:03} {}", "ü".repeat(95))).collect();
        let rest = lines.join("\n");
        let text = together(&part(Some(&core), Some(&rest)), Some(&project));
        assert!(text.chars().count() <= MOST, "{}", text.chars().count());
        // 10,000 less 3,000 and 2,000 and two gaps: 49 lines of 99 characters with their ends.
        let kept = text.strip_prefix(&format!("{core}\n\n{project}\n\n")).unwrap();
        assert_eq!(kept, lines[..49].join("\n"));
        // What fits to the last character is whole.
        let exact = "r".repeat(MOST - 3000 - 2000 - 4);
        let text = together(&part(Some(&core), Some(&exact)), Some(&project));
        assert_eq!(text.chars().count(), MOST);
        let one_more = "r".repeat(MOST - 3000 - 2000 - 3);
        assert_eq!(together(&part(Some(&core), Some(&one_more)), Some(&project)).chars().count(), 5002);
    }

    #[test]
    fn a_block_that_is_too_long_is_still_closed() {
        let core = format!("=== CORE ===\n{}=== END ===", "x\n".repeat(9000));
        let text = together(&part(Some(&core), Some("rest")), Some("project"));
        assert!(text.chars().count() <= MOST && text.starts_with("=== CORE ===\nx\n"), "{}", text.chars().count());
        assert!(text.ends_with("x\n=== END ==="), "{}", &text[text.len() - 40..]);
        assert_eq!(together(&part(Some(&"x".repeat(MOST + 1)), None), Some("project")), "project");
    }

    #[test]
    fn codex_counts_bytes() {
        let lines: Vec<String> = (0..200).map(|n| format!("{n:03} {}", "ü".repeat(95))).collect();
        let text = super::together(&part(Some("core"), Some(&lines.join("\n"))), None, Measure::Bytes);
        // 10,000 less 4 and a gap of 2: 51 lines of 194 bytes with their ends.
        assert!(text.len() <= MOST && text == format!("core\n\n{}", lines[..51].join("\n")), "{}", text.len());
    }
}
