//! What the actions of the dashboard are done to: one of each thing, for each time that all of them are done.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use testkit::model::ScriptedModel;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::approvals::household as with_a_vault;
use crate::mcp_servers::{has, say, visiting};
use crate::reload::mcp;
use crate::support::bot_api::BotApi;
use crate::support::{Daemon, Household, model};

/// Ids of things, by the name that an action calls them by.
pub type Made = BTreeMap<&'static str, String>;

/// A text with what was made in the place of its names.
pub fn filled(text: &str, made: &Made) -> String {
    made.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
}

/// A model that asks for seven calls that wait, does one that can be taken back, hangs, or fails.
pub async fn butler() -> ScriptedModel {
    let keep = |what: &str| json!({"call": {"tool": "vault_put", "arguments": {"name": format!("{what}-{{{{match.1}}}}"), "pin": "secret-pin"}}});
    let leak = |what: &str| json!({"call": {"tool": "leak", "arguments": {"text": what.replace('N', "{{match.1}}")}}});
    model(json!([
        {"when": "A call of `[a-z_]+` that you had made", "steps": [{"say": "I know."}]},
        {"when": "ask for all ([a-z])", "steps": [
            keep("let"), keep("turn"), leak("rule-N"), leak("both-N-1"), leak("both-N-2"), leak("none-N-1"), leak("none-N-2"),
            {"say": "Asked."}]},
        {"when": "wait here", "steps": [{"hang": true}]},
        {"when": "fail here", "steps": [{"fail": {"status": 400, "body": "no such thing"}}]},
        {"when": "weigh me", "steps": [
            {"call": {"tool": "measurement_log", "arguments": {"kind": "weight", "value": {"kg": 82}}}}, {"say": "Weighed."}]},
        {"when": "begin ([a-z])", "steps": [{"say": "Begun."}]},
        // What was said before stands in what a later session is asked: the last one counts.
        {"when": "talk d", "steps": [{"say": "I answer d."}]},
        {"when": "talk c", "steps": [{"say": "I answer c."}]},
        {"when": "talk b", "steps": [{"say": "I answer b."}]},
        {"when": "talk a", "steps": [{"say": "I answer a."}]},
        {"when": "", "steps": [{"say": "Done."}]},
    ]))
    .await
}

/// A household with all that has actions, and the file that tells its MCP server what to be like.
pub fn household(model: &ScriptedModel, telegram: &BotApi) -> (Household, std::path::PathBuf) {
    visiting(with_a_vault(model).with_telegram(telegram, ""), "")
}

/// Calls whose text says so count as asked for by one message.
const TOGETHER: &str = "CREATE FUNCTION shared.test_together() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE of text := substring(NEW.tool_args FROM '((both|none)-[a-z])-');
    BEGIN
        IF of IS NOT NULL THEN
            NEW.cause := 'proposal';
            NEW.proposal := md5(of)::uuid;
            NEW.sources := jsonb_build_array(jsonb_build_object('who', 'email:bea@example.org', 'trust', 'known',
                'request_id', md5(of)::uuid, 'root_request_id', md5(of)::uuid))::text;
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER test_together BEFORE INSERT ON shared.pending_actions
        FOR EACH ROW EXECUTE FUNCTION shared.test_together();";

/// What must be there before any session asks for anything.
pub async fn prepare(db: &Client) {
    db.batch_execute("SET butlerd.tenant = 'owner'").await.expect("a setting");
    let sources: String = db
        .query_one("SELECT format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = 'shared.pending_actions'::regclass AND attname = 'sources'", &[])
        .await
        .expect("its type")
        .get(0);
    db.batch_execute(&TOGETHER.replace("::text;", &format!("::{sources};"))).await.expect("a trigger");
}

/// Makes one of each.
pub async fn make(household: &Household, daemon: &Daemon, db: &Client, n: &str) -> Made {
    let mut made = Made::new();
    made.insert("n", n.to_owned());
    made.insert("N", n.to_uppercase());
    let (health, general, switchboard) = (daemon.mcp("health"), daemon.mcp("general"), daemon.mcp("switchboard"));
    let asked = health.ok("trigger", json!({"prompt": format!("ask for all {n}")})).await;
    assert_eq!(asked["success"], true, "{asked}");
    let of = |what: &str| format!("%{what}-{n}%");
    for (name, pattern) in [("let", of("let")), ("turn", of("turn")), ("rule", of("rule"))] {
        let sql = "SELECT id::text FROM shared.pending_actions WHERE tool_args LIKE $1";
        made.insert(name, db.query_one(sql, &[&pattern]).await.expect("a call").get(0));
    }
    for name in ["both", "none"] {
        let sql = "SELECT md5($1)::uuid::text";
        made.insert(name, db.query_one(sql, &[&format!("{name}-{n}")]).await.expect("an id").get(0));
    }
    let weighed = health.ok("trigger", json!({"prompt": format!("weigh me {n}")})).await;
    made.insert("weighed", weighed["session_id"].as_str().expect("a session").to_owned());
    health.ok("measurement_log", json!({"kind": "heart_rate", "value": {"bpm": 60}})).await;
    let undoable = daemon.rpc("undo_list", json!({"butler": "health", "limit": 1})).await;
    made.insert("call", undoable[0]["call"].as_str().unwrap_or_else(|| panic!("{undoable}")).to_owned());
    for (name, action) in [("switched", "pass"), ("ended", "skip")] {
        let rule = json!({"kind": "substring", "pattern": format!("{name}-{n}"), "action": action});
        made.insert(name, id(&switchboard.ok("triage_rule_add", rule).await, "id"));
    }
    for name in ["pause", "resume", "run"] {
        let wanted = json!({"name": format!("{name}-{n}"), "cron": "0 3 29 2 *", "prompt": "water the plants"});
        made.insert(name, id(&general.ok("schedule_create", wanted).await, "id"));
    }
    general.ok("schedule_update", json!({"task_id": made["resume"], "enabled": false})).await;
    for name in ["edit", "forget", "purge", "redo"] {
        let fact = json!({"subject": format!("{name} {n}"), "predicate": "colour", "content": format!("The {name} {n} is green.")});
        let stored = health.ok("memory_store_fact", fact).await;
        made.insert(name, id(&stored, "id"));
    }
    let edit = json!({"memory_type": "fact", "memory_id": made["redo"], "content": format!("The redo {n} is red.")});
    health.ok("memory_edit", edit).await;
    let known = json!({"name": format!("Gone {n}"), "channel": "email", "identity": format!("gone-{n}@example.org"), "new_channel": true});
    switchboard.ok("contact_identity_add", known).await;
    connector(daemon, n).await;
    let endpoint = json!({"connector_type": "gmail", "endpoint_identity": format!("home-{n}"), "target_categories": ["inbox"],
        "date_from": "2026-01-01", "date_to": "2026-01-31", "rate_limit_per_hour": 10, "daily_cost_cap_cents": 50});
    made.insert("job", id(&switchboard.ok("create_backfill_job", endpoint).await, "job_id"));
    daemon.rpc("secret_set", json!({"name": format!("GONE_{}", n.to_uppercase()), "value": "a-secret-value"})).await;
    let token = ["token", "new", "--json", "--label", &format!("lent-{n}"), "--scope", "read"];
    let (code, out, err) = tokio::task::block_in_place(|| household.cli(&token));
    assert_eq!(code, 0, "{out}{err}");
    rows(db, n, &mut made).await;
    made
}

fn id(of: &Value, name: &str) -> String {
    of[name].as_str().unwrap_or_else(|| panic!("no {name} in {of}")).to_owned()
}

async fn connector(daemon: &Daemon, n: &str) {
    let beat = json!({"schema_version": "connector.heartbeat.v1",
        "connector": {"connector_type": "gmail", "endpoint_identity": format!("home-{n}"), "instance_id": n},
        "status": {"state": "healthy", "uptime_s": 60},
        "counters": {"messages_ingested": 3, "messages_failed": 0, "source_api_calls": 9, "checkpoint_saves": 1, "dedupe_accepted": 0},
        "checkpoint": {"cursor": "h-17", "updated_at": "2026-11-01T08:00:00Z"}, "sent_at": "2026-11-01T08:00:00Z"});
    daemon.mcp("switchboard").ok("connector.heartbeat", beat).await;
}

/// What takes long to come about, written as it would be: messages at their end, and deliveries that ended badly.
async fn rows(db: &Client, n: &str, made: &mut Made) {
    let message = "INSERT INTO switchboard.message_inbox
        (request_id, dedupe_key, dedupe_by, state, settled_at, tier, lane, channel, provider, endpoint, sender, trust,
         observed_at, received_at, body, envelope, context, triage, last_error)
        VALUES ($1, $1::uuid::text, 'event', $2, now(), 2, $3, 'telegram', 't', 'bot:home', $5, 'stranger', now(), now(),
                $4, '{}', '{}', '{\"action\": \"skip\"}', CASE WHEN $2 = 'dead' THEN 'it failed' END)";
    for (name, state) in [("dead", "dead"), ("moved", "done"), ("ruled", "done")] {
        let id = Uuid::now_v7();
        let (lane, body, sender) = (format!("{name}-{n}"), format!("message {name} {n}"), format!("eve-{n}"));
        db.execute(message, &[&id, &state, &lane, &body, &sender]).await.expect("a message");
        made.insert(name, id.to_string());
    }
    let delivery = "INSERT INTO shared.outbox (id, origin, request_id, kind, intent, channel, target, lane, message, priority,
            idempotency_key, context, state, reason, last_error, due_at, settled_at, followed_at, trust)
        VALUES ($1, 'general', gen_random_uuid(), 'message', 'send', 'webhook', 'door', $2, $2, 'medium', $2, '{}', $3,
            CASE WHEN $3 <> 'deferred' THEN 'refused' END, CASE WHEN $3 <> 'deferred' THEN 'It was refused.' END,
            now() + interval '1 year', CASE WHEN $3 <> 'deferred' THEN now() END, CASE WHEN $3 <> 'deferred' THEN now() END, 'owner')";
    for (name, state) in [("failed", "failed"), ("unknown", "unknown"), ("deferred", "deferred")] {
        let id = Uuid::now_v7();
        db.execute(delivery, &[&id, &format!("{name} {n}"), &state]).await.expect("a delivery");
        made.insert(name, id.to_string());
    }
}

/// What an action needs the moment before it is done, because there is one of it alone or it takes a place.
pub async fn before(household: &Household, daemon: &Daemon, route: &str, control: &std::path::Path, made: &mut Made) {
    let n = made["n"].clone();
    match route {
        "/sessions/*/cancel" => {
            let begun = daemon.rpc("trigger_start", json!({"butler": "health", "prompt": "wait here"})).await;
            made.insert("hangs", id(&begun, "session_id"));
        }
        "/notes/seen" => {
            let note = json!({"intent": "send", "channel": "chat", "message": format!("note {n}")});
            daemon.mcp("general").ok("notify", note).await;
        }
        "/journal/*/accept" => {
            household.journal_begun().await;
            let core = household.journal_path("core.md");
            let text = household
                .journal_file("core.md")
                .replace("## Active Working State\n", &format!("## Active Working State\nSeen {n}.\n"));
            std::fs::write(core, text).expect("an edit");
        }
        // What is settled in a file that is too large goes into the archive.
        "/journal/*/check" => {
            let ideas = household.journal_path("reference/ideas.md");
            let entry = format!("### Done {n}\n- **Status:** completed\n{}\n", "- It was done.\n".repeat(1500));
            std::fs::write(&ideas, household.journal_file("reference/ideas.md") + &entry).expect("an edit");
            let edits = daemon.rpc("journal_edits", json!({"butler": "general"})).await;
            let seen: Vec<&Value> = edits.as_array().expect("edits").iter().map(|edit| &edit["id"]).collect();
            let accept = json!({"butler": "general", "edits": seen, "looked": true});
            let accepted = daemon.rpc("journal_accept", accept).await;
            assert!(accepted.to_string().contains("ideas.md"), "{edits} {accepted}");
        }
        "/settings/reload" => {
            let (visitor, skill) = (household.roster().join("visitor"), format!("read-again-{n}"));
            // What a schedule asks for, a skill says how to do.
            let about =
                format!("---\nname: {skill}\ndescription: Resting. Use it when the prompt says so.\n---\nRest.\n");
            std::fs::create_dir_all(visitor.join("skills").join(&skill)).expect("the skill");
            std::fs::write(visitor.join("skills").join(&skill).join("SKILL.md"), about).expect("the skill");
            let file = visitor.join("butler.toml");
            let toml = std::fs::read_to_string(&file).expect("the butler");
            let schedule =
                format!("[[butler.schedule]]\nname = \"{skill}\"\ncron = \"0 3 29 2 *\"\nprompt = \"Rest.\"\n");
            std::fs::write(&file, format!("{toml}\n{schedule}")).expect("an edit");
        }
        "/logout" => {
            let sql = "SELECT count(*)::text FROM shared.tokens WHERE browser AND revoked_at IS NOT NULL";
            let db = household.owner().await;
            made.insert("signed_out", db.query_one(sql, &[]).await.expect("a count").get(0));
        }
        "/connectors/mcp/*/*/accept" => {
            say(control, &json!({"about": format!("Says it {n}.")}));
            // It was started anew meanwhile, at another port.
            let mcp = mcp(daemon, "visitor").await;
            mcp.ok("fake_change", json!({})).await;
            has(&mcp, "repeat", false).await;
        }
        _ => {}
    }
}
