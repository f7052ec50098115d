//! Reading a mailbox over IMAP. All timers are ours: a library's restart whenever the server says anything.

use std::io::ErrorKind;
use std::time::Duration;

use async_imap::error::Error;
use async_imap::imap_proto::{AttributeValue, MailboxDatum, NameAttribute, Response, ResponseCode, Status};
use async_imap::types::Capabilities;
use async_imap::{Authenticator, Client, Session};
use base64::Engine;
use jiff::Timestamp;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::account::{Account, Login, Tls};
use base::{Secret, text, tls};

/// An answer to a command comes within this.
const PATIENCE: Duration = Duration::from_secs(20);
/// A server without an index reads every letter for a search.
const SEARCH: Duration = Duration::from_secs(60);
/// What is kept of a server's own words.
const MOST_SAID: usize = 300;
/// A letter comes within this.
const LETTER: Duration = Duration::from_secs(120);

/// Why a mailbox gives nothing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ImapError {
    /// It passes by itself.
    #[error("{server}: {why}")]
    Later { server: String, why: String },
    /// The server does not let this account in.
    #[error("{server} does not let {user} in: {why}")]
    Login { server: String, user: String, why: String },
    #[error("the mailbox has no folder `{0}`")]
    NoFolder(String),
}

/// A folder as it was just now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Folder {
    /// While it stays the same, a number means the same letter.
    pub validity: u32,
    /// The number that the next letter gets, at least.
    pub next: u32,
    pub letters: u32,
}

/// A letter as the server has it.
#[derive(Clone, Debug)]
pub struct Stored {
    pub uid: u32,
    /// In bytes, all of it.
    pub size: u32,
    /// When the server got it.
    pub received: Option<Timestamp>,
    /// Its beginning, up to as many bytes as were asked for.
    pub raw: Vec<u8>,
}

/// A connection to a mailbox, logged in.
pub struct ImapSession {
    session: Session<TlsStream<TcpStream>>,
    capabilities: Capabilities,
    server: String,
}

/// Says a token once; what the server then says about a refusal is answered with nothing.
struct Bearer {
    words: Option<Secret<String>>,
}

impl Authenticator for Bearer {
    type Response = String;
    fn process(&mut self, _: &[u8]) -> String {
        self.words.take().map(|words| words.expose().clone()).unwrap_or_default()
    }
}

fn silent(server: &str, patience: Duration) -> ImapError {
    ImapError::Later { server: server.to_owned(), why: format!("no answer within {} s", patience.as_secs()) }
}

impl ImapSession {
    /// Connects and logs in.
    pub async fn open(account: &Account) -> Result<Self, ImapError> {
        match timeout(PATIENCE, Self::enter(account)).await {
            Ok(entered) => entered,
            Err(_) => Err(silent(&account.server.to_string(), PATIENCE)),
        }
    }

    async fn enter(account: &Account) -> Result<Self, ImapError> {
        let server = account.server.to_string();
        let later = |why: String| ImapError::Later { server: server.clone(), why };
        let address = (account.server.host.as_str(), account.server.port);
        let mut stream = TcpStream::connect(address).await.map_err(|e| later(e.to_string()))?;
        // Mail is said in short lines.
        let _ = stream.set_nodelay(true);
        if account.server.tls == Tls::Upgraded {
            let mut plain = Client::new(stream);
            greeting(&mut plain).await.map_err(|e| later(e.to_string()))?;
            plain.run_command_and_check_ok("STARTTLS", None).await.map_err(|e| later(format!("STARTTLS: {e}")))?;
            // What somebody put behind the answer, in the clear, goes with the client.
            stream = plain.into_inner();
        }
        let name = ServerName::try_from(account.server.host.clone()).map_err(|e| later(e.to_string()))?;
        let connector = TlsConnector::from(tls::trusting_machine());
        let stream = connector.connect(name, stream).await.map_err(|e| later(format!("TLS: {e}")))?;
        let mut client = Client::new(stream);
        if account.server.tls == Tls::AtOnce {
            greeting(&mut client).await.map_err(|e| later(e.to_string()))?;
        }
        let mut session = login(client, account).await.map_err(|e| refused(e, account))?;
        let capabilities = session.capabilities().await.map_err(|e| later(e.to_string()))?;
        Ok(Self { session, capabilities, server })
    }

    /// Whether new letters are told without being asked for.
    pub fn tells(&self) -> bool {
        self.capabilities.has_str("IDLE")
    }

    fn failed(server: &str, e: &Error) -> ImapError {
        // What the library can't read it repeats, and that may be somebody's letter.
        let why = match e {
            Error::Parse(_) => "its answer can't be read".to_owned(),
            Error::Io(e) if matches!(e.kind(), ErrorKind::Other | ErrorKind::InvalidData) => {
                "its answer can't be read, or the connection broke".to_owned()
            }
            e => text::truncate(&e.to_string(), MOST_SAID),
        };
        ImapError::Later { server: server.to_owned(), why }
    }

    /// Runs something that ends within a time, or the connection is dead.
    async fn within<T>(
        server: &str,
        patience: Duration,
        doing: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, ImapError> {
        match timeout(patience, doing).await {
            Ok(done) => done.map_err(|e| Self::failed(server, &e)),
            Err(_) => Err(silent(server, patience)),
        }
    }

    /// Says a command and hands on all that is answered, until the server says that it is done: well, or the answers count
    /// for nothing. (The library's own readers take a refusal for an empty answer, and the end of the stream, too.)
    async fn ask_for(
        &mut self,
        command: &str,
        patience: Duration,
        mut each: impl FnMut(&Response<'_>) + Send,
    ) -> Result<(), Refusal> {
        let session = &mut self.session;
        let asking = async {
            let id = session.run_command(command).await?;
            loop {
                let answer = session.read_response().await?.ok_or(Error::ConnectionLost)?;
                match answer.parsed() {
                    Response::Done { tag, status, outcome } if *tag == id => {
                        let said = outcome.information.as_deref().unwrap_or_default().to_owned();
                        return match status {
                            Status::Ok => Ok(()),
                            Status::No => Err(Error::No(said)),
                            _ => Err(Error::Bad(said)),
                        };
                    }
                    Response::Data { status: Status::Bye, .. } => return Err(Error::ConnectionLost),
                    other => each(other),
                }
            }
        };
        match timeout(patience, asking).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(Error::No(said))) => Err(Refusal::No(said)),
            Ok(Err(e)) => Err(Refusal::Other(Self::failed(&self.server, &e))),
            Err(_) => Err(Refusal::Other(silent(&self.server, patience))),
        }
    }

    /// A refusal as something that passes.
    fn passes(&self, refusal: Refusal) -> ImapError {
        match refusal {
            Refusal::No(why) => ImapError::Later { server: self.server.clone(), why: format!("it refuses: {why}") },
            Refusal::Other(e) => e,
        }
    }

    /// Opens a folder for reading: nothing of it changes by that.
    pub async fn examine(&mut self, folder: &str) -> Result<Folder, ImapError> {
        let (mut validity, mut next, mut letters) = (None, None, 0);
        let command = format!("EXAMINE {}", quoted(&encoded(folder)));
        let opened = self.ask_for(&command, PATIENCE, |answer| match answer {
            Response::Data { status: Status::Ok, outcome } => match &outcome.code {
                Some(ResponseCode::UidValidity(is)) => validity = Some(*is),
                Some(ResponseCode::UidNext(is)) => next = Some(*is),
                _ => {}
            },
            Response::MailboxData(MailboxDatum::Exists(count)) => letters = *count,
            _ => {}
        });
        match opened.await {
            Ok(()) => {}
            Err(Refusal::No(why)) if is_missing(&why) => return Err(ImapError::NoFolder(folder.to_owned())),
            Err(refusal) => return Err(self.passes(refusal)),
        }
        let missing = |what: &str| ImapError::Later { server: self.server.clone(), why: format!("it tells no {what}") };
        let validity = validity.ok_or_else(|| missing("UIDVALIDITY"))?;
        let next = match next {
            Some(next) => next,
            // Optional in old servers: behind the last letter.
            None => self.search("UID *").await?.last().map_or(1, |last| last.saturating_add(1)),
        };
        Ok(Folder { validity, next, letters })
    }

    /// The numbers of the letters that fit a query of RFC 3501, in their order.
    pub async fn search(&mut self, query: &str) -> Result<Vec<u32>, ImapError> {
        let mut found = Vec::new();
        let command = format!("UID SEARCH {query}");
        let searched = self.ask_for(&command, SEARCH, |answer| {
            if let Response::MailboxData(MailboxDatum::Search(uids)) = answer {
                found.extend_from_slice(uids);
            }
        });
        searched.await.map_err(|refusal| self.passes(refusal))?;
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// The letters from this number on.
    pub async fn from(&mut self, uid: u32) -> Result<Vec<u32>, ImapError> {
        // `n:*` names the last letter also when its number is smaller.
        let mut found = self.search(&format!("UID {uid}:*")).await?;
        found.retain(|found| *found >= uid);
        Ok(found)
    }

    /// A letter, at most its first `most` bytes: none of them, if the server does not give it out. `None`: it is not there
    /// any more.
    pub async fn letter(&mut self, uid: u32, most: u32) -> Result<Option<Stored>, ImapError> {
        let command = format!("UID FETCH {uid} (UID RFC822.SIZE INTERNALDATE BODY.PEEK[]<0.{most}>)");
        let mut found: Option<Stored> = None;
        let fetched = self.ask_for(&command, LETTER, |answer| {
            let Response::Fetch(_, told) = answer else { return };
            // A server may tell of other letters in between, and of this one's flags.
            if !told.iter().any(|one| matches!(one, AttributeValue::Uid(of) if *of == uid)) {
                return;
            }
            let stored = found.get_or_insert(Stored { uid, size: 0, received: None, raw: Vec::new() });
            for one in told {
                match one {
                    AttributeValue::Rfc822Size(size) => stored.size = *size,
                    AttributeValue::InternalDate(at) => stored.received = moment(at),
                    AttributeValue::BodySection { section: None, data: Some(data), .. } => stored.raw = data.to_vec(),
                    _ => {}
                }
            }
        });
        fetched.await.map_err(|refusal| self.passes(refusal))?;
        Ok(found)
    }

    /// Waits until the server tells of something in the open folder, for at most this long. The connection is lost with an
    /// error.
    pub async fn wait(self, most: Duration) -> Result<Self, ImapError> {
        use async_imap::extensions::idle::IdleResponse;
        let Self { session, capabilities, server } = self;
        let mut idle = session.idle();
        Self::within(&server, PATIENCE, idle.init()).await?;
        let told = {
            let (told, _stop) = idle.wait();
            timeout(most, told).await
        };
        match told {
            Err(_) | Ok(Ok(IdleResponse::NewData(_) | IdleResponse::Timeout)) => {}
            // The library calls the end of the stream so, too; nobody else interrupts it.
            Ok(Ok(IdleResponse::ManualInterrupt)) => {
                return Err(ImapError::Later { server, why: "the server closed the connection".to_owned() });
            }
            Ok(Err(e)) => return Err(Self::failed(&server, &e)),
        }
        let session = Self::within(&server, PATIENCE, idle.done()).await?;
        Ok(Self { session, capabilities, server })
    }

    /// Puts a letter into a folder, whose name is the server's own writing. `flags` such as `(\\Seen)`.
    pub async fn put(&mut self, folder: &str, flags: &str, raw: &[u8]) -> Result<(), ImapError> {
        Self::within(&self.server, LETTER, self.session.append(folder, Some(flags), None, raw)).await
    }

    /// The folder that the server keeps for a purpose, else one of its usual name, as the server writes it.
    pub async fn folder_for(&mut self, purpose: Purpose) -> Result<Option<String>, ImapError> {
        let (mut marked, mut named) = (None, None);
        let listed = self.ask_for("LIST \"\" \"*\"", PATIENCE, |answer| {
            let Response::MailboxData(MailboxDatum::List(folder)) = answer else { return };
            let fits = |attribute: &NameAttribute<'_>| match purpose {
                Purpose::Sent => *attribute == NameAttribute::Sent,
                Purpose::Drafts => *attribute == NameAttribute::Drafts,
            };
            if folder.name_attributes.iter().any(fits) {
                marked.get_or_insert(folder.name.to_string());
            }
            if folder.name.eq_ignore_ascii_case(purpose.name()) {
                named.get_or_insert(folder.name.to_string());
            }
        });
        listed.await.map_err(|refusal| self.passes(refusal))?;
        Ok(marked.or(named))
    }

    /// The letter of this id in the folder for a purpose. `None`: the mailbox has no such folder.
    pub async fn holds(&mut self, purpose: Purpose, id: &str) -> Result<Option<bool>, ImapError> {
        let Some(folder) = self.folder_for(purpose).await? else { return Ok(None) };
        // Its name is the server's own writing.
        let opened = self.ask_for(&format!("EXAMINE {}", quoted(&folder)), PATIENCE, |_| {}).await;
        opened.map_err(|refusal| self.passes(refusal))?;
        let found = self.search(&format!("HEADER Message-ID {}", quoted(id))).await?;
        Ok(Some(!found.is_empty()))
    }

    /// Says goodbye; whether the server hears it is all the same.
    pub async fn close(mut self) {
        let _ = timeout(Duration::from_secs(2), self.session.logout()).await;
    }
}

/// Why a command did nothing.
enum Refusal {
    /// The server said so, in these words.
    No(String),
    Other(ImapError),
}

/// Whether a refusal to open a folder means that it is not there. RFC 5530 has a word for that, which not all say.
fn is_missing(why: &str) -> bool {
    let said = why.to_ascii_lowercase();
    ["nonexist", "exist", "no such", "not found", "unknown mailbox", "invalid mailbox"].iter().any(|w| said.contains(w))
}

/// A folder's name as it goes over the wire: modified UTF-7 (RFC 3501 §5.1.3).
fn encoded(name: &str) -> String {
    let mut written = String::new();
    let mut pending: Vec<u16> = Vec::new();
    let close = |pending: &mut Vec<u16>, written: &mut String| {
        if !pending.is_empty() {
            let bytes: Vec<u8> = pending.drain(..).flat_map(u16::to_be_bytes).collect();
            let coded = base64::engine::general_purpose::STANDARD_NO_PAD.encode(bytes).replace('/', ",");
            written.push_str(&format!("&{coded}-"));
        }
    };
    for c in name.chars() {
        match c {
            '&' => {
                close(&mut pending, &mut written);
                written.push_str("&-");
            }
            ' '..='~' => {
                close(&mut pending, &mut written);
                written.push(c);
            }
            other => pending.extend(other.encode_utf16(&mut [0; 2]).iter()),
        }
    }
    close(&mut pending, &mut written);
    written
}

/// A date as servers write it: ` 5-Nov-2026 10:00:00 +0100`.
fn moment(text: &str) -> Option<Timestamp> {
    let read = jiff::Zoned::strptime("%d-%b-%Y %H:%M:%S %z", text.trim());
    read.ok().map(|at| at.timestamp()).or_else(|| Timestamp::strptime("%d-%b-%Y %H:%M:%S %z", text.trim()).ok())
}

/// What folders are for, beside taking mail in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    Sent,
    Drafts,
}

impl Purpose {
    /// As most servers call it.
    pub fn name(self) -> &'static str {
        match self {
            Purpose::Sent => "Sent",
            Purpose::Drafts => "Drafts",
        }
    }
}

/// A text as a string of a query. What can't stand in one is left out.
pub fn quoted(text: &str) -> String {
    let kept: String = text.chars().filter(|c| !c.is_control()).collect();
    format!("\"{}\"", kept.replace('\\', "\\\\").replace('"', "\\\""))
}

async fn greeting<S>(client: &mut Client<S>) -> std::io::Result<()>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + std::fmt::Debug + Send,
{
    match client.read_response().await? {
        Some(_) => Ok(()),
        None => Err(std::io::ErrorKind::UnexpectedEof.into()),
    }
}

async fn login(
    client: Client<TlsStream<TcpStream>>,
    account: &Account,
) -> Result<Session<TlsStream<TcpStream>>, Error> {
    let user = &account.user;
    let entered = match &account.login {
        Login::Password(password) if password.expose().is_ascii() && user.is_ascii() => {
            client.login(user, password.expose()).await
        }
        // LOGIN takes no others.
        Login::Password(password) => {
            let words = Secret::new(format!("\0{user}\0{}", password.expose()));
            client.authenticate("PLAIN", Bearer { words: Some(words) }).await
        }
        Login::Token(token) => {
            let words = Secret::new(format!("user={user}\x01auth=Bearer {}\x01\x01", token.expose()));
            client.authenticate("XOAUTH2", Bearer { words: Some(words) }).await
        }
    };
    entered.map_err(|(e, _)| e)
}

/// A login that failed: for good, or for now.
fn refused(e: Error, account: &Account) -> ImapError {
    let server = account.server.to_string();
    let why = e.to_string();
    let passes = ["unavailable", "temporar", "try again", "inuse", "limit", "too many", "internal"];
    let said = why.to_ascii_lowercase();
    match e {
        Error::No(_) | Error::Validate(_) | Error::Bad(_) if !passes.iter().any(|word| said.contains(word)) => {
            ImapError::Login { server, user: account.user.clone(), why }
        }
        _ => ImapError::Later { server, why },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_holds_no_commands() {
        assert_eq!(quoted("a\"b\\c\r\nLOGOUT"), "\"a\\\"b\\\\cLOGOUT\"");
    }

    #[test]
    fn folders_and_dates_are_written_as_servers_do() {
        assert_eq!((encoded("INBOX"), encoded("A&B")), ("INBOX".to_owned(), "A&-B".to_owned()));
        assert_eq!(encoded("Entwürfe/日本"), "Entw&APw-rfe/&ZeVnLA-");
        let at = |text| moment(text).map(|at| at.to_string());
        assert_eq!(at(" 5-Nov-2026 10:00:00 +0100").as_deref(), Some("2026-11-05T09:00:00Z"));
        assert_eq!(at("25-Nov-2026 10:00:00 +0000").as_deref(), Some("2026-11-25T10:00:00Z"));
        assert_eq!(at("yesterday"), None);
    }
}
