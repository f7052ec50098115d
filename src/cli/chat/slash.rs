//! What is typed at the chat's terminal: something to say, a command of the chat, or a file.

use std::path::{Path, PathBuf};

use crate::common::Id;

/// The commands, as they are typed.
pub const NAMES: [&str; 5] = ["/help", "/quit", "/new", "/attach", "/approve"];

/// What the commands do, for `/help`.
pub const COMMANDS: &str = "\
/attach FILE    a file goes with your next message; so does one that you drag in
/approve [ID]   show what waits for your decision, whole, and decide
/new            begin another conversation
/quit           end the chat, as Ctrl-D does
/help           this list";

/// What `/help` says of the editor, below the commands.
pub const EDITOR: &str = "
Text that is pasted with several lines is one message. Ctrl-C takes back what you typed; while an answer is awaited it gives
you the line back, and the answer still comes. A message that begins with a space is not kept in the history, and may begin with
a slash.";

/// What was typed.
#[derive(Debug, PartialEq)]
pub enum Said {
    Nothing,
    Message(String),
    /// Nothing but the path of a file that is there.
    File(PathBuf),
    Help,
    Quit,
    New,
    /// Without a path: which files wait.
    Attach(Option<PathBuf>),
    Approve(Option<Id>),
    /// A slash and a word that is no command, or a command that can't be done so; what to say of it.
    Wrong(String),
}

impl Said {
    /// Reads what was typed. A command is never something to say.
    pub fn of(text: &str) -> Self {
        let line = text.trim_end();
        if line.trim().is_empty() {
            return Said::Nothing;
        }
        if !line.contains('\n')
            && let Some(file) = path(line.trim()).filter(|file| file.is_absolute() && file.is_file())
        {
            return Said::File(file);
        }
        let Some(command) = line.strip_prefix('/') else { return Said::Message(line.to_owned()) };
        let (name, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        let rest = rest.trim();
        if name.contains('/') {
            // A path in a sentence.
            return Said::Message(line.to_owned());
        }
        match (name, rest) {
            ("help", "") => Said::Help,
            ("quit" | "exit", "") => Said::Quit,
            ("new", "") => Said::New,
            ("attach", "") => Said::Attach(None),
            ("attach", file) => Said::Attach(path(file)),
            ("approve", "") => Said::Approve(None),
            ("approve", id) => match id.parse() {
                Ok(id) => Said::Approve(Some(id)),
                Err(_) => Said::Wrong(
                    "`/approve` takes the id of an action or a proposal, or its first digits, or nothing.".to_owned(),
                ),
            },
            ("help" | "quit" | "exit" | "new", _) => Said::Wrong(format!("`/{name}` takes nothing behind it.")),
            _ => Said::Wrong(format!("There is no command `/{}`, and nothing was sent.", name.escape_debug())),
        }
    }
}

/// A path as terminals write one that is dragged in, or as it is typed: in quotes, with backslashes, as a URL, from
/// home.
fn path(text: &str) -> Option<PathBuf> {
    let quoted = ['\'', '"'].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote));
    let plain = match quoted {
        Some(inner) => inner.to_owned(),
        None => {
            let mut plain = String::with_capacity(text.len());
            let mut chars = text.chars();
            while let Some(c) = chars.next() {
                plain.push(if c == '\\' { chars.next()? } else { c });
            }
            plain
        }
    };
    let plain = plain.strip_prefix("file://").map_or(plain.as_str(), |path| path);
    match (plain.strip_prefix("~/"), std::env::var_os("HOME")) {
        _ if plain.is_empty() => None,
        (Some(rest), Some(home)) => Some(Path::new(&home).join(rest)),
        _ => Some(PathBuf::from(plain)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_never_said() {
        assert_eq!((Said::of("/help"), Said::of("/quit "), Said::of("/new")), (Said::Help, Said::Quit, Said::New));
        for id in ["0199a1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b", "0199a1b2-7c3d"] {
            let typed = id.parse().expect("an id");
            assert_eq!(Said::of(&format!("/approve {id}")), Said::Approve(Some(typed)));
        }
        assert_eq!((Said::of("/approve"), Said::of("/attach")), (Said::Approve(None), Said::Attach(None)));
        assert_eq!(Said::of("/attach 'a b.png'"), Said::Attach(Some("a b.png".into())));
        for wrong in ["/hepl", "/", "/approve soon", "/new talk", "/hepl me\nplease"] {
            assert!(matches!(Said::of(wrong), Said::Wrong(_)), "{wrong}");
        }
    }

    #[test]
    fn all_else_is_a_message_but_a_file_alone() {
        for text in ["hello", "/usr/bin is full", " /help is a command", "1/2", "two\nlines"] {
            assert_eq!(Said::of(text), Said::Message(text.to_owned()));
        }
        assert_eq!(Said::of("  \n"), Said::Nothing);
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a b.txt");
        std::fs::write(&file, "x").unwrap();
        let shown = file.display().to_string();
        for typed in [shown.clone(), format!("'{shown}' "), shown.replace(' ', "\\ "), format!("file://{shown}")] {
            assert_eq!(Said::of(&typed), Said::File(file.clone()), "{typed}");
        }
        assert_eq!(Said::of(&format!("{shown} is large")), Said::Message(format!("{shown} is large")));
    }
}
