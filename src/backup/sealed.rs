//! The sealed stream: a clear head, then chunks of XChaCha20-Poly1305.
//!
//! Each file has a key of its own, derived from the master key and the file's salt. A chunk's nonce is its number and
//! whether it is the last, and the head is authenticated with every chunk: so chunks can't be left out, moved, taken
//! from another file or added, and a file that was cut off never reads as a whole one.

use std::io::{self, Read, Write};

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use base::Secret;
use store::derive;

const MAGIC: &[u8; 16] = b"butlerd backup\r\n";
/// The form of what follows the head.
pub(super) const FORM: u32 = 1;
/// Small in unit tests, which read the same file hundreds of times, with ciphers that nobody optimised.
const CHUNK: usize = if cfg!(test) { 1024 } else { 256 * 1024 };
const TAG: usize = 16;
const LAST: u32 = 1 << 31;
const MOST_HEAD: u32 = 64 * 1024;

/// What anybody may read of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    pub form: u32,
    /// The version of butlerd that wrote it.
    pub butlerd: String,
    pub created_at: jiff::Timestamp,
    /// Names the master key without telling anything of it.
    pub key_id: String,
    /// 64 hex digits, of this file alone.
    pub salt: String,
}

/// What is wrong with a sealed stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    #[error("is cut off after {0} bytes")]
    Cut(u64),
    #[error("is damaged at byte {0} or a little later")]
    Damaged(u64),
    #[error("has more behind its end, which is at byte {0}")]
    Trailing(u64),
}

/// Names the master key in a head.
pub(super) fn key_id(master_key: &Secret<Vec<u8>>) -> String {
    derive(master_key, "backup-key-id")[..16].to_owned()
}

fn cipher(master_key: &Secret<Vec<u8>>, salt: &str) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(&Sha256::digest(derive(master_key, &format!("backup:{salt}")).as_bytes()))
}

fn nonce(number: u64, last: bool) -> XNonce {
    let mut bytes = [0u8; 24];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes[8] = u8::from(last);
    XNonce::from(bytes)
}

/// The head as it stands in the file, and what binds the chunks to it.
fn head_bytes(head: &Head) -> io::Result<Vec<u8>> {
    let json = serde_json::to_vec(head)?;
    let length = u32::try_from(json.len()).map_err(io::Error::other)?;
    Ok([MAGIC.as_slice(), &length.to_be_bytes(), &json].concat())
}

/// Seals what is written to it. Without [`Sealer::finish`] the file is one that was cut off.
pub(super) struct Sealer<W: Write> {
    out: W,
    cipher: XChaCha20Poly1305,
    bound: Vec<u8>,
    number: u64,
    buffer: Vec<u8>,
}

impl<W: Write> Sealer<W> {
    /// Writes the head.
    pub fn begin(mut out: W, head: &Head, master_key: &Secret<Vec<u8>>) -> io::Result<Self> {
        let bytes = head_bytes(head)?;
        out.write_all(&bytes)?;
        let bound = Sha256::digest(&bytes).to_vec();
        let cipher = cipher(master_key, &head.salt);
        Ok(Self { out, cipher, bound, number: 0, buffer: Vec::with_capacity(CHUNK) })
    }

    fn chunk(&mut self, last: bool) -> io::Result<()> {
        let payload = Payload { msg: &self.buffer, aad: &self.bound };
        let sealed = self.cipher.encrypt(&nonce(self.number, last), payload);
        let sealed = sealed.map_err(|_| io::Error::other("a chunk can't be encrypted"))?;
        let length = u32::try_from(sealed.len()).map_err(io::Error::other)?;
        self.out.write_all(&(length | if last { LAST } else { 0 }).to_be_bytes())?;
        self.out.write_all(&sealed)?;
        self.number += 1;
        self.buffer.clear();
        Ok(())
    }

    /// Seals the rest as the last chunk.
    pub fn finish(mut self) -> io::Result<W> {
        self.chunk(true)?;
        Ok(self.out)
    }
}

impl<W: Write> Write for Sealer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() == CHUNK {
            self.chunk(false)?;
        }
        let taken = bytes.len().min(CHUNK - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    /// Only whole chunks are written before the end.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a file begins with.
pub(super) enum Beginning {
    Foreign,
    Cut(u64),
    Head(Head, Vec<u8>),
}

/// Reads as much as there is of `buffer`.
fn fill(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut have = 0;
    while have < buffer.len() {
        match from.read(&mut buffer[have..]) {
            Ok(0) => break,
            Ok(n) => have += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(have)
}

/// Reads the head. Nothing of it is proven yet: the chunks do that.
pub(super) fn beginning(from: &mut impl Read) -> io::Result<Beginning> {
    let mut start = [0u8; 20];
    let have = fill(from, &mut start)?;
    let known = have.min(MAGIC.len());
    if have == 0 || start[..known] != MAGIC[..known] {
        return Ok(Beginning::Foreign);
    }
    if have < start.len() {
        return Ok(Beginning::Cut(have as u64));
    }
    let length = u32::from_be_bytes([start[16], start[17], start[18], start[19]]);
    if length > MOST_HEAD {
        return Ok(Beginning::Foreign);
    }
    let mut json = vec![0u8; length as usize];
    let more = fill(from, &mut json)?;
    if more < json.len() {
        return Ok(Beginning::Cut((have + more) as u64));
    }
    match serde_json::from_slice(&json) {
        Ok(head) => Ok(Beginning::Head(head, [start.as_slice(), &json].concat())),
        Err(_) => Ok(Beginning::Foreign),
    }
}

/// Reads what was sealed. Its errors hold a [`SealError`], unless the file itself can't be read.
pub(super) struct Opener<R: Read> {
    from: R,
    cipher: XChaCha20Poly1305,
    bound: Vec<u8>,
    number: u64,
    /// Where in the file the next chunk begins.
    at: u64,
    clear: Vec<u8>,
    taken: usize,
    ended: bool,
}

fn wrong(e: SealError) -> io::Error {
    io::Error::other(e)
}

impl<R: Read> Opener<R> {
    /// Goes on behind a head, given with its bytes.
    pub fn behind(from: R, head: &Head, bytes: &[u8], master_key: &Secret<Vec<u8>>) -> Self {
        let (cipher, bound) = (cipher(master_key, &head.salt), Sha256::digest(bytes).to_vec());
        let (number, at, taken, ended) = (0, bytes.len() as u64, 0, false);
        Self { from, cipher, bound, number, at, clear: Vec::new(), taken, ended }
    }

    fn chunk(&mut self) -> io::Result<()> {
        let mut prefix = [0u8; 4];
        let have = fill(&mut self.from, &mut prefix)?;
        if have < prefix.len() {
            return Err(wrong(SealError::Cut(self.at + have as u64)));
        }
        let prefix = u32::from_be_bytes(prefix);
        let (last, length) = (prefix & LAST != 0, (prefix & !LAST) as usize);
        if !(TAG..=CHUNK + TAG).contains(&length) {
            return Err(wrong(SealError::Damaged(self.at)));
        }
        let mut sealed = vec![0u8; length];
        let have = fill(&mut self.from, &mut sealed)?;
        if have < length {
            return Err(wrong(SealError::Cut(self.at + 4 + have as u64)));
        }
        let payload = Payload { msg: &sealed, aad: &self.bound };
        let clear = self.cipher.decrypt(&nonce(self.number, last), payload);
        self.clear = clear.map_err(|_| wrong(SealError::Damaged(self.at)))?;
        self.taken = 0;
        self.number += 1;
        self.at += 4 + length as u64;
        if last {
            self.ended = true;
            if fill(&mut self.from, &mut [0u8])? > 0 {
                return Err(wrong(SealError::Trailing(self.at)));
            }
        }
        Ok(())
    }
}

impl<R: Read> Read for Opener<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.clear.len() && !self.ended {
            self.chunk()?;
        }
        let n = buffer.len().min(self.clear.len() - self.taken);
        buffer[..n].copy_from_slice(&self.clear[self.taken..self.taken + n]);
        self.taken += n;
        Ok(n)
    }
}

/// The [`SealError`] in an error of reading.
pub(super) fn seal_error(e: &io::Error) -> Option<SealError> {
    e.get_ref()?.downcast_ref::<SealError>().cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> Secret<Vec<u8>> {
        Secret::new(vec![byte; 32])
    }

    fn head(salt: &str) -> Head {
        let created_at = "2026-01-01T00:00:00Z".parse().unwrap();
        Head { form: FORM, butlerd: "0".into(), created_at, key_id: key_id(&key(1)), salt: salt.into() }
    }

    fn seal(salt: &str, content: &[u8]) -> Vec<u8> {
        let mut sealer = Sealer::begin(Vec::new(), &head(salt), &key(1)).unwrap();
        sealer.write_all(content).unwrap();
        sealer.finish().unwrap()
    }

    fn open(file: &[u8], key: &Secret<Vec<u8>>) -> Result<Vec<u8>, String> {
        let mut from = file;
        let (head, bytes) = match beginning(&mut from).unwrap() {
            Beginning::Head(head, bytes) => (head, bytes),
            Beginning::Foreign => return Err("foreign".into()),
            Beginning::Cut(at) => return Err(SealError::Cut(at).to_string()),
        };
        let mut clear = Vec::new();
        let read = Opener::behind(from, &head, &bytes, key).read_to_end(&mut clear);
        read.map(|_| clear).map_err(|e| seal_error(&e).unwrap().to_string())
    }

    /// Where the chunks are in a file.
    fn chunks(file: &[u8]) -> Vec<std::ops::Range<usize>> {
        let mut at = 20 + u32::from_be_bytes(file[16..20].try_into().unwrap()) as usize;
        let mut found = Vec::new();
        while at < file.len() {
            let length = (u32::from_be_bytes(file[at..at + 4].try_into().unwrap()) & !LAST) as usize;
            found.push(at..at + 4 + length);
            at += 4 + length;
        }
        found
    }

    #[test]
    fn what_was_sealed_is_read_again() {
        for size in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK] {
            let content: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
            assert_eq!(open(&seal("a", &content), &key(1)).unwrap(), content, "{size}");
        }
    }

    #[test]
    fn no_other_file_is_taken_for_it() {
        let content = vec![7u8; 3 * CHUNK + 5];
        let file = seal("a", &content);
        let parts = chunks(&file);
        assert_eq!(parts.len(), 4);
        assert!(open(&file, &key(2)).unwrap_err().contains("damaged"));
        // Cut off anywhere, between two chunks as well.
        for at in (1..file.len()).step_by(37).chain(parts.iter().map(|p| p.start)).chain([file.len() - 1]) {
            let said = open(&file[..at], &key(1)).unwrap_err();
            assert!(said.contains("cut off"), "{at}: {said}");
        }
        // A bit flipped anywhere.
        for at in (0..file.len()).step_by(13).chain(0..parts[0].start + 30) {
            let mut other = file.clone();
            other[at] ^= 1;
            assert!(open(&other, &key(1)).is_err(), "{at}");
        }
        let with = |order: &[usize], of: &[u8]| -> Vec<u8> {
            let body = order.iter().flat_map(|i| of[parts[*i].clone()].to_vec());
            file[..parts[0].start].iter().copied().chain(body).collect()
        };
        assert_eq!(open(&with(&[0, 1, 2, 3], &file), &key(1)).unwrap(), content);
        for order in [&[1, 0, 2, 3][..], &[0, 1, 3], &[0, 1, 1, 2, 3], &[3], &[0, 1, 2, 3, 3]] {
            assert!(open(&with(order, &file), &key(1)).is_err(), "{order:?}");
        }
        // The chunks of another backup under the same key.
        assert!(open(&with(&[0, 1, 2, 3], &seal("b", &content)), &key(1)).is_err());
        assert!(open(b"something else altogether", &key(1)).unwrap_err().contains("foreign"));
    }
}
