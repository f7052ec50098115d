//! `shared.secrets`: XChaCha20-Poly1305 under a key derived from the master key, bound to tenant and name.

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use futures_util::future::BoxFuture;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::sql::{self, SealedRow};
use base::redact::household;
use base::{Secret, TenantId};
use store::{AsRows, Database, StoreError, derive};

/// Why a secret can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the secret {0} can't be decrypted: it was written under another master key")]
    WrongKey(String),
    #[error("`{0}` is not a name for a secret: use capital letters, digits and `_`, as in ANTHROPIC_API_KEY")]
    BadName(String),
    #[error("a secret can't be empty or longer than 64 KiB")]
    BadValue,
    #[error("no random bytes: {0}")]
    Entropy(getrandom::Error),
}

/// Where a credential was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    Database,
    Environment,
}

store::row! {
    /// What may be told of a secret.
    #[derive(Debug, Clone, serde::Serialize)]
    pub struct SecretInfo {
        pub name: String,
        pub updated_at: jiff::Timestamp,
    }
}

/// Reads and writes credentials. What it hands out is hidden from then on wherever text is stored or logged. Cheap to
/// clone.
#[derive(Clone)]
pub struct Credentials {
    inner: Arc<Inner>,
}

struct Inner {
    db: Arc<Database>,
    cipher: XChaCha20Poly1305,
    key_id: String,
    environment: fn(&str) -> Option<String>,
    /// How often each was stored or removed since the daemon's start.
    changes: Mutex<BTreeMap<String, u64>>,
}

impl Credentials {
    /// Credentials of this database under this master key.
    pub fn new(db: Arc<Database>, master_key: &Secret<Vec<u8>>) -> Self {
        let key = Sha256::digest(derive(master_key, "secrets").as_bytes());
        let cipher = XChaCha20Poly1305::new(&key);
        let key_id = derive(master_key, "secrets-key-id")[..16].to_owned();
        let environment = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
        Self { inner: Arc::new(Inner { db, cipher, key_id, environment, changes: Mutex::default() }) }
    }

    /// Stores `value` under `name`, replacing what was there.
    pub async fn set(&self, tenant: &TenantId, name: &str, value: &Secret<String>) -> Result<(), CredentialError> {
        household().hide(value);
        let (nonce, ciphertext) = self.seal(tenant, name, value)?;
        let mut lease = self.inner.db.shared(tenant).await?;
        let params: store::Params<'_> = &[&name, &nonce.as_slice(), &ciphertext, &self.inner.key_id];
        lease.execute(sql::SET_SECRET, params).await.map_err(StoreError::query("storing a secret"))?;
        self.changed(name);
        Ok(())
    }

    /// Makes something of a stored secret, and perhaps another one to stand in its place. Nobody else does that at the same
    /// time, on any daemon. `make` returns what it made, and what is to be stored; it is the caller's to hide both from the
    /// log for as long as they are good. `None`: there is no such secret. The inner error says why what was made is not
    /// stored: whoever can't make it again has to keep it.
    pub async fn change<'a, T, E>(
        &self,
        tenant: &TenantId,
        name: &str,
        make: impl FnOnce(Secret<String>) -> BoxFuture<'a, Result<(T, Option<Secret<String>>), E>>,
    ) -> Result<Option<Result<(T, Result<(), CredentialError>), E>>, CredentialError> {
        let failed = || StoreError::query("changing a secret");
        let mut lease = self.inner.db.shared(tenant).await?;
        let mut tx = lease.begin().await.map_err(failed())?;
        let sealed = tx.query_opt(sql::LOCK_SECRET, &[&tenant.as_str(), &name]).await.first_typed();
        let Some(sealed) = sealed.map_err(failed())? else { return Ok(None) };
        let stored = self.open(tenant, name, sealed)?;
        let (made, new) = match make(stored).await {
            Ok(made) => made,
            Err(e) => return Ok(Some(Err(e))),
        };
        let Some(new) = new else { return Ok(Some(Ok((made, Ok(()))))) };
        let stored = async {
            let (nonce, ciphertext) = self.seal(tenant, name, &new)?;
            let params: store::Params<'_> = &[&name, &nonce.as_slice(), &ciphertext, &self.inner.key_id];
            tx.execute(sql::SET_SECRET, params).await.map_err(failed())?;
            tx.commit().await.map_err(failed())?;
            Ok::<_, CredentialError>(())
        };
        Ok(Some(Ok((made, stored.await))))
    }

    fn seal(
        &self,
        tenant: &TenantId,
        name: &str,
        value: &Secret<String>,
    ) -> Result<([u8; 24], Vec<u8>), CredentialError> {
        check_name(name)?;
        if value.expose().is_empty() || value.expose().len() > 64 * 1024 {
            return Err(CredentialError::BadValue);
        }
        let mut nonce = [0u8; 24];
        getrandom::fill(&mut nonce).map_err(CredentialError::Entropy)?;
        let aad = aad(tenant, name);
        let payload = Payload { msg: value.expose().as_bytes(), aad: aad.as_bytes() };
        let sealed = self.inner.cipher.encrypt(&XNonce::from(nonce), payload).map_err(|_| CredentialError::BadValue)?;
        Ok((nonce, sealed))
    }

    fn open(&self, tenant: &TenantId, name: &str, sealed: SealedRow) -> Result<Secret<String>, CredentialError> {
        let wrong = || CredentialError::WrongKey(name.to_owned());
        let SealedRow { nonce, ciphertext } = sealed;
        let nonce: [u8; 24] = nonce.try_into().map_err(|_| wrong())?;
        let aad = aad(tenant, name);
        let payload = Payload { msg: &ciphertext, aad: aad.as_bytes() };
        let clear = self.inner.cipher.decrypt(&XNonce::from(nonce), payload).map_err(|_| wrong())?;
        String::from_utf8(clear).map(Secret::new).map_err(|_| wrong())
    }

    fn changed(&self, name: &str) {
        let mut changes = self.inner.changes.lock().unwrap_or_else(|e| e.into_inner());
        *changes.entry(name.to_owned()).or_default() += 1;
    }

    /// Changes whenever `name` is stored or removed, so that a reader who keeps the value can tell that it is stale.
    /// Counts from the daemon's start.
    pub fn version(&self, name: &str) -> u64 {
        self.inner.changes.lock().unwrap_or_else(|e| e.into_inner()).get(name).copied().unwrap_or_default()
    }

    /// The credential `name`: from the database, else from the environment variable of that name.
    pub async fn get(
        &self,
        tenant: &TenantId,
        name: &str,
    ) -> Result<Option<(Secret<String>, Source)>, CredentialError> {
        self.get_or(tenant, name, name).await
    }

    /// The same where another variable of the environment than the one of its name is asked for it.
    pub async fn get_or(
        &self,
        tenant: &TenantId,
        name: &str,
        variable: &str,
    ) -> Result<Option<(Secret<String>, Source)>, CredentialError> {
        if let Some(value) = self.stored(tenant, name).await? {
            return Ok(Some((value, Source::Database)));
        }
        let value = (self.inner.environment)(variable).map(Secret::new);
        Ok(value.inspect(|v| household().hide(v)).map(|v| (v, Source::Environment)))
    }

    /// A variable that `[butler.env]` names: the stored secret of that name, else what the daemon's environment has.
    /// The latter may be no secret at all, and is hidden only where its name says that it is one.
    pub async fn variable(&self, tenant: &TenantId, name: &str) -> Result<Option<Secret<String>>, CredentialError> {
        if let Some(value) = self.stored(tenant, name).await? {
            return Ok(Some(value));
        }
        let value = std::env::var(name).ok();
        Ok(value.inspect(|v| household().hide_variable(name, v)).map(Secret::new))
    }

    async fn stored(&self, tenant: &TenantId, name: &str) -> Result<Option<Secret<String>>, CredentialError> {
        let mut lease = self.inner.db.shared(tenant).await?;
        let sealed = lease.query_opt(sql::GET_SECRET, &[&tenant.as_str(), &name]).await.first_typed();
        drop(lease);
        let Some(sealed) = sealed.map_err(StoreError::query("reading a secret"))? else { return Ok(None) };
        let value = self.open(tenant, name, sealed)?;
        household().hide(&value);
        Ok(Some(value))
    }

    /// Names and times of the stored secrets.
    pub async fn list(&self, tenant: &TenantId) -> Result<Vec<SecretInfo>, CredentialError> {
        let mut lease = self.inner.db.shared(tenant).await?;
        let listed = lease.query(sql::LIST_SECRETS, &[&tenant.as_str()]).await.typed();
        Ok(listed.map_err(StoreError::query("listing secrets"))?)
    }

    /// Removes a secret; says whether it was there.
    pub async fn remove(&self, tenant: &TenantId, name: &str) -> Result<bool, CredentialError> {
        let mut lease = self.inner.db.shared(tenant).await?;
        let n = lease
            .execute(sql::REMOVE_SECRET, &[&tenant.as_str(), &name])
            .await
            .map_err(StoreError::query("removing a secret"))?;
        if n > 0 {
            self.changed(name);
        }
        Ok(n > 0)
    }
}

fn aad(tenant: &TenantId, name: &str) -> String {
    format!("shared.secrets/{tenant}/{name}")
}

/// The names of credentials are those of environment variables.
fn check_name(name: &str) -> Result<(), CredentialError> {
    let mut bytes = name.bytes();
    let ok = bytes.next().is_some_and(|b| b.is_ascii_uppercase() || b == b'_')
        && bytes.all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
        && name.len() <= 128;
    if ok { Ok(()) } else { Err(CredentialError::BadName(name.to_owned())) }
}
