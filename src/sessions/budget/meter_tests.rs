//! Sessions that use up what they may.

use super::super::ledger;
use super::super::sum::{money, tokens};
use super::*;

/// 2.50 dollars for a million tokens in, 15 out: a call of 3300 and 60 costs 0.00915.
const PRICED: &str = "gpt-5.4-2026-03-05";

fn usage(input: u64, output: u64) -> Usage {
    Usage { input: Some(input), output: Some(output), ..Usage::default() }
}

fn class<T>(verdict: Result<T, Failure>) -> Option<ErrorClass> {
    verdict.err().map(|over| over.class)
}

/// A session of `health` on this day, with these limits of the session, the butler and the tenant.
fn session(day: &Arc<Day>, session: Limit, own: Limit, tenant: Limit) -> Meter {
    let limits = Limits { turns: None, tokens: session.tokens, usd: session.usd };
    let share = Share { day: day.clone(), butler: ButlerName::new("health").unwrap(), own, tenant, strangers: None };
    Meter::of(limits, Arc::new(Pricing::default()), Some(share), Some(PRICED), 200)
}

fn dollars(text: &str) -> Limit {
    Limit { tokens: None, usd: Some(money(text)) }
}

const FREE: Limit = Limit { usd: None, tokens: None };

#[test]
fn the_call_after_the_last_is_refused() {
    let meter = Meter::new(Limits { turns: Some(2), tokens: Some(200), usd: None });
    meter.may_call().unwrap();
    meter.used("m", usage(60, 10), None);
    meter.may_call().unwrap();
    // It failed and is tried again: no turn was taken.
    meter.take_back(None);
    meter.may_call().unwrap();
    meter.used("m", usage(60, 10), None);
    assert_eq!(class(meter.may_call()), Some(ErrorClass::Turns));
    let spent = meter.spent();
    assert_eq!((spent.turns, spent.usage.input, spent.usage.cache_read), (2, Some(120), None));
    let few = Meter::new(Limits { turns: None, tokens: Some(70), usd: None });
    few.may_call().unwrap();
    few.used("m", usage(50, 10), None);
    few.unseen("m", usage(0, 0), Some(Sum { tokens: NO_BOUND, usd: Money::ZERO }));
    few.may_call().expect("nobody knows a bound, and what nobody said is not made up");
    few.unseen("m", usage(0, 10), Some(Sum { tokens: 20, usd: Money::ZERO }));
    assert_eq!(class(few.may_call()), Some(ErrorClass::Budget));
    assert!(few.stop_signal().why().is_none(), "whoever asks is told, and ends the session if need be");
}

#[test]
fn money_is_counted_by_model_and_unknown_where_one_price_is() {
    let meter = Meter::new(Limits::default());
    assert_eq!(meter.spent().cost_usd, Some(Money::ZERO), "no model was asked");
    meter.may_call().unwrap();
    assert_eq!(meter.spent().cost_usd, None, "nobody knows yet what this call costs");
    meter.take_back(None);
    assert_eq!(meter.spent().cost_usd, Some(Money::ZERO), "it reached no model");
    let broken_off = Meter::new(Limits::default());
    broken_off.may_call().unwrap();
    broken_off.uncounted(PRICED);
    broken_off.take_back(None);
    assert_eq!(broken_off.close(Usage::default(), None).cost_usd, None, "the model may have worked all the same");
    meter.used(PRICED, usage(3300, 60), None);
    assert_eq!(meter.spent().cost_usd, Some(money("0.00915")));
    meter.used("gpt-5-mini", usage(1000, 100), None);
    assert_eq!(meter.spent().cost_usd, Some(money("0.0096")));
    let bill = meter.bill();
    assert_eq!(bill.by_model.as_ref().unwrap()[0]["model"], "gpt-5-mini");
    assert_eq!(bill.by_model.as_ref().unwrap()[1]["usd"], "0.00915");
    meter.used("scripted-1", usage(1, 1), None);
    assert_eq!((meter.spent().cost_usd, meter.bill().cost_usd), (None, None));
    assert_eq!(meter.close(Usage::default(), None).cost_usd, None);
    let figure: Decimal = "0.02".parse().unwrap();
    let bill = meter.close(Usage::default(), Some(figure));
    assert_eq!((bill.cost_usd, bill.by_model), (Some(figure), None), "the program knew");
}

#[test]
fn the_price_list_wins_over_the_programs_own_figure() {
    let meter = Meter::new(Limits::default());
    meter.heard_model(PRICED);
    let bill = meter.close(usage(3300, 60), Some("9".parse().unwrap()));
    assert_eq!((bill.cost_usd, bill.turns), (Some(money("0.00915").0), None));
    assert_eq!(bill.usage, usage(3300, 60));
    let silent = Meter::new(Limits::default());
    silent.goes_past_gateway();
    let silent = silent.close(Usage::default(), Some("9".parse().unwrap()));
    assert_eq!(silent, Bill::default(), "a program that used nothing has no cost to tell");
}

#[test]
fn where_the_gateway_counts_the_program_does_not() {
    let meter = Meter::new(Limits { tokens: Some(100), ..Limits::default() });
    meter.may_call().unwrap();
    meter.used(PRICED, usage(50, 0), None);
    assert_eq!(meter.heard(usage(50, 0)), Ok(()));
    assert_eq!(meter.close(usage(50, 0), None).usage, usage(50, 0));
    let alone = Meter::new(Limits { tokens: Some(100), ..Limits::default() });
    assert_eq!(alone.heard(usage(50, 0)), Ok(()));
    assert_eq!(class(alone.heard(usage(50, 0))), Some(ErrorClass::Budget));
}

#[test]
fn a_limit_of_money_needs_prices() {
    let day = Arc::new(ledger::day("2026-03-01"));
    for (own, tenant, of_session) in
        [(dollars("1"), FREE, FREE), (FREE, dollars("1"), FREE), (FREE, FREE, dollars("1"))]
    {
        let meter = session(&day, of_session, own, tenant);
        meter.may_call().unwrap();
        meter.used(PRICED, Usage::default(), None);
        meter.may_call().expect("it broke off, and its price is known all the same");
        meter.has_price(Some(PRICED)).unwrap();
        let refused = meter.has_price(Some("scripted-1")).unwrap_err();
        meter.used("scripted-1", usage(1, 1), None);
        assert_eq!(meter.may_call(), Err(refused.clone()));
        assert!(refused.message.starts_with("the price of scripted-1 is unknown"), "{refused}");
    }
    let by_tokens = session(&day, FREE, tokens(1000), FREE);
    by_tokens.may_call().unwrap();
    by_tokens.has_price(Some("scripted-1")).unwrap();
    by_tokens.used("scripted-1", usage(1, 1), None);
    by_tokens.may_call().unwrap();
}

/// Begins a call that may come to so much, and does not wait for others.
async fn begin(meter: &Meter, most: Sum) -> Result<Sum, Failure> {
    meter.may_call()?;
    meter.reserve(most, Duration::ZERO).await.inspect_err(|_| meter.take_back(None))
}

fn most(tokens: u64) -> Sum {
    Sum { tokens, usd: money("0.02") }
}

#[tokio::test]
async fn a_day_is_shared_and_overshot_by_one_call_at_most_from_its_first_call_on() {
    // The limit, and which call of three sessions crosses it.
    for (limit, last) in [("0.001", 1), ("0.045", 5), ("0.0458", 6)] {
        let day = Arc::new(ledger::day("2026-03-01"));
        let sessions: Vec<Meter> = (0..3).map(|_| session(&day, FREE, dollars(limit), FREE)).collect();
        let mut made = 0;
        loop {
            let mut begun = Vec::new();
            for meter in &sessions {
                begun.extend(begin(meter, most(4000)).await.ok().map(|open| (meter, open)));
            }
            if begun.is_empty() {
                break;
            }
            made += begun.len();
            for (meter, open) in begun {
                meter.used(PRICED, usage(3300, 60), Some(open));
            }
        }
        assert_eq!(made, last, "{limit}");
        let over = sessions[0].may_call().unwrap_err();
        assert!(over.message.contains(&format!(" of ${limit} for 2026-03-01;")), "{over}");
    }
}

#[tokio::test]
async fn a_call_waits_for_what_others_reserved_and_goes_on_if_they_did_not_use_it() {
    // The limit of the session, whose calls may be side by side as well, and that of the day.
    for (own, day_limit) in [(FREE, tokens(100)), (tokens(100), FREE)] {
        for (used, goes_on) in [(60, true), (100, false)] {
            let day = Arc::new(ledger::day("2026-03-01"));
            let one = session(&day, own, day_limit, FREE);
            let other = if own == FREE { session(&day, own, day_limit, FREE) } else { one.clone() };
            let open = begin(&one, most(100)).await.unwrap();
            assert_eq!(class(begin(&other, most(1)).await), Some(ErrorClass::Overloaded), "not without end");
            let waits = other.reserve(most(1), Duration::from_secs(600));
            tokio::pin!(waits);
            tokio::select! {
                biased;
                begun = &mut waits => panic!("beside one that may take all: {begun:?}"),
                () = std::future::ready(()) => {}
            }
            one.used(PRICED, usage(used, 0), Some(open));
            assert_eq!(waits.await.is_ok(), goes_on, "{used}");
        }
    }
}

#[tokio::test]
async fn a_session_that_ends_gives_back_what_it_had_not_used() {
    let day = Arc::new(ledger::day("2026-03-01"));
    let one = session(&day, FREE, tokens(100), FREE);
    begin(&one, most(100)).await.unwrap();
    let closed = session(&day, FREE, tokens(100), FREE);
    assert_eq!(class(begin(&closed, most(1)).await), Some(ErrorClass::Overloaded));
    one.close(Usage::default(), None);
    begin(&closed, most(100)).await.unwrap();
    drop(closed);
    begin(&session(&day, FREE, tokens(100), FREE), most(1)).await.unwrap();
}
