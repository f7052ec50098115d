//! `butlerd journal sync`: a sync by the daemon, or what a sync by hand needs.

use super::super::local::usage;
use super::super::out::Out;
use super::super::text::block;
use super::super::{Outcome, Place};
use super::args::Sync;
use super::client::JournalClient;
use journal::wire::{Op, Range, SyncBegun, SyncStatus};

const USAGE: &str = "Usage: butlerd journal sync --begin ID --end ID [--all] | --status";

pub fn run(place: &Place, client: &JournalClient, args: &Sync) -> Outcome {
    let out = &place.out;
    if args.status {
        let status: SyncStatus = client.ask(Op::SyncStatus)?;
        // Programs read it, whoever asks.
        out.record(&status);
        return Ok(0);
    }
    match (args.begin, args.end) {
        (Some(begin), Some(end)) => {
            let range: Range = client.ask(Op::Range { begin, end, all: args.all })?;
            let done = out.answer(&range, |out, range| lines(range).iter().for_each(|line| out.line(line)));
            aside(out, &range);
            done
        }
        (None, None) if !args.all => {
            let begun: SyncBegun = client.ask(Op::Sync)?;
            out.answer(&begun, |out, begun| out.line(&block(&begun.note)))
        }
        _ => usage(place, USAGE),
    }
}

/// Notes are no part of what is worked on.
fn aside(out: &Out, range: &Range) {
    range.notes.iter().for_each(|note| out.aside(&block(note)));
}

/// The sections as the specification has them.
fn lines(range: &Range) -> Vec<String> {
    let mut lines = vec!["=== CONVERSATIONS TO PROCESS ===".to_owned(), block(&range.conversations), String::new()];
    lines.push("=== CURRENT MEMORY STATE ===".to_owned());
    for file in &range.state {
        lines.extend([format!("--- {} ---", block(&file.file)), block(&file.text), String::new()]);
    }
    lines.extend(["=== END ===".to_owned(), format!("Range: {} to {}", range.begin, range.end)]);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use journal::wire::FileText;

    #[test]
    fn a_range_is_printed_as_the_specification_has_it() {
        let file = |file: &str, text: &str| FileText { file: file.into(), text: text.into() };
        let range = Range {
            begin: 108,
            end: 143,
            conversations: "[2026-02-07 10:00:00] IN (telegram:ada):\nhi\u{1b}[2J\n".into(),
            state: vec![file("core.md", "# Core Memory\n"), file("sessions/today.md", "")],
            notes: vec!["2 messages of others are left out".into()],
        };
        let want = "=== CONVERSATIONS TO PROCESS ===\n[2026-02-07 10:00:00] IN (telegram:ada):\nhi[2J\n\n\
                    === CURRENT MEMORY STATE ===\n--- core.md ---\n# Core Memory\n\n--- sessions/today.md ---\n\n\n\
                    === END ===\nRange: 108 to 143";
        assert_eq!(lines(&range).join("\n"), want);
    }
}
