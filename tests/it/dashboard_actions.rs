//! Everything that is done in the dashboard, in a real browser: by mouse and by the keyboard alone, on a phone and on a desk.
//!
//! An action is a row of [`ACTIONS`]: where it is, what is pressed and typed, what the page then says, and what the rows
//! then hold. The same rows are played by both drivers. A form that the dashboard has and no action names fails a test.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::dashboard_made::{Made, before, butler, filled, household, make, prepare};
use crate::support::bot_api::BotApi;
use crate::support::browser::{Browser, login_link};
use crate::support::eventually;

/// One thing that a person does. `{name}` stands for what was made under this name.
pub struct Action {
    /// The form's path, as the dashboard declares it.
    pub route: &'static str,
    pub page: &'static str,
    steps: &'static [Step],
    /// What the page says afterwards.
    sees: &'static str,
    /// A question to the database that is true afterwards.
    pub holds: &'static str,
}

#[derive(Clone, Copy)]
pub enum Step {
    Press(&'static str),
    /// A button within what a selector finds.
    PressIn(&'static str, &'static str),
    /// One whose name goes on.
    PressPart(&'static str),
    Open(&'static str),
    Type(&'static str, &'static str),
    TypeIn(&'static str, &'static str, &'static str),
    Search(&'static str, &'static str),
    Secret(&'static str, &'static str),
    Choose(&'static str, &'static str),
    Tick(&'static str),
}

use Step::{Choose, Open, Press, PressIn, PressPart, Search, Secret, Tick, Type, TypeIn};

const ADD: &str = "section[aria-labelledby=add]";
const INVITE: &str = "section[aria-labelledby=invite]";

const fn act(
    route: &'static str,
    page: &'static str,
    steps: &'static [Step],
    sees: &'static str,
    holds: &'static str,
) -> Action {
    Action { route, page, steps, sees, holds }
}

pub const ACTIONS: &[Action] = &[
    act(
        "/approvals/*/approve",
        "/approvals/{let}",
        &[Press("Approve")],
        "Approved. It runs once",
        "SELECT count(*) = 1 FROM health.vault WHERE name = 'let-{n}'",
    ),
    act(
        "/approvals/*/reject",
        "/approvals/{turn}",
        &[Type("Reason, which the butler is told", "Not {n}."), Press("Refuse")],
        "Refused. It will not run.",
        "SELECT status = 'rejected' AND decision_reason = 'Not {n}.' FROM shared.pending_actions WHERE id = '{turn}'",
    ),
    act(
        "/approvals/*/rule",
        "/approvals/{rule}",
        &[Open("Allow calls like this one"), Tick("text"), Type("What it is for", "for {n}"), Press("Make the rule")],
        "The standing rule holds",
        "SELECT count(*) = 1 FROM shared.approval_rules WHERE description = 'for {n}' AND active",
    ),
    act(
        "/approvals/rules/*/end",
        "/approvals",
        &[PressIn("li:has-text('for {n}')", "End the rule")],
        "The rule has ended.",
        "SELECT NOT active FROM shared.approval_rules WHERE description = 'for {n}'",
    ),
    act(
        "/approvals/proposals/*/approve",
        "/approvals/proposals/{both}",
        &[Press("Approve all")],
        "Approved. Each call runs once",
        "SELECT count(*) = 2 FROM health.leaks WHERE text LIKE 'both-{n}-%'",
    ),
    act(
        "/approvals/proposals/*/reject",
        "/approvals/proposals/{none}",
        &[Press("Refuse all")],
        "None of these calls will run",
        "SELECT count(*) = 2 FROM shared.pending_actions WHERE proposal = '{none}' AND status = 'rejected'",
    ),
    act(
        "/sessions/*/cancel",
        "/sessions/{hangs}",
        &[Press("Kill this session")],
        "Cancelled.",
        "SELECT state = 'cancelled' FROM health.sessions WHERE id = '{hangs}'",
    ),
    act(
        "/butlers/*/trigger",
        "/butlers/health",
        &[Open("Give it work"), Type("What it shall do", "begin {n}"), Press("Begin a session")],
        "Started.",
        "SELECT count(*) = 1 FROM health.sessions WHERE prompt LIKE '%begin {n}%'",
    ),
    act(
        "/butlers/*/tools/*",
        "/butlers/health/tools/measurement_log",
        &[Choose("kind", "steps"), Type("value", "{\"count\": 1{#}00}"), Press("Call it")],
        "On record",
        "SELECT count(*) = 1 FROM health.tool_calls WHERE arguments #>> '{value,count}' = '1{#}00' AND outcome = 'ok'",
    ),
    act(
        "/conversations",
        "/conversations",
        &[Type("Message", "talk {n}"), Choose("For", "health"), Press("Send")],
        "I answer {n}.",
        "SELECT count(*) = 1 FROM switchboard.message_inbox WHERE body = 'talk {n}'",
    ),
    act(
        "/inbox/*/retry",
        "/inbox/{dead}",
        &[Press("Try again")],
        "It is tried again.",
        "SELECT count(*) = 1 FROM switchboard.request_actions WHERE request_id = '{dead}' AND action = 'retry'",
    ),
    act(
        "/inbox/*/reroute",
        "/inbox/{moved}",
        &[Choose("Give it to", "health"), Press("Reroute")],
        "Handed to the other butler.",
        "SELECT count(*) = 1 FROM switchboard.route_segments WHERE request_id = '{moved}' AND butler = 'health'",
    ),
    act(
        "/rules",
        "/inbox/{ruled}",
        &[Choose("Butler", "general"), Press("Make the rule")],
        "The rule holds for the messages",
        "SELECT count(*) = 1 FROM switchboard.triage_rules WHERE pattern = 'eve-{n}' AND butler = 'general'",
    ),
    act(
        "/rules",
        "/rules",
        &[
            Choose("If", "sender_domain"),
            Type("This", "{n}.example.org"),
            Choose("Then", "route_to"),
            Choose("Butler, where it goes to one", "health"),
            Type("Why it is there", "for {n}"),
            Press("Make the rule"),
        ],
        "The rule holds for the messages",
        "SELECT count(*) = 1 FROM switchboard.triage_rules WHERE pattern = '{n}.example.org'",
    ),
    act(
        "/rules/*/switch",
        "/rules",
        &[PressIn("tr:has-text('switched-{n}')", "Switch off")],
        "Changed.",
        "SELECT NOT enabled FROM switchboard.triage_rules WHERE id = '{switched}'",
    ),
    act(
        "/rules/*/end",
        "/rules",
        &[PressIn("tr:has-text('ended-{n}')", "Remove")],
        "The rule has ended.",
        "SELECT count(*) = 0 FROM switchboard.triage_rules WHERE id = '{ended}'",
    ),
    act(
        "/schedules/*/pause",
        "/schedules/{pause}",
        &[Press("Pause")],
        "Paused.",
        "SELECT paused_at IS NOT NULL FROM general.scheduled_tasks WHERE id = '{pause}'",
    ),
    act(
        "/schedules/*/resume",
        "/schedules/{resume}",
        &[Press("Let it go on")],
        "It goes on.",
        "SELECT paused_at IS NULL FROM general.scheduled_tasks WHERE id = '{resume}'",
    ),
    act(
        "/schedules/*/run",
        "/schedules/{run}",
        &[Press("Run now")],
        "Started.",
        "SELECT count(*) = 1 FROM general.schedule_runs WHERE task_id = '{run}'",
    ),
    act(
        "/memory/*/*/*/edit",
        "/memory/health/fact/{edit}",
        &[Open("Correct it"), Type("What it says", "It {n} is blue."), Press("Keep the correction")],
        "Changed.",
        "SELECT content = 'It {n} is blue.' FROM health.memory_facts WHERE id = '{edit}'",
    ),
    act(
        "/memory/*/*/*/forget",
        "/memory/health/fact/{forget}",
        &[Open("Forget it"), PressIn("form[action$='/forget']", "Forget it")],
        "It was forgotten.",
        "SELECT forgotten_at IS NOT NULL FROM health.memory_facts WHERE id = '{forget}'",
    ),
    // And what was forgotten comes back.
    act(
        "/memory/*/events/*/undo",
        "/memory/health/fact/{forget}",
        &[PressIn("ul.rows > li:has-text('forgot')", "Undo")],
        "Undone.",
        "SELECT forgotten_at IS NULL FROM health.memory_facts WHERE id = '{forget}'",
    ),
    act(
        "/memory/*/events/*/undo",
        "/memory/health/fact/{redo}",
        &[PressIn("ul.rows > li:has-text('is red')", "Undo")],
        "Undone.",
        "SELECT content = 'The redo {n} is green.' FROM health.memory_facts WHERE id = '{redo}'",
    ),
    act(
        "/memory/*/*/*/purge",
        "/memory/health/fact/{purge}/purge",
        &[Tick("I want these words gone for good"), Press("Remove them for good")],
        "is gone for good",
        "SELECT count(*) = 0 FROM health.memory_facts WHERE content LIKE '%purge {n} %'",
    ),
    act(
        "/journal/*/accept",
        "/journal/general",
        &[Press("Accept")],
        "Stored.",
        "SELECT count(*) >= 1 FROM general.journal_sections e WHERE e::text LIKE '%Seen {n}.%'",
    ),
    act(
        "/journal/*/check",
        "/journal/general",
        &[Press("Check it")],
        "The journal was checked",
        "SELECT count(*) = 1 FROM general.journal_sections WHERE file LIKE 'archive/%' AND text LIKE '%Done {n}%' AND ended IS NULL",
    ),
    act(
        "/people",
        "/people",
        &[
            TypeIn(ADD, "Name", "Ada {n}"),
            TypeIn(ADD, "Channel", "email"),
            Type("Identity", "ada-{n}@example.org"),
            Tick("No message has come through this channel yet"),
            Press("Add"),
        ],
        "Stored.",
        "SELECT count(*) = 1 FROM shared.contact_identities WHERE identity = 'ada-{n}@example.org'",
    ),
    act(
        "/people/remove",
        "/people",
        &[PressIn("li li:has-text('gone-{n}@example.org')", "Forget")],
        "Removed.",
        "SELECT count(*) = 0 FROM shared.contact_identities WHERE identity = 'gone-{n}@example.org'",
    ),
    act(
        "/people/pair",
        "/people",
        &[TypeIn(INVITE, "Name", "Bob {n}"), TypeIn(INVITE, "Channel", "telegram"), Press("Make an invitation")],
        "Send this to",
        "SELECT count(*) = 1 FROM shared.pairings WHERE person = 'Bob {n}'",
    ),
    act(
        "/deliveries/*/retry",
        "/deliveries/{failed}",
        &[Press("Send again")],
        "It is tried again.",
        "SELECT state <> 'failed' FROM shared.outbox WHERE id = '{failed}'",
    ),
    act(
        "/deliveries/*/cancel",
        "/deliveries/{deferred}",
        &[Press("Cancel")],
        "Cancelled.",
        "SELECT state = 'failed' FROM shared.outbox WHERE id = '{deferred}'",
    ),
    act(
        "/deliveries/*/resolve",
        "/deliveries/{unknown}",
        &[Press("It arrived")],
        "Noted what became of it.",
        "SELECT state = 'sent' FROM shared.outbox WHERE id = '{unknown}'",
    ),
    act(
        "/connectors/backfills/*",
        "/connectors",
        &[PressIn("tr:has-text('home-{n}')", "Pause")],
        "Paused.",
        "SELECT status = 'paused' FROM switchboard.backfill_jobs WHERE id = '{job}'",
    ),
    act(
        "/connectors/backfills/*",
        "/connectors",
        &[PressIn("tr:has-text('home-{n}')", "Resume")],
        "It goes on.",
        "SELECT status IN ('pending', 'active') FROM switchboard.backfill_jobs WHERE id = '{job}'",
    ),
    act(
        "/connectors/backfills/*",
        "/connectors",
        &[PressIn("tr:has-text('home-{n}')", "End")],
        "Cancelled.",
        "SELECT status = 'cancelled' FROM switchboard.backfill_jobs WHERE id = '{job}'",
    ),
    act(
        "/connectors/disconnect",
        "/connectors",
        &[PressIn("li:has-text('home-{n}')", "Disconnect")],
        "Changed.",
        "SELECT disconnected_at IS NOT NULL FROM switchboard.connector_registry WHERE endpoint_identity = 'home-{n}'",
    ),
    act(
        "/connectors/mcp/*/*/accept",
        "/connectors/mcp/visitor/fake",
        &[Press("Agree to these tools")],
        "Agreed.",
        "SELECT pinned::text LIKE '%Says it {n}.%' AND held IS NULL FROM visitor.mcp_servers",
    ),
    act(
        "/notes/seen",
        "/notes",
        &[PressPart("Mark ")],
        "Noted.",
        "SELECT shown_at IS NOT NULL FROM shared.outbox WHERE message = 'note {n}'",
    ),
    act(
        "/undo/*/*",
        "/undo",
        &[PressIn("li:has(form[action='/undo/{call}'])", "Undo")],
        "rows are as they were",
        "SELECT count(*) = 0 FROM health.measurements WHERE kind = 'heart_rate' AND deleted_at IS NULL",
    ),
    act(
        "/undo-session/*",
        "/undo",
        &[PressIn("form[action='/undo-session/{weighed}']", "Undo all of that session")],
        "rows are as they were",
        "SELECT count(*) = 1 FROM health.tool_calls c JOIN shared.row_changes r ON (r.tx_at, r.txid) = (c.tx_at, c.txid)
         WHERE c.session_id = '{weighed}' AND r.table_name = 'measurements' AND r.before IS NULL
           AND NOT EXISTS (SELECT 1 FROM health.measurements m WHERE m.id::text = r.after ->> 'id')",
    ),
    act(
        "/secrets",
        "/secrets",
        &[Type("Name, such as ANTHROPIC_API_KEY", "NEW_{N}"), Secret("Value", "very-secret-value"), Press("Store")],
        "Stored.",
        "SELECT count(*) = 1 FROM shared.secrets WHERE name = 'NEW_{N}'",
    ),
    act(
        "/secrets/*/remove",
        "/secrets",
        &[PressIn("tr:has-text('GONE_{N}')", "Remove")],
        "Removed.",
        "SELECT count(*) = 0 FROM shared.secrets WHERE name = 'GONE_{N}'",
    ),
    act(
        "/settings/tokens/*/revoke",
        "/settings",
        &[PressIn("tr:has-text('lent-{n}')", "Revoke")],
        "Revoked.",
        "SELECT revoked_at IS NOT NULL FROM shared.tokens WHERE label = 'lent-{n}'",
    ),
    act(
        "/settings/reload",
        "/settings",
        &[Press("Read the roster again")],
        "The roster was read again.",
        "SELECT count(*) = 1 FROM visitor.scheduled_tasks WHERE name = 'read-again-{n}'",
    ),
    act(
        "/logout",
        "/notes",
        &[Press("Sign out")],
        "You are not signed in here.",
        "SELECT count(*) = {signed_out} + 1 FROM shared.tokens WHERE browser AND revoked_at IS NOT NULL",
    ),
];

/// What is asked by a form that changes nothing: where, what is typed and pressed, and what is seen then.
const QUESTIONS: [(&str, &[Step], &str); 3] = [
    ("/audit", &[Choose("Outcome", "ok"), Type("Tool", "measurement_log"), Press("Filter")], "measurement_log"),
    (
        "/conversations",
        &[
            Search("Find what was said, or who said it", "talk {n}"),
            PressIn("form[role=search][action='/conversations']", "Find"),
        ],
        "With “talk {n}” in it.",
    ),
    (
        "/memory?butler=health",
        &[Choose("Kind", "fact"), Search("Search what it remembers", "redo {n}"), Press("Search")],
        "What was found",
    ),
];

/// How often all is done, each time by whom, how wide and in which light.
const TIMES: [(&str, bool, u32, &str); 4] =
    [("a", false, 360, "dark"), ("b", true, 1440, "dark"), ("c", true, 360, "light"), ("d", false, 1440, "light")];

fn played(step: Step, made: &Made) -> Value {
    let of = |text: &str| filled(text, made);
    match step {
        Press(name) => json!({"role": "button", "name": name}),
        PressIn(within, name) => json!({"role": "button", "name": name, "within": of(within)}),
        PressPart(name) => json!({"role": "button", "name": name, "part": true}),
        Open(name) => json!({"role": "summary", "name": name}),
        Type(name, text) => json!({"role": "textbox", "name": name, "text": of(text), "part": true}),
        TypeIn(within, name, text) => {
            json!({"role": "textbox", "name": name, "text": of(text), "within": within, "part": true})
        }
        Search(name, text) => json!({"role": "searchbox", "name": name, "text": of(text)}),
        Secret(name, text) => json!({"role": "password", "name": name, "text": text}),
        Choose(name, value) => json!({"role": "combobox", "name": name, "value": value, "part": true}),
        Tick(name) => json!({"role": "checkbox", "name": name}),
    }
}

#[test]
fn every_form_of_the_dashboard_is_an_action_that_is_tried() {
    let forms: BTreeSet<&str> = dashboard::forms().collect();
    let tried: BTreeSet<&str> = ACTIONS.iter().map(|action| action.route).collect();
    let without: Vec<_> = forms.difference(&tried).collect();
    assert!(without.is_empty(), "no action of dashboard_actions.rs sends {without:?}");
    let gone: Vec<_> = tried.difference(&forms).collect();
    assert!(gone.is_empty(), "the dashboard has no form {gone:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn everything_is_done_by_mouse_and_by_the_keyboard_alone() {
    let (model, telegram) = (butler().await, BotApi::start().await);
    let (household, control) = household(&model, &telegram);
    let daemon = household.start().await;
    let Some(mut browser) = Browser::start(&daemon).await else { return };
    let db = household.owner().await;
    prepare(&db).await;
    let mut wrong = Vec::new();
    for (number, (n, keyboard, width, scheme)) in TIMES.into_iter().enumerate() {
        let mut made = make(&household, &daemon, &db, n).await;
        made.insert("#", number.to_string());
        browser.goto(&login_link(&household, &["open", "--print"])).await;
        let sign_in = json!({"width": width, "keyboard": keyboard, "scheme": scheme, "sees": "You are signed in.",
            "steps": [{"role": "button", "name": "Sign in"}]});
        browser.does("acts", sign_in).await;
        for (path, steps, sees) in QUESTIONS {
            let steps: Vec<Value> = steps.iter().map(|step| played(*step, &made)).collect();
            let with = json!({"path": path, "width": width, "keyboard": keyboard, "scheme": scheme, "steps": steps,
                "sees": filled(sees, &made)});
            let told = browser.tries("acts", with).await;
            let is_right = told["ok"] == true && told["problems"] == json!([]) && told["wide"].as_i64() <= Some(0);
            let asked = told["url"].as_str().is_some_and(|url| url.contains("?"));
            if !is_right || !asked {
                wrong.push(format!("{path} at {width} in {scheme}: {told:#}"));
            }
        }
        for action in ACTIONS {
            before(&household, &daemon, action.route, &control, &mut made).await;
            let steps: Vec<Value> = action.steps.iter().map(|step| played(*step, &made)).collect();
            let with = json!({"path": filled(action.page, &made), "width": width, "keyboard": keyboard, "scheme": scheme,
                "steps": steps, "sees": filled(action.sees, &made)});
            let told = browser.tries("acts", with).await;
            let what = format!("{} at {width} by {}", action.route, if keyboard { "keyboard" } else { "mouse" });
            // Signed out, the page itself is a 401, of which the browser tells on its console.
            let out = action.route == "/logout";
            if told["ok"] != true
                || (told["problems"] != json!([]) && !out)
                || told["wide"].as_i64().is_some_and(|w| w > 0)
            {
                wrong.push(format!("{what}: {told:#}"));
                continue;
            }
            let (sql, db) = (filled(action.holds, &made), &db);
            let holds = async || {
                let rows = db.query(&sql, &[]).await.map_err(|e| format!("{sql}: {e:?}"))?;
                let true_now = rows.iter().any(|row| row.get::<_, Option<bool>>(0) == Some(true));
                if true_now { Ok(()) } else { Err(format!("{sql}: {} rows", rows.len())) }
            };
            eventually(&what, holds).await;
        }
    }
    assert!(wrong.is_empty(), "{} went wrong:\n{}", wrong.len(), wrong.join("\n"));
}
