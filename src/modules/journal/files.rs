//! The journal's files on the disk: a faithful rendering of the rows, which a person may edit.
//!
//! Beside each file, in `.written`, stands what the program last wrote into it: a file that differs was edited, and is
//! never overwritten. A new text is first noted there (`<file>.next`), then swapped with the file at one instant; what
//! is swapped out is looked at before it goes, so that an edit in the same moment is put back and not lost. After a
//! kill at any instant a file has what was noted before or after, and so is known as unedited.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use ::journal::file::{DIRECTORIES, FileName};
use ::journal::wire::RefusedEdit;
use base::task::lock;
use base::{access_list, crash};
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use nix::unistd::Gid;

/// The largest file that is read.
pub(super) const LARGEST: u64 = 1 << 20;
/// Where the program notes what it wrote.
const WRITTEN: &str = ".written";

/// How a file is on the disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum OnDisk {
    Missing,
    /// As the program last wrote it.
    Written,
    /// Somebody made `text` out of what was written.
    Edited {
        written: String,
        text: String,
    },
    /// It can't be read as a text; the sentence says why.
    Strange(String),
}

/// The directory of one tenant's journal.
pub(super) struct JournalFiles {
    root: PathBuf,
    /// Who may read and write the files besides the daemon's user.
    group: Option<Gid>,
    /// The directories above that the group has to come through, the outermost first: the daemon's own ones.
    above: Vec<PathBuf>,
    /// Held from the look at the rows until the files are as they were there: one who looked earlier would else put an
    /// older text over a newer one.
    pub rendering: Arc<tokio::sync::Mutex<()>>,
    writing: Mutex<()>,
    /// What could not be written, and why.
    unwritten: Mutex<BTreeMap<FileName, String>>,
    /// Edits that are not taken in by themselves.
    waiting: Mutex<Vec<RefusedEdit>>,
}

impl JournalFiles {
    pub fn new(root: PathBuf, group: Option<Gid>, above: Vec<PathBuf>) -> Self {
        Self {
            root,
            group,
            above,
            rendering: Arc::default(),
            writing: Mutex::default(),
            unwritten: Mutex::default(),
            waiting: Mutex::default(),
        }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Makes the directories, each as far as nothing else is in its place. The first that could not be made is the error.
    pub fn prepare(&self) -> io::Result<()> {
        if let Some(group) = self.group {
            for above in &self.above {
                DirBuilder::new().recursive(true).mode(0o700).create(above)?;
                // What can't be opened is somebody else's; `closed` says so.
                drop(let_through(above, group));
            }
        }
        let mode = if self.group.is_some() { 0o2770 } else { 0o700 };
        let prepare = |directory: &str| self.give(&directory_at(&self.root.join(directory))?, mode);
        prepare("")?;
        let prepared: Vec<io::Result<()>> = DIRECTORIES.into_iter().map(prepare).collect();
        prepared.into_iter().chain([self.notes().map(drop)]).collect()
    }

    /// Opens what was opened to the group, too, and to a user of an access list, whom the mode's bits of the group bound.
    /// Never by its name: whoever may write beside it can have put something else there.
    fn give(&self, opened: &File, mode: u32) -> io::Result<()> {
        if let Some(group) = self.group {
            nix::unistd::fchown(opened.as_fd(), None, Some(group)).map_err(io::Error::from)?;
        }
        let mode = if access_list::names_a_user(opened) { mode | (mode & 0o700) >> 3 } else { mode };
        opened.set_permissions(Permissions::from_mode(mode))
    }

    /// The first directory on the way to the files through which members of the group can't come. `None`: they get to the
    /// files, or no group was given.
    pub fn closed(&self) -> Option<PathBuf> {
        let group = self.group?;
        let way = fs::canonicalize(&self.root).unwrap_or_else(|_| self.root.clone());
        let mut way: Vec<&Path> = way.ancestors().collect();
        way.reverse();
        way.into_iter()
            .find(|path| !fs::metadata(path).is_ok_and(|about| lets_through(&about, group)))
            .map(Path::to_owned)
    }

    /// Where a file is, and what was noted of it.
    fn place(&self, file: &FileName) -> io::Result<Place> {
        let (directory, name) = file.as_str().rsplit_once('/').unwrap_or(("", file.as_str()));
        let directory = open_directory(&self.root.join(directory))?;
        let notes = self.notes()?;
        let noted = file.as_str().replace('/', "~");
        let [next, draft] = ["next", "draft"].map(|what| within(&notes, &format!("{noted}.{what}")));
        Ok(Place {
            path: within(&directory, name),
            written: within(&notes, &noted),
            next,
            draft,
            _held: [directory, notes],
        })
    }

    /// The directory of notes. Whoever may write beside it can have put another one there, and by links in that have
    /// any file read: only the daemon's own one counts.
    fn notes(&self) -> io::Result<File> {
        let path = self.root.join(WRITTEN);
        let opened = match open_directory(&path) {
            // Not where the journal itself is not there: its own directory has other rights.
            Err(e) if e.kind() == ErrorKind::NotFound && self.root.is_dir() => {
                DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
                open_directory(&path)?
            }
            other => other?,
        };
        match opened.metadata()?.uid() == nix::unistd::geteuid().as_raw() {
            true => Ok(opened),
            false => Err(io::Error::other(format!("{} is not the daemon's own", path.display()))),
        }
    }

    /// What is wrong with the directories, a sentence each: nothing is read or written there.
    pub fn strange_directories(&self) -> Vec<String> {
        let opened = DIRECTORIES.iter().map(|name| open_directory(&self.root.join(name))).chain([self.notes()]);
        let strange = opened.filter_map(Result::err).filter(|e| e.kind() != ErrorKind::NotFound);
        strange
            .map(|e| format!("{e}. Move it away: a new one is made, and what is in the journal's rows comes back"))
            .collect()
    }

    /// How a file is.
    pub fn look(&self, file: &FileName) -> OnDisk {
        match self.place(file) {
            Ok(place) => place.look(file),
            Err(e) if e.kind() == ErrorKind::NotFound => OnDisk::Missing,
            Err(e) => OnDisk::Strange(format!("{file} can't be read: {e}")),
        }
    }

    /// The names in one of the directories. None stand in what is none.
    fn entries(&self, directory: &str) -> Vec<String> {
        let Ok(opened) = open_directory(&self.root.join(directory)) else { return Vec::new() };
        let entries = fs::read_dir(within(&opened, "")).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    /// All files that are there under a name that a journal's file may have.
    pub fn names(&self) -> Vec<FileName> {
        let mut found = vec![FileName::core()];
        for directory in DIRECTORIES {
            let names = self.entries(directory).into_iter().filter(|name| name.ends_with(".md"));
            found.extend(names.filter_map(|name| FileName::read(&format!("{directory}/{name}"))));
        }
        found.sort();
        found
    }

    /// Texts that somebody put there under a name that no file of a journal has.
    pub fn foreign(&self) -> Vec<String> {
        let mut found = Vec::new();
        for directory in std::iter::once("").chain(DIRECTORIES) {
            for name in self.entries(directory) {
                let path = if directory.is_empty() { name.clone() } else { format!("{directory}/{name}") };
                let own = FileName::read(&path).is_some_and(|file| file.as_str() == path);
                if name.ends_with(".md") && !name.starts_with('.') && !own {
                    found.push(path);
                }
            }
        }
        found.sort();
        found
    }

    /// Notes that a text which somebody wrote is the journal's own now.
    pub fn accept(&self, file: &FileName, text: &str) -> io::Result<()> {
        let _writing = lock(&self.writing);
        replace(&self.place(file)?.written, text)
    }

    /// Gives a file this text; without one it goes. Returns whether it was done: an edited file stays as it is.
    pub fn write(&self, file: &FileName, text: Option<&str>) -> io::Result<bool> {
        let _writing = lock(&self.writing);
        let done = self.write_alone(file, text);
        let mut unwritten = lock(&self.unwritten);
        match &done {
            Ok(_) => drop(unwritten.remove(file)),
            Err(e) => drop(unwritten.insert(file.clone(), e.to_string())),
        }
        done
    }

    /// What is not on the disk as it is to be, a sentence each without its end.
    pub fn unwritten(&self) -> Vec<String> {
        lock(&self.unwritten).iter().map(|(file, why)| format!("{file} can't be written: {why}")).collect()
    }

    /// These edits, and no others, are not taken in by themselves.
    pub fn wait(&self, edits: Vec<RefusedEdit>) {
        *lock(&self.waiting) = edits;
    }

    /// Why edits wait that would be taken in by themselves.
    pub fn waiting(&self) -> Vec<String> {
        lock(&self.waiting).iter().map(|RefusedEdit { file, why }| format!("The edit of {file} waits: {why}")).collect()
    }

    fn write_alone(&self, file: &FileName, text: Option<&str>) -> io::Result<bool> {
        let place = self.place(file)?;
        let found = place.look(file);
        let Place { path, written, next, draft, .. } = &place;
        let there = read(path).ok().flatten();
        // A kill may have come between the file and its note.
        if there.is_some() && there == noted(next) {
            fs::rename(next, written)?;
        }
        match (&found, text) {
            (OnDisk::Written, Some(text)) if there.as_deref() == Some(text) => return Ok(true),
            // Whatever made it that: it is what it is to be.
            (OnDisk::Edited { text: there, .. }, Some(text)) if there == text => {
                replace(written, text)?;
                return Ok(true);
            }
            (OnDisk::Edited { .. } | OnDisk::Strange(_), _) => return Ok(false),
            (OnDisk::Missing, None) => {
                forget(written)?;
                return Ok(true);
            }
            (OnDisk::Written, None) => {
                fs::remove_file(path)?;
                forget(written)?;
                forget(next)?;
                return Ok(true);
            }
            (OnDisk::Written | OnDisk::Missing, Some(_)) => {}
        }
        let text = text.unwrap_or_default();
        replace(next, text)?;
        crash::point("journal.noted");
        let mode = if self.group.is_some() { 0o660 } else { 0o600 };
        self.give(&make_anew(draft, text)?, mode)?;
        if found == OnDisk::Missing {
            match renameat2(AT_FDCWD, draft, AT_FDCWD, path, RenameFlags::RENAME_NOREPLACE) {
                Ok(()) => {}
                // Somebody made it in this moment.
                Err(nix::errno::Errno::EEXIST) => return self.leave(draft, next),
                Err(e) => return Err(e.into()),
            }
        } else {
            let swap =
                || renameat2(AT_FDCWD, draft, AT_FDCWD, path, RenameFlags::RENAME_EXCHANGE).map_err(io::Error::from);
            swap()?;
            let out = read(draft).ok().flatten();
            let was = noted(written).unwrap_or_default();
            if out.as_deref() != Some(&*was) && out.as_deref() != Some(text) {
                // Somebody saved in this moment: theirs stays.
                swap()?;
                return self.leave(draft, next);
            }
            forget(draft)?;
        }
        crash::point("journal.swapped");
        fs::rename(next, written)?;
        Ok(true)
    }

    fn leave(&self, draft: &Path, next: &Path) -> io::Result<bool> {
        forget(draft)?;
        forget(next)?;
        Ok(false)
    }
}

/// Where a file and the notes on it are, below directories that are held open: whatever somebody puts in the place of a
/// directory meanwhile, nothing elsewhere is read or written.
struct Place {
    path: PathBuf,
    /// What was last written.
    written: PathBuf,
    /// What was about to be.
    next: PathBuf,
    /// The new file until it takes its place: not beside it, where others may write and have put something in the way.
    draft: PathBuf,
    _held: [File; 2],
}

impl Place {
    fn look(&self, file: &FileName) -> OnDisk {
        let text = match read(&self.path) {
            Ok(Some(text)) => text,
            Ok(None) => return OnDisk::Missing,
            Err(why) => return OnDisk::Strange(format!("{file} {why}")),
        };
        let (written, next) = (noted(&self.written), noted(&self.next));
        if next.as_deref() == Some(&text) || written.as_deref() == Some(&text) {
            return OnDisk::Written;
        }
        OnDisk::Edited { written: written.unwrap_or_default(), text }
    }
}

/// A note, as far as there is one that can be read.
fn noted(path: &Path) -> Option<String> {
    read(path).ok().flatten()
}

/// A file's text. `None`: there is none. The error ends a sentence that begins with the file's name.
fn read(path: &Path) -> Result<Option<String>, String> {
    let mut options = OpenOptions::new();
    // Not what a link points to: it may be anything.
    let opened = options.read(true).custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK).open(path);
    let file: File = match opened {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(format!("can't be read: {e}")),
    };
    let about = file.metadata().map_err(|e| format!("can't be read: {e}"))?;
    if !about.is_file() {
        return Err("is no file".to_owned());
    }
    if about.len() > LARGEST {
        return Err(format!("has more than {LARGEST} bytes"));
    }
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|e| format!("can't be read: {e}"))?;
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(Some(text)),
        _ => Err("is no text".to_owned()),
    }
}

/// Replaces a file as a whole, at one instant.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let temporary = path.with_extension("new");
    make_anew(&temporary, text)?;
    fs::rename(&temporary, path)
}

/// A file that was not there before: what a kill left goes, and no link is followed.
fn make_anew(path: &Path, text: &str) -> io::Result<File> {
    forget(path)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    Ok(file)
}

/// A directory, made where it is missing.
fn directory_at(path: &Path) -> io::Result<File> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    open_directory(path)
}

/// The path of a name in an open directory, wherever that is by now.
fn within(directory: &File, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{name}", directory.as_raw_fd()))
}

/// A directory. A link in its place is none.
fn open_directory(path: &Path) -> io::Result<File> {
    let flags = nix::libc::O_DIRECTORY | nix::libc::O_NOFOLLOW;
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    opened.map_err(|e| io::Error::new(e.kind(), format!("{} is no directory: {e}", path.display())))
}

/// Whether members of the group come through a directory.
fn lets_through(about: &fs::Metadata, group: Gid) -> bool {
    let mode = about.mode();
    if about.gid() == group.as_raw() { mode & 0o010 != 0 } else { mode & 0o001 != 0 }
}

/// Lets a group through a directory of the daemon's user, and no further: its members see no names there. What another
/// group may already do there stays as it is.
fn let_through(path: &Path, group: Gid) -> io::Result<()> {
    let opened = OpenOptions::new().read(true).custom_flags(nix::libc::O_DIRECTORY).open(path)?;
    let about = opened.metadata()?;
    let is_anothers = about.gid() != group.as_raw() && about.mode() & 0o070 != 0;
    if lets_through(&about, group) || is_anothers || about.uid() != nix::unistd::geteuid().as_raw() {
        return Ok(());
    }
    nix::unistd::fchown(opened.as_fd(), None, Some(group)).map_err(io::Error::from)?;
    opened.set_permissions(Permissions::from_mode(about.mode() & 0o7777 | 0o010))
}

fn forget(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
