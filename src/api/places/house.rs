//! The household as a whole.

use std::collections::BTreeMap;

use admin::calls::HouseApiServer;
use admin::{Failure, Need};
use butler::{BackupStatus, ButlerStatus, DatabaseStatus, HouseholdStatus, Trouble};
use config::EffectiveSetting;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sessions::budget::{By, Costs, LimitLeft};

use crate::endpoint::{Endpoint, get};
use crate::input::Nothing;
use crate::list::Page;
use crate::visit::Visit;

pub(super) fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/status", "getStatus", "The household: database, butlers, modules", status),
        get("/costs", "getCosts", "What was spent, and what this month will come to", costs),
        get("/budgets", "listBudgets", "The limits of this day, and what is left of each", budgets),
        get("/settings", "listSettings", "Every setting with its value, its default and where it comes from", settings)
            .needs(Need::Household),
    ]
}

/// The household. How long it is up follows from `started_at`, and is left out: else no two answers were the same.
#[derive(Serialize, JsonSchema)]
struct Household {
    version: String,
    pid: u32,
    started_at: Timestamp,
    /// The core butlers are up, and nothing of the machine fails that they need.
    ready: bool,
    /// Why it is not ready.
    troubles: Vec<Trouble>,
    /// Where the admin port is.
    admin: String,
    /// Lines of the log that could not be written since the start.
    log_lines_lost: u64,
    /// Backups that the daemon makes by itself; null: it makes none.
    backup: Option<BackupStatus>,
    /// How many deliveries wait for each channel that the household does not have.
    without_channel: BTreeMap<String, u64>,
    database: DatabaseStatus,
    butlers: Vec<ButlerStatus>,
}

impl From<HouseholdStatus> for Household {
    fn from(status: HouseholdStatus) -> Self {
        Self {
            version: status.version,
            pid: status.pid,
            started_at: status.started_at,
            ready: status.ready,
            troubles: status.troubles,
            admin: status.admin,
            log_lines_lost: status.log_lines_lost,
            backup: status.backup,
            without_channel: status.without_channel,
            database: status.database,
            butlers: status.butlers,
        }
    }
}

async fn status(visit: &Visit, _: Nothing) -> Result<Household, Failure> {
    Ok(visit.calls.status(&visit.ext).await?.into())
}

/// Of which days, and by what.
#[derive(Deserialize, JsonSchema)]
struct CostsWanted {
    /// So many days, today included; without it since the first of this month.
    #[schemars(range(min = 1, max = 366))]
    days: Option<u32>,
    /// What the rows stand for; `butler`, if it is not given.
    by: Option<By>,
}

async fn costs(visit: &Visit, wanted: CostsWanted) -> Result<Costs, Failure> {
    visit.calls.costs(&visit.ext, wanted.days, wanted.by.unwrap_or_default()).await
}

lists! {
    budgets(_: Nothing) -> LimitLeft = budgets();
    settings(_: Nothing) -> EffectiveSetting = settings();
}
