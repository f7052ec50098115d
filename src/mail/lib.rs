//! Mail: letters as bytes and as what people mean by them, and the servers that keep and carry them. It knows nothing of
//! the house.
//!
//! Whatever the bytes are, reading them ends, in bounded time and memory, with a letter or with a sentence why not.

mod account;
mod addresses;
mod authentication;
mod automatic;
mod body;
mod clean;
mod compose;
mod decode;
mod fields;
mod files;
mod html;
mod ids;
pub mod imap;
mod invitations;
mod letter;
mod mime;
mod quoted;
mod read;
mod reports;
pub mod smtp;
#[cfg(test)]
mod tests;

pub use account::{Account, AddressError, Login, Protocol, ServerAddress, Tls, is_address};
pub use authentication::results_server;
pub use compose::{AttachedFile, Draft, answer_subject, bare_subject, compose};
pub use letter::{
    Automatic, DeliveryReport, Mailbox, ParsedMail, Part, Proof, ProofResult, ReadError, ReadOptions, Words,
};
pub use read::read;
