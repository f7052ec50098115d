//! Memories that look as if they held a secret. They never leave the machine: a branch is read by many and forgets
//! nothing.

use std::sync::LazyLock;

use regex::{Regex, RegexSet};

use crate::record::Record;

/// Keys and tokens that their issuers gave a shape.
const SHAPES: &[&str] = &[
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----",
    r"\b(AKIA|ASIA)[0-9A-Z]{16}\b",
    r"\bgh[pousr]_[A-Za-z0-9]{20,}",
    r"\bgithub_pat_[A-Za-z0-9_]{20,}",
    r"\bglpat-[A-Za-z0-9_-]{20,}",
    r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
    r"\bxapp-[0-9]-[A-Za-z0-9-]{10,}",
    r"\bAIza[0-9A-Za-z_-]{35}",
    r"\b(sk|rk|pk)_(live|test)_[A-Za-z0-9]{10,}",
    r"\bnpm_[A-Za-z0-9]{36}\b",
    r"(?i)\bhooks\.slack\.com/services/\S{8,}",
    r"(?i)\bdiscord(app)?\.com/api/webhooks/\S{8,}",
    r"\s(-u|--user)[ =]?[^\s:]+:[^\s:]{4,}",
    r"\bmysql\b.*\s-p[^\s-]\S{3,}",
    r"\bpypi-[A-Za-z0-9_-]{50,}",
    r"\bhf_[A-Za-z0-9]{30,}",
    r"\bdop_v1_[a-f0-9]{64}\b",
    r"\bSG\.[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{20,}",
    r"\bAGE-SECRET-KEY-1[0-9A-Z]{50,}",
    r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
];

/// `sk-…`, which a word with many hyphens may look like as well.
const SK: &str = r"\bsk-[A-Za-z0-9_-]{20,}";
/// `Bearer …`, behind which a word may stand as well.
const BEARER: &str = r"(?i)\bbearer\s+([A-Za-z0-9._~+/=-]{20,})";
/// A name that says what its value is.
const NAMED: &str = concat!(
    r#"(?i)(?:^|[^a-z0-9])[a-z0-9_-]*"#,
    r#"(?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|apikey|access[_-]?key|secret[_-]?key|private[_-]?key|"#,
    r#"client[_-]?secret|credentials?)["'`]?\s*(=|:=|:)\s*(["'`]?)([^\s"'`,;]{4,})"#,
);
/// A URL with a password in it.
const LOGIN: &str = r"(?i)\b[a-z][a-z0-9+.-]*://[^\s/:@]*:([^\s/@]+)@";

struct Patterns {
    shapes: RegexSet,
    sk: Regex,
    bearer: Regex,
    named: Regex,
    login: Regex,
}

impl Patterns {
    fn read() -> Result<Self, regex::Error> {
        Ok(Self {
            shapes: RegexSet::new(SHAPES)?,
            sk: Regex::new(SK)?,
            bearer: Regex::new(BEARER)?,
            named: Regex::new(NAMED)?,
            login: Regex::new(LOGIN)?,
        })
    }
}

/// Whether a memory looks as if it held a secret, in its text or in what stands beside it.
pub fn is_in(record: &Record) -> bool {
    looks_secret(&record.content)
        || record.tags.iter().any(|tag| looks_secret(tag))
        || record.metadata.iter().any(|(name, value)| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            looks_secret(&value) || looks_secret(&format!("{name}={value}"))
        })
        || record.entities.iter().any(|entity| looks_secret(&entity.to_string()))
}

/// Whether a text looks as if it held a secret.
pub fn looks_secret(text: &str) -> bool {
    static PATTERNS: LazyLock<Option<Patterns>> = LazyLock::new(|| Patterns::read().ok());
    // Without patterns nothing is known to be free of secrets; a test reads them.
    let Some(patterns) = &*PATTERNS else { return true };
    let has_digit = |text: &str| text.bytes().any(|b| b.is_ascii_digit());
    patterns.shapes.is_match(text)
        || patterns.sk.find_iter(text).any(|found| has_digit(found.as_str()))
        || patterns.bearer.captures_iter(text).any(|found| has_digit(&found[1]))
        || patterns.login.captures_iter(text).any(|found| !stands_for_another(&found[1]))
        || patterns.named.captures_iter(text).any(|found| is_value(&found[1], &found[2], &found[3]))
}

/// Whether what stands behind a telling name is a value. Behind a colon it may be prose: a word is none there.
fn is_value(sign: &str, quote: &str, value: &str) -> bool {
    let is_word = value.trim_end_matches(['.', '!', '?', ')']).chars().all(char::is_alphabetic);
    !stands_for_another(value) && (sign != ":" || !quote.is_empty() || !is_word)
}

/// Whether a text only says where a value goes, or from where it comes: `<token>`, `$TOKEN`, `process.env.TOKEN`, `***`.
fn stands_for_another(value: &str) -> bool {
    let lower = value.to_lowercase();
    let starts =
        ["$", "<", "{", "%", "...", "…", "env.", "env(", "env[", "os.", "process.", "std::", "settings.", "config."];
    starts.iter().any(|start| lower.starts_with(start))
        || value.contains('(')
        || value.chars().all(|c| matches!(c, '*' | 'x' | 'X' | '.' | '-' | '_' | '='))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_seen() {
        assert!(Patterns::read().is_ok());
        for text in [
            "the key:\n-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blbn",
            "-----BEGIN PGP PRIVATE KEY BLOCK-----",
            "uses AKIAIOSFODNN7EXAMPLE for s3",
            concat!("ghp", "_abcdefghijklmnopqrstuvwxyz0123456789"),
            concat!("github", "_pat_11ABCDEFG0abcdefghijklmnop"),
            concat!("sk-ant", "-api03-abcdefghijklmnopqrst"),
            concat!("sk-", "proj1234567890abcdefghij"),
            concat!("xoxb", "-123456789012-abcdefghij"),
            "export PASSWORD=hunter2",
            "password = correct",
            "Password: hunter2!",
            "the password is set by `db_password: \"swordfish\"`",
            "{\"api_key\": \"abcd1234efgh\"}",
            "client_secret: 'swordfish'",
            "DATABASE_PASSWORD=swordfish",
            "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI",
            "postgres://ada:swordfish@db/app",
            "redis://:swordfish@cache:6379",
            "Authorization: Bearer abcdefghij0123456789xyz",
            concat!("eyJhbGciOiJIUzI1NiJ9", ".eyJzdWIiOiIxMjM0NSJ9", ".dozjgNryP4J3jVmN"),
        ] {
            assert!(looks_secret(text), "{text}");
        }
    }

    #[test]
    fn what_only_speaks_of_secrets_may_leave() {
        for text in [
            "Tokens are refreshed hourly; the password lives in the vault.",
            "password: stored in the vault, never in the repository",
            "secret: none needed. token: optional",
            "set PASSWORD=$DB_PASSWORD in CI, or token=<your token>",
            "api_key = os.environ['KEY'] and secret: process.env.SECRET",
            "token = get_token(user)",
            "PASSWORD=******** and password: ${{ secrets.DB }}",
            "https://example.org:8080/a@b and ssh://git@github.com/acme/api",
            "postgres://user:$PASSWORD@db/app",
            "the sk-learn-based-classifier-pipeline is slow; task-abcdefghijklmnopqrstuvwxyz1",
            "Bearer authentication-is-required-everywhere",
            "author=ada, keyboard: dvorak1, tokenizer: bpe32k",
            "1f0e3dad99908345f7439f8ffabdffc4 is the commit",
        ] {
            assert!(!looks_secret(text), "{text}");
        }
    }

    #[test]
    fn tags_and_metadata_are_looked_at() {
        let record = |tag: &str, name: &str, value: &str| Record {
            content: "fine".to_owned(),
            tags: vec![tag.to_owned()],
            metadata: [(name.to_owned(), serde_json::json!(value))].into(),
            ..Record::default()
        };
        assert!(!is_in(&record("db", "source", "README")));
        assert!(is_in(&record("password=swordfish", "source", "README")));
        assert!(is_in(&record("db", "password", "swordfish")));
    }
}
