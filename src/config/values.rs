//! Values with a form of their own.

use std::fmt;

use jiff::Timestamp;
use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

/// The program that runs a butler's sessions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[derive(EnumString, Display, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum RuntimeKind {
    /// Anthropic's CLI.
    ClaudeCode,
    /// OpenAI's CLI.
    Codex,
    /// Google's CLI.
    Gemini,
    /// butlerd's own small agent.
    Native,
}

/// Enums whose values have one name each, the same in files, in JSON and for people.
macro_rules! named_values {
    ($($(#[$meta:meta])* pub enum $name:ident { $($values:tt)* })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        #[derive(EnumString, Display, IntoStaticStr, VariantNames)]
        #[strum(serialize_all = "snake_case", const_into_str)]
        pub enum $name {
            $($values)*
        }
    )*};
}

named_values! {
    /// The protocol that the native runtime speaks to a model.
    pub enum Api {
        /// The Messages API.
        Anthropic,
        /// Chat completions, as many local servers speak them.
        Openai,
    }

    /// How large a model is that a butler's sessions ask for.
    pub enum ModelTier {
        /// Quick and cheap.
        Small,
        /// For what is hard.
        Large,
    }

    /// What a model's vendor does besides answering.
    pub enum VendorTool {
        /// It searches the web.
        WebSearch,
        /// It fetches addresses.
        WebFetch,
        /// It runs programs on its own machines.
        CodeExecution,
    }

    /// What a schedule entry starts.
    pub enum DispatchMode {
        /// A session with a prompt.
        Prompt,
        /// A job without a model.
        Job,
    }

    /// What becomes of times that passed while butlerd was not there.
    pub enum Missed {
        /// Nothing but their rows.
        Skip,
        /// One run stands for all of them.
        RunOnce,
        /// Each gets its run, within bounds.
        Backfill,
    }

    /// What becomes of a time that comes while an earlier run is still at work.
    pub enum Overlap {
        /// Nothing but its row.
        Skip,
        /// Its run waits.
        Queue,
    }

    /// Where butlers' ports come from.
    pub enum Ports {
        /// The `port` of each `butler.toml`.
        Roster,
        /// Free ports, chosen at start.
        Auto,
    }

    /// Whether children are shut in.
    pub enum SandboxMode {
        /// As far as the kernel can.
        Auto,
        /// Not at all.
        Off,
        /// Wholly, or no session is started.
        Required,
    }

    /// How far people are believed whom an address book names.
    #[derive(Default)]
    pub enum SyncedContacts {
        /// As those whom the owner knows.
        #[default]
        Known,
        /// As strangers.
        Stranger,
    }

    /// The form of the log.
    pub enum LogFormat {
        /// `text` on a terminal, else `json`.
        Auto,
        /// Lines for people.
        Text,
        /// One JSON object a line.
        Json,
    }
}

/// A moment as people write it: with an offset from UTC, or in local time of a zone that is known elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug, JsonSchema)]
#[schemars(with = "String", extend("format" = "moment"))]
pub enum Moment {
    Exact(Timestamp),
    Local(DateTime),
}

impl Moment {
    /// Reads `2026-12-24T18:00:00+01:00`, `2026-12-24T18:00` or `2026-12-24 18:00`.
    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(exact) = text.parse() {
            return Some(Moment::Exact(exact));
        }
        let timed = text.len() > "2026-12-24".len();
        text.parse().ok().filter(|_| timed).map(Moment::Local)
    }

    /// The moment itself. A local time that a change of the clock leaves out is taken right after the gap, a repeated one
    /// in its first pass.
    pub fn in_zone(self, zone: &TimeZone) -> Option<Timestamp> {
        match self {
            Moment::Exact(exact) => Some(exact),
            Moment::Local(local) => zone.to_ambiguous_timestamp(local).compatible().ok(),
        }
    }
}

/// A time zone that has a name in the IANA database, so that PostgreSQL understands it too.
#[derive(Clone, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String", extend("format" = "time-zone"))]
pub struct Zone(TimeZone);

impl Zone {
    /// The zone of this name; `None` if the database lacks it.
    pub fn named(name: &str) -> Option<Self> {
        let zone = TimeZone::get(name).ok()?;
        zone.iana_name().is_some().then_some(Self(zone))
    }

    /// The machine's zone; `None` if it is unknown or has no name.
    pub fn of_system() -> Option<Self> {
        Self::named(TimeZone::try_system().ok()?.iana_name()?)
    }

    /// The IANA name, such as `Europe/Berlin`.
    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// The rules.
    pub fn time_zone(&self) -> &TimeZone {
        &self.0
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How long rows are kept: so many days of 24 hours, or for ever.
#[derive(Clone, Copy, PartialEq, Eq, Debug, JsonSchema)]
#[schemars(with = "String", extend("format" = "retention"))]
pub enum Retention {
    Days(u16),
    Forever,
}

impl Retention {
    /// Reads `90d` and `forever`; `None` for anything else, and for no day at all.
    pub fn parse(text: &str) -> Option<Self> {
        match text.trim() {
            "forever" => Some(Self::Forever),
            days => days.strip_suffix('d')?.trim().parse().ok().filter(|days| *days > 0).map(Self::Days),
        }
    }

    /// What is older than this is not kept; `None`: all is.
    pub fn limit(self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Days(days) => {
                let kept = jiff::SignedDuration::from_hours(24 * i64::from(days));
                Some(now.checked_sub(kept).unwrap_or(Timestamp::MIN))
            }
            Self::Forever => None,
        }
    }
}

/// Hours of the owner's day in which nothing but the urgent disturbs: from (included) to (excluded), over midnight
/// if the end is the earlier.
#[derive(Clone, Copy, PartialEq, Eq, Debug, JsonSchema)]
#[schemars(with = "String", extend("format" = "quiet-hours"))]
pub struct QuietHours {
    pub from: Time,
    pub to: Time,
}

impl QuietHours {
    /// Reads `22:00-07:00`; `None` for anything else, and for an empty span.
    pub fn parse(text: &str) -> Option<Self> {
        let (from, to) = text.split_once('-')?;
        let hours = Self { from: hour_and_minute(from.trim())?, to: hour_and_minute(to.trim())? };
        (hours.from != hours.to).then_some(hours)
    }

    /// Whether this time of the day is quiet.
    pub fn contains(&self, time: Time) -> bool {
        if self.from < self.to { self.from <= time && time < self.to } else { self.from <= time || time < self.to }
    }
}

fn hour_and_minute(text: &str) -> Option<Time> {
    let (hour, minute) = text.split_once(':')?;
    let digits = |s: &str| (s.len() == 2 && s.bytes().all(|b| b.is_ascii_digit())).then(|| s.parse().ok()).flatten();
    Time::new(digits(hour)?, digits(minute)?, 0, 0).ok()
}

/// Reads them of the text that stands in a file.
macro_rules! read_of_text {
    ($($name:ident::$parse:ident, $form:literal;)*) => {$(
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let text = String::deserialize(d)?;
                $name::$parse(&text).ok_or_else(|| de::Error::custom(format!("`{text}` is not {}", $form)))
            }
        }
    )*};
}

read_of_text! {
    Moment::parse, "a moment";
    Zone::named, "an IANA time zone";
    Retention::parse, "a number of days";
    QuietHours::parse, "a span of hours";
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::time;

    #[test]
    fn quiet_hours_reach_over_midnight() {
        let night = QuietHours::parse("22:00-07:00").unwrap();
        assert!(night.contains(time(23, 30, 0, 0)) && night.contains(time(6, 59, 59, 0)));
        assert!(!night.contains(time(7, 0, 0, 0)) && !night.contains(time(12, 0, 0, 0)));
        let noon = QuietHours::parse("12:00-13:30").unwrap();
        assert!(noon.contains(time(12, 0, 0, 0)) && !noon.contains(time(13, 30, 0, 0)));
        for bad in ["", "22-7", "22:00", "24:00-07:00", "22:60-07:00", "07:00-07:00", "7:00-8:00", "+1:00-08:00"] {
            assert_eq!(QuietHours::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn zones_have_names() {
        assert_eq!(Zone::named("Europe/Berlin").unwrap().name(), "Europe/Berlin");
        assert_eq!(Zone::named("UTC").unwrap().name(), "UTC");
        for bad in ["Mars/Olympus", "", "Europe"] {
            assert!(Zone::named(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn moments_are_exact_or_local() {
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        let at = |text: &str| Moment::parse(text).and_then(|m| m.in_zone(&berlin)).map(|t| t.to_string());
        for text in ["2026-12-24T18:00:00+01:00", "2026-12-24T18:00", "2026-12-24 18:00", "2026-12-24T17:00:00Z"] {
            assert_eq!(at(text).as_deref(), Some("2026-12-24T17:00:00Z"), "{text}");
        }
        for bad in ["", "tomorrow", "18:00", "2026-12-24", "2026-13-24T18:00"] {
            assert_eq!(at(bad), None, "{bad}");
        }
    }

    #[test]
    fn names_read_and_print() {
        for name in RuntimeKind::VARIANTS {
            let kind: RuntimeKind = name.parse().unwrap();
            assert_eq!(kind.into_str(), *name);
            assert_eq!(serde_json::to_value(kind).unwrap(), *name);
        }
        assert!("Claude".parse::<RuntimeKind>().is_err());
    }
}
