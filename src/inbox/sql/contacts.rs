//! The statements on `shared.contacts` and `shared.contact_identities`: whom the household knows, and by what.

use serde_json::Value;
use uuid::Uuid;

use store::{AsRows, Lease, StoreError};
use tools::{ToolCall, ToolError};

store::row! {
    /// A sender who is known.
    pub struct KnownRow {
        pub channel: String,
        pub identity: String,
        pub contact: Uuid,
        pub entity: Option<Uuid>,
        /// An address book alone says so, and the settings don't take its word.
        pub stranger: bool,
    }
}

/// Those of these identities, each on its channel, that are somebody's.
pub async fn known(lease: &mut Lease, channels: &[&str], identities: &[String]) -> Result<Vec<KnownRow>, StoreError> {
    let sql = "SELECT i.channel, i.identity, c.id AS contact, c.entity_id AS entity,
                      i.believed = 'stranger' AS stranger
               FROM unnest($1::text[], $2::text[]) AS asked(channel, identity)
               JOIN shared.contact_identities i USING (channel, identity)
               JOIN shared.contacts c ON c.id = i.contact_id";
    lease.read(sql, &[&channels, &identities]).await.typed().map_err(StoreError::query("looking up senders"))
}

store::row! {
    /// A person.
    pub struct Person {
        pub contact_id: Uuid,
        pub name: String,
    }
}

/// Notes an identity as the call's effect. Returns whose it is then.
pub async fn add(call: &ToolCall, name: &str, channel: &str, identity: &str) -> Result<Option<Person>, ToolError> {
    let sql = "SELECT contact_id, name FROM shared.contact_identity_add($1, $2, $3)";
    Ok(call.effect(sql, &[&name, &channel, &identity]).await?.first().map(Person::from))
}

/// Forgets an identity as the call's effect. Returns whose it was.
pub async fn remove(call: &ToolCall, channel: &str, identity: &str) -> Result<Option<Person>, ToolError> {
    let sql = "SELECT contact_id, name FROM shared.contact_identity_remove($1, $2)";
    Ok(call.effect(sql, &[&channel, &identity]).await?.first().map(Person::from))
}

/// All identities as objects, by their people's names.
pub async fn list(call: &ToolCall) -> Result<Vec<Value>, ToolError> {
    let sql = "SELECT c.id AS contact_id, c.name, i.channel, i.identity FROM shared.contact_identities i
               JOIN shared.contacts c ON c.id = i.contact_id WHERE c.archived_at IS NULL
               ORDER BY lower(c.name), i.channel, i.identity";
    call.objects(sql, &[]).await
}

/// The channels that messages came through lately, or that somebody is known on.
pub async fn channels(call: &ToolCall) -> Result<Vec<String>, ToolError> {
    let sql = "SELECT channel FROM (SELECT channel FROM message_inbox ORDER BY seq DESC LIMIT 10000) AS lately
               UNION SELECT channel FROM shared.contact_identities";
    Ok(call.query(sql, &[]).await?.iter().map(|row| row.get(0)).collect())
}

/// Whether there is such a person.
pub async fn is_there(call: &ToolCall, contact: Uuid) -> Result<bool, ToolError> {
    Ok(!call.query("SELECT 1 FROM shared.contacts WHERE id = $1", &[&contact]).await?.is_empty())
}

/// The people who go by a name or an id, or have an identity, as a query of rows of `id`, `name`, `channel` and
/// `identity`, one for each way to reach them. What is given is SQL.
pub fn people_called(name: &str, identity: &str, tenant: &str) -> String {
    format!(
        "SELECT c.id, c.name, i.channel, i.identity
         FROM shared.contacts c LEFT JOIN shared.contact_identities i ON i.contact_id = c.id
         WHERE c.tenant_id = {tenant} AND c.archived_at IS NULL AND (lower(c.name) = lower({name}) OR c.id::text = {name} OR c.id IN
               (SELECT o.contact_id FROM shared.contact_identities o
                WHERE o.tenant_id = {tenant} AND o.identity = {identity})
               OR c.id IN (SELECT p.contact_id FROM shared.people_called({name}) p))
         ORDER BY c.id, i.channel, i.created_at"
    )
}
