//! What the chat says of a message that does not go its usual way, at a terminal and line by line.

use uuid::Uuid;

use crate::text::one_line;

/// It can't go on just now.
pub fn waits(butler: Option<&str>, why: &str) -> String {
    let who = butler.map_or_else(String::new, |butler| format!("{}: ", one_line(butler, 40)));
    let why = one_line(why, 500);
    let why = why.trim_end_matches('.');
    format!("{who}{why}; butlerd tries again by itself, and the answer is shown here.")
}

/// It came to nothing, and no butler has said so.
pub fn failed(error: &str) -> String {
    format!("The message failed: {}", one_line(error, 1000))
}

/// What to do about one that came to nothing.
pub fn remedy(request: Uuid) -> String {
    format!("  Once that is mended: butlerd inbox retry {request}")
}
