//! From an address and a login to the collections of an account (RFC 6764, 4791, 6352, 5397).

use reqwest::Url;

use crate::address;
use crate::collection::{Collection, Kind};
use crate::error::DavError;
use crate::http::{Ask, Credentials, Server};
use crate::xml::{self, Multistatus, Response};

/// More homes are looked at of nobody.
const MOST_HOMES: usize = 16;
/// An account with more collections of a kind is none of a household.
const MOST_COLLECTIONS: usize = 1_000;

/// What a server tells of a collection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CollectionInfo {
    pub kind: Kind,
    /// Its path at the server, with a slash at its end.
    pub path: String,
    /// The last part of its path where it has no name.
    pub name: String,
    pub description: Option<String>,
    /// As the server writes it, such as `#FF2968FF`.
    pub color: Option<String>,
    /// Changes with any change in the collection.
    pub ctag: Option<String>,
    pub sync_token: Option<String>,
    /// Whether the account may not write to it. A server that says nothing is taken for one that lets.
    pub read_only: bool,
    /// What a calendar takes: `VEVENT`, `VTODO`; empty where the server doesn't say, which means all.
    pub components: Vec<String>,
    /// Whether the server tells changes since a token (RFC 6578).
    pub syncs: bool,
}

/// A server with an account.
///
/// ```no_run
/// # async fn example() -> Result<(), dav::DavError> {
/// let password = base::Secret::new("secret".to_owned());
/// let credentials = dav::Credentials::Basic { user: "ada".into(), password };
/// let client = dav::Client::new("https://dav.example", credentials)?;
/// for found in client.collections(dav::Kind::Calendar).await? {
///     println!("{} at {}", found.name, found.path);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    server: Server,
}

impl Client {
    /// # Errors
    ///
    /// [`DavError::Address`] if credentials can't go there safely.
    pub fn new(url: &str, credentials: Credentials) -> Result<Self, DavError> {
        Ok(Self { server: Server::new(url, credentials)? })
    }

    /// The origin of an address (`https://dav.example`), if credentials can go there safely.
    ///
    /// # Errors
    ///
    /// [`DavError::Address`].
    pub fn origin_of(url: &str) -> Result<String, DavError> {
        address::check(url).map(|url| address::origin(&url))
    }

    /// All collections of a kind: of the account's homes, or the one that the address itself names.
    ///
    /// # Errors
    ///
    /// [`DavError::NothingFound`] if the account has no home for them; else why the server didn't say.
    pub async fn collections(&self, kind: Kind) -> Result<Vec<CollectionInfo>, DavError> {
        let principal = self.principal(kind).await?;
        let homes = self.homes(kind, &principal).await?;
        let mut found: Vec<CollectionInfo> = Vec::new();
        for home in homes {
            for (at, response) in self.propfind(&home, "1", COLLECTION).await? {
                let info = self.info(kind, &at, &response)?;
                found.extend(info.filter(|info| found.iter().all(|other| other.path != info.path)));
                if found.len() > MOST_COLLECTIONS {
                    return Err(self
                        .server
                        .protocol(&home, format!("it names more than {MOST_COLLECTIONS} collections")));
                }
            }
        }
        Ok(found)
    }

    /// A collection to read and write, at a path that the server named or that stands in settings.
    ///
    /// # Errors
    ///
    /// If the path leads elsewhere.
    pub fn collection(&self, kind: Kind, path: &str) -> Result<Collection, DavError> {
        let mut path = address::resolve(&self.server.base, path)?;
        if !path.ends_with('/') {
            path.push('/');
        }
        Ok(Collection::new(self.server.clone(), kind, path))
    }

    /// The account's principal. A bare host is asked at its well-known address first; an address with a path is asked
    /// itself first.
    async fn principal(&self, kind: Kind) -> Result<String, DavError> {
        let own = self.server.base.path();
        let places = if own == "/" { [kind.well_known(), own] } else { [own, kind.well_known()] };
        let mut last = None;
        for place in places {
            match self.propfind(place, "0", "<d:current-user-principal/>").await {
                Ok(found) => {
                    for (at, response) in found {
                        if let Some(principal) = response.principal {
                            return address::resolve(&at, &principal);
                        }
                    }
                }
                // Another address would not know the account better, and the settings must say who is trusted.
                Err(e @ (DavError::Unauthorized { .. } | DavError::Elsewhere { .. } | DavError::Later { .. })) => {
                    return Err(e);
                }
                Err(e) => last = Some(e),
            }
        }
        let nothing = DavError::NothingFound { host: self.server.host.clone(), what: "principal" };
        Err(last.unwrap_or(nothing))
    }

    async fn homes(&self, kind: Kind, principal: &str) -> Result<Vec<String>, DavError> {
        let property = match kind {
            Kind::Calendar => "<c:calendar-home-set/>",
            Kind::Contacts => "<a:addressbook-home-set/>",
        };
        let mut homes = Vec::new();
        for (at, response) in self.propfind(principal, "0", property).await? {
            let named = match kind {
                Kind::Calendar => response.calendar_homes,
                Kind::Contacts => response.address_homes,
            };
            for home in named {
                homes.push(address::resolve(&at, &home)?);
            }
        }
        homes.dedup();
        homes.truncate(MOST_HOMES);
        if homes.is_empty() {
            return Err(DavError::NothingFound { host: self.server.host.clone(), what: kind.what() });
        }
        Ok(homes)
    }

    /// Each resource that is told of, with the address that its hrefs are seen from.
    async fn propfind(&self, path: &str, depth: &str, properties: &str) -> Result<Vec<(Url, Response)>, DavError> {
        let document = xml::document("d:propfind", &format!("<d:prop>{properties}</d:prop>"));
        let ask = Ask::new("PROPFIND", path, "read").header("depth", depth).xml(document);
        let answer = self.server.send(&ask).await?;
        let text = String::from_utf8(answer.body).map_err(|_| self.server.protocol(path, "its answer is not UTF-8"))?;
        let read = Multistatus::read(&text).map_err(|e| self.server.protocol(path, e.to_string()))?;
        Ok(read.responses.into_iter().map(|response| (answer.at.clone(), response)).collect())
    }

    fn info(&self, kind: Kind, at: &Url, response: &Response) -> Result<Option<CollectionInfo>, DavError> {
        let fits = match kind {
            Kind::Calendar => response.calendar,
            Kind::Contacts => response.address_book,
        };
        if !fits {
            return Ok(None);
        }
        let mut path = address::resolve(at, &response.href)?;
        if !path.ends_with('/') {
            path.push('/');
        }
        let last = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned();
        let clean = |text: &Option<String>| text.as_deref().map(crate::error::plain).filter(|text| !text.is_empty());
        let may_write = |names: &Vec<String>| {
            let writes = |name: &String| ["all", "write", "write-content", "bind"].contains(&name.as_str());
            names.iter().any(writes)
        };
        let reports = response.reports.as_deref().unwrap_or_default();
        Ok(Some(CollectionInfo {
            kind,
            name: clean(&response.display_name).unwrap_or(last),
            path,
            description: clean(&response.description),
            color: clean(&response.color),
            ctag: response.ctag.clone(),
            sync_token: response.sync_token.clone(),
            read_only: !response.privileges.as_ref().is_none_or(may_write),
            components: response.components.clone().unwrap_or_default(),
            syncs: response.sync_token.is_some() || reports.iter().any(|name| name == "sync-collection"),
        }))
    }
}

const COLLECTION: &str = "<d:resourcetype/><d:displayname/><d:sync-token/><d:current-user-privilege-set/>\
    <d:supported-report-set/><s:getctag/><i:calendar-color/><c:calendar-description/><a:addressbook-description/>\
    <c:supported-calendar-component-set/>";
