//! Files that go with a message.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use crate::problem::Problem;
use crate::text::{count, one_line, size};

/// What is left of a request for the message itself.
const REST: u64 = 256 << 10;
/// Files that go with one message.
const MOST: usize = 10;

/// A file that was read.
pub struct Attachment {
    name: String,
    media_type: &'static str,
    content: Vec<u8>,
}

impl Attachment {
    /// As a person reads what it is.
    pub fn shown(&self) -> String {
        format!("{} ({}, {})", one_line(&self.name, 60), self.media_type, size(self.content.len() as u64))
    }

    /// As `POST /api/chat` takes it.
    pub fn body(&self) -> Value {
        json!({"filename": self.name, "media_type": self.media_type, "size_bytes": self.content.len(),
               "content_base64": BASE64.encode(&self.content)})
    }
}

/// Reads a file whole, to go beside `others`. `max_body`: what the daemon takes of one request.
pub fn read(path: &Path, others: &[Attachment], max_body: u64) -> Result<Attachment, Problem> {
    let wrong =
        |why: String| Problem::usage(format!("{} can't be attached: {why}.", path.display()), "Name another file.");
    if others.len() >= MOST {
        return Err(wrong(format!("at most {} go with one message", count(MOST, "file"))));
    }
    // As base64 it takes a third more.
    let taken: u64 = others.iter().map(|file| file.content.len() as u64).sum();
    let left = (max_body.saturating_sub(REST) / 4 * 3).saturating_sub(taken);
    let unread = |e: std::io::Error| wrong(e.to_string());
    let file = File::open(path).map_err(unread)?;
    let about = file.metadata().map_err(unread)?;
    if !about.is_file() {
        return Err(wrong("it is no file".to_owned()));
    }
    let mut content = Vec::new();
    file.take(left + 1).read_to_end(&mut content).map_err(unread)?;
    if content.len() as u64 > left {
        let why =
            format!("it has {}, and {} are left for this message ([admin] max_body)", size(about.len()), size(left));
        return Err(wrong(why));
    }
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    Ok(Attachment { media_type: media_type(&name, &content), name, content })
}

/// What a file is: a picture by how it begins, all else by its name.
fn media_type(name: &str, content: &[u8]) -> &'static str {
    let begins: [(&[u8], &str); 5] = [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF8", "image/gif"),
        (b"%PDF-", "application/pdf"),
        (b"PK\x03\x04", "application/zip"),
    ];
    if content.starts_with(b"RIFF") && content.get(8..12) == Some(b"WEBP") {
        return "image/webp";
    }
    let end = name.rsplit_once('.').map_or("", |(_, end)| end).to_ascii_lowercase();
    let named = match end.as_str() {
        "txt" | "log" => "text/plain",
        "md" => "text/markdown",
        "csv" => "text/csv",
        "json" => "application/json",
        "html" | "htm" => "text/html",
        "ics" => "text/calendar",
        "vcf" => "text/vcard",
        "docx" => "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "xlsx" => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "mp3" => "audio/mpeg",
        "mp4" => "video/mp4",
        "heic" => "image/heic",
        _ => "",
    };
    let begun = begins.iter().find(|(begin, _)| content.starts_with(begin)).map(|(_, kind)| *kind);
    match (begun, named) {
        // What Office writes is packed so.
        (Some("application/zip") | None, named) if !named.is_empty() => named,
        (Some(kind), _) => kind,
        (None, _) if std::str::from_utf8(content).is_ok() => "text/plain",
        (None, _) => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_what_they_are() {
        for (name, content, kind) in [
            ("photo.txt", &b"\x89PNG\r\n\x1a\nrest"[..], "image/png"),
            ("a.jpg", b"\xff\xd8\xff\xe0", "image/jpeg"),
            ("a.webp", b"RIFF\0\0\0\0WEBP", "image/webp"),
            ("notes.md", b"# hi", "text/markdown"),
            ("letter.docx", b"PK\x03\x04", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
            ("LICENSE", b"words", "text/plain"),
            ("core", b"\xff\xfe\x00", "application/octet-stream"),
        ] {
            assert_eq!(media_type(name, content), kind, "{name}");
        }
    }

    #[test]
    fn what_is_no_file_or_too_large_is_refused() {
        const BODY: u64 = 1 << 20;
        let dir = tempfile::tempdir().unwrap();
        assert!(read(dir.path(), &[], BODY).is_err_and(|p| p.message.contains("can't be attached")));
        let file = dir.path().join("large");
        std::fs::File::create(&file).unwrap().set_len(BODY).unwrap();
        assert!(read(&file, &[], BODY).is_err_and(|p| p.message.contains("576 KiB are left for this message")));
        std::fs::File::create(&file).unwrap().set_len(400 << 10).unwrap();
        let first = read(&file, &[], BODY).unwrap();
        assert!(read(&file, &[first], BODY).is_err_and(|p| p.message.contains("176 KiB are left")));
        std::fs::write(&file, "small").unwrap();
        let body = read(&file, &[], BODY).unwrap().body();
        assert_eq!((body["size_bytes"].as_u64(), body["content_base64"].as_str()), (Some(5), Some("c21hbGw=")));
    }
}
