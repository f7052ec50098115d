//! What session rows tell of money and tokens, over all butlers: those that are parked or gone as well.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use rust_decimal::Decimal;

use super::sum::Sum;
use base::{ButlerName, Money, TenantId};
use store::{AsRows, Database, Lease, StoreError};

/// All kinds of tokens of a row together.
const TOKENS: &str = "coalesce(input_tokens, 0) + coalesce(output_tokens, 0) + coalesce(cached_input_tokens, 0)
                      + coalesce(cache_creation_tokens, 0)";

/// The same of a day whose sessions are gone.
const DAY_TOKENS: &str =
    "coalesce(input, 0) + coalesce(output, 0) + coalesce(cached_input, 0) + coalesce(cache_creation, 0)";

/// What the schemas of a session's tools cost in all its model calls, about: its program sends them with each. Null where the
/// one or the other is unknown.
pub(crate) const SCHEMAS: &str = "s.tool_tokens::bigint * s.turns";

/// The same of one of its models, which is known where it had no other.
pub(crate) const SCHEMAS_OF_MODEL: &str =
    "CASE WHEN coalesce(jsonb_array_length(s.usage_by_model), 1) = 1 THEN s.tool_tokens::bigint * s.turns END";

/// What a session is known to have cost: all of it, or the part that is known.
const KNOWN_USD: &str =
    "coalesce(cost_usd, (SELECT sum(u.known_usd) FROM jsonb_to_recordset(usage_by_model) AS u(known_usd numeric)))";

/// The butlers that have session rows, each with its schema.
async fn schemas(lease: &mut Lease) -> Result<Vec<(ButlerName, String)>, StoreError> {
    let places = store::places_with(lease, "sessions").await?;
    Ok(places.into_iter().filter_map(|place| Some((ButlerName::new(&place.butler).ok()?, place.schema))).collect())
}

/// What the sessions of one butler used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct OfButler {
    pub all: Sum,
    /// Of these, those that messages of strangers had started.
    pub strangers: Sum,
}

/// Whether a stranger's message started the session: its trust may have fallen since, its request stays. The trust of what
/// is only inspected is not that of whoever wants it inspected.
const BY_STRANGER: &str = "(context #>> '{request,trust}' = 'stranger' AND trigger_source <> 'inspect')";

/// What each butler's sessions used that got their slot between the two moments.
pub(super) async fn sums(
    db: &Database,
    tenant: &TenantId,
    from: Timestamp,
    until: Timestamp,
) -> Result<BTreeMap<ButlerName, OfButler>, StoreError> {
    let mut lease = db.every_tenant().await?;
    let parts: Vec<String> = schemas(&mut lease)
        .await?
        .into_iter()
        .map(|(butler, schema)| {
            format!(
                "SELECT '{butler}', sum({TOKENS})::bigint, sum({KNOWN_USD}),
                        sum({TOKENS}) FILTER (WHERE {BY_STRANGER})::bigint, sum({KNOWN_USD}) FILTER (WHERE {BY_STRANGER})
                 FROM \"{schema}\".sessions
                 WHERE tenant_id = $1 AND started_at >= $2 AND started_at < $3"
            )
        })
        .collect();
    if parts.is_empty() {
        return Ok(BTreeMap::new());
    }
    let rows = lease
        .read(&parts.join(" UNION ALL "), &[&tenant.as_str(), &from, &until])
        .await
        .map_err(StoreError::query("adding up what sessions used"))?;
    let sum = |r: &tokio_postgres::Row| {
        let of = |tokens: usize, usd: usize| Sum {
            tokens: r.get::<_, Option<i64>>(tokens).and_then(|n| u64::try_from(n).ok()).unwrap_or(0),
            usd: r.get::<_, Option<Decimal>>(usd).map(Money).unwrap_or_default(),
        };
        Some((ButlerName::new(r.get::<_, &str>(0)).ok()?, OfButler { all: of(1, 2), strangers: of(3, 4) }))
    };
    Ok(rows.iter().filter_map(sum).collect())
}

store::row! {
    /// What sessions of one day used, by butler and by what started them or by their model.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub(super) struct Entry {
        pub day: Date,
        pub butler: String,
        /// `schedule:morning`, `trigger`, …; or a model's id.
        pub what: Option<String>,
        pub sessions: u64 = |row| known(row, "sessions").unwrap_or(0),
        /// Of these, those of unknown cost.
        pub unknown: u64 = |row| known(row, "unknown").unwrap_or(0),
        pub tokens: u64 = |row| known(row, "tokens").unwrap_or(0),
        /// Of these, what tools' schemas took, about; `None` where it is known of none.
        pub schema_tokens: Option<u64> = |row| known(row, "schema_tokens"),
        /// Of those whose cost is known; `None` where it is of none.
        pub usd: Option<Money> = |row| row.get::<_, Option<Decimal>>("usd").map(Money),
    }
}

fn known(row: &tokio_postgres::Row, column: &str) -> Option<u64> {
    row.get::<_, Option<i64>>(column).and_then(|n| u64::try_from(n).ok())
}

/// A row's models. Where the program alone knew the price, all is its row's model.
pub(crate) const MODELS: &str = "jsonb_to_recordset(
        CASE WHEN s.usage_by_model IS NULL
               OR (s.cost_usd IS NOT NULL AND jsonb_path_exists(s.usage_by_model, '$[*] ? (@.usd == null)'))
             THEN jsonb_build_array(jsonb_build_object('model', s.model, 'usd', s.cost_usd,
                  'input_tokens', s.input_tokens, 'output_tokens', s.output_tokens,
                  'cached_input_tokens', s.cached_input_tokens, 'cache_creation_tokens', s.cache_creation_tokens))
             ELSE s.usage_by_model END)
        AS u(model text, usd numeric, input_tokens bigint, output_tokens bigint, cached_input_tokens bigint,
             cache_creation_tokens bigint)";

/// What sessions used that started between the two moments, by the days of `zone`; of one butler or of all.
pub(super) async fn entries(
    db: &Database,
    tenant: &TenantId,
    only: Option<&ButlerName>,
    (from, until): (Timestamp, Timestamp),
    zone: &TimeZone,
    by_model: bool,
) -> Result<Vec<Entry>, StoreError> {
    let mut lease = db.every_tenant().await?;
    let (what, source, usd, schemas_of, cut) = match by_model {
        true => ("u.model", format!(", LATERAL {MODELS}"), "u.usd", SCHEMAS_OF_MODEL, "model"),
        false => ("s.trigger_source", String::new(), "s.cost_usd", SCHEMAS, "source"),
    };
    let tokens = TOKENS.replace("coalesce(", if by_model { "coalesce(u." } else { "coalesce(s." });
    let parts: Vec<String> = schemas(&mut lease)
        .await?
        .into_iter()
        .filter(|(butler, _)| only.is_none_or(|o| o == butler))
        .map(|(butler, schema)| {
            format!(
                "SELECT '{butler}' AS butler, (s.started_at AT TIME ZONE $4)::date AS day, {what} AS what, count(*) AS sessions,
                        count(*) FILTER (WHERE {usd} IS NULL AND s.completed_at IS NOT NULL) AS unknown,
                        sum({tokens})::bigint AS tokens, sum({usd}) AS usd, sum({schemas_of})::bigint AS schema_tokens
                 FROM \"{schema}\".sessions s{source}
                 WHERE s.tenant_id = $1 AND s.started_at >= $2 AND s.started_at < $3 GROUP BY 2, 3
                 UNION ALL
                 SELECT '{butler}', day, nullif(what, ''), sessions, unknown_cost, {DAY_TOKENS}, cost_usd, schema_tokens
                 FROM \"{schema}\".session_days
                 WHERE tenant_id = $1 AND cut = '{cut}' AND day >= ($2 AT TIME ZONE $4)::date
                   AND day < ($3 AT TIME ZONE $4)::date"
            )
        })
        .collect();
    if parts.is_empty() {
        return Ok(Vec::new());
    }
    let name = zone.iana_name().unwrap_or("UTC");
    let sql = format!(
        "SELECT butler, day, what, sum(sessions)::bigint AS sessions, sum(unknown)::bigint AS unknown,
                sum(tokens)::bigint AS tokens, sum(usd) AS usd, sum(schema_tokens)::bigint AS schema_tokens
         FROM ({}) e GROUP BY butler, day, what",
        parts.join(" UNION ALL ")
    );
    let rows = lease.read(&sql, &[&tenant.as_str(), &from, &until, &name]).await;
    rows.typed().map_err(StoreError::query("adding up what sessions cost"))
}
