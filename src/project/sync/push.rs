//! Pushing this machine's memories.

use std::time::Duration;

use base::Backoff;

use super::exchange::{Exchange, now};
use super::losses::{Losses, TooMany};
use super::outgoing::{Outgoing, fingerprint, import};
use super::state::State;
use super::temporary::{Pushed, Temporary};
use super::{Daemon, SyncError, SyncReport};
use crate::record::Export;

/// So often it is tried again when others come first.
const RETRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

const NOTHING: &str = "Nothing to push.";

pub fn push(exchange: &Exchange, daemon: &mut dyn Daemon, force: bool) -> Result<SyncReport, SyncError> {
    let _lock = exchange.lock()?;
    let mut state = State::read(exchange);
    let mut report = SyncReport::default();
    let mut outgoing = Outgoing::ask(exchange, daemon)?;
    if !force && state.last_push_hash.as_ref() == Some(&outgoing.fingerprint) {
        report.tell(NOTHING);
        outgoing.tell(&mut report);
        return Ok(report);
    }
    let repository = Temporary::new(exchange)?;
    let mut pauses = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
    for attempt in 0..=RETRIES {
        if attempt > 0 {
            std::thread::sleep(pauses.next_delay());
            outgoing = Outgoing::ask(exchange, daemon)?;
        }
        let tip = repository.fetch()?;
        let there = match &tip {
            Some(tip) => repository.read(tip, &exchange.file())?,
            None => None,
        };
        if there.is_none() && outgoing.is_empty() && !force {
            report.tell(NOTHING);
            outgoing.tell(&mut report);
            return Ok(report);
        }
        // What can't be read is replaced: it is this machine's own.
        if let Some(there) = there.and_then(|text| Export::read(&text).ok()) {
            let hash = fingerprint(&there, exchange);
            if !force && state.last_push_hash.as_ref() != Some(&hash) && outgoing.lacks_some_of(&there) {
                outgoing = take_back(exchange, daemon, &there, &mut report)?;
            }
            if !force && outgoing.shrinks(&there) {
                let (file, identity) = (exchange.file(), exchange.identity.clone());
                let (there, here) = (there.records.len(), outgoing.export.records.len());
                return Err(SyncError::Shrinks { file, identity, there, here });
            }
            if hash == outgoing.fingerprint {
                note(&mut state, outgoing.fingerprint.clone(), exchange)?;
                report.tell(NOTHING);
                outgoing.tell(&mut report);
                return Ok(report);
            }
        }
        if send(exchange, &repository, tip.as_deref(), &outgoing)? == Pushed::Through {
            note(&mut state, outgoing.fingerprint.clone(), exchange)?;
            report.tell(format!("Pushed to {}", exchange.identity));
            outgoing.tell(&mut report);
            report.pushed = true;
            return Ok(report);
        }
    }
    Err(SyncError::Contended { tries: RETRIES + 1 })
}

/// Takes in what stands under this machine's name and is not here: it was installed anew, or another clone has the
/// same name. Replacing that file would lose it.
fn take_back(
    exchange: &Exchange,
    daemon: &mut dyn Daemon,
    there: &Export,
    report: &mut SyncReport,
) -> Result<Outgoing, SyncError> {
    if let Some(TooMany { would, here }) = Losses::new(false).of(daemon, there)? {
        return Err(SyncError::Forgets { file: exchange.file(), identity: exchange.identity.clone(), would, here });
    }
    let taken = import(daemon, there.clone())?;
    let (id, imported, skipped) = (&exchange.identity, taken.imported, taken.skipped);
    report.tell(format!("{id}: {imported} new, {skipped} skipped"));
    report.lines.extend(taken.lines.iter().map(|line| format!("{id}: {line}")));
    report.imported += imported;
    report.skipped += skipped;
    report.deleted += taken.deleted;
    Outgoing::ask(exchange, daemon)
}

fn send(
    exchange: &Exchange,
    repository: &Temporary,
    tip: Option<&str>,
    outgoing: &Outgoing,
) -> Result<Pushed, SyncError> {
    let mut text = serde_json::to_string_pretty(&outgoing.export)
        .map_err(|error| SyncError::Answer { op: "export_memories", why: error.to_string() })?;
    text.push('\n');
    let message = format!("sync: {} {}", exchange.identity, now());
    let commit = repository.commit(tip, &exchange.file(), &text, &message, exchange)?;
    repository.push(&commit)
}

fn note(state: &mut State, fingerprint: String, exchange: &Exchange) -> Result<(), SyncError> {
    state.last_push_hash = Some(fingerprint);
    state.last_push_at = Some(now());
    state.write(exchange)
}
