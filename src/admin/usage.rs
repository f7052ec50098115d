//! What the household takes of its disk, and when that is full at this pace.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use base::{ByteSize, DiskSpace};
use store::{Database, StoreError, TableUsage, table_usage};

/// What the household takes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Usage {
    /// The tables, the largest first.
    pub tables: Vec<TableUsage>,
    /// What else stands in the data directory and where backups are, the largest first.
    pub directories: Vec<DirectoryUsage>,
    /// The disk of the data directory.
    pub disk: DiskUsage,
    /// What all tables together grow by, in bytes a day; `None`: not known yet.
    pub grows: Option<f64>,
    /// In how many days no more work is begun because of that; `None`: not known, or never.
    pub full_in_days: Option<f64>,
}

/// A directory or file with all that is in it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DirectoryUsage {
    pub path: PathBuf,
    /// What was counted; with `unreadable`, there is more.
    pub bytes: u64,
    /// How many files and directories in it could not be looked at.
    pub unreadable: u64,
}

/// A disk; `None` where it does not say.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DiskUsage {
    pub bytes: Option<u64>,
    pub free: Option<u64>,
    /// `[daemon] disk_floor`
    pub floor: u64,
}

/// Looks at the tables, and at every file of the data directory and of the backups.
pub async fn usage(
    db: &Database,
    now: jiff::Timestamp,
    data_dir: &Path,
    backups: PathBuf,
    floor: ByteSize,
) -> Result<Usage, StoreError> {
    let tables = table_usage(db, now).await?;
    let dir = data_dir.to_owned();
    let looked = tokio::task::spawn_blocking(move || (directories(&dir, &backups), disk(&dir, floor))).await;
    let (directories, disk) = looked.map_err(|_| StoreError::Unexpected("the look at the disk panicked".to_owned()))?;
    // A table that came later has no growth of its own yet.
    let known: Vec<f64> = tables.iter().filter_map(|table| table.grows).collect();
    let grows = (!known.is_empty()).then(|| known.iter().sum::<f64>());
    let left = disk.free.map(|free| free.saturating_sub(disk.floor) as f64);
    let full_in_days = left.zip(grows.filter(|grows| *grows >= 1.0)).map(|(left, grows)| left / grows);
    Ok(Usage { tables, directories, disk, grows, full_in_days })
}

fn disk(dir: &Path, floor: ByteSize) -> DiskUsage {
    let space = DiskSpace::of(dir).ok();
    DiskUsage { bytes: space.map(|space| space.bytes), free: space.map(|space| space.free), floor: floor.0 }
}

/// Each thing in the data directory, the parts of the database's directory that grow apart from it, and the backups.
fn directories(data_dir: &Path, backups: &Path) -> Vec<DirectoryUsage> {
    let within = |dir: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(dir).map(|all| all.filter_map(|e| Some(e.ok()?.path())).collect()).unwrap_or_default()
    };
    let cluster = data_dir.join("postgres");
    let wal = cluster.join("pg_wal");
    let mut paths = within(data_dir);
    paths.push(wal.clone());
    if !backups.starts_with(data_dir) {
        paths.push(backups.to_owned());
    }
    let mut found: Vec<DirectoryUsage> = paths
        .into_iter()
        .map(|path| {
            let mut found = DirectoryUsage { path: path.clone(), bytes: 0, unreadable: 0 };
            found.add(&path, (path == cluster).then_some(&wal));
            found
        })
        .filter(|found| found.bytes > 0 || found.unreadable > 0)
        .collect();
    found.sort_by_key(|found| std::cmp::Reverse(found.bytes));
    found
}

impl DirectoryUsage {
    /// Adds a file, or all that is in a directory, except `without`. What went away meanwhile counts nothing.
    fn add(&mut self, path: &Path, without: Option<&PathBuf>) {
        let looked = path.symlink_metadata().and_then(|meta| {
            self.bytes += meta.blocks() * 512;
            if meta.is_dir() { std::fs::read_dir(path).map(Some) } else { Ok(None) }
        });
        let entries = match looked {
            Ok(entries) => entries.into_iter().flatten(),
            Err(e) => {
                self.unreadable += u64::from(e.kind() != io::ErrorKind::NotFound);
                return;
            }
        };
        for entry in entries {
            match entry.map(|entry| entry.path()) {
                Ok(path) if without == Some(&path) => {}
                Ok(path) => self.add(&path, None),
                Err(_) => self.unreadable += 1,
            }
        }
    }
}
