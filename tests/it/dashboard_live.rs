//! Pages that stay open: what they hear, what they ask for after a cut, and that they do not grow.

use serde_json::{Value, json};
use testkit::model::ScriptedModel;

use crate::support::browser::Browser;
use crate::support::pages::Page;
use crate::support::{Daemon, Household, eventually, model, ports};

/// A household, and the model that answers in it.
async fn household() -> (ScriptedModel, Household) {
    let model = model(json!([{"when": "", "steps": [{"say": "Done."}]}])).await;
    let household = Household::with_model(&model);
    (model, household)
}

async fn does(daemon: &Daemon, prompt: &str) {
    let end = daemon.mcp("health").ok("trigger", json!({"prompt": prompt})).await;
    assert_eq!(end["success"], true, "{end}");
}

/// The address of the page's stream, with what the page has seen.
async fn stream_of(page: &Page, path: &str) -> String {
    let html = page.get(path).await;
    let live = html.split_once("data-live=\"").expect("a live page").1;
    live.split('"').next().unwrap_or_default().to_owned()
}

/// What a stream says first: whether something changed, and the number that it goes on from.
async fn first(page: &Page, stream: &str, last: Option<&str>) -> (bool, String) {
    let mut answer = page.answer(stream, last).await;
    assert_eq!(answer.status(), 200, "{stream}");
    let mut said = String::new();
    while !said.contains("id: ") || !said.ends_with("\n\n") {
        let more = answer.chunk().await.expect("a stream").expect("that goes on");
        said.push_str(&String::from_utf8_lossy(&more));
    }
    let id = said.split("id: ").nth(1).and_then(|rest| rest.lines().next()).unwrap_or_default().to_owned();
    (said.contains("event: changed"), id)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_cut_a_page_asks_again_only_for_what_it_missed() {
    let (_model, household) = household().await;
    let daemon = household.start().await;
    let page = Page::of(&daemon).await;
    let home = eventually("nothing happens", async || {
        let home = stream_of(&page, "/").await;
        if first(&page, &home, None).await.0 { Err("something did".to_owned()) } else { Ok(home) }
    })
    .await;
    let other = stream_of(&page, "/butlers/general").await;
    does(&daemon, "weigh me").await;
    let (changed, _) = first(&page, &home, None).await;
    assert!(changed, "a session ran since the page was made");
    let (changed, _) = first(&page, &other, None).await;
    assert!(!changed, "it was another butler's");
    // The browser itself says after a cut what it heard last, and that counts more than what the page was made with.
    eventually("all was heard", async || {
        let (_, last) = first(&page, &home, None).await;
        let (changed, again) = first(&page, &home, Some(&last)).await;
        if changed { Err(again) } else { Ok(()) }
    })
    .await;
    for unknown in ["", "x", "00000000000000000000000000000000-9"] {
        assert!(first(&page, &home, Some(unknown)).await.0, "{unknown:?} is of no run of this daemon");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_tab_comes_back_after_the_daemon_does() {
    let port = ports::free(1)[0];
    let (_model, household) = household().await;
    let household = household.env("BUTLERD_ADMIN__LISTEN", &format!("127.0.0.1:{port}"));
    let mut daemon = household.start().await;
    let Some(mut browser) = Browser::start(&daemon).await else { return };
    browser.sign_in(&household).await;
    browser.goto("/").await;
    browser.does("marks", json!({})).await;
    let stopped = tokio::task::spawn_blocking(move || daemon.stop_blocking());
    assert_eq!(stopped.await.expect("its end"), 0);
    browser.does("lost", json!({"lost": true})).await;
    let daemon = household.start().await;
    does(&daemon, "a thing that happened meanwhile").await;
    browser.sees("a thing that happened meanwhile").await;
    browser.does("lost", json!({"lost": false})).await;
    // It is the same page, which goes on to hear.
    does(&daemon, "another thing, later").await;
    browser.sees("another thing, later").await;
    let text = browser.does("text", json!({})).await;
    let problems = text["problems"].as_array().cloned().unwrap_or_default();
    let others: Vec<&Value> =
        problems.iter().filter(|told| !told.as_str().is_some_and(|told| told.contains("net::ERR_"))).collect();
    assert!(others.is_empty(), "{others:?}");
    assert_eq!(browser.does("marks", json!({})).await["marked"], true, "it was never loaded anew");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tab_that_renews_itself_all_day_does_not_grow() {
    let (_model, household) = household().await;
    let daemon = household.start().await;
    let Some(mut browser) = Browser::start(&daemon).await else { return };
    browser.sign_in(&household).await;
    for n in 0..5 {
        does(&daemon, &format!("work {n}")).await;
    }
    daemon.mcp("health").ok("measurement_log", json!({"kind": "weight", "value": {"kg": 82}})).await;
    let later = json!({"kind": "weight", "value": {"kg": 83}, "measured_at": "2026-01-01T08:00:00Z"});
    daemon.mcp("health").ok("measurement_log", later).await;
    browser.does("count_streams", json!({})).await;
    browser.does("fake_clock", json!({})).await;
    for path in ["/butlers/health", "/", "/schedules"] {
        browser.goto(path).await;
        browser.does("renews", json!({"times": 20})).await;
        let begin = browser.does("held", json!({})).await;
        browser.does("renews", json!({"times": 200})).await;
        let of = |told: &Value, name: &str| told[name].as_f64().expect("a number");
        let grown = |end: &Value| {
            // Whatever the browser itself keeps for a moment is far less than one more page each time.
            let more = |name: &&str| of(end, name) > of(&begin, name) * 1.1 + 20.0;
            ["nodes", "listeners"].into_iter().find(more)
        };
        let mut end = browser.does("held", json!({})).await;
        // It may keep the last page for a moment: what was really kept of two hundred stays as one more comes and goes.
        for _ in 0..5 {
            if grown(&end).is_some() {
                browser.does("renews", json!({"times": 1})).await;
                end = browser.does("held", json!({})).await;
            }
        }
        assert_eq!(grown(&end), None, "{path}: {begin} {end}");
    }
}
