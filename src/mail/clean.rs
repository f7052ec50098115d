//! Text without what a person can't see.

use base::text::visible;

/// Drops what shows nothing or moves what others show, and counts it. Lines end with `\n` afterwards.
pub(crate) fn seen(text: &str) -> (String, usize) {
    let lines = text.replace("\r\n", "\n").replace(['\r', '\u{85}', '\u{2028}', '\u{2029}', '\u{b}', '\u{c}'], "\n");
    // Where a word may be broken says nothing, and neither does the mark at a file's start.
    let lines = lines.replace('\u{ad}', "");
    let lines = lines.strip_prefix('\u{feff}').unwrap_or(&lines);
    // The number of each hidden character stands there now, and nothing else looks like such a number.
    unnumbered(&visible::readable(lines))
}

/// A text without the numbers that stand for its hidden characters, and how many those are.
pub(crate) fn unnumbered(numbered: &str) -> (String, usize) {
    let mut out = String::with_capacity(numbered.len());
    let mut hidden = 0;
    let mut rest = numbered;
    while let Some(at) = rest.find("⟨U+") {
        out.push_str(&rest[..at]);
        let number = &rest[at + "⟨U+".len()..];
        let Some((number, behind)) = number.split_once('⟩') else { break };
        match number {
            "27E8" => out.push('⟨'),
            _ => hidden += 1,
        }
        rest = behind;
    }
    out.push_str(rest);
    (out, hidden)
}

/// On one line, blanks as one space, at most `most` characters.
pub(crate) fn line(text: &str, most: usize) -> String {
    let (text, _) = seen(text);
    let out = text.split_whitespace().collect::<Vec<_>>().join(" ");
    cut_chars(&out, most).trim_end().to_owned()
}

/// The first `most` characters.
pub(crate) fn cut_chars(text: &str, most: usize) -> &str {
    text.char_indices().nth(most).map_or(text, |(at, _)| &text[..at])
}

/// At most the first `most` bytes, whole characters.
pub(crate) fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_sees_is_dropped_and_counted() {
        for (from, to, hidden) in [
            ("a\u{202E}b\u{200B}c\0", "abc", 3),
            ("a\r\nb\rc\u{2028}d", "a\nb\nc\nd", 0),
            ("\u{FEFF}x\u{AD}y", "xy", 0),
            ("\u{E0041}\u{E0042}hi", "hi", 2),
            ("👩\u{200D}👧 ❤\u{FE0F}", "👩\u{200D}👧 ❤\u{FE0F}", 0),
            ("می\u{200C}خواهم", "می\u{200C}خواهم", 0),
            ("⟨U+202E⟩", "⟨U+202E⟩", 0),
            ("⟨U+", "⟨U+", 0),
            ("⟨a⟩ \x1b[2J", "⟨a⟩ [2J", 1),
        ] {
            assert_eq!(seen(from), (to.to_owned(), hidden), "{from:?}");
        }
        assert_eq!(line(" a \r\n\t b ", 9), "a b");
        assert_eq!(line("äöü x", 4), "äöü");
        assert_eq!((cut("äö", 3), cut("äö", 9)), ("ä", "äö"));
    }
}
