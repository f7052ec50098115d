//! `butlerd journal accept`: what somebody edited is shown, and taken in if the person says so.

use std::io::{BufRead, IsTerminal};

use super::super::changes::diff;
use super::super::lines::is_yes;
use super::super::out::{Out, Tone};
use super::super::text::{block, one_line};
use super::super::{Outcome, Place};
use super::args::Accept;
use super::client::{JournalClient, JournalError};
use journal::wire::{Accepted, Edit, EditId, Op, RefusedEdit, Status};

/// An edit waits still.
const WAITS: i32 = 1;

pub fn run(place: &Place, client: &JournalClient, args: &Accept) -> Outcome {
    let out = &place.out;
    let edits = chosen(client.ask(Op::Edits)?, &args.files)?;
    if edits.is_empty() {
        return nothing(out, &client.ask::<Status>(Op::Status)?.troubles);
    }
    // Programs get what became of them; what they are, `status` lists.
    if !out.json {
        edits.iter().for_each(|edit| show(out, edit));
    }
    if !args.yes {
        if out.json || !std::io::stdin().is_terminal() {
            return Err(JournalError::NobodyToAsk.into());
        }
        out.ask("Take this in? [y/N] ");
        let mut answer = String::new();
        let read = std::io::stdin().lock().read_line(&mut answer);
        if read.is_err() || !is_yes(&answer) {
            out.line("Nothing was taken in. The files stay as you left them.");
            return Ok(0);
        }
    }
    // By their hashes, so that nothing is taken in that was not shown.
    let edits: Vec<EditId> = edits.into_iter().map(|edit| edit.id).collect();
    let accepted: Accepted = client.ask(Op::Accept { edits, looked: !args.yes, deletions: args.also_deletions })?;
    out.answer(&accepted, people)?;
    Ok(if accepted.changed.is_empty() && accepted.refused.is_empty() { 0 } else { WAITS })
}

/// Nothing was edited, or what was can't be read.
fn nothing(out: &Out, troubles: &[String]) -> Outcome {
    out.answer(&Accepted::default(), |out, _| {
        out.line("Nothing to accept: no file was edited.");
        troubles.iter().for_each(|trouble| out.toned(Tone::Warn, &block(trouble)));
    })?;
    Ok(0)
}

/// Those of the files that were named, or all.
fn chosen(edits: Vec<Edit>, files: &[String]) -> Result<Vec<Edit>, JournalError> {
    if let Some(file) = files.iter().find(|file| !edits.iter().any(|edit| edit.id.file == **file)) {
        return Err(JournalError::NoEdit { file: file.clone() });
    }
    Ok(edits.into_iter().filter(|edit| files.is_empty() || files.contains(&edit.id.file)).collect())
}

fn show(out: &Out, edit: &Edit) {
    out.toned(Tone::Head, &one_line(&edit.id.file, 200));
    diff(out, &edit.diff);
    let gone = edit.gone_from_log();
    if gone > 0 {
        let lines = if gone == 1 { "line" } else { "lines" };
        out.toned(Tone::Warn, &format!("    {gone} {lines} of this log went or changed; a log only grows"));
    }
    edit.conflicts.iter().for_each(|conflict| out.toned(Tone::Warn, &format!("    {}", block(conflict))));
}

fn people(out: &Out, accepted: &Accepted) {
    let line = |files: &[String], text: &str| {
        if !files.is_empty() {
            out.line(&format!("{text}: {}", one_line(&files.join(", "), 500)));
        }
    };
    line(&accepted.taken, "Accepted");
    line(&accepted.conflicts, "The journal had changed too, and both are kept");
    line(&accepted.changed, "Changed since it was shown, so nothing was taken from it; run this again");
    for RefusedEdit { file, why } in &accepted.refused {
        out.toned(Tone::Warn, &format!("Not taken in: {}", one_line(file, 200)));
        out.line(&format!("    {}", block(why)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(file: &str) -> Edit {
        let id = EditId { file: file.into(), sha256: "00".into() };
        Edit { id, diff: "-a\n+b\n".into(), conflicts: Vec::new() }
    }

    #[test]
    fn named_files_are_chosen_and_must_have_an_edit() {
        let edits = || vec![edit("core.md"), edit("reference/ideas.md")];
        assert_eq!(chosen(edits(), &[]).unwrap().len(), 2);
        let named = chosen(edits(), &["core.md".to_owned()]).unwrap();
        assert_eq!((named.len(), named[0].id.file.as_str()), (1, "core.md"));
        let error = chosen(edits(), &["users/ada.md".to_owned()]).unwrap_err();
        assert!(error.to_string().contains("users/ada.md"), "{error}");
    }
}
