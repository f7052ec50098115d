//! `memory_context`: the few lines that matter to what a session is about to do.

use std::sync::Arc;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Unit};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use super::super::core::{Ask, Memory};
use super::super::rank::Kind;
use super::block::{Line, Section, one_line, pack};
use super::rows::{self, Shown, episode_columns, fact_columns, rule_columns, shown};
use base::{TenantId, Trust, task, text};
use store::{Lease, StoreError};
use tools::{ToolCall, ToolError};

#[derive(Debug, Deserialize)]
struct ContextArgs {
    trigger_prompt: String,
    #[serde(default)]
    butler: Option<String>,
    #[serde(default)]
    token_budget: Option<usize>,
    #[serde(default)]
    include_recent_episodes: Option<bool>,
    #[serde(default)]
    include_fleet_knowledge: Option<bool>,
}

/// Of a prompt, so much is asked with.
const MAX_QUESTION: usize = 2000;
/// Candidates of a section.
const MANY: usize = 60;

pub(super) async fn memory_context(call: ToolCall, memory: Arc<Memory>) -> Result<Value, ToolError> {
    let given: ContextArgs = call.parse()?;
    if given.butler.as_deref().is_some_and(|butler| butler != memory.butler.as_str()) {
        let message = format!("This is the memory of {}; other butlers have their own.", memory.butler);
        return Err(ToolError::refused("wrong_butler", message));
    }
    let trust = call.context().trust;
    if trust == Trust::Stranger {
        // What it would be told is private, and whatever it answers goes to somebody whom nobody knows.
        return Ok(json!({"context": "", "ids": [], "tokens": 0, "why": "it is for a stranger"}));
    }
    let retrieval = &memory.settings.retrieval;
    let budget = given.token_budget.unwrap_or(retrieval.context_token_budget);
    let zone = memory.store.time_zone().clone();
    // The same rows give the same block for an hour.
    let now = memory.store.clock().now();
    let now = now.round(jiff::TimestampRound::new().smallest(Unit::Hour).mode(jiff::RoundMode::Trunc)).unwrap_or(now);
    let ask = Ask {
        text: text::truncate(given.trigger_prompt.trim(), MAX_QUESTION),
        mode: retrieval.default_mode,
        limit: MANY,
        min_confidence: retrieval.min_confidence,
        kinds: vec![Kind::Fact],
        scopes: vec!["global".to_owned(), memory.butler.as_str().to_owned()],
        butlers: vec![memory.butler.as_str().to_owned()],
        // A stranger's words come in only where somebody asks for them.
        least_trust: Some(Trust::Known),
        now: Some(now),
        ..Ask::default()
    };
    let fleet = given.include_fleet_knowledge.unwrap_or(retrieval.fleet_knowledge);
    let lately = given.include_recent_episodes.unwrap_or(retrieval.recent_episodes);
    let tenant = &call.context().tenant_id;
    // The index and the database look at the same time.
    let searching = {
        let (memory, tenant, ask) = (memory.clone(), tenant.clone(), ask.clone());
        let search = async move { search(&memory, &tenant, &ask).await };
        // It ends with whoever asks.
        AbortOnDropHandle::new(task::spawn(task::Kind::Job, "memory-context", search))
    };
    let mut lease = call.lease().await?;
    let profile = profile(&mut lease, &memory, now).await?;
    let rules = rules(&mut lease, &memory, now).await?;
    let episodes = if lately { Some(episodes(&mut lease, now).await?) } else { None };
    let found = searching.await.map_err(|_| ToolError::Internal("the search broke off".to_owned()))??;
    let telling = Telling { now, zone };
    let mut sections = vec![
        telling.section("## Profile Facts", 30, profile),
        telling.section("## Task-Relevant Facts", 35, told(&mut lease, &found, now).await?),
        telling.section("## Active Rules", 20, rules),
    ];
    if let Some(episodes) = episodes {
        sections.push(telling.section("## Recent Episodes", 15, episodes));
    }
    if fleet {
        let ask = Ask { butlers: Vec::new(), scopes: vec!["global".to_owned()], ..ask };
        let found = told(&mut lease, &search(&memory, tenant, &ask).await?, now).await?;
        sections.push(telling.section("## Fleet Knowledge (cross-butler)", 10, found));
    }
    drop(lease);
    Ok(match pack(&sections, budget) {
        Some(block) => json!({"context": block.text, "ids": block.ids, "tokens": block.tokens}),
        None => json!({"context": "", "ids": [], "tokens": 0}),
    })
}

/// What answers the prompt, the best first.
async fn search(memory: &Arc<Memory>, tenant: &TenantId, ask: &Ask) -> Result<Vec<Uuid>, ToolError> {
    if ask.text.is_empty() {
        return Ok(Vec::new());
    }
    Ok(memory.search(tenant, ask).await?.hits.iter().map(|hit| hit.id).collect())
}

async fn told(lease: &mut Lease, ids: &[Uuid], now: Timestamp) -> Result<Vec<Shown>, ToolError> {
    let mut rows = rows::of(lease, ids, now).await?;
    Ok(ids.iter().filter_map(|id| rows.remove(id)).collect())
}

/// What is known of the owner themselves, the most important first.
async fn profile(lease: &mut Lease, memory: &Memory, now: Timestamp) -> Result<Vec<Shown>, StoreError> {
    // Each half is read off an index that has it in this order, or that leads to few rows.
    macro_rules! half {
        ($whose:literal) => {
            concat!(
                "(SELECT id FROM memory_facts WHERE ",
                $whose,
                " AND trust <> 'stranger' AND forgotten_at IS NULL AND validity IN ('active', 'fading')
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
        " FROM memory_facts WHERE id IN (",
        half!("of_owner"),
        " UNION ",
        half!("entity_id = ANY (ARRAY(SELECT id FROM shared.entities WHERE details ->> 'role' = 'owner'))"),
        ") ORDER BY importance DESC, created_at DESC, id LIMIT 60"
    );
    let least = f64::from(memory.settings.retrieval.min_confidence);
    let rows = lease.read(sql, &[&memory.butler.as_str(), &now, &least]).await;
    Ok(rows.map_err(StoreError::query("reading profile facts"))?.iter().map(shown).collect())
}

/// What to keep to, the best proven first.
async fn rules(lease: &mut Lease, memory: &Memory, now: Timestamp) -> Result<Vec<Shown>, StoreError> {
    let sql = concat!(
        "SELECT ",
        rule_columns!(),
        " FROM memory_rules
         WHERE forgotten_at IS NULL AND validity IN ('active', 'fading') AND scope IN ('global', $1) AND $2::timestamptz IS NOT NULL
         ORDER BY array_position(ARRAY['proven', 'established', 'anti_pattern', 'candidate'], maturity), effectiveness DESC,
                  created_at DESC, id LIMIT 60"
    );
    let rows = lease.read(sql, &[&memory.butler.as_str(), &now]).await;
    Ok(rows.map_err(StoreError::query("reading rules"))?.iter().map(shown).collect())
}

/// What happened last.
async fn episodes(lease: &mut Lease, now: Timestamp) -> Result<Vec<Shown>, StoreError> {
    let sql = concat!(
        "SELECT ",
        episode_columns!(),
        " FROM memory_episodes
         WHERE trust <> 'stranger' AND forgotten_at IS NULL AND (expires_at IS NULL OR expires_at > $1)
         ORDER BY occurred_at DESC, id LIMIT 20"
    );
    Ok(lease.read(sql, &[&now]).await.map_err(StoreError::query("reading episodes"))?.iter().map(shown).collect())
}

/// How memories become lines.
struct Telling {
    now: Timestamp,
    zone: TimeZone,
}

impl Telling {
    fn section(&self, title: &'static str, share: usize, memories: Vec<Shown>) -> Section {
        let lines = memories.iter().map(|m| Line { id: m.id, text: self.line(m) }).collect();
        Section { title, share, lines }
    }

    fn line(&self, m: &Shown) -> String {
        let told_by = match m.trust {
            Trust::Owner | Trust::System => "",
            Trust::Known => "; told by a contact",
            Trust::Stranger => "; unverified, told by a stranger",
        };
        let content = one_line(&m.content);
        let day = m.at.to_zoned(self.zone.clone()).strftime("%Y-%m-%d").to_string();
        let ahead = if m.at.duration_since(self.now) > jiff::SignedDuration::from_hours(1) { "on" } else { "since" };
        match m.kind {
            Kind::Fact => {
                let about = one_line(m.about.as_deref().unwrap_or_default());
                let predicate = one_line(m.predicate.as_deref().unwrap_or_default());
                format!(
                    "- [{about}] [{predicate}]: {content} ({ahead} {day}, confidence: {:.2}{told_by})",
                    m.confidence
                )
            }
            Kind::Rule => {
                let (maturity, works) =
                    (m.maturity.as_deref().unwrap_or("candidate"), m.effectiveness.unwrap_or_default());
                let avoid = if maturity == "anti_pattern" { "Avoid: " } else { "" };
                format!("- {avoid}{content} ({day}, maturity: {maturity}, effectiveness: {works:.2}{told_by})")
            }
            Kind::Episode => {
                let at = m.at.to_zoned(self.zone.clone()).strftime("%Y-%m-%dT%H:%M").to_string();
                let who = m.about.as_deref().map(|who| format!("{}: ", one_line(who))).unwrap_or_default();
                format!("- [{at}] {who}{content}{}", told_by.trim_start_matches("; "))
            }
        }
    }
}
