//! The statements on `blobs`: attachments, each content once.

use jiff::Timestamp;

use crate::call::{ToolCall, ToolError};
use base::{Audience, Label, TenantId, Trust};
use store::{Aged, AsRows, Lease, StoreError};

store::row! {
    /// An attachment.
    pub(crate) struct Blob {
        pub media_type: String,
        pub filename: Option<String>,
        pub size: i64,
        /// `None`: it is too large.
        pub content: Option<Vec<u8>>,
        pub label: Label = |row| Label {
            trust: Trust::from_name(row.get("trust")),
            audience: Audience::from_names(row.get::<_, Vec<String>>("audience")),
        },
    }
}

/// What `[retention] attachments` deletes: what has not come again since.
pub const OLD: Aged = Aged { table: "blobs", old: "used_at < $1" };

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
               ON CONFLICT (tenant_id, sha256) DO UPDATE SET used_at = shared.clock()";
    lease.execute(sql, &[&sha256, &media_type, &filename, &content, &trust.as_str()]).await.map(drop)
}

/// How many bytes of contents have come for the connection's tenant since a moment.
pub async fn bytes_since(lease: &mut Lease, since: Timestamp) -> Result<u64, StoreError> {
    let sql = "SELECT sum(octet_length(content))::bigint AS bytes FROM blobs WHERE created_at > $1";
    let bytes = lease.read(sql, &[&since]).await.cell::<i64>("bytes");
    let bytes = bytes.map_err(StoreError::query("adding up attachments"))?;
    Ok(bytes.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or_default())
}

/// The attachment of this hash; its content, if it has at most so many bytes.
pub(crate) async fn get(call: &ToolCall, sha256: &str, most: i32) -> Result<Option<Blob>, ToolError> {
    let sql = "SELECT media_type, filename, octet_length(content)::bigint AS size,
                      CASE WHEN octet_length(content) <= $2 THEN content END AS content, trust, audience
               FROM blobs WHERE sha256 = lower($1)";
    Ok(call.query(sql, &[&sha256, &most]).await?.first().map(Blob::from))
}

store::row! {
    /// A picture, and who may have made it.
    pub struct Picture {
        pub media_type: String,
        pub content: Vec<u8>,
        pub trust: String,
    }
}

/// The pictures among these contents that have at most so many bytes each, in a form that models read.
pub(crate) async fn pictures(lease: &mut Lease, hashes: &[String], most: i32) -> Result<Vec<Picture>, StoreError> {
    let sql = "SELECT media_type, content, trust FROM blobs
               WHERE sha256 = ANY($1) AND octet_length(content) <= $2
                 AND media_type IN ('image/png', 'image/jpeg', 'image/gif', 'image/webp')
               ORDER BY array_position($1, sha256)";
    lease.query(sql, &[&hashes, &most]).await.typed().map_err(StoreError::query("reading pictures"))
}

/// Copies attachments of a tenant from one butler to another, over a lease of the owner's role. `schemas`: of all butlers
/// that have been handed some. A content is believed as far as the least trusted of those who had sent it before, because the
/// owner who sends it on did not write it. What the target has already is believed as before: nobody wrote it who sends it again.
pub async fn hand_over(
    lease: &mut Lease,
    (from, to): (&str, &str),
    schemas: &[String],
    tenant: &TenantId,
    hashes: &[&str],
    trust: Trust,
) -> Result<(), StoreError> {
    // Its own rows say nothing: who sent them was not known when they were written.
    let others = schemas.iter().filter(|schema| *schema != from);
    let before: String = others
        .map(|schema| {
            format!(
                " UNION ALL SELECT b.trust FROM \"{schema}\".blobs b
                  WHERE (b.tenant_id, b.sha256) = (s.tenant_id, s.sha256) AND b.trust IN ('known', 'stranger')"
            )
        })
        .collect();
    let sql = format!(
        "INSERT INTO \"{to}\".blobs (tenant_id, sha256, media_type, filename, content, trust)
         SELECT tenant_id, sha256, media_type, filename, content,
                (SELECT a.trust FROM (SELECT $3::text AS trust{before}) a
                 ORDER BY array_position(ARRAY['stranger', 'known'], a.trust) LIMIT 1)
         FROM \"{from}\".blobs s WHERE tenant_id = $1 AND sha256 = ANY($2)
         ON CONFLICT (tenant_id, sha256) DO UPDATE SET used_at = shared.clock()"
    );
    let done = lease.execute(&sql, &[&tenant.as_str(), &hashes, &trust.as_str()]).await;
    done.map(drop).map_err(StoreError::query("handing over attachments"))
}
