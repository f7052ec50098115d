//! Keeps a butler's roles as the daemon made them.

use sha2::{Digest, Sha256};

use super::error::StoreError;
use super::migrate::shipped_names;
use super::pool::{Params, Pool};
use super::roles::{derive, owner_name, role_name, role_statements};
use super::sql;
use base::text::hex;
use base::{ButlerName, Secret};

/// What of a schema has an owner of its own, as SQL calls it.
const OWNED: [&str; 6] = ["table", "view", "function", "sequence", "type", "domain"];

/// The roles of a butler.
pub(super) struct RoleKeeper {
    daemon: Pool,
    butler: ButlerName,
    schema: String,
    master_key: Secret<Vec<u8>>,
}

impl RoleKeeper {
    /// `daemon`: connections of the daemon's own role.
    pub fn new(daemon: Pool, butler: &ButlerName, schema: &str, master_key: Secret<Vec<u8>>) -> Self {
        Self { daemon, butler: butler.clone(), schema: schema.to_owned(), master_key }
    }

    /// The name of the role that the butler works as.
    pub fn role(&self) -> String {
        role_name(&self.butler)
    }

    /// What shows functions that are for the daemon alone that it is the daemon who asks for this butler.
    pub fn seal(&self) -> Secret<String> {
        Secret::new(derive(&self.master_key, &format!("seal:{}", self.butler)))
    }

    /// Makes schema and roles, or makes them what they should be. What a roster's files made belongs to its owner
    /// afterwards, also where the files ran before there was one.
    pub async fn restore(&self) -> Result<(), StoreError> {
        let step = || StoreError::query("making the butler's roles");
        let mut lease = self.daemon.unscoped().await?;
        let mut tx = lease.begin().await.map_err(step())?;
        // One at a time: roles and the database's own rights are rows that all butlers change.
        tx.execute(sql::LOCK_ROLES, &[]).await.map_err(step())?;
        tx.batch(&role_statements(&self.schema, &self.butler, &self.master_key)).await.map_err(step())?;
        let (butler, role, owner) = (self.butler.as_str(), self.role(), owner_name(&self.butler));
        let seal = Sha256::digest(self.seal().expose().as_bytes()).to_vec();
        let key_id = self.key_id();
        let row: Params<'_> = &[&butler, &self.schema, &role, &key_id, &owner, &seal];
        let recorded = tx.execute(sql::RECORD_ROLE, row).await;
        recorded.map_err(step())?;
        let history = format!("\"{}\".schema_migrations", self.schema);
        let rows = tx.query(sql::TABLE_EXISTS, &[&history]).await.map_err(step())?;
        if rows.first().is_some_and(|row| row.get("found")) {
            let chains = tx.query(&sql::chains_of(&self.schema), &[]).await.map_err(step())?;
            let chains: Vec<String> =
                chains.iter().map(|row| row.get("chain")).filter(|chain: &String| chain != butler).collect();
            let mut own = shipped_names(&chains, &OWNED)?;
            own.push("schema_migrations".to_owned());
            let give = tx.query(sql::GIVE, &[&self.schema, &own, &owner]).await.map_err(step())?;
            for row in give {
                tx.batch(row.get("statement")).await.map_err(step())?;
            }
        }
        tx.commit().await.map_err(step())
    }

    fn key_id(&self) -> String {
        hex(&Sha256::digest([b"roles:", self.master_key.expose().as_slice()].concat())[..8])
    }
}
