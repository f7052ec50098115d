//! Conversations for people: who said what, on all channels; and the chat, from wherever a person types.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use jsonrpsee::Extensions;
use jsonrpsee::proc_macros::rpc;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::chat_message::{self, CHANNEL, ChatMessage, own_name};
use super::failure::Failure;
use super::rights::{self, Need};
use super::rpc::{Rpc, limited};
use super::visitor::may;
use access::{Grant, Holder};
use conversation::{ConversationPages, Direction, Page, PageEntry};
use inbox::{Following, SWITCHBOARD};

const MOST: u32 = 200;
const USUAL: u32 = 30;
/// The longest text that is searched for, in bytes.
const LONGEST: usize = 200;

/// What was said between people and the household. All of it is the switchboard's, whichever butler said it.
#[rpc(server, client, namespace = "butlerd", namespace_separator = ".")]
pub trait ConversationsApi {
    /// The conversations, each by its last entry, the newest first, at most `limit` (1 to 200, else 30); those whose last
    /// entry is older than `before`, as the page before says it. Scope `read`.
    #[method(name = "conversations_list", param_kind = map, with_extensions)]
    async fn conversations_list(&self, before: Option<i64>, limit: Option<u32>) -> Result<ConversationPage, Failure>;

    /// What was said in the conversation that this message or delivery belongs to, the newest first. Scope `read`.
    #[method(name = "conversations_show", param_kind = map, with_extensions)]
    async fn conversations_show(
        &self,
        id: Uuid,
        before: Option<i64>,
        limit: Option<u32>,
    ) -> Result<ConversationPage, Failure>;

    /// What was said to a contact and by them on all channels, the newest first. Scope `read`.
    #[method(name = "conversations_with", param_kind = map, with_extensions)]
    async fn conversations_with(
        &self,
        contact: Uuid,
        before: Option<i64>,
        limit: Option<u32>,
    ) -> Result<ConversationPage, Failure>;

    /// Entries with this text in them, in their subject, or in the name of the person, the newest first. A page goes
    /// through a part of the log; where it found little, `before` says where to look on. Scope `read`.
    #[method(name = "conversations_search", param_kind = map, with_extensions)]
    async fn conversations_search(
        &self,
        text: String,
        before: Option<i64>,
        limit: Option<u32>,
    ) -> Result<ConversationPage, Failure>;

    /// Writes to the household as `POST /api/chat` does, without waiting for the answer. Without a butler the switchboard
    /// finds out whose it is; without a thread it belongs to `main`. Scope `tools`.
    #[method(name = "conversations_write", param_kind = map, with_extensions)]
    async fn conversations_write(
        &self,
        text: String,
        butler: Option<String>,
        thread: Option<String>,
        id: Option<String>,
    ) -> Result<Written, Failure>;
}

/// A page of what was said.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ConversationPage {
    /// The newest first.
    pub entries: Vec<SaidRow>,
    /// Where the next page begins; nothing: there is nothing older.
    pub before: Option<i64>,
    /// Of one conversation that is the caller's own chat: the name of its thread, to go on there.
    pub thread: Option<String>,
}

/// Something that was said.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SaidRow {
    /// Names the entry: the message's `request_id`, or the delivery's id.
    pub id: Uuid,
    /// A person said it to the household.
    pub inbound: bool,
    pub kind: String,
    pub channel: String,
    pub thread: Option<String>,
    /// Who it came from or went to, as the channel names them.
    pub person: String,
    pub person_name: Option<String>,
    pub contact_id: Option<Uuid>,
    /// Who spoke for the household.
    pub butler: Option<String>,
    pub subject: Option<String>,
    pub text: Option<String>,
    pub emoji: Option<String>,
    /// How many files went with it.
    pub files: usize,
    /// What these files are called, where whoever sent them said so.
    pub file_names: Vec<String>,
    pub trust: String,
    pub request_id: Uuid,
    pub session_id: Option<Uuid>,
    pub said_at: Timestamp,
}

impl From<PageEntry> for SaidRow {
    fn from(row: PageEntry) -> Self {
        let said = row.entry;
        let attached = said.attachments.as_array().map(Vec::as_slice).unwrap_or_default();
        let names = attached.iter().filter_map(|file| file["filename"].as_str());
        Self {
            id: said.delivery_id.unwrap_or(said.request_id),
            inbound: said.direction == Direction::In,
            kind: said.kind,
            channel: said.channel,
            thread: said.thread,
            person: said.person,
            person_name: said.person_name,
            contact_id: said.contact_id,
            butler: said.butler,
            subject: said.subject,
            text: said.text,
            emoji: said.emoji,
            files: attached.len(),
            file_names: names.map(str::to_owned).collect(),
            trust: said.trust.as_str().to_owned(),
            request_id: said.request_id,
            session_id: said.session_id,
            said_at: said.said_at,
        }
    }
}

impl From<Page> for ConversationPage {
    fn from(page: Page) -> Self {
        let entries = page.entries.into_iter().map(SaidRow::from).collect();
        Self { entries, before: page.before, thread: None }
    }
}

/// A message that was taken.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Written {
    pub request_id: Uuid,
    /// It was there before.
    pub duplicate: bool,
}

/// The name of the caller's own chat thread that this entry belongs to.
fn own_thread(grant: &Grant, entries: &[SaidRow]) -> Option<String> {
    let Holder::Operator { label, .. } = &grant.holder else { return None };
    let first = entries.iter().find(|said| said.inbound && said.channel == CHANNEL)?;
    let thread = first.thread.as_deref()?.strip_prefix(&own_name(label, ""))?;
    (first.person == *label).then(|| thread.to_owned())
}

impl Rpc {
    /// The log, for whoever may look at what all butlers said, and how many entries a page has.
    fn said(&self, ext: &Extensions, limit: Option<u32>) -> Result<(Arc<Grant>, ConversationPages, i64), Failure> {
        let grant = may(ext, Need::Look)?;
        rights::check_butler(&grant, SWITCHBOARD)?;
        let pages = self.supervisor.services().inbox.conversation().pages();
        Ok((grant, pages, i64::from(limited(limit, USUAL, MOST)?)))
    }

    /// What becomes of a message of the chat, from its beginning. Scope `tools`.
    pub async fn follow_chat(&self, grant: &Grant, request: Uuid) -> Result<Following, Failure> {
        rights::check(grant, Need::Work)?;
        Ok(chat_message::follow(&self.supervisor, grant, request).await?)
    }
}

#[async_trait]
impl ConversationsApiServer for Rpc {
    async fn conversations_list(
        &self,
        ext: &Extensions,
        before: Option<i64>,
        limit: Option<u32>,
    ) -> Result<ConversationPage, Failure> {
        let (grant, pages, most) = self.said(ext, limit)?;
        Ok(pages.conversations(&grant.tenant, before, most).await?.into())
    }

    async fn conversations_show(
        &self,
        ext: &Extensions,
        id: Uuid,
        before: Option<i64>,
        limit: Option<u32>,
    ) -> Result<ConversationPage, Failure> {
        let (grant, pages, most) = self.said(ext, limit)?;
        let found = pages.conversation(&grant.tenant, id, before, most).await?;
        let unknown = || Failure::new("not_found", format!("Nothing of the id {id} was said in any conversation."));
        let page = ConversationPage::from(found.ok_or_else(unknown)?);
        Ok(ConversationPage { thread: own_thread(&grant, &page.entries), ..page })
    }

    async fn conversations_with(
        &self,
        ext: &Extensions,
        contact: Uuid,
        before: Option<i64>,
        limit: Option<u32>,
    ) -> Result<ConversationPage, Failure> {
        let (grant, pages, most) = self.said(ext, limit)?;
        Ok(pages.with_contact(&grant.tenant, contact, before, most).await?.into())
    }

    async fn conversations_search(
        &self,
        ext: &Extensions,
        text: String,
        before: Option<i64>,
        limit: Option<u32>,
    ) -> Result<ConversationPage, Failure> {
        let (grant, pages, most) = self.said(ext, limit)?;
        let text = base::text::clean(text.trim());
        if text.is_empty() || text.len() > LONGEST {
            return Err(Failure::invalid(format!("Search for a text of 1 to {LONGEST} bytes.")));
        }
        Ok(pages.search(&grant.tenant, &text, before, most).await?.into())
    }

    async fn conversations_write(
        &self,
        ext: &Extensions,
        text: String,
        butler: Option<String>,
        thread: Option<String>,
        id: Option<String>,
    ) -> Result<Written, Failure> {
        let grant = may(ext, Need::Work)?;
        let message = ChatMessage { text, butler, thread, id, attachments: Vec::new() };
        let (accepted, _) = chat_message::accept(&self.supervisor, &grant, message).await?;
        Ok(Written { request_id: accepted.request_id, duplicate: accepted.duplicate })
    }
}
