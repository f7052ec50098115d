//! Values as people read them: foreign text without what a terminal would obey, spans, moments, counts.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;

use base::ByteSize;

/// Foreign text on one line and of bounded length. What a terminal would obey is taken out, and what would show other
/// characters in another order or not at all is written as its number.
pub fn one_line(text: &str, most: usize) -> String {
    let words: Vec<String> = text.split_whitespace().map(base::text::clean).collect();
    let line = base::text::visible::readable(&words.join(" "));
    match line.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

/// Foreign text over several lines, without what a terminal would obey.
pub fn block(text: &str) -> String {
    base::text::clean(text).trim_end().to_owned()
}

/// A JSON value on one line, for people.
pub fn brief(value: &Value, most: usize) -> String {
    match value {
        Value::String(text) => one_line(text, most),
        other => one_line(&other.to_string(), most),
    }
}

/// A span as people say it: `850 ms`, `12.3 s`, `2 min 5 s`, `3 h 4 min`, `2 d 3 h`.
pub fn span(milliseconds: i64) -> String {
    let seconds = milliseconds / 1000;
    match seconds {
        ..1 => format!("{milliseconds} ms"),
        1..60 => format!("{:.1} s", milliseconds as f64 / 1000.0),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// `1 butler`, `2 butlers`, `2 processes`.
pub fn count(n: usize, one: &str) -> String {
    match n {
        1 => format!("1 {one}"),
        n if one.ends_with('s') => format!("{n} {one}es"),
        n => format!("{n} {one}s"),
    }
}

/// A moment as people read it.
pub fn moment(at: Timestamp, zone: &TimeZone) -> String {
    at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// A name of a row with its underscores as blanks: `timed_out` is `timed out`.
pub fn words(name: &str) -> String {
    name.replace('_', " ")
}

/// The text with a capital at its start, unless it begins with a path or a setting.
pub fn sentence(text: &str) -> String {
    let word = text.split(' ').next().unwrap_or_default();
    match text.chars().next().filter(|_| word.bytes().all(|b| b.is_ascii_lowercase())) {
        Some(first) => format!("{}{}", first.to_ascii_uppercase(), &text[first.len_utf8()..]),
        None => text.to_owned(),
    }
}

/// A size as people say it.
pub fn size(bytes: u64) -> String {
    let (kib, mib) = (1 << 10, 1 << 20);
    match bytes {
        ..10_240 => ByteSize(bytes).to_string(),
        10_240..10_485_760 => format!("{} KiB", bytes.div_ceil(kib)),
        10_485_760..10_737_418_240 => format!("{} MiB", bytes.div_ceil(mib)),
        _ => format!("{} GiB", bytes >> 30),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_cannot_command_the_terminal() {
        assert_eq!(one_line("a\x1b]0;owned\x07\n b\tc", 80), "a]0;owned b c");
        assert_eq!(block("x\x1b[2J\ny\n\n"), "x[2J\ny");
        assert_eq!(one_line("äöüß", 2), "äö…");
    }

    #[test]
    fn spans_read_well() {
        for (ms, text) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (12_345, "12.3 s"),
            (125_000, "2 min 5 s"),
            (11_040_000, "3 h 4 min"),
            (183_600_000, "2 d 3 h"),
        ] {
            assert_eq!(span(ms), text);
        }
    }

    #[test]
    fn counts_have_their_plural() {
        assert_eq!((count(1, "butler"), count(0, "butler")), ("1 butler".into(), "0 butlers".into()));
        assert_eq!(count(2, "process"), "2 processes");
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!((size(2048 * 20).as_str(), size(1 << 30).as_str()), ("40 KiB", "1024 MiB"));
    }
}
