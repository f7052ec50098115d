//! Following one message from its acceptance to its end. The rows are the truth; live notices only say when to look.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::IntoStaticStr;
use uuid::Uuid;

use super::handle::Inbox;
use base::text::links::{for_owner, value_for_owner};
use base::{TenantId, Trust};
use sessions::{EventKind, SessionEvent};
use store::replay::Place;
use store::{Lease, StoreError};

/// What whoever waits for an answer is told, in this order; a stream of `POST /api/chat` is made of these.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, IntoStaticStr)]
#[serde(tag = "event", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum News {
    /// The message is stored. `duplicate`: it was before.
    Accepted {
        request_id: Uuid,
        duplicate: bool,
    },
    /// It, or a part of it, is this butler's.
    Routed {
        butler: String,
        segment: Uuid,
    },
    /// A session of the butler works on it.
    Session {
        butler: String,
        session_id: Uuid,
    },
    /// A piece of a text that is being written; `Text` has the whole of it later. Of what was written before somebody
    /// listened there is none.
    TextDelta {
        butler: String,
        session_id: Uuid,
        /// Where in its text it begins, in bytes. 0: a text begins, in the place of one that is not whole.
        start: usize,
        text: String,
    },
    Text {
        butler: String,
        session_id: Uuid,
        seq: Option<i32>,
        text: String,
    },
    ToolCall {
        butler: String,
        session_id: Uuid,
        seq: Option<i32>,
        name: String,
        arguments: Value,
    },
    ToolResult {
        butler: String,
        session_id: Uuid,
        seq: Option<i32>,
        name: String,
        is_error: bool,
        content: String,
    },
    /// It can't go on just now, and is tried again by itself.
    Waiting {
        /// `None`: nobody has it yet.
        butler: Option<String>,
        why: String,
        again_ms: u64,
    },
    /// What the person is answered. `kind`: `reply`, `react` or `failure`.
    Reply {
        seq: i64,
        butler: String,
        kind: String,
        message: Option<String>,
        emoji: Option<String>,
        auto: bool,
    },
    /// Nothing more comes. `state`: `done` or `dead`.
    Ended {
        state: String,
        error: Option<String>,
    },
    /// Of a kind that this version does not know.
    #[serde(other)]
    Unknown,
}

impl News {
    /// Its name in JSON.
    pub fn name(&self) -> &'static str {
        self.into()
    }

    /// What of a session's transcript is told. `trust`: of what the session was shown by then; below the owner's, links do
    /// nothing.
    fn of_session(event: &SessionEvent, trust: Trust) -> Option<Self> {
        let (butler, session_id, seq) = (event.butler.clone(), event.session_id.0, event.seq);
        let told = |text: String| for_owner(&text, trust).into_owned();
        match event.kind.clone() {
            EventKind::Text { text } => Some(News::Text { butler, session_id, seq, text: told(text) }),
            EventKind::ToolCall { name, mut arguments, .. } => {
                value_for_owner(&mut arguments, trust);
                Some(News::ToolCall { butler, session_id, seq, name, arguments })
            }
            EventKind::ToolResult { name, is_error, content, .. } => {
                Some(News::ToolResult { butler, session_id, seq, name, is_error, content: told(content) })
            }
            _ => None,
        }
    }
}

/// What a live event of a session was worth.
#[derive(Clone, PartialEq, Debug)]
pub enum LiveUpdate {
    Nothing,
    News(News),
    /// Some before it were missed; they are on record, or will be in a moment.
    Gap,
}

/// Who follows one message: it is told everything once.
pub struct Follower {
    inbox: Inbox,
    tenant: TenantId,
    request: Uuid,
    told: Delivered,
}

#[derive(Default)]
struct Delivered {
    parts: BTreeSet<Uuid>,
    /// The last event of each session, by its number.
    sessions: HashMap<Uuid, i32>,
    /// Each by its number: parts that end at the same time may be committed in another order.
    replies: BTreeSet<i64>,
}

impl Follower {
    pub fn new(inbox: &Inbox, tenant: &TenantId, request: Uuid) -> Self {
        Self { inbox: inbox.clone(), tenant: tenant.clone(), request, told: Delivered::default() }
    }

    pub fn request(&self) -> Uuid {
        self.request
    }

    /// An event of any session, as it happens.
    pub fn heard(&mut self, event: &SessionEvent) -> LiveUpdate {
        let Some(last) = self.told.sessions.get_mut(&event.session_id.0) else { return LiveUpdate::Nothing };
        // Whose words they are is on record: where there are links in them, it is asked for.
        let news = News::of_session(event, Trust::Stranger);
        let has_links = news != News::of_session(event, Trust::Owner);
        match event.seq {
            Some(seq) if seq <= *last => return LiveUpdate::Nothing,
            Some(seq) if seq > *last + 1 || has_links => return LiveUpdate::Gap,
            Some(seq) => *last = seq,
            None => {}
        }
        news.map_or(LiveUpdate::Nothing, LiveUpdate::News)
    }

    /// What is on record and was not told so far; [`News::Ended`] is the last.
    pub async fn look(&mut self) -> Result<Vec<News>, StoreError> {
        let mut news = Vec::new();
        // Its state is read before all else: at its end everything that belongs to it is on record.
        let Some(entry) = self.inbox.entry(&self.tenant, self.request).await? else {
            news.push(News::Ended { state: "dead".to_owned(), error: Some("it is not on record any more".to_owned()) });
            return Ok(news);
        };
        let mut parts: BTreeMap<String, Vec<Uuid>> = BTreeMap::new();
        for segment in &entry.segments {
            let id = segment["segment_id"].as_str().and_then(|id| id.parse().ok());
            let (Some(id), Some(butler)) = (id, segment["butler"].as_str()) else { continue };
            if segment["state"] == "open" {
                continue;
            }
            parts.entry(butler.to_owned()).or_default().push(id);
            if self.told.parts.insert(id) {
                news.push(News::Routed { butler: butler.to_owned(), segment: id });
            }
        }
        if !parts.is_empty() {
            self.sessions(&parts, &mut news).await?;
        }
        for said in self.inbox.conversation().answers(&self.tenant, self.request).await? {
            let Some(seq) = said.reply_seq.filter(|seq| self.told.replies.insert(*seq)) else { continue };
            news.push(News::Reply {
                seq,
                butler: said.butler.unwrap_or_default(),
                kind: said.kind,
                message: said.text.map(|text| for_owner(&text, said.trust).into_owned()),
                emoji: said.emoji,
                auto: said.auto,
            });
        }
        if ["done", "dead"].contains(&entry.state.as_str()) {
            news.push(News::Ended { state: entry.state, error: entry.last_error });
        }
        Ok(news)
    }

    /// The sessions of these parts, by butler, and what happened in them.
    async fn sessions(&mut self, parts: &BTreeMap<String, Vec<Uuid>>, news: &mut Vec<News>) -> Result<(), StoreError> {
        let mut lease = self.inbox.db().shared(&self.tenant).await?;
        let names: Vec<&str> = parts.keys().map(String::as_str).collect();
        for place in store::places_of(&mut lease, &names).await? {
            let Some(parts) = parts.get(&place.butler) else { continue };
            for session_id in sessions::sql::of_routes(&mut lease, &place.schema, &self.tenant, parts).await? {
                if let Entry::Vacant(new) = self.told.sessions.entry(session_id) {
                    new.insert(0);
                    news.push(News::Session { butler: place.butler.clone(), session_id });
                }
                self.transcript(&mut lease, &place, session_id, news).await?;
            }
        }
        Ok(())
    }

    async fn transcript(
        &mut self,
        lease: &mut Lease,
        place: &Place,
        session: Uuid,
        news: &mut Vec<News>,
    ) -> Result<(), StoreError> {
        let Some(last) = self.told.sessions.get_mut(&session) else { return Ok(()) };
        let rows = sessions::sql::events_of(lease, &place.schema, &self.tenant, session, *last).await?;
        if rows.is_empty() {
            return Ok(());
        }
        // After the events: whatever is behind one of them was noted before it.
        let trust = sessions::sql::trust_of(lease, &place.schema, &self.tenant, session).await?;
        for row in rows {
            let event = SessionEvent::of_row(&place.butler, session, row);
            *last = event.seq.unwrap_or(*last);
            news.extend(News::of_session(&event, trust));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn news_keep_their_form_over_the_wire() {
        let reply = News::Reply {
            seq: 3,
            butler: "health".into(),
            kind: "react".into(),
            message: None,
            emoji: Some("👍".into()),
            auto: false,
        };
        let written = serde_json::to_value(&reply).unwrap();
        assert_eq!(written["event"], reply.name());
        assert_eq!(serde_json::from_value::<News>(written).unwrap(), reply);
        assert_eq!(serde_json::from_value::<News>(json!({"event": "sung", "song": 1})).unwrap(), News::Unknown);
    }
}
