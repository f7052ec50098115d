//! Changes to files: thought out in memory, then written all or none.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::error::InitError;
use super::{Change, diff};
use base::crash;

/// What files are to hold, beside what they hold now.
#[derive(Debug, Default)]
pub(super) struct Files {
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    /// Where the file is, links resolved.
    path: PathBuf,
    what: Vec<String>,
    /// `None`: there is no such file.
    before: Option<String>,
    after: Option<String>,
    /// Backups that hold nothing else than what the file will.
    needless: Vec<PathBuf>,
}

impl Files {
    /// Changes what a file is to hold, by what it would hold without this change. `what` says what for.
    pub fn edit(
        &mut self,
        path: &Path,
        what: &str,
        change: impl FnOnce(Option<&str>) -> Result<Option<String>, InitError>,
    ) -> Result<(), InitError> {
        let path = resolved(path).map_err(|source| InitError::Read { path: path.to_owned(), source })?;
        let n = match self.entries.iter().position(|entry| entry.path == path) {
            Some(n) => n,
            None => {
                let before = read(&path).map_err(|source| InitError::Read { path: path.clone(), source })?;
                let after = before.clone();
                self.entries.push(Entry { path, what: Vec::new(), before, after, needless: Vec::new() });
                self.entries.len() - 1
            }
        };
        let entry = &mut self.entries[n];
        let after = change(entry.after.as_deref())?;
        if after != entry.after {
            entry.after = after;
            entry.what.push(what.to_owned());
        }
        Ok(())
    }

    /// The same for a file of a project, which a link must not lead out of it.
    pub fn edit_inside(
        &mut self,
        top: &Path,
        name: &str,
        what: &str,
        change: impl FnOnce(Option<&str>) -> Result<Option<String>, InitError>,
    ) -> Result<(), InitError> {
        match outside(top, name)? {
            Some(target) => Err(InitError::Outside { path: top.join(name), target }),
            None => self.edit(&top.join(name), what, change),
        }
    }

    /// After what was registered is taken out: files come back as their backups have them, where nothing else differs.
    pub fn return_to_backups(&mut self) -> Result<(), InitError> {
        for entry in self.entries.iter_mut().filter(|entry| entry.before != entry.after) {
            let rest = |text: &str| if text.trim() == "{}" { String::new() } else { text.trim().to_owned() };
            let left = rest(entry.after.as_deref().unwrap_or_default());
            for backup in (0..).map(|n| backup_name(&entry.path, n)) {
                let text = read(&backup).map_err(|source| InitError::Read { path: backup.clone(), source })?;
                let Some(text) = text else { break };
                if rest(&text) == left {
                    entry.after = Some(text);
                    entry.needless.push(backup);
                }
            }
        }
        Ok(())
    }

    pub fn changes(&self, done: bool) -> Vec<Change> {
        let changed = self.entries.iter().filter(|entry| entry.before != entry.after);
        let change = |entry: &Entry| Change {
            path: entry.path.clone(),
            what: entry.what.join("; "),
            diff: diff::lines(entry.before.as_deref().unwrap_or_default(), entry.after.as_deref().unwrap_or_default()),
            done,
        };
        changed.map(change).collect()
    }

    /// Writes all that changes. Where one can't be written, those before it are put back. `backups`: what a file held
    /// is kept beside it.
    pub fn write(&self, backups: bool) -> Result<Written, InitError> {
        let mut written = Written::default();
        for entry in self.entries.iter().filter(|entry| entry.before != entry.after) {
            if let Err(error) = entry.write(backups, &mut written) {
                return Err(written.put_back(error));
            }
        }
        Ok(written)
    }
}

impl Entry {
    fn write(&self, backups: bool, written: &mut Written) -> Result<(), InitError> {
        let failed = |source| InitError::Write { path: self.path.clone(), source };
        if read(&self.path).map_err(failed)? != self.before {
            return Err(InitError::Changed { path: self.path.clone() });
        }
        let permissions = fs::metadata(&self.path).ok().map(|found| found.permissions());
        if let (true, Some(before)) = (backups, &self.before) {
            written.backups.extend(back_up(&self.path, before, permissions.as_ref()).map_err(failed)?);
            crash::point("init.backed_up");
        }
        if let Some(directory) = self.path.parent() {
            let missing: Vec<_> =
                directory.ancestors().take_while(|above| !above.exists()).map(Path::to_owned).collect();
            written.directories.extend(missing);
            fs::create_dir_all(directory).map_err(failed)?;
        }
        put(&self.path, self.after.as_deref(), permissions.as_ref()).map_err(failed)?;
        crash::point("init.written");
        written.files.push((self.path.clone(), self.before.clone(), permissions));
        for backup in &self.needless {
            // It is only one file too many when this fails.
            let _ = fs::remove_file(backup);
        }
        // The directory of an assistant, or of a skill, goes with the last file in it.
        let is_ours = |dir: &&Path| {
            let skills = dir.parent().is_some_and(|above| above.ends_with("skills"));
            dir.ends_with(".claude") || dir.ends_with(".gemini") || skills
        };
        let directory = self.path.parent().filter(is_ours);
        if let (None, Some(directory)) = (&self.after, directory) {
            let _ = fs::remove_dir(directory);
        }
        Ok(())
    }
}

/// What was written, so that it can be put back.
#[derive(Debug, Default)]
pub(super) struct Written {
    files: Vec<(PathBuf, Option<String>, Option<Permissions>)>,
    backups: Vec<PathBuf>,
    directories: Vec<PathBuf>,
}

impl Written {
    /// Puts everything back, because of `error`; says in it if that is not possible either.
    pub fn put_back(self, error: InitError) -> InitError {
        let mut failed = None;
        for (path, before, permissions) in self.files.into_iter().rev() {
            let directory = path.parent().map_or(Ok(()), fs::create_dir_all);
            if let Err(why) = directory.and_then(|()| put(&path, before.as_deref(), permissions.as_ref())) {
                failed.get_or_insert((path, why));
            }
        }
        for path in self.backups {
            let _ = fs::remove_file(path);
        }
        for path in self.directories {
            let _ = fs::remove_dir(path);
        }
        match failed {
            None => error,
            Some((path, why)) => {
                InitError::Restore { first: Box::new(error), what: path.display().to_string(), why: why.to_string() }
            }
        }
    }
}

/// Where a file of a project really is, if that is not in the project.
pub(super) fn outside(top: &Path, name: &str) -> Result<Option<PathBuf>, InitError> {
    let failed = |source| InitError::Read { path: top.join(name), source };
    let (real_top, target) = (resolved(top).map_err(failed)?, resolved(&top.join(name)).map_err(failed)?);
    Ok((!target.starts_with(&real_top)).then_some(target))
}

/// The text of a file; none: there is no such file.
pub(super) fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::metadata(path) {
        // A pipe would be waited for.
        Ok(found) if !found.is_file() => Err(io::Error::other("it is no file")),
        Ok(_) => fs::read_to_string(path).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A path without links; its end need not exist.
fn resolved(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if fs::symlink_metadata(path).is_ok() {
                return Err(io::Error::other("it is a link to what does not exist"));
            }
            match (path.parent(), path.file_name()) {
                (Some(parent), Some(name)) => Ok(resolved(parent)?.join(name)),
                _ => Err(error),
            }
        }
        other => other,
    }
}

fn backup_name(path: &Path, n: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".bak");
    if n > 0 {
        name.push(format!(".{n}"));
    }
    name.into()
}

/// Keeps a text beside its file unless a backup holds it already. Returns the new backup.
fn back_up(path: &Path, text: &str, permissions: Option<&Permissions>) -> io::Result<Option<PathBuf>> {
    for backup in (0..).map(|n| backup_name(path, n)) {
        match fs::read(&backup) {
            Ok(held) if held == text.as_bytes() => return Ok(None),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                create(&backup, text, permissions)?;
                return Ok(Some(backup));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Makes a file; one that is there, also as a link, is an error.
fn create(path: &Path, text: &str, permissions: Option<&Permissions>) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    let filled = permissions.map_or(Ok(()), |permissions| file.set_permissions(permissions.clone()));
    let filled = filled.and_then(|()| file.write_all(text.as_bytes())).and_then(|()| file.sync_all());
    filled.inspect_err(|_| {
        let _ = fs::remove_file(path);
    })
}

/// Gives a file this text at one instant, or takes it away.
fn put(path: &Path, text: Option<&str>, permissions: Option<&Permissions>) -> io::Result<()> {
    let Some(text) = text else {
        return match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    };
    let draft_of = format!(".{}.butlerd-", path.file_name().unwrap_or_default().to_string_lossy());
    forget_drafts(path, &draft_of);
    let draft = path.with_file_name(format!("{draft_of}{}", std::process::id()));
    create(&draft, text, permissions)?;
    crash::point("init.drafted");
    fs::rename(&draft, path).inspect_err(|_| {
        let _ = fs::remove_file(&draft);
    })
}

/// Takes away what runs left beside a file that were killed in the middle.
fn forget_drafts(path: &Path, draft_of: &str) {
    let beside = path.parent().map(fs::read_dir).into_iter().flatten().flatten().flatten();
    for entry in beside {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(draft_of)).filter(|of| of.parse::<u32>().is_ok());
        if process.is_some_and(|of| !Path::new("/proc").join(of).exists()) {
            // It is only one file too many when this fails.
            let _ = fs::remove_file(entry.path());
        }
    }
}
