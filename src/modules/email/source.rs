//! Taking in what arrives in a mailbox.
//!
//! The cursor holds, for each folder, the number of the next letter and the UIDVALIDITY for which numbers count. Where the
//! server begins to count anew, all that came since the last letter is looked at again: what was taken in is known by its
//! own content. The mailbox itself is never changed, not even by marking a letter as read.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::sleep;

use super::CHANNEL;
use super::account::MailAccount;
use super::incoming::{Around, delivery_of, envelope, is_own};
use crate::connector::{Batch, Incoming, Source, SourceError, Unreadable};
use crate::contract::ModuleContext;
use base::TenantId;
use mail::imap::{Folder, ImapError, ImapSession, Stored};
use mail::{Automatic, Letter};

/// How long the server may tell nothing before it is asked whether it is still there. The other folders are looked at then.
const WAIT: Duration = Duration::from_secs(45);
/// Where the server does not tell of new letters, they are looked for this often.
const LOOK: Duration = Duration::from_secs(20);
/// Letters of one look, and bytes of them, about.
const MOST: usize = 20;
const MOST_HELD: usize = 12 * 1024 * 1024;
/// Of a letter that is too large.
const BEGINNING: u32 = 1024 * 1024;
/// Of a letter that the server does not give out in larger pieces.
const HEAD: u32 = 16 * 1024;
/// A letter that can't be fetched is tried so often whole, then its beginning, then its head, before the next one's turn.
const FETCH_TRIES: [u32; 3] = [3, 5, 6];

/// Where a folder is taken in up to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Mark {
    validity: u32,
    next: u32,
    /// When the newest letter came that was taken in, or the folder was looked at first.
    at: Timestamp,
    /// The server counts anew, and what was there by then is looked at once more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    again: Option<Again>,
}

/// Letters that are looked at once more: those below `end` that came since.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Again {
    since: Timestamp,
    end: u32,
}

type Cursor = BTreeMap<String, Mark>;

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
                self.account.imap.server
            )),
        }
    }

    /// Where a folder begins that was never looked at.
    fn begin(&self, folder: Folder, now: Timestamp) -> Mark {
        let mut mark = Mark { validity: folder.validity, next: folder.next, at: now, again: None };
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
            *mark = Mark { validity: folder.validity, next: 1, at: mark.at, again: Some(again) };
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
        if folder.next > mark.next { session.from(mark.next).await } else { Ok(Vec::new()) }
    }

    /// How often this letter could not be fetched.
    fn missed(&self, id: &str) -> u32 {
        let missed = self.missed.lock().unwrap_or_else(PoisonError::into_inner);
        if missed.0 == id { missed.1 } else { 0 }
    }

    fn miss(&self, id: &str) {
        let tries = self.missed(id) + 1;
        *self.missed.lock().unwrap_or_else(PoisonError::into_inner) = (id.to_owned(), tries);
    }

    /// How much of a letter is asked for; `None`: the server does not give it out.
    fn piece(&self, id: &str) -> Option<u32> {
        let (tries, largest) = (self.missed(id), self.account.largest_letter);
        let pieces = [largest, BEGINNING.min(largest), HEAD.min(largest)];
        FETCH_TRIES.iter().zip(pieces).find(|(most, _)| tries < **most).map(|(_, piece)| piece)
    }

    /// Looks through the folders.
    async fn look(&self, mut session: ImapSession, cursor: &Cursor) -> Result<Looked, ImapError> {
        let now = self.cx.clock.now();
        let (mut marks, mut messages, mut held) = (cursor.clone(), Vec::new(), 0);
        // The first is open at the end, so that the server tells of it.
        for name in self.account.folders.iter().rev() {
            let folder = match session.examine(name).await {
                // The others go on; of the first its owner hears.
                Err(ImapError::NoFolder(_)) if Some(name) != self.account.folders.first() => {
                    tracing::warn!(account = self.account.address(), folder = name, "the mailbox has no such folder");
                    continue;
                }
                opened => opened?,
            };
            let mut mark = match marks.get(name) {
                Some(mark) => *mark,
                None => self.begin(folder, now),
            };
            let mut waiting = self.waiting(&mut session, folder, &mut mark).await?;
            waiting.truncate(MOST);
            for uid in waiting {
                if held > MOST_HELD {
                    break;
                }
                let id = format!("{name} {}:{uid}", mark.validity);
                let Some(piece) = self.piece(&id) else {
                    messages.push(Err(Unreadable { id, why: "the server does not give it out".to_owned() }));
                    mark.next = uid.saturating_add(1);
                    continue;
                };
                let fetched = match session.letter(uid, piece).await {
                    Ok(fetched) => fetched,
                    Err(e) => {
                        self.miss(&id);
                        marks.insert(name.clone(), mark);
                        // What was read before it is handed in first; the connection is of no use any more.
                        return match marks != *cursor {
                            true => Ok(Looked { batch: Some(Batch { messages, cursor: json!(marks) }), session: None }),
                            false => Err(e),
                        };
                    }
                };
                // Else somebody took it away in the meantime.
                if let Some(mut stored) = fetched {
                    let cut = stored.raw.len() >= piece as usize && stored.size as usize > stored.raw.len();
                    if cut {
                        stored.raw.truncate(BEGINNING as usize);
                    }
                    held += stored.raw.len();
                    mark.at = mark.at.max(stored.received.unwrap_or(mark.at));
                    match self.take(stored, (id, cut)).await? {
                        Took::Message(message) => messages.push(Ok(message)),
                        Took::Unreadable(why) => messages.push(Err(why)),
                        Took::Nothing => {}
                    }
                }
                mark.next = uid.saturating_add(1);
            }
            marks.insert(name.clone(), mark);
        }
        let batch = (marks != *cursor).then(|| Batch { messages, cursor: json!(marks) });
        Ok(Looked { batch, session: Some(session) })
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
    async fn report(&self, letter: &Letter) -> Result<(), ImapError> {
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
        let session = ImapSession::open(&self.account.imap).await.map_err(|e| self.fault(e))?;
        *self.session.lock().await = Some(session);
        Ok(())
    }

    async fn fetch(&self, cursor: Option<&Value>) -> Result<Batch, SourceError> {
        let known: Cursor = cursor.cloned().and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default();
        // Whoever drops this drops the connection, too: what it was in the middle of nobody knows.
        let taken = self.session.lock().await.take();
        let session = match taken {
            Some(session) => session,
            None => ImapSession::open(&self.account.imap).await.map_err(|e| self.fault(e))?,
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
