//! One collection: what changed, items by their hrefs, and writing under the etag that was seen.

use std::collections::BTreeMap;

use crate::address;
use crate::error::{DavError, plain};
use crate::http::{Answer, Ask, Server, etag};
use crate::sync::{Changes, Fetched, Found, Next, Page, PushError, Remote, Stored};
use crate::xml::{self, Multistatus, Response};

/// Items that are asked for in one request.
const BATCH: usize = 50;
/// What a cursor begins with; behind it stands the server's own mark.
const TOKEN: &str = "token:";
const CTAG: &str = "ctag:";

/// Which of the two protocols.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// CalDAV.
    Calendar,
    /// CardDAV.
    Contacts,
}

impl Kind {
    pub(crate) fn well_known(self) -> &'static str {
        match self {
            Self::Calendar => "/.well-known/caldav",
            Self::Contacts => "/.well-known/carddav",
        }
    }

    pub(crate) fn what(self) -> &'static str {
        match self {
            Self::Calendar => "calendars",
            Self::Contacts => "address books",
        }
    }

    /// What an item is.
    fn component(self) -> &'static str {
        match self {
            Self::Calendar => "VCALENDAR",
            Self::Contacts => "VCARD",
        }
    }

    /// Whether these bytes may be an item, by how they begin.
    fn begins(self, bytes: &[u8]) -> bool {
        let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes).trim_ascii_start();
        let (begin, component) = (b"BEGIN:", self.component().as_bytes());
        let is = |from: usize, word: &[u8]| {
            bytes.get(from..from + word.len()).is_some_and(|bytes| bytes.eq_ignore_ascii_case(word))
        };
        let ends = bytes.get(begin.len() + component.len()).is_none_or(u8::is_ascii_whitespace);
        is(0, begin) && is(begin.len(), component) && ends
    }
}

/// One calendar or address book. As a [`Remote`] its cursors are sync tokens, or ctags of a server without them, for which
/// every change means that all etags are listed.
#[derive(Clone, Debug)]
pub struct Collection {
    server: Server,
    kind: Kind,
    path: String,
}

impl Collection {
    pub(crate) fn new(server: Server, kind: Kind, path: String) -> Self {
        Self { server, kind, path }
    }

    /// Its path at the server.
    pub fn path(&self) -> &str {
        &self.path
    }

    fn media_type(&self) -> &'static str {
        match self.kind {
            Kind::Calendar => "text/calendar; charset=utf-8",
            Kind::Contacts => "text/vcard; charset=utf-8",
        }
    }

    async fn multistatus(&self, ask: &Ask<'_>) -> Result<(Multistatus, reqwest::Url), DavError> {
        let Answer { at, body, .. } = self.server.send(ask).await?;
        let to = address::resolve(&at, at.path())?;
        if to.trim_end_matches('/') != self.path.trim_end_matches('/') {
            // Nothing that is named there would be taken for an item of this one, and it would look empty.
            return Err(DavError::Moved { host: address::host(&at), path: self.path.clone(), to: plain(&to) });
        }
        let text = String::from_utf8(body).map_err(|_| self.server.protocol(ask.path, "its answer is not UTF-8"))?;
        let read = Multistatus::read(&text).map_err(|e| self.server.protocol(ask.path, e.to_string()))?;
        Ok((read, at))
    }

    /// Whether a resource is an item of this collection: directly in it, and no collection itself.
    fn is_item(&self, path: &str) -> bool {
        path.strip_prefix(self.path.as_str()).is_some_and(|name| !name.is_empty() && !name.contains('/'))
    }

    /// The REPORT of RFC 6578. Without a token it lists everything.
    async fn sync_collection(&self, token: Option<&str>) -> Result<Page, DavError> {
        let body = format!(
            "<d:sync-token>{}</d:sync-token><d:sync-level>1</d:sync-level><d:prop><d:getetag/><d:resourcetype/></d:prop>",
            xml::escaped(token.unwrap_or_default())
        );
        let document = xml::document("d:sync-collection", &body);
        let ask = Ask::new("REPORT", &self.path, "read").header("depth", "0").xml(document);
        let (read, at) = self.multistatus(&ask).await?;
        let next = read.sync_token.ok_or_else(|| self.server.protocol(&self.path, "it names no sync token"))?;
        let mut page = Page { whole: token.is_none(), ..Page::default() };
        let mut more = false;
        for response in &read.responses {
            let path = address::resolve(&at, &response.href)?;
            if response.status == Some(507) {
                // RFC 6578, 3.6: the list was cut, and its token goes on where it ends.
                more = true;
            } else if response.status == Some(404) {
                page.gone.extend(self.is_item(&path).then_some(path));
            } else {
                page.changed.extend(self.listed(path, response));
            }
        }
        if more && (token == Some(next.as_str()) || page.changed.is_empty() && page.gone.is_empty()) {
            return Err(self.server.protocol(&self.path, "its list of changes is cut and does not go on"));
        }
        let cursor = format!("{TOKEN}{next}");
        page.next = if more { Next::More(cursor) } else { Next::Done(Some(cursor)) };
        Ok(page)
    }

    fn listed(&self, path: String, response: &Response) -> Option<(String, String)> {
        let item = self.is_item(&path) && !response.collection;
        // Without an etag nobody can say whether it changed: it is taken for changed each time.
        item.then(|| (path, response.etag.as_deref().and_then(etag).unwrap_or_default()))
    }

    /// All etags, for a server that does not tell changes. The ctag is read first, so that what changes meanwhile is seen
    /// the next time.
    async fn listing(&self, known: Option<&str>) -> Result<Page, DavError> {
        let document = xml::document("d:propfind", "<d:prop><s:getctag/></d:prop>");
        let ask = Ask::new("PROPFIND", &self.path, "read").header("depth", "0").xml(document);
        let (read, _) = self.multistatus(&ask).await?;
        let ctag = read.responses.into_iter().find_map(|response| response.ctag);
        let next = Next::Done(ctag.as_ref().map(|ctag| format!("{CTAG}{ctag}")));
        if ctag.is_some() && ctag.as_deref() == known {
            return Ok(Page { next, ..Page::default() });
        }
        let document = xml::document("d:propfind", "<d:prop><d:getetag/><d:resourcetype/></d:prop>");
        let ask = Ask::new("PROPFIND", &self.path, "read").header("depth", "1").xml(document);
        let (read, at) = self.multistatus(&ask).await?;
        let mut page = Page { whole: true, next, ..Page::default() };
        for response in &read.responses {
            if response.status == Some(507) {
                return Err(self.server.protocol(&self.path, "its list of items is cut"));
            }
            page.changed.extend(self.listed(address::resolve(&at, &response.href)?, response));
        }
        Ok(page)
    }

    async fn multiget(&self, hrefs: &[String]) -> Result<Vec<Fetched>, DavError> {
        let (root, data) = match self.kind {
            Kind::Calendar => ("c:calendar-multiget", "<c:calendar-data/>"),
            Kind::Contacts => ("a:addressbook-multiget", "<a:address-data/>"),
        };
        let names: String = hrefs.iter().map(|href| format!("<d:href>{}</d:href>", xml::escaped(href))).collect();
        let document = xml::document(root, &format!("<d:prop><d:getetag/>{data}</d:prop>{names}"));
        // RFC 6352 wants a depth; it changes nothing.
        let ask = Ask::new("REPORT", &self.path, "read").header("depth", "0").xml(document);
        let (read, at) = self.multistatus(&ask).await?;
        let mut found: BTreeMap<String, Found> = BTreeMap::new();
        for response in read.responses {
            let href = address::resolve(&at, &response.href)?;
            if !hrefs.contains(&href) {
                continue;
            }
            match (response.data, response.status) {
                (Some(data), _) if self.kind.begins(data.as_bytes()) => {
                    let etag = response.etag.as_deref().and_then(etag);
                    found.insert(href, Found::Here { etag, bytes: crlf(data.as_bytes()) });
                }
                // Where it is named twice, what is there outweighs what isn't.
                (_, Some(404 | 410)) => drop(found.entry(href).or_insert(Found::Missing)),
                // Whatever it is, the item itself tells.
                _ => {}
            }
        }
        for href in hrefs {
            if !found.contains_key(href) {
                found.insert(href.clone(), self.get(href).await?);
            }
        }
        Ok(found.into_iter().map(|(href, what)| Fetched { href, what }).collect())
    }

    /// One item by itself, byte for byte. An answer that is something else, such as a proxy's page with a login, replaces no
    /// item.
    async fn get(&self, href: &str) -> Result<Found, DavError> {
        match self.server.send(&Ask::new("GET", href, "read")).await {
            Ok(answer) if !self.kind.begins(&answer.body) => {
                let why = format!("it does not begin with BEGIN:{}", self.kind.component());
                Ok(Found::Unreadable(self.server.protocol(href, why).to_string()))
            }
            Ok(answer) => Ok(Found::Here { etag: answer.etag, bytes: answer.body }),
            Err(DavError::Missing { .. }) => Ok(Found::Missing),
            Err(e @ (DavError::TooLarge { .. } | DavError::Forbidden { .. } | DavError::Refused { .. })) => {
                Ok(Found::Unreadable(e.to_string()))
            }
            Err(e) => Err(e),
        }
    }

    async fn write(&self, ask: Ask<'_>) -> Result<Stored, PushError<DavError>> {
        let href = ask.path.to_owned();
        match self.server.send(&ask).await {
            Ok(answer) => Ok(Stored { href, etag: answer.etag }),
            Err(DavError::Changed { .. }) => Err(PushError::Changed),
            Err(DavError::Missing { .. }) => Err(PushError::Missing),
            Err(DavError::SameUid { .. }) => Err(PushError::SameUid),
            Err(e @ (DavError::Forbidden { .. } | DavError::Refused { .. } | DavError::Protocol { .. })) => {
                Err(PushError::Refused(e.to_string()))
            }
            Err(e) => Err(PushError::Failed(e)),
        }
    }
}

impl Remote for Collection {
    type Error = DavError;

    async fn changes(&self, since: Option<&str>) -> Result<Changes, DavError> {
        let ctag = since.and_then(|since| since.strip_prefix(CTAG));
        if ctag.is_some() {
            return Ok(Changes::Page(self.listing(ctag).await?));
        }
        let token = since.and_then(|since| since.strip_prefix(TOKEN));
        match self.sync_collection(token).await {
            Ok(page) => Ok(Changes::Page(page)),
            Err(DavError::TokenExpired { .. }) if token.is_some() => Ok(Changes::Expired),
            // It doesn't know the report, doesn't let anybody ask it, or wouldn't list so many: all etags tell as much.
            Err(
                DavError::Refused { status: 400 | 403 | 405 | 415 | 422 | 501 | 507, .. }
                | DavError::Forbidden { .. }
                | DavError::Later { .. },
            ) if token.is_none() => Ok(Changes::Page(self.listing(None).await?)),
            Err(DavError::Refused { .. }) if token.is_some() => Ok(Changes::Expired),
            Err(e) => Err(e),
        }
    }

    async fn fetch(&self, hrefs: &[String]) -> Result<Vec<Fetched>, DavError> {
        let mut found = Vec::new();
        let mut waiting: Vec<Vec<String>> = hrefs.chunks(BATCH).rev().map(<[String]>::to_vec).collect();
        while let Some(batch) = waiting.pop() {
            match self.multiget(&batch).await {
                Ok(fetched) => found.extend(fetched),
                Err(DavError::TooLarge { .. }) if batch.len() > 1 => {
                    let (first, second) = batch.split_at(batch.len() / 2);
                    waiting.extend([second.to_vec(), first.to_vec()]);
                }
                // One item that XML can't hold, or that is too large, doesn't keep the others away.
                Err(DavError::TooLarge { .. } | DavError::Protocol { .. } | DavError::Refused { .. }) => {
                    for href in batch {
                        let what = self.get(&href).await?;
                        found.push(Fetched { href, what });
                    }
                }
                Err(e) => return Err(e),
            }
        }
        Ok(found)
    }

    fn new_href(&self, name: &str) -> Option<String> {
        let end = match self.kind {
            Kind::Calendar => "ics",
            Kind::Contacts => "vcf",
        };
        Some(format!("{}{name}.{end}", self.path))
    }

    async fn create(&self, href: &str, bytes: &[u8]) -> Result<Stored, PushError<DavError>> {
        let mut ask = Ask::new("PUT", href, "create").header("if-none-match", "*");
        ask.body = Some((self.media_type(), bytes.to_vec()));
        self.write(ask).await
    }

    async fn update(&self, href: &str, etag: &str, bytes: &[u8]) -> Result<Stored, PushError<DavError>> {
        let mut ask = Ask::new("PUT", href, "change").header("if-match", etag);
        ask.body = Some((self.media_type(), bytes.to_vec()));
        self.write(ask).await
    }

    async fn delete(&self, href: &str, etag: &str) -> Result<(), PushError<DavError>> {
        let ask = Ask::new("DELETE", href, "delete").header("if-match", etag);
        self.write(ask).await.map(|_| ())
    }
}

/// Line ends as both formats want them: XML makes one character of two.
fn crlf(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + bytes.len() / 32);
    for (n, byte) in bytes.iter().enumerate() {
        if *byte == b'\n' && (n == 0 || bytes[n - 1] != b'\r') {
            out.push(b'\r');
        }
        out.push(*byte);
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_item_is_known_by_its_beginning() {
        use super::Kind::{Calendar, Contacts};
        for yes in ["BEGIN:VCARD\r\nVERSION:3.0", "\u{feff}BEGIN:VCARD\n", "\r\n begin:vCard \r\n", "BEGIN:VCARD"] {
            assert!(Contacts.begins(yes.as_bytes()) && !Calendar.begins(yes.as_bytes()), "{yes:?}");
        }
        assert!(Calendar.begins(b"BEGIN:VCALENDAR\r\n") && !Contacts.begins(b"BEGIN:VCALENDAR\r\n"));
        for no in ["", "\u{feff}", "BEGIN:", "BEGIN:VCARDS\r\n", "<html>BEGIN:VCARD", "X:1\r\nBEGIN:VCARD", "\u{1}"] {
            assert!(!Contacts.begins(no.as_bytes()), "{no:?}");
        }
    }

    #[test]
    fn line_ends_are_mended_once() {
        assert_eq!(super::crlf(b"a\nb\r\n\nc"), b"a\r\nb\r\n\r\nc");
    }
}
