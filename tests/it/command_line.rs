//! The command line as a person types it: ids by their beginning, and lists of one shape.

use serde_json::{Value, json};

use crate::inbound::{ended, ingest, message};
use crate::support::{Daemon, Household, eventually, model, ports};

/// What a person typed, and what both outputs say.
fn typed(household: &Household, args: &[&str]) -> (i32, String) {
    let (code, out, err) = tokio::task::block_in_place(|| household.cli(args));
    (code, out + &err)
}

/// The first column of the row of a list that has these words.
fn first_of(household: &Household, list: &[&str], words: &str) -> String {
    let (code, said) = typed(household, list);
    let row = said.lines().find(|line| line.contains(words)).unwrap_or_else(|| panic!("{list:?}: {code} {said}"));
    row.split_whitespace().next().unwrap_or_default().to_owned()
}

/// A household in which a message was answered: with a session, a delivery and an answer.
async fn told(household: &Household, daemon: &Daemon) -> String {
    let (_, accepted) = ingest(daemon, &message("1", "c1", "My blood pressure is 120")).await;
    let id = accepted["request_id"].as_str().expect("an id").to_owned();
    ended(daemon, &id).await;
    eventually("the answer is a delivery", || async {
        let (_, said) = typed(household, &["deliveries", "list"]);
        if said.contains("noted") { Ok(()) } else { Err(said) }
    })
    .await;
    id
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_list_prints_names_one_and_the_beginning_is_enough() {
    let model = model(json!([{"when": "blood", "steps": [{"say": "noted"}]}])).await;
    let household = Household::with_model(&model).env("BUTLERD_OWNER__IDENTITIES__TELEGRAM", "4711");
    let daemon = household.start().await;
    let (code, said) = typed(&household, &["rules", "add", "substring", "blood", "route_to", "general"]);
    assert_eq!(code, 0, "{said}");
    let whole = told(&household, &daemon).await;
    typed(&household, &["token", "new", "--label", "a phone"]);
    for (list, words, show) in [
        (&["sessions", "list"][..], "noted", &["sessions", "show"][..]),
        (&["sessions", "list"], "blood", &["timeline"]),
        (&["inbox", "list"], "blood", &["inbox", "show"]),
        (&["inbox", "list"], "blood", &["timeline"]),
        (&["deliveries", "list"], "noted", &["deliveries", "show"]),
        (&["rules", "list"], "blood", &["rules", "test", "--id"]),
        (&["rules", "list"], "blood", &["rules", "disable"]),
        (&["schedule", "list", "--all"], "general", &["schedule", "show"]),
        (&["token", "list"], "a phone", &["token", "revoke"]),
    ] {
        let words = if list[0] == "sessions" { "blood" } else { words };
        let short = first_of(&household, list, words);
        assert!((13..36).contains(&short.len()), "{list:?}: {short}");
        let (code, said) = typed(&household, &[show, &[&short]].concat());
        assert_eq!(code, 0, "{show:?} {short}: {said}");
    }
    let shown = typed(&household, &["inbox", "show", &whole[..13], "--json"]).1;
    assert_eq!(serde_json::from_str::<Value>(&shown).expect("JSON")["request_id"], whole.as_str());
    // Too little names several; what nothing begins with names none.
    typed(&household, &["trigger", "general", "my blood"]);
    let (code, said) = typed(&household, &["sessions", "show", &whole[..4]]);
    assert!(code == 1 && said.contains("ids begin with") && said.contains("Write more of the one"), "{said}");
    let (code, said) = typed(&household, &["deliveries", "retry", "ffff-ffff"]);
    assert!(code == 1 && said.contains("no delivery whose id begins with ffff-ffff"), "{said}");
    assert!(said.contains("butlerd deliveries list"), "{said}");
    assert_eq!(typed(&household, &["sessions", "show", "12"]).0, 2, "four digits are the least");
    // A token that is held to one butler finds nothing of another's.
    let made = typed(&household, &["token", "new", "--scope", "read", "--butler", "messenger", "--json"]).1;
    let token = serde_json::from_str::<Value>(&made).expect("JSON")["token"].as_str().expect("a token").to_owned();
    let asked = |kind: &str| {
        json!({"jsonrpc": "2.0", "id": 1, "method": "butlerd.ids",
                                    "params": {"kind": kind, "beginning": &whole[..4]}})
    };
    for (kind, answer) in
        [("session", "\"ids\":[]"), ("delivery", "\"ids\":[]"), ("message", "forbidden"), ("token", "forbidden")]
    {
        let request = crate::support::http().post(format!("http://{}/rpc", daemon.admin())).bearer_auth(&token);
        let said = request.json(&asked(kind)).send().await.expect("an answer").text().await.expect("text");
        assert!(said.contains(answer), "{kind}: {said}");
    }
}

#[test]
fn shells_and_man_know_the_commands() {
    let household = Household::bare();
    for (shell, words) in [("bash", "_butlerd()"), ("zsh", "#compdef butlerd"), ("fish", "complete -c butlerd")] {
        let (code, out, err) = household.cli(&["completions", shell]);
        assert!(code == 0 && out.contains(words) && out.contains("approvals"), "{shell}: {out}{err}");
    }
    let (code, page, err) = household.cli(&["man"]);
    assert!(code == 0 && page.contains(".TH butlerd 1") && page.contains("approvals"), "{page}{err}");
    let pages = household.path().join("man");
    let (code, out, err) = household.cli(&["man", "--dir", &pages.to_string_lossy()]);
    assert_eq!(code, 0, "{out}{err}");
    let page = std::fs::read_to_string(pages.join("butlerd-approvals-approve.1")).expect("its page");
    assert!(page.contains("Let a call through") && pages.join("butlerd.1").exists(), "{page}");
    assert_eq!(household.cli(&["completions", "nosuchshell"]).0, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_daemon_is_told_of_the_first() {
    let free = format!("127.0.0.1:{}", ports::free(1)[0]);
    // An address that is named holds, though butlers' ports are chosen.
    let household = Household::new().env("BUTLERD_ADMIN__LISTEN", &free);
    let daemon = household.start().await;
    assert_eq!(daemon.admin(), free);
    let running = format!("butlerd is already running, process {}", daemon.pid());
    for listen in [free, "127.0.0.1:0".to_owned()] {
        let (code, said) = typed(&household, &["serve", "--ports", "auto", "--listen", &listen]);
        assert!(code == 1 && said.contains(&running), "{listen}: {said}");
        assert!(!said.contains("can't be served"), "{said}");
    }
    daemon.ready().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_lists_have_one_shape_for_programs() {
    let household = Household::new();
    let _daemon = household.start().await;
    for list in [
        &["sessions", "list"][..],
        &["inbox", "list"],
        &["deliveries", "list"],
        &["approvals", "list"],
        &["approvals", "rules"],
        &["schedule", "list"],
        &["schedule", "history", "house-tidy", "--butler", "general"],
        &["rules", "list"],
        &["contacts", "list"],
        &["token", "list"],
        &["secret", "list"],
        &["tool", "list", "general"],
        &["notes", "list"],
        &["undo"],
        &["memory", "search", "tea"],
        &["memory", "history"],
        &["memory", "stats"],
        &["mcp-servers", "list"],
    ] {
        let (code, said) = typed(&household, &[list, &["--json"]].concat());
        let answer: Value = serde_json::from_str(&said).unwrap_or_else(|e| panic!("{list:?}: {code} {e}: {said}"));
        let keys: Vec<&str> = answer.as_object().expect("an object").keys().map(String::as_str).collect();
        assert_eq!((code, keys), (0, vec!["items", "next", "unavailable"]), "{list:?}: {said}");
        assert!(answer["items"].is_array(), "{list:?}: {said}");
    }
}
