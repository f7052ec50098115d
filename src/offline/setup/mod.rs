//! What makes files for people: a household's first ones, a new butler, a new tool, tools of others that are ready.
//!
//! What never happens here: a file written over that is there; half a butler's directory; a key in a command line, or
//! in a file that others can read.

mod account;
mod butler;
mod connect;
mod hidden;
mod place;
mod ready;
mod service;
mod shipped;
mod start;
mod tool;

pub use account::{AccountKey, AccountPlace, Follower, WrittenAccount, followed, place_account, write_account};
pub use butler::{NewButler, new_butler};
pub use connect::{
    KnownMailbox, MAILBOX_PASSWORD, MailboxSettings, connect_email, connect_telegram, mailboxes, owners_identity,
};
pub use hidden::{COUNCIL, WORKSHOP, switch_on};
pub use ready::{Added, add_ready, ready_names};
pub use service::{ROSTER, SETTINGS, Service, install, obstacle, unit};
pub use shipped::{names as shipped_butlers, unpack};
pub use start::{Begun, Found, Start, StartRuntime, begin, check_butlers, keep_key, key_name, look};
pub use tool::{NewTool, new_tool};

/// Why nothing was made: a sentence, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// What was asked for makes no sense.
    #[error("{sentence}")]
    Request { sentence: String, next: String },
    #[error("{sentence}")]
    Failed { sentence: String, next: String },
    /// The daemon that runs refused, or does not answer.
    #[error(transparent)]
    Daemon(#[from] admin::ClientError),
}

impl SetupError {
    fn request(sentence: impl Into<String>, next: impl Into<String>) -> Self {
        Self::Request { sentence: sentence.into(), next: next.into() }
    }

    fn failed(sentence: impl Into<String>, next: impl Into<String>) -> Self {
        Self::Failed { sentence: sentence.into(), next: next.into() }
    }

    /// What to try next; empty where the sentence says it.
    pub fn next(&self) -> &str {
        match self {
            Self::Request { next, .. } | Self::Failed { next, .. } => next,
            Self::Daemon(_) => "",
        }
    }
}
