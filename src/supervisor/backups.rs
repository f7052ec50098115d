//! Backups on a schedule: when the next one is due, which ones are there, which go, and what is told when there is
//! none.
//!
//! When one is due follows from the times in the names of those that are there, so neither a restart nor a crash
//! changes it. A file has its name only once it was read back whole, and an older one goes only after that.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use jiff::civil::DateTime;
use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use tokio_util::sync::CancellationToken;

use base::{Clock, DiskSpace, HumanDuration};
use butler::{BackupStatus, HouseholdServices};
use config::Config;

/// How often it is looked at whether one is due.
const LOOK: Duration = Duration::from_secs(30);
/// After one that failed, the next try comes no later than this.
const AGAIN: Duration = Duration::from_secs(900);

const PREFIX: &str = "butlerd-";
const SUFFIX: &str = ".backup";
const TIME: &str = "%Y%m%dT%H%M%SZ";

/// What to back up, and into which file.
pub struct BackupOrder {
    pub config: Config,
    pub file: PathBuf,
    pub clock: Clock,
    pub stop: CancellationToken,
}

/// Why there is no backup, in a sentence.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NoBackup(pub String);

/// Writes a backup and reads it back; only then the file is there.
pub type WriteBackup = fn(BackupOrder) -> BoxFuture<'static, Result<(), NoBackup>>;

/// A backup of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kept {
    at: Timestamp,
    file: PathBuf,
    bytes: u64,
}

/// The household's backups. Clones share them.
#[derive(Clone)]
pub struct Backups {
    services: Arc<HouseholdServices>,
    dir: PathBuf,
    every: SignedDuration,
    state: Arc<Mutex<BackupStatus>>,
}

impl Backups {
    /// Those of this household; `None`: none are made.
    pub(super) fn of(services: &Arc<HouseholdServices>) -> Option<Self> {
        let settings = &services.config.backup;
        let every = SignedDuration::try_from(settings.every.0).ok().filter(|every| !every.is_zero())?;
        let dir = backup_dir(&services.config, &services.data_dir);
        Some(Self { services: services.clone(), dir, every, state: Arc::default() })
    }

    fn state(&self) -> MutexGuard<'_, BackupStatus> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What `status` shows of them, as of the last look.
    pub fn status(&self) -> BackupStatus {
        self.state().clone()
    }

    /// Makes one whenever it is due, until `stop`.
    pub(super) async fn keep(self, write: WriteBackup, stop: CancellationToken) {
        let every = self.every.unsigned_abs();
        let (look, again) = (LOOK.min(every / 4).max(Duration::from_millis(100)), AGAIN.min(every / 4));
        let mut not_before = Instant::now();
        let mut told = false;
        loop {
            // A disk that fails is a fault of its own, which is told elsewhere; without the database nothing is known.
            if self.services.db.machine().is_up()
                && let Ok(made_at) = self.services.db.made_at().await
            {
                let mut kept = self.look(made_at).await;
                if self.state().due_at.is_some_and(|due| due <= self.now()) && not_before <= Instant::now() {
                    match self.make(&kept, write, &stop).await {
                        Ok(()) => self.state().error = None,
                        Err(_) if stop.is_cancelled() => return,
                        Err(why) => {
                            tracing::warn!("no backup was made: {why}");
                            self.state().error = Some(why.to_string());
                            not_before = Instant::now() + again;
                        }
                    }
                    kept = self.look(made_at).await;
                    self.rotate(&kept);
                }
                told = self.tell(made_at, told).await;
            }
            if stop.run_until_cancelled(tokio::time::sleep(look)).await.is_none() {
                return;
            }
        }
    }

    fn now(&self) -> Timestamp {
        self.services.clock.now()
    }

    /// Those that are there, the oldest first. One from the future is of a clock that was wrong: of no known age.
    async fn look(&self, made_at: Timestamp) -> Vec<Kept> {
        let (dir, now) = (self.dir.clone(), self.now());
        let kept = tokio::task::spawn_blocking(move || list(&dir, now)).await.unwrap_or_default();
        let newest = kept.last().filter(|kept| kept.at <= now);
        let since = newest.map_or(made_at.min(now), |kept| kept.at);
        let mut state = self.state();
        state.newest = newest.map(|kept| kept.at);
        state.file = newest.map(|kept| kept.file.display().to_string());
        state.due_at = since.checked_add(self.every).ok();
        state.overdue = since.checked_add(self.every + self.every / 2).is_ok_and(|late| late < now);
        kept
    }

    async fn make(&self, kept: &[Kept], write: WriteBackup, stop: &CancellationToken) -> Result<(), NoBackup> {
        let begun = Instant::now();
        let file = self.dir.join(format!("{PREFIX}{}{SUFFIX}", self.now().strftime(TIME)));
        prepare(&self.dir).map_err(|e| NoBackup(format!("the directory {} can't be used: {e}", self.dir.display())))?;
        let floor = self.services.config.daemon.disk_floor.0;
        room(&self.dir, floor.saturating_add(kept.last().map_or(0, |kept| kept.bytes + kept.bytes / 2)))?;
        let order = BackupOrder {
            config: self.services.config.clone(),
            file: file.clone(),
            clock: self.services.clock.clone(),
            stop: stop.clone(),
        };
        write(order).await?;
        let ms = begun.elapsed().as_millis() as u64;
        tracing::info!(ms, file = %file.display(), "a backup was made and read back");
        Ok(())
    }

    /// Deletes the oldest, as far as there are more than are kept.
    fn rotate(&self, kept: &[Kept]) {
        let most = self.services.config.backup.keep as usize;
        for old in &kept[..kept.len().saturating_sub(most)] {
            if let Err(e) = fs::remove_file(&old.file) {
                tracing::warn!("the old backup {} can't be deleted: {e}", old.file.display());
            }
        }
    }

    /// Tells the owner once that the last good one is too old, and once that this is over. `told`: he was told that it
    /// is; whether he is now is returned.
    async fn tell(&self, made_at: Timestamp, told: bool) -> bool {
        let (state, now) = (self.status(), self.now());
        let every = HumanDuration(self.every.unsigned_abs());
        let news = if state.overdue {
            let last = match state.newest {
                Some(at) => format!("the last good one is of {}", at.strftime("%Y-%m-%d %H:%M UTC")),
                None => "there is no good one".to_owned(),
            };
            Some((
                state.newest.unwrap_or(made_at),
                format!("a backup is missing: one is made every {every}, and {last}; see butlerd status"),
            ))
        } else if told {
            Some((now, "backups are made again".to_owned()))
        } else {
            None
        };
        let Some((at, news)) = news.filter(|_| state.overdue != told) else { return told };
        match self.services.outbox.note_backup(at, &news).await {
            Ok(()) => state.overdue,
            Err(e) => {
                tracing::debug!(error = %e, "the notice about backups waits");
                told
            }
        }
    }
}

/// The daemon's own newest backup, and of when it is.
pub fn newest_backup(config: &Config, now: Timestamp) -> Option<(Timestamp, PathBuf)> {
    let newest = list(&backup_dir(config, &config.daemon.data_dir), now).pop()?;
    (newest.at <= now).then_some((newest.at, newest.file))
}

/// Where the daemon's own backups are.
pub fn backup_dir(config: &Config, data_dir: &Path) -> PathBuf {
    data_dir.join(config.backup.dir.as_deref().unwrap_or(Path::new("backups")))
}

/// The backups of ours in a directory, the oldest first; those of a time to come before all others.
fn list(dir: &Path, now: Timestamp) -> Vec<Kept> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let of = |entry: io::Result<fs::DirEntry>| {
        let entry = entry.ok()?;
        let name = entry.file_name();
        let time = name.to_str()?.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
        let at = DateTime::strptime(TIME, time).ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp();
        let meta = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        Some(Kept { at, file: entry.path(), bytes: meta.len() })
    };
    let mut kept: Vec<Kept> = entries.filter_map(of).collect();
    kept.sort_by_key(|kept| (kept.at <= now, kept.at));
    kept
}

/// Makes the directory, and takes away what a killed daemon left there unfinished.
fn prepare(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.trim_start_matches('.').starts_with(PREFIX) && (name.ends_with(".unread") || name.ends_with(".partial"))
        {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn room(dir: &Path, needed: u64) -> Result<(), NoBackup> {
    let unknown = |e| NoBackup(format!("the disk of {} can't be looked at: {e}", dir.display()));
    let free = DiskSpace::of(dir).map_err(unknown)?.free;
    if free >= needed {
        return Ok(());
    }
    let (free, needed, dir) = (free >> 20, needed >> 20, dir.display());
    Err(NoBackup(format!(
        "the disk of {dir} has {free} MiB left, and a backup needs about {needed} with [daemon] disk_floor"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_last_and_one_from_the_future_first() {
        let dir = tempfile::tempdir().unwrap();
        let names =
            ["butlerd-20261123T040000Z.backup", "butlerd-20261124T040000Z.backup", "butlerd-20990101T000000Z.backup"];
        for name in names.iter().chain(&["mine.backup", ".butlerd-20261125T040000Z.backup.unread"]) {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let now: Timestamp = "2026-11-25T00:00:00Z".parse().unwrap();
        let listed = || {
            let kept = list(dir.path(), now).into_iter();
            kept.map(|kept| kept.file.file_name().unwrap().to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(listed(), [names[2], names[0], names[1]]);
        prepare(dir.path()).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 4, "what is the owner's stays");
    }
}
