//! Taking in what others have pushed.

use std::collections::BTreeSet;

use super::exchange::{Exchange, now};
use super::losses::{Losses, TooMany};
use super::outgoing::{import, names_of};
use super::state::State;
use super::{BRANCH, Daemon, SyncError, SyncReport};
use crate::connection::ConnectionError;
use crate::record::{CHEAT_SHEET, Export};

/// Whose file it is, and what stands in it.
type Source = (String, Export);

pub fn pull(
    exchange: &Exchange,
    daemon: &mut dyn Daemon,
    from: Option<&str>,
    force: bool,
) -> Result<SyncReport, SyncError> {
    let _lock = exchange.lock()?;
    let mut state = State::read(exchange);
    let mut report = SyncReport::default();
    let Some(commit) = exchange.fetch()? else {
        report
            .tell(format!("No sync branch found. Nobody has pushed to {BRANCH} on origin yet; `sync push` makes it."));
        return Ok(report);
    };
    if from.is_none() && state.last_pull_commit.as_ref() == Some(&commit) {
        report.tell("Up to date.");
        return Ok(report);
    }
    let all = exchange.sources(&commit)?;
    let is_wanted = |id: &&String| from.map_or(**id != exchange.identity, |from| from == id.as_str());
    let wanted: Vec<&String> = all.iter().filter(is_wanted).collect();
    let mut whole = true;
    if wanted.is_empty() {
        report.tell("No other sources found.");
        if let Some(from) = from {
            report.tell(format!("Nothing comes from {from}. There are: {}", all.join(", ")));
        }
    } else {
        let mut sources = read(exchange, &commit, &wanted, &mut report)?;
        let mut losses = Losses::new(force);
        for source in &mut sources {
            weigh(daemon, source, &mut losses, &mut report)?;
        }
        let taken_in = take_in(daemon, sources, &mut report)?;
        whole = taken_in == wanted.len() && report.kept == 0;
        let (new, skipped) = (report.imported, report.skipped);
        report.tell(format!("Total: {new} new, {skipped} skipped from {taken_in} source(s)"));
    }
    // Else what was not read now would never be: the branch may stay as it is.
    if whole && from.is_none() {
        state.last_pull_commit = Some(commit);
    }
    state.last_pull_at = Some(now());
    state.write(exchange)?;
    Ok(report)
}

/// The files that can be read. Each of the others is told.
fn read(
    exchange: &Exchange,
    commit: &str,
    wanted: &[&String],
    report: &mut SyncReport,
) -> Result<Vec<Source>, SyncError> {
    let mut sources = Vec::new();
    for id in wanted {
        match Export::read(&exchange.read(commit, id)?) {
            Ok(export) => sources.push(((*id).clone(), export)),
            Err(error) => report.tell(format!("{id}: its file can't be read, and was passed over: {error}")),
        }
    }
    Ok(sources)
}

/// Takes a file's deletions out of it if they would take too much away. New memories of it are welcome all the same.
fn weigh(
    daemon: &mut dyn Daemon,
    (id, export): &mut Source,
    losses: &mut Losses,
    report: &mut SyncReport,
) -> Result<(), SyncError> {
    match losses.of(daemon, export) {
        Ok(None) => return Ok(()),
        Ok(Some(TooMany { would, here })) => {
            report.tell(format!(
                "{id}: forgets {would} of the {here} memories here, and they stay. If they are to go: \
                 `sync pull --from {id} --force`"
            ));
            report.kept += would;
        }
        // So is the file, and then it is told.
        Err(SyncError::Daemon(ConnectionError::Refused(_))) => {}
        Err(error) => return Err(error),
    }
    export.deleted.clear();
    Ok(())
}

/// Gives the daemon one file after the other; returns how many it took.
fn take_in(daemon: &mut dyn Daemon, sources: Vec<Source>, report: &mut SyncReport) -> Result<usize, SyncError> {
    // Somebody who has not pulled yet still has what another has forgotten. Whose file comes first must not matter.
    let deleted: BTreeSet<String> = sources.iter().flat_map(|(_, export)| export.deleted.iter().cloned()).collect();
    let mut taken_in = 0;
    for (id, mut export) in sources {
        let before = export.records.len();
        export.records.retain(|record| !names_of(record).any(|name| deleted.contains(name)));
        // What is told at each start is for this developer alone to say. Of others it is told where it fits.
        let tags = export.records.iter_mut().flat_map(|record| &mut record.tags);
        tags.filter(|tag| *tag == CHEAT_SHEET).for_each(|tag| *tag = format!("{CHEAT_SHEET}:{id}"));
        export.count = export.records.len();
        let passed_over = (before - export.records.len()) as u64;
        match import(daemon, export) {
            Ok(taken) => {
                let skipped = taken.skipped + passed_over;
                report.tell(format!("{id}: {} new, {skipped} skipped", taken.imported));
                report.lines.extend(taken.lines.iter().map(|line| format!("{id}: {line}")));
                report.imported += taken.imported;
                report.skipped += skipped;
                report.deleted += taken.deleted;
                taken_in += 1;
            }
            // Something in this file; the others have nothing to do with it.
            Err(SyncError::Daemon(ConnectionError::Refused(refusal))) => {
                report.tell(format!("{id}: its memories were refused: {refusal}"));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(taken_in)
}
