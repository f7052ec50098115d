//! `memory_context`: the few lines that matter to what a session is about to do.

use std::sync::Arc;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Unit};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use base::{TenantId, Trust, task, text};
use memory::sql::shown::{self, Shown};
use memory::{Ask, Kind, Memory};
use store::Lease;
use tools::{ToolCall, ToolError};

use super::block::{Line, Section, one_line, pack};
use crate::memory::tools::With;

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

pub(super) async fn memory_context(call: ToolCall, with: With) -> Result<Value, ToolError> {
    let (given, With { memory, settings, .. }) = (call.parse::<ContextArgs>()?, with);
    if given.butler.as_deref().is_some_and(|butler| butler != memory.butler.as_str()) {
        let message = format!("This is the memory of {}; other butlers have their own.", memory.butler);
        return Err(ToolError::refused("wrong_butler", message));
    }
    let retrieval = &settings.retrieval;
    let budget = given.token_budget.unwrap_or(retrieval.context_token_budget);
    let zone = memory.store.time_zone().clone();
    // The same rows give the same block for an hour.
    let now = memory.store.clock().now();
    let now = now.round(jiff::TimestampRound::new().smallest(Unit::Hour).mode(jiff::RoundMode::Trunc)).unwrap_or(now);
    let ask = Ask {
        text: text::truncate(given.trigger_prompt.trim(), MAX_QUESTION),
        mode: retrieval.default_mode.into(),
        limit: MANY,
        min_confidence: retrieval.min_confidence,
        kinds: vec![Kind::Fact],
        scopes: vec!["global".to_owned(), memory.butler.as_str().to_owned()],
        butlers: vec![memory.butler.as_str().to_owned()],
        // Other people's words come in only where somebody asks for them: they would lower the session's trust.
        least_trust: Some(Trust::System),
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
    let profile = shown::profile(&mut lease, memory.butler.as_str(), now, retrieval.min_confidence).await?;
    let rules = shown::rules(&mut lease, memory.butler.as_str(), now).await?;
    let episodes = if lately { Some(shown::episodes(&mut lease, now).await?) } else { None };
    let found = searching.await.map_err(|_| ToolError::Internal("the search broke off".to_owned()))??;
    let lines = LineFormat { now, zone };
    let mut sections = vec![
        lines.section("## Profile Facts", 30, profile),
        lines.section("## Task-Relevant Facts", 35, told(&mut lease, &found, now).await?),
        lines.section("## Active Rules", 20, rules),
    ];
    if let Some(episodes) = episodes {
        sections.push(lines.section("## Recent Episodes", 15, episodes));
    }
    if fleet {
        let ask = Ask { butlers: Vec::new(), scopes: vec!["global".to_owned()], ..ask };
        let found = told(&mut lease, &search(&memory, tenant, &ask).await?, now).await?;
        sections.push(lines.section("## Fleet Knowledge (cross-butler)", 10, found));
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
    let mut rows = shown::of(lease, ids, now).await?;
    Ok(ids.iter().filter_map(|id| rows.remove(id)).collect())
}

/// How memories become lines.
struct LineFormat {
    now: Timestamp,
    zone: TimeZone,
}

impl LineFormat {
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
