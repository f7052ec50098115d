//! The rows behind hits, read under the lease of whoever asks: their policies tell how far they are believed.

use std::collections::HashMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio_postgres::Row;
use uuid::Uuid;

use base::Trust;
use memory_index::Kind;
use store::{Lease, StoreError};

/// A memory as it is shown.
#[derive(Clone, Debug)]
pub struct Shown {
    pub id: Uuid,
    pub kind: Kind,
    /// Of whom or what it speaks; who said it.
    pub about: Option<String>,
    pub predicate: Option<String>,
    pub content: String,
    /// When it was so, or happened.
    pub at: Timestamp,
    pub trust: Trust,
    /// As it is now, after what it has lost since it was confirmed.
    pub confidence: f32,
    pub maturity: Option<String>,
    pub effectiveness: Option<f32>,
    /// All that a tool's result has of it.
    pub json: Value,
}

/// Reads these memories; those that are gone meanwhile are left out.
pub async fn of(lease: &mut Lease, ids: &[Uuid], now: Timestamp) -> Result<HashMap<Uuid, Shown>, StoreError> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = lease.read(ROWS, &[&ids, &now]).await.map_err(StoreError::query("reading memories"))?;
    Ok(rows.iter().map(shown).map(|shown| (shown.id, shown)).collect())
}

/// A row of [`ROWS`], or of a statement with the same columns.
fn shown(row: &Row) -> Shown {
    let kind = Kind::from_name(row.get("type")).unwrap_or(Kind::Fact);
    let (about, predicate): (Option<String>, Option<String>) = (row.get("about"), row.get("predicate"));
    let (id, content): (Uuid, String) = (row.get("id"), row.get("content"));
    let (at, trust): (Timestamp, Trust) = (row.get("at"), Trust::from_name(row.get("trust")));
    let confidence: f32 = row.get("confidence");
    let (maturity, effectiveness): (Option<String>, Option<f32>) = (row.get("maturity"), row.get("effectiveness"));
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| {
        if !value.is_null() {
            out.insert(key.to_owned(), value);
        }
    };
    put("type", json!(row.get::<_, &str>("type")));
    put("id", json!(id));
    put(if kind == Kind::Episode { "speaker" } else { "subject" }, json!(about));
    put("predicate", json!(predicate));
    put("content", json!(content));
    put(if kind == Kind::Episode { "occurred_at" } else { "since" }, json!(at));
    put("valid_to", json!(row.get::<_, Option<Timestamp>>("valid_to")));
    put("importance", json!(row.get::<_, f32>("importance")));
    put("confidence", json!((f64::from(confidence) * 1000.0).round() / 1000.0));
    put("validity", json!(row.get::<_, Option<&str>>("validity")));
    put("maturity", json!(maturity));
    put("effectiveness", json!(effectiveness));
    put("scope", json!(row.get::<_, Option<&str>>("scope")));
    put("entity_id", json!(row.get::<_, Option<Uuid>>("entity_id")));
    put("object_entity_id", json!(row.get::<_, Option<Uuid>>("object_entity_id")));
    put("session_id", json!(row.get::<_, Option<Uuid>>("session_id")));
    put("butler", json!(row.get::<_, Option<&str>>("butler")));
    put("tags", json!(row.get::<_, Option<Vec<String>>>("tags").filter(|tags| !tags.is_empty())));
    put("sensitivity", json!(Some(row.get::<_, &str>("sensitivity")).filter(|s| *s != "normal")));
    put("trust", json!(trust));
    let json = Value::Object(out);
    Shown { id, kind, about, predicate, content, at, trust, confidence, maturity, effectiveness, json }
}

/// The columns of a fact for [`shown`]; `$2` is the present.
macro_rules! fact_columns {
    () => {
        "'fact' AS type, id, subject AS about, predicate, content, coalesce(valid_from, learned_at) AS at, valid_to, importance,
         (confidence * exp(-decay_rate * greatest(0, extract(epoch FROM $2::timestamptz - last_confirmed_at)::float8) / 86400))::real
             AS confidence,
         validity, NULL::text AS maturity, NULL::real AS effectiveness, scope, entity_id, object_entity_id,
         session_id, NULL::text AS butler, tags, sensitivity, trust"
    };
}

/// The columns of a rule for [`shown`]; `$2` is the present.
macro_rules! rule_columns {
    () => {
        "'rule' AS type, id, NULL::text AS about, NULL::text AS predicate, content, learned_at AS at, NULL::timestamptz AS valid_to,
         importance,
         (confidence * exp(-decay_rate * greatest(0, extract(epoch FROM $2::timestamptz - last_confirmed_at)::float8) / 86400))::real
             AS confidence,
         validity, maturity, effectiveness, scope, NULL::uuid AS entity_id, NULL::uuid AS object_entity_id,
         session_id, NULL::text AS butler, tags, sensitivity, trust"
    };
}

/// The columns of an episode for [`shown`].
macro_rules! episode_columns {
    () => {
        "'episode' AS type, id, speaker AS about, NULL::text AS predicate, content, occurred_at AS at, NULL::timestamptz AS valid_to,
         importance, 1::real AS confidence, NULL::text AS validity, NULL::text AS maturity, NULL::real AS effectiveness,
         NULL::text AS scope, NULL::uuid AS entity_id, NULL::uuid AS object_entity_id, session_id, NULL::text AS butler,
         NULL::text[] AS tags, sensitivity, trust"
    };
}

// Each scan names the ids itself: a join that read a whole table first would have looked at others' memories too.
const ROWS: &str = concat!(
    "SELECT ",
    fact_columns!(),
    " FROM memory_facts WHERE id = ANY($1::uuid[]) AND forgotten_at IS NULL
     UNION ALL SELECT ",
    rule_columns!(),
    " FROM memory_rules WHERE id = ANY($1) AND forgotten_at IS NULL
     UNION ALL SELECT ",
    episode_columns!(),
    " FROM memory_episodes WHERE id = ANY($1) AND forgotten_at IS NULL
     UNION ALL SELECT 'fact', memory_id, subject, predicate, content, coalesce(valid_from, learned_at), valid_to, importance,
         (confidence * exp(-decay_rate * greatest(0, extract(epoch FROM $2::timestamptz - last_confirmed_at)::float8) / 86400))::real,
         NULL, NULL, NULL, 'global', entity_id, object_entity_id, NULL, butler, NULL, 'normal', trust
     FROM shared.memory_catalog WHERE memory_id = ANY($1) AND live
       AND memory_id <> ALL (ARRAY(SELECT id FROM memory_facts WHERE id = ANY($1)))"
);

/// What is known of the owner themselves, believed at least so far, the most important first.
pub async fn profile(lease: &mut Lease, butler: &str, now: Timestamp, least: f32) -> Result<Vec<Shown>, StoreError> {
    // Each half is read off an index that has it in this order, or that leads to few rows.
    macro_rules! half {
        ($whose:literal) => {
            concat!(
                "(SELECT id FROM memory_facts WHERE ",
                $whose,
                " AND trust IN ('owner', 'system') AND forgotten_at IS NULL AND validity IN ('active', 'fading')
                  AND scope IN ('global', $1) AND sensitivity <> 'secret'
                  AND confidence * exp(-decay_rate
                      * greatest(0, extract(epoch FROM $2::timestamptz - last_confirmed_at)::float8) / 86400) >= $3::float8
                  ORDER BY importance DESC, created_at DESC, id LIMIT 60)"
            )
        };
    }
    let sql = concat!(
        "SELECT ",
        fact_columns!(),
        // A plan that reads the whole table and joins it must not have looked at others' facts either.
        " FROM memory_facts WHERE trust IN ('owner', 'system') AND id IN (",
        half!("of_owner"),
        " UNION ",
        // Entities that others have named are not even looked at: whoever looks has seen their words.
        half!(
            "entity_id = ANY (ARRAY(SELECT id FROM shared.entities
                  WHERE trust IN ('owner', 'system') AND details ->> 'role' = 'owner'))"
        ),
        ") ORDER BY importance DESC, created_at DESC, id LIMIT 60"
    );
    let least = f64::from(least);
    let rows = lease.read(sql, &[&butler, &now, &least]).await;
    Ok(rows.map_err(StoreError::query("reading profile facts"))?.iter().map(shown).collect())
}

/// What to keep to, the best proven first: rules of the owner and of the house. One of others' words would have the session
/// believed as little as they are, and what they want kept to is theirs to say and not the house's.
pub async fn rules(lease: &mut Lease, butler: &str, now: Timestamp) -> Result<Vec<Shown>, StoreError> {
    let sql = concat!(
        "SELECT ",
        rule_columns!(),
        " FROM memory_rules
         WHERE trust IN ('owner', 'system') AND forgotten_at IS NULL AND validity IN ('active', 'fading')
           AND scope IN ('global', $1) AND $2::timestamptz IS NOT NULL
         ORDER BY array_position(ARRAY['proven', 'established', 'anti_pattern', 'candidate'], maturity), effectiveness DESC,
                  created_at DESC, id LIMIT 60"
    );
    let rows = lease.read(sql, &[&butler, &now]).await;
    Ok(rows.map_err(StoreError::query("reading rules"))?.iter().map(shown).collect())
}

/// What happened last.
pub async fn episodes(lease: &mut Lease, now: Timestamp) -> Result<Vec<Shown>, StoreError> {
    let sql = concat!(
        "SELECT ",
        episode_columns!(),
        " FROM memory_episodes
         WHERE trust IN ('owner', 'system') AND forgotten_at IS NULL AND (expires_at IS NULL OR expires_at > $1)
           AND scope = 'global'
         ORDER BY occurred_at DESC, id LIMIT 20"
    );
    Ok(lease.read(sql, &[&now]).await.map_err(StoreError::query("reading episodes"))?.iter().map(shown).collect())
}
