//! The files of a journal.

use std::fmt;

use jiff::civil::Date;

/// What a file is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// `core.md`: always told.
    Core,
    /// `reference/<name>.md`
    Reference,
    /// `users/<person>.md`
    Users,
    /// `sessions/today.md`
    Today,
    /// `sessions/YYYY-MM-DD.md`, an earlier day's log.
    Day,
    /// `archive/<name>.md`: what is not so any more.
    Archive,
}

/// The name of a file, from the journal's directory. No other file belongs to a journal.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FileName(String);

/// Longest name of a file without its directory and ending.
const LONGEST: usize = 64;

impl FileName {
    /// Reads a name; `decisions` and `today.md` stand for `reference/decisions.md` and `sessions/today.md`. `None`: no
    /// file of a journal is called that.
    pub fn read(given: &str) -> Option<Self> {
        let stem = given.strip_suffix(".md").unwrap_or(given);
        let (directory, name) = match stem.split_once('/') {
            Some((directory, name)) => (directory, name),
            None if stem == "core" => return Some(Self::core()),
            None if stem == "today" => return Some(Self::today()),
            None if REFERENCES.contains(&stem) => ("reference", stem),
            None => return None,
        };
        let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
        let known = ["reference", "users", "sessions", "archive"].contains(&directory);
        let named = !name.is_empty() && name.len() <= LONGEST && name.chars().all(fine) && !name.starts_with('-');
        (known && named).then(|| Self(format!("{directory}/{name}.md")))
    }

    pub fn core() -> Self {
        Self("core.md".to_owned())
    }

    pub fn today() -> Self {
        Self("sessions/today.md".to_owned())
    }

    /// `reference/<name>.md`, of a name that is known to be one.
    pub fn reference(name: &str) -> Self {
        Self(format!("reference/{name}.md"))
    }

    /// The log of a day; `n`: which of several.
    pub fn day(day: Date, n: u32) -> Self {
        Self(if n == 0 { format!("sessions/{day}.md") } else { format!("sessions/{day}-{n}.md") })
    }

    /// Where what is taken out of this file goes; `n`: which of several.
    pub fn archived(&self, n: u32) -> Self {
        Self(if n == 0 { format!("archive/{}.md", self.stem()) } else { format!("archive/{}-{n}.md", self.stem()) })
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Without directory and ending.
    pub fn stem(&self) -> &str {
        let name = self.0.rsplit_once('/').map_or(&*self.0, |(_, name)| name);
        name.strip_suffix(".md").unwrap_or(name)
    }

    pub fn kind(&self) -> Kind {
        match self.0.split_once('/') {
            None => Kind::Core,
            Some(("reference", _)) => Kind::Reference,
            Some(("users", _)) => Kind::Users,
            Some(("sessions", "today.md")) => Kind::Today,
            Some(("sessions", _)) => Kind::Day,
            Some(_) => Kind::Archive,
        }
    }

    /// Most bytes that it should have.
    pub fn budget(&self) -> Option<usize> {
        match self.kind() {
            Kind::Core => Some(CORE_BUDGET),
            Kind::Reference | Kind::Users => Some(REFERENCE_BUDGET),
            Kind::Today | Kind::Day | Kind::Archive => None,
        }
    }

    /// From how many bytes on somebody is told.
    pub fn warning(&self) -> Option<usize> {
        match self.kind() {
            Kind::Core => Some(CORE_WARNING),
            _ => self.budget(),
        }
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The reference files that every journal has, in the order in which sessions are told them.
pub const REFERENCES: [&str; 4] = ["decisions", "projects", "preferences", "ideas"];
/// What core memory may have; the program lets nobody but a person write more.
pub const CORE_BUDGET: usize = 3072;
/// A core memory over this is told of by the weekly check.
pub const CORE_WARNING: usize = 4096;
/// What a reference file may have where no person took it over; the weekly check archives what is old.
pub const REFERENCE_BUDGET: usize = 20 * 1024;
/// The directories of a journal.
pub const DIRECTORIES: [&str; 4] = ["reference", "sessions", "archive", "users"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_journals_own_files_have_names() {
        for (given, want, kind) in [
            ("core.md", "core.md", Kind::Core),
            ("core", "core.md", Kind::Core),
            ("decisions", "reference/decisions.md", Kind::Reference),
            ("reference/recipes.md", "reference/recipes.md", Kind::Reference),
            ("users/bea", "users/bea.md", Kind::Users),
            ("today.md", "sessions/today.md", Kind::Today),
            ("sessions/2026-02-07-1.md", "sessions/2026-02-07-1.md", Kind::Day),
            ("archive/decisions.md", "archive/decisions.md", Kind::Archive),
        ] {
            let file = FileName::read(given).unwrap();
            assert_eq!((file.as_str(), file.kind()), (want, kind));
        }
        let long = format!("users/{}", "a".repeat(65));
        for given in [
            "",
            "secrets.md",
            "../core.md",
            "/etc/passwd",
            "users/../core",
            "users/",
            "reference/a/b",
            "users/Bea",
            &long,
        ] {
            assert_eq!(FileName::read(given), None, "{given}");
        }
    }
}
