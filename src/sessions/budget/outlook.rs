//! What a session that starts now may use at most.

use std::sync::Arc;

use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;
use serde::{Deserialize, Serialize};

use super::sum::{Limit, Sum, most_of_a_call};
use super::{Account, Budgets};
use base::{Money, TenantId};
use config::ButlerConfig;
use store::StoreError;

/// One limit and what is left of it. Every amount is `null` where there is no such limit.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LimitLeft {
    /// `session`, `butler's day`, `tenant's day` or `strangers' day`.
    pub scope: String,
    pub limit_usd: Option<Money>,
    pub left_usd: Option<Money>,
    pub limit_tokens: Option<u64>,
    pub left_tokens: Option<u64>,
    /// When it starts anew, in the owner's time zone; `None` for a session's.
    pub starts_anew: Option<String>,
}

/// What a session may cost at most.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PriceBound {
    /// `null` is unknown.
    pub usd: Option<Money>,
    /// What the bound means, or why there is none.
    pub meaning: String,
}

impl Budgets {
    /// The limits of a tenant's day that there are, and what is left of each: of these butlers, of all together, and of what
    /// strangers start.
    pub async fn standing(
        &self,
        tenant: &TenantId,
        butlers: &[Arc<ButlerConfig>],
    ) -> Result<Vec<LimitLeft>, StoreError> {
        let (all, day) = (&*self.settings, self.ledger.today(tenant).await?);
        let next = || Some(day.next.clone());
        let mut found = Vec::new();
        for butler in butlers {
            let (own, _) = day.used(&butler.name);
            let usd = butler.budgets.day_usd.or(all.butler_day_usd);
            let tokens = butler.budgets.day_tokens.or(all.butler_day_tokens);
            found.extend(LimitLeft::of(butler.name.as_str(), Limit { usd, tokens }, own, next()));
        }
        let tenants = Limit { usd: all.tenant_day_usd, tokens: all.tenant_day_tokens };
        found.extend(LimitLeft::of("all butlers together", tenants, day.used_by_all(), next()));
        let strangers = Limit { usd: all.stranger_day_usd, tokens: all.stranger_day_tokens };
        found.extend(LimitLeft::of("what strangers start", strangers, day.used_by_strangers(), next()));
        Ok(found)
    }
}

impl LimitLeft {
    /// What is left of a limit; `None`: it is none.
    fn of(scope: &str, limit: Limit, used: Sum, starts_anew: Option<String>) -> Option<Self> {
        let left = limit.left(used);
        (limit != Limit::default()).then(|| Self {
            scope: scope.to_owned(),
            limit_usd: limit.usd,
            left_usd: left.usd,
            limit_tokens: limit.tokens,
            left_tokens: left.tokens,
            starts_anew,
        })
    }

    /// Which part of it is used, the nearer one of money and tokens: 1 is all.
    pub fn used_share(&self) -> Option<f64> {
        let money = self.limit_usd.zip(self.left_usd).and_then(|(limit, left)| {
            let (limit, left) = (limit.0.to_f64()?, left.0.to_f64()?);
            (limit > 0.0).then_some(1.0 - left / limit)
        });
        let tokens = self.limit_tokens.zip(self.left_tokens);
        let tokens = tokens.filter(|(limit, _)| *limit > 0).map(|(limit, left)| 1.0 - left as f64 / limit as f64);
        money.into_iter().chain(tokens).reduce(f64::max)
    }
}

impl Account {
    /// The limits that there are, and what is left of each.
    pub fn limits_left(&self) -> Vec<LimitLeft> {
        let (own, all) = self.share.day.used(&self.share.butler);
        let session = Limit { usd: self.limits.usd, tokens: self.limits.tokens };
        let day = Some(self.share.day.next.clone());
        let left = LimitLeft::of;
        [
            left("session", session, Sum::default(), None),
            left("butler's day", self.share.own, own, day.clone()),
            left("tenant's day", self.share.tenant, all, day.clone()),
            left("strangers' day", self.share.strangers.unwrap_or_default(), self.share.day.used_by_strangers(), day),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// What a session with this model may cost at most: all its turns with a full context and the longest answer, or
    /// the narrowest limit of money and the one call that may cross it, whichever is less.
    pub fn price_bound(&self, model: Option<&str>) -> PriceBound {
        let unknown = |why: String| PriceBound { usd: None, meaning: format!("unknown: {why}") };
        let Some(model) = model else { return unknown("no model is named".to_owned()) };
        let Some(price) = self.pricing.find(model) else {
            return unknown(format!("the price of {model} is not in the list"));
        };
        let Some(call) = most_of_a_call(price) else {
            return unknown(format!("the price list does not say how long a call of {model} may be"));
        };
        let turns = self.limits.turns.unwrap_or(u32::MAX);
        let all = Money((call.0.saturating_mul(Decimal::from(turns))).normalize());
        let money = self.limits_left().into_iter().filter_map(|l| Some((l.left_usd?, l.scope))).min();
        match money.map(|(left, scope)| (left + call, left, scope)).filter(|(bound, ..)| *bound < all) {
            Some((bound, left, scope)) => PriceBound {
                usd: Some(bound),
                meaning: format!(
                    "the {left} that are left of the {scope}, and the one model call that may cross them ({call})"
                ),
            },
            None => PriceBound {
                usd: Some(all),
                meaning: format!("{turns} model calls, each with a full context and the longest answer ({call})"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::ledger;
    use super::super::meter::{Limits, Share};
    use super::super::sum::money;
    use super::*;
    use base::ButlerName;
    use config::Pricing;

    fn account(session: Option<&str>, day: Option<&str>) -> Account {
        let butler = ButlerName::new("health").unwrap();
        let today = ledger::day("2026-03-01");
        today.add(&butler, Sum { tokens: 10, usd: money("0.25") }, false);
        Account {
            limits: Limits { turns: Some(10), tokens: None, usd: session.map(money) },
            tool_calls: 200,
            pricing: Arc::new(Pricing::default()),
            share: Share {
                day: Arc::new(today),
                butler,
                own: Limit { usd: day.map(money), tokens: None },
                tenant: Limit { usd: None, tokens: Some(1000) },
                strangers: None,
            },
        }
    }

    #[test]
    fn a_bound_is_the_turns_or_the_narrowest_limit() {
        let bound = |account: &Account| account.price_bound(Some("gpt-5"));
        let free = bound(&account(None, None));
        assert_eq!(free.usd, Some(money("16.2")));
        assert!(free.meaning.starts_with("10 model calls") && free.meaning.contains("($1.62)"), "{free:?}");
        let limited = bound(&account(Some("5"), Some("1")));
        assert_eq!(limited.usd, Some(money("2.37")), "0.75 that are left, and a call");
        assert!(limited.meaning.starts_with("the $0.75 that are left of the butler's day"), "{limited:?}");
        assert_eq!(bound(&account(Some("100"), None)).usd, free.usd, "the turns are less");
        for model in [None, Some("scripted-1"), Some("gpt-6.1-sol")] {
            let bound = account(None, None).price_bound(model);
            assert!(bound.usd.is_none() && bound.meaning.starts_with("unknown: "), "{bound:?}");
        }
    }

    #[test]
    fn only_limits_that_exist_are_listed() {
        let left = account(None, Some("0.20")).limits_left();
        let shown: Vec<_> = left.iter().map(|l| (l.scope.as_str(), l.left_usd, l.left_tokens)).collect();
        assert_eq!(shown, [("butler's day", Some(Money::ZERO), None), ("tenant's day", None, Some(990))]);
        assert_eq!(left[0].starts_anew.as_deref(), Some("2026-03-02 00:00 Europe/Berlin"));
    }
}
