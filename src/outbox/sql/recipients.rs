//! Who is known by a name or an identity.

use crate::handle::Outbox;
use crate::recipient::{ContactMatch, Recipient, RecipientError, decide};
use base::TenantId;
use base::text::plain_identity;
use store::{AsRows, Lease, StoreError};

impl Outbox {
    /// To whom a delivery goes that names this channel and recipient, each or neither. Reads, and changes nothing.
    pub async fn resolve_recipient(
        &self,
        lease: &mut Lease,
        tenant: &TenantId,
        channel: Option<&str>,
        recipient: Option<&str>,
    ) -> Result<Result<Recipient, RecipientError>, StoreError> {
        let people = match recipient.map(str::trim).filter(|r| !r.is_empty()) {
            Some(recipient) => people(self, lease, tenant, recipient).await?,
            None => Vec::new(),
        };
        let owner = (*tenant == TenantId::owner()).then(|| self.owner());
        Ok(decide(channel, recipient, owner, &self.ways(), &people))
    }
}

async fn people(
    outbox: &Outbox,
    lease: &mut Lease,
    tenant: &TenantId,
    wanted: &str,
) -> Result<Vec<ContactMatch>, StoreError> {
    let sql = (outbox.inner.parts.people_called)("$1", "$2", "$3");
    let rows = lease.read(&sql, &[&wanted, &plain_identity(wanted), &tenant.as_str()]).await;
    rows.typed().map_err(StoreError::query("looking up a recipient"))
}
