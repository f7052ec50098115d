//! A calendar's rows as the side of a sync that is here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use uuid::Uuid;

use super::super::book::Book;
use super::sql::{self, Beside};
use super::trust::Writers;
use base::{TenantId, Trust, crash};
use calendar::{CalendarError, Object, others};
use dav::sync::{Item, LocalStore, Which, Write};
use store::{Lease, StoreError};

/// More items than this come at once into a calendar of many.
const FEW: usize = 20;

/// Why a calendar's rows were not read or written.
#[derive(Debug, thiserror::Error)]
pub(in super::super) enum RowsError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("another daemon syncs this calendar now")]
    Lost,
}

/// One calendar under a claim.
pub(in super::super) struct Rows {
    pub book: Arc<Book>,
    pub source: Uuid,
    pub claim: Uuid,
    pub writers: Writers,
    /// Nothing of it was ever written, so the database knows nothing of its size.
    pub first: AtomicBool,
}

impl Rows {
    async fn lease(&self) -> Result<Lease, StoreError> {
        self.book.house().shared(&TenantId::owner()).await
    }

    /// What stands beside an item's bytes. What can't be read is kept, and lists say so: it is at no time that is laid out,
    /// like a series before anybody looked.
    fn beside(&self, item: &Item, had: Option<&Vec<u8>>) -> Beside {
        let now = self.book.now();
        let nothing =
            Beside { trust: Trust::System.as_str(), repeats: false, window: (now, now), instances: json!([]) };
        let Some(ours) = &item.ours else { return nothing };
        if had == Some(ours) {
            return nothing;
        }
        let trust = self.writers.trust(ours, had.map(Vec::as_slice)).unwrap_or(Trust::System).as_str();
        let object = match Object::read(ours) {
            Ok(object) => object,
            // A task or a note.
            Err(CalendarError::NoEvent) => return Beside { trust, ..nothing },
            Err(_) => return Beside { trust, repeats: true, ..nothing },
        };
        match self.book.written(&object, item.id, self.source, None, now) {
            Ok(written) => {
                let (window, instances, repeats) = (written.window, written.instances, written.repeats);
                Beside { trust, repeats, window, instances }
            }
            // So long a time may be too much for one that comes every hour.
            Err(_) => Beside { trust, repeats: true, ..nothing },
        }
    }
}

impl LocalStore for Rows {
    type Error = RowsError;

    async fn cursor(&self) -> Result<Option<String>, RowsError> {
        Ok(sql::cursor(&mut self.lease().await?, self.source).await?)
    }

    async fn set_cursor(&self, cursor: Option<&str>) -> Result<(), RowsError> {
        crash::point("calendar.moving");
        match sql::set_cursor(&mut self.lease().await?, self.claim, cursor).await? {
            true => {
                crash::point("calendar.moved");
                Ok(())
            }
            false => Err(RowsError::Lost),
        }
    }

    async fn items(&self, which: Which<'_>) -> Result<Vec<Item>, RowsError> {
        Ok(sql::items(&mut self.lease().await?, self.source, which).await?)
    }

    async fn linked(&self) -> Result<Vec<(Uuid, String)>, RowsError> {
        Ok(sql::linked(&mut self.lease().await?, self.source).await?)
    }

    async fn pending(&self) -> Result<Vec<Uuid>, RowsError> {
        Ok(sql::pending(&mut self.lease().await?, self.source).await?)
    }

    fn told(&self, content: &[u8]) -> BTreeSet<String> {
        // What can't be read may name anybody.
        let Ok(object) = Object::read(content) else { return BTreeSet::from([String::new()]) };
        others(&object, self.book.own())
    }

    async fn write(&self, writes: Vec<Write>) -> Result<Vec<Uuid>, RowsError> {
        let mut lease = self.lease().await?;
        let failed = || StoreError::query("writing a calendar's items");
        let ids: Vec<Uuid> = writes.iter().map(Write::id).collect();
        let mut tx = lease.begin().await.map_err(failed())?;
        if !sql::held(&mut tx, self.claim).await.map_err(failed())? {
            return Err(RowsError::Lost);
        }
        let had: BTreeMap<Uuid, Vec<u8>> = sql::had(&mut tx, &ids).await.map_err(failed())?.into_iter().collect();
        // First what goes, which may make room for a UID of what comes.
        let (mut refused, mut saved, mut labels) = (Vec::new(), Vec::new(), BTreeMap::new());
        for write in &writes {
            match write {
                Write::Save { item, .. } => saved.push((item, self.beside(item, had.get(&item.id)))),
                Write::Remove { id, revision, .. } => {
                    match sql::forget(&mut tx, *id, *revision).await.map_err(failed())? {
                        Some(label) => drop(labels.insert(*id, label)),
                        None => refused.push(*id),
                    }
                }
            }
        }
        refused.extend(sql::take(&mut tx, self.source, &saved).await.map_err(failed())?);
        for write in writes.iter().filter(|write| !refused.contains(&write.id())) {
            if let Some(conflict) = write.conflict() {
                let label = labels.get(&write.id()).map(String::as_str);
                sql::conflict(&mut tx, (self.source, write.id(), label), conflict).await.map_err(failed())?;
            }
        }
        crash::point("calendar.writing");
        tx.commit().await.map_err(failed())?;
        crash::point("calendar.written");
        if saved.len() > FEW && self.first.swap(false, Ordering::Relaxed) {
            sql::count(&mut lease).await?;
        }
        Ok(refused)
    }
}
