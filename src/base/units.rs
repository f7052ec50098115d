//! Durations and sizes as people write them in configuration.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

/// A text that is no duration or size, with what was expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not {expected}")]
pub struct UnitError {
    given: String,
    expected: &'static str,
}

const DURATION_FORM: &str = "a duration such as \"30s\", \"500ms\", \"15m\", \"2h\" or \"7d\"";
const SIZE_FORM: &str = "a size such as \"512 KiB\", \"16 MiB\" or \"2 GiB\"";

fn split_number(s: &str) -> (&str, &str) {
    let at = s.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(s.len());
    (&s[..at], s[at..].trim())
}

/// How both stand in a file.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a text with a unit, or a whole number")]
enum Written {
    Number(u64),
    Text(String),
}

/// A duration: `"30s"`, `"1h30m"`; a bare number is whole seconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize, JsonSchema)]
#[serde(try_from = "Written")]
#[schemars(with = "String", extend("type" = ["string", "integer"], "format" = "duration"))]
pub struct HumanDuration(pub Duration);

impl HumanDuration {
    pub const fn from_secs(s: u64) -> Self {
        Self(Duration::from_secs(s))
    }
    pub const fn from_millis(ms: u64) -> Self {
        Self(Duration::from_millis(ms))
    }

    /// Reads `30s`, `500ms`, `1h30m`, `90` (seconds).
    pub fn parse(text: &str) -> Result<Self, UnitError> {
        let fail = || UnitError { given: text.to_owned(), expected: DURATION_FORM };
        let mut rest = text.trim();
        let mut total = 0f64;
        if rest.is_empty() {
            return Err(fail());
        }
        while !rest.is_empty() {
            let (number, tail) = split_number(rest);
            let value: f64 = number.parse().map_err(|_| fail())?;
            let end = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
            let factor = match &tail[..end] {
                "ms" => 0.001,
                "" | "s" | "sec" => 1.0,
                "m" | "min" => 60.0,
                "h" => 3600.0,
                "d" => 86_400.0,
                _ => return Err(fail()),
            };
            total += value * factor;
            rest = tail[end..].trim();
        }
        Duration::try_from_secs_f64(total).map(Self).map_err(|_| fail())
    }
}

impl fmt::Display for HumanDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0.as_millis();
        match ms {
            0 => f.write_str("0s"),
            _ if ms.is_multiple_of(3_600_000) => write!(f, "{}h", ms / 3_600_000),
            _ if ms.is_multiple_of(60_000) => write!(f, "{}m", ms / 60_000),
            _ if ms.is_multiple_of(1000) => write!(f, "{}s", ms / 1000),
            _ => write!(f, "{ms}ms"),
        }
    }
}

impl Serialize for HumanDuration {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl TryFrom<Written> for HumanDuration {
    type Error = UnitError;
    fn try_from(given: Written) -> Result<Self, UnitError> {
        match given {
            Written::Number(seconds) => Ok(Self::from_secs(seconds)),
            Written::Text(text) => Self::parse(&text),
        }
    }
}

/// A number of bytes: `"16 MiB"`; a bare number is bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize, JsonSchema)]
#[serde(try_from = "Written")]
#[schemars(with = "String", extend("type" = ["string", "integer"], "format" = "size"))]
pub struct ByteSize(pub u64);

impl ByteSize {
    pub const fn mib(n: u64) -> Self {
        Self(n * 1024 * 1024)
    }

    /// Reads `16 MiB`, `512KiB`, `2 GiB`, `1 MB` (decimal) or bytes.
    pub fn parse(text: &str) -> Result<Self, UnitError> {
        let fail = || UnitError { given: text.to_owned(), expected: SIZE_FORM };
        let (number, unit) = split_number(text.trim());
        let value: f64 = number.parse().map_err(|_| fail())?;
        let factor = match unit {
            "" | "B" => 1.0,
            "KiB" => 1024.0,
            "MiB" => 1024.0 * 1024.0,
            "GiB" => 1024.0 * 1024.0 * 1024.0,
            "kB" | "KB" => 1e3,
            "MB" => 1e6,
            "GB" => 1e9,
            _ => return Err(fail()),
        };
        Ok(Self((value * factor) as u64))
    }

    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (factor, unit) in [(1u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
            if self.0 >= factor && self.0.is_multiple_of(factor) {
                return write!(f, "{} {unit}", self.0 / factor);
            }
        }
        write!(f, "{} B", self.0)
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl TryFrom<Written> for ByteSize {
    type Error = UnitError;
    fn try_from(given: Written) -> Result<Self, UnitError> {
        match given {
            Written::Number(bytes) => Ok(Self(bytes)),
            Written::Text(text) => Self::parse(&text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_and_print() {
        for (text, ms) in [("30s", 30_000), ("1h30m", 5_400_000), ("500ms", 500), ("2d", 172_800_000), ("7", 7000)] {
            assert_eq!(HumanDuration::parse(text).unwrap().0.as_millis(), ms, "{text}");
        }
        for bad in ["", "x", "3 apples", "-1s", "s"] {
            assert!(HumanDuration::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(HumanDuration::from_secs(90).to_string(), "90s");
        assert_eq!(HumanDuration::from_secs(7200).to_string(), "2h");
    }

    #[test]
    fn sizes_read_and_print() {
        assert_eq!(ByteSize::parse("16 MiB").unwrap(), ByteSize::mib(16));
        assert_eq!(ByteSize::parse("1kB").unwrap().0, 1000);
        assert_eq!(ByteSize::mib(16).to_string(), "16 MiB");
        assert!(ByteSize::parse("16 potatoes").is_err());
    }
}
