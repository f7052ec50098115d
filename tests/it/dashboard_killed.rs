//! A session that is killed in the browser leaves no process, wherever its processes went.

use serde_json::json;
use uuid::Uuid;

use crate::soak::{self, proc};
use crate::support::browser::Browser;
use crate::support::{Daemon, FAKE, Household, eventually};
use base::SessionId;
use process::Mark;

/// Processes that carry the mark of this session.
fn marked(session: Uuid) -> Vec<i32> {
    let mark = format!("{:?}", Mark::of(SessionId(session)));
    let own = |process: &proc::Process| !process.dead && process.mark().as_deref() == Some(mark.as_str());
    proc::processes().filter(own).map(|process| process.pid).collect()
}

/// The session that runs, and what it has started.
async fn running(household: &Household, daemon: &Daemon, least: usize) -> Uuid {
    eventually("the session and all of its processes", async || {
        let page = daemon.rpc("sessions_list", json!({"limit": 5})).await;
        let sessions = page["sessions"].as_array().cloned().unwrap_or_default();
        let one = sessions.iter().find(|session| session["state"] == "running").ok_or(page.to_string())?;
        let id: Uuid = one["id"].as_str().and_then(|id| id.parse().ok()).ok_or("no id")?;
        let (fakes, marked) = (household.fakes(), marked(id));
        let whole = fakes.len() >= least && (marked.len() >= least || !Mark::available());
        if whole { Ok(id) } else { Err(format!("{fakes:?} {marked:?}")) }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_killed_in_the_browser_leaves_no_process() {
    let household = Household::misbehaving().session_timeout("15m");
    let daemon = household.start().await;
    let Some(mut browser) = Browser::start(&daemon).await else { return };
    browser.sign_in(&household).await;
    // One that leaves when it is told to, and one that is deaf; their children hide from their parents and from signals.
    let all = "fork plain; fork setsid; fork double; fork hidden";
    for (keyboard, steps) in [(false, format!("start; {all}; hang")), (true, format!("start; deaf; {all}; hang"))] {
        let faker = daemon.mcp(FAKE);
        let prompt = soak::prompt(&steps);
        let ended = tokio::spawn(async move { faker.call("trigger", json!({"prompt": prompt})).await });
        let id = running(&household, &daemon, 4).await;
        browser.goto(&format!("/sessions/{id}")).await;
        browser.press(keyboard, "button", "Kill this session").await;
        browser.sees("Cancelled.").await;
        browser.sees("cancelled").await;
        assert!(ended.await.is_ok());
        eventually("none of its processes is left", async || {
            let left = (household.fakes(), marked(id), household.zombies(&daemon));
            if left == (vec![], vec![], vec![]) { Ok(()) } else { Err(format!("{steps}: {left:?}")) }
        })
        .await;
    }
}
