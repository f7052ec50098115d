//! What makes files for people: a household's first ones, a new butler, a new tool.
//!
//! What never happens here: a file written over that is there; half a butler's directory; a key in a command line, or in
//! a file that others can read.

mod butler;
mod place;
mod service;
mod shipped;
mod start;
mod tool;

pub use butler::{NewButler, new_butler};
pub use service::{ROSTER, SETTINGS, Service, install, obstacle, unit};
pub use shipped::{names as shipped_butlers, unpack};
pub use start::{Begun, Found, Start, begin, key_name, known_key, look, store_key};
pub use tool::{NewTool, new_tool};

/// Why nothing was made: a sentence, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{sentence}")]
pub struct SetupError {
    pub sentence: String,
    pub next: String,
    /// Wrong wishes rather than something that failed.
    pub usage: bool,
}

impl SetupError {
    fn refused(sentence: impl Into<String>, next: impl Into<String>) -> Self {
        Self { sentence: sentence.into(), next: next.into(), usage: true }
    }

    fn failed(sentence: impl Into<String>, next: impl Into<String>) -> Self {
        Self { sentence: sentence.into(), next: next.into(), usage: false }
    }
}
