//! A letter that its server does not give out: it holds up no other, and ends as a refusal that stays on record.

use serde_json::{Value, json};

use crate::email::{arrived, butler, connector, started, taken_in};
use crate::support::mail_server::MailServer;
use crate::support::mailbox::{ADA, HOUSEHOLD, proven};
use crate::support::{Daemon, Household, eventually};

/// Waits until the connector is as it should be.
async fn seen(daemon: &Daemon, what: &str, is: impl Fn(&Value) -> bool) -> Value {
    eventually(what, || async {
        let seen = connector(daemon).await;
        if seen["state"] == "healthy" && is(&seen) { Ok(seen) } else { Err(seen.to_string()) }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_letter_that_is_not_given_out_holds_up_no_other_and_stays_on_record() {
    let Some(server) = MailServer::start().await else { return };
    let model = butler().await;
    let household = Household::with_model(&model).with_email(&server, "");
    let daemon = started(&household).await;
    seen(&daemon, "it is up", |seen| !seen["checkpoint"].is_null()).await;
    let letter = |n: usize| proven(ADA, &format!("{n}@x"), &format!("Letter {n}"), "", "good morning");
    server.deliver(HOUSEHOLD, &letter(1)).await;
    server.deliver_unreadable(HOUSEHOLD, &letter(2)).await;
    server.deliver(HOUSEHOLD, &letter(3)).await;
    let bodies = async |count: usize| {
        let rows = taken_in(&household, count).await;
        rows.iter().map(|row| row.2.lines().next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(bodies(2).await, ["Subject: Letter 1", "Subject: Letter 3"]);
    // It waits, and everybody sees which one.
    let waits = seen(&daemon, "the second waits", |seen| seen["checkpoint"]["INBOX"]["later"][0]["uid"] == 2).await;
    assert_eq!((&waits["refused_in_all"], &waits["refused"]), (&json!(0), &json!([])), "{waits}");
    arrived(&server, ADA, 2).await;
    household.all_delivered("answers").await;
    // Three days later.
    let since = (jiff::Timestamp::now() - jiff::SignedDuration::from_hours(73)).to_string();
    let sql = "UPDATE switchboard.connector_registry
               SET checkpoint = jsonb_set(checkpoint, '{INBOX,later,0}',
                   checkpoint #> '{INBOX,later,0}' || jsonb_build_object('since', $1::text, 'due', $1::text))";
    household.owner().await.execute(sql, &[&since]).await.expect("it is late");
    drop(daemon);
    let daemon = household.start().await;
    // The counters are told a moment later.
    let given_up = |seen: &Value| seen["refused_in_all"] == 1 && seen["counters"]["messages_failed"] == 1;
    let refused = seen(&daemon, "it is given up", given_up).await;
    let (id, why) = (&refused["refused"][0]["id"], &refused["refused"][0]["why"]);
    assert!(id.as_str().is_some_and(|id| id.starts_with("INBOX ") && id.ends_with(":2")), "{refused}");
    assert!(why.as_str().is_some_and(|why| why.contains("did not give it out")), "{refused}");
    assert!(refused["checkpoint"]["INBOX"]["later"].is_null(), "{refused}");
    server.deliver(HOUSEHOLD, &letter(4)).await;
    assert_eq!(bodies(3).await[2], "Subject: Letter 4");
    arrived(&server, ADA, 3).await;
    household.all_delivered("the last answer").await;
    // Runs come and go; what they refused stays.
    drop(daemon);
    let daemon = household.start().await;
    let kept = seen(&daemon, "it is on record still", |seen| seen["refused_in_all"] == 1).await;
    assert_eq!(kept["refused"], refused["refused"]);
}
