//! The XML of answers and requests. A document with a DTD is refused, so that no entity but XML's own five is ever
//! expanded; the reader works without recursion and counts nodes.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use roxmltree::{Document, Node, ParsingOptions};

pub(crate) const DAV: &str = "DAV:";
pub(crate) const CALDAV: &str = "urn:ietf:params:xml:ns:caldav";
pub(crate) const CARDDAV: &str = "urn:ietf:params:xml:ns:carddav";
/// Where ctags and colors are from; not standard, and everywhere.
const CALENDARSERVER: &str = "http://calendarserver.org/ns/";
const APPLE: &str = "http://apple.com/ns/ical/";

/// More nodes than an answer about the most items that are taken in one has.
const MOST_NODES: u32 = 1_000_000;
/// The most items that one answer may tell of.
const MOST_RESPONSES: usize = 50_000;
/// Names of namespaces that one answer may declare. Servers have a dozen.
const MOST_PREFIXES: usize = 100;
/// How many names there are, times how often one is declared. The reader copies what is in scope for each element that
/// declares anything, so this is what it may have to keep. Some servers declare one with each element of a long list.
const MOST_IN_SCOPE: usize = 4_000_000;

/// What a server tells of one resource. Only properties that it gives with status 200 are here.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Response {
    pub href: String,
    /// The status of the resource itself, such as 404 in a list of changes.
    pub status: Option<u16>,
    pub etag: Option<String>,
    /// The item, with the line ends that XML leaves.
    pub data: Option<String>,
    pub display_name: Option<String>,
    pub description: Option<String>,
    pub color: Option<String>,
    pub ctag: Option<String>,
    pub sync_token: Option<String>,
    pub calendar: bool,
    pub address_book: bool,
    pub collection: bool,
    /// `VEVENT`, `VTODO` and so on; `None` where the server doesn't say.
    pub components: Option<Vec<String>>,
    /// Names of privileges; `None` where the server doesn't say.
    pub privileges: Option<Vec<String>>,
    /// Names of reports; `None` where the server doesn't say.
    pub reports: Option<Vec<String>>,
    pub principal: Option<String>,
    pub calendar_homes: Vec<String>,
    pub address_homes: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Multistatus {
    pub responses: Vec<Response>,
    pub sync_token: Option<String>,
}

/// Why a document is no list of resources; the end of a sentence.
#[derive(Debug, thiserror::Error)]
pub(crate) enum XmlError {
    #[error("its XML is not valid ({0})")]
    Invalid(#[from] roxmltree::Error),
    #[error("its answer is no list of resources")]
    Other,
    #[error("it names more than {MOST_RESPONSES} items at once")]
    TooMany,
    #[error("its XML declares more namespaces than any server needs")]
    Namespaces,
}

impl Multistatus {
    pub fn read(text: &str) -> Result<Self, XmlError> {
        if !few_namespaces(text) {
            return Err(XmlError::Namespaces);
        }
        let options = ParsingOptions { nodes_limit: MOST_NODES, ..ParsingOptions::default() };
        let document = Document::parse_with_options(text, options)?;
        let root = document.root_element();
        if !is(root, DAV, "multistatus") {
            return Err(XmlError::Other);
        }
        let mut read = Self::default();
        for child in root.children() {
            if is(child, DAV, "response") {
                if read.responses.len() >= MOST_RESPONSES {
                    return Err(XmlError::TooMany);
                }
                read.responses.extend(response(child));
            } else if is(child, DAV, "sync-token") {
                read.sync_token = content(child);
            }
        }
        Ok(read)
    }
}

/// The names of the conditions that an error's body says were not met, without namespace.
pub(crate) fn conditions(text: &str) -> Vec<String> {
    if !few_namespaces(text) {
        return Vec::new();
    }
    let options = ParsingOptions { nodes_limit: 10_000, ..ParsingOptions::default() };
    let Ok(document) = Document::parse_with_options(text, options) else { return Vec::new() };
    let root = document.root_element();
    if !is(root, DAV, "error") {
        return Vec::new();
    }
    root.children().filter(Node::is_element).map(|child| child.tag_name().name().to_owned()).collect()
}

/// Whether reading costs no more than the text is worth. Text that only looks like declarations counts as well.
fn few_namespaces(text: &str) -> bool {
    let mut names = BTreeSet::new();
    for (n, (at, word)) in text.match_indices("xmlns").enumerate() {
        let rest = &text[at + word.len()..];
        // Within an item's text it may stand before anything.
        let end = rest.find(|c: char| c == '=' || c.is_whitespace()).unwrap_or(rest.len());
        names.insert(&rest[..end]);
        if names.len() > MOST_PREFIXES || names.len() * (n + 1) > MOST_IN_SCOPE {
            return false;
        }
    }
    true
}

fn is(node: Node, namespace: &str, name: &str) -> bool {
    node.is_element() && node.tag_name().namespace() == Some(namespace) && node.tag_name().name() == name
}

/// All text of an element; `None` if there is none.
fn content(node: Node) -> Option<String> {
    let text: String = node.children().filter_map(|child| child.text()).collect();
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn hrefs(node: Node) -> Vec<String> {
    node.children().filter(|child| is(*child, DAV, "href")).filter_map(content).collect()
}

/// `HTTP/1.1 404 Not Found`.
fn status(node: Node) -> Option<u16> {
    content(node)?.split_whitespace().nth(1)?.parse().ok()
}

fn response(node: Node) -> Vec<Response> {
    let mut found = Response::default();
    let mut names = Vec::new();
    for child in node.children() {
        if is(child, DAV, "href") {
            names.extend(content(child));
        } else if is(child, DAV, "status") {
            found.status = status(child);
        } else if is(child, DAV, "propstat") {
            propstat(child, &mut found);
        }
    }
    // Several hrefs share a status.
    names.into_iter().map(|href| Response { href, ..found.clone() }).collect()
}

fn propstat(node: Node, found: &mut Response) {
    let told = node.children().find(|child| is(*child, DAV, "status")).and_then(status);
    if told.is_some_and(|status| status != 200) {
        return;
    }
    for prop in node.children().filter(|child| is(*child, DAV, "prop")) {
        for value in prop.children().filter(Node::is_element) {
            property(value, found);
        }
    }
}

fn property(node: Node, found: &mut Response) {
    match (node.tag_name().namespace().unwrap_or_default(), node.tag_name().name()) {
        (DAV, "getetag") => found.etag = content(node),
        // The very text, not trimmed.
        (CALDAV, "calendar-data") | (CARDDAV, "address-data") => {
            found.data = Some(node.children().filter_map(|child| child.text()).collect());
        }
        (DAV, "displayname") => found.display_name = content(node),
        (CALDAV, "calendar-description") | (CARDDAV, "addressbook-description") => found.description = content(node),
        (APPLE, "calendar-color") => found.color = content(node),
        (CALENDARSERVER, "getctag") => found.ctag = content(node),
        (DAV, "sync-token") => found.sync_token = content(node),
        (DAV, "resourcetype") => {
            found.collection = node.children().any(|child| is(child, DAV, "collection"));
            found.calendar = node.children().any(|child| is(child, CALDAV, "calendar"));
            found.address_book = node.children().any(|child| is(child, CARDDAV, "addressbook"));
        }
        (CALDAV, "supported-calendar-component-set") => {
            let names = node.children().filter_map(|child| child.attribute("name"));
            found.components = Some(names.map(str::to_ascii_uppercase).collect());
        }
        (DAV, "current-user-privilege-set") => found.privileges = Some(inner(node, "privilege")),
        (DAV, "supported-report-set") => found.reports = Some(inner(node, "report")),
        (DAV, "current-user-principal") => found.principal = hrefs(node).into_iter().next(),
        (CALDAV, "calendar-home-set") => found.calendar_homes = hrefs(node),
        (CARDDAV, "addressbook-home-set") => found.address_homes = hrefs(node),
        _ => {}
    }
}

/// The names of the elements within each element `name`, at any depth.
fn inner(node: Node, name: &str) -> Vec<String> {
    let outer = node.descendants().filter(|child| is(*child, DAV, name));
    let inner = outer.flat_map(|child| child.children().filter(Node::is_element));
    inner.map(|child| child.tag_name().name().to_owned()).collect()
}

/// Text as it stands between tags.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            c if c.is_control() => {
                let _ = write!(out, "&#{};", c as u32);
            }
            c => out.push(c),
        }
    }
    out
}

/// A request's document: `root` with the prefixes d, c and a.
pub(crate) fn document(root: &str, body: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<{root} xmlns:d=\"{DAV}\" xmlns:c=\"{CALDAV}\" xmlns:a=\"{CARDDAV}\" \
         xmlns:s=\"{CALENDARSERVER}\" xmlns:i=\"{APPLE}\">{body}</{root}>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(body: &str) -> String {
        format!("<x:multistatus xmlns:x=\"DAV:\" xmlns:C=\"{CALDAV}\">{body}</x:multistatus>")
    }

    #[test]
    fn properties_are_read_by_namespace_and_status() {
        let text = wrapped(
            "<x:response><x:href>/a/1.ics</x:href><x:propstat><x:prop><x:getetag>\"1\"</x:getetag>\
             <C:calendar-data>BEGIN:VCALENDAR&#13;\nX:&lt;&amp;<![CDATA[ä<]]>\n</C:calendar-data></x:prop>\
             <x:status>HTTP/1.1 200 OK</x:status></x:propstat><x:propstat><x:prop><x:displayname>no</x:displayname></x:prop>\
             <x:status>HTTP/1.1 403 Forbidden</x:status></x:propstat></x:response>\
             <x:response><x:href>/a/2.ics</x:href><x:href>/a/3.ics</x:href><x:status>HTTP/1.1 404 x</x:status></x:response>\
             <x:sync-token>t7</x:sync-token>",
        );
        let read = Multistatus::read(&text).unwrap();
        assert_eq!(read.sync_token.as_deref(), Some("t7"));
        assert_eq!(read.responses.len(), 3);
        let first = &read.responses[0];
        assert_eq!(first.etag.as_deref(), Some("\"1\""));
        assert_eq!(first.data.as_deref(), Some("BEGIN:VCALENDAR\r\nX:<&ä<\n"));
        assert_eq!((&first.display_name, first.status), (&None, None));
        assert_eq!((read.responses[2].href.as_str(), read.responses[2].status), ("/a/3.ics", Some(404)));
    }

    #[test]
    fn entities_are_never_expanded() {
        for dtd in [
            "<!DOCTYPE x [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;&a;\">]>",
            "<!DOCTYPE x [<!ENTITY a SYSTEM \"file:///etc/passwd\">]>",
            "<!DOCTYPE x SYSTEM \"http://evil.example/x.dtd\">",
        ] {
            let read = Multistatus::read(&format!("{dtd}{}", wrapped("<x:sync-token>&a;</x:sync-token>")));
            assert!(read.unwrap_err().to_string().contains("not valid"), "{dtd}");
        }
        assert!(Multistatus::read(&wrapped("&a;")).is_err());
    }

    #[test]
    fn depth_costs_no_stack_and_what_is_no_list_is_refused() {
        let deep = format!("{}{}", "<x:response>".repeat(200_000), "</x:response>".repeat(200_000));
        let _ = Multistatus::read(&wrapped(&deep));
        for text in ["", "<html></html>", "no", "<multistatus/>", "<x:multistatus xmlns:x=\"DAV:\">"] {
            assert!(Multistatus::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn namespaces_cost_no_more_than_their_text() {
        let many = |n: usize| (0..n).map(|n| format!(" xmlns:a{n}=\"u:{n}\"")).collect::<String>();
        let element = "<b xmlns=\"c:\"/>";
        for text in [
            // Many in scope of many that declare one, fewer in scope of as many, and each in scope of the next.
            wrapped(&format!("<a{}>{}</a>", many(5_000), element.repeat(100_000))),
            wrapped(&format!("<a{}>{}</a>", many(90), element.repeat(100_000))),
            wrapped(&(0..5_000).map(|n| format!("<a xmlns:a{n}=\"u:{n}\">")).collect::<String>()),
        ] {
            let error = Multistatus::read(&text).unwrap_err();
            assert!(matches!(error, XmlError::Namespaces), "{error}");
        }
        let error = format!("<d:error xmlns:d=\"DAV:\"{}><d:valid-sync-token/></d:error>", many(500));
        assert_eq!(conditions(&error), [] as [&str; 0]);
        // As iCloud writes: each element declares its own.
        let own = |n: usize| {
            format!(
                "<response xmlns=\"DAV:\"><href xmlns=\"DAV:\">/a/{n}.ics</href><propstat xmlns=\"DAV:\"><prop>\
                 <getetag xmlns=\"DAV:\">\"1\"</getetag></prop></propstat></response>"
            )
        };
        let read = Multistatus::read(&wrapped(&(0..10_000).map(own).collect::<String>())).unwrap();
        assert_eq!((read.responses.len(), read.responses[9_999].etag.as_deref()), (10_000, Some("\"1\"")));
        // An item that was pasted from a mail has some as well.
        let pasted = "&lt;html xmlns:o=&quot;urn:o&quot; xmlns:w=x>".repeat(1_000);
        let item = format!("<x:response><x:href>/a</x:href></x:response><C:calendar-data>{pasted}</C:calendar-data>");
        assert_eq!(Multistatus::read(&wrapped(&item)).unwrap().responses.len(), 1);
    }

    #[test]
    fn conditions_are_named() {
        let body = "<error xmlns=\"DAV:\"><valid-sync-token/></error>";
        assert_eq!(conditions(body), ["valid-sync-token"]);
        assert_eq!(conditions("<html/>"), [] as [&str; 0]);
        assert_eq!(conditions("busy"), [] as [&str; 0]);
    }

    #[test]
    fn what_is_sent_stays_text() {
        let sent = document("d:x", &escaped("a<b>&\"\u{1}"));
        assert!(sent.contains(">a&lt;b&gt;&amp;\"&#1;</d:x>"), "{sent}");
    }
}
