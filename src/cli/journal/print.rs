//! How answers of the journal are printed.

use super::super::changes::diff;
use super::super::out::{Out, Tone};
use super::super::text::{block, count, one_line};
use super::status::kilobytes;
use journal::wire::{Checked, Checkpoint, FileText, Level, Migrated, Said, Undone};

pub fn checkpoint(out: &Out, made: &Checkpoint) {
    let all = count(usize::try_from(made.count).unwrap_or_default(), "conversation");
    out.line(&format!("Checkpoint #{}: {all} summarized (id {}-{})", made.id, made.start_id, made.end_id));
}

pub fn checkpoints(out: &Out, all: &[Checkpoint]) {
    out.table(all)
        .column("ID", |c| c.id.to_string())
        .column("CONVERSATIONS", |c| format!("{}-{}", c.start_id, c.end_id))
        .column("COUNT", |c| c.count.to_string())
        .column("MADE", |c| out.moment(c.made_at))
        .column("SUMMARY", |c| one_line(&c.summary, 200))
        .print("No checkpoints yet");
}

pub fn log(out: &Out, said: &[Said]) {
    if said.is_empty() {
        out.line("Nothing was said yet");
    }
    for one in said {
        let who = one_line(&format!("{}:{}", one.channel, one.person), 200);
        let head = format!("#{} [{}] {} ({who}, {})", one.id, out.moment(one.at), one.direction, one.trust);
        out.toned(Tone::Head, &one_line(&head, 400));
        out.line(&block(&one.text));
        out.line("");
    }
}

pub fn file(out: &Out, shown: &FileText) {
    out.line(&block(&shown.text));
}

pub fn checked(out: &Out, checked: &Checked) {
    for file in &checked.files {
        let (tone, level) = match file.level {
            Level::Ok => (Tone::Good, "OK"),
            Level::Warn => (Tone::Warn, "WARN"),
            Level::Over => (Tone::Bad, "OVER"),
            Level::Missing => (Tone::Bad, "MISSING"),
        };
        let budget = file.budget.map(|most| format!(" of {}", kilobytes(most))).unwrap_or_default();
        let size =
            if file.level == Level::Missing { String::new() } else { format!(" ({}{budget})", kilobytes(file.bytes)) };
        out.line(&format!("{}  {}{size}", out.paint(tone, &format!("{level:7}")), one_line(&file.file, 200)));
    }
    checked.findings.iter().for_each(|finding| out.line(&block(finding)));
    if checked.ok {
        out.line("The journal is in order.");
    }
}

pub fn undone(out: &Out, undone: &Undone, dry_run: bool) {
    for change in &undone.files {
        out.toned(Tone::Head, &one_line(&change.file, 200));
        diff(out, &change.diff);
    }
    let what = if undone.kind == "sync" { "the sync" } else { "the accepted edit" };
    let did = if dry_run { "Would be taken back" } else { "Taken back" };
    out.line(&format!(
        "{did}: {what} of {} (step {}, {})",
        out.moment(undone.at),
        undone.step,
        one_line(&undone.actor, 80)
    ));
    undone.notes.iter().for_each(|note| out.line(&block(note)));
}

/// `did`: what became of the files.
pub fn migrated(out: &Out, done: &Migrated, did: &str) {
    done.taken.iter().for_each(|taken| out.line(&format!("{did}: {}", one_line(taken, 500))));
    done.left.iter().for_each(|left| out.line(&format!("Left alone: {}", one_line(left, 500))));
    if done.taken.is_empty() {
        out.line("Nothing changed.");
    }
    done.notes.iter().for_each(|note| out.line(&block(note)));
}

#[cfg(test)]
mod tests {
    use super::super::super::out::tests::printed;
    use super::*;
    use journal::wire::FileState;

    fn made() -> Checkpoint {
        let made_at = "2026-02-07T10:00:00Z".parse().unwrap();
        Checkpoint { id: 6, start_id: 144, end_id: 155, count: 12, summary: "Focus:\nmemory".into(), made_at }
    }

    #[test]
    fn checkpoints_say_what_they_cover() {
        assert_eq!(
            printed(|out| checkpoint(out, &made())),
            "Checkpoint #6: 12 conversations summarized (id 144-155)\n"
        );
        let text = printed(|out| checkpoints(out, &[made()]));
        assert!(text.contains("144-155") && text.contains("Focus: memory"), "{text}");
        assert_eq!(printed(|out| checkpoints(out, &[])), "No checkpoints yet\n");
    }

    #[test]
    fn what_was_said_commands_no_terminal() {
        let said = Said {
            id: 7,
            at: "2026-02-07T10:00:00Z".parse().unwrap(),
            direction: "IN".into(),
            channel: "telegram".into(),
            person: "ada".into(),
            trust: "owner".into(),
            text: "a\u{1b}[2J\nb".into(),
        };
        let text = printed(|out| log(out, &[said]));
        assert_eq!(text, "#7 [2026-02-07 10:00:00] IN (telegram:ada, owner)\na[2J\nb\n\n");
    }

    #[test]
    fn a_migration_says_what_became_of_the_files() {
        let done = |taken: &[&str], left: &[&str]| {
            let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect();
            Migrated { taken: texts(taken), left: texts(left), notes: Vec::new() }
        };
        let back = printed(|out| migrated(out, &done(&["archive/a.md"], &[]), "Taken back"));
        assert_eq!(back, "Taken back: archive/a.md\n");
        let none = printed(|out| migrated(out, &done(&[], &["x: it is empty"]), "Taken"));
        assert_eq!(none, "Left alone: x: it is empty\nNothing changed.\n");
    }

    #[test]
    fn a_check_shows_levels_and_findings() {
        let state = |file: &str, level| FileState {
            label: "x".into(),
            file: file.into(),
            bytes: 2458,
            entries: None,
            date: None,
            budget: Some(3072),
            level,
        };
        let files = vec![state("core.md", Level::Ok), state("reference/ideas.md", Level::Missing)];
        let text =
            printed(|out| checked(out, &Checked { files, findings: vec!["It was made again.".into()], ok: true }));
        let want = "OK       core.md (2.4 KB of 3.0 KB)\nMISSING  reference/ideas.md\nIt was made again.\n\
                    The journal is in order.\n";
        assert_eq!(text, want);
    }
}
