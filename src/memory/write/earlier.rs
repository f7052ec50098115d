//! What is told late: a value of a property that was said before the one that holds takes its place in the history, not at
//! its end.

use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use super::fact::confirm_fact;
use super::rival::{Coming, Rival};
use super::{Kind, Origin, Outcome, WriteError};
use crate::sql::{Rows, event, link, patch, put};

/// Where a value belongs that was said before the one that holds.
pub(super) enum Earlier<'a> {
    /// It is known to have held then, or so early that it held then too: since when.
    Known(&'a Rival, Option<Timestamp>),
    /// It held until then; and in the middle of this one, where it is given.
    Past(Timestamp, Option<&'a Rival>),
}

/// Whether what is coming was said before what holds, and where it belongs then.
pub(super) fn earlier<'a>(coming: &Coming<'_>, rivals: &'a [Rival]) -> Option<Earlier<'a>> {
    let said = coming.fact.said_at.filter(|_| ["property", "edge"].contains(&coming.kind))?;
    let mut line: Vec<&Rival> = rivals
        .iter()
        .filter(|r| (r.active || r.superseded) && r.stranger == coming.stranger)
        .filter(|r| coming.of_topic(r) && coming.displaces(r))
        .collect();
    line.sort_by_key(|r| (r.since(), r.learned, r.id));
    line.iter().find(|r| r.active && said < r.since())?;
    let at = line.iter().rposition(|r| r.since() <= said);
    let (held, next) = match at {
        Some(at) => (line.get(at), line.get(at + 1)),
        None => (None, line.first()),
    };
    match (held, next) {
        (Some(held), _) if coming.says(held) => Some(Earlier::Known(held, None)),
        (None, Some(next)) if coming.says(next) => Some(Earlier::Known(next, Some(said))),
        (held, Some(next)) => Some(Earlier::Past(next.since(), held.copied())),
        (_, None) => None,
    }
}

impl Earlier<'_> {
    pub(super) async fn take(
        self,
        tx: &mut dyn Rows,
        origin: &Origin,
        coming: &Coming<'_>,
    ) -> Result<(Uuid, Outcome), WriteError> {
        match self {
            Self::Known(known, since) => {
                confirm_fact(tx, origin, known.id, coming.fact).await?;
                if let Some(since) = since {
                    patch(tx, Kind::Fact, known.id, json!({"valid_from": since})).await?;
                }
                Ok((known.id, Outcome::Confirmed))
            }
            Self::Past(until, held) => {
                let id = Uuid::now_v7();
                let payload = json!({"kind": coming.kind, "of_earlier": true});
                event(tx, origin, "stored", "fact", id, None, payload).await?;
                let mut until = until;
                if let Some(held) = held {
                    until = held.valid_to.map_or(until, |to| to.min(until));
                    patch(tx, Kind::Fact, held.id, json!({"valid_to": coming.valid_from})).await?;
                }
                let mut row = coming.row(id, origin, held.map(|h| h.id));
                row["validity"] = json!("superseded");
                row["valid_to"] = json!(until);
                put(tx, Kind::Fact, row).await?;
                if let Some(held) = held {
                    link(tx, (Kind::Fact, id), (Kind::Fact, held.id), "supersedes").await?;
                }
                if let Some(episode) = coming.fact.source_episode {
                    link(tx, (Kind::Fact, id), (Kind::Episode, episode), "derived_from").await?;
                }
                Ok((id, Outcome::Stored))
            }
        }
    }
}
