//! Following one message from its acceptance to its end. The rows are the truth; live notices only say when to look.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::IntoStaticStr;
use uuid::Uuid;

use super::handle::Inbox;
use super::types::LiveKind;
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
    /// How far a session is that a module works on.
    Stage {
        butler: String,
        session_id: Uuid,
        seq: Option<i32>,
        stage: String,
        /// Who of several has done it.
        by: Option<String>,
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

    /// What of a session's transcript is told. `trust`: of what the session was shown by then; below the owner's, links
    /// do nothing.
    fn of_session(event: &SessionEvent, trust: Trust) -> Option<Self> {
        let (butler, session_id, seq) = (event.butler.clone(), event.session_id.0, event.seq);
        let told = |text: String| for_owner(&text, trust).into_owned();
        match event.kind.clone() {
            EventKind::Text { text } => Some(News::Text { butler, session_id, seq, text: told(text) }),
            EventKind::Stage { stage, by, text } => {
                Some(News::Stage { butler, session_id, seq, stage, by, text: told(text) })
            }
            EventKind::ToolCall { name, mut arguments, .. } => {
                value_for_owner(&mut arguments, trust);
                Some(News::ToolCall { butler, session_id, seq, name, arguments })
            }
            EventKind::ToolResult { name, is_error, content, .. } => {
                Some(News::ToolResult { butler, session_id, seq, name, is_error, content: told(content) })
            }
            _ => waiting(event, Some(butler), trust),
        }
    }
}

/// What a model call that failed is told as: one that found nobody at once, others when they go on.
fn waiting(event: &SessionEvent, butler: Option<String>, trust: Trust) -> Option<News> {
    let EventKind::Retry { class, attempt, delay_ms, status, message } = &event.kind else { return None };
    // The gateway says by these that nobody answered it.
    let unreachable = class == "model_unreachable" || matches!(status, Some(502 | 504));
    let what = match class.as_str() {
        _ if unreachable => "the model cannot be reached",
        "rate_limited" => "the model's provider lets no more requests through just now",
        "overloaded" => "the model is overloaded",
        _ => "the model does not answer as it should",
    };
    let why =
        message.as_ref().map_or_else(|| what.to_owned(), |message| format!("{what}: {}", for_owner(message, trust)));
    (unreachable || *attempt > 1).then(|| News::Waiting { butler, why, again_ms: delay_ms.unwrap_or_default() })
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
    /// Texts that are being written, by session.
    written: HashMap<Uuid, Written>,
    /// The switchboard's session, while it looks for a butler.
    routing: Option<Uuid>,
}

/// A text that is being written.
#[derive(Default)]
struct Written {
    raw: String,
    told: usize,
}

impl Written {
    /// Takes the next piece. What can be told by now and was not. A text whose links would have to be taken apart is
    /// not told before it is whole: then it is on record whose words they are.
    fn push(&mut self, start: usize, piece: &str) -> Option<(usize, String)> {
        if start == 0 {
            *self = Self::default();
        }
        if start != self.raw.len() {
            return None;
        }
        self.raw.push_str(piece);
        // A word that goes on may become a link.
        let ends = |c: char| c.is_whitespace() || "，。、；：？！".contains(c);
        let end = self.raw.rfind(ends).map_or(0, |at| at + self.raw[at..].chars().next().map_or(0, char::len_utf8));
        let whole = &self.raw[..end];
        if end <= self.told || for_owner(whole, Trust::Stranger) != whole {
            return None;
        }
        let start = std::mem::replace(&mut self.told, end);
        Some((start, self.raw[start..end].to_owned()))
    }
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
        let (told, written) = (Delivered::default(), HashMap::new());
        Self { inbox: inbox.clone(), tenant: tenant.clone(), request, told, written, routing: None }
    }

    pub fn request(&self) -> Uuid {
        self.request
    }

    /// A notice about the message: what is to be told of it at once.
    pub fn noticed(&mut self, kind: LiveKind) -> Option<News> {
        match kind {
            LiveKind::Session { session, segment: None, .. } => {
                self.routing = Some(session);
                None
            }
            LiveKind::Waiting { butler, why, after } => {
                let again_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
                Some(News::Waiting { butler, why: for_owner(&why, Trust::Stranger).into_owned(), again_ms })
            }
            _ => None,
        }
    }

    /// An event of any session, as it happens.
    pub fn heard(&mut self, event: &SessionEvent) -> LiveUpdate {
        if self.routing == Some(event.session_id.0) {
            return waiting(event, None, Trust::Stranger).map_or(LiveUpdate::Nothing, LiveUpdate::News);
        }
        let Some(last) = self.told.sessions.get_mut(&event.session_id.0) else { return LiveUpdate::Nothing };
        if let EventKind::TextDelta { after, start, text } = &event.kind {
            let written = self.written.entry(event.session_id.0).or_default();
            // What is older than what was read from the record is the begin of a text that was told.
            let piece = if *after < *last { None } else { written.push(*start, text) };
            let (butler, session_id) = (event.butler.clone(), event.session_id.0);
            return piece.map_or(LiveUpdate::Nothing, |(start, text)| {
                LiveUpdate::News(News::TextDelta { butler, session_id, start, text })
            });
        }
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
    fn a_text_that_is_written_is_told_by_words_and_without_links() {
        let mut written = Written::default();
        assert_eq!(written.push(0, "Good mor"), Some((0, "Good ".to_owned())));
        assert_eq!(written.push(8, "ning"), None);
        assert_eq!(written.push(12, ". "), Some((5, "morning. ".to_owned())));
        assert_eq!(written.push(14, "See https://a.exam"), Some((14, "See ".to_owned())));
        assert_eq!(written.push(32, "ple/?w=82 and more "), None);
        assert_eq!(written.push(60, "something was missed "), None);
        assert_eq!(written.push(0, "Anew, "), Some((0, "Anew, ".to_owned())));
    }

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
