//! A butler whose one tool counts: what it does twice is there twice. And those who send it messages, whatever dies.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::model::ScriptedModel;
use tokio_postgres::Client;

use super::{Daemon, Household, eventually, http, model};

/// The butler. It has the probe's tools besides its own.
pub const TALLY: &str = "tally";

/// Understands `count: MARK` and `think: MARK`, as a classification and as work, which takes so many milliseconds.
pub async fn counting_model(ms: u64) -> ScriptedModel {
    let add = json!({"call": {"tool": "tally_add", "arguments": {"mark": "{{match.2}}"}}});
    model(json!([
        {"when": r#"(?s)"message":\s*"(count|think): ([a-z0-9-]+)".*Route the message in"#, "steps": [
            {"call": {"tool": "route_to_butler",
                      "arguments": {"butler": TALLY, "prompt": "{{match.1}}: {{match.2}}"}}}]},
        // The last one: what stands before it is what was said before.
        {"when": r"(?s).*\b(count|think): ([a-z0-9-]+)", "steps": [
            {"call": {"tool": "probe_echo", "arguments": {"ms": ms}}}, add, {"say": "counted {{match.2}}"}]},
    ]))
    .await
}

impl Household {
    /// With the butler [`TALLY`], of whom so many sessions run at once.
    pub fn with_tally(self, sessions: usize) -> Self {
        let toml = format!(
            "[butler]\nname = \"{TALLY}\"\nport = 40195\ndescription = \"Counts.\"\n\n[butler.runtime]\nmodel = \"m\"\n\
             max_concurrent_sessions = {sessions}\nmax_queued = 20\n\n[butler.strangers]\nmay = [\"tally_add\", \"probe_echo\"]\n\n\
             [butler.switchboard]\nadvertise = true\n\n\
             [modules.{TALLY}]\n\n[modules.probe]\n"
        );
        self.butler(TALLY, &toml)
            .write(
                "tally/migrations/001_tally.sql",
                "CREATE TABLE counted (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, mark text NOT NULL);\n\
                 SELECT shared.tenant_table('counted');\n",
            )
            .write(
                "tally/tools/tally_add.sql",
                "/*---\ndescription: Count something once more.\nargs:\n  mark: {type: string, required: true}\n\
                 returns: row\nmeta: {reads_private: false, effect: once}\n---*/\n\
                 INSERT INTO counted (mark) VALUES (:mark) RETURNING id\n",
            )
    }

    /// How often each mark was counted.
    pub async fn counted(&self, mark: &str) -> i64 {
        let sql = "SELECT count(*) FROM tally.counted WHERE mark = $1";
        self.owner().await.query_one(sql, &[&mark]).await.expect("the count").get(0)
    }
}

/// Messages whose text holds `text` go to `butler` without a model being asked.
pub async fn rule(client: &Client, text: &str, butler: &str) {
    client.batch_execute("SET butlerd.tenant = 'owner'").await.expect("a setting");
    let sql = "INSERT INTO switchboard.triage_rules (position, kind, pattern, action, butler)
               VALUES (1, 'substring', $1, 'route_to', $2)";
    client.execute(sql, &[&text, &butler]).await.expect("a rule");
}

/// `ingest.v1`: a message numbered `id` that says `text` in a thread.
pub fn envelope(id: &str, thread: &str, text: &str, tier: &str) -> Value {
    json!({"schema_version": "ingest.v1",
           "source": {"channel": "telegram", "provider": "telegram", "endpoint_identity": "bot:home"},
           "event": {"external_event_id": id, "external_thread_id": thread, "observed_at": "2026-11-01T08:00:00+01:00"},
           "sender": {"identity": thread, "authenticated": {"result": "pass", "method": "platform"}},
           "payload": {"raw": {}, "normalized_text": text},
           "control": {"policy_tier": tier}})
}

/// One try of handing a message in to whichever daemon of the household there is: status, `retry-after` and answer;
/// `None`: nobody answered.
pub async fn hand_in(
    data: &std::path::Path,
    client: &reqwest::Client,
    message: &Value,
) -> Option<(u16, Option<String>, Value)> {
    let info = std::fs::read_to_string(data.join("run/daemon.json")).ok()?;
    let info: Value = serde_json::from_str(&info).ok()?;
    let token = std::fs::read_to_string(data.join("run/operator.token")).ok()?;
    let url = format!("http://{}/api/ingest", info["admin"].as_str()?);
    let answer = client.post(url).bearer_auth(token.trim()).json(message).send().await.ok()?;
    let status = answer.status().as_u16();
    let after = answer.headers().get("retry-after").and_then(|v| v.to_str().ok()).map(str::to_owned);
    Some((status, after, answer.json().await.ok()?))
}

/// Hands a message in until it is taken, as a patient connector does; its request's id.
pub async fn insist(data: &std::path::Path, message: &Value) -> String {
    let client = http();
    let begun = std::time::Instant::now();
    loop {
        match hand_in(data, &client, message).await {
            Some((202, _, answer)) => return answer["request_id"].as_str().expect("an id").to_owned(),
            Some((429 | 503, after, answer)) => assert!(after.is_some(), "no retry-after: {answer}"),
            // A daemon that has just begun knows its own token and not the last one's.
            Some((401, ..)) | None => {}
            Some((status, _, answer)) => panic!("{status}: {answer}"),
        }
        assert!(begun.elapsed().as_secs() < 600, "nobody takes {message}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// Waits until the daemon has died of its crash point.
pub async fn died(daemon: &mut Daemon, round: &str) {
    let started = std::time::Instant::now();
    while !daemon.ended() {
        assert!(started.elapsed().as_secs() < 60, "{round}: the crash point was never passed:\n{}", daemon.log());
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

/// Starts a daemon that stands still at its next passage of the point. What it does of itself in its start is none: it is
/// up before passages count.
pub async fn standing_at(household: &Household, point: &str) -> Daemon {
    armed(household, "BUTLERD_STOP_POINT", point).await
}

/// As [`standing_at`], of a daemon that dies there.
pub async fn dying_at(household: &Household, point: &str) -> Daemon {
    armed(household, "BUTLERD_CRASH_POINT", point).await
}

async fn armed(household: &Household, what: &str, point: &str) -> Daemon {
    let armed = household.path().join("armed");
    let _ = std::fs::remove_file(&armed);
    let household =
        Household::again(household, what, point).env("BUTLERD_STOP_ARMED", armed.to_str().expect("a path in UTF-8"));
    let daemon = household.start().await;
    if point.starts_with("outbox.") {
        household.all_told(point).await;
    }
    std::fs::write(&armed, "").expect("the file that arms it");
    daemon
}

/// Waits until the daemon stands still at its stop point, with all its threads.
pub async fn stands_still(daemon: &Daemon, point: &str) {
    let threads = format!("/proc/{}/task", daemon.pid());
    eventually(&format!("{point} is passed"), || {
        let threads = std::fs::read_dir(&threads).into_iter().flatten().flatten();
        let states: Vec<String> = threads
            .filter_map(|thread| {
                let stat = std::fs::read_to_string(thread.path().join("stat")).ok()?;
                // The name may hold blanks and parentheses; behind its last one the fields are plain.
                Some(stat.rsplit_once(')')?.1.split_whitespace().next()?.to_owned())
            })
            .collect();
        let still = !states.is_empty() && states.iter().all(|state| state == "T");
        std::future::ready(if still { Ok(()) } else { Err(format!("its threads are {states:?}")) })
    })
    .await;
}

/// After a start: what is in nobody's hands though it is due, or still in those of a run that was over by `$1`: its claims
/// held 30 s.
const LEFT_LYING: &str = "
    SELECT string_agg(told, '; ')
    FROM (SELECT 'message ' || request_id::text AS told, claim_id, lease_until, available_at AS due
          FROM switchboard.message_inbox WHERE state = 'accepted' OR state = 'processing' AND claim_id IS NOT NULL
          UNION ALL SELECT 'route ' || id::text, claim_id, lease_until, available_at FROM tally.route_inbox
                    WHERE state IN ('accepted', 'processing')
          UNION ALL SELECT 'run ' || id::text, claim_id, lease_until, available_at FROM tally.schedule_runs
                    WHERE state IN ('due', 'running')
          UNION ALL SELECT 'delivery ' || id::text, claim_id, lease_until, greatest(available_at, due_at)
                    FROM shared.outbox WHERE state IN ('pending', 'deferred', 'sending')
          UNION ALL SELECT 'approval ' || id::text, claim_id, lease_until, decided_at FROM shared.pending_actions
                    WHERE status = 'approved') open
    WHERE CASE WHEN claim_id IS NULL THEN due <= clock_timestamp()
               ELSE lease_until < $1::timestamptz + interval '30 s' END";

/// How long something may be left lying once a daemon is ready. Two seconds are promised (`RECOVERY_WITHIN=2`): among other
/// tests it has more, and far less than the 30 s of a lease.
pub fn taken_up_within() -> Duration {
    Duration::from_secs(times("RECOVERY_WITHIN", 8))
}

impl Household {
    /// Starts after a kill, and looks that all work is taken up soon after it is ready: it is at its end, put
    /// off, or in the hands of this run.
    pub async fn start_again(&self, what: &str) -> Daemon {
        let begun = jiff::Timestamp::now();
        let daemon = self.start().await;
        let (ready, client) = (Instant::now(), self.owner().await);
        loop {
            let row = client.query_one(LEFT_LYING, &[&begun]).await.expect("the queues");
            let Some(left) = row.get::<_, Option<String>>(0) else { return daemon };
            assert!(ready.elapsed() < taken_up_within(), "{what}: still left lying: {left}\n{}", daemon.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// How often something is done: as the variable says, for those who have the time, else this often.
pub fn times(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).ok().and_then(|times| times.parse().ok()).unwrap_or(usual)
}

impl Household {
    /// Waits until so many messages are done and all that is answered has left, for as long as it goes on.
    pub async fn worked_off(&self, messages: u64) {
        let client = self.owner().await;
        let sql = "SELECT (SELECT count(*) FROM switchboard.message_inbox WHERE state = 'done'),
                          (SELECT count(*) FROM switchboard.message_inbox),
                          (SELECT count(*) FROM shared.outbox WHERE settled_at IS NULL)";
        let mut seen = (-1, -1, -1);
        loop {
            seen = eventually("it goes on", || async {
                let row = client.query_one(sql, &[]).await.map_err(|e| e.to_string())?;
                let now: (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
                if now != seen { Ok(now) } else { Err(format!("{now:?} of {messages}")) }
            })
            .await;
            if seen == (messages as i64, messages as i64, 0) {
                return;
            }
        }
    }

    /// Looks that each mark was counted once, and answered once: or, where nobody could see that, that its row says so.
    /// `arrived`: how often its answer lies with whoever asked.
    pub async fn each_once(&self, marks: &[String], arrived: impl Fn(&str) -> usize) {
        let client = self.owner().await;
        let sql = "SELECT substring(m.body FROM 'count: ([a-z0-9-]+)') AS mark, o.state
                   FROM switchboard.message_inbox m LEFT JOIN shared.outbox o
                        ON o.request_id = m.request_id AND o.intent = 'reply'";
        let mut states: BTreeMap<String, Vec<Option<String>>> = BTreeMap::new();
        for row in client.query(sql, &[]).await.expect("the answers") {
            states.entry(row.get(0)).or_default().push(row.get(1));
        }
        let sql = "SELECT mark, count(*) FROM tally.counted GROUP BY mark";
        let counted = client.query(sql, &[]).await.expect("the counts");
        let counted: BTreeMap<String, i64> = counted.iter().map(|row| (row.get(0), row.get(1))).collect();
        let mut unknown = 0;
        for mark in marks {
            let (times, state) = (arrived(mark), states.get(mark).map(Vec::as_slice).unwrap_or_default());
            match (state, times) {
                ([Some(state)], 1) if state == "sent" || state == "unknown" => {}
                ([Some(state)], 0) if state == "unknown" => unknown += 1,
                other => panic!("{mark}: {other:?}"),
            }
            assert_eq!(counted.get(mark), Some(&1), "{mark}");
        }
        println!(
            "{} messages, each once; of {unknown} it is known that nobody knows whether they arrived",
            marks.len()
        );
    }
}

/// A small generator, so that a failing round can be run again by its number.
pub fn random(seed: u64) -> u64 {
    let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(0x1234_5678_9ABC_DEF1);
    x ^= x >> 30;
    x = x.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x ^= x >> 27;
    x.wrapping_mul(0x94D0_49BB_1331_11EB) ^ (x >> 31)
}
