//! Reading a mailbox over IMAP. All timers are ours: a library's restart whenever the server says anything.

use std::time::Duration;

use async_imap::error::Error;
use async_imap::types::{Capabilities, NameAttribute};
use async_imap::{Authenticator, Client, Session};
use futures_util::TryStreamExt;
use jiff::Timestamp;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::account::{Account, Login, Tls};
use base::{Secret, tls};

/// An answer to a command comes within this.
const PATIENCE: Duration = Duration::from_secs(20);
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

impl ImapSession {
    /// Connects and logs in.
    pub async fn open(account: &Account) -> Result<Self, ImapError> {
        let server = account.server.to_string();
        let later = |why: String| ImapError::Later { server: server.clone(), why };
        match timeout(PATIENCE, Self::enter(account)).await {
            Ok(entered) => entered,
            Err(_) => Err(later(format!("no answer within {} s", PATIENCE.as_secs()))),
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
        ImapError::Later { server: server.to_owned(), why: e.to_string() }
    }

    /// Runs something that ends within a time, or the connection is dead.
    async fn within<T>(
        server: &str,
        patience: Duration,
        doing: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, ImapError> {
        match timeout(patience, doing).await {
            Ok(done) => done.map_err(|e| Self::failed(server, &e)),
            Err(_) => {
                let why = format!("no answer within {} s", patience.as_secs());
                Err(ImapError::Later { server: server.to_owned(), why })
            }
        }
    }

    /// Opens a folder for reading: nothing of it changes by that.
    pub async fn examine(&mut self, folder: &str) -> Result<Folder, ImapError> {
        let opened = match timeout(PATIENCE, self.session.examine(folder)).await {
            Ok(Err(Error::No(_))) => return Err(ImapError::NoFolder(folder.to_owned())),
            Ok(opened) => opened.map_err(|e| Self::failed(&self.server, &e))?,
            Err(_) => return Err(ImapError::Later { server: self.server.clone(), why: "no answer".to_owned() }),
        };
        let missing = |what: &str| ImapError::Later { server: self.server.clone(), why: format!("it tells no {what}") };
        let validity = opened.uid_validity.ok_or_else(|| missing("UIDVALIDITY"))?;
        let next = match opened.uid_next {
            Some(next) => next,
            // Optional in old servers: behind the last letter.
            None => self.search("UID *").await?.last().map_or(1, |last| last.saturating_add(1)),
        };
        Ok(Folder { validity, next, letters: opened.exists })
    }

    /// The numbers of the letters that fit a query of RFC 3501, in their order.
    pub async fn search(&mut self, query: &str) -> Result<Vec<u32>, ImapError> {
        let found = Self::within(&self.server, PATIENCE, self.session.uid_search(query)).await?;
        let mut found: Vec<u32> = found.into_iter().collect();
        found.sort_unstable();
        Ok(found)
    }

    /// The letters from this number on.
    pub async fn from(&mut self, uid: u32) -> Result<Vec<u32>, ImapError> {
        // `n:*` names the last letter also when its number is smaller.
        let mut found = self.search(&format!("UID {uid}:*")).await?;
        found.retain(|found| *found >= uid);
        Ok(found)
    }

    /// A letter, at most its first `most` bytes. `None`: it is not there any more.
    pub async fn letter(&mut self, uid: u32, most: u32) -> Result<Option<Stored>, ImapError> {
        let query = format!("(UID RFC822.SIZE INTERNALDATE BODY.PEEK[]<0.{most}>)");
        let fetching = async {
            let mut found = None;
            let mut answers = self.session.uid_fetch(uid.to_string(), query).await?;
            while let Some(answer) = answers.try_next().await? {
                if answer.uid == Some(uid) && answer.body().is_some() {
                    found = Some(Stored {
                        uid,
                        size: answer.size.unwrap_or_default(),
                        received: answer.internal_date().and_then(|at| Timestamp::from_second(at.timestamp()).ok()),
                        raw: answer.body().unwrap_or_default().to_vec(),
                    });
                }
            }
            Ok(found)
        };
        Self::within(&self.server, LETTER, fetching).await
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

    /// Asks for nothing, so that the server answers, and tells what is new.
    pub async fn ask(&mut self) -> Result<(), ImapError> {
        Self::within(&self.server, PATIENCE, self.session.noop()).await
    }

    /// Puts a letter into a folder. `flags` such as `(\Seen)`.
    pub async fn put(&mut self, folder: &str, flags: &str, raw: &[u8]) -> Result<(), ImapError> {
        let putting = self.session.append(folder, Some(flags), None, raw);
        match timeout(LETTER, putting).await {
            Ok(Err(Error::No(_))) => Err(ImapError::NoFolder(folder.to_owned())),
            Ok(put) => put.map_err(|e| Self::failed(&self.server, &e)),
            Err(_) => Err(ImapError::Later { server: self.server.clone(), why: "no answer".to_owned() }),
        }
    }

    /// The folder that the server keeps for a purpose, else one of this name.
    pub async fn folder_for(&mut self, purpose: Purpose) -> Result<Option<String>, ImapError> {
        let listing = async {
            let names: Vec<_> = self.session.list(None, Some("*")).await?.try_collect().await?;
            let fits = |attribute: &NameAttribute<'_>| match purpose {
                Purpose::Sent => *attribute == NameAttribute::Sent,
                Purpose::Drafts => *attribute == NameAttribute::Drafts,
            };
            let marked = names.iter().find(|name| name.attributes().iter().any(fits));
            let named = || names.iter().find(|name| name.name().eq_ignore_ascii_case(purpose.name()));
            Ok(marked.or_else(named).map(|name| name.name().to_owned()))
        };
        Self::within(&self.server, PATIENCE, listing).await
    }

    /// Says goodbye; whether the server hears it is all the same.
    pub async fn close(mut self) {
        let _ = timeout(Duration::from_secs(2), self.session.logout()).await;
    }
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
    use super::quoted;

    #[test]
    fn a_query_holds_no_commands() {
        assert_eq!(quoted("a\"b\\c\r\nLOGOUT"), "\"a\\\"b\\\\cLOGOUT\"");
    }
}
