//! Where a page of a list begins: opaque to whoever holds it, and good for the very list that gave it.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

/// As many bytes of the check stand in a cursor. It finds mistakes; it keeps no secret.
const CHECK: usize = 8;

fn check(list: &str, place: &str) -> [u8; CHECK] {
    let mut digest = Sha256::new();
    digest.update((list.len() as u64).to_be_bytes());
    digest.update(list);
    digest.update(place);
    let whole = digest.finalize();
    std::array::from_fn(|n| whole[n])
}

/// The cursor of a place in a list. `list` names the list with all that it is filtered by.
pub(crate) fn seal(list: &str, place: &str) -> String {
    let mut bytes = check(list, place).to_vec();
    bytes.extend_from_slice(place.as_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The place of a cursor that this list gave.
pub(crate) fn open(list: &str, cursor: &str) -> Option<String> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
    let (found, place) = bytes.split_at_checked(CHECK)?;
    let place = String::from_utf8(place.to_vec()).ok()?;
    (found == check(list, &place)).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_good_for_its_own_list() {
        let cursor = seal("listSessions {}", "2026-01-01T10:00:00Z~id");
        assert_eq!(open("listSessions {}", &cursor).as_deref(), Some("2026-01-01T10:00:00Z~id"));
        for (list, cursor) in
            [("listInbox {}", cursor.as_str()), ("listSessions {}", &cursor[1..]), ("x", ""), ("x", "ä")]
        {
            assert_eq!(open(list, cursor), None, "{list} {cursor}");
        }
    }
}
