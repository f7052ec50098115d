//! Who is known by a name or an identity.

use tokio_postgres::Row;

use crate::handle::Outbox;
use crate::recipient::{ContactMatch, Recipient, RecipientError, decide};
use base::TenantId;
use base::text::plain_identity;
use store::{Lease, StoreError};

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
            Some(recipient) => people(lease, tenant, recipient).await?,
            None => Vec::new(),
        };
        let owner = (*tenant == TenantId::owner()).then(|| self.owner());
        Ok(decide(channel, recipient, owner, &self.ways(), &people))
    }
}

async fn people(lease: &mut Lease, tenant: &TenantId, wanted: &str) -> Result<Vec<ContactMatch>, StoreError> {
    let rows = lease
        .read(
            "SELECT c.id, c.name, i.channel, i.identity
             FROM shared.contacts c LEFT JOIN shared.contact_identities i ON i.contact_id = c.id
             WHERE c.tenant_id = $3 AND (lower(c.name) = lower($1) OR c.id::text = $1 OR c.id IN
                   (SELECT o.contact_id FROM shared.contact_identities o WHERE o.tenant_id = $3 AND o.identity = $2)
                   OR c.id IN (SELECT p.contact_id FROM shared.people_called($1) p))
             ORDER BY c.id, i.channel, i.created_at",
            &[&wanted, &plain_identity(wanted), &tenant.as_str()],
        )
        .await
        .map_err(StoreError::query("looking up a recipient"))?;
    let known = |row: &Row| ContactMatch {
        contact: row.get("id"),
        name: row.get("name"),
        at: row.get::<_, Option<String>>("channel").zip(row.get("identity")),
    };
    Ok(rows.iter().map(known).collect())
}
