//! The master key: 32 random bytes, from systemd's credentials or from a file of the data directory.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use base::Secret;
use base::redact::household;

/// Why there is no master key.
#[derive(Debug, thiserror::Error)]
pub enum MasterKeyError {
    #[error("the master key {path} can't be {step}: {source}")]
    File {
        path: PathBuf,
        step: &'static str,
        #[source]
        source: std::io::Error,
    },
    #[error("the master key {path} is damaged: it must be 32 bytes in base64; put the backup of it back")]
    Damaged { path: PathBuf },
    #[error("the master key {path} can be read by others; run: chmod 600 {path}")]
    Readable { path: PathBuf },
    #[error("no random bytes for a master key: {0}")]
    Entropy(getrandom::Error),
}

/// The key from which all others are derived.
pub struct MasterKey {
    bytes: Secret<Vec<u8>>,
    path: PathBuf,
    created: bool,
}

impl MasterKey {
    /// Reads `$CREDENTIALS_DIRECTORY/master.key`, else `<data_dir>/master.key`, which is made at the first start.
    pub fn load(credentials_dir: Option<&Path>, data_dir: &Path) -> Result<Self, MasterKeyError> {
        match Self::find(credentials_dir, data_dir)? {
            Some(key) => Ok(key),
            None => Self::create(data_dir.join("master.key")),
        }
    }

    /// As [`MasterKey::load`], but makes none.
    pub fn find(credentials_dir: Option<&Path>, data_dir: &Path) -> Result<Option<Self>, MasterKeyError> {
        let places = credentials_dir.into_iter().chain([data_dir]).map(|dir| dir.join("master.key"));
        places.into_iter().find(|path| path.exists()).map(Self::read).transpose()
    }

    /// Puts a copy of this key into a data directory that has none.
    pub fn place(&self, data_dir: &Path) -> Result<Self, MasterKeyError> {
        let path = data_dir.join("master.key");
        write_whole(&path, &Secret::new(BASE64.encode(self.bytes.expose()) + "\n"))?;
        Self::read(path)
    }

    fn new(bytes: Vec<u8>, path: PathBuf, created: bool) -> Self {
        // As bytes, and as the text of its file.
        household().hide_bytes(&bytes);
        household().hide(&Secret::new(BASE64.encode(&bytes)));
        Self { bytes: Secret::new(bytes), path, created }
    }

    /// Reads a key's file, wherever it is.
    pub fn read(path: PathBuf) -> Result<Self, MasterKeyError> {
        let fail = |source| MasterKeyError::File { path: path.clone(), step: "read", source };
        let mut file = File::open(&path).map_err(fail)?;
        if file.metadata().map_err(fail)?.mode() & 0o077 != 0 {
            return Err(MasterKeyError::Readable { path });
        }
        let mut buffer = String::new();
        file.read_to_string(&mut buffer).map_err(fail)?;
        let text = Secret::new(buffer);
        match BASE64.decode(text.expose().trim()) {
            Ok(bytes) if bytes.len() == 32 => Ok(Self::new(bytes, path, false)),
            _ => Err(MasterKeyError::Damaged { path }),
        }
    }

    fn create(path: PathBuf) -> Result<Self, MasterKeyError> {
        let mut bytes = vec![0u8; 32];
        getrandom::fill(&mut bytes).map_err(MasterKeyError::Entropy)?;
        write_whole(&path, &Secret::new(BASE64.encode(&bytes) + "\n"))?;
        Ok(Self::new(bytes, path, true))
    }

    /// The key's bytes.
    pub fn bytes(&self) -> &Secret<Vec<u8>> {
        &self.bytes
    }
    /// Where it stands.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// Whether this start made it, so that the owner is told to back it up.
    pub fn is_new(&self) -> bool {
        self.created
    }
}

/// Whole or not at all: a kill must not leave half a key behind that later starts would trust.
fn write_whole(path: &Path, text: &Secret<String>) -> Result<(), MasterKeyError> {
    let fail = |source| MasterKeyError::File { path: path.to_owned(), step: "written", source };
    let temporary = path.with_extension("key.new");
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary).map_err(fail)?;
    file.write_all(text.expose().as_bytes()).map_err(fail)?;
    file.sync_all().map_err(fail)?;
    std::fs::rename(&temporary, path).map_err(fail)?;
    match path.parent() {
        Some(dir) => File::open(dir).and_then(|d| d.sync_all()).map_err(fail),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_is_made_once_kept_private_and_checked() {
        let dir = tempfile::tempdir().unwrap();
        let first = MasterKey::load(None, dir.path()).unwrap();
        let second = MasterKey::load(None, dir.path()).unwrap();
        assert!(first.is_new() && !second.is_new());
        assert_eq!(first.bytes().expose(), second.bytes().expose());
        let path = dir.path().join("master.key");
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);

        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(MasterKey::load(None, dir.path()), Err(MasterKeyError::Readable { .. })));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&path, "short").unwrap();
        assert!(matches!(MasterKey::load(None, dir.path()), Err(MasterKeyError::Damaged { .. })));
    }
}
