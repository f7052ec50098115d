//! What comes along with messages: stored before the message is, each content once, and of strangers not without end.

use jiff::SignedDuration;

use super::envelope;
use super::people::{self, OwnerIdentities};
use super::types::{AcceptError, Envelope};
use base::{TenantId, Trust};
use store::{Lease, Store, StoreError};
use tools::sql::blobs;
use tools::{blob_ref, put_blob};

const DAY: SignedDuration = SignedDuration::from_hours(24);

/// Stores the contents that came with a message, with their references in their place. `trust`: how far the sender is
/// believed, where the caller knows that. With more than `most` bytes of files within a day a stranger's are not
/// kept; what counts are the rows, so that no restart forgets it. Returns how many were not.
pub(super) async fn keep(
    store: &Store,
    owner: &OwnerIdentities,
    (tenant, envelope): (&TenantId, &mut Envelope),
    trust: Option<Trust>,
    most: u64,
) -> Result<usize, AcceptError> {
    if envelope.payload.attachments.iter().all(|file| file.content_base64.is_none()) {
        return Ok(0);
    }
    let unavailable = AcceptError::unavailable;
    let mut lease = store.tenant(tenant).await.map_err(unavailable)?;
    let trust = match trust {
        Some(trust) => trust,
        None => sender_trust(&mut lease, tenant, owner, envelope).await.map_err(unavailable)?,
    };
    let mut room = u64::MAX;
    if trust == Trust::Stranger {
        let came = blobs::bytes_since(&mut lease, store.clock().now() - DAY).await.map_err(unavailable)?;
        room = most.saturating_sub(came);
    }
    let mut left_out = 0;
    for (at, file) in envelope.payload.attachments.iter_mut().enumerate() {
        let Some(content) = envelope::content(file, at)? else { continue };
        let reference = match room.checked_sub(content.len() as u64) {
            Some(rest) => {
                room = rest;
                let stored = put_blob(&mut lease, &content, &file.media_type, file.filename.as_deref()).await;
                stored.map_err(StoreError::query("storing an attachment")).map_err(unavailable)?
            }
            // It stays with the message: by it the same message is known again.
            None => {
                left_out += 1;
                blob_ref(&content)
            }
        };
        (file.storage_ref, file.content_base64) = (Some(reference), None);
    }
    if left_out > 0 {
        tracing::warn!(files = left_out, "more files came than [buffer] allows strangers; theirs are not kept");
    }
    Ok(left_out)
}

async fn sender_trust(
    lease: &mut Lease,
    tenant: &TenantId,
    owner: &OwnerIdentities,
    envelope: &Envelope,
) -> Result<Trust, StoreError> {
    let sender = (envelope.source.channel.as_str(), envelope.sender.identity.as_str());
    let known = people::resolve(lease, tenant, owner, std::iter::once(sender)).await?;
    Ok(known.of(envelope).trust)
}
