//! While an index is made: an answer by the database's own full text, without vectors and neighbours.

use super::core::{Ask, worded};
use super::rank::{Hit, Kind, Weights};
use crate::base::{ButlerName, TenantId};
use crate::store::{Store, StoreError};

/// The best by words, weighed as the index would, with what a row tells of itself.
pub(super) async fn search(
    store: &Store,
    tenant: &TenantId,
    butler: &ButlerName,
    ask: &Ask,
    weights: Weights,
) -> Result<Vec<Hit>, StoreError> {
    let mut lease = store.tenant(tenant).await?;
    let wants = |kind: Kind| ask.kinds.is_empty() || ask.kinds.contains(&kind);
    let kinds: Vec<&str> = Kind::ALL.into_iter().filter(|kind| wants(*kind)).map(Kind::as_str).collect();
    let limit = i64::try_from(ask.limit).unwrap_or(i64::MAX);
    let least = ask.least_trust.map_or(0, |t| t as i32);
    let sensitivity = ask.max_sensitivity.map_or(2, i32::from);
    let (w, now) = (weights, ask.now.unwrap_or_else(|| store.clock().now()));
    let rows = lease
        .read(
            SEARCH,
            &[
                &ask.text,
                &kinds,
                &ask.scopes,
                &ask.butlers,
                &butler.as_str(),
                &ask.classes,
                &ask.predicate,
                &ask.entity,
                &ask.object,
                &ask.time_from,
                &ask.time_to,
                &ask.valid_at,
                &sensitivity,
                &least,
                &f64::from(ask.min_confidence),
                &now,
                &f64::from(w.relevance),
                &f64::from(w.importance),
                &f64::from(w.recency),
                &f64::from(w.confidence),
                &limit,
            ],
        )
        .await
        .map_err(StoreError::query("searching memories by full text"))?;
    let hit = |row: &tokio_postgres::Row| Hit {
        id: row.get(0),
        kind: Kind::from_name(row.get(1)).unwrap_or(Kind::Fact),
        score: row.get::<_, f64>(2) as f32,
        parts: worded(row.get::<_, f64>(3) as f32),
    };
    Ok(rows.iter().map(hit).collect())
}

const SEARCH: &str = "
WITH q AS (SELECT replace(plainto_tsquery('english', $1)::text, '&', '|')::tsquery AS q), all_of_them AS (
    (SELECT id, 'episode' AS kind, ts_rank(search, q)::float8 AS r, importance, 1::float8 AS confidence, last_referenced_at AS used_at, occurred_at AS at, seq
     FROM memory_episodes, q WHERE tenant_id = shared.tenant() AND search @@ q AND 'episode' = ANY($2::text[])
       AND forgotten_at IS NULL AND (expires_at IS NULL OR expires_at > shared.clock())
       AND $7::text IS NULL AND $8::uuid IS NULL AND $9::uuid IS NULL
       AND (cardinality($4::text[]) = 0 OR $5 = ANY($4)) AND (cardinality($6::text[]) = 0 OR retention_class = ANY($6))
       AND occurred_at >= coalesce($10::timestamptz, '-infinity') AND occurred_at <= coalesce($11::timestamptz, 'infinity')
       AND array_position(ARRAY['normal', 'sensitive', 'secret'], sensitivity) <= $13::int + 1
       AND array_position(ARRAY['stranger', 'known', 'system', 'owner'], trust) > $14::int
     ORDER BY r DESC LIMIT 200)
    UNION ALL
    (SELECT id, 'fact', ts_rank(search, q)::float8 AS r, importance,
            confidence * exp(-decay_rate * extract(epoch FROM $16::timestamptz - last_confirmed_at)::float8 / 86400),
            last_referenced_at, coalesce(valid_from, learned_at), seq
     FROM memory_facts, q WHERE tenant_id = shared.tenant() AND search @@ q AND 'fact' = ANY($2)
       AND forgotten_at IS NULL AND validity IN ('active', 'fading') AND (cardinality($3::text[]) = 0 OR scope = ANY($3))
       AND (cardinality($4) = 0 OR $5 = ANY($4)) AND (cardinality($6) = 0 OR retention_class = ANY($6))
       AND ($7 IS NULL OR predicate = $7) AND ($8 IS NULL OR entity_id = $8) AND ($9 IS NULL OR object_entity_id = $9)
       AND coalesce(valid_from, learned_at) >= coalesce($10, '-infinity') AND coalesce(valid_from, learned_at) <= coalesce($11, 'infinity')
       AND ($12::timestamptz IS NULL OR valid_to IS NULL OR valid_to > $12)
       AND array_position(ARRAY['normal', 'sensitive', 'secret'], sensitivity) <= $13 + 1
       AND array_position(ARRAY['stranger', 'known', 'system', 'owner'], trust) > $14
     ORDER BY r DESC LIMIT 200)
    UNION ALL
    (SELECT memory_id, 'fact', ts_rank(search, q)::float8 AS r, importance,
            confidence * exp(-decay_rate * extract(epoch FROM $16 - last_confirmed_at)::float8 / 86400),
            NULL, coalesce(valid_from, learned_at), change
     FROM shared.memory_catalog, q WHERE tenant_id = shared.tenant() AND search @@ q AND live AND 'fact' = ANY($2) AND butler <> $5
       AND (cardinality($3) = 0 OR 'global' = ANY($3)) AND (cardinality($4) = 0 OR butler = ANY($4))
       AND (cardinality($6) = 0 OR retention_class = ANY($6))
       AND ($7 IS NULL OR predicate = $7) AND ($8 IS NULL OR entity_id = $8) AND ($9 IS NULL OR object_entity_id = $9)
       AND coalesce(valid_from, learned_at) >= coalesce($10, '-infinity') AND coalesce(valid_from, learned_at) <= coalesce($11, 'infinity')
       AND ($12 IS NULL OR valid_to IS NULL OR valid_to > $12)
       AND array_position(ARRAY['stranger', 'known', 'system', 'owner'], trust) > $14
     ORDER BY r DESC LIMIT 200)
    UNION ALL
    (SELECT id, 'rule', ts_rank(search, q)::float8 AS r, importance,
            confidence * exp(-decay_rate * extract(epoch FROM $16 - last_confirmed_at)::float8 / 86400),
            last_referenced_at, learned_at, seq
     FROM memory_rules, q WHERE tenant_id = shared.tenant() AND search @@ q AND 'rule' = ANY($2)
       AND forgotten_at IS NULL AND validity IN ('active', 'fading') AND (cardinality($3) = 0 OR scope = ANY($3))
       AND (cardinality($4) = 0 OR $5 = ANY($4)) AND (cardinality($6) = 0 OR retention_class = ANY($6))
       AND $7 IS NULL AND $8 IS NULL AND $9 IS NULL
       AND learned_at >= coalesce($10, '-infinity') AND learned_at <= coalesce($11, 'infinity')
       AND array_position(ARRAY['normal', 'sensitive', 'secret'], sensitivity) <= $13 + 1
       AND array_position(ARRAY['stranger', 'known', 'system', 'owner'], trust) > $14
     ORDER BY r DESC LIMIT 200)
), weighed AS (
    SELECT id, kind, r / nullif(max(r) OVER (), 0) AS relevance, importance, confidence, used_at, at, seq
    FROM all_of_them WHERE kind = 'episode' OR confidence >= $15::float8
)
SELECT id, kind,
       $17::float8 * coalesce(relevance, 0) + $18::float8 * importance / 10
           + $19::float8 * coalesce(exp(-ln(2) / 7 * extract(epoch FROM $16 - used_at)::float8 / 86400), 0)
           + $20::float8 * confidence AS score,
       coalesce(relevance, 0)
FROM weighed ORDER BY score DESC, at DESC, id LIMIT $21::bigint";
