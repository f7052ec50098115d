//! Backups: the whole database in one encrypted file, and back.
//!
//! A backup is one moment of all schemas: what they were made of (the texts of the migrations, from their histories),
//! every row of every table, the positions of sequences. A restore makes the schemas again and fills them, in an empty
//! place, in one transaction, and only from a file that was read to its end and found whole.
//!
//! What never happens here: a master key in a backup, a file that looks whole and isn't, half a restore, a household
//! written over.

mod catalog;
mod dump;
mod error;
mod file;
mod fill;
mod place;
mod records;
mod scheduled;
mod sealed;

use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;

pub use error::BackupError;
pub use place::Where;
pub use scheduled::scheduled;
pub use sealed::{Head, SealError};

use access::credentials::MasterKey;
use base::{Clock, Secret};
use file::Draft;
use records::{Manifest, Reader, Writer};
use sealed::{Beginning, FORM, Opener, Sealer};
use store::replay;

/// How much there is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub tables: usize,
    pub rows: u64,
}

/// A backup, as it is told of.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    pub file: PathBuf,
    pub bytes: u64,
    pub created_at: Timestamp,
    pub butlerd: String,
    /// The server's version, where it was written.
    pub postgres: String,
    pub butlers: Vec<String>,
    #[serde(flatten)]
    pub counts: Counts,
    /// The master key under which it was written. It is not in it.
    pub master_key: PathBuf,
}

impl Summary {
    fn of(file: &Path, bytes: u64, head: Head, manifest: Manifest, counts: Counts, master_key: &Path) -> Self {
        Self {
            file: file.to_owned(),
            bytes,
            created_at: head.created_at,
            butlerd: head.butlerd,
            postgres: manifest.postgres,
            butlers: manifest.places.into_iter().map(|p| p.butler).collect(),
            counts,
            master_key: master_key.to_owned(),
        }
    }
}

/// Writes the household to `file`, which may be there already only with `force`. With `snapshot`, as of that moment,
/// which another transaction has exported.
pub async fn backup(
    from: &Where<'_>,
    file: &Path,
    force: bool,
    snapshot: Option<&str>,
    clock: &Clock,
) -> Result<Summary, BackupError> {
    let key = from.key()?;
    from.refuse_other_key(&key)?;
    let draft = Draft::begin(file, force)?;
    let mut salt = [0u8; 32];
    getrandom::fill(&mut salt).map_err(BackupError::Entropy)?;
    let head = Head {
        form: FORM,
        butlerd: env!("CARGO_PKG_VERSION").to_owned(),
        created_at: clock.now(),
        key_id: sealed::key_id(key.bytes()),
        salt: base::text::hex(&salt),
    };
    let write = |source| BackupError::File { path: file.to_owned(), step: "written", source };
    let mut to = Writer::new(Sealer::begin(draft, &head, key.bytes()).map_err(write)?);
    let mut open = from.open(&key).await?;
    let dumped = dump::dump(&mut open.client, &mut to, file, &open.words, snapshot).await;
    open.close().await;
    let (manifest, counts) = dumped?;
    let bytes = to.finish().map_err(write)?.finish()?;
    Ok(Summary::of(file, bytes, head, manifest, counts, key.path()))
}

/// Reads all of a backup and says what is in it; changes nothing.
pub fn examine(with: &Where<'_>, file: &Path) -> Result<Summary, BackupError> {
    let key = with.key()?;
    let (_, summary) = whole(file, &key)?;
    Ok(summary)
}

/// Restores `file` into an empty place.
pub async fn restore(into: &Where<'_>, file: &Path) -> Result<Summary, BackupError> {
    let key = into.key()?;
    into.refuse_running()?;
    into.refuse_other_key(&key)?;
    let (mut source, mut summary) = whole(file, &key)?;
    summary.master_key = into.place_key(&key)?;
    base::crash::point("restore.key_placed");
    let mut open = into.start(&key, true).await?;
    let reader = source.records(file, key.bytes());
    let filled = match reader {
        Ok((_, mut reader)) => fill::fill(&mut open.client, &mut reader, file, &open.words, key.bytes()).await,
        Err(e) => Err(e),
    };
    open.close().await;
    summary.counts = filled?;
    Ok(summary)
}

/// Reads a file to its end, and insists that it is whole, written under this key, and of a kind that this butlerd can
/// go on with.
fn whole(file: &Path, key: &MasterKey) -> Result<(Source, Summary), BackupError> {
    let mut source = Source::open(file)?;
    let bytes = source.bytes;
    let (head, mut reader) = source.records(file, key.bytes())?;
    if head.form != FORM {
        return Err(BackupError::Form { file: file.to_owned(), by: head.butlerd });
    }
    if head.key_id != sealed::key_id(key.bytes()) {
        return Err(BackupError::WrongKey { file: file.to_owned(), key: key.path().to_owned() });
    }
    let (manifest, counts) = fill::examine(&mut reader, file)?;
    drop(reader);
    replay::check(&manifest.places, &manifest.applied).map_err(BackupError::Version)?;
    let summary = Summary::of(file, bytes, head, manifest, counts, key.path());
    Ok((source, summary))
}

/// A backup that is read, twice: once to see that it is whole, once for its rows.
struct Source {
    file: File,
    bytes: u64,
}

impl Source {
    fn open(path: &Path) -> Result<Self, BackupError> {
        let fail = |source| BackupError::File { path: path.to_owned(), step: "read", source };
        let file = File::open(path).map_err(fail)?;
        let bytes = file.metadata().map_err(fail)?.len();
        Ok(Self { file, bytes })
    }

    /// Its head and its records, from the beginning.
    fn records(&mut self, path: &Path, master_key: &Secret<Vec<u8>>) -> Result<(Head, Reader<impl Read>), BackupError> {
        let fail = |source| BackupError::File { path: path.to_owned(), step: "read", source };
        self.file.rewind().map_err(fail)?;
        let mut from = BufReader::with_capacity(1 << 20, &self.file);
        match sealed::beginning(&mut from).map_err(fail)? {
            Beginning::Foreign => Err(BackupError::Foreign(path.to_owned())),
            Beginning::Cut(at) => Err(BackupError::Broken { file: path.to_owned(), problem: SealError::Cut(at) }),
            Beginning::Head(head, bytes) => {
                let opener = Opener::behind(from, &head, &bytes, master_key);
                Ok((head, Reader::new(opener)))
            }
        }
    }
}
