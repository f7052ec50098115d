//! `butlerd project`, the same under the name `wt-memory`, `butlerd mcp` and `butlerd hook`: a project's memory for the
//! developer and the programs that code.
//!
//! All of them ask the daemon over its project socket; git and files are used here, with the developer's rights.

mod args;
mod client;
mod commands;
mod developer;
mod error;
mod hook;
mod mcp;
mod print;
mod register;
mod status;
mod wt_memory;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub use args::{HookArgs, ProjectArgs};

use clap::Parser;

use super::args::{ProjectCli, ProjectCommand};
use super::local::data_dir;
use super::{Outcome, Place};
use args::Project;
use client::{ProjectClient, Sockets};
use error::ProjectError;
use project::place::ProjectPlace;

/// The other name of the program.
const WT_MEMORY: &str = "wt-memory";
/// The variable by which an assistant tells its programs where the project is.
const DIRECTORY_VARIABLE: &str = "CLAUDE_PROJECT_DIR";

/// Does what is started often and must be quick, before anything is set up; the exit code. None: it is for the rest of
/// the program.
pub fn at_once(argv: &[OsString]) -> Option<i32> {
    let program = Path::new(argv.first()?).file_name()?.to_string_lossy();
    if program.ends_with(WT_MEMORY) {
        return Some(wt_memory::main(&argv[1..]));
    }
    hook::at_once(argv).or_else(|| asked_at_once(argv))
}

/// Does what `butlerd project` only asks the daemon or git for. It needs nothing of what the program sets up for other
/// commands, and the command line with all of them takes as long to make as an answer to come. What reads settings goes
/// the long way.
fn asked_at_once(argv: &[OsString]) -> Option<i32> {
    if !argv.iter().any(|word| word == "project") {
        return None;
    }
    // Help, and what can't be read, is told by the whole command line.
    let ProjectCli { common, command: ProjectCommand::Project(args) } = ProjectCli::try_parse_from(argv).ok()?;
    if common.config.is_some() || matches!(args.what, Project::Init(_) | Project::Remove(_)) {
        return None;
    }
    let place = Place::without_surroundings(&common);
    Some(super::told(run(&place, args), &place.out))
}

/// `butlerd hook`, where the quick way did not take it.
pub fn hook(place: &Place, args: &HookArgs) -> Outcome {
    Ok(hook::run(args.event.as_deref(), place.overrides.data_dir.as_deref()))
}

/// `butlerd project`
pub fn run(place: &Place, ProjectArgs { project, what }: ProjectArgs) -> Outcome {
    let client = ProjectClient::here(Sockets::new(data_dir(place)?), project.as_deref())?;
    commands::run(place, &client, what)
}

/// `butlerd mcp`
pub fn mcp(place: &Place) -> Outcome {
    let named = std::env::var_os(DIRECTORY_VARIABLE).filter(|directory| !directory.is_empty()).map(PathBuf::from);
    let here = std::env::current_dir().map_err(ProjectError::Directory);
    let directory = match named {
        // Of a repository's worktrees it is the one where the assistant works, whatever its registration says.
        Some(named) => here.ok().filter(|here| are_of_one_repository(here, &named)).unwrap_or(named),
        None => here?,
    };
    super::runtime()?.block_on(mcp::serve(Sockets::new(data_dir(place)?), directory))
}

fn are_of_one_repository(one: &Path, other: &Path) -> bool {
    let common = |directory: &Path| ProjectPlace::of(directory, None).ok()?.common_dir;
    common(one).is_some_and(|found| common(other) == Some(found))
}
