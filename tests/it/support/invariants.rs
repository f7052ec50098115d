//! What holds of a household's rows at every moment, whatever has died before.

use std::path::Path;
use std::time::Duration;

use access::credentials::MasterKey;
use store::cluster::{OWNER, socket_config};
use supervisor::owner_login;
use tokio_postgres::{Client, NoTls};

use super::{Household, eventually};

/// A connection as the owner of the database below `data`.
async fn owner(data: &Path) -> Result<Client, String> {
    let key = MasterKey::load(None, data).map_err(|e| e.to_string())?;
    let text = std::fs::read_to_string(data.join("postgres/postmaster.pid")).map_err(|e| e.to_string())?;
    let socket = text.lines().nth(4).ok_or("postmaster.pid has no socket directory")?;
    let mut config = socket_config(Path::new(socket), OWNER, &owner_login(&key));
    config.dbname("butlers").application_name("invariants").connect_timeout(Duration::from_secs(2));
    let (client, connection) = config.connect(NoTls).await.map_err(|e| e.to_string())?;
    tokio::spawn(connection);
    Ok(client)
}

/// Of the switchboard's tables, `{s}`, and those of all. Each gives a line for every row that must not be.
const MESSAGES: [(&str, &str); 11] = [
    (
        // By the trust with which it was accepted: the message's own row is believed less once a transaction that was
        // shown a stranger's words settles it.
        "a message that the log does not have, or has otherwise",
        "SELECT coalesce(m.request_id, c.request_id)::text FROM {s}.message_inbox m
         FULL JOIN (SELECT * FROM shared.conversation WHERE direction = 'in') c ON c.entry = m.request_id
         WHERE m.request_id IS NULL OR c.entry IS NULL
            OR (c.text, c.lane, c.trust, c.tenant_id) <> (m.body, m.lane, m.context->>'trust', m.tenant_id)",
    ),
    ("a note on record that was handed to nobody", "SELECT id::text FROM {s}.mail WHERE route_id IS NULL"),
    (
        "a claim in part, or on a message that nobody works on",
        "SELECT request_id || ' ' || state FROM {s}.message_inbox
         WHERE (claim_id IS NULL) <> (claimed_by IS NULL) OR (claim_id IS NULL) <> (lease_until IS NULL)
            OR (claim_id IS NOT NULL AND state <> 'processing')",
    ),
    (
        "a message without its end, or an end without its time",
        "SELECT request_id || ' ' || state FROM {s}.message_inbox
         WHERE (state IN ('done', 'dead')) <> (settled_at IS NOT NULL) OR (state = 'dead' AND last_error IS NULL)",
    ),
    (
        "a message that nobody will ever take up again",
        "SELECT m.request_id::text FROM {s}.message_inbox m
         WHERE m.state = 'processing' AND m.claim_id IS NULL
           AND NOT EXISTS (SELECT 1 FROM {s}.route_segments s
                           WHERE s.request_id = m.request_id AND s.state = 'accepted')",
    ),
    (
        "a message at its end with a part that is open",
        "SELECT m.request_id || ' ' || s.state FROM {s}.message_inbox m JOIN {s}.route_segments s USING (request_id)
         WHERE m.state IN ('done', 'dead') AND s.state IN ('draft', 'open', 'accepted')",
    ),
    (
        "a message done without a part, or with a part that is dead",
        "SELECT m.request_id::text FROM {s}.message_inbox m
         WHERE m.state = 'done' AND coalesce(m.triage->>'action', '') NOT IN ('skip', 'metadata_only')
           AND NOT EXISTS (SELECT 1 FROM {s}.request_actions a
                           WHERE a.request_id = m.request_id AND a.action IN ('cancel', 'abort', 'complete'))
           AND (NOT EXISTS (SELECT 1 FROM {s}.route_segments s WHERE s.request_id = m.request_id AND s.state = 'done')
                OR EXISTS (SELECT 1 FROM {s}.route_segments s WHERE s.request_id = m.request_id AND s.state = 'dead'))",
    ),
    (
        // But for what somebody took up again, or ended, by hand; and a test that moves the clock moves it further.
        "two messages of a lane that ended in another order than they came in",
        "SELECT a.request_id || ' after ' || b.request_id FROM (
             SELECT request_id, settled_at, lead(settled_at) OVER lane AS next, lead(request_id) OVER lane AS later
             FROM {s}.message_inbox m
             WHERE state IN ('done', 'dead') AND coalesce(triage->>'action', '') NOT IN ('skip', 'metadata_only')
               AND NOT EXISTS (SELECT 1 FROM {s}.route_segments s
                               WHERE s.request_id = m.request_id AND s.state = 'rerouted')
               AND NOT EXISTS (SELECT 1 FROM {s}.request_actions a
                               WHERE a.request_id = m.request_id AND a.action IN ('cancel', 'abort', 'complete'))
             WINDOW lane AS (PARTITION BY tenant_id, lane ORDER BY seq)) a
         JOIN {s}.message_inbox b ON b.request_id = a.later WHERE a.settled_at > a.next
           AND a.settled_at < a.next + interval '30 minutes'",
    ),
    (
        "a part of a message that was answered for twice by the daemon",
        "SELECT coalesce(segment_id, request_id)::text FROM shared.replies WHERE auto OR kind = 'failure'
         GROUP BY request_id, segment_id HAVING count(*) > 1",
    ),
    (
        "somebody waits for an answer, and the message ended in silence",
        "SELECT m.request_id || ' ' || m.state FROM {s}.message_inbox m
         WHERE m.state IN ('done', 'dead') AND coalesce(m.triage->>'action', '') NOT IN ('skip', 'metadata_only')
           AND (m.channel = 'chat' OR m.envelope #>> '{control,policy_tier}' = 'interactive')
           AND NOT EXISTS (SELECT 1 FROM shared.replies r WHERE r.request_id = m.request_id)
           AND NOT EXISTS (SELECT 1 FROM {s}.request_actions a
                           WHERE a.request_id = m.request_id AND a.action IN ('cancel', 'abort', 'complete'))
           AND NOT EXISTS (SELECT 1 FROM shared.pending_actions a
                           WHERE a.request ->> 'request_id' = m.request_id::text)",
    ),
    (
        "an approved call that was made without a trace, or twice",
        "SELECT a.id::text FROM shared.pending_actions a
         WHERE (a.status = 'executed') <> EXISTS (SELECT 1 FROM shared.approval_events e
                                                  WHERE e.action_id = a.id AND e.event_type = 'executed')
            OR (SELECT count(*) FROM shared.approval_events e
                WHERE e.action_id = a.id AND e.event_type IN ('executed', 'abandoned', 'rejected', 'expired')) > 1",
    ),
];

/// Of what leaves the household.
const OUTBOX: [(&str, &str); 8] = [
    (
        "a delivery that arrived and is not in the log, or is there and did not",
        "SELECT coalesce(o.id, c.entry) || ' ' || coalesce(o.state, 'absent') FROM shared.outbox o
         FULL JOIN (SELECT * FROM shared.conversation WHERE direction = 'out') c ON c.entry = o.id
         -- One that came back was said all the same.
         WHERE (o.state = 'sent' OR coalesce(o.reason, '') = 'returned') IS DISTINCT FROM (c.entry IS NOT NULL)
            OR (c.text, c.tenant_id, c.trust) IS DISTINCT FROM (o.message, o.tenant_id, o.trust) AND o.state = 'sent'",
    ),
    (
        "a delivery that was sent twice without a person's word",
        "SELECT outbox_id::text FROM shared.outbox_attempts a JOIN shared.outbox o ON o.id = a.outbox_id
         WHERE a.outcome = 'sent' GROUP BY outbox_id HAVING count(*) > 1",
    ),
    (
        "a try under way of a delivery that nobody sends",
        "SELECT o.id || ' ' || o.state FROM shared.outbox_attempts a JOIN shared.outbox o ON o.id = a.outbox_id
         WHERE a.ended_at IS NULL AND o.state <> 'sending'",
    ),
    (
        "a delivery that counts as sent and was not",
        "SELECT o.id::text FROM shared.outbox o
         WHERE o.state = 'sent' AND o.reason IS DISTINCT FROM 'resolved'
           -- The chat has it, or whoever handed the question in has read it.
           AND NOT (o.channel = 'chat' AND coalesce(o.receipt, '{}') ? 'reply') AND NOT coalesce(o.receipt, '{}') ? 'read_by'
           AND NOT EXISTS (SELECT 1 FROM shared.outbox_attempts a
                           WHERE a.outbox_id = o.id AND a.outcome IN ('sent', 'lost'))",
    ),
    (
        "an end of a try that says more or less than its row",
        "SELECT o.id || ' ' || o.state || ' ' || coalesce(a.outcome, 'open') FROM shared.outbox o
         JOIN shared.outbox_attempts a ON a.outbox_id = o.id AND a.n = o.attempts
         WHERE o.state = 'unknown' AND a.outcome NOT IN ('unknown', 'lost') OR o.state = 'sending' AND a.outcome IS NOT NULL",
    ),
    (
        "an answer that is in no list of deliveries, or in two",
        "SELECT r.seq || ' ' || count(o.id) FROM shared.replies r LEFT JOIN shared.outbox o
         ON o.tenant_id = r.tenant_id AND o.idempotency_key = r.butler || ':answer:' || r.seq
         GROUP BY r.seq HAVING count(o.id) <> 1",
    ),
    (
        "a notice about a notice, or one that something else carries",
        "SELECT n.id::text FROM shared.notices n LEFT JOIN shared.outbox about ON about.id::text = n.subject
         LEFT JOIN shared.outbox by ON by.id = n.delivery_id
         WHERE about.kind = 'notice' OR (n.delivery_id IS NOT NULL AND by.kind IS DISTINCT FROM 'notice')",
    ),
    (
        // Of two that are posted in the same moment, either may be the first to be seen.
        "two deliveries of a lane and urgency that left in another order than they were posted",
        "SELECT a.id || ' after ' || a.later FROM (
             SELECT id, settled_at, created_at, lead(settled_at) OVER l AS next, lead(id) OVER l AS later,
                    lead(created_at) OVER l AS later_made
             FROM shared.outbox
             WHERE state = 'sent' AND kind = 'message' AND NOT coalesce(receipt, '{}') ?| ARRAY['reply', 'read_by'] AND reason IS NULL
               AND due_at <= created_at
             WINDOW l AS (PARTITION BY tenant_id, lane, urgency ORDER BY seq)) a
         WHERE a.settled_at > a.next AND a.later_made > a.created_at + interval '2 s'
           AND NOT EXISTS (SELECT 1 FROM shared.notices n WHERE n.subject = a.id::text)",
    ),
];

/// Of a butler's tables, `{b}`, and its parts of messages, `{s}.route_segments` with the name `{name}`.
const BUTLERS: [(&str, &str); 10] = [
    (
        "a part and its row at the butler that are not in the same state",
        "SELECT s.id || ' ' || s.state || ' ' || coalesce(r.state, 'absent')
         FROM {s}.route_segments s LEFT JOIN {b}.route_inbox r ON r.id = s.id
         WHERE s.butler = '{name}' AND CASE s.state
             WHEN 'done' THEN r.state IS DISTINCT FROM 'done'
             WHEN 'accepted' THEN coalesce(r.state, 'absent') NOT IN ('accepted', 'processing')
             WHEN 'open' THEN coalesce(r.state, 'accepted') NOT IN ('accepted', 'processing')
             WHEN 'dead' THEN coalesce(r.state, 'dead') <> 'dead'
             WHEN 'draft' THEN r.id IS NOT NULL
             ELSE false END",
    ),
    (
        "a row of a route inbox in an impossible state",
        "SELECT id || ' ' || state FROM {b}.route_inbox
         WHERE (claim_id IS NULL) <> (lease_until IS NULL) OR (state = 'processing') <> (claim_id IS NOT NULL)
            OR (state IN ('done', 'dead')) <> (settled_at IS NOT NULL) OR (state = 'dead' AND last_error IS NULL)",
    ),
    (
        "a session that is closed without its time, or has a time and is open",
        "SELECT id || ' ' || state FROM {b}.sessions
         WHERE (state IN ('queued', 'running')) <> (completed_at IS NULL)",
    ),
    (
        "work that more than one session has done",
        "SELECT s.route_id::text FROM {b}.sessions s
         WHERE s.route_id IS NOT NULL AND '{name}' <> 'switchboard'
         GROUP BY s.route_id
         HAVING count(*) FILTER (WHERE s.state = 'succeeded') > 1
             OR count(*) FILTER (WHERE EXISTS (
                    SELECT 1 FROM {b}.tool_calls c
                    WHERE c.session_id = s.id AND c.effect <> 'none' AND c.outcome = 'ok'
                      -- What a person let through was made by no session.
                      AND c.caller NOT LIKE 'approval %')) > 1",
    ),
    (
        "a session at work for a row that is at its end",
        "SELECT s.id::text FROM {b}.sessions s JOIN {b}.route_inbox r ON r.id = s.route_id
         WHERE s.state IN ('queued', 'running') AND r.state IN ('done', 'dead')",
    ),
    (
        "a time of a schedule with two rows",
        "SELECT task_id || ' ' || fire_at FROM {b}.schedule_runs GROUP BY task_id, fire_at HAVING count(*) > 1",
    ),
    (
        "a run of a schedule in an impossible state",
        "SELECT id || ' ' || state FROM {b}.schedule_runs
         WHERE (state = 'running') <> (claim_id IS NOT NULL) OR (claim_id IS NULL) <> (claimed_by IS NULL)
            OR (claim_id IS NULL) <> (lease_until IS NULL)
            OR (state IN ('done', 'failed', 'skipped')) <> (finished_at IS NOT NULL)
            OR (state IN ('failed', 'skipped') AND reason IS NULL) OR (state = 'skipped' AND session_id IS NOT NULL)",
    ),
    (
        "a run of a schedule that more than one session has done",
        "SELECT s.run_id::text FROM {b}.sessions s
         WHERE s.run_id IS NOT NULL
           AND (s.state = 'succeeded'
                OR EXISTS (SELECT 1 FROM {b}.tool_calls c
                           WHERE c.session_id = s.id AND c.effect <> 'none' AND c.outcome = 'ok'
                            -- What a person let through was made by no session.
                            AND c.caller NOT LIKE 'approval %'))
         GROUP BY s.run_id HAVING count(*) > 1",
    ),
    (
        "a session at work for a run that is at its end",
        "SELECT s.id::text FROM {b}.sessions s JOIN {b}.schedule_runs r ON r.id = s.run_id
         WHERE s.state IN ('queued', 'running') AND r.state IN ('done', 'failed', 'skipped')",
    ),
    (
        "a schedule that will be due and is off, or that nobody looks at any more",
        "SELECT id || ' ' || name FROM {b}.scheduled_tasks
         WHERE (enabled AND paused_at IS NULL AND next_run_at IS NULL) OR num_nonnulls(cron, every_ms, run_at) <> 1",
    ),
];

/// Of a butler's memory.
const MEMORY: [(&str, &str); 8] = [
    (
        "an episode in an impossible state",
        "SELECT id || ' ' || consolidation FROM {b}.memory_episodes
         WHERE (claim_id IS NULL) <> (lease_until IS NULL) OR (claim_id IS NULL) <> (claimed_by IS NULL)
            OR (claim_id IS NOT NULL AND consolidation NOT IN ('pending', 'failed'))
            OR (consolidation IN ('failed', 'dead_letter') AND last_error IS NULL)",
    ),
    (
        "something that was learned without evidence",
        "SELECT e.memory_id::text FROM {b}.memory_events e
         WHERE e.event_type = 'stored' AND e.actor = 'consolidation'
           AND NOT EXISTS (SELECT 1 FROM {b}.memory_links l
                           WHERE l.source_id = e.memory_id AND l.relation = 'derived_from')",
    ),
    (
        "a property or an edge with two values that hold",
        "SELECT min(f.id::text) || ' ' || count(*) FROM {b}.memory_facts f
         WHERE f.kind IN ('property', 'edge') AND f.validity IN ('active', 'fading') AND f.forgotten_at IS NULL
         GROUP BY f.tenant_id, f.topic_hash, f.kind, f.object_entity_id, f.trust = 'stranger' HAVING count(*) > 1",
    ),
    (
        "a fact that was stored twice in the same words",
        "SELECT min(f.id::text) || ' ' || count(*) FROM {b}.memory_facts f
         WHERE f.kind = 'many' AND f.validity IN ('active', 'fading') AND f.forgotten_at IS NULL
         GROUP BY f.tenant_id, f.topic_hash, f.content_hash, f.trust = 'stranger' HAVING count(*) > 1",
    ),
    (
        "a fact that was replaced and has no end, or ends before it begins",
        "SELECT f.id || ' ' || f.validity FROM {b}.memory_facts f
         WHERE f.forgotten_at IS NULL AND f.kind <> 'temporal'
           AND (f.validity = 'superseded' AND f.valid_to IS NULL OR f.valid_to < f.valid_from)",
    ),
    (
        "words of a memory that was purged",
        "SELECT m.id::text FROM (
             SELECT id, content, forgotten_at, purged_at FROM {b}.memory_facts
             UNION ALL SELECT id, content, forgotten_at, purged_at FROM {b}.memory_rules
             UNION ALL SELECT id, content, forgotten_at, purged_at FROM {b}.memory_episodes) m
         WHERE m.purged_at IS NOT NULL AND (m.content <> '' OR m.forgotten_at IS NULL)",
    ),
    (
        "a published memory that its butler has forgotten, or never had",
        "SELECT c.memory_id::text FROM shared.memory_catalog c
         WHERE c.live AND c.butler = '{name}'
           AND NOT EXISTS (SELECT 1 FROM {b}.memory_facts f WHERE f.id = c.memory_id AND f.forgotten_at IS NULL)
           AND NOT EXISTS (SELECT 1 FROM {b}.memory_rules r WHERE r.id = c.memory_id AND r.forgotten_at IS NULL)",
    ),
    ("a rule that a stranger made", "SELECT r.id::text FROM {b}.memory_rules r WHERE r.trust = 'stranger'"),
];

/// Everything that must not be, as of one moment.
async fn violations(client: &mut Client) -> Result<Vec<String>, tokio_postgres::Error> {
    let one_moment = client.build_transaction().isolation_level(tokio_postgres::IsolationLevel::RepeatableRead);
    let tx = one_moment.read_only(true).start().await?;
    let there = tx.query("SELECT butler, schema FROM shared.butler_roles ORDER BY butler", &[]).await?;
    let mut butlers = Vec::new();
    for row in there {
        let (name, schema): (String, String) = (row.get(0), row.get(1));
        // A butler that a test made and that never got its tables.
        let table = format!("{schema}.route_inbox");
        let made = tx.query_one("SELECT to_regclass($1) IS NOT NULL", &[&table]).await?.get::<_, bool>(0);
        butlers.extend(made.then_some((name, schema)));
    }
    let Some((_, switchboard)) = butlers.iter().find(|(name, _)| name == "switchboard").cloned() else {
        return Ok(Vec::new());
    };
    let quoted = |name: &str| format!("\"{name}\"");
    let mut checks: Vec<(String, String)> =
        MESSAGES.iter().map(|(what, sql)| ((*what).to_owned(), sql.replace("{s}", &quoted(&switchboard)))).collect();
    checks.extend(OUTBOX.iter().map(|(what, sql)| ((*what).to_owned(), (*sql).to_owned())));
    for (name, schema) in &butlers {
        let remembers =
            tx.query_one("SELECT to_regclass($1) IS NOT NULL", &[&format!("{schema}.memory_episodes")]).await?;
        let memory: &[_] = if remembers.get(0) { &MEMORY } else { &[] };
        checks.extend(BUTLERS.iter().chain(memory).map(|(what, sql)| {
            let sql = sql.replace("{s}", &quoted(&switchboard)).replace("{b}", &quoted(schema));
            (format!("{name}: {what}"), sql.replace("{name}", name))
        }));
    }
    let mut found = Vec::new();
    for (what, sql) in checks {
        for row in tx.query(&format!("{sql} LIMIT 5"), &[]).await? {
            found.push(format!("{what}: {}", row.get::<_, String>(0)));
        }
    }
    Ok(found)
}

/// Checks the database below `data`, if it answers: for the end of a test, where its daemon may be in any state.
pub(super) fn check_if_there(data: &Path) -> Vec<String> {
    let data = data.to_owned();
    let checked = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        let check = async { violations(&mut owner(&data).await.ok()?).await.ok() };
        // A database that a test has stopped says nothing.
        runtime.block_on(async { tokio::time::timeout(Duration::from_secs(5), check).await.ok().flatten() })
    });
    checked.join().ok().flatten().unwrap_or_default()
}

impl Household {
    /// A connection as the owner of the household's database, which sees everything of everybody.
    pub async fn owner(&self) -> Client {
        owner(&self.data()).await.expect("the owner may log in")
    }

    /// As [`Household::owner`], while the database may be away.
    pub async fn try_owner(&self) -> Option<Client> {
        owner(&self.data()).await.ok()
    }

    /// Waits until nothing is under way any more, and checks that nothing is wrong then.
    pub async fn at_rest(&self, what: &str) {
        self.invariants(what).await;
        let open = "SELECT (SELECT count(*) FROM switchboard.message_inbox WHERE state IN ('accepted', 'processing'))
                           + (SELECT count(*) FROM shared.pending_actions
                              WHERE status NOT IN ('pending') AND handed_back_at IS NULL),
                           (SELECT string_agg(request_id || ' ' || state || ' ' || attempts || ' ' || coalesce(last_error, ''), '; ')
                            FROM (SELECT * FROM switchboard.message_inbox WHERE state IN ('accepted', 'processing')
                                  ORDER BY seq LIMIT 5) m)";
        let client = self.owner().await;
        let sessions = open_sessions(&client).await;
        // However many there are: as long as fewer are left it goes on.
        let mut least = (i64::MAX, i64::MAX, false);
        while !least.2 {
            least = eventually(&format!("{what}: all messages are at their end"), || async {
                let row = client.query_one(open, &[]).await.map_err(|e| e.to_string())?;
                let running = client.query_one(&sessions, &[]).await.map_err(|e| e.to_string())?;
                match (row.get::<_, i64>(0), running.get::<_, i64>(0)) {
                    (0, 0) => Ok((0, 0, true)),
                    (n, s) if n < least.0 || s < least.1 => Ok((n.min(least.0), s.min(least.1), false)),
                    (n, s) => Err(format!("{n} messages and {s} sessions; {:?}", row.get::<_, Option<String>>(1))),
                }
            })
            .await;
        }
        self.invariants(what).await;
    }

    /// Waits until nothing is on its way out any more, but for what has another time.
    pub async fn all_delivered(&self, what: &str) {
        let client = self.owner().await;
        let sql = "SELECT count(*), min(id || ' ' || state || ' ' || coalesce(last_error, '')) FROM shared.outbox
                   WHERE state IN ('pending', 'sending')";
        eventually(&format!("{what}: all deliveries are at their end"), || async {
            let row = client.query_one(sql, &[]).await.map_err(|e| e.to_string())?;
            match row.get::<_, i64>(0) {
                0 => Ok(()),
                n => Err(format!("{n} are open: {:?}", row.get::<_, Option<String>>(1))),
            }
        })
        .await;
    }

    /// Waits until the owner is told of all that is on record, so that no notice is on its way out any more or about to be.
    pub async fn all_told(&self, what: &str) {
        let client = self.owner().await;
        let sql = "SELECT (SELECT count(*) FROM shared.notices WHERE delivery_id IS NULL),
                          (SELECT count(*) FROM shared.outbox WHERE state IN ('pending', 'sending'))";
        eventually(&format!("{what}: the owner is told of all"), || async {
            let row = client.query_one(sql, &[]).await.map_err(|e| e.to_string())?;
            match (row.get::<_, i64>(0), row.get::<_, i64>(1)) {
                (0, 0) => Ok(()),
                (untold, open) => Err(format!("{untold} are untold, and {open} deliveries are open")),
            }
        })
        .await;
    }

    /// Waits until there is exactly one notice for each bad end of a delivery.
    pub async fn each_has_a_notice(&self, what: &str) {
        let client = self.owner().await;
        let sql = "SELECT o.id || ' ' || o.state || ' ' || count(n.id) FROM shared.outbox o LEFT JOIN shared.notices n
                   ON n.subject = o.id::text AND n.delivery_id IS NOT NULL
                   WHERE o.state IN ('unknown', 'failed', 'dead') AND o.kind <> 'notice' AND o.reason <> 'cancelled'
                   GROUP BY o.id, o.state HAVING count(n.id) <> 1";
        eventually(&format!("{what}: a notice for each bad end"), || async {
            let rows = client.query(sql, &[]).await.map_err(|e| e.to_string())?;
            match rows.first() {
                None => Ok(()),
                Some(row) => Err(format!("{} without; {}", rows.len(), row.get::<_, String>(0))),
            }
        })
        .await;
    }

    /// Fails the test if anything is wrong at this moment.
    pub async fn invariants(&self, what: &str) {
        let found = violations(&mut self.owner().await).await.expect("the invariants can be checked");
        assert!(found.is_empty(), "{what}:\n{}", found.join("\n"));
    }
}

/// Counts what is open in all route inboxes and all sessions.
async fn open_sessions(client: &Client) -> String {
    let rows = client.query("SELECT schema FROM shared.butler_roles", &[]).await.expect("the butlers");
    let of = |row: &tokio_postgres::Row| {
        let schema: String = row.get(0);
        format!(
            "SELECT id FROM \"{schema}\".sessions WHERE state IN ('queued', 'running')
             UNION ALL SELECT id FROM \"{schema}\".route_inbox WHERE state IN ('accepted', 'processing')
             UNION ALL SELECT id FROM \"{schema}\".schedule_runs WHERE state IN ('due', 'running')"
        )
    };
    let all: Vec<String> = rows.iter().map(of).collect();
    format!("SELECT count(*) FROM ({}) open", all.join(" UNION ALL "))
}
