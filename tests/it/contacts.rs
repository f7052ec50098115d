//! Address books and the people of the house: both ways, by identity for certain and by name on a person's word.

use serde_json::{Value, json};

use crate::inbound::{ended, ingest, message};
use crate::support::radicale::Server;
use crate::support::tally::random;
use crate::support::{Daemon, Household, Mcp, eventually, model};

/// A real CardDAV server with an address book of ada's.
pub struct Radicale {
    server: Server,
}

pub const BOOK: &str = "/ada/people/";

impl Radicale {
    pub async fn start(test: &str) -> Option<Self> {
        let radicale = Self { server: Server::start(test)? };
        radicale.make_book().await;
        Some(radicale)
    }

    /// Makes an address book with nothing in it.
    pub async fn make_book(&self) {
        let body = "<d:mkcol xmlns:d=\"DAV:\" xmlns:a=\"urn:ietf:params:xml:ns:carddav\"><d:set><d:prop><d:resourcetype>\
                    <d:collection/><a:addressbook/></d:resourcetype></d:prop></d:set></d:mkcol>";
        let (status, said) = self.ask("MKCOL", BOOK, body).await;
        assert_eq!(status, 201, "{said}");
    }

    pub async fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        self.server.ask(method, path, body.to_owned()).await
    }

    pub async fn put(&self, name: &str, card: &str) {
        let (status, said) = self.ask("PUT", &format!("{BOOK}{name}.vcf"), card).await;
        assert!(matches!(status, 201 | 204), "{name}: {status} {said}");
    }

    pub async fn delete(&self, name: &str) {
        assert_eq!(self.ask("DELETE", &format!("{BOOK}{name}.vcf"), "").await.0, 200);
    }

    pub async fn get(&self, name: &str) -> String {
        let (status, card) = self.ask("GET", &format!("{BOOK}{name}.vcf"), "").await;
        assert_eq!(status, 200, "{name}");
        card
    }

    /// All cards, each with its name.
    pub async fn all(&self) -> Vec<(String, String)> {
        let ask = "<d:propfind xmlns:d=\"DAV:\"><d:prop><d:getetag/></d:prop></d:propfind>";
        let (_, listed) = self.ask("PROPFIND", BOOK, ask).await;
        let mut cards = Vec::new();
        for piece in listed.split(BOOK).skip(1) {
            if let Some(name) = piece.split('<').next().and_then(|name| name.strip_suffix(".vcf")) {
                cards.push((name.to_owned(), self.get(name).await));
            }
        }
        cards
    }
}

pub fn card(uid: &str, name: &str, more: &[&str]) -> String {
    let more: String = more.iter().map(|line| format!("{line}\r\n")).collect();
    format!("BEGIN:VCARD\r\nVERSION:3.0\r\nUID:{uid}\r\nFN:{name}\r\nN:{name};;;;\r\n{more}END:VCARD\r\n")
}

fn with_section(household: Household, section: &str) -> Household {
    let file = household.roster().join("general/butler.toml");
    let before = std::fs::read_to_string(file).expect("the file");
    household.write("general/butler.toml", &format!("{before}\n[modules.contacts]\n{section}\n"))
}

pub fn with_book(household: Household, radicale: &Radicale) -> Household {
    let section = format!(
        "provider = \"carddav\"\nurl = \"{}{BOOK}\"\nuser = \"ada\"\n[modules.contacts.sync]\ninterval_minutes = 1440\n",
        radicale.server.url
    );
    with_section(household, &section).env("BUTLER_CONTACTS_PASSWORD", "secret1")
}

pub async fn sync(butler: &Mcp) -> Value {
    let ran = butler.ok("contacts_sync_now", json!({})).await;
    assert_eq!(ran["status"], "ok", "{ran}");
    ran["source"].clone()
}

/// Who is known by which identity: `name channel identity`, sorted.
pub async fn people(daemon: &Daemon) -> Vec<String> {
    let list = daemon.mcp("switchboard").ok("contact_identity_list", json!({})).await;
    let line = |one: &Value| ["name", "channel", "identity"].map(|key| one[key].as_str().expect("a text")).join(" ");
    let mut lines: Vec<String> = list.as_array().expect("a list").iter().map(line).collect();
    lines.sort();
    lines
}

pub async fn add(daemon: &Daemon, name: &str, channel: &str, identity: &str) -> String {
    let args = json!({"name": name, "channel": channel, "identity": identity});
    let added = daemon.mcp("switchboard").ok("contact_identity_add", args).await;
    added["contact_id"].as_str().unwrap_or_else(|| panic!("{added}")).to_owned()
}

async fn proposals(butler: &Mcp) -> Vec<Value> {
    let shown = butler.ok("contacts_source_reconcile", json!({})).await;
    shown["proposals"].as_array().unwrap_or_else(|| panic!("{shown}")).clone()
}

async fn reconcile(butler: &Mcp, args: Value) -> Value {
    let done = butler.ok("contacts_source_reconcile", args).await;
    assert_eq!(done["status"], "ok", "{done}");
    done
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contacts_go_both_ways_and_deletions_archive() {
    let Some(radicale) = Radicale::start("contacts::contacts_go_both_ways_and_deletions_archive").await else { return };
    radicale.put("bea", &card("bea", "Bea", &["EMAIL:bea@example.org", "X-ODD;P=\"a;b\":kept"])).await;
    radicale.put("all", "BEGIN:VCARD\r\nVERSION:4.0\r\nKIND:group\r\nUID:all\r\nFN:All\r\nN:All;;;;\r\nEMAIL:all@example.org\r\nEND:VCARD\r\n").await;
    let household = with_book(Household::new(), &radicale);
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    add(&daemon, "Carl", "email", "carl@example.org").await;
    add(&daemon, "Bea B.", "phone", "+49 30 1").await;
    let ran = sync(&butler).await;
    assert_eq!((&ran["cards"], &ran["to_push"]), (&json!(4), &json!(0)), "{ran}");
    let known = ["Bea B. phone +49 30 1", "Bea email bea@example.org", "Carl email carl@example.org"];
    assert_eq!(people(&daemon).await, known);
    let cards = radicale.all().await;
    let with = |text: &str| cards.iter().filter(|(_, card)| card.contains(text)).count();
    assert_eq!((cards.len(), with("carl@example.org"), with("kept"), with("KIND:group")), (4, 1, 1, 1), "{cards:?}");

    // The house learns a number; the address book another address.
    add(&daemon, "Bea", "phone", "+4930777").await;
    let carl = cards.iter().find(|(_, card)| card.contains("carl@")).expect("carl's");
    radicale.put(&carl.0, &carl.1.replace("carl@", "karl@").replace("FN:Carl", "FN:Karl")).await;
    sync(&butler).await;
    let bea = radicale.get("bea").await;
    assert!(bea.contains("+4930777") && bea.contains("X-ODD") && bea.contains("kept"), "{bea}");
    let now = people(&daemon).await;
    assert!(now.contains(&"Karl email karl@example.org".to_owned()), "{now:?}");
    assert!(!now.iter().any(|line| line.contains("carl@")), "{now:?}");
    // The same again changes nothing.
    let before = radicale.all().await;
    let ran = sync(&butler).await;
    assert_eq!((&ran["last_run"]["pulled"], &ran["last_run"]["pushed"]), (&json!(0), &json!(0)), "{ran}");
    assert_eq!(radicale.all().await, before);

    // What the address book deletes is archived, and comes back.
    radicale.delete("bea").await;
    let ran = sync(&butler).await;
    assert_eq!((&ran["cards"], &ran["archived"]), (&json!(3), &json!(1)), "{ran}");
    let db = household.owner().await;
    let sql = "SELECT c.archived_at IS NOT NULL, k.ours IS NOT NULL FROM shared.contacts c
               JOIN shared.contact_links l ON l.contact = c.id JOIN shared.contact_cards k ON k.id = l.card
               WHERE c.name = 'Bea' AND k.archived_at IS NOT NULL";
    let row = db.query_one(sql, &[]).await.expect("Bea");
    // The house itself knows her number, so she stays.
    assert_eq!((row.get::<_, bool>(0), row.get::<_, bool>(1)), (false, true));
    let believed = "SELECT believed FROM shared.contact_identities WHERE identity = 'bea@example.org'";
    assert_eq!(db.query_one(believed, &[]).await.expect("her address").get::<_, String>(0), "stranger");
    radicale.delete(&carl.0).await;
    sync(&butler).await;
    assert!(!people(&daemon).await.iter().any(|line| line.starts_with("Carl") || line.starts_with("Karl")));
    radicale.put("bea2", &card("bea2", "Bea", &["EMAIL:bea@example.org"])).await;
    sync(&butler).await;
    assert_eq!(db.query_one(believed, &[]).await.expect("her address").get::<_, String>(0), "known");
    let beas = "SELECT count(*) FROM shared.contacts WHERE name = 'Bea'";
    assert_eq!(db.query_one(beas, &[]).await.expect("a count").get::<_, i64>(0), 1);

    // A lost cursor lists everything and doubles nothing.
    db.execute("UPDATE shared.contact_sources SET cursor = 'token:http://radicale.org/ns/sync/00'", &[])
        .await
        .expect("lost");
    let before = people(&daemon).await;
    let ran = sync(&butler).await;
    assert_eq!((&ran["last_run"]["listed"], people(&daemon).await), (&json!(true), before), "{ran}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_is_a_proposal_and_each_decision_is_taken_back() {
    let Some(radicale) = Radicale::start("contacts::a_name_is_a_proposal_and_each_decision_is_taken_back").await else {
        return;
    };
    radicale.put("bea", &card("bea", "Bea", &["EMAIL:bea@home.example"])).await;
    radicale.put("dan", &card("dan", "Daniel", &["EMAIL:dan@example.org", "TEL:+41 79 1"])).await;
    let household = with_book(Household::new(), &radicale);
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    // By its identity a card is Dan's for certain, whatever he is called there.
    eventually("the first sync", || async {
        let status = butler.ok("contacts_sync_status", json!({})).await;
        if status["sources"][0]["state"] == "ok" { Ok(()) } else { Err(status.to_string()) }
    })
    .await;
    let bea = add(&daemon, "Beatrix", "telegram", "@bea").await;
    add(&daemon, "Dan", "email", "dan@work.example").await;
    radicale.put("dan2", &card("dan2", "Daniel W.", &["EMAIL:dan@example.org", "EMAIL:dan@work.example"])).await;
    radicale.put("bea2", &card("bea2", "BEATRIX", &["EMAIL:bea@example.org"])).await;
    sync(&butler).await;
    let open = proposals(&butler).await;
    let kinds: Vec<(&str, &str)> = open
        .iter()
        .map(|p| (p["kind"].as_str().expect("a kind"), p["card_says"]["name"].as_str().expect("a name")))
        .collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == ("name", "BEATRIX")).count(), 1, "{kinds:?}");
    assert_eq!(kinds.iter().filter(|kind| **kind == ("identity", "Daniel W.")).count(), 2, "{kinds:?}");
    assert!(!people(&daemon).await.iter().any(|line| line.contains("bea@example.org")), "nobody said so yet");

    // Accepted, taken back, rejected.
    let proposal = |open: &[Value], name: &str| {
        let found = open.iter().find(|p| p["card_says"]["name"] == name);
        found.unwrap_or_else(|| panic!("{name}: {open:?}"))["proposal_id"].clone()
    };
    let beatrix = proposal(&open, "BEATRIX");
    reconcile(&butler, json!({"action": "accept", "proposal_id": beatrix})).await;
    assert!(people(&daemon).await.contains(&"Beatrix email bea@example.org".to_owned()));
    let again = butler.ok("contacts_source_reconcile", json!({"action": "accept", "proposal_id": beatrix})).await;
    assert_eq!(again["code"], "not_found", "{again}");
    let undo = || {
        let (code, out, err) = household.cli(&["undo", "--json"]);
        assert_eq!(code, 0, "{out}{err}");
        let calls: Value = serde_json::from_str(&out).expect("JSON");
        let call = calls["items"][0].clone();
        assert_eq!(call["tool"], "contacts_source_reconcile", "{out}");
        let (code, out, err) = household.cli(&["undo", call["call"].as_str().expect("a call")]);
        assert_eq!(code, 0, "{out}{err}");
    };
    undo();
    sync(&butler).await;
    assert!(!people(&daemon).await.iter().any(|line| line.contains("bea@example.org")), "{:?}", people(&daemon).await);
    let open = proposals(&butler).await;
    let (code, out, err) = {
        let id = proposal(&open, "BEATRIX");
        household.cli(&["contacts", "reject", id.as_str().expect("an id"), "--butler", "general"])
    };
    assert_eq!(code, 0, "{out}{err}");
    sync(&butler).await;
    let now = people(&daemon).await;
    assert!(now.contains(&"BEATRIX email bea@example.org".to_owned()), "somebody else of this name: {now:?}");

    // Two are one after all, and two again.
    let db = household.owner().await;
    let who = async |identity: &str| {
        let sql = "SELECT contact_id::text FROM shared.contact_identities WHERE identity = $1";
        db.query_one(sql, &[&identity]).await.expect("a contact").get::<_, String>(0)
    };
    let other = who("bea@example.org").await;
    assert_ne!(other, bea);
    let before = people(&daemon).await;
    let cli = |args: &[&str]| {
        let all = [&["contacts"], args, &["--butler", "general"]].concat();
        let (code, out, err) = household.cli(&all);
        assert_eq!(code, 0, "{args:?}: {out}{err}");
        out
    };
    assert!(cli(&["matches"]).contains("Daniel W.") && cli(&["matches", "dan"]).contains("Daniel W."));
    assert!(cli(&["sync"]).contains("0 archived"));
    // Two of one name are told apart by their ids alone.
    let named = |one: &str, into: &str| household.cli(&["contacts", "merge", one, into, "--butler", "general"]);
    let (code, _, err) = named("beatrix", "Nobody Else");
    assert!(code != 0 && err.contains(&other) && err.contains("bea@example.org"), "{err}");
    let (code, _, err) = named(&other, "Nobody Else");
    assert!(code != 0 && err.contains("No contact is called Nobody Else"), "{err}");
    cli(&["merge", &other, &bea]);
    assert_eq!(who("bea@example.org").await, bea);
    let entities = "SELECT count(*) FROM shared.entities WHERE lower(name) = 'beatrix' AND merged_into IS NULL";
    assert_eq!(db.query_one(entities, &[]).await.expect("a count").get::<_, i64>(0), 1);
    undo();
    assert_eq!((who("bea@example.org").await, people(&daemon).await), (other.clone(), before));
    reconcile(&butler, json!({"action": "merge", "contact_id": other, "into": bea})).await;
    let ran = sync(&butler).await;
    let cards = butler.ok("contacts_source_reconcile", json!({"contact_id": bea})).await["cards"].clone();
    assert_eq!(cards.as_array().map(Vec::len), Some(2), "hers and that of the house's: {cards} {ran}");
    let split = cards.as_array().expect("cards").iter().find(|card| card["name"] == "BEATRIX").expect("the card");
    let split = split["card_id"].as_str().expect("an id");
    assert!(cli(&["matches", &bea]).contains(split));
    cli(&["split", split]);
    assert!(![bea.clone(), other.clone()].contains(&who("bea@example.org").await), "somebody new");
    undo();
    assert_eq!(who("bea@example.org").await, bea);
    sync(&butler).await;
    assert_eq!(who("bea@example.org").await, bea);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_merge_is_taken_back_once_the_address_book_has_it() {
    let Some(radicale) = Radicale::start("contacts::a_merge_is_taken_back_once_the_address_book_has_it").await else {
        return;
    };
    radicale.put("bea", &card("bea", "Bea", &["EMAIL:bea@example.org", "X-ODD;P=\"a;b\":kept"])).await;
    let household = with_book(Household::new(), &radicale);
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    // The first, by itself: a later one would give the other a card of her own.
    eventually("the first sync", || async {
        let status = butler.ok("contacts_sync_status", json!({})).await;
        if status["sources"][0]["state"] == "ok" { Ok(()) } else { Err(status.to_string()) }
    })
    .await;
    let lines = |card: &str| {
        let mut lines: Vec<String> = card.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let before = lines(&radicale.get("bea").await);
    let beatrix = add(&daemon, "Beatrix", "telegram", "beatrix1").await;
    let apart = people(&daemon).await;
    let whose = "SELECT contact_id::text FROM shared.contact_identities WHERE identity = 'bea@example.org'";
    let bea: String = household.owner().await.query_one(whose, &[]).await.expect("Bea").get(0);
    reconcile(&butler, json!({"action": "merge", "contact_id": beatrix, "into": bea})).await;
    sync(&butler).await;
    let cards = radicale.all().await;
    assert!(cards.len() == 1 && cards[0].1.contains("IMPP:tg:beatrix1"), "{cards:?}");
    assert_eq!(people(&daemon).await, ["Bea email bea@example.org", "Bea telegram beatrix1"]);
    let (code, out, err) = household.cli(&["undo", "--json"]);
    assert_eq!(code, 0, "{out}{err}");
    let calls: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(calls["items"][0]["tool"], "contacts_source_reconcile", "{out}");
    let (code, out, err) = household.cli(&["undo", calls["items"][0]["call"].as_str().expect("a call")]);
    assert_eq!(code, 0, "{out}{err}");
    // Her card is what it was, and the other has one of her own.
    sync(&butler).await;
    let ran = sync(&butler).await;
    assert_eq!(
        (&ran["last_run"]["pushed"], &ran["to_push"], &ran["conflicts"]),
        (&json!(0), &json!(0), &json!(0)),
        "{ran}"
    );
    assert_eq!(people(&daemon).await, apart);
    assert_eq!(lines(&radicale.get("bea").await), before);
    let cards = radicale.all().await;
    let hers: Vec<&String> = cards.iter().map(|(_, card)| card).filter(|card| card.contains("beatrix1")).collect();
    assert!(cards.len() == 2 && hers.len() == 1 && hers[0].contains("FN:Beatrix"), "{cards:?}");
    assert!(proposals(&butler).await.is_empty(), "nobody has to say anything");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_contacts_keep_what_nobody_knows() {
    let Some(radicale) = Radicale::start("contacts::two_hundred_contacts_keep_what_nobody_knows").await else { return };
    let seed =
        std::env::var("CONTACTS_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(u64::from(std::process::id()));
    println!("CONTACTS_SEED={seed}");
    let chance = |n: usize, of: u64| random(seed.wrapping_add(n as u64 * 1009)) % of;
    for n in 0..200 {
        let photo = format!("PHOTO;ENCODING=b;TYPE=JPEG:{}", "QUJD".repeat(10 + chance(n, 300) as usize));
        let mut more = vec![
            format!("EMAIL;TYPE=work:a{n}@example.org"),
            format!("item1.TEL;TYPE=cell:+49 30 {n:04}"),
            "item1.X-ABLabel:_$!<Work>!$_".to_owned(),
            format!("X-UNKNOWN;X-P=\"a;b\":kept as it is \\n{}", chance(n, 99)),
            format!("NOTE:first\\nsecond\\; {}", "long words and 漢字 ".repeat(chance(n, 9) as usize)),
        ];
        let version = if n % 2 == 0 { "3.0" } else { "4.0" };
        if n % 2 == 0 {
            more.push(photo);
        }
        if n % 20 == 19 {
            more = vec!["KIND:group".to_owned(), format!("MEMBER:urn:uuid:c-{}", n - 1)];
        }
        let more: Vec<&str> = more.iter().map(String::as_str).collect();
        let folded = card(&format!("urn:uuid:c-{n}"), &format!("Ädá {n}"), &more)
            .replace("VERSION:3.0", &format!("VERSION:{version}"));
        radicale.put(&format!("c{n}"), &folded).await;
    }
    let before: std::collections::BTreeMap<String, String> = radicale.all().await.into_iter().collect();
    let household = with_book(Household::new(), &radicale);
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    let ran = sync(&butler).await;
    assert_eq!((&ran["cards"], &ran["linked"], &ran["proposals"]), (&json!(200), &json!(190), &json!(0)), "{ran}");
    assert_eq!(people(&daemon).await.len(), 380);
    // Those whom the house touches get a line, and no other of theirs changes; the rest stays as it is, byte for byte.
    let touched: Vec<usize> = (0..200).filter(|n| n % 20 != 19 && chance(n + 500, 4) == 0).collect();
    for n in &touched {
        add(&daemon, &format!("Ädá {n}"), "telegram", &format!("tg{n}")).await;
    }
    let ran = sync(&butler).await;
    assert_eq!(ran["to_push"], 0, "{ran}");
    let db = household.owner().await;
    for (name, after) in radicale.all().await {
        let n: usize = name[1..].parse().expect("a number");
        if touched.contains(&n) {
            let lines = |card: &str| {
                let mut lines: Vec<String> =
                    card.lines().filter(|l| !l.starts_with("IMPP")).map(str::to_owned).collect();
                lines.sort();
                lines
            };
            assert!(after.contains(&format!("IMPP:tg:tg{n}")), "{after}");
            assert_eq!(lines(&after), lines(&before[&name]), "{name}");
        } else {
            assert_eq!(after, before[&name], "{name}");
        }
        let sql = "SELECT ours, base FROM shared.contact_cards WHERE href LIKE '%/' || $1 || '.vcf'";
        let row = db.query_one(sql, &[&name]).await.expect("the row");
        let (ours, base): (Vec<u8>, Vec<u8>) = (row.get(0), row.get(1));
        assert_eq!((String::from_utf8_lossy(&ours).as_ref(), ours == base), (after.as_str(), true), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_card_makes_nobody_the_owner_and_nobody_more_than_the_settings_say() {
    let Some(radicale) =
        Radicale::start("contacts::a_card_makes_nobody_the_owner_and_nobody_more_than_the_settings_say").await
    else {
        return;
    };
    radicale.put("evil", &card("evil", "Ada", &["EMAIL:ADA@Example.org", "IMPP:tg:evil", "TEL:+1666"])).await;
    radicale.put("bea", &card("bea", "Bea", &["IMPP:tg:bea"])).await;
    let model = model(json!([])).await;
    let household = with_book(Household::with_model(&model), &radicale)
        .env("BUTLERD_OWNER__IDENTITIES__TELEGRAM", "4711")
        .env("BUTLERD_OWNER__IDENTITIES__EMAIL", "ada@example.org");
    let trust = async |daemon: &Daemon, id: &str, sender: &str| {
        let mut envelope = message(id, "c", "hello");
        envelope["sender"]["identity"] = json!(sender);
        let (_, accepted) = ingest(daemon, &envelope).await;
        let entry = ended(daemon, accepted["request_id"].as_str().expect("an id")).await;
        entry["trust"].as_str().expect("a trust").to_owned()
    };
    {
        let daemon = household.start().await;
        // Whatever is handed in ends there: who wrote it is on record all the same.
        let rule = json!({"kind": "channel", "pattern": "telegram", "action": "metadata_only"});
        daemon.mcp("switchboard").ok("triage_rule_add", rule).await;
        let butler = daemon.mcp("general");
        sync(&butler).await;
        assert_eq!(people(&daemon).await, ["Bea telegram bea"]);
        assert_eq!(
            (trust(&daemon, "1", "evil").await, trust(&daemon, "2", "bea").await),
            ("stranger".into(), "known".into())
        );
        let open = proposals(&butler).await;
        assert_eq!((open.len(), &open[0]["kind"]), (1, &json!("owner")), "{open:?}");
        // A card that is somebody's already becomes no more of the owner's.
        radicale.put("bea", &card("bea", "Bea", &["IMPP:tg:bea", "EMAIL:ada@example.org", "IMPP:tg:4711"])).await;
        sync(&butler).await;
        assert_eq!(people(&daemon).await, ["Bea telegram bea"]);
        assert_eq!(trust(&daemon, "3", "4711").await, "owner");
        // Only the owner's word, and even then nobody writes as the owner.
        let open = proposals(&butler).await;
        let evil = open.iter().find(|p| p["card_says"]["name"] == "Ada").expect("the card")["proposal_id"].clone();
        reconcile(&butler, json!({"action": "accept", "proposal_id": evil})).await;
        assert_eq!(trust(&daemon, "4", "evil").await, "known");
        // What that card says later the owner is asked again.
        radicale.put("evil", &card("evil", "Ada", &["EMAIL:ada@example.org", "IMPP:tg:evil", "IMPP:tg:evil2"])).await;
        sync(&butler).await;
        assert_eq!(trust(&daemon, "5", "evil2").await, "stranger");
    }
    let daemon = Household::again(&household, "BUTLERD_PEOPLE__SYNCED_CONTACTS", "stranger").start().await;
    assert_eq!(trust(&daemon, "6", "bea").await, "stranger", "never more than the settings say");
    drop(daemon);
    let household = Household::again(&household, "BUTLER_CONTACTS_PASSWORD", "wrong");
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    let ran = butler.ok("contacts_sync_now", json!({})).await;
    let why = ran["error"].as_str().unwrap_or_else(|| panic!("{ran}"));
    assert_eq!(ran["status"], "needs_owner", "{ran}");
    assert!(
        why.contains("does not accept the user name or the password") && why.contains("butlerd secret set"),
        "{why}"
    );
    let list = butler.ok("contacts_source_list", json!({})).await;
    assert_eq!((&list[0]["state"], list[0]["error"].as_str()), (&json!("owner"), Some(why)), "{list}");
    let status = daemon.butler("general").await.to_string();
    assert!(status.contains("does not accept the user name or the password"), "{status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_of_vcards_are_read_and_written_if_that_is_allowed() {
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("all.vcf");
    let text = format!(
        "{}junk between\n{}",
        card("bea", "Bea", &["EMAIL:bea@example.org", "X-ODD:1"]),
        card("dan", "Dan", &["TEL:+41 79 1", "PHOTO;ENCODING=b;TYPE=JPEG:QUJD"]).replace("\r\n", "\n")
    );
    std::fs::write(&file, &text).expect("the file");
    let section = format!("provider = \"vcard\"\npath = \"{}\"\n", place.path().display());
    let household = with_section(Household::new(), &section);
    {
        let daemon = household.start().await;
        let butler = daemon.mcp("general");
        add(&daemon, "Bea", "phone", "+4930").await;
        sync(&butler).await;
        // The house knew a Bea before the file was read, or it did not: nobody is doubled, and nothing is written.
        assert!(people(&daemon).await.contains(&"Dan phone +41791".to_owned()));
        assert_eq!(std::fs::read_to_string(&file).expect("the file"), text);
    }
    let household =
        household.replace("general/butler.toml", "provider = \"vcard\"", "provider = \"vcard\"\nwrite = true");
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    add(&daemon, "Dan", "email", "dan@example.org").await;
    sync(&butler).await;
    let after = std::fs::read_to_string(&file).expect("the file");
    assert!(after.contains("EMAIL:dan@example.org\r\nEND:VCARD"), "{after}");
    let without: String = after.split_inclusive('\n').filter(|l| !l.contains("dan@") && !l.contains("4930")).collect();
    assert_eq!(without, text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_a_file_has_no_more_is_archived_and_comes_again() {
    let place = tempfile::tempdir().expect("a directory");
    let of = |name: &str| card(name, name, &[&format!("EMAIL:{name}@example.org")]);
    let (all, dan) = (place.path().join("all.vcf"), place.path().join("dan.vcf"));
    let write = |path: &std::path::Path, text: &str| std::fs::write(path, text).expect("the file");
    let (bea, carl) = (of("bea"), of("carl"));
    write(&all, &format!("{bea}{carl}"));
    write(&dan, &of("dan"));
    let section = format!("provider = \"vcard\"\npath = \"{}\"\nwrite = true\n", place.path().display());
    let household = with_section(Household::new(), &section);
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    let line = |name: &str| format!("{name} email {name}@example.org");
    let synced = async |names: &[&str], archived: usize| {
        let ran = sync(&butler).await;
        let counted = (&ran["cards"], &ran["archived"], &ran["to_push"]);
        assert_eq!(counted, (&json!(names.len()), &json!(archived), &json!(0)), "{ran}");
        assert_eq!(people(&daemon).await, names.iter().map(|name| line(name)).collect::<Vec<_>>());
    };
    synced(&["bea", "carl", "dan"], 0).await;
    // One card of a file goes, and then a file.
    write(&all, &bea);
    synced(&["bea", "dan"], 1).await;
    std::fs::remove_file(&dan).expect("the file goes");
    synced(&["bea"], 2).await;
    // Nothing of it is written again, and whoever was archived is a stranger.
    assert!(!dan.exists() && std::fs::read_to_string(&all).expect("the file") == bea);
    let believed =
        "SELECT string_agg(identity || ' ' || believed, ',' ORDER BY identity) FROM shared.contact_identities";
    let believed: String = household.owner().await.query_one(believed, &[]).await.expect("labels").get(0);
    assert_eq!(believed, "bea@example.org known,carl@example.org stranger,dan@example.org stranger");
    write(&all, &format!("{bea}{carl}"));
    let ran = sync(&butler).await;
    assert_eq!(ran["cards"], 2, "{ran}");
    assert_eq!(people(&daemon).await, [line("bea"), line("carl")]);
    let carls = "SELECT count(*) FROM shared.contacts WHERE name = 'carl'";
    let carls = household.owner().await.query_one(carls, &[]).await.expect("a count");
    assert_eq!(carls.get::<_, i64>(0), 1, "the same as before");
}
