//! A message of the house's own channel, wherever a person types it: taken in, and followed to its answer.

use serde::Deserialize;
use serde_json::Map;
use uuid::Uuid;

use super::failure::Failure;
use super::rights;
use access::{Grant, Holder};
use base::text::capital;
use base::{Trust, task};
use butler::ButlerState;
use inbox::{
    AcceptError, Accepted, Attachment, Authentication, Control, Envelope, Event, Following, Inbox, Payload, Sender,
    Source, Tier,
};
use supervisor::Supervisor;

/// The channel's name.
pub(super) const CHANNEL: &str = "chat";
/// Where a message goes that names no thread.
const THREAD: &str = "main";
/// Files that go with one message.
const FILES: usize = 10;

/// The body of `POST /api/chat`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChatMessage {
    pub text: String,
    /// Whom it is for; without it the switchboard finds out.
    #[serde(default)]
    pub butler: Option<String>,
    /// The conversation that it belongs to.
    #[serde(default)]
    pub thread: Option<String>,
    /// The client's own name for the message: sent again under the same, it is the same.
    #[serde(default)]
    pub id: Option<String>,
    /// Files that go with it, as in `ingest.v1`.
    #[serde(default)]
    pub attachments: Vec<Attachment>,
}

impl ChatMessage {
    /// What of its files is not as `ingest.v1` has it.
    fn wrong_file(&self) -> Option<String> {
        let token = |text: &str| {
            !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&b))
        };
        let is_type = |kind: &str| kind.split_once('/').is_some_and(|(kind, sub)| token(kind) && token(sub));
        let file = |(n, file): (usize, &Attachment)| {
            let field = match file {
                file if !is_type(&file.media_type) => "media_type, such as image/png",
                file if file.content_base64.is_none() => "content_base64",
                file if file.filename.as_ref().is_some_and(|name| name.len() > 500) => "a shorter filename",
                _ => return None,
            };
            Some(format!("attachments.{n} needs {field}."))
        };
        let too_many = || format!("At most {FILES} files go with a message.");
        if self.attachments.len() > FILES {
            Some(too_many())
        } else {
            self.attachments.iter().enumerate().find_map(file)
        }
    }
}

/// Why a message was not taken, or can't be followed.
pub(super) enum ChatRefusal {
    Forbidden(Failure),
    Invalid(String),
    UnknownButler { why: String, butlers: Vec<String> },
    UnknownMessage,
    NotTaken(AcceptError),
}

impl From<ChatRefusal> for Failure {
    fn from(refused: ChatRefusal) -> Self {
        match refused {
            ChatRefusal::Forbidden(failure) => failure,
            ChatRefusal::Invalid(why) => Failure::invalid(why),
            ChatRefusal::UnknownButler { why, .. } => Failure::new("unknown_butler", why),
            ChatRefusal::UnknownMessage => {
                Failure::new("not_found", "There is no message of this id in the household's own chat.")
            }
            ChatRefusal::NotTaken(e) => {
                let code = match &e {
                    AcceptError::Unavailable | AcceptError::Machine(_) | AcceptError::NotUp => "unavailable",
                    other => other.code(),
                };
                Failure::new(code, format!("{}.", capital(&e.to_string())))
            }
        }
    }
}

/// The person whom the grant speaks for.
pub(super) fn speaker(grant: &Grant) -> Result<&str, ChatRefusal> {
    match &grant.holder {
        Holder::Operator { label, .. } => Ok(label),
        _ => Err(ChatRefusal::Forbidden(Failure::forbidden("Only an operator's token speaks for a person."))),
    }
}

/// Takes a message in and follows it from its beginning. Whoever calls has looked at the scope.
pub(super) async fn accept(
    supervisor: &Supervisor,
    grant: &Grant,
    message: ChatMessage,
) -> Result<(Accepted, Following), ChatRefusal> {
    let label = speaker(grant)?;
    if let Some(why) = message.wrong_file() {
        return Err(ChatRefusal::Invalid(why));
    }
    // A token of one butler talks to that one.
    let butler = message.butler.clone().or_else(|| grant.butler.as_ref().map(ToString::to_string));
    if let Some(butler) = &butler {
        rights::check_butler(grant, butler).map_err(ChatRefusal::Forbidden)?;
        reachable(supervisor, butler).await?;
    }
    let inbox = supervisor.services().inbox.clone();
    // Before the message is there, so that nothing of it is missed.
    let listening = inbox.listen();
    let tenant = grant.tenant.clone();
    let envelope = envelope(&inbox, label, message, butler);
    // Whoever holds an operator's token of a tenant is its owner, as for every other call.
    let accepting = {
        let (inbox, tenant) = (inbox.clone(), tenant.clone());
        async move { inbox.accept(&tenant, envelope, Trust::Owner).await }
    };
    // A task of its own: a client that goes away now changes nothing.
    let accepted = task::spawn(task::Kind::Request, "chat-accept", accepting).await;
    let accepted = accepted.map_err(|_| ChatRefusal::NotTaken(AcceptError::Unavailable))?;
    let accepted = accepted.map_err(ChatRefusal::NotTaken)?;
    if let Err(e) = inbox.hasten(&tenant, accepted.request_id).await {
        // It is tried in its own time.
        tracing::debug!(error = %e, "what stands before a message could not be hastened");
    }
    let following = listening.follow(&tenant, accepted.request_id);
    Ok((accepted, following))
}

/// Follows a message that was accepted before, from its beginning.
pub(super) async fn follow(supervisor: &Supervisor, grant: &Grant, id: Uuid) -> Result<Following, ChatRefusal> {
    let label = speaker(grant)?;
    let services = supervisor.services();
    let listening = services.inbox.listen();
    let entry = services.inbox.entry(&grant.tenant, id).await.map_err(|e| {
        tracing::warn!(error = %e, "the inbox can't be read");
        ChatRefusal::NotTaken(AcceptError::Unavailable)
    })?;
    // A token of one butler sees what it said itself.
    let own = |sender: &str| grant.butler.is_none() || sender == label;
    match entry.is_some_and(|e| e.channel == CHANNEL && own(&e.sender)) {
        true => Ok(listening.follow(&grant.tenant, id)),
        false => Err(ChatRefusal::UnknownMessage),
    }
}

/// Whether things can be handed to the butler; else those that can, or that it starts just now.
async fn reachable(supervisor: &Supervisor, butler: &str) -> Result<(), ChatRefusal> {
    let routable = supervisor.services().inbox.butlers().routable();
    if routable.iter().any(|(name, _)| name == butler) {
        return Ok(());
    }
    let status = supervisor.status().await;
    if status.butlers.iter().any(|b| b.name == butler && b.state == ButlerState::Booting) {
        return Err(ChatRefusal::NotTaken(AcceptError::NotUp));
    }
    let butlers: Vec<String> = routable.iter().map(|(name, _)| name.to_string()).collect();
    let why = format!("There is no butler `{butler}` to talk to; there are: {}.", butlers.join(", "));
    Err(ChatRefusal::UnknownButler { why, butlers })
}

/// A name of one token's own. A stroke in the label does not read as its end.
pub(super) fn own_name(label: &str, name: &str) -> String {
    format!("{}/{name}", label.replace('%', "%25").replace('/', "%2F"))
}

fn envelope(inbox: &Inbox, label: &str, message: ChatMessage, butler: Option<String>) -> Envelope {
    let thread = message.thread.as_deref().map(str::trim).filter(|t| !t.is_empty()).unwrap_or(THREAD);
    let id = message.id.filter(|id| !id.trim().is_empty()).unwrap_or_else(|| Uuid::now_v7().to_string());
    Envelope {
        schema_version: "ingest.v1".to_owned(),
        source: Source {
            channel: CHANNEL.to_owned(),
            provider: "internal".to_owned(),
            endpoint_identity: "local".to_owned(),
        },
        event: Event {
            // Of each token its own: two programs may number alike, and one must not read the other's conversation.
            external_event_id: own_name(label, &id),
            external_thread_id: Some(own_name(label, thread)),
            observed_at: inbox.clock().now(),
        },
        sender: Sender {
            identity: label.to_owned(),
            authenticated: Some(Authentication::pass("token")),
            more: Map::new(),
        },
        payload: Payload { raw: None, normalized_text: message.text, attachments: message.attachments },
        control: Control { policy_tier: Tier::Interactive, pinned_target: butler, ..Control::default() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_what_it_is() {
        let read = |text: &str| serde_json::from_str::<ChatMessage>(text);
        let whole = read(r#"{"text": "hi", "butler": "health", "thread": "t", "id": "1"}"#).unwrap();
        assert_eq!(
            (whole.butler.as_deref(), whole.thread.as_deref(), whole.id.as_deref()),
            (Some("health"), Some("t"), Some("1"))
        );
        assert!(read(r#"{"text": "hi", "trust": "owner"}"#).is_err() && read("{}").is_err());
        let with = |file: &str| read(&format!(r#"{{"text": "hi", "attachments": [{file}]}}"#)).unwrap().wrong_file();
        assert_eq!(with(r#"{"media_type": "image/png", "content_base64": "eA==", "size_bytes": 1}"#), None);
        for wrong in [
            r#"{"media_type": "png", "content_base64": "eA==", "size_bytes": 1}"#,
            r#"{"media_type": "image/png", "storage_ref": "blob:sha256:00", "size_bytes": 1}"#,
        ] {
            assert!(with(wrong).is_some_and(|why| why.starts_with("attachments.0 needs")), "{wrong}");
        }
    }

    #[test]
    fn no_label_makes_another_tokens_thread() {
        assert_eq!(own_name("cli", "main"), "cli/main");
        assert_ne!(own_name("a/b", "c"), own_name("a", "b/c"));
        assert_ne!(own_name("a%2Fb", "c"), own_name("a/b", "c"));
    }
}
