//! What is wrong in a configuration, told so that its reader can put it right.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// One mistake: where it is, what was found there and what was expected.
///
/// Displayed as `roster/health/butler.toml:7: butler.port: found "x", expected a port number 1-65535`. Secret values
/// are never part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mistake {
    /// The file (or directory), `environment` for a variable, `command line` for a flag.
    pub file: PathBuf,
    /// The line, from 1; `None` where nothing stands in the file yet or there is no file.
    pub line: Option<usize>,
    /// The dotted key (`butler.port`), the variable or the flag; empty when the whole file is meant.
    pub key: String,
    /// What was found.
    pub problem: String,
    /// What was expected; empty if the problem already says it.
    pub expected: String,
}

impl Mistake {
    /// A mistake at this place; `key` is empty where the whole file is meant.
    pub(super) fn at(
        file: &Path,
        line: Option<usize>,
        key: &str,
        problem: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        let (file, key) = (file.to_owned(), key.to_owned());
        Self { file, line, key, problem: problem.into(), expected: expected.into() }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.problem)?;
        if !self.expected.is_empty() {
            write!(f, ", expected {}", self.expected)?;
        }
        Ok(())
    }
}

/// A butler that can't be started because of its files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BrokenButler {
    /// The name of its directory; need not be a valid name.
    pub name: String,
    /// Its directory, absolute.
    pub dir: PathBuf,
    /// Why; never empty. Two butlers that want the same thing: the place of both.
    pub mistakes: Vec<Mistake>,
}

/// Why no household can be made of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Mistakes that concern the household as a whole; never empty.
    pub fatal: Vec<Mistake>,
    /// Butlers that would be parked besides.
    pub broken: Vec<BrokenButler>,
}

impl Refused {
    /// Every mistake: the household's first, then those of each butler.
    pub fn mistakes(&self) -> impl Iterator<Item = &Mistake> {
        self.fatal.iter().chain(self.broken.iter().flat_map(|b| &b.mistakes))
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, mistake) in self.mistakes().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{mistake}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Refused {}
