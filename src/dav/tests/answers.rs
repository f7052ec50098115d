//! What servers may answer: cut lists, redirects, addresses elsewhere, too much, nonsense. Each answer is written down.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use base::Secret;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::sync::{Changes, Found, Next, Page, PushError, Remote};
use crate::{Client, Collection, Credentials, DavError, Kind};

/// Answers by method and path, each once and the last for ever; notes what it is asked.
struct Scripted {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Scripted {
    async fn start(script: &[(&str, String)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let mut answers: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (what, answer) in script.iter().rev() {
            answers.entry((*what).to_owned()).or_default().push(answer.clone());
        }
        let noted = asked.clone();
        base::task::spawn(base::task::Kind::Job, "scripted server", async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let request = request(&mut stream).await;
                let mut words = request.split(' ');
                let what = format!("{} {}", words.next().unwrap_or_default(), words.next().unwrap_or_default());
                noted.lock().unwrap().push(request);
                let known = answers.get_mut(&what);
                let next = known.and_then(|all| if all.len() > 1 { all.pop() } else { all.last().cloned() });
                let answer = next.unwrap_or_else(|| status("404 Not Found", ""));
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
            }
        });
        Self { url, asked }
    }

    fn client(&self) -> Client {
        Client::new(&self.url, Credentials::Bearer(Secret::new("t0ken".into()))).unwrap()
    }

    fn collection(&self) -> Collection {
        self.client().collection(Kind::Calendar, "/c/").unwrap()
    }

    fn asked(&self, what: &str) -> Vec<String> {
        self.asked.lock().unwrap().iter().filter(|request| request.starts_with(what)).cloned().collect()
    }
}

/// A request with its body.
async fn request(stream: &mut tokio::net::TcpStream) -> String {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length =
                head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return text;
            }
        }
        match stream.read(&mut buffer).await {
            Ok(n) if n > 0 => bytes.extend_from_slice(&buffer[..n]),
            _ => return text,
        }
    }
}

fn status(status: &str, more: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{more}connection: close\r\ncontent-length: 0\r\n\r\n")
}

fn answer(code: &str, body: &str) -> String {
    format!("HTTP/1.1 {code}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn list(body: &str) -> String {
    let body = format!(
        "<d:multistatus xmlns:d=\"DAV:\" xmlns:c=\"urn:ietf:params:xml:ns:caldav\" \
         xmlns:s=\"http://calendarserver.org/ns/\">{body}</d:multistatus>"
    );
    answer("207 Multi-Status", &body)
}

fn item(href: &str, properties: &str) -> String {
    format!(
        "<d:response><d:href>{href}</d:href><d:propstat><d:prop>{properties}</d:prop>\
         <d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response>"
    )
}

fn bare(href: &str, status: &str) -> String {
    format!("<d:response><d:href>{href}</d:href><d:status>HTTP/1.1 {status}</d:status></d:response>")
}

async fn page(collection: &Collection, since: Option<&str>) -> Page {
    match collection.changes(since).await.unwrap() {
        Changes::Page(page) => page,
        Changes::Expired => panic!("the cursor is expired"),
    }
}

#[tokio::test]
async fn a_list_that_was_cut_goes_on() {
    let etag = "<d:getetag>W/\"1\"</d:getetag>";
    let first = item("/c/", "<d:resourcetype><d:collection/></d:resourcetype>")
        + &item("/c/1.ics", etag)
        + &bare("/c/gone.ics", "404 Not Found")
        + &bare("/c/", "507 Insufficient Storage")
        + "<d:sync-token>t1</d:sync-token>";
    let second = item("/c/2.ics", etag) + "<d:sync-token>t2</d:sync-token>";
    let server = Scripted::start(&[("REPORT /c/", list(&first)), ("REPORT /c/", list(&second))]).await;
    let collection = server.collection();
    let cut = page(&collection, None).await;
    assert_eq!(cut.changed, [("/c/1.ics".to_owned(), "\"1\"".to_owned())]);
    assert_eq!((cut.gone, &cut.next), (vec!["/c/gone.ics".to_owned()], &Next::More("token:t1".into())));
    let rest = page(&collection, Some("token:t1")).await;
    assert_eq!((rest.changed.len(), rest.next), (1, Next::Done(Some("token:t2".into()))));
    let asked = server.asked("REPORT");
    assert!(asked[1].contains("<d:sync-token>t1</d:sync-token>") && asked[1].contains("authorization: Bearer t0ken"));
    // One that is cut and stands still would go on for ever.
    let still = bare("/c/", "507 Insufficient Storage") + "<d:sync-token>t1</d:sync-token>";
    let server = Scripted::start(&[("REPORT /c/", list(&still))]).await;
    let error = server.collection().changes(Some("token:t1")).await.unwrap_err();
    assert!(error.to_string().contains("does not go on"), "{error}");
}

#[tokio::test]
async fn an_expired_token_and_a_server_without_any_are_known() {
    for (code, body) in [
        ("403 Forbidden", "<e:error xmlns:e=\"DAV:\"><e:valid-sync-token/></e:error>"),
        ("409 Conflict", "<e:error xmlns:e=\"DAV:\"><e:valid-sync-token/></e:error>"),
        ("410 Gone", ""),
    ] {
        let server = Scripted::start(&[("REPORT /c/", answer(code, body))]).await;
        assert_eq!(server.collection().changes(Some("token:old")).await.unwrap(), Changes::Expired, "{code}");
    }
    let all = item("/c/", "<s:getctag>7</s:getctag>") + &item("/c/1.ics", "<d:getetag>\"1\"</d:getetag>");
    let server =
        Scripted::start(&[("REPORT /c/", status("501 Not Implemented", "")), ("PROPFIND /c/", list(&all))]).await;
    let listed = page(&server.collection(), None).await;
    assert!(listed.whole && listed.changed.len() == 1, "{listed:?}");
    assert_eq!(listed.next, Next::Done(Some("ctag:7".into())));
    // A bare 403 may be of the report alone; where it is of the collection, the list says so.
    let bare = status("403 Forbidden", "");
    let server = Scripted::start(&[("REPORT /c/", bare.clone()), ("PROPFIND /c/", list(&all))]).await;
    assert_eq!(page(&server.collection(), None).await, listed);
    assert!(matches!(server.collection().changes(Some("token:t")).await, Err(DavError::Forbidden { .. })));
    let server = Scripted::start(&[("REPORT /c/", bare.clone()), ("PROPFIND /c/", bare)]).await;
    assert!(matches!(server.collection().changes(None).await, Err(DavError::Forbidden { .. })));
}

#[tokio::test]
async fn credentials_stay_at_their_origin() {
    let elsewhere = Scripted::start(&[]).await;
    let other = elsewhere.url.clone();
    let to = |place: &str| status("301 Moved Permanently", &format!("location: {place}\r\n"));
    let server = Scripted::start(&[("PROPFIND /.well-known/caldav", to(&other))]).await;
    let error = server.client().collections(Kind::Calendar).await.unwrap_err();
    assert!(matches!(error, DavError::Elsewhere { .. }), "{error:?}");
    for href in [format!("{other}c/1.ics"), "//evil.example/c/1.ics".into()] {
        let named = item(&href, "<d:getetag>\"1\"</d:getetag>") + "<d:sync-token>t</d:sync-token>";
        let server = Scripted::start(&[("REPORT /c/", list(&named))]).await;
        assert!(matches!(server.collection().changes(None).await, Err(DavError::Elsewhere { .. })), "{href}");
        let principal = format!("<d:current-user-principal><d:href>{href}</d:href></d:current-user-principal>");
        let server = Scripted::start(&[("PROPFIND /.well-known/caldav", list(&item("/", &principal)))]).await;
        let error = server.client().collections(Kind::Calendar).await.unwrap_err();
        assert!(error.to_string().contains("set `url` to that address if you trust it"), "{error}");
    }
    assert_eq!(elsewhere.asked(""), [] as [&str; 0]);
    // Within the origin they are followed, and not for ever.
    let (first, last) = (to("/c/b.ics"), answer("200 OK", "BEGIN:VCALENDAR"));
    let server = Scripted::start(&[
        ("GET /c/a.ics", first),
        ("GET /c/b.ics", last),
        ("GET /c/loop.ics", to("/c/loop.ics")),
        ("REPORT /c/", status("400 Bad Request", "")),
    ])
    .await;
    let fetched = server.collection().fetch(&["/c/a.ics".to_owned()]).await.unwrap();
    assert!(matches!(&fetched[0].what, Found::Here { bytes, .. } if bytes == b"BEGIN:VCALENDAR"));
    let error = server.collection().fetch(&["/c/loop.ics".to_owned()]).await.unwrap_err();
    assert!(error.to_string().contains("redirects more than 5 times"), "{error}");
}

#[tokio::test]
async fn too_much_and_nonsense_are_refused_in_words() {
    let much = format!("HTTP/1.1 207 OK\r\nconnection: close\r\n\r\n{}", "x".repeat(33 << 20));
    let server = Scripted::start(&[("REPORT /c/", much)]).await;
    assert!(matches!(server.collection().changes(None).await, Err(DavError::TooLarge { .. })));
    let server = Scripted::start(&[("REPORT /c/", answer("207 OK", "<html>log in</html>"))]).await;
    let error = server.collection().changes(None).await.unwrap_err().to_string();
    assert!(error.starts_with("127.0.0.1 does not answer /c/ as a server of calendars"), "{error}");
    let busy = status("503 Busy", "retry-after: 7\r\n");
    let server = Scripted::start(&[("PUT /c/1.ics", busy), ("PUT /c/2.ics", status("201 Created", ""))]).await;
    let later = server.collection().create("/c/1.ics", b"x").await;
    let after = std::time::Duration::from_secs(7);
    assert!(
        matches!(&later, Err(PushError::Failed(DavError::Later { after: Some(a), .. })) if *a == after),
        "{later:?}"
    );
    // A server may keep the etag to itself.
    assert_eq!(server.collection().create("/c/2.ics", b"x").await.unwrap().etag, None);
    assert!(server.asked("PUT /c/2.ics")[0].contains("if-none-match: *"));
    let error = server.collection().update("/c/3.ics", "\"a\nb\"", b"x").await;
    assert!(matches!(error, Err(PushError::Refused(_))), "{error:?}");
    // An item that XML can't hold is fetched by itself.
    let server = Scripted::start(&[
        ("REPORT /c/", list(&item("/c/1.ics", "<c:calendar-data>\u{1}</c:calendar-data>"))),
        ("GET /c/1.ics", answer("200 OK", "BEGIN:VCALENDAR\r\nX:\u{1}")),
    ])
    .await;
    let fetched = server.collection().fetch(&["/c/1.ics".to_owned(), "/c/2.ics".to_owned()]).await.unwrap();
    assert!(matches!(&fetched[0].what, Found::Here { bytes, .. } if bytes == b"BEGIN:VCALENDAR\r\nX:\x01"));
    assert_eq!(fetched[1].what, Found::Missing);
}

#[tokio::test]
async fn what_is_named_twice_is_one() {
    let data = |n: u8| format!("<d:getetag>\"{n}\"</d:getetag><c:calendar-data>BEGIN:VCALENDAR {n}</c:calendar-data>");
    let all = item("/c/1.ics", &data(1))
        + &bare("/c/1.ics", "404 Not Found")
        + &item("/c/1.ics", &data(2))
        + &item("/c/2.ics", "")
        + &item("/c/2.ics", "")
        + &bare("/c/3.ics", "404 Not Found")
        + &bare("/c/3.ics", "410 Gone");
    let server =
        Scripted::start(&[("REPORT /c/", list(&all)), ("GET /c/2.ics", answer("200 OK", "BEGIN:VCALENDAR"))]).await;
    let hrefs = ["/c/1.ics", "/c/2.ics", "/c/3.ics"].map(str::to_owned);
    let fetched = server.collection().fetch(&hrefs).await.unwrap();
    assert_eq!(fetched.iter().map(|fetched| &fetched.href).collect::<Vec<_>>(), hrefs.iter().collect::<Vec<_>>());
    assert!(matches!(&fetched[0].what, Found::Here { etag: Some(etag), .. } if etag == "\"2\""), "{fetched:?}");
    assert!(matches!(&fetched[1].what, Found::Here { etag: None, .. }), "{fetched:?}");
    assert_eq!(fetched[2].what, Found::Missing);
    assert_eq!(server.asked("GET").len(), 1);
}

#[tokio::test]
async fn what_is_no_item_replaces_none() {
    let data = |data: &str| format!("<d:getetag>\"1\"</d:getetag><c:calendar-data>{data}</c:calendar-data>");
    let all = item("/c/1.ics", &data(""))
        + &item("/c/2.ics", &data("&lt;p>log in"))
        + &item("/c/3.ics", &data("BEGIN:VCARD"));
    let page = answer("200 OK", "<html>log in</html>");
    let server = Scripted::start(&[
        ("REPORT /c/", list(&all)),
        ("GET /c/1.ics", page.clone()),
        ("GET /c/2.ics", answer("200 OK", "")),
        // The item itself is better than what the list said of it.
        ("GET /c/3.ics", answer("200 OK", "\u{feff}BEGIN:VCALENDAR\r\n")),
    ])
    .await;
    let hrefs = ["/c/1.ics", "/c/2.ics", "/c/3.ics"].map(str::to_owned);
    let fetched = server.collection().fetch(&hrefs).await.unwrap();
    for fetched in &fetched[..2] {
        let Found::Unreadable(why) = &fetched.what else { panic!("{fetched:?}") };
        assert!(why.contains(&fetched.href) && why.contains("does not begin with BEGIN:VCALENDAR"), "{why}");
    }
    assert!(matches!(&fetched[2].what, Found::Here { .. }), "{fetched:?}");
    // A proxy that answers all with its page.
    let server = Scripted::start(&[("REPORT /c/", page.clone()), ("GET /c/1.ics", page)]).await;
    let fetched = server.collection().fetch(&hrefs[..1]).await.unwrap();
    assert!(matches!(fetched[0].what, Found::Unreadable(_)), "{fetched:?}");
}

#[tokio::test]
async fn an_account_has_no_end_of_collections() {
    let calendar = "<d:resourcetype><d:collection/><c:calendar/></d:resourcetype>";
    let principal = "<d:current-user-principal><d:href>/p/</d:href></d:current-user-principal>";
    let home = "<c:calendar-home-set><d:href>/h/</d:href></c:calendar-home-set>";
    for (n, fits) in [(1_000, true), (1_001, false)] {
        let all: String = (0..n).map(|n| item(&format!("/h/{n}/"), calendar)).collect();
        let server = Scripted::start(&[
            ("PROPFIND /.well-known/caldav", list(&item("/", principal))),
            ("PROPFIND /p/", list(&item("/p/", home))),
            ("PROPFIND /h/", list(&all)),
        ])
        .await;
        let found = server.client().collections(Kind::Calendar).await;
        assert_eq!(found.as_ref().map(Vec::len).ok(), fits.then_some(n), "{found:?}");
        assert!(fits || found.unwrap_err().to_string().contains("more than 1000 collections"));
    }
}

#[tokio::test]
async fn a_collection_that_moved_is_not_empty() {
    let to = |place: &str| status("301 Moved Permanently", &format!("location: {place}\r\n"));
    let all = item("/new/", "<s:getctag>7</s:getctag>") + &item("/new/1.ics", "<d:getetag>\"1\"</d:getetag>");
    let all = list(&(all + "<d:sync-token>t1</d:sync-token>"));
    let server = Scripted::start(&[
        ("REPORT /c/", to("/new/")),
        ("REPORT /new/", all.clone()),
        ("PROPFIND /c/", to("/new/")),
        ("PROPFIND /new/", all.clone()),
    ])
    .await;
    let collection = server.collection();
    for since in [None, Some("token:t0"), Some("ctag:6")] {
        let error = collection.changes(since).await.unwrap_err();
        let said = "/c/ at 127.0.0.1 has moved to /new/; name it by that path in `calendars` or `address_book`";
        assert_eq!(error.to_string(), said, "{since:?}");
    }
    assert!(matches!(collection.fetch(&["/c/1.ics".to_owned()]).await, Err(DavError::Moved { .. })));
    // A slash is no other place.
    let one = list(&(item("/c/1.ics", "<d:getetag>\"1\"</d:getetag>") + "<d:sync-token>t1</d:sync-token>"));
    let server = Scripted::start(&[("REPORT /c/", to("/c")), ("REPORT /c", one)]).await;
    assert_eq!(page(&server.collection(), None).await.changed.len(), 1);
}
