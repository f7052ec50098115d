//! People: codes by which they bind accounts of theirs to their name.

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
use inbox::PairingError;

const MOST_NAME: usize = 200;

/// People whom the household knows.
#[rpc(server, client, namespace = "butlerd", namespace_separator = ".")]
pub trait ContactsApi {
    /// Makes a code for a person; this answer is the only place where it ever stands in clear. The account on the
    /// channel that shows it first is the person's. Scope `admin`.
    #[method(name = "contacts_pair", param_kind = map, with_extensions)]
    async fn contacts_pair(&self, name: String, channel: String) -> Result<Pairing, Failure>;
}

/// A code that was just made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pairing {
    pub name: String,
    pub channel: String,
    /// The code in clear.
    pub code: Sealed,
    /// Opened by the person, it shows the code.
    pub link: Sealed,
    pub expires_at: Timestamp,
}

impl From<PairingError> for Failure {
    fn from(e: PairingError) -> Self {
        match e {
            PairingError::Store(e) => e.into(),
            PairingError::NoWay(channel) => Self::new(
                "no_way_to_pair",
                format!(
                    "Nobody was invited: no connector here takes codes in on {channel}; Telegram's does, while it is up \
                     and allowed_chats is empty. \
                     An address or a number is noted with: butlerd contacts add NAME {channel} IDENTITY"
                ),
            ),
        }
    }
}

#[async_trait]
impl ContactsApiServer for Rpc {
    async fn contacts_pair(&self, ext: &Extensions, name: String, channel: String) -> Result<Pairing, Failure> {
        let grant = may(ext, Need::Household)?;
        let name = base::text::clean(name.trim());
        if name.is_empty() || name.len() > MOST_NAME {
            return Err(Failure::invalid(format!("A person's name has 1 to {MOST_NAME} bytes.")));
        }
        if !inbox::envelope::is_channel(&channel) {
            return Err(Failure::invalid(format!("`{channel}` is not a channel for messages from outside.")));
        }
        let made = self.supervisor.services().inbox.make_pairing(&grant.tenant, &channel, &name).await?;
        let (code, link) = (Sealed::from(made.code), Sealed::from(made.link));
        Ok(Pairing { name, channel, code, link, expires_at: made.until })
    }
}
