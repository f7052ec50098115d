//! What the household told its owner in the chat: looking back, and noting what was seen.

use async_trait::async_trait;
use jsonrpsee::Extensions;
use jsonrpsee::proc_macros::rpc;
use uuid::Uuid;

use super::failure::Failure;
use super::rights::Need;
use super::rpc::{Rpc, limited};
use super::visitor::may;
use access::{Grant, Holder};
use outbox::Note;

const MOST: u32 = 200;
const USUAL: u32 = 50;

/// Notes for the owner.
#[rpc(server, client, namespace = "butlerd", namespace_separator = ".")]
pub trait NotesApi {
    /// What the owner was told, seen or not, the newest first, at most `limit` (1 to 200, else 50); what came before the
    /// note `before`, if that is named. Scope `read`.
    #[method(name = "notes_list", param_kind = map, with_extensions)]
    async fn notes_list(&self, before: Option<Uuid>, limit: Option<u32>) -> Result<Vec<Note>, Failure>;

    /// Notes that these were seen; the chat shows them no more. Answers how many were not seen before. Scope `tools`.
    #[method(name = "notes_seen", param_kind = map, with_extensions)]
    async fn notes_seen(&self, ids: Vec<Uuid>) -> Result<u64, Failure>;
}

/// Notes are for whoever speaks for the owner, and not for one butler.
pub(super) fn for_the_owner(grant: &Grant) -> Result<(), Failure> {
    match grant.holder {
        Holder::Operator { .. } if grant.butler.is_none() => Ok(()),
        _ => Err(Failure::forbidden("Notes are for the owner; this token is of one butler.")),
    }
}

#[async_trait]
impl NotesApiServer for Rpc {
    async fn notes_list(
        &self,
        ext: &Extensions,
        before: Option<Uuid>,
        limit: Option<u32>,
    ) -> Result<Vec<Note>, Failure> {
        let grant = may(ext, Need::Look)?;
        for_the_owner(&grant)?;
        let limit = i64::from(limited(limit, USUAL, MOST)?);
        Ok(self.supervisor.services().outbox.told(&grant.tenant, before, limit).await?)
    }

    async fn notes_seen(&self, ext: &Extensions, ids: Vec<Uuid>) -> Result<u64, Failure> {
        let grant = may(ext, Need::Work)?;
        for_the_owner(&grant)?;
        Ok(self.supervisor.services().outbox.shown(&grant.tenant, &ids).await?)
    }
}
