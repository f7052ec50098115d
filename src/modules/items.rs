//! Items of a collection that a provider has as well, as a module's rows have them.

use dav::sync::{Item, Which};
use tokio_postgres::Row;
use uuid::Uuid;

use store::{Lease, StoreError};

/// Reads items of a collection by a statement in which `{which}` stands for a condition on one of them, `i`.
pub(crate) async fn items(
    lease: &mut Lease,
    sql: &str,
    collection: Uuid,
    which: Which<'_>,
) -> Result<Vec<Item>, StoreError> {
    let sql = |condition: &str| sql.replace("{which}", condition);
    let rows = match which {
        Which::Id(id) => lease.read(&sql("i.id = $2"), &[&collection, &id]).await,
        Which::Hrefs(hrefs) => lease.read(&sql("i.href = ANY ($2)"), &[&collection, &hrefs]).await,
        Which::Uids(uids) => lease.read(&sql("i.uid = ANY ($2)"), &[&collection, &uids]).await,
    };
    let of = |row: &Row| Item {
        id: row.get("id"),
        revision: u64::try_from(row.get::<_, i64>("revision")).unwrap_or_default(),
        uid: row.get("uid"),
        href: row.get("href"),
        etag: row.get("etag"),
        base: row.get("base"),
        ours: row.get("ours"),
        sent: row.get("sent"),
        reread: row.get("reread"),
    };
    Ok(rows.map_err(StoreError::query("reading a collection's items"))?.iter().map(of).collect())
}
