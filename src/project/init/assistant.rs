//! Coding assistants, and which of them a developer has.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use strum::{EnumString, IntoStaticStr};

use super::InitOptions;

/// A program that codes with a developer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, EnumString, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Assistant {
    Claude,
    Codex,
    Gemini,
}

// Its name is its program's, too.
base::named!(Assistant, from_name);

impl Assistant {
    pub const ALL: [Self; 3] = [Self::Claude, Self::Codex, Self::Gemini];

    /// The file of a project that it reads before it works.
    pub(super) fn instructions(self) -> &'static str {
        match self {
            Self::Claude => "CLAUDE.md",
            Self::Codex => "AGENTS.md",
            Self::Gemini => "GEMINI.md",
        }
    }

    /// Whether it is there: its program, or what it left behind.
    fn is_found(self, top: &Path, options: &InitOptions) -> bool {
        let traces = match self {
            Self::Claude => top.join(".claude"),
            Self::Codex => codex_home(options),
            Self::Gemini => top.join(".gemini"),
        };
        traces.is_dir() || program(&options.path, self.as_str()).is_some()
    }
}

/// Those that were named, or else each that is found.
pub(super) fn chosen(top: &Path, options: &InitOptions) -> Vec<Assistant> {
    if options.assistants.is_empty() {
        return Assistant::ALL.into_iter().filter(|assistant| assistant.is_found(top, options)).collect();
    }
    named(options)
}

/// Those that were named, or else all: what is registered is seen and taken away also where the program is gone.
pub(super) fn named(options: &InitOptions) -> Vec<Assistant> {
    let named = |assistant: &Assistant| options.assistants.is_empty() || options.assistants.contains(assistant);
    Assistant::ALL.into_iter().filter(named).collect()
}

/// The directory of Codex's own configuration.
pub(super) fn codex_home(options: &InitOptions) -> PathBuf {
    options.codex_home.clone().unwrap_or_else(|| options.home.join(".codex"))
}

/// The first executable file of this name on `path`.
pub(super) fn program(path: &OsStr, name: &str) -> Option<PathBuf> {
    let executable =
        |file: &PathBuf| file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
    std::env::split_paths(path).filter(|dir| dir.is_absolute()).map(|dir| dir.join(name)).find(executable)
}
