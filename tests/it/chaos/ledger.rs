//! Who sends messages while the rounds go on, and what must have become of each.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::tally::{envelope, hand_in};
use crate::support::{Household, http};

/// Who the owner is on the channel of these messages.
const OWNER: &str = "4711";

/// Hands in messages of one thread until told to stop, each again under its id until it is taken. Returns their ids.
pub async fn send(data: PathBuf, thread: usize, stop: Arc<AtomicBool>) -> Vec<String> {
    let (client, mut accepted) = (http(), Vec::new());
    for n in 0.. {
        if stop.load(Ordering::Acquire) {
            break;
        }
        // The one by the rule, the other by what the model says.
        let (mark, verb) = (format!("m-{thread}-{n}"), ["count", "think"][n % 2]);
        let mut message = envelope(&mark, &format!("chat-{thread}"), &format!("{verb}: {mark}"), "interactive");
        // One is a stranger; the others are the owner.
        if thread > 0 {
            message["sender"]["identity"] = OWNER.into();
        }
        loop {
            match hand_in(&data, &client, &message).await {
                Some((202, _, answer)) => {
                    assert!(answer["request_id"].is_string(), "{answer}");
                    break;
                }
                // Nobody was there, it can't be taken just now, or the token is the last daemon's.
                None | Some((401 | 429 | 503, ..)) => tokio::time::sleep(Duration::from_millis(300)).await,
                Some((status, _, answer)) => panic!("{mark}: {status} {answer}"),
            }
        }
        accepted.push(mark);
        tokio::time::sleep(Duration::from_millis(1500)).await;
    }
    accepted
}

/// What is lost already: messages that are dead, or with a butler that they are not for.
pub async fn amiss(household: &Household) -> Vec<String> {
    let sql = "SELECT m.external_event_id || ' is ' || m.state || ': ' || coalesce(m.last_error, 'no error') AS told
               FROM switchboard.message_inbox m WHERE m.state NOT IN ('accepted', 'processing', 'done')
               UNION ALL SELECT s.request_id || ' went to ' || s.butler FROM switchboard.route_segments s
               WHERE s.state NOT IN ('draft', 'rerouted') AND s.butler <> 'tally'";
    let rows = household.owner().await.query(sql, &[]).await.expect("the messages");
    rows.iter().map(|row| row.get(0)).collect()
}

/// What is not at its end: messages, what was handed to the butler, and its sessions.
async fn still_open(household: &Household) -> Vec<String> {
    let sql = "SELECT 'message ' || to_jsonb(m)::text AS told FROM switchboard.message_inbox m WHERE m.state IN ('accepted', 'processing')
               UNION ALL SELECT 'route ' || to_jsonb(r)::text FROM tally.route_inbox r WHERE r.settled_at IS NULL
               UNION ALL SELECT 'session ' || (to_jsonb(s) - 'context' - 'system_prompt')::text FROM tally.sessions s
                         WHERE s.completed_at IS NULL";
    let rows = household.owner().await.query(sql, &[]).await.expect("what is open");
    rows.iter().map(|row| row.get(0)).collect()
}

/// Each accepted message by its id: at its end, with its butler, counted once; or not, where its model was told that
/// the outcome is not known, or another session told the end of it.
pub async fn all_ended(household: &Household, accepted: &[String]) {
    let client = household.owner().await;
    let open = "SELECT count(*) FROM switchboard.message_inbox WHERE state IN ('accepted', 'processing')";
    let begun = Instant::now();
    while client.query_one(open, &[]).await.expect("the messages").get::<_, i64>(0) > 0 {
        if begun.elapsed() > Duration::from_secs(300) {
            panic!("messages are not at their end: {:#?}", still_open(household).await);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let rest = begun.elapsed();
    let found = amiss(household).await;
    assert!(found.is_empty(), "{found:?}");
    let sql = "SELECT (SELECT count(*) FROM switchboard.message_inbox o WHERE o.external_event_id = m.external_event_id),
                      (SELECT count(*) FROM tally.counted c WHERE c.mark = m.external_event_id),
                      (SELECT string_agg(c.outcome || ' ' || coalesce(c.detail, ''), '; ')
                       FROM tally.sessions s JOIN tally.tool_calls c ON c.session_id = s.id
                       WHERE s.request_id = m.request_id AND c.outcome <> 'ok'),
                      EXISTS (SELECT 1 FROM tally.sessions s WHERE s.request_id = m.request_id AND s.context #> '{context,cut_off}' IS NOT NULL)
               FROM switchboard.message_inbox m WHERE m.external_event_id = $1";
    let (mut closed, mut uncounted) = (0, Vec::new());
    for mark in accepted {
        let row = client.query_opt(sql, &[mark]).await.expect("a message");
        let row = row.unwrap_or_else(|| panic!("{mark} was accepted and is lost"));
        let (copies, counted): (i64, i64) = (row.get(0), row.get(1));
        let (failed, cut): (Option<String>, bool) = (row.get(2), row.get(3));
        closed += usize::from(cut);
        assert_eq!(copies, 1, "{mark} was taken in {copies} times");
        assert!(counted <= 1, "{mark} was counted {counted} times");
        if counted == 0 {
            assert!(cut || failed.is_some(), "{mark} is done, was not counted, and no call failed");
            uncounted.push(format!("{mark}: cut off: {cut}, {failed:?}"));
        }
    }
    println!(
        "{} accepted, all at their end {rest:?} later; {closed} were told the end of by another session; {} were not counted, and \
         their model was told why: {uncounted:#?}",
        accepted.len(),
        uncounted.len()
    );
}
