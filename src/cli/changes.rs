//! How changes to files are told: what a registration changed, and the lines that went and came.

use super::out::{Out, Tone};
use super::text::block;
use project::init::InitReport;

/// Tells what was changed, or would be. `none`: what is said where that is nothing.
pub fn tell(out: &Out, report: &InitReport, dry_run: bool, none: &str) {
    for change in &report.changes {
        let did = if change.done { "changed" } else { "would change" };
        out.line(&format!("{did}  {}: {}", change.path.display(), change.what));
        if dry_run {
            diff(out, &change.diff);
        }
    }
    if report.changes.is_empty() && !none.is_empty() {
        out.line(none);
    }
    report.notes.iter().for_each(|note| out.line(note));
}

/// Prints the lines that went, with `-`, and that came, with `+`.
pub fn diff(out: &Out, text: &str) {
    for line in block(text).lines() {
        let tone = match line.as_bytes().first() {
            Some(b'+') => Tone::Good,
            Some(b'-') => Tone::Bad,
            _ => Tone::Faint,
        };
        out.toned(tone, &format!("    {line}"));
    }
}
