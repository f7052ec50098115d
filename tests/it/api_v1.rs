//! The household for other programs: who may, pages of lists, problems, and acts that really happen.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};

use crate::approvals;
use crate::doors::{BAD_HOSTS, BAD_ORIGINS, raw};
use crate::inbound::{ended, ingest, message};
use crate::support::pages::Page;
use crate::support::{Daemon, Household, eventually, http, model};

/// Asks the API; status, headers and JSON.
pub async fn ask(
    daemon: &Daemon,
    token: &str,
    (method, path): (Method, &str),
    body: Option<&Value>,
) -> (u16, reqwest::header::HeaderMap, Value) {
    let mut request = http().request(method, format!("http://{}/api/v1{path}", daemon.admin())).bearer_auth(token);
    if let Some(body) = body {
        request = request.json(body);
    }
    let answer = request.send().await.expect("an answer");
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    let text = answer.text().await.expect("text");
    (status, headers, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// Reads something with the operator's token.
pub async fn read(daemon: &Daemon, path: &str) -> Value {
    let (status, _, body) = ask(daemon, &daemon.token(), (Method::GET, path), None).await;
    assert_eq!(status, 200, "{path}: {body}\n{}", daemon.log());
    body
}

async fn act(daemon: &Daemon, path: &str, body: Value) -> (u16, Value) {
    let (status, _, body) = ask(daemon, &daemon.token(), (Method::POST, path), Some(&body)).await;
    (status, body)
}

fn problem(headers: &reqwest::header::HeaderMap, body: &Value, status: u16, code: &str) {
    assert_eq!(headers["content-type"], "application/problem+json", "{body}");
    assert_eq!((&body["status"], &body["code"], &body["type"]), (&json!(status), &json!(code), &json!("about:blank")));
    assert!(body["title"].is_string() && body["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{body}");
}

fn token(household: &Household, scope: &str) -> String {
    token_of(household, scope, &[])
}

fn token_of(household: &Household, scope: &str, whose: &[&str]) -> String {
    let args = [&["token", "new", "--json", "--scope", scope], whose].concat();
    let (code, made, err) = tokio::task::block_in_place(|| household.cli(&args));
    assert_eq!(code, 0, "{err}");
    let made: Value = serde_json::from_str(&made).expect("JSON");
    made["token"].as_str().expect("a token").to_owned()
}

/// Every path of the document, with ids that name nothing.
async fn operations(daemon: &Daemon) -> Vec<(Method, String)> {
    let document = read(daemon, "/openapi.json").await;
    let mut all = Vec::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        let path = path.replace("{butler}", "health").replace("{id}", "00000000-0000-7000-8000-000000000000");
        for method in methods.as_object().expect("methods").keys() {
            all.push((method.to_uppercase().parse().expect("a method"), path.clone()));
        }
    }
    assert!(all.len() > 55, "{}", all.len());
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_token_with_the_right_opens_the_api() {
    let household = Household::new();
    let daemon = household.start().await;
    let looks = token(&household, "read");
    let page = Page::of(&daemon).await;
    for (method, path) in operations(&daemon).await {
        let place = format!("{method} {path}");
        let at = format!("http://{}/api/v1{path}", daemon.admin());
        let nobody = http().request(method.clone(), &at).send().await.expect("an answer");
        assert_eq!(
            (nobody.status().as_u16(), &nobody.headers()["www-authenticate"]),
            (401, &"Bearer".parse().unwrap())
        );
        problem(&nobody.headers().clone(), &nobody.json().await.expect("JSON"), 401, "unauthorized");
        let cookie =
            http().request(method.clone(), &at).header("cookie", &page.cookie).send().await.expect("an answer");
        assert_eq!(cookie.status(), 401, "{place} by a browser");
        let (status, headers, body) = ask(&daemon, &looks, (method.clone(), &path), None).await;
        if method == Method::POST || ["/secrets", "/tokens", "/settings"].contains(&path.as_str()) {
            assert_eq!(status, 403, "{place}: {body}");
            problem(&headers, &body, 403, "forbidden");
        } else {
            assert!([200, 400, 404, 503].contains(&status), "{place}: {status} {body}");
        }
    }
    // What the API is, anybody may see who comes by the right name.
    let (status, headers, body) = ask(&daemon, "x", (Method::GET, "/"), None).await;
    assert_eq!((status, headers["content-type"].to_str().unwrap()), (200, "text/html; charset=utf-8"));
    assert!(body.as_str().is_some_and(|page| page.contains("GET /api/v1/sessions/{id}")), "{body}");
    let port = daemon.admin().rsplit(':').next().and_then(|port| port.parse::<u16>().ok()).expect("a port");
    let mut many = 0;
    for (method, path) in
        [("GET", "/api/v1/"), ("GET", "/api/v1/openapi.json"), ("GET", "/api/v1/sessions"), ("POST", "/api/v1/x")]
    {
        let fill = |text: &str| text.replace("{port}", &port.to_string());
        let head = |host: &str, more: &str| {
            let token = daemon.token();
            format!(
                "{method} {path} HTTP/1.1\r\nHost: {host}\r\n{more}Authorization: Bearer {token}\r\nContent-Length: 0\r\n\r\n"
            )
        };
        for host in BAD_HOSTS {
            assert_eq!(raw(port, &head(&fill(host), "")).await, 403, "{path} Host: {host}");
            many += 1;
        }
        for origin in BAD_ORIGINS {
            let line = format!("Origin: {}\r\n", fill(origin));
            assert_eq!(raw(port, &head(&format!("localhost:{port}"), &line)).await, 403, "{path} Origin: {origin}");
            many += 1;
        }
    }
    assert_eq!(many, 4 * 40);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_is_a_problem_and_what_is_known_is_not_sent_again() {
    let household = Household::new();
    let daemon = household.start().await;
    let own = daemon.token();
    for (method, path, status, code) in [
        (Method::GET, "/nothing", 404, "not_found"),
        (Method::GET, "/butlers/nobody", 404, "unknown_butler"),
        (Method::GET, "/butlers/nobody/tools", 404, "unknown_butler"),
        (Method::GET, "/sessions/00000000-0000-7000-8000-000000000000", 404, "not_found"),
        (Method::GET, "/sessions/x", 400, "invalid_parameters"),
        (Method::GET, "/sessions?limit=0", 400, "invalid_parameters"),
        (Method::GET, "/sessions?offset=10", 400, "invalid_parameters"),
        (Method::GET, "/sessions?cursor=forged", 422, "invalid_cursor"),
        (Method::GET, "/conversations/search?text=a%00b", 422, "invalid_text"),
        (Method::DELETE, "/sessions", 405, "method_not_allowed"),
        (Method::GET, "/schedules/00000000-0000-7000-8000-000000000000/run", 405, "method_not_allowed"),
    ] {
        let (found, headers, body) = ask(&daemon, &own, (method.clone(), path), None).await;
        assert_eq!(found, status, "{method} {path}: {body}");
        problem(&headers, &body, status, code);
        assert_eq!(headers.contains_key("allow"), status == 405, "{path}");
    }
    let at = format!("http://{}/api/v1/inbox/00000000-0000-7000-8000-000000000000/reroute", daemon.admin());
    for (kind, text, status, code) in [
        ("text/plain", "{\"butler\": \"health\"}", 415, "unsupported_media_type"),
        ("application/json", "{\"butler\":", 400, "invalid_body"),
        ("application/json", "{}", 400, "invalid_body"),
        ("application/json", "{\"butler\": \"health\", \"more\": 1}", 400, "invalid_body"),
        ("application/json", "{\"butler\": \"health\"}", 404, "not_found"),
    ] {
        let request = http().post(&at).bearer_auth(&own).header("content-type", kind).body(text).send();
        let answer = request.await.expect("an answer");
        assert_eq!(answer.status().as_u16(), status, "{text}");
        problem(&answer.headers().clone(), &answer.json().await.expect("JSON"), status, code);
    }
    // The status stays the same while nothing happens; at the beginning connections come and go.
    let status = format!("http://{}/api/v1/status", daemon.admin());
    eventually("a status that is known", || async {
        let first = http().get(&status).bearer_auth(&own).send().await.expect("an answer");
        let tag = first.headers()["etag"].clone();
        let again =
            http().get(&status).bearer_auth(&own).header("if-none-match", &tag).send().await.expect("an answer");
        if again.status() == 304 { Ok(()) } else { Err(again.text().await.expect("text")) }
    })
    .await;
    let at = format!("http://{}/api/v1/rules", daemon.admin());
    let first = http().get(&at).bearer_auth(&own).send().await.expect("an answer");
    let tag = first.headers()["etag"].clone();
    assert!(tag.to_str().unwrap().starts_with('"'), "{tag:?}");
    let length = first.headers()["content-length"].clone();
    let again = http().get(&at).bearer_auth(&own).header("if-none-match", &tag).send().await.expect("an answer");
    assert_eq!((again.status().as_u16(), &again.headers()["etag"]), (304, &tag));
    assert!(again.bytes().await.expect("a body").is_empty());
    let head = http().head(&at).bearer_auth(&own).send().await.expect("an answer");
    assert_eq!(
        (head.status().as_u16(), &head.headers()["etag"], &head.headers()["content-length"]),
        (200, &tag, &length)
    );
    let rule = json!({"kind": "sender_domain", "pattern": "spam.example", "action": "skip"});
    daemon.mcp("switchboard").ok("triage_rule_add", rule).await;
    let changed = http().get(&at).bearer_auth(&own).header("if-none-match", &tag).send().await.expect("an answer");
    assert_eq!(changed.status(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_a_list_have_each_session_once() {
    let model = model(json!([{"when": "good morning", "steps": [{"say": "Good morning."}]}])).await;
    let household = Household::with_model(&model);
    let daemon = household.start().await;
    for butler in ["health", "general"] {
        daemon.mcp(butler).ok("trigger", json!({"prompt": "good morning"})).await;
    }
    let db = household.owner().await;
    // Of each second three, in two butlers, so that pages end among rows of one time.
    for (butler, many) in [("health", 59), ("general", 59)] {
        let sql = format!(
            "INSERT INTO {butler}.sessions SELECT (jsonb_populate_record(NULL::{butler}.sessions, to_jsonb(s) || jsonb_build_object(
                 'id', gen_random_uuid(), 'queued_at', s.queued_at - make_interval(secs => n / 3)))).*
             FROM (SELECT * FROM {butler}.sessions ORDER BY queued_at DESC LIMIT 1) s, generate_series(3, $1::int + 2) n"
        );
        db.execute(&sql, &[&many]).await.expect("rows");
    }
    for (filter, all) in [("", 120), ("&butler=general", 60)] {
        for limit in [7, 50] {
            let (mut seen, mut times, mut cursor) = (BTreeSet::new(), Vec::new(), String::new());
            loop {
                let page = read(&daemon, &format!("/sessions?limit={limit}{filter}{cursor}")).await;
                for row in page["data"].as_array().expect("rows") {
                    assert!(seen.insert(row["id"].as_str().expect("an id").to_owned()), "{row} twice");
                    times.push(row["queued_at"].as_str().expect("a time").parse::<jiff::Timestamp>().expect("a time"));
                }
                match page["next"].as_str() {
                    Some(next) => cursor = format!("&cursor={next}"),
                    None => break,
                }
            }
            assert_eq!(seen.len(), all, "{filter} {limit}");
            assert!(times.is_sorted_by(|a, b| a >= b));
        }
    }
    // A cursor is good for its own list alone.
    let next = read(&daemon, "/sessions?limit=5").await["next"].as_str().expect("a cursor").to_owned();
    for other in [
        format!("/sessions?butler=health&cursor={next}"),
        format!("/audit?cursor={next}"),
        format!("/sessions?cursor={}", &next[1..]),
    ] {
        let (status, _, body) = ask(&daemon, &daemon.token(), (Method::GET, &other), None).await;
        assert_eq!((status, &body["code"]), (422, &json!("invalid_cursor")), "{other}");
    }
    // The dashboard goes back by the same pages.
    let page = Page::of(&daemon).await;
    assert!(page.get("/sessions").await.contains("/sessions?before="), "no older page");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_approved_and_refused_for_real() {
    let model = model(json!([
        {"when": "A call of `[a-z_]+` that you had made", "steps": [{"say": "I know."}]},
        {"when": "leak ([a-z0-9-]+)", "steps": [{"call": {"tool": "leak", "arguments": {"text": "{{match.1}}"}}}, {"say": "Done."}]},
    ]))
    .await;
    let household = approvals::household(&model);
    let daemon = household.start().await;
    let db = household.owner().await;
    // More than one page holds.
    let long = format!("one-{}", "x".repeat(4000));
    for (what, text) in [("one", long.as_str()), ("two", "two")] {
        approvals::from_stranger(&daemon, what, &format!("leak {text}")).await;
    }
    let (one, two) = (approvals::waiting(&db, "one-").await, approvals::waiting(&db, "two").await);
    let waiting = read(&daemon, "/approvals?status=pending&limit=1").await;
    assert_eq!(
        (waiting["data"].as_array().map(Vec::len), &waiting["data"][0]["id"]),
        (Some(1), &json!(two)),
        "{waiting}"
    );
    let older =
        read(&daemon, &format!("/approvals?status=pending&limit=1&cursor={}", waiting["next"].as_str().unwrap())).await;
    assert_eq!((&older["data"][0]["id"], &older["next"]), (&json!(one), &Value::Null), "{older}");
    // Who looks is shown nothing yet: what was not sent can't be approved, and what was sent is named by its hash.
    let (at, own) = (format!("/approvals/{one}"), daemon.token());
    let (status, _, _) = ask(&daemon, &own, (Method::HEAD, &at), None).await;
    assert_eq!(status, 200);
    let noted = "SELECT count(*) FROM shared.approval_pages";
    let shown = read(&daemon, &at).await;
    assert!(shown["of"].as_u64().is_some_and(|of| of > 1), "{shown}");
    assert_eq!(approvals::count(&db, noted).await, 0);
    for (body, status, code) in [
        (json!({}), 400, "invalid_body"),
        (json!({"seen": null}), 400, "invalid_body"),
        (json!({"seen": "something else"}), 409, "changed"),
    ] {
        for place in [format!("{at}/approve"), "/proposals/00000000-0000-7000-8000-000000000000/approve".to_owned()] {
            let (found, headers, answer) = ask(&daemon, &own, (Method::POST, &place), Some(&body)).await;
            match found {
                404 => assert!(place.starts_with("/proposals") && code == "changed", "{place} {body}: {answer}"),
                _ => problem(&headers, &answer, status, code),
            }
        }
    }
    assert_eq!(approvals::count(&db, noted).await, 0);
    let (status, body) = act(&daemon, &format!("/approvals/{one}/approve"), json!({"seen": shown["seen"]})).await;
    assert_eq!((status, &body["status"]), (200, &json!("approved")), "{body}");
    assert!(approvals::count(&db, noted).await > 0, "what was approved counts as shown");
    let (status, body) = act(&daemon, &format!("/approvals/{two}/refuse"), json!({"reason": "Not today."})).await;
    assert_eq!((status, &body["decision_reason"]), (200, &json!("Not today.")), "{body}");
    let (status, body) = act(&daemon, &format!("/approvals/{two}/refuse"), json!({})).await;
    assert_eq!(status, 409, "{body}");
    approvals::told(&db, &one, "executed").await;
    assert_eq!(approvals::count(&db, "SELECT count(*) FROM health.leaks WHERE text LIKE 'one-%'").await, 1);
    assert_eq!(approvals::count(&db, "SELECT count(*) FROM health.leaks").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_of_less_than_all_sees_its_own_rows_alone() {
    let model = model(json!([
        {"when": "good morning", "steps": [{"say": "Good morning."}]},
        {"when": "leak ([a-z0-9-]+)", "steps": [{"call": {"tool": "leak", "arguments": {"text": "{{match.1}}"}}}, {"say": "Done."}]},
    ]))
    .await;
    let household = approvals::household(&model);
    let daemon = household.start().await;
    approvals::from_stranger(&daemon, "one", "leak one").await;
    for butler in ["health", "general"] {
        daemon.mcp(butler).ok("trigger", json!({"prompt": "good morning"})).await;
    }
    let rows = async |token: &str, path: &str| -> Vec<Value> {
        let (status, _, body) = ask(&daemon, token, (Method::GET, path), None).await;
        assert_eq!(status, 200, "{path}: {body}");
        body["data"].as_array().expect("rows").clone()
    };
    let butlers = |rows: &[Value]| -> BTreeSet<String> {
        rows.iter().map(|row| row["butler"].as_str().expect("a butler").to_owned()).collect()
    };
    let health = token_of(&household, "read,admin", &["--butler", "health"]);
    let general = token_of(&household, "read,admin", &["--butler", "general"]);
    let other = token_of(&household, "read,tools,admin", &["--tenant", "other"]);
    let own = daemon.token();
    // Calls are on record a moment after they are over.
    let recorded = async |token: &str, wanted: &[&str]| {
        eventually("the calls on record", || async {
            let found = butlers(&rows(token, "/audit").await);
            if wanted.iter().all(|butler| found.contains(*butler)) { Ok(()) } else { Err(format!("{found:?}")) }
        })
        .await;
    };
    recorded(&own, &["general", "health"]).await;
    for path in ["/sessions", "/audit"] {
        assert!(
            butlers(&rows(&own, path).await).is_superset(&["general", "health"].map(str::to_owned).into()),
            "{path}"
        );
        assert_eq!(butlers(&rows(&health, path).await), ["health".to_owned()].into(), "{path}");
        assert_eq!(butlers(&rows(&general, path).await), ["general".to_owned()].into(), "{path}");
    }
    let waiting = rows(&health, "/approvals").await;
    assert_eq!((waiting.len(), butlers(&waiting)), (1, ["health".to_owned()].into()));
    assert!(rows(&general, "/approvals").await.is_empty());
    for path in ["/sessions", "/approvals", "/audit"] {
        assert!(rows(&other, path).await.is_empty(), "{path}");
        let (status, headers, body) =
            ask(&daemon, &general, (Method::GET, &format!("{path}?butler=health")), None).await;
        problem(&headers, &body, status, "forbidden");
    }
    let id = waiting[0]["id"].as_str().expect("an id");
    for token in [&general, &other] {
        let seen = json!({"seen": read(&daemon, &format!("/approvals/{id}")).await["seen"]});
        for (method, path, body) in [
            (Method::GET, format!("/approvals/{id}"), None),
            (Method::POST, format!("/approvals/{id}/approve"), Some(&seen)),
        ] {
            let (status, headers, answer) = ask(&daemon, token, (method, &path), body).await;
            assert_eq!(status, 404, "{path}: {answer}");
            problem(&headers, &answer, 404, "not_found");
        }
    }
    // What another tenant has of its own, it sees.
    daemon.mcp("general").with_token(Some(&other)).ok("trigger", json!({"prompt": "good morning"})).await;
    assert_eq!(rows(&other, "/sessions").await.len(), 1);
    recorded(&other, &["general"]).await;
    assert_eq!(butlers(&rows(&other, "/audit").await), ["general".to_owned()].into());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_go_elsewhere_and_schedules_run_and_pause() {
    let model = model(json!([
        {"when": "I weigh 82", "steps": [
            {"call": {"tool": "measurement_log", "arguments": {"kind": "weight", "value": {"kg": 82}}}},
            {"fail": {"status": 400, "times": 1}}, {"say": "Logged."}]},
        {"when": "wrong house", "steps": [{"say": "Noted."}]},
        {"when": "water the plants", "steps": [{"say": "Watered."}]},
    ]))
    .await;
    let household = Household::with_model(&model);
    let daemon = household.start().await;
    let mut envelope = message("1", "1", "wrong house");
    envelope["control"]["pinned_target"] = json!("health");
    let (_, accepted) = ingest(&daemon, &envelope).await;
    let id = accepted["request_id"].as_str().expect("an id").to_owned();
    ended(&daemon, &id).await;
    let (status, body) = act(&daemon, &format!("/inbox/{id}/retry"), json!({})).await;
    assert_eq!((status, &body["code"]), (409, &json!("not_now")), "{body}");
    let (status, body) = act(&daemon, &format!("/inbox/{id}/reroute"), json!({"butler": "general"})).await;
    assert_eq!((status, &body["butlers"]), (200, &json!(["general"])), "{body}");
    eventually("the other butler's session", || async {
        let found = read(&daemon, "/sessions?butler=general").await;
        match found["data"].as_array().is_some_and(|rows| rows.iter().any(|row| row["state"] == "succeeded")) {
            true => Ok(()),
            false => Err(found.to_string()),
        }
    })
    .await;
    let mut envelope = message("2", "2", "I weigh 82");
    envelope["control"]["pinned_target"] = json!("health");
    let (_, accepted) = ingest(&daemon, &envelope).await;
    let dead = accepted["request_id"].as_str().expect("an id").to_owned();
    assert_eq!(ended(&daemon, &dead).await["state"], "dead");
    let (status, body) = act(&daemon, &format!("/inbox/{dead}/retry"), json!({})).await;
    assert_eq!((status, &body["request_id"]), (200, &json!(dead)), "{body}");
    let entry = ended(&daemon, &dead).await;
    assert_eq!((&entry["state"], &entry["replies"][1]["message"]), (&json!("done"), &json!("Logged.")), "{entry}");
    let made = json!({"prompt": "water the plants", "name": "plants", "cron": "0 9 1 1 *"});
    let made = daemon.mcp("general").ok("schedule_create", made).await;
    let id = made["id"].as_str().expect("an id").to_owned();
    let (status, body) = act(&daemon, &format!("/schedules/{id}/pause"), json!({})).await;
    assert_eq!((status, body["enabled"] == false || body["paused"] == true), (200, true), "{body}");
    let (status, body) = act(&daemon, &format!("/schedules/{id}/resume"), json!({})).await;
    assert_eq!((status, &body["enabled"]), (200, &json!(true)), "{body}");
    // Who may work may run it, and still decides on nothing.
    let works = token(&household, "tools");
    let run = ask(&daemon, &works, (Method::POST, &format!("/schedules/{id}/run")), Some(&json!({}))).await;
    assert_eq!((run.0, &run.2["name"]), (202, &json!("plants")), "{}", run.2);
    let nothing = "/approvals/00000000-0000-7000-8000-000000000000/approve";
    let (status, headers, body) = ask(&daemon, &works, (Method::POST, nothing), Some(&json!({"seen": "x"}))).await;
    assert_eq!(status, 403, "{body}");
    problem(&headers, &body, 403, "forbidden");
    eventually("the run", || async {
        let runs = read(&daemon, &format!("/schedules/{id}/runs")).await;
        if runs["data"][0]["state"] == "done" { Ok(()) } else { Err(runs.to_string()) }
    })
    .await;
}
