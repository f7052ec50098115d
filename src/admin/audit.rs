//! The audit for people: every call of every tool, newest first.

use std::cmp::Reverse;

use async_trait::async_trait;
use jiff::Timestamp;
use jsonrpsee::Extensions;
use jsonrpsee::proc_macros::rpc;
use serde::{Deserialize, Serialize};

use super::failure::Failure;
use super::rights::Need;
use super::rpc::{Rpc, Unavailable, limited};
use super::visitor::may;
use tools::sql::audited::{AuditFilter, AuditedCall, audited};

const MOST: u32 = 200;
const USUAL: u32 = 50;

/// Calls on record.
#[rpc(server, client, namespace = "butlerd", namespace_separator = ".")]
pub trait AuditApi {
    /// The newest calls of tools of one butler or of all, at most `limit` (1 to 200, else 50); those that the filter is
    /// about; behind the cursor of an earlier page, if it is given. Scope `read`.
    #[method(name = "audit_list", param_kind = map, with_extensions)]
    async fn audit_list(
        &self,
        butler: Option<String>,
        filter: AuditFilter,
        before: Option<String>,
        limit: Option<u32>,
    ) -> Result<AuditPage, Failure>;
}

/// What `audit_list` answers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AuditPage {
    /// The newest first.
    pub calls: Vec<AuditRow>,
    /// Where the next page begins. `None`: there is none.
    pub next: Option<String>,
    /// Butlers whose calls can't be read just now.
    pub unavailable: Vec<Unavailable>,
}

/// A call, and whose tool it was.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct AuditRow {
    pub butler: String,
    #[serde(flatten)]
    pub call: AuditedCall,
}

/// Behind which row a page begins: its time, its butler, its number.
struct Cursor {
    at: Timestamp,
    butler: String,
    id: i64,
}

impl Cursor {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '~');
        let at = parts.next()?.parse().ok()?;
        let (id, butler) = (parts.next()?.parse().ok()?, parts.next()?.to_owned());
        Some(Self { at, butler, id })
    }

    fn text(&self) -> String {
        format!("{}~{}~{}", self.at, self.id, self.butler)
    }

    /// Before which number a butler's rows of the very same time are still to come.
    fn id_for(&self, butler: &str) -> i64 {
        match butler.cmp(&self.butler) {
            std::cmp::Ordering::Less => i64::MIN,
            std::cmp::Ordering::Equal => self.id,
            std::cmp::Ordering::Greater => i64::MAX,
        }
    }
}

#[async_trait]
impl AuditApiServer for Rpc {
    async fn audit_list(
        &self,
        ext: &Extensions,
        butler: Option<String>,
        filter: AuditFilter,
        before: Option<String>,
        limit: Option<u32>,
    ) -> Result<AuditPage, Failure> {
        let grant = may(ext, Need::Look)?;
        let limit = limited(limit, USUAL, MOST)?;
        let cursor = match before {
            None => Cursor { at: Timestamp::MAX, butler: String::new(), id: i64::MAX },
            Some(text) => Cursor::parse(&text).ok_or_else(|| Failure::invalid("That is not a cursor of this list."))?,
        };
        // Nothing is on record of the future, where a clock went back by less than a day.
        let latest = self.supervisor.services().clock.now().saturating_add(std::time::Duration::from_secs(86_400));
        let start = latest.map_or(cursor.at, |latest| cursor.at.min(latest));
        let (butlers, unavailable) = self.butlers(&grant, butler.as_deref()).await?;
        let mut page = AuditPage { unavailable, ..AuditPage::default() };
        let mut seen_from: Option<Timestamp> = None;
        let mut lease = self.supervisor.services().db.shared(&grant.tenant).await?;
        for butler in &butlers {
            let name = butler.name().as_str();
            let from = (start, cursor.id_for(name));
            let found = audited(&mut lease, butler.schema(), &grant.tenant, &filter, from, i64::from(limit)).await?;
            seen_from = seen_from.max(found.seen_from);
            page.calls.extend(found.calls.into_iter().map(|call| AuditRow { butler: name.to_owned(), call }));
        }
        drop(lease);
        page.finish(limit as usize, seen_from);
        Ok(page)
    }
}

impl AuditPage {
    /// Puts the rows of all butlers in order and keeps as many as fit; `seen_from` is since when all of them are known.
    fn finish(&mut self, most: usize, seen_from: Option<Timestamp>) {
        self.calls.sort_by_key(|row| Reverse((row.call.called_at, Reverse(row.butler.clone()), row.call.id)));
        // What is older may have rows of another butler between that were not looked at.
        if let Some(from) = seen_from {
            self.calls.retain(|row| row.call.called_at >= from);
        }
        let more = self.calls.len() > most || seen_from.is_some();
        self.calls.truncate(most);
        let last = self.calls.last().filter(|_| self.calls.len() == most);
        let last = last.map(|row| Cursor { at: row.call.called_at, butler: row.butler.clone(), id: row.call.id });
        let looked = || seen_from.map(|at| Cursor { at, butler: String::new(), id: i64::MAX });
        self.next = if more { last.or_else(looked).map(|cursor| cursor.text()) } else { None };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use uuid::Uuid;

    fn row(butler: &str, id: i64, second: i64) -> AuditRow {
        let call = AuditedCall {
            id,
            session_id: None,
            request_id: Uuid::nil(),
            caller: "x".into(),
            tool: "t".into(),
            arguments: Value::Null,
            outcome: "ok".into(),
            detail: None,
            effect: "none".into(),
            called_at: Timestamp::from_second(second).unwrap(),
            duration_us: 1,
        };
        AuditRow { butler: butler.to_owned(), call }
    }

    #[test]
    fn no_row_is_left_out_between_two_pages() {
        let rows = || vec![row("a", 1, 5), row("b", 1, 5), row("a", 2, 5), row("b", 2, 4)];
        let mut page = AuditPage { calls: rows(), ..AuditPage::default() };
        page.finish(2, None);
        let shown: Vec<(&str, i64)> = page.calls.iter().map(|r| (r.butler.as_str(), r.call.id)).collect();
        assert_eq!(shown, [("a", 2), ("a", 1)]);
        let cursor = Cursor::parse(&page.next.unwrap()).unwrap();
        // Of the same second all of b is still to come, and nothing of a behind its row 1.
        assert_eq!((cursor.id_for("a"), cursor.id_for("b")), (1, i64::MAX));
        let mut whole = AuditPage { calls: rows(), ..AuditPage::default() };
        whole.finish(4, None);
        assert_eq!((whole.calls.len(), whole.next), (4, None));
        // What is older than what was looked at of every butler waits for the next page.
        let mut some = AuditPage { calls: rows(), ..AuditPage::default() };
        some.finish(10, Some(Timestamp::from_second(5).unwrap()));
        assert_eq!(some.calls.len(), 3);
        assert!(some.next.is_some());
    }
}
