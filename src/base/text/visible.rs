//! Text as a reader can check it: each character that shows nothing, or moves what others show, stands there by its
//! number, and an address whose letters come from several scripts is named.

use std::collections::BTreeSet;

/// Marks on one letter that are drawn; with more of them they cover the lines above and below.
const MARKS: usize = 3;
/// Odd letters of one address that are listed.
const LISTED: usize = 5;

/// Makes every character visible: what shows nothing (control characters, zero-width and tag characters, other default
/// ignorables, private use) and what moves other characters (bidi marks, terminal escapes) is written as its number,
/// `⟨U+202E⟩`. Newline and tab stay. Two different texts never look the same afterwards.
pub fn visible(text: &str) -> String {
    write(text, false)
}

/// As [`visible`], but for the joiners that emoji and letters of some scripts need to be drawn right.
pub fn readable(text: &str) -> String {
    write(text, true)
}

/// On one line: newlines and tabs are written as their numbers as well.
pub fn visible_line(text: &str) -> String {
    visible(text).replace('\n', "⟨U+000A⟩").replace('\t', "⟨U+0009⟩")
}

fn write(text: &str, joiners: bool) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut before, mut marks) = (None, 0);
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        marks = if is_mark(c) { marks + 1 } else { 0 };
        let spoofed = c == '⟨' && rest.as_str().starts_with("U+");
        let drawn = joiners && joins(before, c, rest.clone().next());
        if (is_hidden(c) && !drawn) || spoofed || marks > MARKS {
            out.push_str(&format!("⟨U+{:04X}⟩", u32::from(c)));
        } else {
            out.push(c);
        }
        before = Some(c);
    }
    out
}

/// Whether a character shows nothing by itself, or changes how others are shown.
pub(super) fn is_hidden(c: char) -> bool {
    if c.is_control() {
        return c != '\n' && c != '\t';
    }
    matches!(u32::from(c),
        0xAD | 0x34F | 0x61C | 0x115F | 0x1160 | 0x17B4 | 0x17B5 | 0x180B..=0x180F | 0x200B..=0x200F | 0x2028..=0x202E
        | 0x2060..=0x206F | 0x2800 | 0x3164 | 0xE000..=0xF8FF | 0xFDD0..=0xFDEF | 0xFE00..=0xFE0F | 0xFEFF | 0xFFA0
        | 0xFFF0..=0xFFFC | 0x1_3430..=0x1_343F | 0x1_BCA0..=0x1_BCA3 | 0x1_D173..=0x1_D17A | 0xE_0000..=0xE_0FFF
        | 0xF_0000..=0x10_FFFF)
        || u32::from(c) & 0xFFFE == 0xFFFE
}

pub(super) fn is_mark(c: char) -> bool {
    matches!(u32::from(c), 0x300..=0x36F | 0x483..=0x489 | 0x1AB0..=0x1AFF | 0x1DC0..=0x1DFF | 0x20D0..=0x20FF
        | 0xFE20..=0xFE2F)
}

fn is_emoji(c: char) -> bool {
    matches!(u32::from(c), 0xA9 | 0xAE | 0x203C | 0x2049 | 0x2122 | 0x2139 | 0x2190..=0x2BFF | 0x3030 | 0x303D | 0x3297
        | 0x3299 | 0x1_F000..=0x1_FAFF)
}

/// Whether it only says how its neighbours are drawn: emoji in colour or as one, letters joined or not.
fn joins(before: Option<char>, c: char, next: Option<char>) -> bool {
    let (Some(before), after) = (before, next.unwrap_or(' ')) else { return false };
    let foreign = |c: char| !c.is_ascii() && c.is_alphabetic();
    match c {
        '\u{FE0F}' => is_emoji(before) || before.is_ascii_digit() && after == '\u{20E3}',
        '\u{200D}' if is_emoji(after) => is_emoji(before) || before == '\u{FE0F}',
        '\u{200C}' | '\u{200D}' => foreign(before) && foreign(after),
        _ => false,
    }
}

/// Which script a letter is of; `None`: it is none, or of all.
fn script(c: char) -> Option<&'static str> {
    if !c.is_alphabetic() {
        return None;
    }
    Some(match u32::from(c) {
        0x41..=0x24F | 0x250..=0x2AF | 0x1E00..=0x1EFF | 0x2C60..=0x2C7F | 0xA720..=0xA7FF => "Latin",
        0x370..=0x3FF | 0x1F00..=0x1FFF => "Greek",
        0x400..=0x52F | 0x1C80..=0x1C8F | 0x2DE0..=0x2DFF | 0xA640..=0xA69F => "Cyrillic",
        0x530..=0x58F => "Armenian",
        0x590..=0x5FF => "Hebrew",
        0x600..=0x77F | 0x8A0..=0x8FF => "Arabic",
        0x10A0..=0x10FF => "Georgian",
        0x13A0..=0x13FF | 0xAB70..=0xABBF => "Cherokee",
        0x1100..=0x11FF
        | 0x2E80..=0x312F
        | 0x3130..=0x9FFF
        | 0xAC00..=0xD7AF
        | 0xF900..=0xFAFF
        | 0x2_0000..=0x3_FFFF => "East Asian",
        0xFF21..=0xFF5A => "full-width",
        0x1_D400..=0x1_D7FF => "mathematical",
        _ => "other",
    })
}

/// What is odd about the letters of an address or a domain, as the end of a sentence that begins with it. `None`:
/// nothing.
pub fn odd_letters(address: &str) -> Option<String> {
    if address.chars().any(is_hidden) {
        return Some("holds characters that can't be seen".to_owned());
    }
    if address.split(['.', '@', '/']).any(|part| part.get(..4).is_some_and(|head| head.eq_ignore_ascii_case("xn--"))) {
        return Some("is written in Punycode (xn--) and stands for other letters than these".to_owned());
    }
    let scripts: BTreeSet<&str> = address.chars().filter_map(script).collect();
    let usual = scripts.iter().all(|s| ["Latin", "East Asian"].contains(s));
    if scripts.len() < 2 || usual {
        return None;
    }
    let odd: BTreeSet<char> = address.chars().filter(|c| script(*c).is_some_and(|s| s != "Latin")).collect();
    let listed: Vec<String> = odd.iter().take(LISTED).map(|c| format!("{c} is U+{:04X}", u32::from(*c))).collect();
    let scripts: Vec<&str> = scripts.into_iter().collect();
    Some(format!("mixes {} letters ({})", scripts.join(" and "), listed.join(", ")))
}

/// The addresses and domains in a text whose letters are odd, each with what is odd about it.
pub fn odd_addresses(text: &str) -> Vec<(String, String)> {
    let ends = |c: char| c.is_whitespace() || "<>()[]{}\"'`,;|".contains(c);
    let mut found = Vec::new();
    for token in text.split(ends).filter(|token| token.contains(['.', '@', '。', '．'])) {
        let host = token.split_once("://").map_or(token, |(_, rest)| rest);
        let host = host.split(['/', '?', '#', '\\']).next().unwrap_or_default().trim_end_matches(['.', '!', ':']);
        // A sentence's end between two words of different scripts is no address.
        let joined = host.contains('@') || host.split('.').filter(|label| !label.is_empty()).count() > 1;
        if let Some(odd) = odd_letters(host).filter(|_| joined)
            && !found.iter().any(|(known, _)| known == host)
        {
            found.push((host.to_owned(), odd));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_shows_nothing_or_moves_others_is_numbered() {
        for hidden in
            "\0\x07\x1b\x7f\r\u{85}\u{9b}\u{AD}\u{61C}\u{180E}\u{200B}\u{200C}\u{200D}\u{200E}\u{200F}\u{2028}\
                       \u{202A}\u{202B}\u{202C}\u{202D}\u{202E}\u{2060}\u{2066}\u{2067}\u{2068}\u{2069}\u{2800}\u{3164}\
                       \u{E000}\u{FE0F}\u{FEFF}\u{FFFC}\u{E0001}\u{E0041}\u{E0100}\u{10FFFD}"
                .chars()
        {
            assert_eq!(visible(&format!("a{hidden}b")), format!("a⟨U+{:04X}⟩b", u32::from(hidden)));
        }
        assert_eq!(visible("a\tb\nc äöü 漢字 \u{e9} 🙂"), "a\tb\nc äöü 漢字 \u{e9} 🙂");
        assert_eq!(visible("\x1b[2J\u{202E}gpj.exe"), "⟨U+001B⟩[2J⟨U+202E⟩gpj.exe");
        assert_eq!(visible_line("a\nb"), "a⟨U+000A⟩b");
        assert_eq!(visible("e\u{301}\u{301}\u{301}\u{301}"), "e\u{301}\u{301}\u{301}⟨U+0301⟩");
    }

    #[test]
    fn different_texts_never_look_the_same() {
        assert_eq!(visible("⟨U+202E⟩"), "⟨U+27E8⟩U+202E⟩");
        assert_ne!(visible("⟨U+202E⟩"), visible("\u{202E}"));
    }

    #[test]
    fn joiners_stay_where_they_draw_something() {
        for kept in ["❤\u{FE0F}", "👩\u{200D}👧", "1\u{FE0F}\u{20E3}", "می\u{200C}خواهم"] {
            assert_eq!(readable(kept), kept);
        }
        for shown in ["evil\u{200D}.org", "ht\u{200C}tps", "x\u{FE0F}", "\u{200D}🙂"] {
            assert!(readable(shown).contains("⟨U+"), "{shown:?}");
        }
    }

    #[test]
    fn letters_of_several_scripts_in_an_address_are_named() {
        for (address, says) in [
            ("ada@pаypal.com", "Cyrillic and Latin"),
            ("bοb@example.org", "Greek and Latin"),
            ("ｅvil.org", "full-width"),
            ("xn--pypal-4ve.com", "Punycode"),
            ("a\u{200B}da@example.org", "can't be seen"),
        ] {
            assert!(
                odd_letters(address).is_some_and(|odd| odd.contains(says)),
                "{address}: {:?}",
                odd_letters(address)
            );
        }
        for plain in ["ada@example.org", "müller@köln.de", "иван", "名@例.jp", "4711"] {
            assert_eq!(odd_letters(plain), None, "{plain}");
        }
        let found = odd_addresses("see https://раypal.com/Москва or <ada@example.org>. Und so weiter: Привет.");
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].0, "раypal.com");
    }
}
