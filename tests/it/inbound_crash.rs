//! `kill -9` between every step of a message and the next, of the daemon or of its database as well: it is taken up as
//! soon as the next daemon is there, ends all the same, and nothing is done twice.

use serde_json::{Value, json};

use crate::crash::kill_postgres;
use crate::inbound_claims::STRANGE;
use crate::support::tally::{counting_model, died, envelope, hand_in, insist, rule};
use crate::support::{Daemon, Household, eventually, http, model};

/// Dies at each of these points with a message under way, starts again, and looks.
async fn killed_at(points: &[&str]) {
    let model = counting_model(0).await;
    let household = Household::few_with_model(&model).with_tally(1);
    for (n, point) in points.iter().enumerate() {
        let mark = point.replace(['.', ':', '_'], "-");
        let message = envelope(&mark, &mark, &format!("count: {mark}"), "interactive");
        let dying = Household::again(&household, "BUTLERD_CRASH_POINT", point);
        let mut daemon = dying.start().await;
        // A machine that stood still for a moment takes nothing just then.
        let taken = eventually(point, || async {
            match hand_in(&household.data(), &http(), &message).await {
                Some((status @ (429 | 503), _, answer)) => Err(format!("{status}: {answer}")),
                taken => Ok(taken),
            }
        })
        .await;
        died(&mut daemon, point).await;
        if n.is_multiple_of(2) {
            kill_postgres(&household);
        }
        drop(daemon);
        let daemon = household.start_again(point).await;
        if let Some((status, _, answer)) = &taken {
            assert_eq!(*status, 202, "{point}: {answer}");
            let id = answer["request_id"].as_str().expect("an id");
            // What was acknowledged goes on by itself.
            household.at_rest(point).await;
            assert_eq!(insist(&household.data(), &message).await, id, "{point}: the same message again");
        }
        let id = insist(&household.data(), &message).await;
        household.at_rest(point).await;
        let (_, entry) = daemon.get(&format!("/api/inbox/{id}")).await;
        let entry: serde_json::Value = serde_json::from_str(&entry).expect("JSON");
        let counted = household.counted(&mark).await;
        let replies = entry["replies"].as_array().expect("replies").len();
        assert_eq!((counted, replies), (1, 1), "{point}: {entry}");
        // Where its tool had been called and its end was not on record, another session told the end and changed
        // nothing.
        assert_eq!((entry["state"].as_str(), &entry["replies"][0]["kind"]), (Some("done"), &json!("reply")), "{entry}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_while_a_message_is_accepted_and_classified() {
    killed_at(&[
        "accept.before",
        "accept.committed",
        "message.claimed",
        "session.opened",
        "session.running",
        "session.spawned",
        "classify.begun",
        "session.final_event",
        "session.before_close",
        "classify.ended",
        "classify.before",
        "classify.committed",
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_while_a_message_is_handed_on() {
    killed_at(&[
        "route.before",
        "route.committed",
        "route.accepted",
        "route.noted",
        "route.before_release",
        "route.released",
        "message.tried",
        "message.settled",
        "routed.claimed",
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_while_a_butler_works_on_a_message_and_ends_it() {
    killed_at(&[
        "session.opened:2",
        "session.running:2",
        "session.spawned:2",
        "session.final_event:2",
        "session.before_close:2",
        "routed.tried",
        "routed.settled",
        "settle.replied",
        "settle.before",
        "settle.committed",
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_while_a_message_is_given_up() {
    let model = counting_model(0).await;
    let household = Household::few_with_model(&model).with_tally(1).butler("strange", STRANGE);
    for point in ["give_up.before", "give_up.committed"] {
        let mut message = envelope(point, point, "count: nothing", "interactive");
        message["control"]["pinned_target"] = "strange".into();
        let mut daemon = Household::again(&household, "BUTLERD_CRASH_POINT", point).start().await;
        let id = insist(&household.data(), &message).await;
        let client = household.owner().await;
        eventually("the first try has failed", || async {
            // Three more are counted that nobody waits for.
            let sql = "UPDATE switchboard.message_inbox SET attempts = 4
                       WHERE request_id = $1::text::uuid AND state = 'accepted' AND attempts = 1";
            let n = client.execute(sql, &[&id]).await.map_err(|e| e.to_string())?;
            if n == 1 { Ok(()) } else { Err("it has not".to_owned()) }
        })
        .await;
        died(&mut daemon, point).await;
        drop(daemon);
        let daemon = household.start().await;
        household.at_rest(point).await;
        let (_, entry) = daemon.get(&format!("/api/inbox/{id}")).await;
        let entry: serde_json::Value = serde_json::from_str(&entry).expect("JSON");
        assert_eq!((entry["state"].as_str(), entry["replies"][0]["kind"].as_str()), (Some("dead"), Some("failure")));
        assert_eq!(entry["replies"].as_array().map(Vec::len), Some(1), "{point}: {entry}");
        assert!(entry["last_error"].as_str().is_some_and(|e| e.contains("contract")), "{point}: {entry}");
    }
}

/// A message's page, and what was said in answer to it.
async fn answered(daemon: &Daemon, id: &str) -> (Value, Vec<String>) {
    let (_, entry) = daemon.get(&format!("/api/inbox/{id}")).await;
    let entry: Value = serde_json::from_str(&entry).expect("JSON");
    let replies = entry["replies"].as_array().cloned().unwrap_or_default();
    let said = replies.iter().map(|r| r["kind"].as_str().unwrap_or_default().to_owned()).collect();
    (entry, said)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_after_a_butler_has_answered() {
    let notify = |arguments: Value| json!({"call": {"tool": "notify", "arguments": arguments}});
    let reply = notify(json!({"intent": "reply", "message": "heard {{match.1}}"}));
    let react = notify(json!({"intent": "react", "emoji": "+1"}));
    // Each of them twice, as models do that got no answer.
    let steps = [reply.clone(), reply, react.clone(), react, json!({"say": "Done."})];
    let model = model(json!([{"when": "(?s).*tell: ([a-z0-9-]+)", "steps": steps}])).await;
    let household = Household::few_with_model(&model).with_tally(1);
    let mut daemon = household.start().await;
    rule(&household.owner().await, "tell", "tally").await;
    // What is said twice in one session is said once; in another session it is another one's.
    for name in ["calm", "again"] {
        let id = insist(&household.data(), &envelope(name, "4711", "tell: calm", "interactive")).await;
        household.at_rest(name).await;
        let (entry, said) = answered(&daemon, &id).await;
        assert_eq!((entry["state"].as_str(), said.join(" ").as_str()), (Some("done"), "reply react"), "{entry}");
    }
    daemon.kill();
    drop(daemon);
    let mut daemon = Household::again(&household, "BUTLERD_CRASH_POINT", "answer.committed").start().await;
    let id = insist(&household.data(), &envelope("storm", "4711", "tell: storm", "interactive")).await;
    died(&mut daemon, "answer.committed").await;
    drop(daemon);
    let daemon = household.start().await;
    household.at_rest("answer.committed").await;
    // It had said something, so the session that tells the end says nothing twice.
    let (entry, said) = answered(&daemon, &id).await;
    assert_eq!((entry["state"].as_str(), said.join(" ").as_str()), (Some("done"), "reply"), "{entry}");
    assert_eq!(entry["replies"][0]["message"], "heard storm", "{entry}");
}
