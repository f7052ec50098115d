//! The files that came along.

use super::clean;
use super::decode;
use super::fields::Fields;
use super::letter::{Part, ReadOptions};
use super::mime::Leaf;

/// Characters of a file's name.
const LONGEST_NAME: usize = 150;
/// Of these, characters of its ending that are kept when it is cut.
const LONGEST_ENDING: usize = 12;

/// Takes in files until there are enough of them.
pub(crate) struct Files<'a> {
    options: &'a ReadOptions,
    pub kept: Vec<Part>,
    /// Files that were not kept, not even by name.
    pub more: usize,
}

impl<'a> Files<'a> {
    pub fn new(options: &'a ReadOptions, more: usize) -> Self {
        Self { options, kept: Vec::new(), more }
    }

    pub fn take(&mut self, leaf: &Leaf<'_>) {
        if self.kept.len() >= self.options.most_files {
            self.more += 1;
            return;
        }
        let content = leaf.content();
        let size = content.len() as u64;
        let keep = leaf.whole && size <= self.options.largest_file;
        let media_type = leaf.kind.media_type();
        let is_letter = leaf.is_letter();
        let named = leaf.file_name().map(decode::words);
        let named = named.or_else(|| {
            let subject = Fields::parse(&content).0.text("subject").filter(|_| is_letter)?;
            // A subject's slashes are no folders.
            Some(format!("{}.eml", clean::line(&decode::words(&subject), LONGEST_NAME).replace(['/', '\\'], "-")))
        });
        let name = named.as_deref().map(name).filter(|name| !name.is_empty() && name != "eml");
        let name = name.unwrap_or_else(|| format!("file-{}.{}", self.kept.len() + 1, ending(&media_type)));
        let content = keep.then(|| content.into_owned());
        self.kept.push(Part { name, media_type, size, content, is_letter });
    }
}

/// A plain name without folders; empty if nothing is left of it.
fn name(written: &str) -> String {
    let last = written.rsplit(['/', '\\']).next().unwrap_or_default();
    let line = clean::line(last, LONGEST_NAME * 100);
    let line = line.trim_start_matches(['.', ' ', '~']).trim_end_matches(['.', ' ']);
    if line.chars().nth(LONGEST_NAME).is_none() {
        return line.to_owned();
    }
    match line.rsplit_once('.') {
        Some((stem, ending)) if ending.chars().count() <= LONGEST_ENDING => {
            format!("{}.{ending}", clean::cut_chars(stem, LONGEST_NAME - LONGEST_ENDING - 1))
        }
        _ => clean::cut_chars(line, LONGEST_NAME).trim_end_matches(['.', ' ']).to_owned(),
    }
}

/// What names of such files end with.
fn ending(media_type: &str) -> &'static str {
    match media_type {
        "application/pdf" => "pdf",
        "application/zip" => "zip",
        "application/json" => "json",
        "application/ics" | "text/calendar" => "ics",
        "application/pgp-signature" => "asc",
        "application/pkcs7-signature" | "application/x-pkcs7-signature" => "p7s",
        "application/msword" => "doc",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document" => "docx",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" => "xlsx",
        "audio/mpeg" => "mp3",
        "image/gif" => "gif",
        "image/jpeg" | "image/jpg" => "jpg",
        "image/png" => "png",
        "image/svg+xml" => "svg",
        "image/webp" => "webp",
        "message/rfc822" | "message/global" => "eml",
        "text/csv" => "csv",
        "text/html" => "html",
        "text/vcard" | "text/x-vcard" => "vcf",
        "video/mp4" => "mp4",
        other if other.starts_with("text/") => "txt",
        _ => "bin",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        let long = format!("{}.tar.gz", "a".repeat(5_000));
        for (from, to) in [
            ("a.pdf", "a.pdf"),
            ("../../etc/passwd", "passwd"),
            ("C:\\Users\\x\\a b.txt", "a b.txt"),
            ("/", ""),
            ("..", ""),
            (".bashrc", "bashrc"),
            ("a\0b\r\nc.txt", "ab c.txt"),
            ("photo\u{202E}gpj.exe", "photogpj.exe"),
            ("Übersicht  (1).PDF", "Übersicht (1).PDF"),
            ("a. . ", "a"),
            ("...\u{200B}", ""),
        ] {
            assert_eq!(name(from), to, "{from:?}");
        }
        assert!(name(&long).ends_with("a.gz") && name(&long).len() <= LONGEST_NAME);
        assert_eq!(name(&"ä".repeat(400)).chars().count(), LONGEST_NAME);
    }
}
