//! The tools of butlers that may read the mailboxes: search, read, and write a draft for the owner to send.

use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::Date;
use serde_json::{Value, json};
use uuid::Uuid;

use super::account::MailAccount;
use crate::contract::ModuleError;
use base::{Audience, Label, Trust};
use mail::imap::{ImapError, ImapSession, Purpose, Stored, quoted};
use mail::{Draft, ParsedMail, ProofResult, answer_subject, compose, is_address};
use tools::{Definition, Effect, Meta, Tool, ToolCall, ToolError, handler};

const SEARCH: &str = "email_search_inbox";
const READ: &str = "email_read_message";
const DRAFT: &str = "email_draft";
/// Letters of one answer, and what is read of each for it.
const MOST_FOUND: u64 = 20;
const HEAD: u32 = 24 * 1024;
/// Of a letter that is shown whole.
const WHOLE: u32 = 4 * 1024 * 1024;
/// Characters that are shown of one.
const SHOWN: usize = 20_000;
const SNIPPET: usize = 160;
/// How far what stands in letters is believed: anybody may write one, and nothing that was decided on as it came is known
/// of a letter that is read where it lies.
const THEIRS: Label = Label { trust: Trust::Stranger, audience: Audience::Household };

pub(super) fn names() -> Vec<String> {
    [SEARCH, READ, DRAFT].map(str::to_owned).to_vec()
}

pub(super) fn tools(accounts: Vec<MailAccount>) -> Result<Vec<Tool>, ModuleError> {
    let accounts = Arc::new(accounts);
    let shows = || Meta { reads_untrusted: true, ..Meta::read() };
    let text =
        |most: u32, what: &str| json!({"type": "string", "minLength": 1, "maxLength": most, "description": what});
    let mailbox = || text(200, "Only this mailbox, by its address; without it the first");
    let search = Definition::of(
        SEARCH,
        "Find letters in a mailbox of the household, the newest first, with sender, subject and beginning.",
        json!({"text": text(200, "Words that stand in it, in ASCII"), "from": text(200, "Part of the sender's name or address"),
               "subject": text(200, "Part of the subject"), "since": {"type": "string", "format": "date"},
               "unread": {"type": "boolean", "description": "Only those that nobody has read"},
               "limit": {"type": "integer", "minimum": 1, "maximum": MOST_FOUND, "default": 10}, "mailbox": mailbox()}),
        json!([]),
        shows(),
    )?;
    let read = Definition::of(
        READ,
        "One letter whole: its new words, what it quotes, and the names of its files.",
        json!({"id": text(200, "As email_search_inbox gives it"), "mailbox": mailbox()}),
        json!(["id"]),
        shows(),
    )?;
    let draft = Definition::of(
        DRAFT,
        "Write a letter into the drafts of a mailbox, for the owner to look at and send. Nothing is sent.",
        json!({"to": text(200, "To which address; may be left to the owner"), "subject": text(300, "Its subject"),
               "message": text(65536, "The text"), "answers": text(200, "The id of the letter that it answers"),
               "mailbox": mailbox()}),
        json!(["message"]),
        Meta::write(Effect::Once),
    )?;
    let on = |accounts: &Arc<Vec<MailAccount>>| accounts.clone();
    let (a, b, c) = (on(&accounts), on(&accounts), on(&accounts));
    Ok(vec![
        Tool::new(&search, handler(move |call| find(call, a.clone()))),
        Tool::new(&read, handler(move |call| show(call, b.clone()))),
        Tool::new(&draft, handler(move |call| write(call, c.clone()))),
    ])
}

fn failed(e: ImapError) -> ToolError {
    ToolError::refused("mailbox_unavailable", format!("The mailbox can't be read just now: {e}."))
}

/// The mailbox that is meant, its connection, and the folder that is searched.
async fn open(call: &ToolCall, accounts: &[MailAccount]) -> Result<(MailAccount, ImapSession), ToolError> {
    let wanted = call.text("mailbox");
    let found = accounts.iter().find(|a| wanted.is_none_or(|wanted| a.address().eq_ignore_ascii_case(wanted)));
    let Some(account) = found else {
        let known = accounts.iter().map(MailAccount::address).collect::<Vec<_>>().join(", ");
        return Err(ToolError::refused("unknown_mailbox", format!("There is no such mailbox; there are: {known}.")));
    };
    let session = account.open().await.map_err(failed)?;
    Ok((account.clone(), session))
}

fn folder(account: &MailAccount) -> &str {
    account.folders.first().map_or("INBOX", String::as_str)
}

async fn find(call: ToolCall, accounts: Arc<Vec<MailAccount>>) -> Result<Value, ToolError> {
    let mut query = Vec::new();
    for (name, key) in [("text", "TEXT"), ("from", "FROM"), ("subject", "SUBJECT")] {
        let Some(words) = call.text(name) else { continue };
        if !words.is_ascii() {
            let why = format!(
                "`{name}` can hold ASCII alone: servers search for nothing else alike. Leave it out, or part of it."
            );
            return Err(ToolError::refused("invalid_value", why));
        }
        query.push(format!("{key} {}", quoted(words)));
    }
    if let Some(since) = call.text("since").and_then(|since| since.parse::<Date>().ok()) {
        query.push(format!("SINCE {}", since.strftime("%-d-%b-%Y")));
    }
    if call.args.get("unread").and_then(Value::as_bool) == Some(true) {
        query.push("UNSEEN".to_owned());
    }
    if query.is_empty() {
        query.push("ALL".to_owned());
    }
    let limit = call.args.get("limit").and_then(Value::as_u64).unwrap_or(10).min(MOST_FOUND) as usize;
    let (account, mut session) = open(&call, &accounts).await?;
    let opened = session.examine(folder(&account)).await.map_err(failed)?;
    let found = session.search(&query.join(" ")).await.map_err(failed)?;
    let (all, mut letters) = (found.len(), Vec::new());
    for uid in found.into_iter().rev().take(limit) {
        let Some(stored) = session.letter(uid, HEAD).await.map_err(failed)? else { continue };
        letters.push(told(&account, opened.validity, &stored));
    }
    session.close().await;
    if !letters.is_empty() {
        call.shows(&THEIRS);
    }
    Ok(json!({"mailbox": account.address(), "found": all, "letters": letters}))
}

/// A letter in a list.
fn told(account: &MailAccount, validity: u32, stored: &Stored) -> Value {
    let id = format!("{validity}:{}", stored.uid);
    let received = stored.received.map(|at| at.to_string());
    match mail::read(&stored.raw, &account.options) {
        Ok(letter) => json!({
            "id": id, "received": received, "from": letter.from.address, "calls_himself": letter.from.name,
            "proven": letter.proof.result == ProofResult::Pass, "subject": letter.subject,
            "begins": base::text::truncate(letter.words.new.trim(), SNIPPET)}),
        Err(_) => json!({"id": id, "received": received, "unreadable": true, "size_bytes": stored.size}),
    }
}

/// The letter of this id, which the call shows; its mailbox stays open.
async fn letter_of(
    call: &ToolCall,
    session: &mut ImapSession,
    account: &MailAccount,
    id: &str,
) -> Result<(Stored, ParsedMail), ToolError> {
    let gone = || {
        ToolError::refused("not_found", "There is no such letter (any more); email_search_inbox shows what there is.")
    };
    let numbers = id.split_once(':').and_then(|(v, uid)| Some((v.parse::<u32>().ok()?, uid.parse::<u32>().ok()?)));
    let (validity, uid) = numbers.ok_or_else(gone)?;
    let opened = session.examine(folder(account)).await.map_err(failed)?;
    if opened.validity != validity {
        return Err(gone());
    }
    let stored = session.letter(uid, WHOLE).await.map_err(failed)?.ok_or_else(gone)?;
    let letter = mail::read(&stored.raw, &account.options);
    let letter = letter.map_err(|e| ToolError::refused("unreadable", format!("It can't be read: {e}.")))?;
    call.shows(&THEIRS);
    Ok((stored, letter))
}

async fn show(call: ToolCall, accounts: Arc<Vec<MailAccount>>) -> Result<Value, ToolError> {
    let (account, mut session) = open(&call, &accounts).await?;
    let (stored, letter) = letter_of(&call, &mut session, &account, call.text("id").unwrap_or_default()).await?;
    session.close().await;
    let files: Vec<Value> = letter
        .files
        .iter()
        .map(|file| json!({"name": file.name, "media_type": file.media_type, "size_bytes": file.size}))
        .collect();
    let addresses = |of: &[mail::Mailbox]| of.iter().map(|m| m.address.clone()).collect::<Vec<_>>();
    let words = &letter.words;
    Ok(json!({
        "from": letter.from.address, "calls_himself": letter.from.name,
        "proven": letter.proof.result == ProofResult::Pass, "to": addresses(&letter.to), "cc": addresses(&letter.cc),
        "subject": letter.subject, "received": stored.received.map(|at| at.to_string()),
        "text": base::text::truncate(&words.new, SHOWN), "quoted": base::text::truncate(&words.quoted, SHOWN),
        "signature": base::text::truncate(&words.signature, 1000), "hidden_characters_left_out": words.hidden,
        "files": files, "invitations": letter.invitations}))
}

async fn write(call: ToolCall, accounts: Arc<Vec<MailAccount>>) -> Result<Value, ToolError> {
    let to = call.text("to");
    if let Some(to) = to.filter(|to| !is_address(to)) {
        let why = format!("`{to}` is not an address; leave it out, and the owner fills it in.");
        return Err(ToolError::refused("invalid_value", why));
    }
    let (account, mut session) = open(&call, &accounts).await?;
    let answered = match call.text("answers") {
        Some(id) => Some(letter_of(&call, &mut session, &account, id).await?.1),
        None => None,
    };
    let own = answered.as_ref().map(|letter| answer_subject(&letter.subject));
    let subject = call.text("subject").map(str::to_owned).or(own).unwrap_or_default();
    let to = to.map(str::to_owned).or_else(|| answered.as_ref().map(|letter| letter.from.address.clone()));
    let mut chain = answered.as_ref().map(|letter| letter.references.clone()).unwrap_or_default();
    let in_reply_to = answered.as_ref().and_then(|letter| letter.message_id.clone());
    chain.extend(in_reply_to.clone());
    let raw = compose(&Draft {
        from: &account.from,
        to: to.as_deref(),
        subject: &subject,
        text: call.text("message").unwrap_or_default(),
        message_id: &format!("{}.draft@{}", Uuid::now_v7().simple(), account.domain()),
        in_reply_to: in_reply_to.as_deref(),
        references: &chain,
        date: call.store.clock().now().max(Timestamp::UNIX_EPOCH),
        automatic: false,
        files: &[],
    });
    let drafts = session.folder_for(Purpose::Drafts).await.map_err(failed)?;
    let drafts = drafts.ok_or_else(|| ToolError::refused("no_drafts", "The mailbox has no folder for drafts."))?;
    session.put(&drafts, "(\\Draft)", &raw).await.map_err(failed)?;
    session.close().await;
    Ok(json!({"status": "ok", "folder": drafts, "to": to, "subject": subject}))
}
