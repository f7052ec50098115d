//! What can be typed behind `butlerd memory`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;

/// `memory`
#[derive(Debug, Args)]
pub struct MemoryArgs {
    /// Whose memory [default: of all butlers that remember; what is of one alone needs its name]
    #[arg(long, global = true, value_name = "NAME")]
    pub butler: Option<String>,
    #[command(subcommand)]
    pub what: Memory,
}

/// `memory`
#[derive(Debug, Subcommand)]
pub enum Memory {
    /// Search what is remembered, the best first
    Search {
        #[arg(required = true)]
        words: Vec<String>,
        /// How many
        #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
        limit: u32,
        /// Only of this kind
        #[arg(long = "type", value_name = "KIND")]
        types: Vec<Kind>,
    },
    /// Show one memory with all that is noted about it
    Show { id: String },
    /// Show how a memory came to be, and all that was done to it
    Why { id: String },
    /// Add a memory
    Add(Add),
    /// Correct a memory; `undo` takes that back
    Edit(Edit),
    /// Forget a memory; it does not come back by itself
    Forget {
        id: String,
        /// Remove its words from everything that this household keeps, for good
        #[arg(long)]
        purge: bool,
        /// Why, without repeating what it says
        #[arg(long, value_name = "TEXT", conflicts_with = "purge")]
        reason: Option<String>,
    },
    /// Take back an event that `history` lists
    Undo {
        event: String,
        /// Why
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// List what was done to memories, the newest first: by whom, why, and what it changed
    History {
        /// Only to this one
        id: Option<String>,
        /// How many
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
        /// Only events before the one of this number
        #[arg(long, value_name = "NUMBER")]
        before: Option<u64>,
    },
    /// Write all that is remembered as JSON Lines
    Export {
        /// A new file; `-` or nothing: standard output
        file: Option<PathBuf>,
    },
    /// Bring an export in; existing memories are never overwritten
    Import {
        /// `-`: standard input
        file: PathBuf,
    },
    /// Retry what consolidation has given up: `stats` counts episodes as dead letters, facts as not compared
    Retry {
        /// Only this one
        id: Option<String>,
    },
    /// Show how much is remembered, and how its upkeep stands
    Stats,
}

/// The kinds of memories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Kind {
    Episode,
    Fact,
    Rule,
}

base::named!(Kind);

const PERMANENCE: [&str; 5] = ["permanent", "stable", "standard", "volatile", "ephemeral"];
const SENSITIVITY: [&str; 3] = ["normal", "sensitive", "secret"];

/// `memory add`: the arguments of the tools that store.
#[derive(Debug, Args, Serialize)]
pub struct Add {
    /// What is so, what to do, or what happened; `-` reads it from standard input
    #[arg(value_name = "TEXT")]
    pub content: String,
    /// What kind of memory it is [default: fact]
    #[arg(long = "type", value_name = "KIND")]
    #[serde(skip)]
    pub kind: Option<Kind>,
    /// Whom or what a fact is about [default: owner]
    #[arg(long, value_name = "WHO")]
    pub subject: Option<String>,
    /// What a fact says of it, such as `lives_in` [default: note]
    #[arg(long, value_name = "WHAT")]
    pub predicate: Option<String>,
    /// How much it matters, 0 to 10
    #[arg(long, value_name = "N")]
    pub importance: Option<f64>,
    /// How long it is likely to stay so
    #[arg(long, value_name = "HOW", value_parser = PERMANENCE)]
    pub permanence: Option<String>,
    /// How private it is
    #[arg(long, value_name = "HOW", value_parser = SENSITIVITY)]
    pub sensitivity: Option<String>,
    /// A word to find it by
    #[arg(long = "tag", value_name = "WORD")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Only for this butler, not for the whole house
    #[arg(long)]
    #[serde(skip)]
    pub private: bool,
}

/// `memory edit`: the arguments of the tool.
#[derive(Debug, Args, Serialize)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true).args([
    "content", "subject", "predicate", "importance", "confidence", "permanence", "sensitivity", "valid_from", "valid_to"]))]
pub struct Edit {
    #[serde(skip)]
    pub id: String,
    /// What it says
    #[arg(long, value_name = "TEXT")]
    pub content: Option<String>,
    /// Whom or what a fact is about
    #[arg(long, value_name = "WHO")]
    pub subject: Option<String>,
    /// What a fact says of it
    #[arg(long, value_name = "WHAT")]
    pub predicate: Option<String>,
    /// How much it matters, 0 to 10
    #[arg(long, value_name = "N")]
    pub importance: Option<f64>,
    /// How sure it is, 0 to 1
    #[arg(long, value_name = "N")]
    pub confidence: Option<f64>,
    /// How long it is likely to stay so
    #[arg(long, value_name = "HOW", value_parser = PERMANENCE)]
    pub permanence: Option<String>,
    /// How private it is
    #[arg(long, value_name = "HOW", value_parser = SENSITIVITY)]
    pub sensitivity: Option<String>,
    /// Since when it is so
    #[arg(long, value_name = "DATE")]
    pub valid_from: Option<String>,
    /// Until when it is so
    #[arg(long, value_name = "DATE")]
    pub valid_to: Option<String>,
    /// Why, without repeating what it says
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}
