//! An address book, wherever it is, as the other side of a sync.

use std::path::Path;

use tokio::task::spawn_blocking;

use base::crash;
use dav::sync::{Changes, Fetched, PushError, Remote, Stored};
use dav::{Client, Collection, Credentials, Kind};
use google::people::Contacts;

use super::error::BookError;
use super::files::Files;

/// An address book.
pub(super) enum Book {
    /// At a server; whether the account may write it.
    Dav {
        collection: Collection,
        read_only: bool,
    },
    /// The contacts of an account at Google.
    Google(Contacts),
    Files(Files),
}

/// Does work on files where it keeps nothing else waiting: they may be large, and their disk slow.
async fn on<T: Send + 'static>(files: &Files, work: impl FnOnce(Files) -> T + Send + 'static) -> Result<T, BookError> {
    let files = files.clone();
    let done = spawn_blocking(move || work(files)).await;
    done.map_err(|e| BookError::Files(format!("the files can't be read or written ({e}); look into the log")))
}

/// As [`on`], for what may be refused.
async fn writing<T: Send + 'static>(
    files: &Files,
    work: impl FnOnce(Files) -> Result<T, PushError<BookError>> + Send + 'static,
) -> Result<T, PushError<BookError>> {
    on(files, work).await.map_err(PushError::Failed)?
}

impl Book {
    /// A file or a directory of vCards.
    ///
    /// # Errors
    ///
    /// Why it can't be read.
    pub async fn in_files(path: &Path) -> Result<Self, BookError> {
        let files = Files::new(path);
        on(&files, |files| files.changes()).await??;
        Ok(Self::Files(files))
    }

    /// Of an account at Google.
    ///
    /// # Errors
    ///
    /// Why it can't be read.
    pub async fn at_google(client: google::Client) -> Result<Self, BookError> {
        let contacts = Contacts::new(client);
        contacts.attempt().await?;
        Ok(Self::Google(contacts))
    }

    /// Finds the address book of an account: the one that is named, or the only one.
    ///
    /// # Errors
    ///
    /// Why there is none to read.
    pub async fn at_server(url: &str, credentials: Credentials, named: Option<&str>) -> Result<Self, BookError> {
        let client = Client::new(url, credentials)?;
        let found = client.collections(Kind::Contacts).await?;
        let names = || found.iter().map(|book| format!("`{}`", book.name)).collect::<Vec<_>>().join(", ");
        let chosen = match (named, found.as_slice()) {
            (Some(named), _) => {
                found.iter().find(|book| book.name == named || book.path == named).ok_or_else(|| {
                    BookError::Which(format!("there is no address book `{named}` at {url}; there are {}", names()))
                })?
            }
            (None, [only]) => only,
            (None, []) => return Err(BookError::Which(format!("there is no address book at {url}; make one there"))),
            (None, _) => {
                let why = format!("there are several address books at {url}; set `address_book` to one of {}", names());
                return Err(BookError::Which(why));
            }
        };
        let collection = client.collection(Kind::Contacts, &chosen.path)?;
        Ok(Self::Dav { collection, read_only: chosen.read_only })
    }

    /// Whether nothing can be written there, whatever the settings say.
    pub fn read_only(&self) -> bool {
        matches!(self, Self::Dav { read_only: true, .. })
    }
}

/// The same of an address book's own error.
fn own<E: Into<BookError>>(e: PushError<E>) -> PushError<BookError> {
    match e {
        PushError::Changed => PushError::Changed,
        PushError::Missing => PushError::Missing,
        PushError::SameUid => PushError::SameUid,
        PushError::Refused(why) => PushError::Refused(why),
        PushError::Failed(e) => PushError::Failed(e.into()),
    }
}

impl Remote for Book {
    type Error = BookError;

    async fn changes(&self, since: Option<&str>) -> Result<Changes, BookError> {
        match self {
            Self::Dav { collection, .. } => Ok(collection.changes(since).await?),
            Self::Google(contacts) => Ok(contacts.changes(since).await?),
            Self::Files(files) => on(files, |files| files.changes()).await?,
        }
    }

    async fn fetch(&self, hrefs: &[String]) -> Result<Vec<Fetched>, BookError> {
        match self {
            Self::Dav { collection, .. } => Ok(collection.fetch(hrefs).await?),
            Self::Google(contacts) => Ok(contacts.fetch(hrefs).await?),
            Self::Files(files) => {
                let hrefs = hrefs.to_vec();
                on(files, move |files| files.fetch(&hrefs)).await?
            }
        }
    }

    fn new_href(&self, name: &str) -> Option<String> {
        match self {
            Self::Dav { collection, .. } => collection.new_href(name),
            Self::Google(contacts) => contacts.new_href(name),
            Self::Files(files) => Some(files.new_href(name)),
        }
    }

    async fn create(&self, href: &str, bytes: &[u8]) -> Result<Stored, PushError<BookError>> {
        crash::point("contacts.sending");
        let stored = match self {
            Self::Dav { collection, .. } => collection.create(href, bytes).await.map_err(own),
            Self::Google(contacts) => contacts.create(href, bytes).await.map_err(own),
            Self::Files(files) => {
                let (href, bytes) = (href.to_owned(), bytes.to_vec());
                writing(files, move |files| files.create(&href, &bytes)).await
            }
        };
        crash::point("contacts.sent");
        stored
    }

    async fn update(&self, href: &str, etag: &str, bytes: &[u8]) -> Result<Stored, PushError<BookError>> {
        crash::point("contacts.updating");
        let stored = match self {
            Self::Dav { collection, .. } => collection.update(href, etag, bytes).await.map_err(own),
            Self::Google(contacts) => contacts.update(href, etag, bytes).await.map_err(own),
            Self::Files(files) => {
                let (href, etag, bytes) = (href.to_owned(), etag.to_owned(), bytes.to_vec());
                writing(files, move |files| files.update(&href, &etag, &bytes)).await
            }
        };
        crash::point("contacts.updated");
        stored
    }

    async fn delete(&self, href: &str, etag: &str) -> Result<(), PushError<BookError>> {
        crash::point("contacts.deleting");
        let gone = match self {
            Self::Dav { collection, .. } => collection.delete(href, etag).await.map_err(own),
            Self::Google(contacts) => contacts.delete(href, etag).await.map_err(own),
            Self::Files(files) => {
                let (href, etag) = (href.to_owned(), etag.to_owned());
                writing(files, move |files| files.delete(&href, &etag)).await
            }
        };
        crash::point("contacts.deleted");
        gone
    }
}
