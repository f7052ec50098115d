//! `butlerd journal init` and `install-hooks`: what a person's files say of the journal.

use std::path::{Path, PathBuf};

use super::super::Outcome;
use super::super::changes::tell;
use super::super::local::{first_there, named_socket, sentence, variable};
use super::super::out::Out;
use super::super::problem::FAILED;
use super::super::text::block;
use super::access;
use super::args::{Hooks, Init};
use super::client::{JournalClient, JournalError};
use journal::client::{SOCKET, SOCKET_VARIABLE, candidates, socket_of};
use journal::wire::{Initialized, Op};
use project::init::journal::{self as registration, CODEX_FILE, JournalOptions, SETTINGS_FILE, SKILL_FILE};
use project::init::{Change, InitReport, JournalCommand};

/// The file of instructions that gets the section.
const INSTRUCTIONS: &str = "CLAUDE.md";

pub fn init(client: &JournalClient, out: &Out, args: &Init) -> Outcome {
    let path = args.claude_md.as_deref().unwrap_or(Path::new(INSTRUCTIONS));
    let path = std::path::absolute(path).map_err(|source| JournalError::Read { path: path.to_owned(), source })?;
    if args.remove_claude_md {
        let report = registration::remove_instructions(&path, false).map_err(JournalError::from)?;
        return out.answer(&report, |out, report| tell(out, report, false, "No file has the section."));
    }
    let command = command(client)?;
    let user = access::user(args.user.as_deref()).map_err(JournalError::from)?;
    let mut done: Initialized = client.ask(Op::Init)?;
    let mut exit = 0;
    if let Some(user) = user {
        match access::open_to(user.uid, Path::new(&done.dir), &done.directories) {
            Ok(()) => done.notes.push(format!("{} may read and edit the files.", user.name)),
            // The journal itself is there.
            Err(error) => {
                done.notes.push(sentence(&error));
                exit = FAILED;
            }
        }
    }
    if !args.no_claude_md {
        match registration::instruct(&path, &done.dir, &command, false) {
            Ok(InitReport { changes, .. }) => {
                let told = |change: Change| format!("Changed: {} ({})", change.path.display(), change.what);
                done.notes.extend(changes.into_iter().map(told));
            }
            // The journal itself is there.
            Err(error) => {
                done.notes.push(sentence(&error));
                exit = FAILED;
            }
        }
    }
    out.answer(&done, |out, done| lines(done).iter().for_each(|line| out.line(line)))?;
    Ok(exit)
}

/// What the specification's program prints, and then what somebody has to know.
fn lines(done: &Initialized) -> Vec<String> {
    let dir = Path::new(&done.dir);
    let mut lines: Vec<String> = Vec::new();
    lines.extend(done.directories.iter().map(|below| format!("Directory: {}", dir.join(below).display())));
    lines.extend(done.created.iter().map(|file| format!("Created: {file}")));
    lines.extend(done.skipped.iter().map(|file| format!("Skipped (exists): {file}")));
    lines.extend([String::new(), "Memory system initialized.".to_owned()]);
    lines.extend(done.notes.iter().cloned());
    lines.iter().map(|line| block(line)).collect()
}

pub fn hooks(client: &JournalClient, out: &Out, args: &Hooks) -> Outcome {
    let home = variable("HOME").map(PathBuf::from);
    let own = variable("CLAUDE_CONFIG_DIR").map(PathBuf::from).or_else(|| Some(home.as_ref()?.join(".claude")));
    let own = own.ok_or(JournalError::NoHome)?;
    let codex = variable("CODEX_HOME").map(PathBuf::from).or_else(|| Some(home?.join(".codex")));
    let options = options(client, &own, codex.filter(|codex| codex.is_dir()).as_deref(), args)?;
    let report = match args.remove {
        true => registration::remove_hooks(&options),
        false => registration::install_hooks(&options),
    };
    let mut report = report.map_err(JournalError::from)?;
    if !args.remove && args.settings.is_none() {
        report.notes.push(format!(
            "Claude Code reads {SETTINGS_FILE} of {} only where it is started in the directory above. For all \
             directories: {} install-hooks --settings {}",
            own.display(),
            options.command.line().map_err(JournalError::from)?,
            own.join("settings.json").display()
        ));
    }
    let none = if args.remove { "Nothing is registered." } else { "Everything is registered already." };
    out.answer(&report, |out, report| tell(out, report, args.dry_run, none))
}

/// What is registered: with Claude Code, whose directory is `own`, and with Codex where its home is there.
fn options(
    client: &JournalClient,
    own: &Path,
    codex: Option<&Path>,
    args: &Hooks,
) -> Result<JournalOptions, JournalError> {
    Ok(JournalOptions {
        command: command(client)?,
        settings: absolute(args.settings.clone().unwrap_or_else(|| own.join(SETTINGS_FILE))),
        skill: absolute(own.join(SKILL_FILE)),
        codex: codex.map(|codex| absolute(codex.join(CODEX_FILE))),
        dry_run: args.dry_run,
    })
}

fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

/// Whoever named a daemon or a butler means that one, too, in what is registered and in what is written down.
fn command(client: &JournalClient) -> Result<JournalCommand, JournalError> {
    let program = std::env::current_exe();
    let (data_dir, by_variable) = (client.data_dir(), variable(SOCKET_VARIABLE).is_some());
    let butler = client.butler().filter(|butler| socket_of(butler) != SOCKET);
    let socket = match butler {
        Some(_) => first_there(candidates(data_dir, butler)).map(absolute),
        None => named_socket(SOCKET_VARIABLE, data_dir, |data_dir| candidates(data_dir, None)),
    };
    Ok(JournalCommand {
        program: program.map_err(|source| JournalError::Read { path: "butlerd".into(), source })?,
        path: variable("PATH").unwrap_or_default(),
        socket,
        by_variable,
        data_dir: data_dir.map(|path| absolute(path.to_owned())),
        butler: butler.map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn init_is_told_as_the_specification_has_it() {
        let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let done = Initialized {
            dir: "/d/journal/t/general".into(),
            directories: texts(&["reference", "sessions", "archive"]),
            created: texts(&["core.md"]),
            skipped: texts(&["reference/decisions.md"]),
            notes: texts(&["Changed: /w/CLAUDE.md (section of CLAUDE.md about the journal)"]),
        };
        let want = "Directory: /d/journal/t/general/reference\nDirectory: /d/journal/t/general/sessions\n\
                    Directory: /d/journal/t/general/archive\nCreated: core.md\n\
                    Skipped (exists): reference/decisions.md\n\nMemory system initialized.\n\
                    Changed: /w/CLAUDE.md (section of CLAUDE.md about the journal)";
        assert_eq!(lines(&done).join("\n"), want);
    }
}
