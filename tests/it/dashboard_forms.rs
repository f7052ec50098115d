//! Every form of the dashboard, as its page shows it: without its session's mark, with another's, and from a browser that
//! may only look it is refused, and nothing has changed.

use std::collections::BTreeSet;

use serde_json::json;
use tokio_postgres::Client;

use crate::dashboard_actions::ACTIONS;
use crate::dashboard_doors::bare;
use crate::dashboard_made::{Made, before, butler, filled, household, make, prepare};
use crate::support::bot_api::BotApi;
use crate::support::markup::{Form, fits, forms};
use crate::support::pages::Page;

/// What of a session's own a browser ends that may only look.
const OWN: &str = "/logout";

/// What each action is known to have been done by, as it is now.
async fn rows(db: &Client, made: &Made) -> Vec<(&'static str, Vec<Option<bool>>)> {
    let mut all = Vec::new();
    for action in ACTIONS.iter().filter(|action| action.route != OWN) {
        let sql = filled(action.holds, made);
        let rows = db.query(&sql, &[]).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
        all.push((action.route, rows.iter().map(|row| row.get(0)).collect()));
    }
    all
}

/// The forms that the owner's pages show for the actions.
async fn shown(owner: &Page, made: &Made) -> Vec<(&'static str, Form)> {
    let mut all: Vec<(&'static str, Form)> = Vec::new();
    for action in ACTIONS {
        let html = owner.get(&filled(action.page, made)).await;
        let of_it = forms(&html).into_iter().filter(|form| fits(action.route, &form.action));
        for form in of_it {
            if !all.iter().any(|(_, known)| known.action == form.action && known.fields == form.fields) {
                all.push((action.route, form));
            }
        }
    }
    all
}

async fn sent(page: &Page, form: &Form, proof: Option<&str>) -> u16 {
    let own = form.fields.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let fields: Vec<(&str, &str)> = own.chain(proof.map(|proof| ("form", proof))).collect();
    page.post(&form.action, &fields).await.status().as_u16()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_form_wants_the_right_and_its_own_session() {
    let (model, telegram) = (butler().await, BotApi::start().await);
    let (household, control) = household(&model, &telegram);
    let daemon = household.start().await;
    let db = household.owner().await;
    prepare(&db).await;
    let mut made = make(&household, &daemon, &db, "a").await;
    made.insert("#", "0".to_owned());
    // What was edited for the one form of the journal is taken in for the other: that comes first.
    household.journal_begun().await;
    let (last, first): (Vec<_>, Vec<_>) = ACTIONS.iter().partition(|action| action.route == "/journal/*/accept");
    for action in first.into_iter().chain(last) {
        before(&household, &daemon, action.route, &control, &mut made).await;
    }
    // A standing rule, of which the page has a button to end it.
    let rule = json!({"id": made["rule"], "rule": {"description": "another", "any": ["text"]}});
    let (owner, other) = (Page::of(&daemon).await, Page::of(&daemon).await);
    let looks = Page::with(&daemon, json!({"only_look": true})).await;
    daemon.rpc("approvals_rule", rule).await;
    let all = shown(&owner, &made).await;
    let declared: BTreeSet<&str> = dashboard::forms().collect();
    let covered: BTreeSet<&str> = all.iter().map(|(route, _)| *route).collect();
    let missing: Vec<_> = declared.difference(&covered).collect();
    assert!(missing.is_empty(), "no page shows the forms {missing:?}");
    let (own, foreign, looking) = (owner.proof("/").await, other.proof("/").await, looks.proof("/").await);
    let was = rows(&db, &made).await;
    let mut wrong = Vec::new();
    for (route, form) in &all {
        let nobody = bare().post(format!("http://{}{}", daemon.admin(), form.action)).body("").send().await;
        let mut tried = vec![
            ("nobody", 401, nobody.expect("an answer").status().as_u16()),
            ("no mark", 403, sent(&owner, form, None).await),
            ("an empty mark", 403, sent(&owner, form, Some("")).await),
            ("another session's mark", 403, sent(&owner, form, Some(&foreign)).await),
            ("a looking session's mark", 403, sent(&owner, form, Some(&looking)).await),
            ("the owner's mark in another browser", 403, sent(&looks, form, Some(&own)).await),
        ];
        if *route != OWN {
            tried.push(("who may only look", 403, sent(&looks, form, Some(&looking)).await));
        }
        let bad = tried.into_iter().filter(|(_, wanted, status)| wanted != status);
        wrong.extend(bad.map(|(who, wanted, status)| format!("{}: {who}: {status}, not {wanted}", form.action)));
    }
    assert!(wrong.is_empty(), "{} of {} forms:\n{}", wrong.len(), all.len(), wrong.join("\n"));
    assert_eq!(rows(&db, &made).await, was, "a refused form changed something");
    for page in [&owner, &other, &looks] {
        assert_eq!(page.status("/").await, 200, "nobody was signed out");
    }
    // Who may only look sees no form at all but the one that signs them out.
    for action in ACTIONS {
        let html = looks.answer(&filled(action.page, &made), None).await.text().await.expect("a page");
        let acts: Vec<Form> = forms(&html).into_iter().filter(|form| form.action != OWN).collect();
        assert!(acts.is_empty(), "{}: {acts:?}", action.page);
    }
    // The same forms do something as the owner's own: it was the mark and the right that were missing.
    let agree = all.iter().find(|(route, _)| *route == "/approvals/*/approve").expect("an approval");
    assert_eq!(sent(&owner, &agree.1, Some(&own)).await, 303);
}
