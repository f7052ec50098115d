//! Money and tokens: what a session may use, what it has used, and what a day has.
//!
//! A session is checked against its butler's and its tenant's day before it starts, and by its [`Meter`] before each of
//! its model calls. What never happens here: a cost that is made up, and a limit that a restart forgets.

mod costs;
mod ledger;
mod meter;
mod outlook;
mod sql;
mod sum;
mod watch;

use std::sync::Arc;

pub use costs::{By, Cost, Costs, Month, Period};
pub use ledger::Ledger;
pub use meter::{Bill, Limits, Meter, Spent};
pub use outlook::{LimitLeft, PriceBound};
pub(crate) use sql::{MODELS, SCHEMAS, SCHEMAS_OF_MODEL};
pub use sum::{Limit, Sum};
pub use watch::Watch;

use base::RequestContext;
use config::{BudgetsConfig, ButlerConfig, Pricing};
use llm_api::Failure;
use meter::Share;
use store::StoreError;

/// The household's prices, limits and days. Cheap to clone.
#[derive(Clone)]
pub struct Budgets {
    pricing: Arc<Pricing>,
    /// Prices for model servers on the owner's own network.
    local_pricing: Arc<Pricing>,
    settings: Arc<BudgetsConfig>,
    ledger: Ledger,
}

impl Budgets {
    pub fn new(pricing: Pricing, settings: BudgetsConfig, ledger: Ledger) -> Self {
        let local_pricing = Arc::new(pricing.own_entries());
        Self { pricing: Arc::new(pricing), local_pricing, settings: Arc::new(settings), ledger }
    }

    /// The household's days.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Today's account of a butler for a session that begins under this request. `strangers`: their limits hold too.
    /// `local`: its model server is on the owner's own network.
    pub async fn account(
        &self,
        butler: &ButlerConfig,
        request: &RequestContext,
        strangers: bool,
        local: bool,
    ) -> Result<Account, StoreError> {
        let (own, all) = (&butler.budgets, &*self.settings);
        let of_strangers = Limit { usd: all.stranger_day_usd, tokens: all.stranger_day_tokens };
        Ok(Account {
            limits: Limits {
                turns: Some(butler.sessions.max_turns),
                tokens: own.session_tokens.or(all.session_tokens),
                usd: own.session_usd.or(all.session_usd),
            },
            tool_calls: butler.sessions.max_tool_calls,
            pricing: if local { self.local_pricing.clone() } else { self.pricing.clone() },
            share: Share {
                day: self.ledger.today(&request.tenant_id).await?,
                butler: butler.name.clone(),
                own: Limit {
                    usd: own.day_usd.or(all.butler_day_usd),
                    tokens: own.day_tokens.or(all.butler_day_tokens),
                },
                tenant: Limit { usd: all.tenant_day_usd, tokens: all.tenant_day_tokens },
                strangers: strangers.then_some(of_strangers),
            },
        })
    }
}

/// What one butler may still use today for one tenant.
#[derive(Clone, Debug)]
pub struct Account {
    limits: Limits,
    tool_calls: u32,
    pricing: Arc<Pricing>,
    share: Share,
}

impl Account {
    /// The same account for a session that may use no more than these limits, and no more than its butler's.
    #[must_use]
    pub fn within(self, narrower: Limits) -> Self {
        Self { limits: self.limits.least(narrower), ..self }
    }

    /// Whether a session may start with this model.
    pub fn check(&self, model: Option<&str>) -> Result<(), Failure> {
        self.share.check().map_err(meter::over_budget)?;
        self.meter(model).has_price(model)
    }

    /// The meter of a session that starts now with this model.
    pub fn meter(&self, model: Option<&str>) -> Meter {
        Meter::of(self.limits, self.pricing.clone(), Some(self.share.clone()), model, self.tool_calls)
    }
}
