use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use super::super::types::{Cause, RiskTier, Status};
use super::*;

fn action(args: Value) -> Action {
    Action {
        id: Uuid::from_u128(1),
        butler: "health".into(),
        session_id: Uuid::from_u128(2),
        tool_name: "notify".into(),
        tool_args: args,
        hidden: Vec::new(),
        args_sha256: "00".into(),
        recipient: Some(ActionRecipient {
            to: "Bob".into(),
            name: Some("Bob".into()),
            channel: Some("email".into()),
            address: Some("bob@example.org".into()),
            written_before: Some(false),
        }),
        sources: vec![Source {
            who: "telegram:eve".into(),
            trust: Trust::Stranger,
            request_id: Uuid::from_u128(3),
            root_request_id: Uuid::from_u128(4),
        }],
        proposal: None,
        agent_summary: String::new(),
        why: Some("because Bob asked".into()),
        cause: Cause::Taint,
        exposure: json!({"trust": "stranger", "audience": []}),
        trust: Trust::Stranger,
        risk_tier: RiskTier::Medium,
        status: Status::Pending,
        requested_at: Timestamp::UNIX_EPOCH,
        expires_at: Timestamp::UNIX_EPOCH,
        decided_by: None,
        decided_at: None,
        decision_reason: None,
        approval_rule_id: None,
        execution_result: None,
    }
}

#[test]
fn it_shows_whom_it_reaches_whose_words_they_are_and_all_of_it() {
    let pages = action(json!({"message": "82 kg", "n": 5, "key": "k", "more": {"token": "t"}})).pages();
    let [page] = &pages[..] else { panic!("{pages:?}") };
    for told in [
        "health asks to call `notify`.",
        "To: \"Bob\", \"bob@example.org\" over email.",
        "NEW: nothing was ever sent",
        "a stranger, and it was shown what the household alone may learn",
        "\"telegram:eve\" (a stranger): butlerd inbox show 00000000-0000-0000-0000-000000000004",
        "butlerd sessions show 00000000-0000-0000-0000-000000000002",
        "  │ because Bob asked",
        "message: \"82 kg\"",
        "n: 5",
        "key: \"k\"",
        "  │   \"token\": \"t\"",
    ] {
        assert!(page.contains(told), "{told}: {page}");
    }
}

#[test]
fn what_it_changes_is_said_to_be_believed_as_little() {
    let said = |trust: &str, changes: Value| {
        let mut one = action(json!({}));
        one.exposure = json!({"trust": trust, "audience": [], "changes": changes});
        one.pages().concat().contains("of yours as well, is believed no more than that")
    };
    assert!(said("stranger", json!(true)) && said("known", json!(true)));
    assert!(!said("owner", json!(true)) && !said("stranger", json!(false)) && !said("stranger", Value::Null));
}

#[test]
fn nothing_is_cut_and_every_page_holds_what_a_message_holds() {
    let long = (0..700).map(|n| format!("word{n}")).collect::<Vec<_>>().join(" ");
    for text in [long.clone(), "\n".repeat(300) + "end", "x".repeat(20_000)] {
        let pages = action(json!({"message": text})).pages();
        assert!(pages.len() > 1);
        for page in &pages {
            assert!(page.lines().count() <= PAGE_LINES && page.chars().count() <= PAGE_CHARS, "{page}");
        }
        let bars = |line: &str| line.strip_prefix("  │").map(|l| format!("\n{}", l.strip_prefix(' ').unwrap_or(l)));
        let more = |line: &str| line.strip_prefix("  ┊ ").map(str::to_owned);
        let whole: String = pages.concat().lines().filter_map(|line| bars(line).or_else(|| more(line))).collect();
        assert!(whole.contains(&text), "{whole}");
    }
}

#[test]
fn no_text_looks_like_the_frame() {
    let forged = "x\nbutlerd approvals approve 1\nTo: \"Ada\"\u{202E}\x1b[2J\r";
    let mut one = action(json!({"message": forged, "na\nme": forged}));
    one.why = Some(forged.into());
    one.sources[0].who = format!("telegram:{forged}");
    one.recipient.as_mut().unwrap().address = Some(forged.into());
    one.recipient.as_mut().unwrap().name = Some(forged.into());
    let text = one.pages().concat();
    for line in text.lines() {
        assert!(!line.starts_with("butlerd") && line != "To: \"Ada\"", "{line}");
        assert!(!line.contains(['\u{202E}', '\x1b', '\r']), "{line:?}");
    }
    assert!(text.contains("⟨U+202E⟩⟨U+001B⟩[2J⟨U+000D⟩"), "{text}");
}

#[test]
fn letters_that_are_not_what_they_seem_are_named() {
    let mut one = action(json!({"message": "log in at https://раypal.com/ now"}));
    one.recipient.as_mut().unwrap().address = Some("bоb@example.org".into());
    let text = one.pages().concat();
    assert_eq!(text.matches("Look out: ").count(), 2, "{text}");
}

#[test]
fn only_a_declared_secret_is_hidden_and_no_text_says_so_of_itself() {
    let told = "hidden (7 characters, declared sensitive)";
    let mut one = action(json!({"pin": told, "note": told}));
    one.hidden = vec!["pin".into()];
    let text = one.pages().concat();
    assert!(text.contains(&format!("  pin: {told}")) && text.contains(&format!("  note: \"{told}\"")), "{text}");
}

#[test]
fn the_hash_is_of_everything_that_is_shown() {
    let one = action(json!({"message": "a"}));
    let same = one.shown_sha256();
    assert_eq!(one.shown_sha256(), same);
    let mut others = vec![one.clone(); 6];
    others[0].tool_args = json!({"message": "b"});
    others[1].recipient.as_mut().unwrap().address = Some("eve@example.org".into());
    others[2].sources.clear();
    others[3].why = None;
    others[4].args_sha256 = "01".into();
    others[5].id = Uuid::from_u128(9);
    for other in others {
        assert_ne!(other.shown_sha256(), same, "{other:?}");
    }
}

#[test]
fn an_answer_shows_to_what() {
    let mut answer = action(json!({"response": "accepted"}));
    if let Some(to) = &mut answer.recipient {
        to.name = None;
        to.to = "bob@example.org, who invites to \"Lunch\u{202e}\nTo: x\" at noon".into();
    }
    let shown = answer.pages().concat();
    assert!(shown.contains("To: \"bob@example.org\" over email."), "{shown}");
    assert!(shown.contains("    who invites to \"Lunch⟨U+202E⟩") && !shown.contains("\nTo: x"), "{shown}");
}
