//! The household as a whole.

use admin::Failure;
use admin::calls::HouseApiServer;
use butler::HouseholdStatus;
use config::EffectiveSetting;
use schemars::JsonSchema;
use serde::Deserialize;
use sessions::budget::{By, Costs, LimitLeft};

use crate::endpoint::{Endpoint, get};
use crate::input::Nothing;
use crate::list::Page;
use crate::visit::Visit;
use admin::Need;

pub(super) fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/status", "getStatus", "The household: database, butlers, modules", |v, p| Box::pin(status(v, p))),
        get("/costs", "getCosts", "What was spent, and what this month will come to", |v, p| Box::pin(costs(v, p))),
        get("/budgets", "listBudgets", "The limits of this day, and what is left of each", |v, p| {
            Box::pin(budgets(v, p))
        }),
        get(
            "/settings",
            "listSettings",
            "Every setting with its value, its default and where it comes from",
            |v, p| Box::pin(settings(v, p)),
        )
        .needs(Need::Household),
    ]
}

async fn status(visit: &Visit, _: Nothing) -> Result<HouseholdStatus, Failure> {
    visit.calls.status(&visit.ext).await
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

async fn budgets(visit: &Visit, _: Nothing) -> Result<Page<LimitLeft>, Failure> {
    Ok(visit.whole(visit.calls.budgets(&visit.ext).await?))
}

async fn settings(visit: &Visit, _: Nothing) -> Result<Page<EffectiveSetting>, Failure> {
    Ok(visit.whole(visit.calls.settings(&visit.ext).await?))
}
