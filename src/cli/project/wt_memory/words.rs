//! The command line of `wt-memory`, read as its scripts write it: what a command does not know it passes over, unless
//! that could do harm.

use std::collections::BTreeMap;

/// A flag of a command.
#[derive(Clone, Copy, Debug)]
pub enum Flag {
    /// It is there or not.
    Switch(&'static str),
    /// A value stands behind it.
    Value(&'static str),
}

/// A command: its names, the first of which is its own, what it takes, and a line of help.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    pub names: &'static [&'static str],
    pub flags: &'static [Flag],
    /// Whether a flag that is not known is refused, and not passed over.
    pub strict: bool,
    /// How it is written behind its name.
    pub usage: &'static str,
    pub about: &'static str,
}

/// What was typed behind a command.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Words {
    values: BTreeMap<&'static str, String>,
    pub plain: Vec<String>,
    /// The first flag that the command does not have.
    pub unknown: Option<String>,
}

/// What can't be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WordsError {
    #[error("Unknown option '{0}'")]
    Unknown(String),
    #[error("{0} needs a value")]
    NoValue(String),
    #[error("{name} takes {what}, and '{value}' is none")]
    Value { name: &'static str, what: &'static str, value: String },
}

impl Words {
    /// Reads the words behind a command.
    pub fn read(command: &Command, words: &[String]) -> Result<Self, WordsError> {
        let mut read = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let known = command.flags.iter().find(|flag| match flag {
                Flag::Switch(name) | Flag::Value(name) => name == word,
            });
            match known {
                Some(Flag::Switch(name)) => drop(read.values.insert(name, String::new())),
                Some(Flag::Value(name)) => {
                    let value = words.next().ok_or_else(|| WordsError::NoValue(word.clone()))?;
                    read.values.insert(name, value.clone());
                }
                None if !word.starts_with('-') || word == "-" => read.plain.push(word.clone()),
                None if command.strict => return Err(WordsError::Unknown(word.clone())),
                None => {
                    read.unknown.get_or_insert_with(|| word.clone());
                }
            }
        }
        Ok(read)
    }

    /// Whether a flag is there.
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// A flag's value, unless it is empty.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// A flag's value as a number.
    pub fn number<T: std::str::FromStr>(
        &self,
        name: &'static str,
        what: &'static str,
    ) -> Result<Option<T>, WordsError> {
        let read =
            |value: &str| value.parse::<T>().map_err(|_| WordsError::Value { name, what, value: value.to_owned() });
        self.value(name).map(read).transpose()
    }

    /// The first word that is no flag, unless it is empty.
    pub fn first(&self) -> Option<&str> {
        self.plain.first().map(String::as_str).filter(|word| !word.is_empty())
    }
}

/// What stands before the command.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Before {
    pub project: Option<String>,
}

/// Splits what stands before the command from the rest.
pub fn before(words: &[String]) -> Result<(Before, &[String]), WordsError> {
    let (mut before, mut rest) = (Before::default(), words);
    loop {
        rest = match rest {
            [flag, more @ ..] if flag == "--no-migrate" => more,
            [flag, name, more @ ..] if flag == "--project" => {
                before.project = Some(name.clone()).filter(|name| !name.is_empty());
                more
            }
            [flag] if flag == "--project" => return Err(WordsError::NoValue(flag.clone())),
            _ => return Ok((before, rest)),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMAND: Command = Command {
        names: &["x"],
        flags: &[Flag::Switch("--all"), Flag::Value("--limit")],
        strict: false,
        usage: "",
        about: "",
    };

    fn list(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn flags_stand_anywhere_and_the_unknown_are_passed_over() {
        let words = Words::read(&COMMAND, &list("a --limit 3 --other b --all")).unwrap();
        assert_eq!(words.plain, ["a", "b"]);
        assert!(words.has("--all") && !words.has("--other"));
        assert_eq!(words.number::<u64>("--limit", "a number"), Ok(Some(3)));
        assert_eq!(Words::read(&COMMAND, &list("--limit")), Err(WordsError::NoValue("--limit".into())));
        let strict = Command { strict: true, ..COMMAND };
        assert_eq!(Words::read(&strict, &list("--other")), Err(WordsError::Unknown("--other".into())));
        let words = Words::read(&COMMAND, &list("--limit many")).unwrap();
        let why = words.number::<u64>("--limit", "a number").unwrap_err().to_string();
        assert_eq!(why, "--limit takes a number, and 'many' is none");
    }

    #[test]
    fn project_and_no_migrate_stand_before_the_command() {
        let all = list("--no-migrate --project api list --project x");
        let (found, rest) = before(&all).unwrap();
        assert_eq!((found.project.as_deref(), rest.join(" ").as_str()), (Some("api"), "list --project x"));
        assert!(before(&list("--project")).is_err());
        assert_eq!(before(&[]).unwrap(), (Before::default(), &[][..]));
    }
}
