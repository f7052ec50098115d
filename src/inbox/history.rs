//! What was said before in a conversation, for the butler that must understand what is said now. It comes from the
//! conversation log; answers that are still on their way out are added, or they would be given again.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::handle::Inbox;
use super::sql::replies;
use super::types::Lane;
use base::{Audience, Label, RequestContext, TenantId, Trust, text};
use conversation::Entry;
use store::StoreError;

/// Messages of either side that are shown.
const MESSAGES: i64 = 30;
/// Of a conversation that goes on as it is spoken, nothing older is shown.
const AGE: SignedDuration = SignedDuration::from_hours(12);
/// Of a thread of letters nothing is too old, but there is a limit of bytes.
const THREAD_BYTES: usize = 128 * 1024;
const MESSAGE_BYTES: usize = 16 * 1024;
const LETTERS: i64 = 100;

/// One thing that was said.
struct Said {
    at: Timestamp,
    /// As it is named to those who are not told it.
    announced: Value,
    /// The channel's own name of who spoke, or the butler.
    from: String,
    /// How a person calls himself, which everybody may as he likes.
    calls_himself: Option<String>,
    text: Option<String>,
    emoji: Option<String>,
    by_butler: bool,
    label: Label,
}

impl Said {
    fn of(entry: Entry) -> Self {
        Self {
            at: entry.said_at,
            announced: entry.announced(),
            label: entry.label(),
            by_butler: entry.butler.is_some(),
            calls_himself: entry.person_name.filter(|name| entry.butler.is_none() && *name != entry.person),
            from: entry.butler.unwrap_or(entry.person),
            text: entry.text,
            emoji: entry.emoji,
        }
    }

    /// As a session with this label is told of it; `None`: not at all. Nothing that it is told lowers its label.
    fn shown(&self, to: &Label) -> Option<Value> {
        if !self.label.audience.covers(&to.audience) {
            return None;
        }
        if would_lower(&self.label, to) {
            return Some(self.announced.clone());
        }
        let words = self.text.as_ref().map(|w| text::truncate(w, MESSAGE_BYTES));
        let mut one = json!({"at": self.at.to_string(), "from": self.from, "text": words});
        if let Some(name) = &self.calls_himself {
            one["calls_himself"] = json!(name);
        }
        if self.by_butler {
            one["by_butler"] = json!(true);
        }
        if let Some(emoji) = &self.emoji {
            one["emoji"] = json!(emoji);
        }
        Some(one)
    }
}

/// Whether to be told something with this label lowers how far a session with the label `to` is believed.
fn would_lower(label: &Label, to: &Label) -> bool {
    label.trust < to.trust.min(Trust::System)
}

impl Inbox {
    /// The conversation of this lane before the message `request`, oldest first: what those may learn who may learn
    /// what the request says. What somebody less trusted said comes as a reference, which costs no trust; `inspect`
    /// answers questions about it, and `message_read` tells it.
    pub async fn history(&self, lane: &Lane, request: &RequestContext) -> Result<Vec<Value>, StoreError> {
        let (tenant, label) = (&request.tenant_id, request.label());
        let letters = request.source_channel == "email";
        let since = if letters { Timestamp::UNIX_EPOCH } else { self.clock().now() - AGE };
        let most = if letters { LETTERS } else { MESSAGES };
        let before = || self.conversation().before(tenant, lane, request.request_id, since, most);
        let mut entries = before().await?;
        // A reference is the entry's place, which what was said a moment ago does not have yet.
        if entries.iter().any(|entry| entry.id.is_none() && would_lower(&entry.label(), &label)) {
            self.conversation().order().await?;
            entries = before().await?;
        }
        let delivered: Vec<i64> = entries.iter().filter_map(|entry| entry.reply_seq).collect();
        let mut said: Vec<Said> = entries.into_iter().map(Said::of).collect();
        said.extend(self.on_their_way(tenant, lane, since, most, &delivered).await?);
        // Stable: what was said at the same time stays in the order of the log.
        said.sort_by_key(|one| std::cmp::Reverse(one.at));
        said.truncate(usize::try_from(most).unwrap_or(usize::MAX));
        let mut left = THREAD_BYTES;
        let mut shown = Vec::with_capacity(said.len());
        for one in said.iter().filter_map(|one| one.shown(&label)) {
            let bytes = one["text"].as_str().map_or(8, str::len);
            let Some(rest) = left.checked_sub(bytes) else { break };
            left = rest;
            shown.push(one);
        }
        shown.reverse();
        Ok(shown)
    }

    /// Answers in this lane that are on record and not `delivered`, the newest first.
    async fn on_their_way(
        &self,
        tenant: &TenantId,
        lane: &Lane,
        since: Timestamp,
        most: i64,
        delivered: &[i64],
    ) -> Result<Vec<Said>, StoreError> {
        let mut lease = self.db().shared(tenant).await?;
        let spoken = replies::on_their_way(&mut lease, (tenant, &lane.0), since, most, delivered).await?;
        let said = spoken.into_iter().map(|row| Said {
            at: row.at,
            announced: json!({"at": row.at.to_string(), "kind": "reply", "from": row.butler,
                              "withheld": "one of the household's own answers, which is on its way"}),
            from: row.butler,
            calls_himself: None,
            text: row.message,
            emoji: row.emoji,
            by_butler: true,
            label: Label { trust: Trust::from_name(&row.trust), audience: Audience::from_names(row.audience) },
        });
        Ok(said.collect())
    }
}
