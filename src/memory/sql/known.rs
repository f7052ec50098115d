//! What is known already of what episodes speak of.

use base::TenantId;
use store::{AsRows, Lease, Params, StoreError};
use uuid::Uuid;

store::row! {
    /// A fact that the model is shown.
    #[derive(Clone, Debug)]
    pub struct KnownFact {
        pub id: Uuid,
        pub subject: String,
        pub predicate: String,
        pub content: String,
        pub entity_id: Option<Uuid>,
        pub object_entity_id: Option<Uuid>,
        pub kind: String,
        pub permanence: String,
        pub importance: f32,
        pub scope: String,
        pub tags: Vec<String>,
        pub retention_class: String,
        pub sensitivity: String,
    }
}

/// Memories of one tenant in one schema that hold and are believed so far.
#[derive(Clone, Copy, Debug)]
pub struct Believed<'a> {
    pub schema: &'a str,
    pub tenant: &'a TenantId,
    /// The names of the trusts that count.
    pub trusts: &'a [&'a str],
    pub scopes: &'a [&'a str],
}

const HOLD: &str = "tenant_id = $1 AND trust = ANY($2) AND scope = ANY($3) AND validity IN ('active', 'fading') AND forgotten_at IS NULL";

fn failed(e: tokio_postgres::Error) -> StoreError {
    StoreError::query("reading what is known already")(e)
}

impl Believed<'_> {
    /// Of whom and what there are facts, those spoken of last first.
    pub async fn subjects(&self, lease: &mut Lease, most: i64) -> Result<Vec<String>, StoreError> {
        let sql = format!(
            "SELECT subject FROM \"{}\".memory_facts WHERE {HOLD} GROUP BY subject ORDER BY max(seq) DESC LIMIT $4",
            self.schema
        );
        let params: Params<'_> = &[&self.tenant.as_str(), &self.trusts, &self.scopes, &most];
        lease.read(&sql, params).await.column("subject").map_err(failed)
    }

    /// Facts of these subjects, the most important first.
    pub async fn facts(&self, lease: &mut Lease, subjects: &[String]) -> Result<Vec<KnownFact>, StoreError> {
        let sql = format!(
            "SELECT id, subject, predicate, content, entity_id, object_entity_id, kind, permanence, importance, scope,
                    tags, retention_class, sensitivity
             FROM \"{}\".memory_facts WHERE {HOLD} AND subject = ANY($4) ORDER BY importance DESC, seq DESC LIMIT 300",
            self.schema
        );
        let params: Params<'_> = &[&self.tenant.as_str(), &self.trusts, &self.scopes, &subjects];
        lease.read(&sql, params).await.typed().map_err(failed)
    }

    /// Rules with their texts, the newest first.
    pub async fn rules(&self, lease: &mut Lease) -> Result<Vec<(Uuid, String)>, StoreError> {
        let sql =
            format!("SELECT id, content FROM \"{}\".memory_rules WHERE {HOLD} ORDER BY seq DESC LIMIT 60", self.schema);
        let rows = lease.read(&sql, &[&self.tenant.as_str(), &self.trusts, &self.scopes]).await.map_err(failed)?;
        Ok(rows.iter().map(|row| (row.get("id"), row.get("content"))).collect())
    }
}
