//! `butlerd project init` and `remove`: what coding assistants know of a project's memory.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use offline::setup::{WORKSHOP, switch_on};
use serde_json::json;

use super::super::changes::tell;
use super::super::local::{named_socket, variable};
use super::super::out::Out;
use super::super::{Outcome, Place, reload};
use super::WT_MEMORY;
use super::args::Register;
use super::client::{ProjectClient, Sockets};
use super::error::ProjectError;
use project::connection::{SOCKET_VARIABLE, candidates};
use project::init::{self, Assistant, Change, InitOptions, InitReport};

/// Where programs of a user's own are, below the home.
const PROGRAMS: &str = ".local/bin";

pub fn init(household: &Place, client: &ProjectClient, out: &Out, args: &Register) -> Outcome {
    let options = options(&client.sockets, args.assistants.clone(), args.dry_run)?;
    let mut report = init::init(&client.place, &options).map_err(ProjectError::from)?;
    link(&options, &mut report);
    // Somebody answers: whose household it is does not matter here.
    if client.ask("status", json!({})).is_err() {
        switch_on_workshop(household, args.dry_run, &mut report);
    }
    out.answer(&report, |out, report| tell(out, report, args.dry_run, "Everything is registered already."))
}

/// Puts the butler that remembers projects into this user's household, and has the daemon take it up.
fn switch_on_workshop(household: &Place, dry_run: bool, report: &mut InitReport) {
    let path = match switch_on(WORKSHOP, &household.overrides, &household.environment, dry_run) {
        Ok(Some(path)) => path,
        // It is there, and its daemon is not: `status` says more.
        Ok(None) => {
            let why =
                "The butler `workshop` is in the roster, but nobody answers. Start the daemon, or run: butlerd reload";
            return report.notes.push(why.to_owned());
        }
        Err(e) => {
            let next = "Whoever runs the daemon switches the butler on with `butlerd project init` in any directory.";
            return report.notes.push(format!("{e} {next}"));
        }
    };
    report.changes.push(Change {
        diff: format!("+ {}\n", path.display()),
        path,
        what: "the butler `workshop`, who remembers projects".to_owned(),
        done: !dry_run,
    });
    if !dry_run && let Err(problem) = household.again().call(|caller| reload::takes_up(caller, WORKSHOP)) {
        report.notes.push(format!(
            "The daemon takes the butler up when it is started, or by butlerd reload: {}",
            problem.message
        ));
    }
}

pub fn remove(client: &ProjectClient, out: &Out, args: &Register) -> Outcome {
    let options = options(&client.sockets, args.assistants.clone(), args.dry_run)?;
    let report = init::remove(&client.place, &options).map_err(ProjectError::from)?;
    out.answer(&report, |out, report| tell(out, report, args.dry_run, "Nothing is registered."))
}

/// What this user's programs and files say.
pub fn options(sockets: &Sockets, assistants: Vec<Assistant>, dry_run: bool) -> Result<InitOptions, ProjectError> {
    let home = variable("HOME").map(PathBuf::from);
    // Whoever named a daemon means that one in the assistants' hooks, too.
    let socket = named_socket(SOCKET_VARIABLE, sockets.data_dir(), candidates);
    Ok(InitOptions {
        program: std::env::current_exe().map_err(|source| ProjectError::Read { path: "butlerd".into(), source })?,
        assistants,
        dry_run,
        codex_home: variable("CODEX_HOME").map_or_else(|| Some(home.as_ref()?.join(".codex")), |dir| Some(dir.into())),
        home: variable("CLAUDE_CONFIG_DIR").map(PathBuf::from).or(home).unwrap_or_default(),
        path: variable("PATH").unwrap_or_default(),
        socket,
    })
}

/// Lets the program answer to its other name, where that is free.
fn link(options: &InitOptions, report: &mut InitReport) {
    let Some(home) = std::env::var_os("HOME").filter(|home| !home.is_empty()) else { return };
    link_in(&Path::new(&home).join(PROGRAMS), options, report);
}

fn link_in(directory: &Path, options: &InitOptions, report: &mut InitReport) {
    let path = directory.join(WT_MEMORY);
    let old = match std::fs::read_link(&path) {
        Ok(target) if target == options.program => return,
        // A link to a program that is no more, or to another place of this one.
        Ok(target) if !target.exists() || target.file_name() == options.program.file_name() => Some(target),
        Err(e) if e.kind() == ErrorKind::NotFound => None,
        _ => {
            let path = path.display();
            report.notes.push(format!("{path} is another program. Remove it, and `init` links the name to butlerd."));
            return;
        }
    };
    let make = || {
        std::fs::create_dir_all(directory)?;
        if old.is_some() {
            std::fs::remove_file(&path)?;
        }
        std::os::unix::fs::symlink(&options.program, &path)
    };
    let made = if options.dry_run { Ok(()) } else { make() };
    if let Err(e) = made {
        report.notes.push(format!("{} can't be linked to butlerd: {e}.", path.display()));
        return;
    }
    let gone = old.map(|target| format!("- {}\n", target.display())).unwrap_or_default();
    let diff = format!("{gone}+ {}\n", options.program.display());
    report.changes.push(Change { path, what: "the name wt-memory".to_owned(), diff, done: !options.dry_run });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linked(directory: &Path, program: &Path, dry_run: bool) -> InitReport {
        let options = InitOptions {
            program: program.to_owned(),
            assistants: Vec::new(),
            dry_run,
            home: PathBuf::new(),
            codex_home: None,
            path: std::ffi::OsString::new(),
            socket: None,
        };
        let mut report = InitReport::default();
        link_in(directory, &options, &mut report);
        report
    }

    #[test]
    fn the_other_name_is_linked_once_and_takes_nobodys_place() {
        let dir = tempfile::tempdir().unwrap();
        let (bin, program) = (dir.path().join("bin"), dir.path().join("butlerd"));
        std::fs::write(&program, "").unwrap();
        assert!(!linked(&bin, &program, true).changes[0].done && !bin.exists());
        assert!(linked(&bin, &program, false).changes[0].done);
        assert_eq!(std::fs::read_link(bin.join("wt-memory")).unwrap(), program);
        assert_eq!(linked(&bin, &program, false), InitReport::default());
        let moved = dir.path().join("elsewhere/butlerd");
        assert_eq!(linked(&bin, &moved, false).changes.len(), 1);
        assert_eq!(std::fs::read_link(bin.join("wt-memory")).unwrap(), moved);
        std::fs::remove_file(bin.join("wt-memory")).unwrap();
        std::fs::write(bin.join("wt-memory"), "theirs").unwrap();
        let report = linked(&bin, &program, false);
        assert!(report.changes.is_empty() && report.notes[0].contains("another program"), "{report:?}");
    }
}
