//! What an address book may do without anybody's losing a person or a picture: be empty all at once, and hold cards of
//! version 4, lists of people and labels. Against a real server.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::contacts::{BOOK, Radicale, add, card, people, sync, with_book};
use crate::support::{Household, eventually};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_book_that_is_suddenly_empty_archives_nobody_until_it_is_believed() {
    let Some(radicale) = Radicale::start("contacts_kept::suddenly_empty").await else { return };
    for n in 0..12 {
        radicale
            .put(&format!("p{n}"), &card(&format!("p{n}"), &format!("P{n}"), &[&format!("EMAIL:p{n}@x.org")]))
            .await;
    }
    let household = with_book(Household::new(), &radicale);
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    sync(&butler).await;
    let before = people(&daemon).await;
    assert_eq!(before.len(), 12);
    // Somebody makes it anew, while the house learns of two numbers.
    assert_eq!(radicale.ask("DELETE", BOOK, "").await.0, 200);
    radicale.make_book().await;
    add(&daemon, "P3", "phone", "+4930333").await;
    let mut known = before.clone();
    known.push("P3 phone +4930333".to_owned());
    known.sort();
    let (command, missing) =
        ("butlerd contacts sync --butler general --believe-deletions", "12 of 12 cards are missing");
    for mode in ["incremental", "full"] {
        let ran = butler.ok("contacts_sync_now", json!({"mode": mode})).await;
        let why = ran["error"].as_str().unwrap_or_default();
        assert_eq!(ran["status"], "needs_owner", "{ran}");
        assert!(why.contains(missing) && why.contains(command), "{ran}");
        assert_eq!((&ran["source"]["archived"], &ran["source"]["cards"]), (&json!(0), &json!(12)), "{ran}");
        assert_eq!((people(&daemon).await, radicale.all().await), (known.clone(), Vec::new()), "{mode}");
    }
    // Nor does another daemon believe it, and each way of looking says what to do.
    drop(daemon);
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    let (code, out, err) = household.cli(&["contacts", "sync", "--butler", "general"]);
    assert!(code != 0 && format!("{out}{err}").contains(command), "{out}{err}");
    assert!(daemon.butler("general").await.to_string().contains(command));
    // The owner is told without looking, once.
    eventually("the owner is told", || async {
        let sql = "SELECT message FROM shared.outbox WHERE kind = 'notice' AND message LIKE '%is not synced%'";
        let rows = household.owner().await.query(sql, &[]).await.expect("notices");
        let told: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        let one = told.len() == 1 && told[0].contains(command) && told[0].contains(missing);
        if one { Ok(()) } else { Err(format!("{told:?}")) }
    })
    .await;
    assert_eq!(people(&daemon).await, known);
    // That command: whom the address book alone knew is archived, and what the house knows goes there.
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    let (code, out, err) = household.cli(&words);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("11 archived"), "{out}");
    assert_eq!(people(&daemon).await, ["P3 email p3@x.org", "P3 phone +4930333"]);
    let cards = radicale.all().await;
    assert!(cards.len() == 1 && cards[0].1.contains("p3@x.org") && cards[0].1.contains("+4930333"), "{cards:?}");
    // From then on it is synced as before.
    sync(&butler).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cards_of_version_4_keep_pictures_members_and_labels_through_a_servers_hands() {
    let Some(radicale) = Radicale::start("contacts_kept::version_4").await else { return };
    let picture = "QUJD".repeat(500);
    let four = |uid: &str, lines: &[&str]| card(uid, uid, lines).replace("VERSION:3.0", "VERSION:4.0");
    let inline = format!("PHOTO:data:image/jpeg;base64,{picture}");
    let cards = [
        ("inline", four("inline", &[&inline, "EMAIL:inline@x.org"])),
        ("three", card("three", "three", &[&format!("PHOTO;ENCODING=b;TYPE=JPEG:{picture}"), "EMAIL:three@x.org"])),
        (
            "linked",
            four(
                "linked",
                &[
                    "PHOTO;MEDIATYPE=image/gif:https://example.org/linked.gif",
                    "EMAIL;PREF=1:linked@x.org",
                    "item1.TEL;VALUE=uri;TYPE=\"voice,home\":tel:+49-30-1",
                    "item1.X-ABLABEL:Cabin",
                    "BDAY:--0412",
                    "RELATED;TYPE=spouse:urn:uuid:inline",
                ],
            ),
        ),
        (
            "club",
            four(
                "club",
                &["KIND:group", "MEMBER:urn:uuid:linked", "MEMBER:mailto:dan@example.org", "EMAIL:club@x.org"],
            ),
        ),
        (
            "apple",
            card(
                "apple",
                "apple",
                &["X-ADDRESSBOOKSERVER-KIND:group", "X-ADDRESSBOOKSERVER-MEMBER:urn:uuid:three", "EMAIL:apple@x.org"],
            ),
        ),
    ];
    for (name, card) in &cards {
        radicale.put(name, card).await;
    }
    // As the server has them, which writes all but a few of their lines anew.
    let before: BTreeMap<String, String> = radicale.all().await.into_iter().collect();
    let unfolded = |card: &str| card.replace("\r\n ", "");
    // Radicale itself drops what stands behind a comma there. Whoever wants pictures writes them as version 3 has them.
    assert!(!unfolded(&before["inline"]).contains(&picture), "Radicale keeps it by now: ask for it below");
    let kept = [
        ("three", picture.as_str()),
        ("linked", "PHOTO;MEDIATYPE=image/gif:https://example.org/linked.gif"),
        ("linked", "item1.X-ABLABEL:Cabin"),
        ("linked", "RELATED;TYPE=spouse:urn:uuid:inline"),
        ("club", "MEMBER:urn:uuid:linked\r\nMEMBER:mailto:dan@example.org"),
        ("apple", "X-ADDRESSBOOKSERVER-MEMBER:urn:uuid:three"),
    ];
    for (name, words) in kept {
        assert!(unfolded(&before[name]).contains(words), "{name}: {}", before[name]);
    }
    let household = with_book(Household::new(), &radicale);
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    sync(&butler).await;
    // Lists of people are nobody, whatever address they have.
    let who =
        ["inline email inline@x.org", "linked email linked@x.org", "linked phone +49301", "three email three@x.org"];
    assert_eq!(people(&daemon).await, who);
    for name in ["inline", "linked", "three"] {
        add(&daemon, name, "telegram", &format!("of-{name}")).await;
    }
    let ran = sync(&butler).await;
    assert_eq!((&ran["to_push"], &ran["conflicts"]), (&json!(0), &json!(0)), "{ran}");
    let lines = |card: &str| {
        let card = unfolded(card);
        let mut lines: Vec<String> = card.lines().filter(|l| !l.starts_with("IMPP")).map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let db = household.owner().await;
    for (name, after) in radicale.all().await {
        match name.as_str() {
            // Nobody's: each byte as it was.
            "club" | "apple" => assert_eq!(after, before[&name], "{name}"),
            _ => {
                assert!(after.contains(&format!("IMPP:tg:of-{name}")), "{name}: {after}");
                assert_eq!(lines(&after), lines(&before[&name]), "{name}");
            }
        }
        let sql = "SELECT ours FROM shared.contact_cards WHERE href LIKE '%/' || $1 || '.vcf'";
        let ours: Vec<u8> = db.query_one(sql, &[&name]).await.expect("the row").get(0);
        assert_eq!(String::from_utf8_lossy(&ours), after, "{name}");
    }
    // Somebody leaves the club, and a member's card goes: the house has the list as the server has it.
    radicale.put("club", &before["club"].replace("MEMBER:mailto:dan@example.org\r\n", "")).await;
    radicale.delete("linked").await;
    let ran = sync(&butler).await;
    assert_eq!((&ran["cards"], &ran["archived"], &ran["to_push"]), (&json!(4), &json!(1), &json!(0)), "{ran}");
    let sql = "SELECT ours FROM shared.contact_cards WHERE href LIKE '%/club.vcf'";
    let ours: Vec<u8> = db.query_one(sql, &[]).await.expect("the row").get(0);
    assert_eq!(String::from_utf8_lossy(&ours), radicale.get("club").await);
    assert!(!String::from_utf8_lossy(&ours).contains("dan@example.org"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_who_share_a_number_stay_two_and_keep_it() {
    let Some(radicale) = Radicale::start("contacts_kept::two_who_share_a_number_stay_two_and_keep_it").await else {
        return;
    };
    for (pair, number) in [(["Ada", "Bea"], "1111111"), (["Cy", "Dan"], "2222222")] {
        for name in pair {
            let id = name.to_lowercase();
            let (tel, mail) = (format!("TEL;TYPE=work:+49 30 {number}"), format!("EMAIL:{id}@example.org"));
            radicale.put(&id, &card(&id, name, &[&tel, &mail])).await;
        }
    }
    let household = with_book(Household::new(), &radicale);
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    sync(&butler).await;
    let open = async || {
        let shown = butler.ok("contacts_source_reconcile", json!({})).await;
        shown["proposals"].as_array().unwrap_or_else(|| panic!("{shown}")).clone()
    };
    // The first of each two has the number, and of the second a person says whether it is the same one.
    let asked = open().await;
    assert!(asked.len() == 2 && asked.iter().all(|one| one["kind"] == "identity"), "{asked:?}");
    assert_eq!(people(&daemon).await.len(), 4, "{:?}", people(&daemon).await);
    let decide = async |args: Value| {
        let done = butler.ok("contacts_source_reconcile", args).await;
        assert_eq!(done["status"], "ok", "{done}");
        sync(&butler).await;
    };
    decide(json!({"action": "accept", "proposal_id": asked[0]["proposal_id"]})).await;
    decide(json!({"action": "reject", "proposal_id": asked[1]["proposal_id"]})).await;
    assert_eq!(open().await, [] as [Value; 0], "what was said is not asked again");
    // The first two are two after all: the number is no reason to change either card.
    let contact = butler.ok("contacts_source_reconcile", json!({"contact_id": asked[0]["contact_id"]})).await;
    let name = &asked[0]["card_says"]["name"];
    let split =
        contact["cards"].as_array().expect("cards").iter().find(|card| card["name"] == *name).expect("its card");
    decide(json!({"action": "split", "card_id": split["card_id"]})).await;
    sync(&butler).await;
    let all = people(&daemon).await;
    for (name, number) in [("Ada", "1111111"), ("Bea", "1111111"), ("Cy", "2222222"), ("Dan", "2222222")] {
        let id = name.to_lowercase();
        assert!(all.contains(&format!("{name} email {id}@example.org")), "{all:?}");
        let card = radicale.get(&id).await;
        assert!(card.contains(number), "{card}");
    }
    assert_eq!(all.len(), 6, "{all:?}");
    assert_eq!(open().await, [] as [Value; 0], "nor is it asked again after a split");
    // A number is theirs who still have it.
    radicale.put("cy", &card("cy", "Cy", &["EMAIL:cy@example.org"])).await;
    let other = if split["name"] == "Bea" { ["ada", "Bea"] } else { ["bea", "Ada"] };
    radicale.delete(other[0]).await;
    sync(&butler).await;
    let all = people(&daemon).await;
    for (name, number) in [("Dan", "+49302222222"), (other[1], "+49301111111")] {
        assert!(all.contains(&format!("{name} phone {number}")), "{all:?}");
    }
}
