//! Calendars and address books at servers (CalDAV and CardDAV), and what keeps a copy of them the same as they are there.
//! It knows nothing of the house, keeps nothing and logs nothing.
//!
//! Sources: RFC 4918 (WebDAV), 3744 (privileges), 5397 (principals), 6764 (discovery), 4791 (CalDAV), 6352 (CardDAV), 6578
//! (changes since a token), 5545 (iCalendar), 2426 and 6350 (vCard).
//!
//! [`Client`] finds the collections of an account, [`Collection`] reads and writes one, and [`sync`] makes one equal to a
//! [`LocalStore`](sync::LocalStore), in both directions. [`card`] reads people out of vCards, and edits them in place.

mod address;
pub mod card;
mod collection;
mod discover;
mod error;
mod http;
mod lines;
pub mod sync;
#[cfg(test)]
mod tests;
mod xml;

pub use collection::{Collection, Kind};
pub use discover::{Client, CollectionInfo};
pub use error::DavError;
pub use http::Credentials;
pub use lines::{Line, folded, uid};
