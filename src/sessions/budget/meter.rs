//! The meter of one session: counts what its model calls use, and says when it is enough.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rust_decimal::Decimal;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::ledger::{Day, DayLimits, Reached};
use super::sum::{Limit, NO_BOUND, Sum, at_most, cost, dearest};
use crate::stop_signal::StopSignal;
use access::CallGuard;
use base::{ButlerName, Money};
use config::Pricing;
use llm_api::{ErrorClass, Failure, Usage};

/// What one session may use at most. `None` is no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    /// Model calls.
    pub turns: Option<u32>,
    /// Tokens of all kinds together.
    pub tokens: Option<u64>,
    /// What its model calls cost.
    pub usd: Option<Money>,
}

impl Limits {
    /// Of each limit the lower one.
    #[must_use]
    pub fn least(self, other: Self) -> Self {
        fn lower<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
            a.into_iter().chain(b).min()
        }
        Self {
            turns: lower(self.turns, other.turns),
            tokens: lower(self.tokens, other.tokens),
            usd: lower(self.usd, other.usd),
        }
    }
}

/// What one session has used so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spent {
    /// Model calls that were begun and not taken back.
    pub turns: u32,
    /// Of the calls that said so.
    pub usage: Usage,
    /// By the price list. `None` is unknown: no call yet, or one whose cost is unknown.
    pub cost_usd: Option<Money>,
}

/// A limit of money or tokens that is reached.
pub(super) fn over_budget(message: String) -> Failure {
    Failure::new(ErrorClass::Budget, message)
}

/// What a session's row tells of what it used.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Bill {
    pub usage: Usage,
    /// US dollars; `None` is unknown.
    pub cost_usd: Option<Decimal>,
    /// Model calls; `None` where nobody counted them.
    pub turns: Option<u32>,
    /// `[{"model": …, "usd": "0.01" or null, "known_usd": "0.01", "input_tokens": …, …}]`, where `usd` is null unless the cost
    /// of each call is known; `None` where nothing is known by model.
    pub by_model: Option<Value>,
}

/// The day in which a session counts, and what its butler and its tenant may use there.
#[derive(Clone, Debug)]
pub(super) struct Share {
    pub day: Arc<Day>,
    pub butler: ButlerName,
    pub own: Limit,
    pub tenant: Limit,
    /// Of a session that a stranger's message started: what all of these together may use.
    pub strangers: Option<Limit>,
}

impl Share {
    /// Whether a limit of the day is reached.
    pub fn check(&self) -> Result<(), Reached> {
        self.day.check(&self.butler, self.limits())
    }

    /// Whether money is limited.
    pub fn limits_money(&self) -> bool {
        let limits = [Some(self.own), Some(self.tenant), self.strangers];
        limits.into_iter().flatten().any(|limit| limit.usd.is_some())
    }

    fn limits(&self) -> DayLimits {
        DayLimits { own: self.own, tenant: self.tenant, strangers: self.strangers }
    }

    fn begin(&self, most: Option<Sum>) -> Result<Sum, Reached> {
        self.day.begin(&self.butler, self.limits(), most)
    }

    fn give_back(&self, open: Sum) {
        self.day.give_back(&self.butler, open, self.strangers.is_some());
    }

    fn add(&self, sum: Sum) {
        self.day.add(&self.butler, sum, self.strangers.is_some());
    }
}

/// Counts for one session. Cheap to clone; all clones count together.
///
/// Where sessions reach their models through the gateway, it asks [`Meter::may_call`] before each call, has what the call
/// may come to [reserved](Meter::reserve) before it sends it, and says [`Meter::used`] or [`Meter::take_back`] after it,
/// and [`Meter::uncounted`] and [`Meter::unseen`] where the model may have worked on a call whose end nobody saw.
/// Elsewhere [`Meter::heard`] is told what the program says itself; once the gateway has asked, that counts no more.
#[derive(Clone, Debug)]
pub struct Meter {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    limits: Limits,
    pricing: Arc<Pricing>,
    share: Option<Share>,
    calls: Arc<CallGuard>,
    stop_signal: StopSignal,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    turns: u32,
    usage: Usage,
    sum: Sum,
    models: BTreeMap<String, OfModel>,
    /// What each call under way has reserved in its day until it says what it used.
    open: Vec<Sum>,
    /// The model that the program's own words are about.
    model: String,
    /// Whether the gateway counts.
    gateway: bool,
    /// Whether models are used past the gateway, so that nobody may count their tokens.
    past_gateway: bool,
}

/// What one model was used for.
#[derive(Clone, Copy, Debug, Default)]
struct OfModel {
    usage: Usage,
    /// Of the calls whose cost is known.
    known: Money,
    /// Whether the cost of a call is unknown.
    unknown: bool,
    /// Whether a call did not say all that it used.
    uncounted: bool,
}

impl OfModel {
    /// `None` is unknown: it is so as soon as one call's cost is.
    fn usd(&self) -> Option<Money> {
        (!self.unknown && !self.uncounted).then_some(self.known)
    }
}

impl Meter {
    /// A meter that knows its session alone: no prices, no day.
    pub fn new(limits: Limits) -> Self {
        Self::of(limits, Arc::new(Pricing::default()), None, None, u32::MAX)
    }

    /// `model`: the one that the session is started with. `tool_calls`: how many it may make.
    pub(super) fn of(
        limits: Limits,
        pricing: Arc<Pricing>,
        share: Option<Share>,
        model: Option<&str>,
        tool_calls: u32,
    ) -> Self {
        let stop_signal = StopSignal::default();
        let stop = stop_signal.clone();
        let calls = Arc::new(CallGuard::new(tool_calls, move |why| stop.stop(Failure::new(ErrorClass::Runaway, why))));
        let state = State { model: model.unwrap_or_default().to_owned(), ..State::default() };
        let (state, changed) = (Mutex::new(state), Notify::new());
        let inner = Inner { limits, pricing, share, calls, stop_signal, state, changed };
        Self { inner: Arc::new(inner) }
    }

    /// From here on tokens may be used that nobody counts, so that a cost of nothing can't be claimed any more.
    pub fn goes_past_gateway(&self) {
        self.lock().past_gateway = true;
    }

    /// A call of this model ended without saying all that it used: what the session cost is unknown from here on, however
    /// much its other calls did.
    pub fn uncounted(&self, model: &str) {
        self.lock().of(model).uncounted = true;
    }

    /// An answer had begun, and what it used was not told to its end: before it counts by what it said, its limits count
    /// as much as it had reserved beyond that, unless nobody knew a bound.
    pub fn unseen(&self, model: &str, said: Usage, open: Option<Sum>) {
        let Some(open) = open.filter(|open| open.tokens < NO_BOUND) else { return };
        let usd = self.inner.pricing.find(model).and_then(|price| cost(price, said)).unwrap_or_default();
        self.add(&mut self.lock(), open.minus(Sum { tokens: said.total(), usd }));
    }

    /// Whether one more model call may be asked for; if so, it is counted as a turn.
    pub fn may_call(&self) -> Result<(), Failure> {
        let mut state = self.lock();
        state.gateway = true;
        self.inner.judge(&state)?;
        state.turns += 1;
        Ok(())
    }

    /// Whether a call of this model may be sent as far as its price goes: without one, no limit of money can be held.
    pub fn has_price(&self, model: Option<&str>) -> Result<(), Failure> {
        self.inner.has_price(model)
    }

    /// What a call comes to at most whose request has so many bytes and lets its answer have so many tokens.
    pub fn at_most(&self, model: Option<&str>, request: usize, answer: Option<u64>) -> Sum {
        at_most(model.and_then(|model| self.inner.pricing.find(model)), request, answer)
    }

    /// Reserves this for a call that goes to its model now; the answer is what to give back. Waits while calls under way
    /// have reserved the rest of a limit, but no longer than `patience`. `Err`: it must not go on; where only those calls
    /// stand in its way, it is [`ErrorClass::Overloaded`].
    pub async fn reserve(&self, most: Sum, patience: Duration) -> Result<Sum, Failure> {
        let until = Instant::now() + patience;
        let Some(share) = &self.inner.share else { return Ok(most) };
        loop {
            let given_back = share.day.given_back();
            let held = {
                let mut state = self.lock();
                self.inner.over(&state)?;
                let open = state.open.iter().fold(state.sum, |sum, open| sum.plus(*open));
                let own = self.inner.own().reached(open).map(|what| own_limit(&what));
                match own.map_or_else(|| share.begin(Some(most)), Err) {
                    Ok(open) => {
                        state.open.push(open);
                        return Ok(open);
                    }
                    Err(held) => held,
                }
            };
            if timeout_at(until, given_back).await.is_err() {
                let why = format!("model calls under way hold the rest of a limit, try again later: {held}");
                return Err(Failure::new(ErrorClass::Overloaded, why));
            }
        }
    }

    /// A call that was let through got no answer of the model: it is no turn, and its client may try again. `open`: what it
    /// had reserved, if it came so far.
    pub fn take_back(&self, open: Option<Sum>) {
        let mut state = self.lock();
        state.turns = state.turns.saturating_sub(1);
        self.give_back(&mut state, open);
    }

    /// A model call ended and used this much of this model. `open`: what it had reserved.
    pub fn used(&self, model: &str, usage: Usage, open: Option<Sum>) {
        let mut state = self.lock();
        self.count(&mut state, model, usage);
        self.give_back(&mut state, open);
        drop(state);
        self.inner.changed.notify_one();
    }

    /// Which model the program's own words are about from now on.
    pub fn heard_model(&self, model: &str) {
        model.clone_into(&mut self.lock().model);
    }

    /// What the program itself tells of a call that ended. `Err`: it must not begin another.
    pub fn heard(&self, usage: Usage) -> Result<(), Failure> {
        let mut state = self.lock();
        if state.gateway {
            return Ok(());
        }
        let (model, open) = (state.model.clone(), state.open.last().copied());
        self.count(&mut state, &model, usage);
        self.give_back(&mut state, open);
        state.turns += 1;
        let verdict = self.begin(&mut state);
        drop(state);
        self.inner.changed.notify_one();
        verdict
    }

    /// What was used so far.
    pub fn spent(&self) -> Spent {
        let state = self.lock();
        Spent { turns: state.turns, usage: state.usage, cost_usd: state.cost() }
    }

    /// What the row tells at this moment.
    pub fn bill(&self) -> Bill {
        self.lock().bill()
    }

    /// Waits until there is something new to put into the row.
    pub async fn changed(&self) {
        self.inner.changed.notified().await;
    }

    /// Ends the session's run from outside.
    pub fn stop_signal(&self) -> &StopSignal {
        &self.inner.stop_signal
    }

    /// Counts the session's tool calls.
    pub fn calls(&self) -> &Arc<CallGuard> {
        &self.inner.calls
    }

    /// The session is over: the last word on what it used.
    ///
    /// The one rule for a session's cost, whatever its runtime: the price list times the tokens of each call, by model. Only
    /// where the list does not know one of them stands what the program computed itself (`figure`), if it did; else the
    /// cost is unknown. `told` is what the program says it used in all, and counts where nobody counted call by call.
    pub fn close(&self, told: Usage, figure: Option<Decimal>) -> Bill {
        let mut state = self.lock();
        if state.models.is_empty() && told != Usage::default() {
            let model = state.model.clone();
            self.count(&mut state, &model, told);
        }
        while let Some(open) = state.open.last().copied() {
            self.give_back(&mut state, Some(open));
        }
        let mut bill = state.bill();
        // The program knows no more than the gateway of a call that broke off.
        let counted = !state.models.is_empty() && state.models.values().all(|of| !of.uncounted);
        if let (None, Some(figure)) = (bill.cost_usd, figure.filter(|_| counted)) {
            // What is not in the day yet.
            let more = Money(figure).less(state.sum.usd);
            self.add(&mut state, Sum { tokens: 0, usd: more });
            bill.cost_usd = Some(figure);
            bill.by_model = None;
        }
        bill
    }

    fn count(&self, state: &mut State, model: &str, usage: Usage) {
        state.usage = state.usage.plus(usage);
        let price = self.inner.pricing.find(model);
        let usd = price.and_then(|price| cost(price, usage));
        let of = state.of(model);
        of.usage = of.usage.plus(usage);
        of.known += usd.unwrap_or_default();
        of.unknown |= usd.is_none();
        // Of a price that does not know all kinds of tokens, limits count the dearest that it knows.
        let prompt = Usage { output: None, ..usage }.total();
        let usd = usd.or_else(|| dearest(price?, prompt, usage.output.unwrap_or(0)));
        self.add(state, Sum { tokens: usage.total(), usd: usd.unwrap_or_default() });
    }

    fn add(&self, state: &mut State, sum: Sum) {
        state.sum = state.sum.plus(sum);
        if let Some(share) = &self.inner.share {
            share.add(sum);
        }
    }

    /// One call is under way no more, unless the session's end has given back what it had reserved.
    fn give_back(&self, state: &mut State, open: Option<Sum>) {
        let at = open.and_then(|open| state.open.iter().position(|other| *other == open));
        if let (Some(at), Some(share)) = (at, &self.inner.share) {
            share.give_back(state.open.swap_remove(at));
        }
    }

    /// Whether the next call may begin of a program that nobody can keep waiting; if so it is under way.
    fn begin(&self, state: &mut State) -> Result<(), Failure> {
        self.inner.judge(state)?;
        if let Some(share) = &self.inner.share {
            state.open.push(share.begin(None).map_err(over_budget)?);
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Inner {
    /// The session's own limits of money and tokens.
    fn own(&self) -> Limit {
        Limit { usd: self.limits.usd, tokens: self.limits.tokens }
    }

    fn has_price(&self, model: Option<&str>) -> Result<(), Failure> {
        let limited = || self.limits.usd.is_some() || self.share.as_ref().is_some_and(Share::limits_money);
        match model.and_then(|model| self.pricing.find(model)) {
            None if limited() => Err(over_budget(unknown_price(model))),
            _ => Ok(()),
        }
    }

    /// Whether a limit is reached, that of turns among them.
    fn judge(&self, state: &State) -> Result<(), Failure> {
        if let Some(most) = self.limits.turns.filter(|most| state.turns >= *most) {
            let message = format!("the session made its {most} model calls; [butler.runtime] max_turns allows more");
            return Err(Failure::new(ErrorClass::Turns, message));
        }
        self.over(state)
    }

    /// Whether a limit of money or tokens is reached by what was used.
    fn over(&self, state: &State) -> Result<(), Failure> {
        if let Some(what) = self.own().reached(state.sum) {
            return Err(over_budget(own_limit(&what)));
        }
        state.models.keys().try_for_each(|model| self.has_price(Some(model)))?;
        self.share.as_ref().map_or(Ok(()), Share::check).map_err(over_budget)
    }
}

/// Which part of its own limit a session used.
fn own_limit(what: &str) -> String {
    format!("the session used {what}; [spawner.budgets] and [butler.budgets] hold the limits of a session")
}

/// A session whose task panicked has no last word; its call is under way no more all the same.
impl Drop for Inner {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(|e| e.into_inner());
        if let Some(share) = &self.share {
            state.open.drain(..).for_each(|open| share.give_back(open));
        }
    }
}

/// Why a limit of money can't be held.
fn unknown_price(model: Option<&str>) -> String {
    let (which, how) = match model.filter(|m| !m.is_empty()) {
        Some(model) => {
            (format!("the price of {model} is unknown"), "give its price in pricing.toml beside butlerd.toml")
        }
        None => ("no model is named, so its price is unknown".to_owned(), "set [butler.runtime] model"),
    };
    format!("{which}, and a limit of money can't be held without it; {how}, or limit tokens instead")
}

impl State {
    fn of(&mut self, model: &str) -> &mut OfModel {
        self.models.entry(model.to_owned()).or_default()
    }

    /// What the calls cost so far, in US dollars; `None` is unknown. It is 0 where surely no model was used.
    fn cost(&self) -> Option<Money> {
        if self.models.is_empty() && (self.past_gateway || self.turns > 0) {
            return None;
        }
        self.models.values().try_fold(Money::ZERO, |sum, of| Some(sum + of.usd()?))
    }

    fn bill(&self) -> Bill {
        let models = self.models.iter().map(|(model, of)| {
            let Usage { input, output, cache_read, cache_write } = of.usage;
            json!({"model": Some(model).filter(|m| !m.is_empty()), "usd": of.usd(), "known_usd": of.known,
                   "input_tokens": input, "output_tokens": output, "cached_input_tokens": cache_read,
                   "cache_creation_tokens": cache_write})
        });
        Bill {
            usage: self.usage,
            cost_usd: self.cost().map(|usd| usd.0),
            turns: Some(self.turns).filter(|_| self.gateway),
            by_model: (!self.models.is_empty()).then(|| models.collect()),
        }
    }
}

#[cfg(test)]
#[path = "meter_tests.rs"]
mod tests;
