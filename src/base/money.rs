//! US dollars, exact.

use std::fmt;
use std::ops::{Add, AddAssign};

use rust_decimal::Decimal;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// An amount of US dollars, exact; never negative where it was read from a text.
///
/// Serialized as the plain decimal (`"0.0108"`), displayed for people (`$0.0108`, `$5.00`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, JsonSchema)]
#[schemars(with = "String", title = "US dollars", extend("type" = ["string", "number"], "format" = "money"))]
pub struct Money(pub Decimal);

/// Nobody's budget; the product of a price and any number of tokens still fits far above it.
const MOST: Decimal = Decimal::from_parts(1_000_000_000, 0, 0, false, 0);

impl Money {
    pub const ZERO: Self = Self(Decimal::ZERO);

    /// Reads `5`, `0.25` or `$5`; `None` for anything else, negative or above a billion.
    pub fn parse(text: &str) -> Option<Self> {
        let plain = text.trim();
        let amount = Decimal::from_str_exact(plain.strip_prefix('$').unwrap_or(plain)).ok()?;
        (!amount.is_sign_negative() && amount <= MOST).then_some(Self(amount))
    }

    /// The plain decimal, without zeros at its end.
    pub fn plain(self) -> String {
        self.0.normalize().to_string()
    }

    /// What is left of it after `spent`; never less than nothing.
    #[must_use]
    pub fn less(self, spent: Self) -> Self {
        Self((self.0 - spent.0).max(Decimal::ZERO))
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = self.0.normalize();
        if shown.scale() < 2 {
            shown.rescale(2);
        }
        write!(f, "${shown}")
    }
}

impl Add for Money {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Money {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Serialize for Money {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.plain())
    }
}

impl<'de> Deserialize<'de> for Money {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        Self::parse(&text).ok_or_else(|| de::Error::custom(format!("`{text}` is not an amount of money")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_read_exactly_and_shown_as_people_write_it() {
        for (text, plain, shown) in [
            ("5", "5", "$5.00"),
            ("$0.50", "0.5", "$0.50"),
            (" 0.0108 ", "0.0108", "$0.0108"),
            ("0.1", "0.1", "$0.10"),
            ("0", "0", "$0.00"),
        ] {
            let money = Money::parse(text).unwrap();
            assert_eq!((money.plain().as_str(), money.to_string().as_str()), (plain, shown));
            assert_eq!(serde_json::from_value::<Money>(serde_json::json!(money)).unwrap(), money);
        }
        for bad in ["", "-1", "1e3", "five", "1,5", "NaN", "2000000000"] {
            assert_eq!(Money::parse(bad), None, "{bad}");
        }
        let (five, six) = (Money::parse("5").unwrap(), Money::parse("6.1").unwrap());
        assert_eq!((six.less(five).plain(), five.less(six)), ("1.1".to_owned(), Money::ZERO));
    }
}
