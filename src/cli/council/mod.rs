//! `butlerd council`: several models deliberate.

mod configure;
mod show;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::chat::{ChatArgs, once};
use super::common::Id;
use super::{Outcome, Place};
use offline::setup::COUNCIL;

/// `council`
#[derive(Debug, Args)]
pub struct CouncilArgs {
    #[command(subcommand)]
    pub what: Council,
}

/// `council`
#[derive(Debug, Subcommand)]
pub enum Council {
    /// Ask the council, and see how it comes to its answer
    Ask {
        /// The question
        question: String,
        /// Have it deliberate, whatever memory knows
        #[arg(long)]
        again: bool,
        /// The conversation that the question belongs to
        #[arg(long, value_name = "NAME", default_value = "council")]
        thread: String,
    },
    /// List the newest questions, each with how it was answered
    List {
        /// How many
        #[arg(value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100))]
        most: u32,
    },
    /// Show one question: what each member answered, how each judged, the ranking, who was left out
    Show {
        /// Of a question
        id: Id,
    },
    /// Switch the council on with these models
    Init {
        /// At least two members, each `[RUNTIME:]MODEL[@URL]`, such as `claude-code:claude-opus-4-1`, `gpt-5@http://10.0.0.2/v1`
        #[arg(required = true, num_args = 2.., value_name = "MODEL")]
        members: Vec<String>,
        /// Who writes the answer [default: the butler's own model]
        #[arg(long, value_name = "MODEL")]
        chairman: Option<String>,
        /// Who decides whether a question needs the council [default: all do]
        #[arg(long, value_name = "MODEL")]
        router: Option<String>,
        /// The knowledge graph that all is told to: the address of a Graphiti MCP server on this machine
        #[arg(long, value_name = "URL")]
        graphiti: Option<String>,
    },
    /// Switch the council on with the settings of an LLM council's `config.json`
    Import {
        /// The file
        file: PathBuf,
        /// The address of the Graphiti MCP server on this machine, which that file does not name
        #[arg(long, value_name = "URL")]
        graphiti: Option<String>,
        /// Show what would be written, and write nothing
        #[arg(long)]
        dry_run: bool,
    },
}

/// Does it.
pub fn run(place: Place, args: CouncilArgs) -> Outcome {
    match args.what {
        Council::Ask { question, again, thread } => {
            let question = if again { format!("Ask again: {question}") } else { question };
            let chat = ChatArgs { butler: Some(COUNCIL.to_owned()), thread, attach: Vec::new() };
            place.call(|caller| once(caller, chat, question))
        }
        Council::List { most } => place.call(|caller| show::list(caller, most)),
        Council::Show { id } => place.call(|caller| show::one(caller, id)),
        Council::Init { members, chairman, router, graphiti } => {
            configure::init(place, &configure::Named { members, chairman, router }, graphiti)
        }
        Council::Import { file, graphiti, dry_run } => configure::import(place, &file, graphiti, dry_run),
    }
}
