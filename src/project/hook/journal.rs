//! What a hook says of the journal, before and after what it says of project memory. Neither waits for the other.

use std::path::Path;
use std::time::{Duration, Instant};

use super::HookError;
use super::events::Event;
use super::worker::{Report, Worker};
use journal::client::{self, Client};
use journal::pack::{Measure, Part, joined, pack};
use journal::start::MOST;
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
    /// Before project memory.
    pub core: Option<String>,
    /// After it.
    pub parts: Vec<Part>,
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
        let Start { core, parts } =
            client.ask(Op::Start { bytes: measure() == Measure::Bytes }).map_err(HookError::Journal)?;
        return Ok(Some(JournalPart { core, parts }));
    }
    let Threshold { action } = client.ask(Op::Threshold).map_err(HookError::Journal)?;
    Ok(Some(JournalPart { core: None, parts: action.map(Part::Action).into_iter().collect() }))
}

/// One text of both, of at most [`MOST`]: core memory, what project memory says, and the rest of the journal. Where not
/// all fits, [`pack`] leaves out what matters least. Empty: neither says anything.
pub fn together(part: &JournalPart, project: Option<&str>, measure: Measure) -> String {
    let core = part.core.clone().map(Part::Core);
    let project = project.map(|text| Part::Block { text: text.to_owned(), closed: true, cost: None });
    let parts: Vec<Part> = core.into_iter().chain(project).chain(part.parts.iter().cloned()).collect();
    joined(pack(&parts, MOST, MOST, measure).iter().filter_map(|packed| packed.part.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use journal::pack::Message;

    fn part(core: Option<&str>, rest: Option<&str>) -> JournalPart {
        let parts = rest.map(|text| Part::Reference(text.to_owned())).into_iter().collect();
        JournalPart { core: core.map(str::to_owned), parts }
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

    /// References of a journal that alone fills all room, and a project that has much to say.
    #[test]
    fn the_newest_messages_and_what_is_to_be_done_stay() {
        for measure in [Measure::Characters, Measure::Bytes] {
            let reference = Part::Reference(format!("=== REFERENCE ===\n{}", "r".repeat(3000)));
            let said = (1..=30).map(|id| Message::new(id, format!("[{id}] {}", "s".repeat(190)))).collect();
            let journal = JournalPart {
                core: Some(format!("=== CORE ===\n{}\n=== END CORE ===", "c".repeat(2900))),
                parts: vec![
                    reference,
                    Part::Checkpoint("[Last Checkpoint Summary] c".to_owned()),
                    Part::Said(said),
                    Part::Action("[Action Required] a".to_owned()),
                ],
            };
            let project = format!("=== PROJECT ===\n{}=== END ===", "- a memory\n".repeat(400));
            let text = super::together(&journal, Some(&project), measure);
            assert!(measure.of(&text) <= MOST && measure.of(&text) > MOST - 300, "{}", measure.of(&text));
            assert!(text.starts_with("=== CORE ===\nccc") && text.contains("=== END CORE ===\n\n=== PROJECT ==="));
            assert!(text.contains("- a memory\n=== END ===\n\n[Last Checkpoint Summary] c\n\n[Recent"), "{text}");
            assert!(text.ends_with("\n\n[Action Required] a") && !text.contains("REFERENCE"), "{text}");
            let ids: Vec<i64> = (1..=30).filter(|id| text.contains(&format!("\n[{id}] sss"))).collect();
            assert!(ids.len() >= 11 && ids.last() == Some(&30), "{ids:?}");
            let newest: Vec<i64> = (31 - ids.len() as i64..=30).collect();
            assert_eq!(ids, newest, "the newest in a row");
        }
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
        let text = super::together(&part(Some("core"), None), Some(&lines.join("\n")), Measure::Bytes);
        assert!(text.len() <= MOST && text.len() > MOST - 300, "{}", text.len());
        assert!(text.starts_with(&format!("core\n\n{}\n{}", lines[0], lines[1])), "{text}");
    }
}
