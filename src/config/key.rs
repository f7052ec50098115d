//! How a section is declared: once, as struct, as rules for the checker and as text of the annotated file.

use base::{ByteSize, HumanDuration};

/// A table of a configuration file.
pub(super) struct Table {
    pub doc: &'static str,
    pub keys: &'static [Key],
}

/// One key of a table.
pub(super) struct Key {
    pub name: &'static str,
    /// The lines of the field's doc comment, each ended by a newline.
    pub doc: &'static str,
    pub kind: Kind,
    pub default: Default,
    /// Other names, as in the specifications; one that ends in `_s` holds whole seconds.
    pub also: &'static [&'static str],
}

/// What a key holds if no layer says anything.
pub(super) enum Default {
    /// It must be given.
    Required,
    /// This, in TOML.
    Is(&'static str),
    /// Nothing, or what the program finds out; the text is an example in TOML.
    Unset(&'static str),
    /// A table whose keys have defaults of their own.
    Inner,
}

/// A check of a text. An error's text is the reason, or empty if what was expected says enough.
#[derive(Clone, Copy)]
pub(super) struct Rule {
    pub expected: &'static str,
    pub check: fn(&str) -> Result<(), String>,
}

/// What a key may hold.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Text(Rule),
    /// A text that no mistake may repeat.
    Secret(Rule),
    /// Lowest, highest, and what the number is.
    Int(i64, i64, &'static str),
    Bool,
    Duration(HumanDuration, HumanDuration),
    Size(ByteSize, ByteSize),
    /// What the amount is.
    Money(&'static str),
    OneOf(&'static [&'static str]),
    Path,
    List(&'static Kind),
    /// Any keys that keep the rule, each with a value of one kind.
    Map(Rule, &'static Kind),
    Table(&'static Table),
    /// A list of tables (`[[butler.schedule]]`).
    Tables(&'static Table),
    /// A table that somebody else checks.
    Free,
}

impl Kind {
    /// What was expected, as the end of a mistake.
    pub fn expected(&self) -> String {
        match self {
            Kind::Text(rule) | Kind::Secret(rule) => rule.expected.to_owned(),
            Kind::Int(min, max, what) => format!("{what} {min}-{max}"),
            Kind::Bool => "true or false".to_owned(),
            Kind::Duration(min, max) => {
                format!("a duration such as \"30s\", \"10m\" or \"2h\", at least {min} and at most {max}")
            }
            Kind::Size(min, max) => {
                format!("a size such as \"512 KiB\", \"16 MiB\" or \"2 GiB\", at least {min} and at most {max}")
            }
            Kind::Money(what) => format!("{what} such as 5 or \"0.50\", not negative"),
            Kind::OneOf(names) => match names {
                [only] => format!("\"{only}\""),
                _ => format!("one of {}", quoted(names)),
            },
            Kind::Path => "a path".to_owned(),
            Kind::List(inner) => format!("a list, each item {}", inner.expected()),
            Kind::Map(rule, inner) => format!("a table, each key {}, each value {}", rule.expected, inner.expected()),
            Kind::Table(_) | Kind::Free => "a table".to_owned(),
            Kind::Tables(_) => "a list of tables".to_owned(),
        }
    }
}

/// `"a", "b"`
pub(super) fn quoted(names: &[&str]) -> String {
    names.iter().map(|n| format!("\"{n}\"")).collect::<Vec<_>>().join(", ")
}

impl Table {
    /// The key of this name, and whether the name means whole seconds.
    pub fn find(&self, name: &str) -> Option<(&Key, bool)> {
        self.keys.iter().find_map(|key| {
            if key.name == name {
                return Some((key, false));
            }
            let seconds = matches!(key.kind, Kind::Duration(..));
            if seconds && name.strip_suffix("_s") == Some(key.name) {
                return Some((key, true));
            }
            key.also.contains(&name).then(|| (key, seconds && name.ends_with("_s")))
        })
    }
}

/// Declares a table: `field ("toml name" if it differs): Type = kind, default;` with the documentation as doc comment.
macro_rules! section {
    (
        $(#[doc = $table_doc:literal])*
        pub struct $name:ident {
            $(
                $(#[doc = $doc:literal])*
                $(#[serde($($serde:tt)*)])?
                $field:ident $(($key:literal))? : $ty:ty = $kind:expr, $default:expr $(, also $also:expr)?;
            )*
        }
    ) => {
        $(#[doc = $table_doc])*
        #[derive(Debug, Clone, serde::Deserialize)]
        pub struct $name {
            $(
                $(#[doc = $doc])*
                $(#[serde(rename = $key)])?
                $(#[serde($($serde)*)])?
                pub $field: $ty,
            )*
        }

        impl $name {
            pub(crate) const TABLE: $crate::key::Table = $crate::key::Table {
                doc: concat!($($table_doc, "\n",)*),
                keys: &[$(
                    $crate::key::Key {
                        name: $crate::key::section!(@name $field $($key)?),
                        doc: concat!($($doc, "\n",)*),
                        kind: $kind,
                        default: $default,
                        also: $crate::key::section!(@also $($also)?),
                    },
                )*],
            };
        }
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $key:literal) => { $key };
    (@also) => { &[] };
    (@also $also:expr) => { $also };
}
pub(super) use section;
