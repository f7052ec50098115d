//! The files of a roster, applied by a role of their own.
//!
//! What a roster's file says is somebody else's program. It runs in a session that logged in as the owner of what it
//! makes: no superuser, and none to go back to. The history is written in the same transaction, by a function of the
//! daemon's role that knows beforehand what it is to write.

use tokio_postgres::{Client, Config};

use super::error::{MigrationError, describe};
use super::roles::{grants, owner_name, owner_password};
use base::{ButlerName, Secret};

/// A butler whose roster's files are applied.
pub(super) struct RosterOwner {
    pub butler: ButlerName,
    pub schema: String,
    login: Config,
}

impl RosterOwner {
    /// `server`: how the daemon itself reaches the database.
    pub fn new(butler: &ButlerName, schema: &str, server: &Config, master_key: &Secret<Vec<u8>>) -> Self {
        let mut login = server.clone();
        login.user(owner_name(butler));
        login.password(owner_password(master_key, butler).expose());
        login.application_name(format!("butlerd {butler} migrations"));
        Self { butler: butler.clone(), schema: schema.to_owned(), login }
    }

    /// The role's name.
    pub fn role(&self) -> String {
        owner_name(&self.butler)
    }

    /// What the butler's role may do with what there is now.
    pub fn grants(&self) -> String {
        grants(&self.schema, &self.butler)
    }

    /// A session of the role.
    pub async fn log_in(&self) -> Result<Client, MigrationError> {
        let connected = self.login.connect(super::tls::connector(&self.login)).await;
        let (client, connection) =
            connected.map_err(|source| MigrationError::Login { role: self.role(), why: describe(&source), source })?;
        drop(base::task::spawn(base::task::Kind::Job, "roster-migrations", connection));
        Ok(client)
    }
}
