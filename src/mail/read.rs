//! From bytes to a letter.

use std::panic::{AssertUnwindSafe, catch_unwind};

use base::text;
use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};
use mail_parser::DateTime;
use sha2::{Digest, Sha256};

use super::addresses::List;
use super::authentication::proof;
use super::automatic::automatic;
use super::body::Body;
use super::clean;
use super::decode;
use super::fields::Fields;
use super::ids::ids;
use super::invitations::invitations;
use super::letter::{Mailbox, ParsedMail, ReadError, ReadOptions, Words};
use super::mime::Tree;
use super::quoted;
use super::reports::reports;

/// Letters of one thread that are named.
const MOST_REFERENCES: usize = 50;
/// Letters that one answers.
const MOST_ANSWERED: usize = 10;
/// People whom a letter is to.
const MOST_RECIPIENTS: usize = 200;
/// Characters of a subject.
const LONGEST_SUBJECT: usize = 1_000;

/// Reads a letter.
///
/// Takes time and memory in proportion to the bytes, whatever they are.
///
/// # Errors
/// The bytes are no letter.
pub fn read(raw: &[u8], options: &ReadOptions) -> Result<ParsedMail, ReadError> {
    // Nothing here panics that is known. A stranger's letter must not end the daemon if something does.
    catch_unwind(AssertUnwindSafe(|| letter(raw, options))).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().cloned();
        let said = said.or_else(|| panic.downcast_ref::<&str>().map(|said| (*said).to_owned()));
        Err(ReadError::Broken(said.unwrap_or_else(|| "panic".to_owned())))
    })
}

fn letter(raw: &[u8], options: &ReadOptions) -> Result<ParsedMail, ReadError> {
    let (fields, rest) = Fields::parse(raw);
    if fields.is_empty() {
        return Err(ReadError::NoHeader);
    }
    let sender = Sender::of(&fields).ok_or(ReadError::NoSender)?;
    let (subject, hidden) = subject(&fields);
    let message_id = fields.text("message-id").and_then(|value| ids(&value).into_iter().next());
    let mut in_reply_to: Vec<String> = fields.all("in-reply-to").flat_map(|field| ids(&field.text())).collect();
    in_reply_to.truncate(MOST_ANSWERED);
    let references = references(&fields);
    let digest = digest(&fields, message_id.as_deref(), &sender.mailbox.address, &subject, rest);
    let proof = proof(&fields, sender.alone.then_some(sender.mailbox.address.as_str()), &options.trusted_servers);
    let own_fields = fields;

    // The header of the letter is also the header of its outermost part.
    let (fields, _) = Fields::parse(raw);
    let tree = Tree::of(fields, rest);
    let fields = own_fields;
    let mut body = Body::new(options, tree.more);
    body.node(&tree.root);
    let (more_text, hidden) = (body.cut, hidden + body.hidden);
    let words = words(quoted::split(&body.text), options.most_text, hidden, more_text);
    let answered: Vec<String> = in_reply_to.iter().chain(references.last()).cloned().collect();
    let letter = ParsedMail {
        message_id,
        in_reply_to,
        references,
        subject,
        to: recipients(&fields, "to"),
        cc: recipients(&fields, "cc"),
        date: fields.text("date").and_then(|value| date(&value)),
        words,
        files: body.files.kept,
        more_files: body.files.more,
        invitations: invitations(&tree),
        automatic: automatic(&fields, &tree, &sender.mailbox.address),
        reports: reports(&tree, &answered),
        proof,
        digest,
        from: sender.mailbox,
    };
    let said = [&letter.subject, &letter.words.new, &letter.words.quoted, &letter.words.signature];
    let files = !letter.files.is_empty() || letter.more_files > 0 || !letter.reports.is_empty();
    match files || said.iter().any(|text| !text.trim().is_empty()) {
        true => Ok(letter),
        false => Err(ReadError::Empty),
    }
}

/// Who says to have written a letter.
struct Sender {
    mailbox: Mailbox,
    /// It is the one address of the one From field.
    alone: bool,
}

impl Sender {
    fn of(fields: &Fields<'_>) -> Option<Self> {
        let mut lists: Vec<List> = fields.all("from").take(10).map(|field| List::parse(&field.text())).collect();
        let alone = matches!(lists.as_slice(), [list] if !list.odd && list.mailboxes.len() == 1);
        let named = lists.iter_mut().find(|list| !list.mailboxes.is_empty()).map(|list| list.mailboxes.remove(0));
        if let Some(mailbox) = named {
            return Some(Self { mailbox, alone });
        }
        // Some servers write no address of their own when they report. It proves nothing.
        let others = ["sender", "return-path"].into_iter().filter_map(|name| fields.text(name));
        let mut others = others.filter_map(|value| List::parse(&value).mailboxes.into_iter().next());
        let mut mailbox = others.next()?;
        mailbox.name = None;
        Some(Self { mailbox, alone: false })
    }
}

fn recipients(fields: &Fields<'_>, name: &str) -> Vec<Mailbox> {
    let lists = fields.all(name).take(20).map(|field| List::parse(&field.text()));
    lists.flat_map(|list| list.mailboxes).take(MOST_RECIPIENTS).collect()
}

/// The subject on one line, and how many characters of it are hidden.
fn subject(fields: &Fields<'_>) -> (String, usize) {
    let written = fields.text("subject").unwrap_or_default();
    let decoded = decode::words(clean::cut(&written, LONGEST_SUBJECT * 10));
    let (seen, hidden) = clean::seen(&decoded);
    (clean::line(&seen, LONGEST_SUBJECT), hidden)
}

/// The thread's first letter, and the last of the others.
fn references(fields: &Fields<'_>) -> Vec<String> {
    let mut all: Vec<String> = fields.all("references").flat_map(|field| ids(&field.text())).collect();
    if all.len() > MOST_REFERENCES {
        all.drain(1..=all.len() - MOST_REFERENCES);
    }
    all
}

/// When a letter was written, as its header says.
fn date(value: &str) -> Option<Timestamp> {
    let value = clean::cut(value, 200).replace(['\n', '\r'], " ");
    // The strict reader first; then the one for what old and careless programs write.
    let strict = jiff::fmt::rfc2822::DateTimeParser::new().relaxed_weekday(true);
    if let Ok(date) = strict.parse_timestamp(&value) {
        return Some(date);
    }
    let read = DateTime::parse_rfc822(&format!("{value}\n"))?;
    let number = |number: u8| i8::try_from(number).ok();
    // A leap second is no time that a clock shows.
    let second = number(read.second.min(59))?;
    let (year, month, day) = (i16::try_from(read.year).ok()?, number(read.month)?, number(read.day)?);
    let local =
        jiff::civil::DateTime::new(year, month, day, number(read.hour)?, number(read.minute)?, second, 0).ok()?;
    let seconds = i32::from(read.tz_hour) * 3600 + i32::from(read.tz_minute) * 60;
    let offset = Offset::from_seconds(if read.tz_before_gmt { -seconds } else { seconds }).ok()?;
    local.to_zoned(TimeZone::fixed(offset)).ok().map(|zoned| zoned.timestamp())
}

/// Cuts all of the words together to `most` bytes: the new ones come first.
fn words(mut words: Words, most: usize, hidden: usize, more_text: bool) -> Words {
    let mut left = most;
    for text in [&mut words.new, &mut words.quoted, &mut words.signature] {
        let kept = clean::cut(text, left).len();
        words.cut |= kept < text.len();
        text.truncate(kept);
        left -= kept;
    }
    words.cut |= more_text;
    words.hidden += hidden;
    words
}

/// A short name of a letter by what its sender made, without what servers on its way put on top.
fn digest(fields: &Fields<'_>, message_id: Option<&str>, address: &str, subject: &str, body: &[u8]) -> String {
    let mut hash = Sha256::new();
    let date = fields.text("date").unwrap_or_default();
    for text in [message_id.unwrap_or_default(), address, &date, subject] {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    }
    // Servers end lines each in their own way, and a signature holds whatever blanks are added.
    let body: Vec<u8> = body.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    hash.update(body);
    text::hex(&hash.finalize()[..16])
}
