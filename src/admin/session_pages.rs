//! Sessions over all butlers, page by page back in time.

use std::cmp::Reverse;

use async_trait::async_trait;
use futures_util::future::join_all;
use jiff::Timestamp;
use jsonrpsee::Extensions;
use jsonrpsee::proc_macros::rpc;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::failure::Failure;
use super::rights::Need;
use super::rpc::{Rpc, Unavailable, limited, typed};
use super::sessions::SessionRow;
use super::visitor::may;

const MOST: u32 = 200;
const USUAL: u32 = 20;

/// Pages of sessions.
#[rpc(server, client, namespace = "butlerd", namespace_separator = ".")]
pub trait SessionPagesApi {
    /// Sessions of one butler or of all, the newest first, at most `limit` (1 to 200, else 20); those behind the cursor
    /// of an earlier page, if it is given. Scope `read`.
    #[method(name = "sessions_page", param_kind = map, with_extensions)]
    async fn sessions_page(
        &self,
        butler: Option<String>,
        before: Option<String>,
        limit: Option<u32>,
    ) -> Result<SessionsBefore, Failure>;
}

/// What `sessions_page` answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionsBefore {
    /// The newest first.
    pub sessions: Vec<SessionRow>,
    /// Where the next page begins. `None`: there is none.
    pub next: Option<String>,
    /// Butlers whose sessions can't be read just now.
    pub unavailable: Vec<Unavailable>,
}

/// Behind which session a page begins: when it was queued, and its id, which is unique over all butlers.
fn place(cursor: &str) -> Option<(Timestamp, Uuid)> {
    let (at, id) = cursor.split_once('~')?;
    Some((at.parse().ok()?, id.parse().ok()?))
}

#[async_trait]
impl SessionPagesApiServer for Rpc {
    async fn sessions_page(
        &self,
        ext: &Extensions,
        butler: Option<String>,
        before: Option<String>,
        limit: Option<u32>,
    ) -> Result<SessionsBefore, Failure> {
        let grant = may(ext, Need::Look)?;
        let limit = limited(limit, USUAL, MOST)?;
        // PostgreSQL's times end before ours do; nothing is on record of the next day, wherever a clock went.
        let soon = self.supervisor.services().clock.now().saturating_add(std::time::Duration::from_secs(86_400));
        let latest = (soon.unwrap_or_default(), Uuid::max());
        let from = match before.as_deref() {
            None => latest,
            Some(cursor) => place(cursor).ok_or_else(|| Failure::invalid("That is not a cursor of this list."))?,
        };
        let (butlers, mut unavailable) = self.butlers(&grant, butler.as_deref()).await?;
        let (caller, mut sessions) = (self.caller(&grant), Vec::<SessionRow>::new());
        let (from, most) = (from.min(latest), i64::from(limit) + 1);
        let asked = butlers.iter().map(|butler| butler.spawner().newest_before(&caller.context, from, most));
        for (butler, found) in butlers.iter().zip(join_all(asked).await) {
            match found {
                Ok(rows) => {
                    let rows = typed::<Vec<SessionRow>>(rows.into())?.into_iter();
                    sessions.extend(rows.map(|row| SessionRow { butler: butler.name().to_string(), ..row }));
                }
                Err(e) => unavailable.push(Unavailable::new(butler, &e)),
            }
        }
        sessions.sort_by_key(|row| Reverse((row.queued_at, row.id)));
        let more = sessions.len() > limit as usize;
        sessions.truncate(limit as usize);
        let next = sessions.last().filter(|_| more).map(|row| format!("{}~{}", row.queued_at, row.id));
        Ok(SessionsBefore { sessions, next, unavailable })
    }
}
