//! Identities as types, so that a butler's name can't be handed where a tenant is expected.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use uuid::Uuid;

/// A name that is not `[a-z][a-z0-9_-]{0,30}`.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is not a valid name: a lower-case letter, then at most 30 of a-z, 0-9, `_` and `-`")]
pub struct InvalidName(pub String);

fn valid_name(s: &str) -> bool {
    let mut chars = s.bytes();
    chars.next().is_some_and(|c| c.is_ascii_lowercase())
        && s.len() <= 31
        && chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_' || c == b'-')
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
        #[serde(transparent)]
        #[schemars(with = "String", extend("format" = "name"))]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks the name; the error holds what was given.
            pub fn new(s: &str) -> Result<Self, InvalidName> {
                if valid_name(s) { Ok(Self(s.into())) } else { Err(InvalidName(s.to_owned())) }
            }
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let s = String::deserialize(d)?;
                Self::new(&s).map_err(serde::de::Error::custom)
            }
        }
        impl std::str::FromStr for $name {
            type Err = InvalidName;
            fn from_str(s: &str) -> Result<Self, InvalidName> {
                Self::new(s)
            }
        }
    };
}

name_type!(
    /// The unique name of a butler: its directory, its role's and tokens' key.
    ButlerName
);
name_type!(
    /// Whose rows these are. One household is one tenant; the default is `owner`.
    TenantId
);

impl TenantId {
    /// The tenant of a household that never named another.
    pub fn owner() -> Self {
        Self("owner".into())
    }
}

macro_rules! uuid_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl $name {
            /// A new time-ordered id (UUID version 7).
            pub fn new() -> Self {
                Self(Uuid::now_v7())
            }
        }
        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
        impl std::str::FromStr for $name {
            type Err = uuid::Error;
            fn from_str(s: &str) -> Result<Self, uuid::Error> {
                Uuid::parse_str(s).map(Self)
            }
        }
    };
}

uuid_type!(
    /// One spawned LLM session; the key of its row.
    SessionId
);
uuid_type!(
    /// One thing that happened at the edge (a message, a trigger); all that it causes carries it.
    RequestId
);

/// The beginning of an id, as people type it: at least four hex digits, with or without hyphens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IdBeginning(String);

impl IdBeginning {
    /// A whole id has so many digits, and a beginning at least these.
    const WHOLE: usize = 32;
    const LEAST: usize = 4;

    /// The id, if it is there to its end.
    pub fn whole(&self) -> Option<Uuid> {
        Uuid::parse_str(&self.0).ok().filter(|_| self.0.len() == Self::WHOLE)
    }

    /// The first and the last id that begin so.
    pub fn range(&self) -> (Uuid, Uuid) {
        let filled = |digit: char| {
            let rest = std::iter::repeat_n(digit, Self::WHOLE - self.0.len());
            let digits: String = self.0.chars().chain(rest).collect();
            Uuid::parse_str(&digits).unwrap_or_default()
        };
        (filled('0'), filled('f'))
    }

    /// Whether the id begins so.
    pub fn fits(&self, id: Uuid) -> bool {
        let (first, last) = self.range();
        (first..=last).contains(&id)
    }
}

impl std::str::FromStr for IdBeginning {
    type Err = NoId;

    fn from_str(typed: &str) -> Result<Self, NoId> {
        let digits: String = typed.chars().filter(|c| *c != '-').map(|c| c.to_ascii_lowercase()).collect();
        let hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
        let fits = hex && (Self::LEAST..=Self::WHOLE).contains(&digits.len()) && !typed.starts_with('-');
        if fits { Ok(Self(digits)) } else { Err(NoId(typed.to_owned())) }
    }
}

/// Neither an id nor the beginning of one.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is not an id, nor the first four or more digits of one; `list` shows the ids")]
pub struct NoId(pub String);

/// A W3C trace context: what `traceparent` carries.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TraceContext {
    /// `00-<32 hex trace id>-<16 hex span id>-<2 hex flags>`
    pub traceparent: String,
    /// Nothing stands above: the span id is nobody's, and what is opened first has no parent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub root: bool,
}

/// The id of a new span.
fn span_id() -> String {
    Uuid::new_v4().simple().to_string()[..16].to_owned()
}

impl TraceContext {
    /// Starts a new sampled trace with random ids.
    pub fn new_root() -> Self {
        let trace = Uuid::new_v4().simple();
        Self { traceparent: format!("00-{trace}-{}-01", span_id()), root: true }
    }

    /// Takes a `traceparent` from outside; `None` unless it has the form that W3C Trace Context fixes.
    pub fn parse(s: &str) -> Option<Self> {
        let parts: Vec<&str> = s.split('-').collect();
        let lengths = [2, 32, 16, 2];
        let well_formed = parts.len() == 4
            && parts
                .iter()
                .zip(lengths)
                .all(|(p, n)| p.len() == n && p.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)))
            && parts[0] != "ff"
            && parts[1].bytes().any(|b| b != b'0')
            && parts[2].bytes().any(|b| b != b'0');
        well_formed.then(|| Self { traceparent: s.to_owned(), root: false })
    }

    /// The 32 hex digits that name the trace.
    pub fn trace_id(&self) -> &str {
        self.traceparent.get(3..35).unwrap_or_default()
    }

    /// The 16 hex digits that name the span.
    pub fn span_id(&self) -> &str {
        self.traceparent.get(36..52).unwrap_or_default()
    }

    /// The span that stands above what is opened under this context.
    pub fn parent_id(&self) -> Option<&str> {
        Some(self.span_id()).filter(|_| !self.root)
    }

    /// Whether the trace is wanted by whoever began it.
    pub fn is_sampled(&self) -> bool {
        let flags = self.traceparent.get(53..55).and_then(|flags| u8::from_str_radix(flags, 16).ok());
        flags.is_some_and(|flags| flags & 1 == 1)
    }

    /// A new span of the same trace.
    #[must_use]
    pub fn child(&self) -> Self {
        self.at(&span_id())
    }

    /// Another span of the same trace, by its id.
    fn at(&self, span: &str) -> Self {
        let flags = self.traceparent.get(53..).unwrap_or("01");
        Self { traceparent: format!("00-{}-{span}-{flags}", self.trace_id()), root: false }
    }

    /// The span that somebody within this trace says they call from; `None` if what they say is malformed or of
    /// another trace. Whether the trace is wanted is not theirs to say.
    pub fn within(&self, traceparent: &str) -> Option<Self> {
        let given = Self::parse(traceparent).filter(|given| given.trace_id() == self.trace_id())?;
        Some(self.at(given.span_id()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_alphabet() {
        for good in ["a", "health", "home-assistant", "x_1"] {
            assert!(ButlerName::new(good).is_ok(), "{good}");
        }
        let long = "a".repeat(32);
        for bad in ["", "1a", "A", "a b", "a\"b", "ä", &long] {
            assert!(ButlerName::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_id_may_be_begun() {
        let typed = |text: &str| text.parse::<IdBeginning>();
        let id: Uuid = "0190f3a2-7c41-7000-8000-00000000000a".parse().unwrap();
        for beginning in ["0190", "0190F3A27c41", "0190f3a2-7c41", "0190f3a2-", &id.to_string()] {
            assert!(typed(beginning).unwrap().fits(id), "{beginning}");
        }
        assert!(!typed("0191").unwrap().fits(id));
        assert_eq!(typed(&id.to_string()).unwrap().whole(), Some(id));
        assert_eq!(typed("0190f3a2").unwrap().whole(), None);
        let long = "0".repeat(33);
        for bad in ["", "019", "xyz1", "-0190", "0190 f3a2", &long] {
            assert_eq!(typed(bad), Err(NoId(bad.to_owned())));
        }
    }

    #[test]
    fn trace_contexts_from_outside_are_checked() {
        let own = TraceContext::new_root();
        assert_eq!(TraceContext::parse(&own.traceparent), Some(TraceContext { root: false, ..own.clone() }));
        assert_eq!((own.trace_id().len(), own.span_id().len(), own.parent_id()), (32, 16, None));
        let child = own.child();
        assert_eq!((child.trace_id(), child.parent_id()), (own.trace_id(), Some(child.span_id())));
        assert!(child.span_id() != own.span_id() && child.is_sampled());
        let claimed = child.child().traceparent;
        // Its end alone: ids are random, and may begin with 01.
        let claimed = format!("{}-00", claimed.strip_suffix("-01").expect("it is sampled"));
        let within = own.within(&claimed).expect("the same trace");
        assert_eq!((within.span_id(), within.is_sampled()), (&claimed[36..52], true));
        assert_eq!(own.within(&TraceContext::new_root().traceparent), None);
        for bad in ["", "00-x", "00-00000000000000000000000000000000-1234567890abcdef-01", "zz"] {
            assert_eq!(TraceContext::parse(bad), None, "{bad}");
        }
    }
}
