//! What a skill's directory holds.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// How much there may be.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub bytes: u64,
    /// Files and directories.
    pub files: u32,
    /// Directories in one another.
    pub depth: u32,
}

/// A file or directory of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillFile {
    /// Relative to the skill's directory; empty for that directory itself.
    pub path: PathBuf,
    pub is_dir: bool,
    pub bytes: u64,
    /// Whether it may be executed.
    pub executable: bool,
}

/// Why a skill's files can't be taken.
#[derive(Debug, thiserror::Error)]
pub enum SkillFileError {
    #[error("cannot read {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{0} is a link, and a skill has none")]
    Link(PathBuf),
    #[error("{0} is neither a file nor a directory, and a skill has only those")]
    Kind(PathBuf),
    #[error("the name of {0} is not UTF-8")]
    Name(PathBuf),
    #[error("with {0} a butler's skills are larger, more or deeper in directories than they may be")]
    TooMuch(PathBuf),
}

impl SkillFileError {
    /// As a mistake: where, what was found, what was expected. `dir` is told as `shown`.
    pub(super) fn told(&self, dir: &Path, shown: &Path) -> (PathBuf, String, String) {
        let at = |path: &Path| path.strip_prefix(dir).map_or_else(|_| shown.to_owned(), |rest| shown.join(rest));
        let limits = super::SKILL_LIMITS;
        match self {
            Self::Read { path, source } => (at(path), format!("can't be read: {source}"), "a readable file".to_owned()),
            Self::Link(path) => (at(path), "found a link".to_owned(), "a file or a directory".to_owned()),
            Self::Kind(path) => (at(path), "found something else".to_owned(), "a file or a directory".to_owned()),
            Self::Name(path) => (at(path), "found a name that is not UTF-8".to_owned(), "a text".to_owned()),
            Self::TooMuch(path) => (
                at(path),
                "found too much".to_owned(),
                format!(
                    "all skills of a butler to be at most {} MiB and {} files, in directories at most {} deep",
                    limits.bytes >> 20,
                    limits.files,
                    limits.depth
                ),
            ),
        }
    }
}

/// What a path itself is, links not followed; `None` if it isn't there.
pub(super) fn kind(path: &Path) -> io::Result<Option<Metadata>> {
    match path.symlink_metadata() {
        Ok(meta) => Ok(Some(meta)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Everything below `dir`, itself first, parents before what is in them, by name.
pub(super) fn walk(dir: &Path, limits: &Limits) -> Result<Vec<SkillFile>, SkillFileError> {
    let mut found = Vec::new();
    let mut bytes = 0u64;
    let mut open: Vec<(PathBuf, u32)> = vec![(PathBuf::new(), 0)];
    while let Some((path, depth)) = open.pop() {
        let full = if path.as_os_str().is_empty() { dir.to_owned() } else { dir.join(&path) };
        let read = |source| SkillFileError::Read { path: full.clone(), source };
        let meta = full.symlink_metadata().map_err(read)?;
        if meta.is_symlink() {
            return Err(SkillFileError::Link(full));
        }
        if !meta.is_dir() && !meta.is_file() {
            return Err(SkillFileError::Kind(full));
        }
        if path.to_str().is_none() {
            return Err(SkillFileError::Name(full));
        }
        let is_dir = meta.is_dir();
        let len = if is_dir { 0 } else { meta.len() };
        bytes = bytes.saturating_add(len);
        if bytes > limits.bytes || found.len() >= limits.files as usize || depth > limits.depth {
            return Err(SkillFileError::TooMuch(full));
        }
        if is_dir {
            let names: io::Result<Vec<_>> =
                fs::read_dir(&full).map_err(read)?.map(|entry| Ok(entry?.file_name())).collect();
            let mut names = names.map_err(read)?;
            names.sort();
            // The last one put on is the first one taken off.
            open.extend(names.into_iter().rev().map(|name| (path.join(name), depth + 1)));
        }
        found.push(SkillFile { path, is_dir, bytes: len, executable: meta.permissions().mode() & 0o111 != 0 });
    }
    Ok(found)
}
