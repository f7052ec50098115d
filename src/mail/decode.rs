//! Bytes as characters: transfer encodings, character sets, and the encoded words of headers.

use std::borrow::Cow;

use mail_parser::decoders::base64::base64_decode;
use mail_parser::decoders::charsets::map::charset_decoder;

/// Characters of one encoded word; the standard allows 75.
const LONGEST_WORD: usize = 2_000;
/// Names of character sets are shorter.
const LONGEST_CHARSET: usize = 60;

/// The bytes of a part's body. What is not as the encoding wants it is passed over, as mail programs do.
pub(crate) fn body<'a>(bytes: &'a [u8], encoding: &str) -> Cow<'a, [u8]> {
    match encoding {
        "base64" => Cow::Owned(base64(bytes)),
        "quoted-printable" => Cow::Owned(quoted_printable(bytes, false)),
        _ => Cow::Borrowed(bytes),
    }
}

fn base64(bytes: &[u8]) -> Vec<u8> {
    let in_alphabet = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    let bytes: Vec<u8> = bytes.iter().copied().filter(in_alphabet).collect();
    base64_decode(&bytes).unwrap_or_default()
}

/// In a header's word, `_` is a space.
fn quoted_printable(bytes: &[u8], word: bool) -> Vec<u8> {
    let digit = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16)).map(|digit| digit as u8);
    let mut out = Vec::with_capacity(bytes.len());
    // Where the blanks at the line's end begin that a server may have added.
    let mut kept = 0;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'=' => match (digit(at), digit(at + 1)) {
                (Some(high), Some(low)) => {
                    out.push(high << 4 | low);
                    at += 2;
                    kept = out.len();
                }
                _ => match soft_break(&bytes[at..]) {
                    Some(length) => {
                        at += length;
                        kept = out.len();
                    }
                    None => {
                        out.push(b'=');
                        kept = out.len();
                    }
                },
            },
            b'_' if word => out.push(b' '),
            b' ' | b'\t' | b'\r' if !word => out.push(byte),
            b'\n' if !word => {
                let crlf = out.last() == Some(&b'\r') && out.len() > kept;
                out.truncate(kept);
                out.extend_from_slice(if crlf { b"\r\n" } else { b"\n" });
                kept = out.len();
            }
            _ => {
                out.push(byte);
                kept = out.len();
            }
        }
    }
    out
}

/// How long the line's end behind a `=` is, blanks in front of it included; `None`: the line goes on.
fn soft_break(bytes: &[u8]) -> Option<usize> {
    // More blanks than a line holds would make this take a square of the time.
    let blanks = bytes.iter().take(100).take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r')).count();
    match bytes.get(blanks) {
        Some(b'\n') => Some(blanks + 1),
        None => Some(blanks),
        Some(_) => None,
    }
}

/// The characters that bytes stand for; it never fails.
pub(crate) fn text(bytes: &[u8], charset: Option<&str>) -> String {
    let charset = charset.map(|name| name.trim().to_ascii_lowercase()).unwrap_or_default();
    let named = match charset.as_str() {
        // Many programs name none, or the smallest, and mean another.
        "" | "us-ascii" | "ascii" | "utf-8" | "utf8" | "unknown-8bit" | "x-unknown" | "default" => None,
        name => charset_decoder(name.as_bytes()),
    };
    if let Some(decoder) = named {
        // The reader of UTF-7 forgets what is not ended.
        return match charset.contains("utf-7") || charset.contains("utf7") {
            true => decoder(&[bytes, b"\n"].concat()).trim_end_matches('\n').to_owned(),
            false => decoder(bytes),
        };
    }
    let lossy = || String::from_utf8_lossy(bytes).into_owned();
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) if charset.starts_with("utf") => lossy(),
        Err(_) => charset_decoder(b"windows-1252").map_or_else(lossy, |decoder| decoder(bytes)),
    }
}

/// A header's text with its encoded words (RFC 2047) decoded.
pub(crate) fn words(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    // Words of one character set that follow each other: some programs cut a character in two between them.
    let mut open: Option<(String, Vec<u8>)> = None;
    let mut rest = text;
    while let Some(start) = rest.find("=?") {
        let (before, word) = rest.split_at(start);
        let between = open.is_some() && before.trim().is_empty();
        match encoded_word(word) {
            Some((charset, bytes, length)) => {
                if !between {
                    flush(&mut out, &mut open);
                    out.push_str(before);
                }
                match &mut open {
                    Some((same, all)) if *same == charset => all.extend_from_slice(&bytes),
                    _ => {
                        flush(&mut out, &mut open);
                        open = Some((charset, bytes));
                    }
                }
                rest = &word[length..];
            }
            None => {
                flush(&mut out, &mut open);
                out.push_str(before);
                out.push_str("=?");
                rest = &word[2..];
            }
        }
    }
    flush(&mut out, &mut open);
    out.push_str(rest);
    out
}

fn flush(out: &mut String, open: &mut Option<(String, Vec<u8>)>) {
    if let Some((charset, bytes)) = open.take() {
        out.push_str(&text(&bytes, Some(&charset)));
    }
}

/// Character set, bytes and length of the encoded word that a text begins with.
fn encoded_word(text: &str) -> Option<(String, Vec<u8>, usize)> {
    let bytes = text.as_bytes();
    let question = |from: usize, most: usize| {
        bytes.iter().skip(from).take(most).position(|byte| *byte == b'?').map(|length| from + length)
    };
    let charset_end = question(2, LONGEST_CHARSET)?;
    let encoding = bytes.get(charset_end + 1)?.to_ascii_lowercase();
    if bytes.get(charset_end + 2) != Some(&b'?') {
        return None;
    }
    let from = charset_end + 3;
    let end = question(from, LONGEST_WORD)?;
    if bytes.get(end + 1) != Some(&b'=') {
        return None;
    }
    // Behind a `*` stands a language.
    let charset = text.get(2..charset_end)?.split('*').next()?.to_ascii_lowercase();
    let decoded = match encoding {
        b'b' => base64(&bytes[from..end]),
        b'q' => quoted_printable(&bytes[from..end], true),
        _ => return None,
    };
    (!charset.is_empty()).then_some((charset, decoded, end + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_printable_is_read_as_mail_programs_do() {
        for (from, to) in [
            ("a=20b", "a b"),
            ("a=\r\nb=  \r\nc", "abc"),
            ("a=\nb", "ab"),
            ("a  \r\nb\t\n", "a\r\nb\n"),
            ("a=20\r\nb", "a \r\nb"),
            ("a==3D=zz=", "a===zz"),
            ("=c3=A4", "ä"),
            ("a\rb", "a\rb"),
        ] {
            assert_eq!(String::from_utf8_lossy(&quoted_printable(from.as_bytes(), false)), to, "{from:?}");
        }
    }

    #[test]
    fn encoded_words_are_decoded_where_they_are_words() {
        for (from, to) in [
            ("=?utf-8?q?M=C3=BCller_?= =?utf-8?B?YWI=?= c", "Müller ab c"),
            ("=?utf-8?q?=C3?= =?utf-8?q?=BC?=", "ü"),
            ("=?iso-8859-1*de?Q?=E4?= =?iso-8859-15?q?=A4?=", "ä€"),
            ("=?koi8-r?b?8NLJ18XU?=", "Привет"),
            ("=?iso-2022-jp?B?GyRCRnxLXBsoQg==?=", "日本"),
            ("=?nonsense?q?a=20b?=", "a b"),
            ("a =?b", "a =?b"),
            ("=?utf-8?x?abc?= =?utf-8?q?a?=", "=?utf-8?x?abc?= a"),
            ("=?utf-8?q?=00?=", "\0"),
            ("=??q?a?=", "=??q?a?="),
        ] {
            assert_eq!(words(from), to, "{from:?}");
        }
        let many = "=?utf-8?q?".repeat(10_000);
        assert_eq!(words(&many), many);
    }

    /// The multi-byte readers below take a buffer that they never look at again.
    #[test]
    fn no_character_set_fails_on_any_bytes() {
        let names = "\
            big5 euc-jp euc-kr gb18030 gbk gb2312 iso-2022-jp iso-2022-kr shift_jis utf-7 utf-16 utf-16le \
            utf-16be hz-gb-2312 iso-8859-1 iso-8859-2 iso-8859-15 windows-1252 koi8-r ibm850 x-user-defined \
            utf-8 unknown macintosh tis-620 x-mac-cyrillic windows-874 windows-1258";
        for name in names.split_whitespace() {
            for a in (0..=255_u8).step_by(3) {
                for b in (0..=255_u8).step_by(7) {
                    text(&[a], Some(name));
                    text(&[a, b], Some(name));
                    text(&[a, b, a], Some(name));
                    text(&[b, a, a, b, b], Some(name));
                }
            }
        }
    }
}
