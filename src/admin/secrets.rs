//! Secrets: stored encrypted, told of by name only.

use async_trait::async_trait;
use jiff::Timestamp;
use jsonrpsee::Extensions;
use jsonrpsee::proc_macros::rpc;
use serde::{Deserialize, Serialize};

use super::failure::Failure;
use super::rights::Need;
use super::rpc::Rpc;
use super::sealed::Sealed;
use super::visitor::may;

/// The stored secrets.
#[rpc(server, client, namespace = "butlerd", namespace_separator = ".")]
pub trait SecretsApi {
    /// Stores a secret, encrypted, in place of an older one of this name. Scope `admin`.
    #[method(name = "secret_set", param_kind = map, with_extensions)]
    async fn secret_set(&self, name: String, value: Sealed) -> Result<SecretName, Failure>;

    /// Names and times of the stored secrets. Scope `admin`.
    #[method(name = "secret_list", param_kind = map, with_extensions)]
    async fn secret_list(&self) -> Result<Vec<SecretName>, Failure>;

    /// Removes a secret. Scope `admin`.
    #[method(name = "secret_remove", param_kind = map, with_extensions)]
    async fn secret_remove(&self, name: String) -> Result<SecretName, Failure>;
}

/// What may be told of a secret.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SecretName {
    pub name: String,
    /// `None` where only the name matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Timestamp>,
    /// Answer to `secret_set`: butlers whose modules read it when they started, and read it again at a reload.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read_at_start_by: Vec<String>,
}

impl SecretName {
    fn of(name: String) -> Self {
        Self { name, updated_at: None, read_at_start_by: Vec::new() }
    }
}

#[async_trait]
impl SecretsApiServer for Rpc {
    async fn secret_set(&self, ext: &Extensions, name: String, value: Sealed) -> Result<SecretName, Failure> {
        let grant = may(ext, Need::Household)?;
        self.supervisor.services().credentials.set(&grant.tenant, &name, value.secret()).await?;
        let butlers = self.supervisor.butlers();
        let readers = butlers.iter().filter(|b| b.modules().reads_secret(&name));
        let read_at_start_by = readers.map(|b| b.name().to_string()).collect();
        Ok(SecretName { read_at_start_by, ..SecretName::of(name) })
    }

    async fn secret_list(&self, ext: &Extensions) -> Result<Vec<SecretName>, Failure> {
        let grant = may(ext, Need::Household)?;
        let list = self.supervisor.services().credentials.list(&grant.tenant).await?;
        Ok(list.into_iter().map(|s| SecretName { updated_at: Some(s.updated_at), ..SecretName::of(s.name) }).collect())
    }

    async fn secret_remove(&self, ext: &Extensions, name: String) -> Result<SecretName, Failure> {
        let grant = may(ext, Need::Household)?;
        match self.supervisor.services().credentials.remove(&grant.tenant, &name).await? {
            true => Ok(SecretName::of(name)),
            false => Err(Failure::new("not_found", "There is no secret of that name. See: butlerd secret list")),
        }
    }
}
