//! Schedules as a calendar has them: what ran, what was missed, what comes.

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use jsonrpsee::Extensions;
use jsonrpsee::proc_macros::rpc;
use serde::{Deserialize, Serialize};

use super::failure::Failure;
use super::rights::Need;
use super::rpc::{Rpc, Unavailable, typed};
use super::schedules::{RunRow, ScheduleRow};
use super::visitor::may;

/// As far apart as the two moments may be.
const LONGEST: SignedDuration = SignedDuration::from_hours(24 * 32);

/// Refuses moments that are in the wrong order, or too far apart.
pub(super) fn a_month(from: Timestamp, to: Timestamp) -> Result<(), Failure> {
    if to <= from || to.duration_since(from) > LONGEST {
        return Err(Failure::invalid("The second moment must come after the first, by at most a month."));
    }
    Ok(())
}

/// Schedules in a calendar.
#[rpc(server, client, namespace = "butlerd", namespace_separator = ".")]
pub trait ScheduleWeekApi {
    /// The schedules of one butler or of all with their runs from one moment to another, at most a month, and the times to
    /// come until then; of each schedule at most 100. Scope `read`.
    #[method(name = "schedule_calendar", param_kind = map, with_extensions)]
    async fn schedule_calendar(
        &self,
        from: Timestamp,
        to: Timestamp,
        butler: Option<String>,
    ) -> Result<CalendarPage, Failure>;
}

/// What `schedule_calendar` answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CalendarPage {
    pub schedules: Vec<CalendarRow>,
    /// Butlers whose schedules can't be read just now.
    pub unavailable: Vec<Unavailable>,
}

/// A schedule with what stands in the calendar of it.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CalendarRow {
    #[serde(flatten)]
    pub schedule: ScheduleRow,
    /// The newest first, without what they cost.
    pub runs: Vec<RunRow>,
    pub coming: Vec<Timestamp>,
}

#[async_trait]
impl ScheduleWeekApiServer for Rpc {
    async fn schedule_calendar(
        &self,
        ext: &Extensions,
        from: Timestamp,
        to: Timestamp,
        butler: Option<String>,
    ) -> Result<CalendarPage, Failure> {
        let grant = may(ext, Need::Look)?;
        a_month(from, to)?;
        let (butlers, mut unavailable) = self.butlers(&grant, butler.as_deref()).await?;
        let mut schedules = Vec::new();
        for butler in butlers {
            match butler.schedules().calendar(&grant.tenant, from, to).await {
                Ok(found) => schedules.extend(typed::<Vec<CalendarRow>>(found.into())?),
                Err(e) => unavailable.push(Unavailable::new(&butler, &e)),
            }
        }
        Ok(CalendarPage { schedules, unavailable })
    }
}
