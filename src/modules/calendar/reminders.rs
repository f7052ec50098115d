//! Reminders of events in the household's own calendars. Those of a server are rung by whatever else follows it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::SignedDuration;
use tokio_util::sync::CancellationToken;

use super::args::shown;
use super::book::Book;
use super::sql::{self, ReminderRow};
use crate::background::{Background, TaskError};
use crate::contract::ModuleContext;
use base::{Priority, TenantId};
use outbox::{BUTLERD, OwnerNote};
use store::StoreError;

/// How often rows are looked at: a reminder is so late at most.
const LOOK: Duration = Duration::from_secs(10);
/// What a daemon that was away finds this late it still tells, as long as the event is not over.
const LATE: SignedDuration = SignedDuration::from_hours(24);

/// Reminds the owner of what is in the calendars of one butler. Another that sees them too tells the same once.
pub(super) struct Reminders {
    book: Arc<Book>,
    cx: ModuleContext,
    /// What this process has told already: asking the outbox again would change nothing.
    told: Mutex<BTreeSet<String>>,
}

impl Reminders {
    pub fn new(book: &Arc<Book>, cx: &ModuleContext) -> Self {
        Self { book: book.clone(), cx: cx.clone(), told: Mutex::default() }
    }

    async fn round(&self) -> Result<(), StoreError> {
        let (tenant, now) = (TenantId::owner(), self.book.now());
        let since = now.saturating_sub(LATE).unwrap_or(now);
        let sources = self.book.own_sources().await?;
        let span = sql::Looked::new((since, now), self.book.home());
        let due = sql::reminders(&mut self.book.house().shared(&tenant).await?, &sources, &span).await?;
        let keys: BTreeSet<String> = due.iter().map(key).collect();
        let fresh: Vec<&ReminderRow> = {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            told.retain(|known| keys.contains(known));
            due.iter().filter(|row| !told.contains(&key(row))).collect()
        };
        for row in fresh {
            let key = key(row);
            let note = OwnerNote {
                tenant: &tenant,
                origin: BUTLERD,
                key: &key,
                subject: Some("Reminder"),
                text: &self.text(row),
                priority: Priority::High,
                trust: row.trust,
                notice: false,
                channel: None,
                asks: &[],
            };
            self.cx.outbox.tell_owner_all(&tenant, &[note]).await?;
            self.told.lock().unwrap_or_else(PoisonError::into_inner).insert(key);
        }
        Ok(())
    }

    fn text(&self, row: &ReminderRow) -> String {
        let text = |name: &str| row.shown[name].as_str().unwrap_or_default().trim();
        let at = match row.shown["all_day"].as_bool() {
            Some(true) => text("start_at").to_owned(),
            _ => shown(row.starts_at, self.book.home()).get(..16).unwrap_or_default().replace('T', " "),
        };
        let place = if text("location").is_empty() { String::new() } else { format!(", {}", text("location")) };
        format!("{}: {at}{place}", text("title"))
    }
}

/// One reminder of one instance, wherever it was moved to.
fn key(row: &ReminderRow) -> String {
    format!("reminder:{}:{}:{}", row.event, row.instance, row.remind_at)
}

#[async_trait]
impl Background for Reminders {
    async fn run(&self, stop: CancellationToken) -> Result<(), TaskError> {
        let mut laid_out = None;
        while !stop.is_cancelled() {
            self.book.keep_laid_out(&mut laid_out).await.map_err(|e| TaskError(e.to_string()))?;
            self.round().await.map_err(|e| TaskError(e.to_string()))?;
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.book.nudge.notified() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
        Ok(())
    }
}
