//! The log as people page through it, from the newest entry back. Each page reads a bounded part of the log, so the
//! hundredth is there as fast as the first; one that found little says where to look on.

use std::sync::Arc;

use uuid::Uuid;

use super::sql::{self, PageEntry};
use base::TenantId;
use store::{Database, StoreError};

/// Entries that one page of conversations goes through.
const THROUGH: i64 = 3_000;
/// Entries that one search goes through.
const SEARCHED: i64 = 10_000;

/// A page of entries.
#[derive(Clone, Default, Debug)]
pub struct Page {
    /// The newest first.
    pub entries: Vec<PageEntry>,
    /// Where the next page begins; `None`: there is nothing older.
    pub before: Option<i64>,
}

/// The log for people. Cheap to clone.
#[derive(Clone)]
pub struct ConversationPages {
    db: Arc<Database>,
}

impl ConversationPages {
    pub(super) fn new(db: Arc<Database>) -> Self {
        Self { db }
    }

    /// The conversations, each by its last entry.
    pub async fn conversations(&self, tenant: &TenantId, before: Option<i64>, most: i64) -> Result<Page, StoreError> {
        let mut lease = self.db.shared(tenant).await?;
        let window = sql::window(&mut lease, tenant, before.unwrap_or(i64::MAX), THROUGH).await?;
        let entries = sql::last_of_lanes(&mut lease, tenant, &window, most).await?;
        Ok(page_of(entries, &window, most))
    }

    /// Entries that hold this text, in what was said, its subject, or the name of whom it was said to or by.
    pub async fn search(
        &self,
        tenant: &TenantId,
        text: &str,
        before: Option<i64>,
        most: i64,
    ) -> Result<Page, StoreError> {
        let mut lease = self.db.shared(tenant).await?;
        let window = sql::window(&mut lease, tenant, before.unwrap_or(i64::MAX), SEARCHED).await?;
        let entries = sql::saying(&mut lease, tenant, &window, &like(text), most).await?;
        Ok(page_of(entries, &window, most))
    }

    /// What was said in the conversation that this entry belongs to; `None`: there is no such entry.
    pub async fn conversation(
        &self,
        tenant: &TenantId,
        entry: Uuid,
        before: Option<i64>,
        most: i64,
    ) -> Result<Option<Page>, StoreError> {
        let mut lease = self.db.shared(tenant).await?;
        let Some(lane) = sql::lane_of(&mut lease, tenant, entry).await? else { return Ok(None) };
        let entries = sql::of_lane(&mut lease, tenant, &lane, before.unwrap_or(i64::MAX), most + 1).await?;
        Ok(Some(cut(entries, most)))
    }

    /// What was said to a contact and by them, on all channels.
    pub async fn with_contact(
        &self,
        tenant: &TenantId,
        contact: Uuid,
        before: Option<i64>,
        most: i64,
    ) -> Result<Page, StoreError> {
        let mut lease = self.db.shared(tenant).await?;
        let entries = sql::of_contact(&mut lease, tenant, contact, before.unwrap_or(i64::MAX), most + 1).await?;
        Ok(cut(entries, most))
    }
}

fn length(entries: &[PageEntry]) -> i64 {
    i64::try_from(entries.len()).unwrap_or(i64::MAX)
}

/// A page of what was found in a window: it goes on where it was full, else where the window ended.
fn page_of(entries: Vec<PageEntry>, window: &sql::Window, most: i64) -> Page {
    let full = length(&entries) >= most;
    let before = if full { entries.last().map(|entry| entry.seq) } else { window.more.then_some(window.low) };
    Page { entries, before }
}

/// A page out of one entry more than it has.
fn cut(mut entries: Vec<PageEntry>, most: i64) -> Page {
    let more = length(&entries) > most;
    entries.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    let before = more.then(|| entries.last().map(|entry| entry.seq)).flatten();
    Page { entries, before }
}

/// A text as a pattern of `ILIKE` that has it anywhere.
fn like(text: &str) -> String {
    let mut pattern = String::from("%");
    for c in text.chars() {
        if matches!(c, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern.push('%');
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_searched_text_is_no_pattern() {
        assert_eq!(like("50 % of a_b\\c"), "%50 \\% of a\\_b\\\\c%");
    }
}
