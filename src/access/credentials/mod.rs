//! Secrets: encrypted at rest in `shared.secrets`, looked up there first, then in the environment.
//!
//! What never happens here: a secret in an argument, a log line, an error or a row in clear.

mod master_key;
mod store;

pub use master_key::{MasterKey, MasterKeyError};
pub use store::{CredentialError, Credentials, SecretInfo, Source};
