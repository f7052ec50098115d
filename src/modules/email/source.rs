//! Taking in what arrives in a mailbox.
//!
//! The cursor holds, for each folder, the number of the next letter and the UIDVALIDITY for which numbers count. Where the
//! server begins to count anew, all that came since the last letter is looked at again: what was taken in is known by its
//! own content. The mailbox itself is never changed, not even by marking a letter as read.

use std::sync::PoisonError;
use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::sleep;

use super::CHANNEL;
use super::account::MailAccount;
use super::cursor::{Again, BEGINNING, Cursor, Mark, PutOff};
use super::incoming::{Around, delivery_of, envelope, is_own};
use crate::connector::{Batch, Incoming, Source, SourceError, Unreadable};
use crate::contract::ModuleContext;
use base::TenantId;
use mail::imap::{Folder, ImapError, ImapSession, Stored};
use mail::{Automatic, ParsedMail};

/// How long the server may tell nothing before it is asked whether it is still there. The other folders are looked at then.
const WAIT: Duration = Duration::from_secs(45);
/// Where the server does not tell of new letters, they are looked for this often.
const LOOK: Duration = Duration::from_secs(20);
/// Letters of one look, and bytes of them, about.
const MOST: usize = 20;
const MOST_HELD: usize = 12 * 1024 * 1024;
/// A letter that can't be fetched is asked for so often at once: connections die for many reasons.
const QUICK_TRIES: u32 = 3;

pub(super) struct MailSource {
    account: MailAccount,
    cx: ModuleContext,
    /// The connection, while nobody uses it.
    session: Mutex<Option<ImapSession>>,
    /// The letter that could not be fetched last, and how often.
    missed: std::sync::Mutex<(String, u32)>,
}

/// What one look brought, and the connection if it can be used again.
struct Looked {
    batch: Option<Batch>,
    session: Option<ImapSession>,
}

/// What a letter brings.
enum Took {
    Message(Incoming),
    /// Nothing for a butler.
    Nothing,
    Unreadable(Unreadable),
}

impl MailSource {
    pub fn new(account: MailAccount, cx: &ModuleContext) -> Self {
        Self { account, cx: cx.clone(), session: Mutex::new(None), missed: std::sync::Mutex::default() }
    }

    fn fault(&self, e: ImapError) -> SourceError {
        match e {
            ImapError::Later { .. } => SourceError::Later { why: e.to_string(), after: None },
            ImapError::Login { .. } => SourceError::Owner(format!("{e}; {}", self.account.login_mended_by())),
            ImapError::NoFolder(_) => SourceError::Owner(format!(
                "{e}; see [modules.email.accounts.…] folders, or make it at {}",
                self.account.imap
            )),
        }
    }

    /// Where a folder begins that was never looked at.
    fn begin(&self, folder: Folder, now: Timestamp) -> Mark {
        let mut mark = Mark { validity: folder.validity, next: folder.next, at: now, again: None, later: Vec::new() };
        if !self.account.backfill.is_zero() {
            let since = now - SignedDuration::try_from(self.account.backfill).unwrap_or(SignedDuration::ZERO);
            mark.again = Some(Again { since, end: folder.next });
            mark.next = 1;
        }
        mark
    }

    /// The letters of an open folder that are not taken in.
    async fn waiting(&self, session: &mut ImapSession, folder: Folder, mark: &mut Mark) -> Result<Vec<u32>, ImapError> {
        if folder.validity != mark.validity {
            tracing::info!(
                account = self.account.address(),
                "a mailbox counts its letters anew; those since the last one are looked at again"
            );
            // A day's room, because servers know days of their own zone alone.
            let again = Again { since: mark.at - SignedDuration::from_hours(48), end: folder.next };
            *mark = Mark { validity: folder.validity, next: 1, at: mark.at, again: Some(again), later: Vec::new() };
        }
        if let Some(Again { since, end }) = mark.again {
            let (next, last) = (mark.next, end.saturating_sub(1).max(mark.next));
            let found = session.search(&format!("UID {next}:{last} SINCE {}", imap_day(since))).await?;
            let found: Vec<u32> = found.into_iter().filter(|uid| *uid >= next && *uid < end).collect();
            if !found.is_empty() {
                return Ok(found);
            }
            (mark.next, mark.again) = (mark.next.max(end), None);
        }
        if folder.next <= mark.next {
            return Ok(Vec::new());
        }
        let found = session.from(mark.next).await?;
        if found.is_empty() {
            // They came and went.
            mark.next = folder.next;
        }
        Ok(found)
    }

    /// Notes that a letter could not be fetched. Whether it is asked for again at once.
    fn at_once(&self, id: &str) -> bool {
        let mut missed = self.missed.lock().unwrap_or_else(PoisonError::into_inner);
        let tries = if missed.0 == id { missed.1 + 1 } else { 1 };
        *missed = (id.to_owned(), tries);
        tries < QUICK_TRIES
    }

    /// Looks through the folders.
    async fn look(&self, mut session: ImapSession, cursor: &Cursor) -> Result<Looked, ImapError> {
        let (mut marks, mut messages, mut held) = (cursor.clone(), Vec::new(), 0);
        for (n, name) in self.account.folders.iter().enumerate() {
            let folder = match session.examine(name).await {
                // The first goes on without the others; of itself its owner hears.
                Err(why) if n > 0 => {
                    tracing::warn!(account = self.account.address(), folder = name, %why, "a folder can't be opened");
                    continue;
                }
                opened => opened?,
            };
            let mut mark = marks.remove(name).unwrap_or_else(|| self.begin(folder, self.cx.clock.now()));
            let looked = self.look_into(&mut session, (name, folder), &mut mark, (&mut messages, &mut held)).await;
            marks.insert(name.clone(), mark);
            if let Err(e) = looked {
                // What was read before it is handed in first; the connection is of no use any more.
                return match marks != *cursor {
                    true => Ok(Looked { batch: Some(Batch { messages, cursor: json!(marks) }), session: None }),
                    false => Err(e),
                };
            }
        }
        let mut news = marks != *cursor;
        // The first is open at the end, so that the server tells of it.
        if let [first, _, ..] = self.account.folders.as_slice() {
            let folder = session.examine(first).await?;
            news |= marks.get(first).is_some_and(|mark| folder.validity != mark.validity || folder.next > mark.next);
        }
        let batch = news.then(|| Batch { messages, cursor: json!(marks) });
        Ok(Looked { batch, session: Some(session) })
    }

    /// Takes the letters of an open folder. An error: the connection is of no use any more; the mark is right all the same.
    async fn look_into(
        &self,
        session: &mut ImapSession,
        (name, folder): (&str, Folder),
        mark: &mut Mark,
        (messages, held): (&mut Vec<Result<Incoming, Unreadable>>, &mut usize),
    ) -> Result<(), ImapError> {
        let now = self.cx.clock.now();
        let waiting = self.waiting(session, folder, mark).await?;
        for uid in mark.due(now).into_iter().chain(waiting).take(MOST) {
            if *held > MOST_HELD {
                break;
            }
            let id = format!("{name} {}:{uid}", mark.validity);
            let piece = mark.piece(uid, self.account.largest_letter);
            let fetched = match session.letter(uid, piece).await {
                Ok(fetched) => fetched,
                Err(e) => {
                    // Others come first from then on: one letter holds nobody up, and is not lost by that.
                    if mark.waits(uid) || !self.at_once(&id) {
                        tracing::warn!(letter = id, why = %e, "a letter is not given out by its server");
                        if mark.put_off(uid, now) == PutOff::GivenUp {
                            messages.push(Err(Unreadable { id, why: "its server did not give it out".to_owned() }));
                        }
                    }
                    return Err(e);
                }
            };
            // Else somebody took it away in the meantime.
            if let Some(mut stored) = fetched {
                let cut = stored.raw.len() >= piece as usize && stored.size as usize > stored.raw.len();
                if cut {
                    stored.raw.truncate(BEGINNING as usize);
                }
                *held += stored.raw.len();
                // A server's clock may be ahead.
                mark.at = mark.at.max(stored.received.unwrap_or(mark.at)).min(now.max(mark.at));
                match self.take(stored, (id, cut)).await? {
                    Took::Message(message) => messages.push(Ok(message)),
                    Took::Unreadable(why) => messages.push(Err(why)),
                    Took::Nothing => {}
                }
            }
            mark.done(uid);
        }
        Ok(())
    }

    /// A letter in the household's words.
    async fn take(&self, stored: Stored, (id, cut): (String, bool)) -> Result<Took, ImapError> {
        let received = stored.received.unwrap_or_else(|| self.cx.clock.now());
        let options = self.account.options.clone();
        // A large letter takes a moment of the processor.
        let read = tokio::task::spawn_blocking(move || mail::read(&stored.raw, &options)).await;
        let letter = match read {
            Ok(Ok(letter)) => letter,
            Ok(Err(why)) => return Ok(Took::Unreadable(Unreadable { id, why: why.to_string() })),
            Err(why) => return Ok(Took::Unreadable(Unreadable { id, why: why.to_string() })),
        };
        if letter.automatic == Some(Automatic::Report) {
            self.report(&letter).await?;
        }
        if is_own(&letter, &self.account) || !self.account.takes(&letter.from.address) {
            return Ok(Took::Nothing);
        }
        let of_owner = self.cx.inbound.is_owners(&TenantId::owner(), CHANNEL, &letter.from.address);
        let around = Around { account: &self.account, of_owner, received, cut };
        Ok(Took::Message(Incoming { id, envelope: envelope(&letter, &around) }))
    }

    /// Notes what a server reports of letters that the household sent. Anybody can write such a report, so that nothing of
    /// its words goes on.
    async fn report(&self, letter: &ParsedMail) -> Result<(), ImapError> {
        for report in letter.reports.iter().filter(|report| report.action == "failed") {
            let about = report.message_id.as_deref().and_then(|id| delivery_of(id, self.account.domain()));
            let Some(delivery) = about else { continue };
            let code = Some(report.status.as_str()).filter(|status| is_code(status)).unwrap_or("no code");
            let why = format!("a mail server reports that it could not be delivered ({code})");
            for recipient in std::iter::once(&report.recipient).chain(&report.original) {
                let of = (delivery, CHANNEL, recipient.as_str());
                let noted = self.cx.outbox.returned(&TenantId::owner(), of, &why).await;
                noted.map_err(|e| ImapError::Later { server: "the database".to_owned(), why: e.to_string() })?;
            }
        }
        Ok(())
    }
}

/// Whether a text is a status of RFC 3463 and nothing else: `5.1.1`.
fn is_code(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    let number = |part: &&str| (1..=3).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    parts.len() == 3 && parts.iter().all(number)
}

/// A day as a query has it.
fn imap_day(at: Timestamp) -> String {
    at.strftime("%-d-%b-%Y").to_string()
}

#[async_trait]
impl Source for MailSource {
    fn kind(&self) -> &'static str {
        "imap"
    }

    fn channel(&self) -> &'static str {
        CHANNEL
    }

    fn endpoint(&self) -> String {
        self.account.address().to_owned()
    }

    async fn open(&self) -> Result<(), SourceError> {
        let session = self.account.open().await.map_err(|e| self.fault(e))?;
        *self.session.lock().await = Some(session);
        Ok(())
    }

    async fn fetch(&self, cursor: Option<&Value>) -> Result<Batch, SourceError> {
        let known: Cursor = cursor.cloned().and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default();
        // Whoever drops this drops the connection, too: what it was in the middle of nobody knows.
        let taken = self.session.lock().await.take();
        let session = match taken {
            Some(session) => session,
            None => self.account.open().await.map_err(|e| self.fault(e))?,
        };
        let Looked { batch, session } = self.look(session, &known).await.map_err(|e| self.fault(e))?;
        if let Some(batch) = batch {
            *self.session.lock().await = session;
            return Ok(batch);
        }
        let waited = match session {
            Some(session) if session.tells() => Some(session.wait(WAIT).await.map_err(|e| self.fault(e))?),
            session => {
                sleep(LOOK).await;
                session
            }
        };
        *self.session.lock().await = waited;
        Ok(Batch { messages: Vec::new(), cursor: json!(known) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_said_as_servers_understand_it() {
        assert_eq!(imap_day("2026-03-05T23:00:00Z".parse().unwrap()), "5-Mar-2026");
    }

    #[test]
    fn a_report_gives_its_code_and_no_words() {
        assert!(is_code("5.1.1") && is_code("4.10.115"));
        for words in ["", "5", "5.1", "5.1.1 the owner wants", "5.1.x", "5..1", "5.1.1.1", "5.1.1111"] {
            assert!(!is_code(words), "{words}");
        }
    }
}
