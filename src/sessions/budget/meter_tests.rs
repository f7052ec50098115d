//! Sessions that use up what they may.

use super::super::ledger;
use super::*;

/// 2.50 dollars for a million tokens in, 15 out: a call of 3300 and 60 costs 0.00915.
const PRICED: &str = "gpt-5.4-2026-03-05";

fn usage(input: u64, output: u64) -> Usage {
    Usage { input: Some(input), output: Some(output), ..Usage::default() }
}

fn money(text: &str) -> Money {
    Money::parse(text).unwrap()
}

fn class(verdict: Result<(), Failure>) -> Option<ErrorClass> {
    verdict.err().map(|over| over.class)
}

/// A session of `health` on this day, with these limits of the session, the butler and the tenant.
fn session(day: &Arc<Day>, session: Limit, own: Limit, tenant: Limit) -> Meter {
    let limits = Limits { turns: None, tokens: session.tokens, usd: session.usd };
    let share = Share { day: day.clone(), butler: ButlerName::new("health").unwrap(), own, tenant, strangers: None };
    Meter::of(limits, Arc::new(Pricing::default()), Some(share), Some(PRICED), 200)
}

fn tokens(n: u64) -> Limit {
    Limit { tokens: Some(n), usd: None }
}

fn dollars(text: &str) -> Limit {
    Limit { tokens: None, usd: Some(money(text)) }
}

const FREE: Limit = Limit { usd: None, tokens: None };

#[test]
fn the_call_after_the_last_is_refused() {
    let meter = Meter::new(Limits { turns: Some(2), tokens: Some(200), usd: None });
    meter.may_call().unwrap();
    meter.used("m", usage(60, 10));
    meter.may_call().unwrap();
    // It failed and is tried again: no turn was taken.
    meter.take_back();
    meter.may_call().unwrap();
    meter.used("m", usage(60, 10));
    assert_eq!(class(meter.may_call()), Some(ErrorClass::Turns));
    let spent = meter.spent();
    assert_eq!((spent.turns, spent.usage.input, spent.usage.cache_read), (2, Some(120), None));
    let few = Meter::new(Limits { turns: None, tokens: Some(70), usd: None });
    few.may_call().unwrap();
    few.used("m", usage(60, 10));
    assert_eq!(class(few.may_call()), Some(ErrorClass::Budget));
    assert!(few.stop_signal().why().is_none(), "whoever asks is told, and ends the session if need be");
}

#[test]
fn money_is_counted_by_model_and_unknown_where_one_price_is() {
    let meter = Meter::new(Limits::default());
    assert_eq!(meter.spent().cost_usd, Some(Money::ZERO), "no model was asked");
    meter.may_call().unwrap();
    assert_eq!(meter.spent().cost_usd, None, "nobody knows yet what this call costs");
    meter.take_back();
    assert_eq!(meter.spent().cost_usd, Some(Money::ZERO), "it reached no model");
    let broken_off = Meter::new(Limits::default());
    broken_off.may_call().unwrap();
    broken_off.uncounted(PRICED);
    broken_off.take_back();
    assert_eq!(broken_off.close(Usage::default(), None).cost_usd, None, "the model may have worked all the same");
    meter.used(PRICED, usage(3300, 60));
    assert_eq!(meter.spent().cost_usd, Some(money("0.00915")));
    meter.used("gpt-5-mini", usage(1000, 100));
    assert_eq!(meter.spent().cost_usd, Some(money("0.0096")));
    let bill = meter.bill();
    assert_eq!(bill.by_model.as_ref().unwrap()[0]["model"], "gpt-5-mini");
    assert_eq!(bill.by_model.as_ref().unwrap()[1]["usd"], "0.00915");
    meter.used("scripted-1", usage(1, 1));
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
    meter.used(PRICED, usage(50, 0));
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
        meter.used("scripted-1", usage(1, 1));
        let over = meter.may_call().unwrap_err();
        assert!(over.message.starts_with("the price of scripted-1 is unknown"), "{over}");
    }
    let by_tokens = session(&day, FREE, tokens(1000), FREE);
    by_tokens.may_call().unwrap();
    by_tokens.used("scripted-1", usage(1, 1));
    by_tokens.may_call().unwrap();
}

#[test]
fn a_day_is_shared_and_overshot_by_one_call_at_most() {
    let day = Arc::new(ledger::day("2026-03-01"));
    // The fifth call crosses the limit.
    let sessions: Vec<Meter> = (0..3).map(|_| session(&day, FREE, dollars("0.045"), FREE)).collect();
    let mut made = 0;
    loop {
        let begun: Vec<&Meter> = sessions.iter().filter(|s| s.may_call().is_ok()).collect();
        if begun.is_empty() {
            break;
        }
        made += begun.len();
        for meter in begun {
            meter.used(PRICED, usage(3300, 60));
        }
    }
    assert_eq!(made, 5);
    let over = sessions[0].may_call().unwrap_err();
    assert!(over.message.contains("health has used $0.04575 of $0.045 for 2026-03-01"), "{over}");
    assert!(session(&day, FREE, dollars("0.06"), FREE).may_call().is_ok());
}

#[test]
fn a_session_that_ends_gives_back_what_it_had_not_used() {
    let day = Arc::new(ledger::day("2026-03-01"));
    let one = session(&day, FREE, tokens(100), FREE);
    one.may_call().unwrap();
    one.used(PRICED, usage(60, 0));
    one.may_call().unwrap();
    let other = session(&day, FREE, tokens(100), FREE);
    assert_eq!(class(other.may_call()), Some(ErrorClass::Budget), "one's call may take the rest");
    let closed = session(&day, FREE, tokens(100), FREE);
    one.close(Usage::default(), None);
    closed.may_call().unwrap();
    drop(closed);
    session(&day, FREE, tokens(100), FREE).may_call().unwrap();
}
