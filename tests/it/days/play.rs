//! Plays a day from its file.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Value, json};
use testkit::model::ScriptedModel;
use tokio_postgres::Client;

use crate::support::{Daemon, Household, Receiver, eventually, http, model};

/// A day, and what it must have come to.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Day {
    butler: String,
    /// What the model says.
    conversations: Value,
    steps: Vec<Step>,
    /// Each tool call of its sessions, in order: the tool and how it ended, with the sentence where it was refused.
    calls: Vec<String>,
    /// Each message that reached the owner, in order.
    heard: Vec<String>,
    rows: Vec<Rows>,
}

/// One thing that happens.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    /// When it happens.
    at: String,
    /// The owner says this in the chat and gets this answer.
    say: Option<String>,
    reply: Option<String>,
    /// The owner starts a session by hand, which ends with these words.
    trigger: Option<String>,
    /// The daemon is killed while the model thinks about what was said, and is started again.
    #[serde(default)]
    killed: bool,
    /// This schedule fires, with this result of the job, or these last words of its session.
    fires: Option<String>,
    result: Option<String>,
    words: Option<String>,
}

/// What a query gives.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rows {
    sql: String,
    are: Value,
}

/// Those that take what the switchboard hands on.
const BUTLERS: [&str; 6] = ["finance", "general", "health", "messenger", "relationship", "travel"];

struct Stage {
    butler: String,
    household: Household,
    daemon: Daemon,
    client: Client,
    model: ScriptedModel,
}

/// Plays it, from the morning to the comparison.
pub async fn day(text: &str) {
    let day: Day = serde_json::from_str(text).expect("a day's file");
    let tools: BTreeSet<&str> = day.calls.iter().filter_map(|call| call.split(' ').next()).collect();
    assert!(tools.len() >= 5, "a day has five tools at least: {tools:?}");
    let recovered = day.calls.iter().enumerate().any(|(n, call)| {
        let tool = call.split_once(" refused: ").map(|(tool, _)| tool);
        tool.is_some_and(|tool| day.calls[n + 1..].contains(&format!("{tool} ok")))
    });
    assert!(recovered, "a refused call is put right");
    assert_eq!(day.steps.iter().filter(|step| step.killed).count(), 1, "one restart in the middle");
    assert!(day.steps.iter().any(|step| step.fires.is_some()) && !day.heard.is_empty());

    let mut conversations = day.conversations.clone();
    // Those of other butlers, whose times pass as well.
    let others =
        json!({"when": "Run the [a-z-]+ workflow|Run the weekly workflow", "steps": [{"say": "Nothing to say."}]});
    conversations.as_array_mut().expect("a list").push(others);
    let model = model(conversations).await;
    let receiver = Receiver::start().await;
    let household = Household::moved(&model)
        .with_webhook(&receiver, "")
        .env("BUTLERD_OWNER__NOTICE_CHANNEL", "webhook")
        .env("BUTLERD_OWNER__IDENTITIES__WEBHOOK", "door");
    // The clock jumps over more hours than a registration lives.
    let household = BUTLERS.iter().fold(household, |household, butler| {
        household.replace(&format!("{butler}/butler.toml"), "liveness_ttl = \"5m\"", "liveness_ttl = \"24h\"")
    });
    household.set_clock(&day.steps[0].at);
    let daemon = household.start().await;
    let client = household.owner().await;
    let mut stage = Stage { butler: day.butler.clone(), household, daemon, client, model };
    for step in &day.steps {
        stage.household.set_clock(&step.at);
        if let Some(text) = &step.say {
            stage.said(text, step).await;
        } else if let Some(prompt) = &step.trigger {
            stage.triggered(prompt, step).await;
        } else if let Some(schedule) = &step.fires {
            stage.fired(schedule, step).await;
        }
    }
    stage.household.at_rest("the evening").await;
    stage.household.all_delivered("the evening").await;
    stage.compare(&day, &receiver).await;
}

impl Stage {
    /// Says something and compares the answer.
    async fn said(&mut self, text: &str, step: &Step) {
        let id = uuid::Uuid::now_v7();
        let mut message = json!({"text": text, "id": id, "thread": id});
        if self.butler != "switchboard" {
            message["butler"] = json!(self.butler);
        }
        if step.killed {
            let cut = tokio::spawn(stream(&self.daemon, &message));
            self.kill_in_the_middle().await;
            // Its stream ends with the daemon, in whatever way.
            let _ = cut.await;
        }
        let told = stream(&self.daemon, &message).await.expect("a stream");
        let data = told.lines().filter_map(|line| line.strip_prefix("data: "));
        let events: Vec<Value> = data.map(|data| serde_json::from_str(data).expect("JSON")).collect();
        let replies: Vec<&str> =
            events.iter().filter(|e| e["event"] == "reply").filter_map(|e| e["message"].as_str()).collect();
        let wanted: Vec<&str> = step.reply.iter().map(String::as_str).collect();
        assert_eq!(replies, wanted, "{text}: {told}");
        assert_eq!(events.last().map(|e| &e["state"]), Some(&json!("done")), "{text}: {told}");
    }

    /// Starts a session by hand. One that was killed is begun once more, as its person would.
    async fn triggered(&mut self, prompt: &str, step: &Step) {
        if step.killed {
            let (mcp, wish) = (self.daemon.mcp(&self.butler), json!({"prompt": prompt}));
            let cut = tokio::spawn(async move { mcp.try_call("trigger", wish).await });
            self.kill_in_the_middle().await;
            let _ = cut.await;
        }
        let ended = self.daemon.mcp(&self.butler).ok("trigger", json!({"prompt": prompt})).await;
        assert_eq!(ended["output"].as_str(), step.words.as_deref(), "{prompt}: {ended}");
    }

    /// `kill -9` while the model thinks about the one thing that it hangs at, and another start. What other butlers' schedules
    /// ask it meanwhile is something else.
    async fn kill_in_the_middle(&mut self) {
        self.model.wait_for(|all| all.iter().any(|request| request.answer == "hang")).await;
        self.daemon.kill();
        self.daemon = self.household.start().await;
        self.client = self.household.owner().await;
        let sql = format!("SELECT count(*) FROM {}.sessions WHERE state = 'interrupted'", self.butler);
        let n: i64 = self.client.query_one(&sql, &[]).await.expect("a count").get(0);
        assert_eq!(n, 1, "the start says what was cut off");
    }

    /// Lets the schedule of this time fire and compares what came of it.
    async fn fired(&self, schedule: &str, step: &Step) {
        self.daemon.mcp(&self.butler).ok("tick", json!({})).await;
        let butler = &self.butler;
        let sql = format!(
            "SELECT r.cause || ' ' || r.state, r.reason, s.result, s.state FROM {butler}.schedule_runs r
             JOIN {butler}.scheduled_tasks t ON t.id = r.task_id LEFT JOIN {butler}.sessions s ON s.run_id = r.id
             WHERE t.name = $1 AND r.fire_at = $2::text::timestamptz AND r.state NOT IN ('due', 'running')"
        );
        let row = eventually(&format!("{schedule} has run"), || async {
            let row = self.client.query_opt(&sql, &[&schedule, &step.at]).await.map_err(|e| e.to_string())?;
            row.ok_or_else(|| format!("not at {}", step.at))
        })
        .await;
        let text = |i: usize| row.get::<_, Option<String>>(i);
        assert_eq!(text(0).as_deref(), Some("slot done"), "{schedule}: {:?} {:?}", text(1), text(2));
        assert_eq!((text(1), text(2)), (step.result.clone(), step.words.clone()), "{schedule}");
        self.household.all_delivered(schedule).await;
    }

    async fn compare(&self, day: &Day, receiver: &Receiver) {
        let butler = &self.butler;
        let sql = format!(
            "SELECT c.tool || ' ' || c.outcome || CASE WHEN c.outcome = 'ok' THEN '' ELSE ': ' || coalesce(c.detail, '') END
             FROM {butler}.tool_calls c WHERE c.session_id IS NOT NULL ORDER BY c.called_at, c.id"
        );
        let calls = self.client.query(&sql, &[]).await.expect("its calls");
        let calls: Vec<String> = calls.iter().map(|row| row.get(0)).collect();
        assert_eq!(calls, day.calls, "{}", serde_json::to_string_pretty(&calls).unwrap_or_default());
        // The house's own notices tell of the times that the clock jumped over.
        let hooks: Vec<_> = receiver.hooks().into_iter().filter(|hook| hook.body["kind"] != "notice").collect();
        let heard: Vec<String> = hooks.iter().map(|hook| hook.message().to_owned()).collect();
        assert_eq!(heard, day.heard, "{}", serde_json::to_string_pretty(&heard).unwrap_or_default());
        for hook in hooks {
            assert_eq!((hook.answered, hook.body["origin_butler"].as_str()), (200, Some(butler.as_str())));
        }
        let settings = format!(
            "SET butlerd.tenant = 'owner'; SET search_path = {butler}, shared, public; SET TimeZone = 'Europe/Berlin'"
        );
        self.client.batch_execute(&settings).await.expect("settings");
        for rows in &day.rows {
            let sql = format!("SELECT coalesce(jsonb_agg(to_jsonb(q)), '[]') FROM ({}) q", rows.sql);
            let row = self.client.query_one(&sql, &[]).await.unwrap_or_else(|e| panic!("{}: {e:?}", rows.sql));
            assert_eq!(row.get::<_, Value>(0), rows.are, "{}", rows.sql);
        }
    }
}

/// What the chat's stream told until it ended; `None`: it was cut off.
fn stream(daemon: &Daemon, message: &Value) -> impl Future<Output = Option<String>> + use<> {
    let request = http().post(format!("http://{}/api/chat", daemon.admin())).bearer_auth(daemon.token()).json(message);
    async move { request.send().await.ok()?.text().await.ok() }
}
