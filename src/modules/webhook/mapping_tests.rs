//! What bodies come to.

use super::*;

fn push() -> Value {
    json!({"action": "opened", "number": 0, "fork": false, "none": null, "a/b": {"m~n": "odd"}, "list": [1, "two"],
           "sender": {"login": "Octo Cat"}, "text": "{/action} <b>"})
}

#[test]
fn places_are_filled_and_nothing_else_is() {
    let fill = |text: &str| Template::parse(text).unwrap().fill(&push());
    assert_eq!(fill("{/action}: {/number}, {/fork}"), "opened: 0, false");
    assert_eq!(fill("{/missing}{/none}{/list}|{/list/1}|{/a~1b/m~0n}"), "[1,\"two\"]|two|odd");
    assert_eq!(fill("{ {} {x} }} {/action}}"), "{ {} {x} }} opened}");
    assert_eq!(fill("{/text}"), "{/action} <b>", "what a body brings is no template");
    assert_eq!(fill("{/sender}"), r#"{"login":"Octo Cat"}"#);
    for wrong in ["{/action", "{/a~}", "{/a~2b}", "a {/b} {/c"] {
        assert_eq!(Template::parse(wrong), None, "{wrong}");
    }
    let long = Template::parse(&"{/text}".repeat(200_000)).unwrap().fill(&push());
    assert!(long.len() < LONGEST_TEXT + 100 && long.ends_with("bytes cut]"), "{}", long.len());
    assert!(["", "a", "header:X"].iter().all(|text| Pointer::parse(text).is_none()));
}

fn mapping() -> Mapping {
    Mapping {
        name: "github".to_owned(),
        text: Template::parse("{/action}").unwrap(),
        id: Id::Body,
        from: SenderName::parse("/sender/login"),
        thread: Pointer::parse("/number"),
        when: Vec::new(),
        tier: "default",
        butler: None,
        authenticated: (false, "signature"),
    }
}

fn read(mapping: &Mapping, body: &Value, signed_at: Option<&str>) -> Reading {
    let mut headers = HeaderMap::new();
    headers.insert("x-delivery", "d-1".parse().unwrap());
    let raw = body.to_string();
    mapping.read(&Incoming { body, raw: raw.as_bytes(), headers: &headers, signed_at }, Timestamp::UNIX_EPOCH)
}

fn message(mapping: &Mapping, body: &Value) -> Value {
    match read(mapping, body, None) {
        Reading::Message(envelope) => {
            inbox::envelope::read(envelope.clone()).unwrap();
            Value::Object(envelope)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_body_becomes_a_message_of_nobody_who_is_known() {
    let made = message(&mapping(), &push());
    assert_eq!(made["sender"]["identity"], "github:Octo Cat");
    assert_eq!(made["sender"]["authenticated"], json!({"result": "none", "method": "signature"}));
    assert_eq!(made["event"]["external_thread_id"], "0");
    assert_eq!((&made["control"]["policy_tier"], &made["control"]["pinned_target"]), (&json!("default"), &Value::Null));
    let trusted = Mapping {
        authenticated: (true, "token"),
        from: None,
        butler: Some("health".to_owned()),
        tier: "high_priority",
        ..mapping()
    };
    let made = message(&trusted, &push());
    assert_eq!(made["sender"]["identity"], "github");
    assert_eq!(made["sender"]["authenticated"], json!({"result": "pass", "method": "token"}));
    assert_eq!(made["control"], json!({"policy_tier": "high_priority", "pinned_target": "health"}));
}

#[test]
fn nobody_takes_the_identity_of_another_inbound() {
    let login = |login: Value| {
        let made = message(&mapping(), &json!({"action": "x", "sender": {"login": login}}));
        made["sender"]["identity"].as_str().unwrap().to_owned()
    };
    assert_eq!(login(json!("x <doorbell>")), "github:x doorbell");
    assert_eq!(login(json!("\u{7} ")), "github");
    assert_eq!(login(Value::Null), "github");
    assert!(login(json!("a".repeat(5000))).len() < 300);
}

#[test]
fn the_same_id_or_the_same_signed_body_is_the_same_message() {
    let id = |id: Id, body: &Value, at: Option<&str>| match read(&Mapping { id, ..mapping() }, body, at) {
        Reading::Message(envelope) => envelope["event"]["external_event_id"].as_str().unwrap().to_owned(),
        other => panic!("{other:?}"),
    };
    let body = |number: i64| json!({"action": "x", "number": number});
    assert_eq!(id(Id::parse("/number").unwrap(), &body(7), None), "7");
    assert_eq!(id(Id::parse("header:X-Delivery").unwrap(), &body(7), None), "d-1");
    let hashed = id(Id::Body, &body(7), None);
    assert!(hashed.starts_with("sha256:") && hashed == id(Id::parse("/missing").unwrap(), &body(7), None));
    assert_ne!(hashed, id(Id::Body, &body(8), None));
    assert_ne!(hashed, id(Id::Body, &body(7), Some("1700000000")));
    let long = json!({"action": "x", "number": "9".repeat(5000)});
    assert!(id(Id::parse("/number").unwrap(), &long, None).len() < 100);
    assert!(["number", "header:", "header:a b", ""].iter().all(|text| Id::parse(text).is_none()));
}

#[test]
fn conditions_hold_all_at_once() {
    let when = |when: Value| {
        let when: BTreeMap<String, Vec<String>> = serde_json::from_value(when).unwrap();
        read(&Mapping { when: conditions(&when).unwrap(), ..mapping() }, &push(), None)
    };
    assert!(matches!(when(json!({"/action": ["closed", "opened"], "/fork": ["false"]})), Reading::Message(_)));
    assert_eq!(when(json!({"/action": ["opened"], "/fork": ["true"]})), Reading::Skipped);
    assert_eq!(when(json!({"/missing": [""]})), Reading::Skipped);
    assert_eq!(when(json!({"/action": []})), Reading::Skipped);
    let named = conditions(&BTreeMap::from([("action".to_owned(), Vec::new())])).unwrap_err();
    assert_eq!(named.to_string(), "found the key `action`");
    assert_eq!(
        read(&Mapping { text: Template::parse(" {/none}").unwrap(), ..mapping() }, &push(), None),
        Reading::Empty
    );
}
