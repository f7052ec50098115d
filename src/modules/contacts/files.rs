//! vCards in files of this machine as an address book: a file with any number of cards, or a directory of such files.
//!
//! A card's href is its file's name, and behind `#` its UID, or its place where it has none. Its etag is the hash of its
//! bytes. A file is written beside itself and renamed, so that a kill leaves the old one or the new one.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use dav::sync::{Changes, Fetched, Found, Next, Page, PushError, Stored};

use super::error::BookError;

/// Files of a directory, and bytes of a file: more is no household's address book.
const MOST_FILES: usize = 20_000;
const LARGEST: u64 = 64 << 20;

/// A file or a directory of vCards. All but [`Files::new_href`] reads or writes files, and may take long.
#[derive(Clone)]
pub(super) struct Files {
    path: PathBuf,
}

/// A part of a file: a card with its href, or what stands between cards.
struct Part<'a> {
    href: Option<String>,
    bytes: &'a [u8],
}

fn etag(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The parts of a file, with nothing left out.
fn parts<'a>(name: &str, text: &'a [u8]) -> Vec<Part<'a>> {
    let is = |line: &[u8], word: &str| line.trim_ascii().eq_ignore_ascii_case(word.as_bytes());
    let (mut parts, mut names) = (Vec::new(), BTreeMap::<String, usize>::new());
    let (mut start, mut at, mut depth) = (0, 0, 0_u32);
    while at < text.len() {
        let end = text[at..].iter().position(|byte| *byte == b'\n').map_or(text.len(), |n| at + n + 1);
        let line = text[at..end].strip_prefix("\u{feff}".as_bytes()).unwrap_or(&text[at..end]);
        if is(line, "BEGIN:VCARD") {
            if depth == 0 && at > start {
                parts.push(Part { href: None, bytes: &text[start..at] });
            }
            start = if depth == 0 { at } else { start };
            depth += 1;
        } else if is(line, "END:VCARD") && depth > 0 {
            depth -= 1;
            if depth == 0 {
                let bytes = &text[start..end];
                let id = dav::uid(bytes).unwrap_or_else(|| format!("card-{}", parts.len()));
                let times = names.entry(id.clone()).or_default();
                *times += 1;
                let again = if *times == 1 { String::new() } else { format!("#{times}") };
                parts.push(Part { href: Some(format!("{name}#{id}{again}")), bytes });
                start = end;
            }
        }
        at = end;
    }
    if start < text.len() {
        parts.push(Part { href: None, bytes: &text[start..] });
    }
    parts
}

impl Files {
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    fn failed(&self, doing: &str, e: &std::io::Error) -> BookError {
        BookError::Files(format!(
            "{} can't be {doing} ({e}); check the path and who may {doing} it",
            self.path.display()
        ))
    }

    /// The names of its files.
    fn names(&self) -> Result<Vec<String>, BookError> {
        let failed = |e: std::io::Error| self.failed("read", &e);
        if !std::fs::metadata(&self.path).map_err(failed)?.is_dir() {
            let name = self.path.file_name().unwrap_or_default();
            return Ok(vec![name.to_string_lossy().into_owned()]);
        }
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
            if !name.starts_with('.') && name.to_lowercase().ends_with(".vcf") && !name.contains('#') {
                names.push(name);
            }
        }
        if names.len() > MOST_FILES {
            let why = format!("{} has more than {MOST_FILES} files; name a smaller directory", self.path.display());
            return Err(BookError::Files(why));
        }
        names.sort();
        Ok(names)
    }

    fn file(&self, name: &str) -> PathBuf {
        if self.path.is_dir() { self.path.join(name) } else { self.path.clone() }
    }

    /// A file's bytes; nothing of one that isn't there.
    fn text(&self, name: &str) -> Result<Vec<u8>, BookError> {
        let file = self.file(name);
        match std::fs::metadata(&file) {
            Ok(about) if about.len() > LARGEST => {
                Err(BookError::Files(format!("{} is larger than {} MiB; split it", file.display(), LARGEST >> 20)))
            }
            Ok(_) => std::fs::read(&file).map_err(|e| self.failed("read", &e)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(e) => Err(self.failed("read", &e)),
        }
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), BookError> {
        let file = self.file(name);
        let beside = file.with_file_name(format!(".{name}.butlerd"));
        let write = || {
            let mut new = std::fs::File::create(&beside)?;
            new.write_all(bytes)?;
            new.sync_all()?;
            if let Ok(about) = std::fs::metadata(&file) {
                std::fs::set_permissions(&beside, about.permissions())?;
            }
            std::fs::rename(&beside, &file)
        };
        write().map_err(|e| self.failed("written", &e))
    }

    pub fn changes(&self) -> Result<Changes, BookError> {
        let mut page = Page { whole: true, next: Next::Done(None), ..Page::default() };
        for name in self.names()? {
            let text = self.text(&name)?;
            let listed = parts(&name, &text).into_iter();
            page.changed.extend(listed.filter_map(|part| Some((part.href?, etag(part.bytes)))));
        }
        Ok(Changes::Page(page))
    }

    pub fn fetch(&self, hrefs: &[String]) -> Result<Vec<Fetched>, BookError> {
        let mut texts: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
        for href in hrefs {
            let name = file_of(href);
            if !texts.contains_key(name) {
                texts.insert(name, self.text(name)?);
            }
        }
        let fetched = |href: &String| {
            let name = file_of(href);
            let all = parts(name, texts.get(name).map(Vec::as_slice).unwrap_or_default());
            let here = all.iter().find(|part| part.href.as_ref() == Some(href));
            let what = here.map_or(Found::Missing, |part| Found::Here {
                etag: Some(etag(part.bytes)),
                bytes: part.bytes.to_vec(),
            });
            Fetched { href: href.clone(), what }
        };
        Ok(hrefs.iter().map(fetched).collect())
    }

    /// A new file of a directory, or a new card of the file.
    pub fn new_href(&self, name: &str) -> String {
        if self.path.is_dir() {
            return format!("{name}.vcf#{name}");
        }
        let file = self.path.file_name().unwrap_or_default().to_string_lossy();
        format!("{file}#{name}")
    }

    /// A card's href follows from its UID, so it may be elsewhere than it was sent.
    pub fn create(&self, href: &str, bytes: &[u8]) -> Result<Stored, PushError<BookError>> {
        let name = file_of(href);
        let mut text = self.text(name).map_err(PushError::Failed)?;
        let uid = dav::uid(bytes);
        let there = parts(name, &text).iter().any(|part| part.href.is_some() && dav::uid(part.bytes) == uid);
        if there {
            return Err(PushError::SameUid);
        }
        if !text.is_empty() && !text.ends_with(b"\n") {
            text.extend_from_slice(b"\r\n");
        }
        text.extend_from_slice(bytes);
        self.put(name, &text).map_err(PushError::Failed)?;
        let last = parts(name, &text).into_iter().rfind(|part| part.href.is_some());
        let stored = last.and_then(|part| Some(Stored { href: part.href?, etag: Some(etag(part.bytes)) }));
        stored.ok_or_else(|| PushError::Refused("it is no vCard".to_owned()))
    }

    pub fn update(&self, href: &str, seen: &str, bytes: &[u8]) -> Result<Stored, PushError<BookError>> {
        self.replace(href, seen, bytes)?;
        Ok(Stored { href: href.to_owned(), etag: Some(etag(bytes)) })
    }

    pub fn delete(&self, href: &str, seen: &str) -> Result<(), PushError<BookError>> {
        self.replace(href, seen, b"")
    }

    /// Puts other bytes in a card's place; a file that would be empty goes.
    fn replace(&self, href: &str, seen: &str, bytes: &[u8]) -> Result<(), PushError<BookError>> {
        let name = file_of(href);
        let text = self.text(name).map_err(PushError::Failed)?;
        let all = parts(name, &text);
        let Some(at) = all.iter().position(|part| part.href.as_deref() == Some(href)) else {
            return Err(PushError::Missing);
        };
        if etag(all[at].bytes) != seen {
            return Err(PushError::Changed);
        }
        let new: Vec<u8> =
            all.iter().enumerate().flat_map(|(n, part)| if n == at { bytes } else { part.bytes }).copied().collect();
        if new.trim_ascii().is_empty() && self.path.is_dir() {
            let gone = std::fs::remove_file(self.file(name));
            return gone.map_err(|e| PushError::Failed(self.failed("written", &e)));
        }
        self.put(name, &new).map_err(PushError::Failed)
    }
}

fn file_of(href: &str) -> &str {
    href.split('#').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(uid: &str, more: &str) -> String {
        format!("BEGIN:VCARD\r\nVERSION:4.0\r\nUID:{uid}\r\nFN:{uid}\r\n{more}END:VCARD\r\n")
    }

    #[test]
    fn one_card_of_a_file_is_replaced_and_no_other_byte() {
        let dir = tempfile::tempdir().unwrap();
        let before = format!("junk\r\n{}\n\n{}", card("a", "X-A:1\r\n"), card("b", ""));
        std::fs::write(dir.path().join("all.vcf"), &before).unwrap();
        let files = Files::new(dir.path());
        let Changes::Page(page) = files.changes().unwrap() else { panic!("it is a page") };
        let hrefs: Vec<&str> = page.changed.iter().map(|(href, _)| href.as_str()).collect();
        assert_eq!(hrefs, ["all.vcf#a", "all.vcf#b"]);
        let (href, tag) = &page.changed[0];
        assert!(matches!(files.update(href, "other", b""), Err(PushError::Changed)));
        let new = card("a", "X-A:2\r\n");
        let stored = files.update(href, tag, new.as_bytes()).unwrap();
        let after = std::fs::read_to_string(dir.path().join("all.vcf")).unwrap();
        assert_eq!(after, before.replace("X-A:1", "X-A:2"));
        files.delete(href, stored.etag.as_deref().unwrap()).unwrap();
        let made = files.create(&files.new_href("n"), card("c", "").as_bytes()).unwrap();
        assert_eq!(made.href, "n.vcf#c");
        assert!(matches!(files.create("n.vcf#c", card("c", "").as_bytes()), Err(PushError::SameUid)));
        let fetched = files.fetch(&[made.href, href.clone()]).unwrap();
        assert!(matches!(&fetched[0].what, Found::Here { bytes, .. } if bytes == card("c", "").as_bytes()));
        assert_eq!(fetched[1].what, Found::Missing);
        // A file of its own, like that of a program that makes one file.
        let one = Files::new(&dir.path().join("n.vcf"));
        one.create(&one.new_href("x"), card("d", "").as_bytes()).unwrap();
        let Changes::Page(page) = one.changes().unwrap() else { panic!("it is a page") };
        assert_eq!(page.changed.len(), 2);
    }
}
