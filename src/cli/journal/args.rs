//! What can be typed behind `butlerd journal`.

use std::path::PathBuf;

use base::ButlerName;
use clap::{ArgGroup, Args, Subcommand};

/// `journal`
#[derive(Debug, Args)]
pub struct JournalArgs {
    #[command(subcommand)]
    pub what: Journal,
    /// The journal of this butler [default: general]
    #[arg(long, global = true, value_name = "NAME")]
    pub butler: Option<ButlerName>,
}

/// `journal`
#[derive(Debug, Subcommand)]
pub enum Journal {
    /// Fill what is empty from the templates, and write a section about the journal into CLAUDE.md of this directory
    Init(Init),
    /// Show the files with their sizes, and how far conversations are summarized
    Status,
    /// Have conversations worked into the journal; with a range, print what a sync by hand needs
    Sync(Sync),
    /// End a sync by hand: everything up to this conversation is summarized
    Checkpoint {
        /// The id of the last conversation that is covered
        end: i64,
        /// What was extracted, in about 200 characters
        #[arg(long, value_name = "TEXT")]
        summary: String,
    },
    /// Move the log of a day that is over to its own file, and begin today's
    Rotate,
    /// Check that the files are there, fit their budgets and agree with the database
    Check,
    /// Print a file as the journal has it
    Show {
        /// From the journal's directory [default: core.md]
        file: Option<String>,
    },
    /// Show what was said last
    Log {
        /// How many
        #[arg(value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
        most: u32,
    },
    /// List checkpoints, the newest first
    Checkpoints {
        /// How many
        #[arg(value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
        most: u32,
    },
    /// Show what somebody edited in the files, and take it in
    Accept(Accept),
    /// Take the last sync's or the last accepted edit's changes back
    Undo {
        /// Only show what would change
        #[arg(long)]
        dry_run: bool,
    },
    /// Take the files of another memory in: the flat layout, or a memory folder of zylos
    Migrate(Migrate),
    /// Register the journal with Claude Code (two hooks and the skill memory-sync) and Codex (the hooks)
    InstallHooks(Hooks),
}

/// `journal init`
#[derive(Debug, Args)]
pub struct Init {
    /// The file that gets the section [default: CLAUDE.md in this directory]
    #[arg(long, value_name = "FILE")]
    pub claude_md: Option<PathBuf>,
    /// Write no section
    #[arg(long, conflicts_with = "claude_md")]
    pub no_claude_md: bool,
    /// Only take the section away again
    #[arg(long, conflicts_with_all = ["no_claude_md", "user"])]
    pub remove_claude_md: bool,
    /// As root: the user who may read and edit the files besides the daemon's [default: who called sudo]
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
}

/// `journal sync`
#[derive(Debug, Args)]
pub struct Sync {
    /// Only say how far conversations are summarized, as one JSON object
    #[arg(long, conflicts_with_all = ["begin", "end", "all"])]
    pub status: bool,
    /// The first conversation of a range
    #[arg(long, value_name = "ID")]
    pub begin: Option<i64>,
    /// The last one
    #[arg(long, value_name = "ID")]
    pub end: Option<i64>,
    /// Of the range, also what others than you and the household said
    #[arg(long)]
    pub all: bool,
}

/// `journal accept`
#[derive(Debug, Args)]
pub struct Accept {
    /// Only these, from the journal's directory [default: all that were edited]
    pub files: Vec<String>,
    /// Don't ask. Refused where lines of a day's log went or changed
    #[arg(long)]
    pub yes: bool,
    /// With --yes, also take in that lines of a day's log went or changed
    #[arg(long, requires = "yes")]
    pub also_deletions: bool,
}

/// `journal migrate`
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which").required(true).args(["dir", "rollback"]))]
pub struct Migrate {
    /// The directory that has the files; they stay as they are
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Only say what would be done
    #[arg(long, conflicts_with = "rollback")]
    pub dry_run: bool,
    /// Take the last migration back
    #[arg(long)]
    pub rollback: bool,
}

/// `journal install-hooks`
#[derive(Debug, Args)]
pub struct Hooks {
    /// Only show what would change
    #[arg(long)]
    pub dry_run: bool,
    /// Take hooks and skill away again
    #[arg(long)]
    pub remove: bool,
    /// The settings that get the hooks [default: settings.local.json in Claude Code's directory]
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
}
