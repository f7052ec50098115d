//! What is told late: a value of a property that was said before the one that holds takes its place in the history, not
//! at its end.

use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use super::candidate::Candidate;
use super::confirm::confirm_fact;
use super::rival::Rival;
use super::{Kind, Origin, Outcome, WriteError};
use crate::sql::{Rows, event, link, patch, put};

/// Where a value belongs that was said before the one that holds.
pub(super) enum Earlier<'a> {
    /// It is known to have held then, or so early that it held then too: since when.
    Known(&'a Rival, Option<Timestamp>),
    /// It held until then; and in the middle of this one, where it is given.
    Past(Timestamp, Option<&'a Rival>),
}

/// Whether the candidate was said before what holds, and where it belongs then.
pub(super) fn earlier<'a>(candidate: &Candidate<'_>, rivals: &'a [Rival]) -> Option<Earlier<'a>> {
    let said = candidate.fact.said_at.filter(|_| ["property", "edge"].contains(&candidate.kind))?;
    let mut line: Vec<&Rival> = rivals
        .iter()
        .filter(|r| (r.active || r.superseded) && r.stranger == candidate.stranger)
        .filter(|r| candidate.of_topic(r) && candidate.displaces(r))
        .collect();
    line.sort_by_key(|r| (r.since(), r.learned, r.id));
    line.iter().find(|r| r.active && said < r.since())?;
    let at = line.iter().rposition(|r| r.since() <= said);
    let (held, next) = match at {
        Some(at) => (line.get(at), line.get(at + 1)),
        None => (None, line.first()),
    };
    match (held, next) {
        (Some(held), _) if candidate.says(held) => Some(Earlier::Known(held, None)),
        (None, Some(next)) if candidate.says(next) => Some(Earlier::Known(next, Some(said))),
        (held, Some(next)) => Some(Earlier::Past(next.since(), held.copied())),
        (_, None) => None,
    }
}

impl Earlier<'_> {
    pub(super) async fn take(
        self,
        tx: &mut dyn Rows,
        origin: &Origin,
        candidate: &Candidate<'_>,
    ) -> Result<(Uuid, Outcome), WriteError> {
        match self {
            Self::Known(known, since) => {
                confirm_fact(tx, origin, known.id, candidate.fact).await?;
                if let Some(since) = since {
                    patch(tx, Kind::Fact, known.id, json!({"valid_from": since})).await?;
                }
                Ok((known.id, Outcome::Confirmed))
            }
            Self::Past(until, held) => {
                let id = Uuid::now_v7();
                let payload = json!({"kind": candidate.kind, "of_earlier": true});
                event(tx, origin, "stored", "fact", id, None, payload).await?;
                let mut until = until;
                if let Some(held) = held {
                    until = held.valid_to.map_or(until, |to| to.min(until));
                    patch(tx, Kind::Fact, held.id, json!({"valid_to": candidate.valid_from})).await?;
                }
                let mut row = candidate.row(id, origin, held.map(|h| h.id));
                row["validity"] = json!("superseded");
                row["valid_to"] = json!(until);
                put(tx, Kind::Fact, row).await?;
                if let Some(held) = held {
                    link(tx, (Kind::Fact, id), (Kind::Fact, held.id), "supersedes").await?;
                }
                if let Some(episode) = candidate.fact.source_episode {
                    link(tx, (Kind::Fact, id), (Kind::Episode, episode), "derived_from").await?;
                }
                Ok((id, Outcome::Stored))
            }
        }
    }
}
