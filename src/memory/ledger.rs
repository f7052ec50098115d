//! Which memories were purged, in a file beside the database: their ids, and nothing of what they said.
//!
//! A backup from before a purge has the purged words still. Whoever restores it into the same data directory finds them
//! purged again: the file is written before the purge is committed and read whenever a butler starts, before anybody
//! can ask its memory. So a purge that dies in between is carried out at the next start.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use uuid::Uuid;

use base::{Clock, RequestContext, TenantId, Trust};
use memory_index::Kind;
use store::{Store, StoreError};

use crate::sql::{come_back, purge_one};
use crate::write::WriteError;

/// Below the data directory: a file for each schema.
pub const DIR: &str = "purged";

/// Why purged memories that have come back are still there.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    #[error("{file} can't be read: {source}", file = file.display())]
    Read { file: PathBuf, source: std::io::Error },
    #[error("purging again: {0}")]
    Purge(#[from] WriteError),
}

/// The file of one butler.
#[derive(Clone, Debug)]
pub struct Ledger {
    file: PathBuf,
}

impl Ledger {
    pub fn of(data_dir: &Path, schema: &str) -> Self {
        Self { file: data_dir.join(DIR).join(schema) }
    }

    /// Writes a purge down. On its return it is on the disk.
    pub fn add(&self, tenant: &TenantId, kind: Kind, id: Uuid) -> std::io::Result<()> {
        if let Some(dir) = self.file.parent() {
            std::fs::create_dir_all(dir)?;
        }
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&self.file)?;
        file.write_all(format!("{tenant} {} {id}\n", kind.as_str()).as_bytes())?;
        file.sync_all()
    }

    /// What was purged, of each tenant. A line that was cut off is none.
    fn read(&self) -> std::io::Result<BTreeMap<TenantId, Vec<(Kind, Uuid)>>> {
        let text = match std::fs::read_to_string(&self.file) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            read => read?,
        };
        let mut all: BTreeMap<TenantId, Vec<(Kind, Uuid)>> = BTreeMap::new();
        for line in text.lines() {
            let mut parts = line.split(' ');
            let (Some(tenant), Some(kind), Some(id)) = (parts.next(), parts.next(), parts.next()) else { continue };
            let (Ok(tenant), Some(kind), Ok(id)) = (TenantId::new(tenant), Kind::from_name(kind), id.parse()) else {
                continue;
            };
            all.entry(tenant).or_default().push((kind, id));
        }
        Ok(all)
    }

    /// Purges again what has come back. Returns how much that was.
    pub async fn carry_out(&self, store: &Store, clock: &Clock, butler: &str) -> Result<usize, LedgerError> {
        let all = self.read().map_err(|source| LedgerError::Read { file: self.file.clone(), source })?;
        let mut again = 0;
        for (tenant, purged) in all {
            let context = RequestContext::root(clock, tenant, "butlerd", butler, "ledger", Trust::Owner);
            again += purge_again(store, &Arc::new(context), &purged).await?;
        }
        Ok(again)
    }
}

async fn purge_again(store: &Store, context: &RequestContext, purged: &[(Kind, Uuid)]) -> Result<usize, WriteError> {
    const STEP: &str = "purging again";
    let mut lease = store.lease(context).await?;
    let mut back = Vec::new();
    for kind in Kind::ALL.iter().copied() {
        let ids: Vec<Uuid> = purged.iter().filter(|(k, _)| *k == kind).map(|(_, id)| *id).collect();
        back.extend(come_back(&mut lease, kind, &ids).await?.into_iter().map(|id| (kind, id)));
    }
    let by = json!({"actor": "butlerd"});
    // One at a time: each looks through the whole house.
    for (kind, id) in &back {
        let mut tx = lease.begin().await.map_err(StoreError::query(STEP))?;
        purge_one(&mut tx, *kind, *id, &by).await?;
        tx.commit().await.map_err(StoreError::query(STEP))?;
    }
    Ok(back.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_half_a_line_is_none() {
        let dir = std::env::temp_dir().join(format!("butlerd-ledger-{}", Uuid::now_v7()));
        let ledger = Ledger::of(&dir, "health");
        assert!(ledger.read().unwrap().is_empty());
        let (owner, one, two) = (TenantId::owner(), Uuid::now_v7(), Uuid::now_v7());
        ledger.add(&owner, Kind::Fact, one).unwrap();
        ledger.add(&owner, Kind::Episode, two).unwrap();
        let mut file = std::fs::OpenOptions::new().append(true).open(&ledger.file).unwrap();
        file.write_all(b"owner fact 0190").unwrap();
        assert_eq!(ledger.read().unwrap()[&owner], [(Kind::Fact, one), (Kind::Episode, two)]);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
