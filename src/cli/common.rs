//! Arguments that several commands take.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use strum::VariantNames;
use uuid::Uuid;

/// Reads one of an enum's names, and tells them all where it is none.
pub fn one_of<T>() -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err = strum::ParseError> + VariantNames + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(T::VARIANTS).try_map(|name| name.parse())
}

/// How many rows a list shows.
#[derive(Debug, Clone, Args)]
pub struct Newest {
    /// How many
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=200))]
    pub limit: u32,
}

/// An argument that makes no sense, and what would.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadArgument(pub String);

/// An id as it is typed.
#[derive(Clone, Copy, Debug)]
pub struct Id(pub Uuid);

impl FromStr for Id {
    type Err = BadArgument;

    fn from_str(typed: &str) -> Result<Self, BadArgument> {
        Uuid::parse_str(typed)
            .map(Self)
            .map_err(|_| BadArgument(format!("`{typed}` is not an id; `list` shows the ids")))
    }
}

/// Which PostgreSQL
#[derive(Debug, Clone, Default, Args)]
pub struct PostgresArgs {
    /// The directory of `postgres` and `initdb`
    #[arg(long, value_name = "DIR")]
    pub pg_bin: Option<PathBuf>,
    /// A local bundle of PostgreSQL's programs, where none can be fetched
    #[arg(long, value_name = "FILE")]
    pub pg_bundle: Option<PathBuf>,
}
