//! A letter as one of the household's messages: pure, no network.
//!
//! Whose words are whose is kept apart here. The sender's own new words are the message. What is quoted, passed on or
//! written by a calendar comes along as an attachment of others: whoever reads it is influenced by it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::CHANNEL;
use super::account::MailAccount;
use super::settings::{Answers, Bulk};
use base::text;
use mail::{Automatic, ParsedMail, Part, ProofResult, bare_subject};
use sha2::{Digest, Sha256};

/// What is kept of a subject.
const MOST_SUBJECT: usize = 300;

/// The end of the ids of letters that the household sends: what stands before it is the delivery.
fn own_end(domain: &str) -> String {
    format!(".butlerd@{domain}")
}

/// The id of the letter that carries a delivery: the same for each try.
pub(super) fn message_id(delivery: &str, domain: &str) -> String {
    format!("{delivery}{}", own_end(domain))
}

/// The delivery that a letter of this id carries.
pub(super) fn delivery_of(message_id: &str, domain: &str) -> Option<uuid::Uuid> {
    message_id.strip_suffix(&own_end(domain))?.parse().ok()
}

/// The letter that an event is.
pub(super) fn letter_of(event: &str) -> Option<&str> {
    event.rsplit_once('#').map(|(id, _)| id).filter(|id| !id.is_empty())
}

/// Whether the household wrote it itself, and finds it in its own mailbox.
pub(super) fn is_own(letter: &ParsedMail, account: &MailAccount) -> bool {
    letter.from.address.eq_ignore_ascii_case(account.address())
        && letter.message_id.as_deref().is_some_and(|id| delivery_of(id, account.domain()).is_some())
}

/// The first letter of its thread, as far as it says so.
fn root(letter: &ParsedMail) -> Option<&str> {
    let named = letter.references.first().or(letter.in_reply_to.first());
    named.map(String::as_str)
}

/// The thread that it belongs to. An answer that names no letter goes on with its sender's others of that subject: what
/// is in the mailbox does not matter, so that it is the same thread whenever it is read.
fn thread(letter: &ParsedMail) -> String {
    if let Some(root) = root(letter) {
        return root.to_owned();
    }
    let bare = bare_subject(&letter.subject);
    if !bare.is_empty() && bare != letter.subject.trim() {
        let hash = Sha256::digest(format!("{}\n{}", letter.from.address, bare.to_lowercase()));
        return format!("subject:{}", text::hex(&hash[..16]));
    }
    letter.message_id.clone().unwrap_or_else(|| letter.digest.clone())
}

/// What reading needs to know beside the letter itself.
pub(super) struct Around<'a> {
    pub account: &'a MailAccount,
    /// Its From address is the owner's own.
    pub of_owner: bool,
    pub received: Timestamp,
    /// Its end is missing: it is larger than is taken in.
    pub cut: bool,
}

/// The letter in the household's words.
pub(super) fn envelope(letter: &ParsedMail, around: &Around<'_>) -> Map<String, Value> {
    let account = around.account;
    let id = event_id(letter);
    let proven = is_proven(letter, around);
    let result = match letter.proof.result {
        ProofResult::Pass if !proven => "none",
        ProofResult::Pass => "pass",
        ProofResult::Fail => "fail",
        ProofResult::None => "none",
    };
    let machine = match letter.automatic {
        None => false,
        Some(Automatic::Reply | Automatic::Report) => true,
        Some(Automatic::List | Automatic::Notice) => account.bulk == Bulk::Record,
    };
    let subject = text::truncate(letter.subject.trim(), MOST_SUBJECT);
    let raw = json!({"message_id": letter.message_id, "subject": subject, "references": chain(letter),
                     "automatic": letter.automatic.is_some(), "proven": proven, "signature": text::truncate(&letter.words.signature, 2000)});
    let mut parts = Parts::of(letter, around);
    let text = parts.text(letter, around, &subject);
    if machine {
        parts.attachments.clear();
    }
    let envelope = json!({
        "schema_version": "ingest.v1",
        "source": {"channel": CHANNEL, "provider": "imap", "endpoint_identity": account.address()},
        "event": {"external_event_id": id, "external_thread_id": thread(letter), "observed_at": around.received.to_string()},
        "sender": {
            "identity": letter.from.address,
            "authenticated": {"result": result, "method": letter.proof.method},
            "display_name": letter.from.name.as_deref().map(|name| text::truncate(name, 200))},
        "payload": {
            "raw": if machine { Value::Null } else { raw }, "normalized_text": text, "attachments": parts.attachments},
        "control": {
            "policy_tier": if waits_for_answer(letter, around) { "interactive" } else { "default" },
            "ingestion_tier": if machine { "metadata" } else { "full" }}});
    match envelope {
        Value::Object(envelope) => envelope,
        _ => Map::new(),
    }
}

/// What a letter is known again by: its own id, and what it says, because ids can be made up.
fn event_id(letter: &ParsedMail) -> String {
    format!("{}#{}", letter.message_id.as_deref().unwrap_or_default(), letter.digest)
}

/// The letters before it and itself, for whoever answers.
fn chain(letter: &ParsedMail) -> Vec<&str> {
    let before = letter.references.iter().chain(letter.in_reply_to.iter().filter(|id| !letter.references.contains(id)));
    let mut chain: Vec<&str> = before.map(String::as_str).collect();
    // The first and the last are what programs look at.
    if chain.len() > 20 {
        chain.drain(1..chain.len() - 19);
    }
    chain
}

/// Whether its sender is who it says, and wrote to the household: a signature is as good on a letter to somebody else that
/// is sent on to here.
fn is_proven(letter: &ParsedMail, around: &Around<'_>) -> bool {
    let addressed = letter.to.iter().chain(&letter.cc).any(|to| around.account.is_own(&to.address));
    letter.proof.result == ProofResult::Pass && addressed
}

/// Whether somebody who may be answered by itself waits for that.
fn waits_for_answer(letter: &ParsedMail, around: &Around<'_>) -> bool {
    let account = around.account;
    let to_us = letter.to.iter().any(|to| account.is_own(&to.address));
    let alone = letter.to.len() + letter.cc.len() == 1;
    letter.automatic.is_none()
        && is_proven(letter, around)
        && to_us
        && match account.answers {
            Answers::Owner => around.of_owner,
            Answers::Proven => around.of_owner || alone,
        }
}

/// Whether a file is made of somebody else's words, whoever sends it.
fn is_others(file: &Part) -> bool {
    let name = file.name.to_lowercase();
    file.is_letter
        || ["text/calendar", "application/ics"].contains(&file.media_type.as_str())
        || [".eml", ".msg", ".ics"].iter().any(|end| name.ends_with(end))
}

/// What comes along with the words.
struct Parts {
    notes: Vec<String>,
    attachments: Vec<Value>,
}

impl Parts {
    fn of(letter: &ParsedMail, around: &Around<'_>) -> Self {
        let mut parts = Self { notes: Vec::new(), attachments: Vec::new() };
        let words = &letter.words;
        if !words.quoted.trim().is_empty() {
            let what =
                if words.new.trim().is_empty() { "passes on a letter" } else { "quotes what was written before" };
            parts.others_words("quoted-letter.txt", "text/plain", &words.quoted);
            parts.notes.push(format!("{what}, attached: quoted-letter.txt"));
        }
        for (n, invitation) in letter.invitations.iter().enumerate() {
            let name = format!("invitation-{}.json", n + 1);
            parts.others_words(&name, "application/json", &invitation.to_string());
            parts.notes.push(format!("holds an invitation, attached: {name}"));
        }
        // What lies beside somebody else's words may be theirs.
        let (passes_on, mut without) = (!words.quoted.trim().is_empty(), Vec::new());
        for file in &letter.files {
            match &file.content {
                Some(content) => parts.attachments.push(json!({
                    "media_type": file.media_type, "size_bytes": content.len(), "filename": text::truncate(&file.name, 200),
                    "content_base64": STANDARD.encode(content), "by_others": passes_on || is_others(file)})),
                None => without.push(text::truncate(&file.name, 100)),
            }
        }
        let left = without.len() + letter.more_files;
        if left > 0 {
            parts.notes.push(format!("{left} of its files were not taken in; they stay in the mailbox"));
        }
        if words.hidden > 0 {
            parts.notes.push(format!("{} characters that a person would not see were left out", words.hidden));
        }
        if words.cut || around.cut {
            parts.notes.push("it goes on: only its beginning was taken in".to_owned());
        }
        parts
    }

    fn others_words(&mut self, name: &str, media: &str, content: &str) {
        self.attachments.push(json!({"media_type": media, "content_base64": STANDARD.encode(content),
                                     "size_bytes": content.len(), "filename": name, "by_others": true}));
    }

    /// The text to act on.
    fn text(&self, letter: &ParsedMail, around: &Around<'_>, subject: &str) -> String {
        let mut lines = vec![format!("Subject: {}", if subject.is_empty() { "(none)" } else { subject })];
        let others = letter.to.iter().chain(&letter.cc).map(|mailbox| mailbox.address.as_str());
        let others: Vec<&str> = others.filter(|a| !around.account.is_own(a)).take(20).collect();
        if !others.is_empty() {
            lines.push(format!("Also to: {}", others.join(", ")));
        }
        lines.extend(self.notes.iter().map(|note| format!("[{note}]")));
        lines.push(String::new());
        lines.push(letter.words.new.trim().to_owned());
        lines.join("\n").trim_end().to_owned()
    }
}
