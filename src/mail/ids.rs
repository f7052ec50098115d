//! The names that letters give themselves and one another.

use super::clean;

/// Characters of a letter's name.
const LONGEST_ID: usize = 300;

/// The names of letters in a field, without angle brackets.
pub(crate) fn ids(value: &str) -> Vec<String> {
    let good = |id: &str| {
        let plain = |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, '<' | '>' | '"');
        (1..=LONGEST_ID).contains(&id.chars().count()) && id.chars().all(plain) && clean::seen(id).0 == id
    };
    if !value.contains('<') {
        // Some programs forget the brackets.
        return Some(value.trim()).filter(|id| id.contains('@') && good(id)).into_iter().map(str::to_owned).collect();
    }
    let inner = value.split('<').skip(1).filter_map(|piece| piece.split_once('>'));
    inner.map(|(id, _)| id.trim()).filter(|id| good(id)).map(str::to_owned).collect()
}
