//! A schedule's row.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use crate::due::Plan;
use crate::timing::{Timing, TimingError};
use base::{TenantId, Trust};
use config::{Missed, Overlap};

store::row! {
    /// A schedule. Each field is the column of its name.
    #[derive(Debug, Clone, Default, Serialize)]
    pub(crate) struct TaskRow {
        pub id: Uuid,
        pub tenant_id: String,
        pub name: String,
        pub cron: Option<String>,
        pub every_ms: Option<i64>,
        pub run_at: Option<Timestamp>,
        pub anchor_at: Option<Timestamp>,
        pub timezone: String,
        pub start_at: Option<Timestamp>,
        pub until_at: Option<Timestamp>,
        pub end_at: Option<Timestamp>,
        pub stagger_s: i32,
        pub except_at: Vec<Timestamp>,
        pub dispatch_mode: String,
        pub prompt: Option<String>,
        pub job_name: Option<String>,
        pub job_args: Option<Value>,
        pub priority: i16,
        pub require_idle: bool,
        pub missed: String,
        pub missed_window_s: i64,
        pub overlap: String,
        pub display_title: Option<String>,
        pub calendar_event_id: Option<String>,
        pub location: Option<String>,
        pub description: Option<String>,
        pub reply_channel: Option<String>,
        pub reply_to: Option<String>,
        pub source: String,
        pub trust: String,
        pub enabled: bool,
        pub paused_at: Option<Timestamp>,
        pub next_run_at: Option<Timestamp>,
        pub decided_at: Option<Timestamp>,
        pub last_run_at: Option<Timestamp>,
        pub last_result: Option<Value>,
        pub created_at: Timestamp,
        pub updated_at: Timestamp,
    }
}

/// The columns that say what a schedule is, and nothing of what has happened to it.
pub(super) const WHAT_IT_IS: &str = "name, cron, every_ms, run_at, anchor_at, timezone, start_at, until_at, end_at, \
    stagger_s, except_at, dispatch_mode, prompt, job_name, job_args, priority, require_idle, missed, missed_window_s, overlap, \
    display_title, calendar_event_id, location, description, reply_channel, reply_to, source, trust";

/// Makes a new row of the JSON of a [`TaskRow`], which is `$1`. `schema`: empty, or with its dot.
pub(super) fn insert_into(schema: &str) -> String {
    let columns = format!("id, tenant_id, {WHAT_IT_IS}, enabled, next_run_at");
    format!(
        "INSERT INTO {schema}scheduled_tasks AS t ({columns})
         SELECT {columns} FROM jsonb_populate_record(NULL::{schema}scheduled_tasks, $1)"
    )
}

impl TaskRow {
    pub fn tenant(&self) -> TenantId {
        TenantId::new(&self.tenant_id).unwrap_or_else(|_| TenantId::owner())
    }

    pub fn trust(&self) -> Trust {
        Trust::from_name(&self.trust)
    }

    /// How an overlap is dealt with; the table allows no other names than these.
    pub fn overlap(&self) -> Overlap {
        self.overlap.parse().unwrap_or(Overlap::Skip)
    }

    pub fn timing(&self) -> Timing {
        Timing {
            cron: self.cron.clone(),
            every_ms: self.every_ms,
            anchor_at: self.anchor_at,
            run_at: self.run_at,
            timezone: self.timezone.clone(),
            start_at: self.start_at,
            until_at: self.until_at,
            stagger_s: self.stagger_s,
            except_at: self.except_at.clone(),
        }
    }

    /// The same with these times.
    pub fn with_timing(self, timing: Timing) -> Self {
        let Timing { cron, every_ms, anchor_at, run_at, timezone, start_at, until_at, stagger_s, except_at } = timing;
        Self { cron, every_ms, anchor_at, run_at, timezone, start_at, until_at, stagger_s, except_at, ..self }
    }

    /// What decides about its times, no two of which are closer together than `spacing`.
    pub fn plan(&self, spacing: Duration) -> Result<Plan, TimingError> {
        Ok(Plan {
            times: self.timing().times(spacing)?,
            next: self.next_run_at,
            decided_at: self.decided_at,
            missed: self.missed.parse().unwrap_or(Missed::RunOnce),
            window: Duration::from_secs(u64::try_from(self.missed_window_s).unwrap_or(0)),
        })
    }

    /// As a statement takes it.
    pub(super) fn json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}
