//! What is known of the exchange.

use serde::Serialize;

use super::SyncError;
use super::exchange::Exchange;
use super::state::State;

/// Somebody who has pushed memories.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SyncSource {
    /// `<user>/<machine>`.
    pub identity: String,
    /// Whether it is this machine.
    pub own: bool,
}

/// When memories were pushed and pulled last, and who has pushed any.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SyncStatus {
    /// `<user>/<machine>`, under which this machine pushes.
    pub identity: String,
    /// RFC 3339; none: never.
    pub last_push_at: Option<String>,
    /// RFC 3339; none: never.
    pub last_pull_at: Option<String>,
    /// Whether the branch is there, as far as is known.
    pub branch: bool,
    pub sources: Vec<SyncSource>,
    /// Why origin did not answer; then the sources are those of the last fetch.
    pub unreachable: Option<String>,
    /// The same for people.
    pub lines: Vec<String>,
}

impl SyncStatus {
    pub(super) fn of(exchange: &Exchange) -> Result<Self, SyncError> {
        let _lock = exchange.lock()?;
        let state = State::read(exchange);
        let (commit, unreachable) = match exchange.fetch() {
            Ok(commit) => (commit, None),
            Err(SyncError::Git(error)) => (exchange.fetched()?, Some(error.to_string())),
            Err(error) => return Err(error),
        };
        let identities = commit.as_ref().map(|commit| exchange.sources(commit)).transpose()?.unwrap_or_default();
        let source = |identity: String| SyncSource { own: identity == exchange.identity, identity };
        let mut status = Self {
            identity: exchange.identity.clone(),
            last_push_at: state.last_push_at,
            last_pull_at: state.last_pull_at,
            branch: commit.is_some(),
            sources: identities.into_iter().map(source).collect(),
            unreachable,
            lines: Vec::new(),
        };
        status.lines = status.told();
        Ok(status)
    }

    fn told(&self) -> Vec<String> {
        let mut lines = vec![format!("Identity: {}", self.identity), String::new()];
        if self.last_push_at.is_none() && self.last_pull_at.is_none() {
            lines.push("Never synced.".to_owned());
        } else {
            lines.push("Last sync:".to_owned());
            lines.extend(self.last_push_at.iter().map(|at| format!("  Push: {at}")));
            lines.extend(self.last_pull_at.iter().map(|at| format!("  Pull: {at}")));
        }
        lines.extend([String::new(), "Remote sources:".to_owned()]);
        let you = |source: &SyncSource| if source.own { " (you)" } else { "" };
        lines.extend(self.sources.iter().map(|source| format!("  {}{}", source.identity, you(source))));
        if self.sources.is_empty() {
            lines.push(if self.branch { "  (none)" } else { "  (no sync branch)" }.to_owned());
        }
        lines.extend(self.unreachable.iter().map(|why| format!("origin does not answer: {why}")));
        lines
    }
}
