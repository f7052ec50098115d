//! This side of the sync: cards as rows, each step committed before the next.

use uuid::Uuid;

use super::source::Source;
use super::sql;
use base::crash;
use dav::sync::{Item, LocalStore, Which, Write};
use store::StoreError;

impl LocalStore for Source {
    type Error = StoreError;

    async fn cursor(&self) -> Result<Option<String>, StoreError> {
        sql::cursor(&mut self.lease().await?, self.id).await
    }

    async fn set_cursor(&self, cursor: Option<&str>) -> Result<(), StoreError> {
        crash::point("contacts.cursor");
        sql::set_cursor(&mut self.lease().await?, self.id, cursor).await
    }

    async fn items(&self, which: Which<'_>) -> Result<Vec<Item>, StoreError> {
        sql::items(&mut self.lease().await?, self.id, which).await
    }

    async fn linked(&self) -> Result<Vec<(Uuid, String)>, StoreError> {
        sql::linked(&mut self.lease().await?, self.id).await
    }

    async fn pending(&self) -> Result<Vec<Uuid>, StoreError> {
        sql::pending(&mut self.lease().await?, self.id).await
    }

    async fn write(&self, writes: Vec<Write>) -> Result<Vec<Uuid>, StoreError> {
        let mut lease = self.lease().await?;
        let mut tx = lease.begin().await.map_err(StoreError::query("beginning"))?;
        // As whoever compares cards with people does, so that both wait for each other in one order.
        sql::hold_people(&mut tx).await?;
        let mut refused = Vec::new();
        for write in writes {
            let id = write.id();
            let done = match &write {
                Write::Save { item, .. } => sql::save(&mut tx, self.id, item).await?,
                Write::Remove { id, revision, .. } => sql::archive(&mut tx, self.id, *id, *revision).await?,
            };
            if !done {
                refused.push(id);
            } else if let Some(conflict) = write.conflict() {
                sql::conflict(&mut tx, self.id, id, conflict).await?;
            }
        }
        crash::point("contacts.writing");
        tx.commit().await.map_err(StoreError::query("committing"))?;
        crash::point("contacts.written");
        Ok(refused)
    }
}
