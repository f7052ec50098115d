//! Rules for texts, each with the words that say what was expected.

use std::net::SocketAddr;

use croner::parser::{CronParser, Seconds, Year};

use base::{ButlerName, ByteSize, HumanDuration};

use super::key::{Kind, Rule};
use super::values::{Moment, QuietHours, RuntimeKind, Zone};

fn held(ok: bool) -> Result<(), String> {
    if ok { Ok(()) } else { Err(String::new()) }
}

/// Schemas that belong to the daemon or to PostgreSQL.
pub(super) const RESERVED_SCHEMAS: [&str; 3] = ["shared", "public", "information_schema"];

/// Variables that the spawner makes anew for each session; no butler may ask for the host's.
const OWN_VARIABLES: [&str; 5] = ["PATH", "HOME", "TMPDIR", "MCP_SERVERS", "TRACEPARENT"];

pub(super) const ANY_TEXT: Kind = Kind::Text(Rule { expected: "a text", check: |_| Ok(()) });

pub(super) const FILLED_TEXT: Kind =
    Kind::Text(Rule { expected: "a text that is not empty", check: |s| held(!s.trim().is_empty()) });

pub(super) const BUTLER_NAME: Kind = Kind::Text(Rule {
    expected: "a lower-case letter, then at most 30 of a-z, 0-9, `_` and `-`",
    check: |s| held(ButlerName::new(s).is_ok()),
});

pub(super) const SKILL_NAME: Kind =
    Kind::Text(Rule { expected: "the name of a skill: a-z, 0-9 and `-`", check: |s| held(super::skills::is_name(s)) });

pub(super) const CHANNEL: Rule = Rule {
    expected: "a channel's name in lower case, such as telegram or email",
    check: |s| held(ButlerName::new(s).is_ok()),
};

pub(super) const RUNTIME: Rule = Rule {
    expected: "a runtime: claude-code, codex, gemini or native",
    check: |s| held(s.parse::<RuntimeKind>().is_ok()),
};

pub(super) const CHANNEL_NAME: Kind = Kind::Text(CHANNEL);

/// Also what a schema derived from a butler's name must keep.
pub(super) const SCHEMA: Rule = Rule {
    expected: "a schema of the butler's own: a-z or `_`, then a-z, 0-9 and `_`, at most 63, not shared, public, \
               information_schema or pg_…",
    check: |s| {
        let mut bytes = s.bytes();
        let form = bytes.next().is_some_and(|b| b.is_ascii_lowercase() || b == b'_')
            && bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
            && s.len() <= 63;
        if form && (RESERVED_SCHEMAS.contains(&s) || s.starts_with("pg_")) {
            return Err("reserved".to_owned());
        }
        held(form)
    },
};

pub(super) const SCHEMA_NAME: Kind = Kind::Text(SCHEMA);

pub(super) const VARIABLE: Kind = Kind::Text(Rule {
    expected: "the name of an environment variable: A-Z or `_`, then A-Z, 0-9 and `_`",
    check: |s| {
        if OWN_VARIABLES.contains(&s) {
            return Err("butlerd makes this one itself for each session".to_owned());
        }
        let mut bytes = s.bytes();
        held(
            bytes.next().is_some_and(|b| b.is_ascii_uppercase() || b == b'_')
                && bytes.all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_'),
        )
    },
});

pub(super) const ZONE: Kind = Kind::Text(Rule {
    expected: "an IANA time zone such as \"Europe/Berlin\" or \"UTC\"",
    check: |s| {
        if Zone::named(s).is_some() {
            return Ok(());
        }
        let empty = jiff::tz::db().is_definitively_empty();
        Err(if empty { "this machine has no time zone database: install tzdata".to_owned() } else { String::new() })
    },
});

pub(super) const QUIET_HOURS: Kind = Kind::Text(Rule {
    expected: "two different times such as \"22:00-07:00\"",
    check: |s| held(QuietHours::parse(s).is_some()),
});

pub(super) const LISTEN: Kind = Kind::Text(Rule {
    expected: "an IP address and a port such as \"127.0.0.1:40200\"",
    check: |s| held(s.parse::<SocketAddr>().is_ok()),
});

pub(super) const HOST: Kind = Kind::Text(Rule {
    expected: "a host name, with or without port, such as \"butler.home\" or \"butler.home:40200\"",
    check: |s| held(is_host(s)),
});

pub(super) const ORIGIN: Kind = Kind::Text(Rule {
    expected: "an origin such as \"https://butler.home\", without a path",
    check: |s| held(s.strip_prefix("http://").or_else(|| s.strip_prefix("https://")).is_some_and(is_host)),
});

pub(super) const URL: Kind = Kind::Text(Rule {
    expected: "an http or https address such as \"http://127.0.0.1:11434/v1\"",
    check: |s| {
        let Ok(uri) = s.parse::<http::Uri>() else { return Err(String::new()) };
        match uri.authority() {
            Some(a) if a.as_str().contains('@') => Err("keys and passwords don't belong in an address".to_owned()),
            Some(a) => held(matches!(uri.scheme_str(), Some("http" | "https")) && is_host(a.as_str())),
            None => Err(String::new()),
        }
    },
});

/// The parser's own reason is left out: it may repeat a part of the password.
pub(super) const DATABASE_URL: Kind = Kind::Secret(Rule {
    expected: "a PostgreSQL connection string such as postgres://user:password@host:5432/butlers",
    check: |s| held(s.parse::<tokio_postgres::Config>().is_ok_and(|c| !c.get_hosts().is_empty())),
});

pub(super) const LOG_FILTER: Kind = Kind::Text(Rule {
    expected: "a level (error, warn, info, debug, trace) or directives such as \"info,sessions=debug\"",
    check: |s| {
        if s.trim().is_empty() {
            return Err(String::new());
        }
        tracing_subscriber::EnvFilter::try_new(s).map(|_| ()).map_err(|e| e.to_string())
    },
});

pub(super) const USER: Kind = Kind::Text(Rule {
    expected: "the name of a user of this system, not root",
    check: |s| {
        let mut bytes = s.bytes();
        held(
            bytes.next().is_some_and(|b| b.is_ascii_lowercase() || b == b'_')
                && bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-.$".contains(&b))
                && s.len() <= 32
                && s != "root",
        )
    },
});

pub(super) const CRON: Kind = Kind::Text(Rule {
    expected: "five cron fields (minute hour day month weekday), or six with seconds first, \
               such as \"30 7 * * MON-FRI\"",
    check: |s| {
        let fields = s.split_whitespace().count();
        // Nicknames are one field; anything else with a wrong count gets no better reason from the parser.
        if fields != 5 && fields != 6 && !s.trim_start().starts_with('@') {
            return Err(format!("{fields} field{}", if fields == 1 { "" } else { "s" }));
        }
        let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
        let cron = parser.parse(s).map_err(|e| e.to_string().trim_end_matches('.').to_owned())?;
        // The start is a fixed date: whether a date ever comes does not depend on the present.
        let start = jiff::civil::date(2024, 1, 1).to_zoned(jiff::tz::TimeZone::UTC).map_err(|e| e.to_string())?;
        cron.find_next_occurrence(&start, false).map(|_| ()).map_err(|_| "a date that never comes".to_owned())
    },
});

pub(super) const MOMENT: Kind = Kind::Text(Rule {
    expected: "a moment such as \"2026-12-24T18:00\" or \"2026-12-24T18:00:00+01:00\"",
    check: |s| held(Moment::parse(s).is_some()),
});

pub(super) const PORT: Kind = Kind::Int(1, 65_535, "a port number");

/// A whole number between two.
pub(super) const fn count(min: i64, max: i64) -> Kind {
    Kind::Int(min, max, "a whole number")
}

/// A duration between two, in seconds.
pub(super) const fn seconds(min: u64, max: u64) -> Kind {
    Kind::Duration(HumanDuration::from_secs(min), HumanDuration::from_secs(max))
}

/// A size between two, in bytes.
pub(super) const fn bytes(min: u64, max: u64) -> Kind {
    Kind::Size(ByteSize(min), ByteSize(max))
}

/// An amount of money.
pub(super) const DOLLARS: Kind = Kind::Money("US dollars");

/// A price.
pub(super) const PRICE: Kind = Kind::Money("US dollars for a million tokens,");

/// A number of tokens.
pub(super) const TOKENS: Kind = Kind::Int(1, 1_000_000_000_000, "a number of tokens");

pub(super) const MODEL: Rule = Rule {
    expected: "a model's id as its vendor has it, without a date",
    check: |s| held(!s.is_empty() && !s.contains(char::is_whitespace)),
};

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
