//! Against the real Radicale, which `.ci/run` installs.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use base::Secret;
use what_was_left_out::left_out;

use super::faults::{FaultyRemote, FaultyStore, Fuse, until_killed};
use super::memory::MemoryStore;
use super::random::Random;
use crate::http::{Ask, Server};
use crate::lines::statements;
use crate::sync::{Changes, ConflictKind, Found, Next, Options, PushError, Remote, sync};
use crate::{Client, Collection, CollectionInfo, Credentials, DavError, Kind};

/// The server; it ends with this, or with this process.
struct Radicale {
    child: Child,
    url: String,
}

impl Drop for Radicale {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

impl Radicale {
    fn start(test: &str) -> Option<Self> {
        let Some(python) = std::env::var_os("BUTLERD_TEST_RADICALE") else {
            left_out(test, "BUTLERD_TEST_RADICALE is not set; `eval \"$(.ci/run clients)\"` installs Radicale");
            return None;
        };
        let mut command = Command::new(python);
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/clients/dav/server.py"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("Radicale starts");
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        let url = format!("http://127.0.0.1:{}/", port.trim());
        Some(Self { child, url })
    }

    fn login(user: &str, password: &str) -> Credentials {
        Credentials::Basic { user: user.into(), password: Secret::new(password.into()) }
    }

    fn client(&self, user: &str, password: &str) -> Client {
        Client::new(&self.url, Self::login(user, password)).unwrap()
    }

    /// Makes a collection of ada's.
    async fn make(&self, kind: Kind, name: &str) -> Collection {
        let server = Server::new(&self.url, Self::login("ada", "secret1")).unwrap();
        let path = format!("/ada/{name}/");
        let ask = match kind {
            Kind::Calendar => Ask::new("MKCALENDAR", &path, "create"),
            Kind::Contacts => Ask::new("MKCOL", &path, "create").xml(
                "<d:mkcol xmlns:d=\"DAV:\" xmlns:a=\"urn:ietf:params:xml:ns:carddav\"><d:set><d:prop><d:resourcetype>\
                 <d:collection/><a:addressbook/></d:resourcetype><d:displayname>People &amp; more</d:displayname></d:prop>\
                 </d:set></d:mkcol>"
                    .into(),
            ),
        };
        server.send(&ask).await.unwrap();
        self.client("ada", "secret1").collection(kind, &path).unwrap()
    }
}

fn event(uid: &str, summary: &str) -> Vec<u8> {
    format!(
        "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//t//t//EN\r\nBEGIN:VEVENT\r\nUID:{uid}\r\nDTSTAMP:20260101T000000Z\r\n\
         DTSTART:20260329T090000Z\r\nDTEND:20260329T100000Z\r\nSUMMARY:{summary}\r\nLOCATION:x\r\nEND:VEVENT\r\n\
         END:VCALENDAR\r\n"
    )
    .into_bytes()
}

async fn page(collection: &Collection, since: Option<&str>) -> (Vec<(String, String)>, Vec<String>, String) {
    let Changes::Page(page) = collection.changes(since).await.unwrap() else { panic!("it is a page") };
    assert_eq!(page.whole, since.is_none());
    let Next::Done(Some(cursor)) = page.next else { panic!("{:?}", page.next) };
    (page.changed, page.gone, cursor)
}

#[tokio::test]
async fn collections_are_found_and_strangers_are_refused() {
    let Some(radicale) = Radicale::start("radicale::collections_are_found_and_strangers_are_refused") else { return };
    radicale.make(Kind::Calendar, "cal").await;
    radicale.make(Kind::Contacts, "people").await;
    let ada = radicale.client("ada", "secret1");
    let found = ada.collections(Kind::Calendar).await.unwrap();
    let [CollectionInfo { path, name, read_only: false, syncs: true, components, .. }] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!((path.as_str(), name.as_str()), ("/ada/cal/", "ada/cal"));
    assert!(components.contains(&"VEVENT".to_owned()) && found[0].ctag.is_some() && found[0].sync_token.is_some());
    let found = ada.collections(Kind::Contacts).await.unwrap();
    assert_eq!(found.iter().map(|info| info.name.as_str()).collect::<Vec<_>>(), ["People & more"]);
    // The address of a collection is good enough.
    let url = format!("{}ada/cal/", radicale.url);
    let near = Client::new(&url, Radicale::login("ada", "secret1")).unwrap();
    assert_eq!(near.collections(Kind::Calendar).await.unwrap().len(), 1);

    let wrong = radicale.client("ada", "secret-of-nobody").collections(Kind::Calendar).await.unwrap_err();
    let said = wrong.to_string();
    assert!(matches!(wrong, DavError::Unauthorized { .. }), "{wrong:?}");
    assert!(said.starts_with("127.0.0.1 does not accept the user name or the password; check it"), "{said}");
    let bob = radicale.client("bob", "secret2").collection(Kind::Calendar, "/ada/cal/").unwrap();
    let refused = bob.changes(None).await.unwrap_err();
    let said = "127.0.0.1 does not let this account read /ada/cal/; ask its owner for the right, or leave it out";
    assert_eq!(refused.to_string(), said);
    let refused = bob.create("/ada/cal/x.ics", &event("x", "x")).await.unwrap_err();
    assert!(matches!(&refused, PushError::Refused(why) if why.contains("create /ada/cal/x.ics")), "{refused:?}");
    // Nobody listens there.
    let nobody = tokio::net::TcpSocket::new_v4().unwrap();
    nobody.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}/", nobody.local_addr().unwrap());
    let away = Client::new(&url, Radicale::login("ada", "x")).unwrap().collections(Kind::Calendar).await.unwrap_err();
    assert!(matches!(away, DavError::Later { .. }), "{away:?}");
}

#[tokio::test]
async fn writes_hold_to_etags_and_changes_to_tokens() {
    let Some(radicale) = Radicale::start("radicale::writes_hold_to_etags_and_changes_to_tokens") else { return };
    let cal = radicale.make(Kind::Calendar, "cal").await;
    let (first, second) = ("/ada/cal/1@x.ics", "/ada/cal/2%20b.ics");
    let stored = cal.create(first, &event("1", "one")).await.unwrap();
    cal.create(second, &event("2", "two")).await.unwrap();
    assert!(matches!(cal.create(first, &event("1", "other")).await, Err(PushError::Changed)));
    let (changed, gone, token) = page(&cal, None).await;
    let etag = stored.etag.expect("Radicale tells etags");
    assert!(changed.contains(&(first.to_owned(), etag.clone())) && changed.len() == 2, "{changed:?}");
    assert_eq!(gone, [] as [&str; 0]);

    let newer = cal.update(first, &etag, &event("1", "uno")).await.unwrap().etag.unwrap();
    assert_ne!(newer, etag);
    assert!(matches!(cal.update(first, &etag, &event("1", "eins")).await, Err(PushError::Changed)));
    assert!(matches!(cal.delete(first, &etag).await, Err(PushError::Changed)));
    let (changed, gone, later) = page(&cal, Some(&token)).await;
    assert_eq!((changed, gone), (vec![(first.to_owned(), newer.clone())], vec![]));
    cal.delete(first, &newer).await.unwrap();
    assert!(matches!(cal.delete(first, &newer).await, Err(PushError::Missing | PushError::Changed)));
    let (changed, gone, last) = page(&cal, Some(&later)).await;
    assert_eq!((changed, gone), (vec![], vec![first.to_owned()]));
    let (changed, gone, _) = page(&cal, Some(&last)).await;
    assert_eq!((changed.len(), gone.len()), (0, 0));
    for bogus in ["token:http://radicale.org/ns/sync/0000000000000000", "token:nonsense", "else"] {
        let changes = cal.changes(Some(bogus)).await.unwrap();
        // What is no cursor of ours lists everything.
        let whole = matches!(&changes, Changes::Page(page) if page.whole && page.changed.len() == 1);
        assert!(changes == Changes::Expired || bogus == "else" && whole, "{bogus}: {changes:?}");
    }
    let hrefs = [first.to_owned(), second.to_owned()];
    let fetched = cal.fetch(&hrefs).await.unwrap();
    let what = |href: &str| &fetched.iter().find(|fetched| fetched.href == href).unwrap().what;
    assert_eq!(what(first), &Found::Missing);
    let Found::Here { bytes, .. } = what(second) else { panic!("{fetched:?}") };
    assert!(String::from_utf8_lossy(bytes).contains("SUMMARY:two\r\n"));
    // As with a server that has no tokens.
    let Changes::Page(listed) = cal.changes(Some("ctag:old")).await.unwrap() else { panic!("it is a page") };
    assert!(listed.whole && listed.changed.len() == 1, "{listed:?}");
    let Next::Done(Some(ctag)) = listed.next else { panic!("{:?}", listed.next) };
    let Changes::Page(same) = cal.changes(Some(&ctag)).await.unwrap() else { panic!("it is a page") };
    assert!(!same.whole && same.changed.is_empty() && same.next == Next::Done(Some(ctag)), "{same:?}");
}

#[tokio::test]
async fn two_houses_edit_one_calendar_and_are_killed() {
    let Some(radicale) = Radicale::start("radicale::two_houses_edit_one_calendar_and_are_killed") else { return };
    let cal = radicale.make(Kind::Calendar, "cal").await;
    let seed =
        std::env::var("DAV_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(u64::from(std::process::id()));
    println!("DAV_SEED={seed}");
    let mut random = Random::new(seed);
    let houses = [MemoryStore::default(), MemoryStore::default()];
    let mut made = 0;
    for round in 0..60 {
        let house = &houses[random.below(2)];
        for _ in 0..random.below(3) {
            let shown = house.shown();
            match random.of(&shown).cloned() {
                Some((id, bytes)) if random.percent(60) => {
                    let (field, text) = (["SUMMARY:", "LOCATION:"][random.below(2)], String::from_utf8(bytes).unwrap());
                    let line = text.lines().find(|line| line.starts_with(field)).unwrap();
                    house.edit(id, Some(text.replace(line, &format!("{field}edit {round}")).into_bytes()));
                }
                Some((id, _)) if random.percent(30) => house.edit(id, None),
                _ => {
                    made += 1;
                    house.add(event(&format!("e{made}"), "new"));
                }
            }
        }
        let fuse = Fuse::new(random.percent(50).then(|| random.below(25)), 10, random.next());
        let (remote, store) = (FaultyRemote { inner: &cal, fuse: &fuse }, FaultyStore { inner: house, fuse: &fuse });
        let options = Options { believe_mass_deletion: true, ..Options::default() };
        // How it ends is no matter; the next run goes on.
        let _ = until_killed(sync(&remote, &store, options), &fuse).await;
    }
    for _ in 0..3 {
        for house in &houses {
            let report = sync(&cal, house, Options::default()).await.unwrap();
            assert!(report.refused.is_empty() && report.held.is_none(), "{report:?}");
        }
    }
    let sorted = |house: &MemoryStore| {
        let mut all: Vec<Vec<u8>> = house.shown().into_iter().map(|(_, bytes)| bytes).collect();
        all.sort();
        all
    };
    let (one, two) = (sorted(&houses[0]), sorted(&houses[1]));
    assert!(houses.iter().all(|house| !house.is_pending()));
    assert_eq!(one, two);
    assert!(made > 5 && !one.is_empty());
    let mut uids: Vec<_> = one.iter().map(|bytes| crate::uid(bytes).unwrap()).collect();
    uids.dedup();
    assert_eq!(uids.len(), one.len(), "doubled");
    let (listed, _, _) = page(&cal, None).await;
    assert_eq!(listed.len(), one.len());
}

/// Sends items through one house into another; each is compared with what was made.
async fn through(collection: &Collection, items: Vec<Vec<u8>>) {
    let (here, there) = (MemoryStore::default(), MemoryStore::default());
    let count = items.len();
    items.iter().for_each(|bytes| here.add(bytes.clone()));
    let report = sync(collection, &here, Options::default()).await.unwrap();
    assert_eq!((report.pushed, &report.refused, report.conflicts), (count, &vec![], 0));
    let report = sync(collection, &there, Options::default()).await.unwrap();
    assert_eq!((report.pulled, &report.unreadable, report.conflicts), (count, &vec![], 0));
    let find = |house: &MemoryStore, uid: &str| {
        let shown = house.shown();
        shown.into_iter().find(|(_, bytes)| crate::uid(bytes).as_deref() == Some(uid)).unwrap()
    };
    for bytes in &items {
        let uid = crate::uid(bytes).unwrap();
        let (own, (id, other)) = (find(&here, &uid).1, find(&there, &uid));
        assert_eq!(own, other, "{uid}");
        assert_eq!(statements(&other), statements(bytes), "{uid}");
        let edited = String::from_utf8(other).unwrap().replacen("UID:", "X-EDITED:yes\r\nUID:", 1);
        there.edit(id, Some(edited.into_bytes()));
    }
    let report = sync(collection, &there, Options::default()).await.unwrap();
    assert_eq!((report.pushed, report.conflicts), (count, 0));
    sync(collection, &here, Options::default()).await.unwrap();
    for bytes in &items {
        let after = find(&here, &crate::uid(bytes).unwrap()).1;
        let mut wanted = statements(bytes);
        wanted.push("X-EDITED:yes".into());
        wanted.sort();
        assert_eq!(statements(&after), wanted);
    }
}

#[tokio::test]
async fn two_hundred_contacts_go_in_and_out() {
    let Some(radicale) = Radicale::start("radicale::two_hundred_contacts_go_in_and_out") else { return };
    let book = radicale.make(Kind::Contacts, "people").await;
    let card = |n: usize| {
        let photo = crate::lines::folded(&match n % 4 {
            0 => format!("PHOTO;ENCODING=b;TYPE=JPEG:{}", "QUJD".repeat(200 + n)),
            1 => format!("PHOTO;MEDIATYPE=image/jpeg:https://pictures.example/{}.jpg", "a".repeat(200 + n)),
            _ => "X-NONE:1".to_owned(),
        });
        let version = if n.is_multiple_of(4) { "3.0" } else { "4.0" };
        let mut bytes = format!(
            "BEGIN:VCARD\r\nVERSION:{version}\r\nUID:urn:uuid:c-{n}\r\nFN:Ädá {n}\\, Dr.\r\nN:Ädá;Łu {n};;Dr.;\r\n\
             item1.TEL;TYPE=cell:+49 30 {n}\r\nitem1.X-ABLabel:_$!<Work>!$_\r\nEMAIL;TYPE=work:a{n}@example.org\r\n\
             X-UNKNOWN;X-P=\"a;b\":kept as it is \\n{n}\r\nNOTE:first\\nsecond\\; {}\r\nCATEGORIES:friends,x{n}\r\n",
            "long words and 漢字 ".repeat(n % 9)
        )
        .into_bytes();
        bytes.extend(photo);
        bytes.extend(b"END:VCARD\r\n");
        bytes
    };
    through(&book, (0..200).map(card).collect()).await;
}

#[tokio::test]
async fn what_the_server_spoils_is_on_record() {
    let Some(radicale) = Radicale::start("radicale::what_the_server_spoils_is_on_record") else { return };
    let book = radicale.make(Kind::Contacts, "people").await;
    let house = MemoryStore::default();
    // Radicale 3.9.0 with vobject 0.9.9 cuts a picture of vCard 4 at its comma.
    let photo = "PHOTO:data:image/jpeg;base64,QUJD";
    let card = format!("BEGIN:VCARD\r\nVERSION:4.0\r\nUID:p\r\nFN:Ada\r\nN:Ada;;;;\r\n{photo}\r\nEND:VCARD\r\n");
    house.add(card.clone().into_bytes());
    let report = sync(&book, &house, Options::default()).await.unwrap();
    assert_eq!((report.pushed, report.conflicts), (1, 1));
    let state = house.state();
    let conflict = &state.conflicts[0];
    assert_eq!((conflict.kind, conflict.ours.as_deref()), (ConflictKind::Rewritten, Some(card.as_bytes())));
    assert_eq!(state.items[0].ours, conflict.theirs);
}

#[tokio::test]
async fn two_hundred_events_go_in_and_out() {
    let Some(radicale) = Radicale::start("radicale::two_hundred_events_go_in_and_out") else { return };
    let cal = radicale.make(Kind::Calendar, "cal").await;
    let event = |n: usize| {
        format!(
            "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//t//t//EN\r\nBEGIN:VEVENT\r\nUID:v{n}\r\nDTSTAMP:20260101T000000Z\r\n\
             DTSTART;VALUE=DATE:202603{:02}\r\nRRULE:FREQ=WEEKLY;COUNT=5\r\nSUMMARY:Ä {n}\\, b\r\nX-UNKNOWN;A=b:c {n}\r\n\
             ATTENDEE;CN=\"B, C\";PARTSTAT=NEEDS-ACTION:mailto:b@example.org\r\nBEGIN:VALARM\r\nACTION:DISPLAY\r\n\
             DESCRIPTION:x\r\nTRIGGER:-PT5M\r\nEND:VALARM\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n",
            n % 28 + 1
        )
        .into_bytes()
    };
    through(&cal, (0..200).map(event).collect()).await;
}
