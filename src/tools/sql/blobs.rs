//! The statements on `blobs`: attachments, each content once.

use crate::call::{ToolCall, ToolError};
use base::{TenantId, Trust};
use store::{Lease, StoreError};

store::row! {
    /// An attachment.
    pub(crate) struct Blob {
        pub media_type: String,
        pub filename: Option<String>,
        pub size: i64,
        /// `None`: it is too large.
        pub content: Option<Vec<u8>>,
    }
}

/// Stores the content of this hash for the connection's tenant, unless it is there.
pub(crate) async fn put(
    lease: &mut Lease,
    sha256: &str,
    media_type: &str,
    filename: Option<&str>,
    content: &[u8],
    trust: Trust,
) -> Result<(), tokio_postgres::Error> {
    let sql = "INSERT INTO blobs (sha256, media_type, filename, content, trust) VALUES ($1, $2, $3, $4, $5)
               ON CONFLICT (tenant_id, sha256) DO NOTHING";
    lease.execute(sql, &[&sha256, &media_type, &filename, &content, &trust.as_str()]).await.map(drop)
}

/// The attachment of this hash; its content, if it has at most so many bytes.
pub(crate) async fn get(call: &ToolCall, sha256: &str, most: i32) -> Result<Option<Blob>, ToolError> {
    let sql = "SELECT media_type, filename, octet_length(content)::bigint AS size,
                      CASE WHEN octet_length(content) <= $2 THEN content END AS content
               FROM blobs WHERE sha256 = lower($1)";
    Ok(call.query(sql, &[&sha256, &most]).await?.first().map(Blob::from))
}

/// Copies attachments of a tenant from one butler to another, over a lease of the owner's role. They are believed as far as
/// whoever sent them now; what the owner sent stays the owner's.
pub async fn hand_over(
    lease: &mut Lease,
    (from, to): (&str, &str),
    tenant: &TenantId,
    hashes: &[&str],
    trust: Trust,
) -> Result<(), StoreError> {
    let sql = format!(
        "INSERT INTO \"{to}\".blobs (tenant_id, sha256, media_type, filename, content, trust)
         SELECT tenant_id, sha256, media_type, filename, content, $3 FROM \"{from}\".blobs
         WHERE tenant_id = $1 AND sha256 = ANY($2)
         ON CONFLICT (tenant_id, sha256) DO UPDATE SET trust = excluded.trust, filename = excluded.filename
         WHERE excluded.trust = 'owner' AND blobs.trust <> 'owner'"
    );
    let done = lease.execute(&sql, &[&tenant.as_str(), &hashes, &trust.as_str()]).await;
    done.map(drop).map_err(StoreError::query("handing over attachments"))
}
