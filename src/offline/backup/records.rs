//! What is in the sealed stream: records, compressed. A record is a letter, a length and its bytes.

use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use serde::{Deserialize, Serialize};

use super::catalog::{Sequence, Table};
use super::sealed::{Opener, Sealer};
use store::replay::{Applied, Place};

/// The longest record: a piece of a table is one row at least, and a row may hold a whole attachment.
const MOST: u32 = 2 << 30;

/// The first record: what there is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// The server's version, as it says it.
    pub postgres: String,
    pub schemas: Vec<String>,
    pub places: Vec<Place>,
    pub applied: Vec<Applied>,
    pub tables: Vec<Table>,
}

/// One record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Record {
    Manifest(Manifest),
    /// A table begins, by its place in the manifest.
    Table(usize),
    /// Rows of it, as COPY writes them as text.
    Rows(Vec<u8>),
    /// The table ends after so many rows.
    Rest(u64),
    Sequences(Vec<Sequence>),
    /// Nothing comes behind it.
    End,
}

/// Writes records.
pub(super) struct Writer<W: Write> {
    to: ZlibEncoder<Sealer<W>>,
}

impl<W: Write> Writer<W> {
    pub fn new(sealer: Sealer<W>) -> Self {
        Self { to: ZlibEncoder::new(sealer, Compression::fast()) }
    }

    pub fn put(&mut self, record: &Record) -> io::Result<()> {
        match record {
            Record::Manifest(manifest) => self.bytes(b'M', &serde_json::to_vec(manifest)?),
            Record::Table(n) => self.bytes(b'T', &serde_json::to_vec(n)?),
            Record::Rows(rows) => self.bytes(b'D', rows),
            Record::Rest(n) => self.bytes(b'R', &serde_json::to_vec(n)?),
            Record::Sequences(all) => self.bytes(b'S', &serde_json::to_vec(all)?),
            Record::End => self.bytes(b'E', &[]),
        }
    }

    /// A piece of a table.
    pub fn rows(&mut self, rows: &[u8]) -> io::Result<()> {
        self.bytes(b'D', rows)
    }

    fn bytes(&mut self, kind: u8, bytes: &[u8]) -> io::Result<()> {
        let length = u32::try_from(bytes.len()).ok().filter(|n| *n <= MOST);
        let length = length.ok_or_else(|| io::Error::other("a row is too large for a backup"))?;
        self.to.write_all(&[kind])?;
        self.to.write_all(&length.to_be_bytes())?;
        self.to.write_all(bytes)
    }

    /// Ends the stream and seals it.
    pub fn finish(self) -> io::Result<W> {
        self.to.finish()?.finish()
    }
}

/// Reads records, and insists that nothing comes behind the last.
pub(super) struct Reader<R: Read> {
    from: ZlibDecoder<Opener<R>>,
}

impl<R: Read> Reader<R> {
    pub fn new(opener: Opener<R>) -> Self {
        Self { from: ZlibDecoder::new(opener) }
    }

    pub fn next(&mut self) -> io::Result<Record> {
        let mut head = [0u8; 5];
        self.from.read_exact(&mut head)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        if length > MOST {
            return Err(io::Error::other("a record is too long"));
        }
        let mut bytes = Vec::new();
        let wanted = u64::from(length);
        if self.from.by_ref().take(wanted).read_to_end(&mut bytes)? as u64 != wanted {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(match head[0] {
            b'M' => Record::Manifest(serde_json::from_slice(&bytes)?),
            b'T' => Record::Table(serde_json::from_slice(&bytes)?),
            b'D' => Record::Rows(bytes),
            b'R' => Record::Rest(serde_json::from_slice(&bytes)?),
            b'S' => Record::Sequences(serde_json::from_slice(&bytes)?),
            b'E' => {
                self.at_end()?;
                Record::End
            }
            _ => return Err(io::Error::other("a record of an unknown kind")),
        })
    }

    /// The compressed stream must end here, and the sealed one with it.
    fn at_end(&mut self) -> io::Result<()> {
        let more = self.from.read(&mut [0u8])? + self.from.get_mut().read(&mut [0u8])?;
        if more > 0 { Err(io::Error::other("there is more behind the last record")) } else { Ok(()) }
    }
}
