//! A developer's side of project memory: which project a directory belongs to, how the daemon is asked, what a coding
//! assistant's hooks say, the exchange by git, and the registration with the assistants.
//!
//! It holds no memory and opens no database. Git runs here, as the developer, and never in the daemon.

pub mod connection;
pub mod git;
pub mod hook;
pub mod init;
pub mod place;
pub mod record;
pub mod rules;
pub mod sync;
pub mod tool;
pub mod wire;
