//! What the browser looks at: every page of the dashboard, in a household in which each has something to show.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use testkit::model::ScriptedModel;

use crate::approvals::{json_of, told};
use crate::dashboard_made::{Made, before, butler, filled, household, make, prepare};
use crate::inbound::{ended, ingest, message};
use crate::support::bot_api::{BotApi, Fault};
use crate::support::browser::Browser;
use crate::support::council::{council_of, member, settings};
use crate::support::developer::Developer;
use crate::support::pages::Page;
use crate::support::{Daemon, Household, model};

/// Where the browser goes besides where links lead: each page of the dashboard, and those that are worth a look in more
/// than one state. `{name}` stands for what was made under this name.
pub const ADDRESSES: &[&str] = &[
    "/",
    "/find?q=heal",
    "/sessions",
    "/sessions?butler=health",
    "/sessions/{weighed}",
    "/sessions/{hangs}",
    "/sessions/{broke}",
    "/approvals",
    "/approvals?all=1",
    "/approvals/{rule}",
    "/approvals/{let}",
    "/approvals/{turn}",
    "/approvals/proposals/{both}",
    "/inbox",
    "/inbox?state=dead",
    "/inbox/{dead}",
    "/inbox/{moved}",
    "/inbox/{said}",
    "/conversations",
    "/conversations?q=talk",
    "/conversations/{said}",
    "/conversations/with/{person}",
    "/deliveries",
    "/deliveries?state=bad",
    "/deliveries/{unknown}",
    "/deliveries/{failed}",
    "/deliveries/{deferred}",
    "/deliveries/{lost}",
    "/deliveries/{files}",
    "/deliveries/{left}",
    "/deliveries/{no_file}",
    "/schedules",
    "/schedules/{pause}",
    "/schedules/{resume}",
    "/memory",
    "/memory?butler=health&q=green",
    "/memory/health/fact/{redo}",
    "/memory/health/fact/{purge}/purge",
    "/memory/told/{weighed}",
    "/costs",
    "/costs?days=1",
    "/council",
    "/council/{question}",
    "/journal",
    "/journal/general",
    "/journal/general/checkpoints",
    "/journal/general/file?name=core.md",
    "/projects",
    "/projects/workshop/{project}",
    "/people",
    "/connectors",
    "/connectors/mcp/visitor/fake",
    "/rules",
    "/notes",
    "/secrets",
    "/settings",
    "/audit",
    "/audit?outcome=ok",
    "/undo",
    "/butlers/health",
    "/butlers/visitor",
    "/butlers/health/tools/measurement_log",
    "/trace/{said}",
];

/// Pages that are the answer to a form: where the form is, what is typed and pressed, and what then stands there.
pub fn answers() -> Vec<(&'static str, Value, &'static str)> {
    let press = |name: &str| json!({"role": "button", "name": name});
    let invited = |name: &str, text: &str| {
        let within = "section[aria-labelledby=invite]";
        json!({"role": "textbox", "name": name, "text": text, "part": true, "within": within})
    };
    let invite = json!([invited("Name", "Bob"), invited("Channel", "telegram"), press("Make an invitation")]);
    let call = |value: &str| {
        json!([{"role": "combobox", "name": "kind", "value": "steps", "part": true},
               {"role": "textbox", "name": "value", "text": value, "part": true}, press("Call it")])
    };
    let tool = "/butlers/health/tools/measurement_log";
    vec![
        ("/people", invite, "Send this to"),
        ("/journal/general", json!([press("Check it")]), "The journal was checked"),
        (tool, call("{\"count\": 100}"), "On record"),
        (tool, call("{\"nothing\": true}"), "It was not done"),
    ]
}

/// A household with all that the dashboard shows.
pub struct Walked {
    pub daemon: Daemon,
    pub household: Household,
    pub made: Made,
    _servers: (Vec<ScriptedModel>, BotApi),
}

/// Text that would run if any page took it for markup.
const EVIL: [&str; 4] =
    ["<script>alert(1)</script>", "\"><img src=x onerror=alert(2)>", "'><svg onload=alert(3)>", "' onfocus='alert(4)"];

/// Has everything come about once.
pub async fn walked() -> Walked {
    let (own, telegram) = (butler().await, BotApi::start().await);
    let members = [
        member("Rent, for now.", "1. Response A\n2. Response B").await,
        member("Buy.", "1. Response B\n2. Response A").await,
        model(json!([{"when": ".", "steps": [{"fail": {"status": 400, "body": "no such model"}}]}])).await,
    ];
    let [ada, bob, eve] = &members;
    let council = settings(&[("ada", "model-a", ada), ("bob", "model-b", bob), ("eve", "model-c", eve)], "");
    let (household, control) = household(&own, &telegram);
    let household = council_of(household, &council).and_workshop();
    let daemon = household.start().await;
    let db = household.owner().await;
    prepare(&db).await;
    let mut made = make(&household, &daemon, &db, "a").await;
    for route in ["/notes/seen", "/journal/*/accept", "/connectors/mcp/*/*/accept"] {
        before(&household, &daemon, route, &control, &mut made).await;
    }
    strangers_write(&daemon).await;
    decided(&household, &daemon, &db, &made).await;
    said(&daemon, &mut made).await;
    sent(&daemon, &telegram, &mut made).await;
    asked(&household, &daemon, &mut made).await;
    let broke = daemon.mcp("health").call("trigger", json!({"prompt": "fail here"})).await.text();
    made.insert("broke", broke["session_id"].as_str().unwrap_or_else(|| panic!("{broke}")).to_owned());
    // One that goes on, after all that waits for others' ends.
    before(&household, &daemon, "/sessions/*/cancel", &control, &mut made).await;
    let mut servers = Vec::from(members);
    servers.push(own);
    Walked { daemon, household, made, _servers: (servers, telegram) }
}

async fn strangers_write(daemon: &Daemon) {
    for (n, evil) in EVIL.iter().enumerate() {
        let mut envelope = message(&format!("e{n}"), evil, evil);
        envelope["sender"]["identity"] = json!(evil);
        let (status, accepted) = ingest(daemon, &envelope).await;
        assert_eq!(status, 202, "{accepted}");
    }
}

/// One call is made, one is refused, and one may always be made.
async fn decided(household: &Household, daemon: &Daemon, db: &tokio_postgres::Client, made: &Made) {
    json_of(household, &["approvals", "show", &made["let"]]);
    json_of(household, &["approvals", "approve", &made["let"]]);
    daemon.rpc("approvals_reject", json!({"id": made["turn"], "reason": "Not now."})).await;
    let page = Page::of(daemon).await;
    let at = format!("/approvals/{}", made["rule"]);
    page.send(&at, &format!("{at}/rule"), &[("any.text", "1"), ("description", "for the neighbours")]).await;
    page.send("/schedules", &format!("/schedules/{}/run", made["run"]), &[]).await;
    told(db, &made["let"], "executed").await;
    told(db, &made["turn"], "rejected").await;
}

/// The owner writes and is answered; somebody of theirs is known.
async fn said(daemon: &Daemon, made: &mut Made) {
    let written = daemon.rpc("conversations_write", json!({"text": "talk a", "butler": "health"})).await;
    let request = written["request_id"].as_str().unwrap_or_else(|| panic!("{written}")).to_owned();
    ended(daemon, &request).await;
    made.insert("said", request);
    let people = Page::of(daemon).await.get("/people").await;
    let person = people.split("/conversations/with/").nth(1).unwrap_or_else(|| panic!("{people}"));
    made.insert("person", person[..36].to_owned());
}

/// Deliveries with files: one that is kept, one that has left, one that was refused; and one of which nobody knows
/// whether it arrived.
async fn sent(daemon: &Daemon, telegram: &BotApi, made: &mut Made) {
    let general = daemon.mcp("general");
    let id = |told: &Value| told["delivery_id"].as_str().unwrap_or_else(|| panic!("{told}")).to_owned();
    let long = format!("{}.md", "a-very-long-name-".repeat(8));
    let files = json!([{"name": "notes.md", "text": "# Notes"}, {"name": long, "text": "Much."},
        {"name": EVIL[1], "text": "x"}]);
    let kept = json!({"intent": "send", "channel": "chat", "message": "See the files.", "files": files});
    made.insert("files", id(&general.ok("notify", kept).await));
    let left = json!({"intent": "send", "channel": "telegram", "message": "Your weights.",
        "files": [{"name": "weights.csv", "text": "day,kg\n1,72\n"}]});
    made.insert("left", id(&general.ok("notify", left).await));
    let program = json!({"intent": "send", "channel": "telegram", "message": "Run it.",
        "files": [{"name": "tool.exe", "text": "MZ"}]});
    made.insert("no_file", id(&general.call("notify", program).await.text()));
    telegram.fault("sendMessage", Fault::Lost);
    let lost = json!({"intent": "send", "channel": "telegram", "message": "Whether this arrives nobody knows."});
    made.insert("lost", id(&general.call("notify", lost).await.text()));
}

/// The council was asked, and a developer's project has a memory.
async fn asked(household: &Household, daemon: &Daemon, made: &mut Made) {
    let end = tokio::task::block_in_place(|| household.asks_council("Should we rent or buy?"));
    assert_eq!(end["state"], "succeeded", "{end}");
    let question = daemon.newest_question().await;
    made.insert("question", question["id"].as_str().unwrap_or_else(|| panic!("{question}")).to_owned());
    tokio::task::block_in_place(|| {
        let developer = Developer::in_repository(household, "work/api");
        developer.remember("Learning", "deploy", "The deploy script fails when REGION is unset");
    });
    let projects = daemon.rpc("project_list", json!({"butler": "workshop"})).await;
    let project = projects.as_array().into_iter().flatten().find(|project| project["name"] == "api");
    let id = project.and_then(|project| project["id"].as_str()).unwrap_or_else(|| panic!("{projects}"));
    made.insert("project", id.to_owned());
}

/// Where a page's links lead, each kind of page once or a few times.
pub fn kind(address: &str) -> String {
    let path = address.split(['?', '#']).next().unwrap_or_default();
    let plain = |part: &str| if part.len() >= 32 && part.contains('-') { "ID".to_owned() } else { part.to_owned() };
    let parts: Vec<String> = path.split('/').map(plain).collect();
    match parts.as_slice() {
        [_, butlers, _, tools, _] if butlers == "butlers" && tools == "tools" => "/butlers/NAME/tools/TOOL".to_owned(),
        parts => parts.join("/"),
    }
}

/// All pages that links lead to from the first one on, a page of each kind.
pub async fn crawl(browser: &mut Browser) -> Vec<String> {
    let (mut seen, mut paths, mut next) = (BTreeSet::new(), Vec::new(), vec!["/".to_owned()]);
    while let Some(path) = next.pop() {
        if !seen.insert(kind(&path)) {
            continue;
        }
        browser.goto(&path).await;
        let links = browser.does("links", json!({})).await;
        let links = links["links"].as_array().cloned().unwrap_or_default();
        next.extend(links.iter().filter_map(Value::as_str).map(str::to_owned));
        paths.push(path);
    }
    paths
}

/// All addresses that are looked at, each with a name for its pictures: those of [`ADDRESSES`], and of those that links
/// lead to the kinds that these do not have.
pub fn addresses(crawled: &[String], made: &Made) -> Vec<(String, String)> {
    let named = |template: &str| template.replace(['/', '?', '=', '&', '{', '}', '.'], "_");
    let mut all: Vec<(String, String)> =
        ADDRESSES.iter().map(|template| (filled(template, made), named(template))).collect();
    let known: BTreeSet<String> = all.iter().map(|(address, _)| kind(address)).collect();
    let more = crawled.iter().filter(|path| !known.contains(&kind(path)));
    all.extend(more.map(|path| (path.clone(), named(&kind(path)))));
    all
}

#[test]
fn every_page_of_the_dashboard_is_looked_at_in_the_browser() {
    let looked: BTreeSet<&str> = ADDRESSES.iter().filter_map(|address| dashboard::page_of(address)).collect();
    let forgotten: Vec<_> = dashboard::pages().filter(|page| !looked.contains(page)).collect();
    assert!(forgotten.is_empty(), "no address of dashboard_walk.rs leads to {forgotten:?}");
    let nowhere: Vec<_> = ADDRESSES.iter().filter(|address| dashboard::page_of(address).is_none()).collect();
    assert!(nowhere.is_empty(), "the dashboard has no page at {nowhere:?}");
}
