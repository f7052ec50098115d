//! What texts of a `format` must be, each with the words that say what was expected.

use std::net::{IpAddr, SocketAddr};

use super::cron::CronExpression;
use super::values::{Moment, QuietHours, Retention, RuntimeKind, Zone};
use base::ButlerName;

/// What texts of one format must be.
#[derive(Debug)]
pub(super) struct Rule {
    /// The `format` in a schema.
    format: &'static str,
    pub expected: &'static str,
    pub check: fn(&str) -> Result<(), Wrong>,
}

/// Why a text does not keep its rule.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// What was expected says enough.
    Form,
    Because(String),
}

impl Rule {
    /// Whether no mistake may repeat such a text. Nor may it give the parser's reason, which may hold a part of it.
    pub fn is_secret(&self) -> bool {
        self.format == "database-url"
    }
}

/// The rule of a format. Any text is right where there is none.
pub(super) fn find(format: Option<&str>) -> &'static Rule {
    RULES.iter().find(|rule| Some(rule.format) == format).unwrap_or(&RULES[0])
}

const fn rule(format: &'static str, expected: &'static str, check: fn(&str) -> Result<(), Wrong>) -> Rule {
    Rule { format, expected, check }
}

static RULES: [Rule; 28] = [
    rule("any", "a text", |_| Ok(())),
    rule("filled", "a text that is not empty", |s| held(!s.trim().is_empty())),
    rule("name", "a lower-case letter, then at most 30 of a-z, 0-9, `_` and `-`", |s| held(ButlerName::new(s).is_ok())),
    rule("skill", "the name of a skill: a-z, 0-9 and `-`", |s| held(super::skills::is_name(s))),
    rule("channel", "a channel's name in lower case, such as telegram or email", |s| held(ButlerName::new(s).is_ok())),
    rule("runtime", "a runtime: claude-code, codex, gemini or native", |s| held(s.parse::<RuntimeKind>().is_ok())),
    // Also what a schema made of a butler's name must keep.
    rule(
        "schema",
        "a schema of the butler's own: a-z or `_`, then a-z, 0-9 and `_`, at most 63, not shared, public, \
         information_schema or pg_…",
        schema,
    ),
    rule("variable", "the name of an environment variable: A-Z or `_`, then A-Z, 0-9 and `_`", variable),
    rule("time-zone", "an IANA time zone such as \"Europe/Berlin\" or \"UTC\"", zone),
    rule("quiet-hours", "two different times such as \"22:00-07:00\"", |s| held(QuietHours::parse(s).is_some())),
    rule("retention", "a number of days such as \"90d\", or \"forever\"", |s| held(Retention::parse(s).is_some())),
    rule("socket", "an IP address and a port such as \"127.0.0.1:40200\"", |s| held(s.parse::<SocketAddr>().is_ok())),
    rule("host", "a host name, with or without port, such as \"butler.home\" or \"butler.home:40200\"", |s| {
        held(is_host(s))
    }),
    rule("origin", "an origin such as \"https://butler.home\", without a path", |s| {
        held(s.strip_prefix("http://").or_else(|| s.strip_prefix("https://")).is_some_and(is_host))
    }),
    rule("network", "an IP address or the beginning of several, such as \"127.0.0.1\" or \"10.0.0.0/8\"", |s| {
        held(is_network(s))
    }),
    rule("url", "an http or https address such as \"http://127.0.0.1:11434/v1\"", url),
    rule("database-url", "a PostgreSQL connection string such as postgres://user:password@host:5432/butlers", |s| {
        held(s.parse::<tokio_postgres::Config>().is_ok_and(|c| !c.get_hosts().is_empty()))
    }),
    rule(
        "log-filter",
        "a level (error, warn, info, debug, trace) or directives such as \"info,sessions=debug\"",
        log_filter,
    ),
    rule("user", "the name of a user of this system, not root", user),
    rule(
        "cron",
        "five cron fields (minute hour day month weekday), or six with seconds first, such as \"30 7 * * MON-FRI\"",
        cron,
    ),
    rule("moment", "a moment such as \"2026-12-24T18:00\" or \"2026-12-24T18:00:00+01:00\"", |s| {
        held(Moment::parse(s).is_some())
    }),
    rule("path", "a path", |s| held(!s.is_empty())),
    rule("model", "a model's id as its vendor has it, without a date", |s| {
        held(!s.is_empty() && !s.contains(char::is_whitespace))
    }),
    rule("credential", "the name of a credential, such as \"HOME_WEBHOOK_SECRET\"", |s| {
        held(!s.is_empty() && s.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'))
    }),
    rule("server", "a lower-case letter, then at most 30 of a-z, 0-9 and `_`", |s| {
        held(s.starts_with(|c: char| c.is_ascii_lowercase()) && is_word(s, u8::is_ascii_lowercase, b"_", 31))
    }),
    rule("tool", "the name of a tool: a lower-case letter, then a-z, 0-9 and `_`, at most 60", |s| {
        held(s.starts_with(|c: char| c.is_ascii_lowercase()) && is_word(s, u8::is_ascii_lowercase, b"_", 60))
    }),
    rule("absolute", "a path from `/` on", |s| held(s.starts_with('/') && !s.split('/').any(|part| part == ".."))),
    rule("file-name", "a file's name of a-z, 0-9, `.`, `_` and `-`, such as \"deliveries.jsonl\"", |s| {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
        held(!s.is_empty() && !s.starts_with('.') && s.len() <= 100 && s.bytes().all(plain))
    }),
];

/// Schemas that belong to the daemon or to PostgreSQL.
const RESERVED_SCHEMAS: [&str; 3] = ["shared", "public", "information_schema"];

fn held(ok: bool) -> Result<(), Wrong> {
    if ok { Ok(()) } else { Err(Wrong::Form) }
}

/// One that begins with a letter of `first` or `_`, and goes on with those of `rest`.
fn is_word(s: &str, first: fn(&u8) -> bool, rest: &[u8], longest: usize) -> bool {
    let mut bytes = s.bytes();
    let begins = bytes.next().is_some_and(|b| first(&b) || b == b'_');
    begins && s.len() <= longest && bytes.all(|b| first(&b) || b.is_ascii_digit() || rest.contains(&b))
}

fn schema(s: &str) -> Result<(), Wrong> {
    if RESERVED_SCHEMAS.contains(&s) || s.starts_with("pg_") {
        return Err(Wrong::Because("reserved".to_owned()));
    }
    held(is_word(s, u8::is_ascii_lowercase, b"_", 63))
}

fn variable(s: &str) -> Result<(), Wrong> {
    if let Some(why) = super::variables::refusal(s) {
        return Err(Wrong::Because(why.to_owned()));
    }
    held(is_word(s, u8::is_ascii_uppercase, b"_", usize::MAX))
}

fn user(s: &str) -> Result<(), Wrong> {
    held(is_word(s, u8::is_ascii_lowercase, b"_-.$", 32) && s != "root")
}

fn zone(s: &str) -> Result<(), Wrong> {
    match Zone::named(s) {
        Some(_) => Ok(()),
        None if jiff::tz::db().is_definitively_empty() => {
            Err(Wrong::Because("this machine has no time zone database: install tzdata".to_owned()))
        }
        None => Err(Wrong::Form),
    }
}

fn url(s: &str) -> Result<(), Wrong> {
    let uri = s.parse::<http::Uri>().map_err(|_| Wrong::Form)?;
    let authority = uri.authority().ok_or(Wrong::Form)?.as_str();
    if authority.contains('@') {
        return Err(Wrong::Because("keys and passwords don't belong in an address".to_owned()));
    }
    held(matches!(uri.scheme_str(), Some("http" | "https")) && is_host(authority))
}

fn log_filter(s: &str) -> Result<(), Wrong> {
    if s.trim().is_empty() {
        return Err(Wrong::Form);
    }
    tracing_subscriber::EnvFilter::try_new(s).map(drop).map_err(|e| Wrong::Because(e.to_string()))
}

fn cron(s: &str) -> Result<(), Wrong> {
    CronExpression::parse(s).map(drop).map_err(|e| Wrong::Because(e.to_string()))
}

fn is_network(s: &str) -> bool {
    let (address, bits) = s.split_once('/').map_or((s, None), |(address, bits)| (address, Some(bits)));
    let most = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.is_none_or(|bits| bits.parse::<u32>().is_ok_and(|bits| bits <= most))
}

fn is_host(s: &str) -> bool {
    let Ok(authority) = s.parse::<http::uri::Authority>() else { return false };
    let host = authority.host();
    // `http` takes some characters that no name or address has, `*` among them.
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._[]:".contains(&b);
    let port = s.strip_prefix(host).and_then(|rest| rest.strip_prefix(':'));
    !host.is_empty()
        && host.bytes().all(plain)
        && !s.contains('@')
        && port.is_none_or(|p| p.parse::<u16>().is_ok_and(|p| p > 0))
}
