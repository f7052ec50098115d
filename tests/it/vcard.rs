//! Contacts in and out as vCards, through the relationship butler's tools.

use serde_json::json;

use crate::support::Household;

const CARDS: &str = "BEGIN:VCARD\r\nVERSION:3.0\r\nN:Hopper;Grace;;;\r\nFN:Grace Hopper\r\nORG:Navy;Computing\r\n\
EMAIL;TYPE=work:grace@example.org\r\nTEL;TYPE=cell,pref:+1 202 555 0101\r\nBDAY:1906-12-09\r\n\
ADR;TYPE=home:;;1 Main St;Arlington;VA;22201;US\r\nEND:VCARD\r\n\
BEGIN:VCARD\r\nVERSION:4.0\r\nFN:Alan T.\r\nTEL:not a number at all\r\nBDAY:--0623\r\nEND:VCARD\r\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cards_come_in_once_and_go_out_whole() {
    let household = Household::whole();
    let daemon = household.start().await;
    let butler = daemon.mcp("relationship");
    let came = butler.ok("contact_import_vcard", json!({"vcf_content": CARDS})).await;
    let contacts = came["contacts"].as_array().unwrap_or_else(|| panic!("no contacts: {came}"));
    assert_eq!((contacts.len(), &contacts[0]["status"]), (2, &json!("made")), "{came}");
    assert_eq!(contacts[0]["left_out"], json!([]), "{came}");
    let left = contacts[1]["left_out"][0].as_str().expect("a sentence");
    assert!(left.starts_with("phone not a number at all: "), "{left}");
    let grace = contacts[0]["contact_id"].as_str().expect("an id").to_owned();

    // The same again adds nothing; what differs is said and stays as it was.
    let again = butler.ok("contact_import_vcard", json!({"vcf_content": CARDS})).await;
    assert_eq!(again["contacts"][0]["status"], "already_there", "{again}");
    let other = "BEGIN:VCARD\nVERSION:3.0\nFN:Grace Hopper\nORG:Harvard\nNICKNAME:Amazing Grace\nEND:VCARD\n";
    let other = butler.ok("contact_import_vcard", json!({"vcf_content": other})).await;
    let said = other["contacts"][0]["left_out"][0].as_str().unwrap_or_else(|| panic!("nothing said: {other}"));
    assert!(said.contains("Harvard") && said.contains("Navy"), "{said}");
    let db = household.owner().await;
    let count = "SELECT (SELECT count(*) FROM relationship.contacts WHERE name_key <> 'owner'), (SELECT count(*) FROM relationship.contact_info),
                        (SELECT count(*) FROM relationship.addresses), (SELECT count(*) FROM relationship.important_dates)";
    let row = db.query_one(count, &[]).await.expect("counts");
    let counts: [i64; 4] = [row.get(0), row.get(1), row.get(2), row.get(3)];
    assert_eq!(counts, [2, 2, 1, 2]);

    let out = butler.ok("contact_export_vcard", json!({"contact_id": grace})).await;
    let text = out["vcard"].as_str().expect("a text");
    for line in
        ["VERSION:4.0", "FN:Grace Hopper", "ORG:Navy", "NICKNAME:Amazing Grace", "EMAIL;TYPE=", "BDAY:19061209", ";US"]
    {
        assert!(text.contains(line), "{line}: {text}");
    }
    // What went out comes in elsewhere as it was.
    let all = butler.ok("contact_export_vcard", json!({})).await;
    assert_eq!(all["contacts"], 2, "{all}");
    let elsewhere = Household::whole();
    let daemon = elsewhere.start().await;
    let butler = daemon.mcp("relationship");
    let moved = butler.ok("contact_import_vcard", json!({"vcf_content": all["vcard"]})).await;
    assert!(moved["contacts"].as_array().is_some_and(|c| c.iter().all(|c| c["left_out"] == json!([]))), "{moved}");
    let there = butler.ok("contact_export_vcard", json!({})).await;
    let plain = |text: &serde_json::Value| {
        let text = text.as_str().unwrap_or_default();
        text.lines().filter(|l| !l.starts_with("UID")).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(plain(&there["vcard"]), plain(&all["vcard"]));

    for (text, word) in [("hello", "no vCard"), ("BEGIN:VCARD\nEND:VCARD\n", "no vCard")] {
        let refused = butler.ok("contact_import_vcard", json!({"vcf_content": text})).await;
        assert!(refused["error"].as_str().is_some_and(|e| e.contains(word)), "{refused}");
    }
    let unknown = json!({"contact_id": "00000000-0000-4000-8000-000000000000"});
    let refused = butler.ok("contact_export_vcard", unknown).await;
    assert!(refused["error"].as_str().is_some_and(|e| e.contains("no contact")), "{refused}");
}
