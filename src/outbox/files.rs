//! Files that go along with a delivery.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use base::text::links::for_owner;
use base::text::visible::visible_line;
use base::{Trust, text};

/// Files of one delivery.
pub const MOST_FILES: usize = 10;
/// Bytes of all of them: what the usual mail servers let through, once it is written as text.
pub const MOST_BYTES: usize = 10 * 1024 * 1024;
const LONGEST_NAME: usize = 120;

/// A file on its way out.
#[derive(Clone, PartialEq, Eq)]
pub struct OutFile {
    /// Without a path, and without what would end a header's line.
    pub name: String,
    /// Such as `text/csv`.
    pub media_type: String,
    pub content: Vec<u8>,
}

impl fmt::Debug for OutFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OutFile({:?}, {}, {} bytes)", self.name, self.media_type, self.content.len())
    }
}

impl OutFile {
    /// A file of this name; what of it could lead elsewhere is left out. `media_type`: if not known, by the name's end.
    pub fn new(name: &str, media_type: Option<&str>, content: Vec<u8>) -> Self {
        let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
        let plain = |c: &char| !c.is_control() && !"\"<>|:*?".contains(*c);
        let name: String = text::clean(last).chars().filter(plain).collect();
        let name: String = name.trim().trim_start_matches('.').chars().take(LONGEST_NAME).collect();
        let name = if name.is_empty() { "file".to_owned() } else { name };
        let known = media_type.filter(|known| is_media_type(known));
        let media_type = known.unwrap_or_else(|| by_ending(&name)).to_owned();
        Self { name, media_type, content }
    }

    /// The beginning of its content's hash, by which people name it.
    pub fn handle(&self) -> String {
        text::hex(&Sha256::digest(&self.content)[..6])
    }

    /// The file as the owner gets it who must not be led out by it: what a program would show as a page or a picture, and
    /// fetch things for, is plain text with links that do nothing. `trust`: of whoever had a part in it. What is no text
    /// was made by no session, and is as it came.
    pub fn for_owner(self, trust: Trust) -> Self {
        if matches!(trust, Trust::Owner | Trust::System) {
            return self;
        }
        let Self { name, media_type, content } = self;
        match String::from_utf8(content) {
            Ok(text) => {
                let name = if name.ends_with(".txt") { name } else { format!("{name}.txt") };
                Self {
                    name,
                    media_type: "text/plain".to_owned(),
                    content: for_owner(&text, trust).into_owned().into_bytes(),
                }
            }
            Err(e) => Self { name, media_type, content: e.into_bytes() },
        }
    }

    /// As rows and envelopes have it.
    pub fn written(&self) -> Value {
        json!({"name": self.name, "media_type": self.media_type, "content": STANDARD.encode(&self.content)})
    }
}

fn is_media_type(text: &str) -> bool {
    let part =
        |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&b));
    text.len() <= 100 && text.split_once('/').is_some_and(|(kind, of)| part(kind) && part(of))
}

fn by_ending(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, end)| end.to_ascii_lowercase()).as_deref() {
        Some("txt" | "log") => "text/plain",
        Some("md") => "text/markdown",
        Some("csv") => "text/csv",
        Some("json") => "application/json",
        Some("ics") => "text/calendar",
        Some("vcf") => "text/vcard",
        Some("html" | "htm") => "text/html",
        Some("pdf") => "application/pdf",
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        _ => "application/octet-stream",
    }
}

/// What is said below a message whose channel shows no files. A command that is pasted holds nothing of a name, which
/// somebody else may have chosen.
pub fn files_to_save(files: &[OutFile]) -> String {
    let line = |file: &OutFile| {
        format!("File: {}. Save it with: butlerd deliveries save {}", visible_line(&file.name), file.handle())
    };
    files.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_files_name_leads_nowhere() {
        for (given, name) in [
            ("report.csv", "report.csv"),
            ("../../etc/passwd", "passwd"),
            ("C:\\x\\a b.pdf", "a b.pdf"),
            ("..", "file"),
            ("", "file"),
            ("a\r\nBcc: x@y.org", "aBcc x@y.org"),
            ("x\"; filename=\"y.exe", "x; filename=y.exe"),
            (".bashrc", "bashrc"),
        ] {
            assert_eq!(OutFile::new(given, None, Vec::new()).name, name, "{given:?}");
        }
        assert!(OutFile::new(&"long".repeat(100), None, Vec::new()).name.len() <= LONGEST_NAME);
    }

    #[test]
    fn what_others_had_a_part_in_leads_the_owner_nowhere() {
        let page = || OutFile::new("page.html", None, b"<img src=https://evil.example/?w=82>".to_vec());
        let shown = page().for_owner(Trust::Stranger);
        assert_eq!((shown.name.as_str(), shown.media_type.as_str()), ("page.html.txt", "text/plain"));
        assert!(!String::from_utf8_lossy(&shown.content).contains("https://evil.example"), "{shown:?}");
        assert_eq!(page().for_owner(Trust::Owner), page());
        let picture = || OutFile::new("p.png", None, vec![0x89, 0x50, 0xff, 0xfe]);
        assert_eq!(picture().for_owner(Trust::Stranger), picture());
        let said = files_to_save(&[OutFile::new("$(reboot).txt", None, b"x".to_vec())]);
        assert!(said.ends_with("butlerd deliveries save 2d711642b726"), "{said}");
    }

    #[test]
    fn a_media_type_is_one_or_comes_from_the_name() {
        let kind = |name, given| OutFile::new(name, given, Vec::new()).media_type;
        assert_eq!(kind("a.csv", None), "text/csv");
        assert_eq!(kind("a.csv", Some("application/x-own")), "application/x-own");
        assert_eq!(kind("a.bin", Some("text/html\r\nX: y")), "application/octet-stream");
    }
}
