//! What was used, what may be used, and what a call costs.

use rust_decimal::Decimal;

use base::Money;
use config::ModelPrice;
use llm_api::Usage;

/// What was used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sum {
    /// Of all kinds together.
    pub tokens: u64,
    /// Of the calls whose price is known.
    pub usd: Money,
}

impl Sum {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { tokens: self.tokens.saturating_add(other.tokens), usd: self.usd + other.usd }
    }

    /// Without `other`; never less than nothing.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self { tokens: self.tokens.saturating_sub(other.tokens), usd: self.usd.less(other.usd) }
    }

    /// The larger of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self { tokens: self.tokens.max(other.tokens), usd: self.usd.max(other.usd) }
    }
}

/// What may be used, in money and in tokens of all kinds together. `None` is no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limit {
    pub usd: Option<Money>,
    pub tokens: Option<u64>,
}

impl Limit {
    /// Which part of it `sum` has reached: `$5.02 of $5.00`, `1200 of 1000 tokens`.
    pub fn reached(self, sum: Sum) -> Option<String> {
        if let Some(most) = self.usd.filter(|most| sum.usd >= *most) {
            return Some(format!("{} of {most}", sum.usd));
        }
        self.tokens.filter(|most| sum.tokens >= *most).map(|most| format!("{} of {most} tokens", sum.tokens))
    }

    /// What is left of it.
    pub fn left(self, sum: Sum) -> Self {
        Self {
            usd: self.usd.map(|most| most.less(sum.usd)),
            tokens: self.tokens.map(|most| most.saturating_sub(sum.tokens)),
        }
    }
}

/// What one model call cost. `None` is unknown: nobody said how many tokens went in or came out, or there were tokens of
/// a kind that has no price.
pub fn cost(price: &ModelPrice, usage: Usage) -> Option<Money> {
    let (input, output) = (usage.input?, usage.output?);
    let (read, written) = (usage.cache_read.unwrap_or(0), usage.cache_write.unwrap_or(0));
    let rates = price.rates(input.saturating_add(read).saturating_add(written));
    let part = |tokens: u64, rate: Option<Money>| match tokens {
        0 => Some(Decimal::ZERO),
        _ => Decimal::from(tokens).checked_mul(rate?.0),
    };
    let parts = [
        part(input, Some(rates.input))?,
        part(output, Some(rates.output))?,
        part(read, rates.cache_read)?,
        part(written, rates.cache_write)?,
    ];
    let total = parts.into_iter().try_fold(Decimal::ZERO, Decimal::checked_add)?;
    // A million tokens, as a multiplication: exact.
    total.checked_mul(Decimal::new(1, 6)).map(Money)
}

/// What one call of this model costs at most: its context full, and its answer as long as it may be. `None` is unknown.
pub fn most_of_a_call(price: &ModelPrice) -> Option<Money> {
    let (context, output) = (price.context?, price.max_output?);
    dearest(price, context.saturating_sub(output), output)
}

/// As many tokens as an answer has at most where nobody knows. Sums of a few of these are exact still, so that each can
/// be taken back.
pub const NO_BOUND: u64 = 1 << 50;

/// What a call comes to at most whose request has so many bytes: a token has at least one. `answer`: how many tokens its
/// answer may have, as the request says; else the price list says it. Where nobody does, it is more than any limit.
pub fn at_most(price: Option<&ModelPrice>, request: usize, answer: Option<u64>) -> Sum {
    // Not bounded by the model's context, which some features of a vendor's make larger than the list has it.
    let prompt = u64::try_from(request).unwrap_or(u64::MAX);
    let beyond = Money(Decimal::from(1_000_000_000));
    let answer = answer.or_else(|| price?.max_output).unwrap_or(NO_BOUND).min(NO_BOUND);
    // A call without a price counts for no limit of money.
    let usd = price.map_or(Money::ZERO, |price| dearest(price, prompt, answer).unwrap_or(beyond).min(beyond));
    Sum { tokens: prompt.saturating_add(answer), usd }
}

/// What so many tokens cost, however many of the prompt are cached. `None`: more than can be said.
pub fn dearest(price: &ModelPrice, prompt: u64, answer: u64) -> Option<Money> {
    let rates = price.rates(prompt.saturating_add(answer));
    let input = [Some(rates.input), rates.cache_read, rates.cache_write].into_iter().flatten().max()?;
    let of = |tokens: u64, rate: Money| Decimal::from(tokens).checked_mul(rate.0);
    of(prompt, input)?.checked_add(of(answer, rates.output)?)?.checked_mul(Decimal::new(1, 6)).map(Money)
}

#[cfg(test)]
pub(super) fn money(text: &str) -> Money {
    Money::parse(text).expect("an amount")
}

#[cfg(test)]
pub(super) fn tokens(n: u64) -> Limit {
    Limit { tokens: Some(n), usd: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::Pricing;

    fn usage(input: u64, output: u64, read: Option<u64>, written: Option<u64>) -> Usage {
        Usage { input: Some(input), output: Some(output), cache_read: read, cache_write: written }
    }

    #[test]
    fn a_call_costs_its_tokens_to_the_last_digit() {
        let list = Pricing::default();
        // 5, 30, 0.50 and 6.25 a million.
        let sol = list.find("gpt-5.6-sol").unwrap();
        for (usage, dollars) in [
            (usage(3300, 60, None, None), "0.0183"),
            (usage(1, 0, None, None), "0.000005"),
            (usage(1400, 47, Some(1900), Some(3)), "0.00937875"),
            (usage(0, 0, None, None), "0"),
            // Past 272,000 tokens of prompt everything costs more, and what came from a cache is prompt as well.
            (usage(1, 1, Some(272_000), None), "0.272055"),
        ] {
            assert_eq!(cost(sol, usage), Some(money(dollars)), "{usage:?}");
        }
    }

    #[test]
    fn what_nobody_said_or_priced_is_unknown_and_not_0() {
        let list = Pricing::default();
        let gpt = list.find("gpt-5").unwrap();
        assert_eq!(cost(gpt, Usage::default()), None);
        assert_eq!(cost(gpt, Usage { input: Some(5), ..Usage::default() }), None);
        assert_eq!(cost(gpt, usage(1, 1, None, Some(1))), None, "it has no price for writing to a cache");
        assert_eq!(cost(gpt, usage(1_000_000, 0, None, Some(0))), Some(money("1.25")));
        assert_eq!(most_of_a_call(list.find("gpt-6.1-sol").unwrap()), None);
        // 272,000 tokens read, 128,000 written.
        assert_eq!(most_of_a_call(gpt), Some(money("1.62")));
        let most = |request, answer| at_most(Some(gpt), request, answer);
        assert_eq!(most(1000, Some(100)), Sum { tokens: 1100, usd: money("0.00225") });
        assert_eq!(most(9_000_000, None), Sum { tokens: 9_128_000, usd: money("12.53") }, "its longest answer");
        assert_eq!(at_most(None, 1000, Some(100)), Sum { tokens: 1100, usd: Money::ZERO });
        assert!(at_most(None, 0, None).tokens > 1_000_000_000_000, "more than any limit");
    }

    #[test]
    fn a_limit_says_what_reached_it() {
        let limit = Limit { usd: Some(money("5")), tokens: Some(1000) };
        let sum = |tokens, usd| Sum { tokens, usd: money(usd) };
        assert_eq!(limit.reached(sum(999, "4.99")), None);
        assert_eq!(limit.reached(sum(0, "5")).as_deref(), Some("$5.00 of $5.00"));
        assert_eq!(limit.reached(sum(1200, "0")).as_deref(), Some("1200 of 1000 tokens"));
        assert_eq!(Limit::default().reached(sum(u64::MAX, "1000000")), None);
        assert_eq!(limit.left(sum(1200, "1.5")), Limit { usd: Some(money("3.5")), tokens: Some(0) });
    }
}
