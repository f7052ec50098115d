//! A provider's calendar as far as its items fit into rows.

use super::following::Rows;
use super::provider::ProviderError;
use base::crash;
use dav::sync::{Changes, Fetched, Found, Options, PushError, Remote, Report, Stored, SyncError, sync};

/// A larger item has no row: nobody's event is, but one with pictures in it.
const LARGEST_ITEM: usize = 1 << 20;

/// Makes a calendar and its rows equal. `said`: an error as a sentence for the owner.
pub(super) async fn sync_bounded<R: Remote>(
    calendar: R,
    rows: &Rows,
    options: Options,
    said: impl Fn(R::Error) -> ProviderError,
) -> Result<Report, ProviderError> {
    sync(&Bounded(calendar), rows, options).await.map_err(|e| match e {
        SyncError::Remote(e) => said(e),
        SyncError::Store(e) => ProviderError::Later { why: e.to_string(), after: None },
        SyncError::Endless => ProviderError::Owner(e.to_string()),
    })
}

struct Bounded<R>(R);

/// Why an item has no row.
fn unfit(bytes: &[u8]) -> Option<String> {
    if bytes.len() > LARGEST_ITEM {
        return Some("it is larger than 1 MiB; move what is long or attached out of it".to_owned());
    }
    bytes.contains(&0).then(|| "it holds characters that no text has".to_owned())
}

impl<R: Remote> Remote for Bounded<R> {
    type Error = R::Error;

    async fn changes(&self, since: Option<&str>) -> Result<Changes, R::Error> {
        let changes = self.0.changes(since).await?;
        crash::point("calendar.listed");
        Ok(changes)
    }

    async fn fetch(&self, hrefs: &[String]) -> Result<Vec<Fetched>, R::Error> {
        let mut fetched = self.0.fetch(hrefs).await?;
        for one in &mut fetched {
            if let Found::Here { bytes, .. } = &one.what
                && let Some(why) = unfit(bytes)
            {
                one.what = Found::Unreadable(why);
            }
        }
        crash::point("calendar.fetched");
        Ok(fetched)
    }

    fn new_href(&self, name: &str) -> Option<String> {
        self.0.new_href(name)
    }

    async fn create(&self, href: &str, bytes: &[u8]) -> Result<Stored, PushError<R::Error>> {
        crash::point("calendar.sending");
        let stored = self.0.create(href, bytes).await;
        crash::point("calendar.sent");
        stored
    }

    async fn update(&self, href: &str, etag: &str, bytes: &[u8]) -> Result<Stored, PushError<R::Error>> {
        crash::point("calendar.updating");
        let stored = self.0.update(href, etag, bytes).await;
        crash::point("calendar.updated");
        stored
    }

    async fn delete(&self, href: &str, etag: &str) -> Result<(), PushError<R::Error>> {
        crash::point("calendar.deleting");
        let gone = self.0.delete(href, etag).await;
        crash::point("calendar.deleted");
        gone
    }
}
