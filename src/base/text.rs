//! Text from outside, cut and cleaned.

/// Cuts to at most `max` bytes on a character boundary and says how much is gone.
pub fn truncate(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let mut end = max;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}… [{} bytes cut]", &text[..end], text.len() - end)
}

/// Removes what PostgreSQL can't store (NUL) and what a terminal would obey; keeps newline and tab.
pub fn clean(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || *c == '\n' || *c == '\t').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncate_keeps_characters_whole() {
        assert_eq!(truncate("short", 10), "short");
        assert_eq!(truncate("äöü", 3), "ä… [4 bytes cut]");
    }

    #[test]
    fn clean_drops_controls() {
        assert_eq!(clean("a\0b\x1b[31mc\nd"), "ab[31mc\nd");
    }
}
