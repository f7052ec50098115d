//! Deliveries for people: looking, sending again, calling off, saying what became of one.

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jsonrpsee::Extensions;
use jsonrpsee::proc_macros::rpc;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::failure::Failure;
use super::rights::{self, Need};
use super::rpc::{Rpc, limited, to_its_end};
use super::visitor::may;
use access::{Grant, Holder};
use outbox::{Changed, DeliveryError, DeliveryPreview, DeliveryView, MESSENGER, OutFile, Outbox, SendRequest};

const MOST: u32 = 200;
const USUAL: u32 = 20;
const STATES: [&str; 8] = ["pending", "deferred", "waiting", "sending", "sent", "unknown", "failed", "dead"];
/// Those that somebody should look at.
const BAD: &str = "bad";

/// What was sent, waits to be sent, or failed.
#[rpc(server, client, namespace = "butlerd", namespace_separator = ".")]
pub trait DeliveriesApi {
    /// The newest deliveries, at most `limit` (1 to 200, else 20); of one butler, or of one state, or `bad`: unknown,
    /// failed and dead ones; those made before the delivery `before`, if that is named. A token of one butler sees that
    /// butler's. Scope `read`.
    #[method(name = "deliveries_list", param_kind = map, with_extensions)]
    async fn deliveries_list(
        &self,
        butler: Option<String>,
        state: Option<String>,
        limit: Option<u32>,
        before: Option<Uuid>,
    ) -> Result<Vec<DeliveryView>, Failure>;

    /// One delivery with its tries. Scope `read`.
    #[method(name = "deliveries_show", param_kind = map, with_extensions)]
    async fn deliveries_show(&self, id: Uuid) -> Result<DeliveryView, Failure>;

    /// What sending this would come to: to whom, when, and how it looks there. Nothing is sent. Scope `read`.
    #[method(name = "deliveries_preview", param_kind = map, with_extensions)]
    async fn deliveries_preview(
        &self,
        message: String,
        to: Option<String>,
        channel: Option<String>,
        subject: Option<String>,
        priority: Option<String>,
    ) -> Result<DeliveryPreview, Failure>;

    /// A file that went along with a delivery, by the beginning of its content's SHA-256 (8 hexadecimal digits at least).
    /// What has left over a channel is not kept. Scope `read`.
    #[method(name = "deliveries_file", param_kind = map, with_extensions)]
    async fn deliveries_file(&self, handle: String) -> Result<SavedFile, Failure>;

    /// Sends one once more that failed, is dead or unknown. Scope `admin`.
    #[method(name = "deliveries_retry", param_kind = map, with_extensions)]
    async fn deliveries_retry(&self, id: Uuid) -> Result<Changed, Failure>;

    /// Calls one off that has not left. Scope `admin`.
    #[method(name = "deliveries_cancel", param_kind = map, with_extensions)]
    async fn deliveries_cancel(&self, id: Uuid) -> Result<Changed, Failure>;

    /// Says of an unknown one whether it arrived; one that did not is sent once more. Scope `admin`.
    #[method(name = "deliveries_resolve", param_kind = map, with_extensions)]
    async fn deliveries_resolve(&self, id: Uuid, arrived: bool) -> Result<Changed, Failure>;
}

/// A file that went along with a delivery.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "DeliveredFile")]
pub struct SavedFile {
    pub name: String,
    pub media_type: String,
    pub content_base64: String,
}

impl From<DeliveryError> for Failure {
    fn from(e: DeliveryError) -> Self {
        match e {
            DeliveryError::Store(e) => e.into(),
            DeliveryError::Unknown(id) => unknown(id),
            DeliveryError::NotNow(why) => Self::new("not_now", format!("Nothing was changed: {why}.")),
        }
    }
}

fn unknown(id: Uuid) -> Failure {
    Failure::new("not_found", format!("There is no delivery {id}. See: butlerd deliveries list"))
}

/// Who decides on a delivery.
fn person(grant: &Grant) -> Result<String, Failure> {
    match &grant.holder {
        Holder::Operator { label, .. } => Ok(label.clone()),
        _ => Err(Failure::forbidden("Only a person decides on a delivery.")),
    }
}

impl Rpc {
    pub(super) fn post(&self) -> Outbox {
        self.supervisor.services().outbox.clone()
    }

    /// A delivery that the grant reaches.
    async fn delivery(&self, grant: &Grant, id: Uuid) -> Result<DeliveryView, Failure> {
        let found = self.post().show(&grant.tenant, id).await?;
        if rights::check_butler(grant, &found.origin).is_err() {
            return Err(unknown(id));
        }
        Ok(found)
    }
}

#[async_trait]
impl DeliveriesApiServer for Rpc {
    async fn deliveries_list(
        &self,
        ext: &Extensions,
        butler: Option<String>,
        state: Option<String>,
        limit: Option<u32>,
        before: Option<Uuid>,
    ) -> Result<Vec<DeliveryView>, Failure> {
        let grant = may(ext, Need::Look)?;
        let limit = limited(limit, USUAL, MOST)?;
        let butler = rights::own_or(&grant, butler)?;
        let state = state.as_deref();
        let states: &[&str] = match &state {
            None => &[],
            Some(BAD) => &["unknown", "failed", "dead"],
            Some(state) if STATES.contains(state) => std::slice::from_ref(state),
            Some(state) => {
                let known = STATES.join(", ");
                return Err(Failure::invalid(format!("There is no state `{state}`; there are: {known}, and {BAD}.")));
            }
        };
        Ok(self.post().list(&grant.tenant, butler.as_deref(), states, i64::from(limit), before).await?)
    }

    async fn deliveries_show(&self, ext: &Extensions, id: Uuid) -> Result<DeliveryView, Failure> {
        let grant = may(ext, Need::Look)?;
        self.delivery(&grant, id).await
    }

    async fn deliveries_preview(
        &self,
        ext: &Extensions,
        message: String,
        to: Option<String>,
        channel: Option<String>,
        subject: Option<String>,
        priority: Option<String>,
    ) -> Result<DeliveryPreview, Failure> {
        let grant = may(ext, Need::Look)?;
        rights::check_butler(&grant, MESSENGER)?;
        let wanted = SendRequest {
            channel: channel.as_deref(),
            recipient: to.as_deref(),
            subject: subject.as_deref(),
            message: &message,
            priority: priority.as_deref(),
            ..SendRequest::default()
        };
        let found = self.post().preview(&grant.tenant, &wanted).await?;
        found.map_err(|nobody| Failure::new("no_recipient", nobody.sentence()))
    }

    async fn deliveries_file(&self, ext: &Extensions, handle: String) -> Result<SavedFile, Failure> {
        let grant = may(ext, Need::Look)?;
        let handle = handle.to_ascii_lowercase();
        if handle.len() < 8 || !handle.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(Failure::invalid("A file is named by 8 hexadecimal digits or more, as its message says."));
        }
        let own = rights::own_or(&grant, None)?;
        let found = self.post().kept_file(&grant.tenant, &handle, own.as_deref()).await?;
        let OutFile { name, media_type, content } = found.ok_or_else(|| {
            Failure::new("not_found", "No such file is kept. See what a delivery has: butlerd deliveries show ID")
        })?;
        Ok(SavedFile { name, media_type, content_base64: STANDARD.encode(content) })
    }

    async fn deliveries_retry(&self, ext: &Extensions, id: Uuid) -> Result<Changed, Failure> {
        let grant = may(ext, Need::Manage)?;
        self.delivery(&grant, id).await?;
        person(&grant)?;
        let outbox = self.post();
        to_its_end("delivery-change", "The change", async move { outbox.retry(&grant.tenant, id).await }).await
    }

    async fn deliveries_cancel(&self, ext: &Extensions, id: Uuid) -> Result<Changed, Failure> {
        let grant = may(ext, Need::Manage)?;
        self.delivery(&grant, id).await?;
        let (outbox, by) = (self.post(), person(&grant)?);
        to_its_end("delivery-change", "The change", async move { outbox.cancel(&grant.tenant, id, &by).await }).await
    }

    async fn deliveries_resolve(&self, ext: &Extensions, id: Uuid, arrived: bool) -> Result<Changed, Failure> {
        let grant = may(ext, Need::Manage)?;
        self.delivery(&grant, id).await?;
        let (outbox, by) = (self.post(), person(&grant)?);
        let resolve = async move { outbox.resolve(&grant.tenant, id, arrived, &by).await };
        to_its_end("delivery-change", "The change", resolve).await
    }
}
