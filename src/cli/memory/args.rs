//! What can be typed behind `butlerd memory`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// `memory`
#[derive(Debug, Subcommand)]
pub enum Memory {
    /// What is known of something, the best first
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
    /// One memory with all that is noted about it
    Show { id: String },
    /// How a memory came to be, and all that was done to it
    Why { id: String },
    /// Tell it something
    Add(Add),
    /// Correct a memory in its place; `undo` brings it back
    Edit(Edit),
    /// Take a memory out; it does not come back by itself
    Forget {
        id: String,
        /// Take its words out of everything that this household keeps, for good
        #[arg(long)]
        purge: bool,
        /// Why, without repeating what it says
        #[arg(long, value_name = "TEXT", conflicts_with = "purge")]
        reason: Option<String>,
    },
    /// Take back what was done to memories, as `history` lists it
    Undo {
        event: String,
        /// Why
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// What was done to memories, the newest first: by whom, why, and what it changed
    History {
        /// Only to this one
        id: Option<String>,
        /// How many
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
        /// Only what came before the event of this number
        #[arg(long, value_name = "NUMBER")]
        before: Option<u64>,
    },
    /// Write all that is remembered as JSON Lines
    Export {
        /// A file that is not there yet; `-` or nothing: standard output
        file: Option<PathBuf>,
    },
    /// Bring an export in; what is there stays as it is
    Import {
        /// `-`: standard input
        file: PathBuf,
    },
    /// Take up what consolidation has given up: `stats` counts episodes as dead letters, facts as not compared
    Retry {
        /// Only this one
        id: Option<String>,
    },
    /// How much is remembered, and how its upkeep stands
    Stats,
}

/// The kinds of memories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    Episode,
    Fact,
    Rule,
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Episode => "episode",
            Kind::Fact => "fact",
            Kind::Rule => "rule",
        }
    }
}

const PERMANENCE: [&str; 5] = ["permanent", "stable", "standard", "volatile", "ephemeral"];
const SENSITIVITY: [&str; 3] = ["normal", "sensitive", "secret"];

/// `memory add`
#[derive(Debug, Args)]
pub struct Add {
    /// What is so, what to do, or what happened; `-` reads it from standard input
    pub text: String,
    /// What kind of memory it is [default: fact]
    #[arg(long = "type", value_name = "KIND")]
    pub kind: Option<Kind>,
    /// Of whom or what a fact speaks [default: owner]
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
    pub tags: Vec<String>,
    /// For this butler alone, and not for all of the house
    #[arg(long)]
    pub private: bool,
}

/// `memory edit`
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true).args([
    "content", "subject", "predicate", "importance", "confidence", "permanence", "sensitivity", "valid_from", "valid_to"]))]
pub struct Edit {
    pub id: String,
    /// What it says
    #[arg(long, value_name = "TEXT")]
    pub content: Option<String>,
    /// Of whom or what a fact speaks
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
