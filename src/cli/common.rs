//! Arguments that several commands take.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use strum::VariantNames;
use uuid::Uuid;

use super::Caller;
use super::problem::{FAILED, Problem};
use admin::api::IdsApiClient;
use admin::{FoundIds, IdKind};
use base::{IdBeginning, NoId};

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

/// An id as it is typed: whole, or so much of its beginning that it names one. [`Caller::id`] finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Id(pub IdBeginning, String);

impl FromStr for Id {
    type Err = NoId;

    fn from_str(typed: &str) -> Result<Self, NoId> {
        Ok(Self(typed.parse()?, typed.to_owned()))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.1)
    }
}

impl Caller {
    /// The one id of this kind that was typed or begun.
    pub async fn id(&self, kind: IdKind, typed: &Id) -> Result<Uuid, Problem> {
        if let Some(id) = typed.0.whole() {
            return Ok(id);
        }
        let FoundIds { ids, unavailable } = self.got(self.quick()?.ids(kind, typed.to_string()).await)?;
        let (what, list) = kind.named();
        match ids.as_slice() {
            [id] => Ok(*id),
            [] => {
                self.out.left_out(&unavailable);
                let message = format!("There is no {what} whose id begins with {typed}.");
                Err(Problem::new(FAILED, "not_found", message, format!("See: butlerd {list}")))
            }
            several => Err(ambiguous(typed, several)),
        }
    }
}

/// The beginning names several.
pub fn ambiguous(typed: &impl fmt::Display, ids: &[impl fmt::Display]) -> Problem {
    let all: Vec<String> = ids.iter().map(ToString::to_string).collect();
    let message = format!("{} ids begin with {typed}: {}.", ids.len(), all.join(", "));
    Problem::new(FAILED, "ambiguous", message, "Write more of the one you mean.")
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
