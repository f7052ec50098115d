//! The command line that reaches the journal which the hooks ask.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::error::InitError;
use super::hooks::HookCommand;
use super::{assistant, shell};
use journal::client::SOCKET_VARIABLE;

/// What the program is called.
const NAME: &str = "butlerd";

/// How texts name the command. A text that is filled says it for the journal that is meant.
const COMMAND: &str = "butlerd journal";

/// Which butlerd is meant, and whose journal.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct JournalCommand {
    /// The absolute path of butlerd.
    pub program: PathBuf,
    /// Where a shell looks for programs, as `PATH` has it.
    pub path: OsString,
    /// The daemon's socket where it is none of the usual ones: the hooks are told of it.
    pub socket: Option<PathBuf>,
    /// Whether the socket's own variable named it. It comes before a data directory.
    pub by_variable: bool,
    /// The daemon's data directory, where one was named.
    pub data_dir: Option<PathBuf>,
    /// Whose journal, where not general's.
    pub butler: Option<String>,
}

impl JournalCommand {
    pub(super) fn hook(&self) -> Result<HookCommand, InitError> {
        let socket = self.socket.as_deref().map(text).transpose()?;
        Ok(HookCommand::of_journal(&text(&self.program)?, socket.as_deref()))
    }

    /// `butlerd journal` as a shell has to read it to reach this journal. What is to be done follows.
    pub fn line(&self) -> Result<String, InitError> {
        let mut words = vec![self.word()?, "journal".to_owned()];
        let mut set = None;
        match (&self.socket, &self.data_dir) {
            (Some(socket), _) if self.by_variable => set = Some((SOCKET_VARIABLE, text(socket)?)),
            (_, Some(directory)) => words.extend(["--data-dir".to_owned(), text(directory)?]),
            _ => {}
        }
        if let Some(butler) = &self.butler {
            words.extend(["--butler".to_owned(), butler.clone()]);
        }
        Ok(shell::command_line(set, &words))
    }

    /// A text that says `butlerd journal …`, so that its commands reach this journal.
    pub(super) fn fill(&self, text: &str) -> Result<String, InitError> {
        Ok(text.replace(COMMAND, &self.line()?))
    }

    /// Whether a command line like that of [`line`](Self::line) reaches another journal. What the program was called
    /// then says nothing of it.
    pub(super) fn is_another(&self, line: &str) -> Result<bool, InitError> {
        let reached = |line: &str| {
            let words = shell::words(line)?;
            let (set, rest) = shell::without_environment(&words);
            Some((set, rest.get(1..).map(<[String]>::to_vec)))
        };
        Ok(reached(line) != reached(&self.line()?))
    }

    /// The bare name, where a shell finds this very program by it.
    fn word(&self) -> Result<String, InitError> {
        let found = assistant::program(&self.path, NAME).and_then(|program| program.canonicalize().ok());
        match found.filter(|found| self.program.canonicalize().is_ok_and(|program| program == *found)) {
            Some(_) => Ok(NAME.to_owned()),
            None => text(&self.program),
        }
    }
}

/// A path as files have it that are read anywhere.
fn text(path: &Path) -> Result<String, InitError> {
    match path.to_str().filter(|_| path.is_absolute()) {
        Some(text) => Ok(text.to_owned()),
        None => Err(InitError::Path { path: path.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn command() -> JournalCommand {
        JournalCommand { program: "/opt/my tools/butlerd".into(), ..JournalCommand::default() }
    }

    #[test]
    fn a_command_names_the_program_and_the_journal() {
        let socket = || Some("/d/run/journal.sock".into());
        let data_dir = || Some("/my data".into());
        let butler = || Some("health".to_owned());
        let program = "'/opt/my tools/butlerd' journal";
        for (command, line) in [
            (command(), program.to_owned()),
            (
                JournalCommand { socket: socket(), data_dir: data_dir(), ..command() },
                format!("{program} --data-dir '/my data'"),
            ),
            (JournalCommand { socket: socket(), butler: butler(), ..command() }, format!("{program} --butler health")),
            (
                JournalCommand { socket: socket(), data_dir: data_dir(), butler: butler(), ..command() },
                format!("{program} --data-dir '/my data' --butler health"),
            ),
            (
                JournalCommand { socket: socket(), by_variable: true, data_dir: data_dir(), ..command() },
                format!("BUTLERD_JOURNAL_SOCKET=/d/run/journal.sock {program}"),
            ),
        ] {
            assert_eq!(command.line().unwrap(), line);
            assert_eq!(command.fill("run `butlerd journal sync`").unwrap(), format!("run `{line} sync`"));
            assert!(!command.is_another(&line).unwrap() && command.is_another("butlerd journal --butler x").unwrap());
        }
        let relative = JournalCommand { data_dir: Some("data".into()), ..command() };
        assert!(matches!(relative.line(), Err(InitError::Path { .. })));
    }

    #[test]
    fn the_bare_name_stands_where_a_shell_finds_this_program_by_it() {
        let dir = tempfile::tempdir().unwrap();
        let [program, bin, other] = ["butlerd", "bin", "other"].map(|name| dir.path().join(name));
        std::fs::write(&program, "").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        for directory in [&bin, &other] {
            std::fs::create_dir(directory).unwrap();
        }
        symlink(&program, bin.join("butlerd")).unwrap();
        std::fs::copy(&program, other.join("butlerd")).unwrap();
        let line = |path: &[&Path]| {
            let path = std::env::join_paths(path).unwrap();
            JournalCommand { program: program.clone(), path, ..JournalCommand::default() }.line().unwrap()
        };
        let whole = shell::command_line(None, &[program.to_str().unwrap(), "journal"]);
        assert_eq!(line(&[&bin, &other]), "butlerd journal");
        assert_eq!(line(&[&other, &bin]), whole, "another program of that name comes first");
        assert_eq!(line(&[]), whole);
        let here = JournalCommand { path: bin.into(), program, ..JournalCommand::default() };
        assert_eq!(here.fill(journal::MEMORY_SYNC).unwrap(), journal::MEMORY_SYNC, "byte for byte");
        assert!(!here.is_another("'/opt/old one/butlerd' journal").unwrap());
    }
}
