//! The statements on `route_inbox` and `asks`, and what a butler asks about its own work.

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use approvals::SessionPieces;
use base::{Label, TenantId};
use inbox::{End, HandedWork, Route, Settlement, Withdrawn};
use modules::memory::notices as memory_notices;
use outbox::{NoticeSources, OutFile};
use store::{Aged, AsRows, Claim, Lease, Params, StoreError, Tx};
use tools::{ToolCall, ToolError};

/// What was handed to a butler and what it asked, once it is dealt with.
pub(super) const OLD_ROUTES: &[Aged] = &[
    Aged { table: "route_inbox", old: "settled_at < $1" },
    Aged { table: "asks", old: "asked_at < $1 AND state NOT IN ('open', 'late')" },
];

/// How statements on what waits for approval look at a butler's sessions, and at what these deal with.
pub const SESSION_PIECES: SessionPieces = SessionPieces { earlier_tries: sessions::sql::earlier_tries, owner_waits };

/// Where notices to owners come from: messages, budgets, what was handed over, memory.
pub const NOTICE_SOURCES: NoticeSources = NoticeSources {
    messages: inbox::notices,
    of_butler: &[notices, sessions::sql::notices],
    of_memory: memory_notices,
};

/// What owners are to be told of what one butler asked of another in vain, as rows of `tenant_id`, `kind`, `subject`,
/// `happened_at` and `told`. `since` is SQL.
fn notices(schema: &str, butler: &str, since: &str) -> String {
    format!(
        "SELECT tenant_id, 'work_dead' AS kind, id::text AS subject, settled_at AS happened_at,
                '{butler} could not do something that another asked of it: '
                || coalesce(last_error, 'no reason is on record') AS told
         FROM \"{schema}\".route_inbox WHERE state = 'dead' AND kind <> 'message' AND settled_at > {since}"
    )
}

/// How statements on schedules look at what sessions cost.
pub const COST_PIECES: schedule::SessionPieces =
    schedule::SessionPieces { cost_of_run: sessions::sql::cost_of_run, sums_by_source: sessions::sql::sums_by_source };

/// Whether the owner waits in the conversation that a session deals with. `session` is SQL.
fn owner_waits(schema: &str, session: &str) -> String {
    format!(
        "(SELECT coalesce((r.route ->> 'interactive')::boolean, false)
                 AND r.route #>> '{{request_context,trust}}' IN ('owner', 'system')
          FROM \"{schema}\".route_inbox r WHERE r.id = {})",
        sessions::sql::route_of(schema, session)
    )
}

/// What butlers keep of what was handed to them, and of what they asked.
pub struct HandedRows;

fn failed() -> impl FnOnce(tokio_postgres::Error) -> StoreError {
    StoreError::query("settling a part of a message")
}

#[async_trait]
impl HandedWork for HandedRows {
    async fn end(&self, tx: &mut Tx<'_>, s: &Settlement<'_>, now: Timestamp) -> Result<bool, StoreError> {
        let sql = s.table.settling("state = $3, settled_at = $4, last_error = $5");
        let Claim { row, id: claim } = s.claim;
        let held = tx.execute(&sql, &[&row, &claim, &s.end.as_str(), &now, &s.error]).await.map_err(failed())?;
        Ok(held > 0)
    }

    async fn answer(
        &self,
        tx: &mut Tx<'_>,
        s: &Settlement<'_>,
        (asker, text): (&str, &str),
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let Some(place) = store::places_in(tx, &[asker]).await?.pop() else { return Ok(false) };
        let schema = &place.schema;
        let Some(late) = answered(tx, s, schema, text, now).await?.filter(|ask| ask.before == "late") else {
            return Ok(false);
        };
        let waits = somebody_waits(tx, schema, s.claim.row).await?;
        let mut context = late.context;
        context["trust"] = json!(late.trust);
        let prompt = format!(
            "You asked {} a question and could not wait for the answer. It has come now. Do what is left to do with it.",
            s.butler
        );
        let data = json!({"question": late.question, "answered_by": s.butler, "answer": text});
        let sql = "SELECT shared.hand_back($1, $2, $3, $4, $5)";
        tx.query(sql, &[&asker, &context, &waits, &prompt, &data]).await.map_err(failed())?;
        Ok(true)
    }

    async fn withdraw(
        &self,
        tx: &mut Tx<'_>,
        tenant: &TenantId,
        (butler, id): (&str, Uuid),
        now: Timestamp,
    ) -> Result<Withdrawn, StoreError> {
        let step = || StoreError::query("taking back what was handed to a butler");
        let Some(place) = store::places_in(tx, &[butler]).await?.pop() else { return Ok(Withdrawn::Back) };
        let schema = &place.schema;
        let sql = format!("SELECT state, session_id FROM \"{schema}\".route_inbox WHERE tenant_id = $1 AND id = $2");
        let row = tx.query_opt(&sql, &[&tenant.as_str(), &id]).await.map_err(step())?;
        let Some(row) = row.filter(|row| !["done", "dead"].contains(&row.get::<_, &str>("state"))) else {
            return Ok(Withdrawn::Back);
        };
        // Whoever settles it holds its row and waits for the message's, which is held here: not to be waited for.
        let sql = format!(
            "UPDATE \"{schema}\".route_inbox SET state = 'dead', settled_at = $2, last_error = 'rerouted'
             WHERE id = (SELECT id FROM \"{schema}\".route_inbox WHERE id = $1 AND state = 'accepted'
                         FOR UPDATE SKIP LOCKED)"
        );
        let back = tx.execute(&sql, &[&id, &now]).await.map_err(step())? > 0;
        Ok(if back { Withdrawn::Back } else { Withdrawn::UnderWay(row.get("session_id")) })
    }
}

store::row! {
    /// A question that was answered.
    struct AnsweredAsk {
        /// Its state before.
        before: String,
        context: Value,
        question: String,
        trust: String,
    }
}

/// Puts the answer where the question is. It is believed no more than what its sessions were shown.
async fn answered(
    tx: &mut Tx<'_>,
    s: &Settlement<'_>,
    schema: &str,
    text: &str,
    now: Timestamp,
) -> Result<Option<AnsweredAsk>, StoreError> {
    let state = if s.end == End::Done { "answered" } else { "failed" };
    let sql = format!(
        "UPDATE \"{schema}\".asks a SET state = $2, answer = $3, answered_at = $4,
                trust = coalesce((SELECT t.name FROM (VALUES (1, 'stranger'), (2, 'known')) AS t(rank, name)
                                  WHERE t.name = a.trust OR {came_to} ORDER BY t.rank LIMIT 1), a.trust)
         FROM (SELECT state AS before FROM \"{schema}\".asks WHERE id = $1 FOR UPDATE) b
         WHERE a.id = $1 RETURNING b.before, a.context, a.question, a.trust",
        came_to = sessions::sql::came_to(s.schema, "$1", "t.name")
    );
    let row = tx.query_opt(&sql, &[&s.claim.row, &state, &text, &now]).await.map_err(failed())?;
    Ok(row.as_ref().map(AnsweredAsk::from))
}

/// Whether somebody waits for the session that asked, and so for the answer.
async fn somebody_waits(tx: &mut Tx<'_>, schema: &str, ask: Uuid) -> Result<bool, StoreError> {
    let sql = format!(
        "SELECT coalesce((r.route ->> 'interactive')::boolean, false) AS waits FROM \"{schema}\".asks a
         JOIN \"{schema}\".route_inbox r ON r.id = {} WHERE a.id = $1",
        sessions::sql::route_of(schema, "a.session_id")
    );
    Ok(tx.query_opt(&sql, &[&ask]).await.map_err(failed())?.is_some_and(|row| row.get("waits")))
}

/// Takes over a part of a message, a question or an answer, as the call's effect.
pub(super) async fn accept_route(call: &ToolCall, route: &Route) -> Result<(), ToolError> {
    let (id, context) = (route.subrequest.segment_id, &route.request_context);
    let (whole, seal) = (json!(route), call.store.seal());
    let sql = "SELECT shared.accept_route($1, $2, $3, $4, $5, $6)";
    let kind = route.kind.as_str();
    let accepted: Params<'_> = &[&id, &context.request_id.0, &kind, &whole, &context.trust.as_str(), seal.expose()];
    call.effect(sql, accepted).await.map(drop)
}

/// Notes which session works on a row of the route inbox, if the claim still holds it.
pub(super) async fn note_session(lease: &mut Lease, claim: &Claim, session: Uuid) -> Result<(), StoreError> {
    let sql = "UPDATE route_inbox SET session_id = $2 WHERE id = $1 AND claim_id = $3";
    let done = lease.execute(sql, &[&claim.row, &session, &claim.id]).await;
    done.map(drop).map_err(StoreError::query("noting the session of what was handed over"))
}

/// A question to another butler.
pub(super) struct NewAsk<'a> {
    pub id: Uuid,
    pub session: Uuid,
    pub request: Uuid,
    pub butler: &'a str,
    pub question: &'a str,
    /// Of the session that asks.
    pub context: &'a Value,
}

/// Puts a question on record, as the call's effect.
pub(super) async fn ask(call: &ToolCall, ask: &NewAsk<'_>) -> Result<(), ToolError> {
    let sql =
        "INSERT INTO asks (id, session_id, request_id, butler, question, context) VALUES ($1, $2, $3, $4, $5, $6)";
    let NewAsk { id, session, request, butler, question, context } = ask;
    call.effect(sql, &[id, session, request, butler, question, context]).await.map(drop)
}

/// Marks an open question. `false`: it is not open any more.
pub(super) async fn close_ask(lease: &mut Lease, id: Uuid, state: &str) -> Result<bool, StoreError> {
    let sql = "UPDATE asks SET state = $2 WHERE id = $1 AND state = 'open'";
    Ok(lease.execute(sql, &[&id, &state]).await.map_err(StoreError::query("closing a question"))? > 0)
}

store::row! {
    /// How a question stands.
    pub(super) struct AskStanding {
        pub state: String,
        pub answer: Option<String>,
    }
}

/// How a question stands.
pub(super) async fn standing_of(call: &ToolCall, id: Uuid) -> Result<Option<AskStanding>, ToolError> {
    call.query("SELECT state, answer FROM asks WHERE id = $1", &[&id]).await.first_typed()
}

store::row! {
    /// Something that a butler has sent.
    pub(super) struct SentRow {
        pub id: Uuid,
        pub kind: String,
        pub intent: String,
        pub channel: String,
        pub target: String,
        pub message: Option<String>,
        pub emoji: Option<String>,
        pub priority: String,
        pub state: String,
        pub last_error: Option<String>,
        pub due_at: Timestamp,
        pub created_at: Timestamp,
        pub settled_at: Option<Timestamp>,
    }
}

/// What the call's butler has sent, the newest first; with `open_only`, of it what is still to be delivered.
pub(super) async fn sent_lately(call: &ToolCall, most: i64, open_only: bool) -> Result<Vec<SentRow>, ToolError> {
    let sql =
        "SELECT id, kind, intent, channel, target, message, emoji, priority, state, last_error, due_at, created_at,
                      settled_at
               FROM shared.deliveries() WHERE origin = $2 AND (NOT $3 OR state IN ('pending', 'deferred', 'waiting', 'sending'))
               ORDER BY seq DESC LIMIT $1";
    Ok(call.query(sql, &[&most, &call.butler.as_str(), &open_only]).await?.iter().map(SentRow::from).collect())
}

/// Whether the call's session deals with a person's message.
pub(super) async fn answers_somebody(call: &ToolCall) -> Result<bool, ToolError> {
    let Some(session) = call.session() else { return Ok(false) };
    let sql = format!(
        "SELECT 1 FROM route_inbox r WHERE r.id = {} AND r.kind IN ('message', 'answer')",
        sessions::sql::route_of(call.store.schema(), "$1")
    );
    Ok(!call.query(&sql, &[&session.0]).await?.is_empty())
}

/// What a session says to the person whose message it deals with.
pub(super) struct Words<'a> {
    pub session: Uuid,
    pub request: Uuid,
    pub lane: &'a str,
    pub intent: &'a str,
    pub message: Option<&'a str>,
    pub emoji: Option<&'a str>,
    pub trust: &'a str,
    pub context: &'a Value,
}

/// Writes an answer as the call's effect. `holds`: the label of what it holds and the call was not shown.
pub(super) async fn say(
    call: &ToolCall,
    words: Words<'_>,
    holds: Option<&Label>,
    files: &[OutFile],
) -> Result<Said, ToolError> {
    let said = "shared.say($1, r.id, $2, $3, $4, $5, $6, $7, $8, $9)";
    let said = match files.is_empty() {
        true => said.to_owned(),
        false => format!("shared.attach_files(NULL, {said}, $10, $9)"),
    };
    let sql = format!(
        "SELECT {said} FROM route_inbox r WHERE r.id = {} AND r.kind IN ('message', 'answer')",
        sessions::sql::route_of(call.store.schema(), "$3")
    );
    let Words { session, request, lane, intent, message, emoji, trust, context } = words;
    let seal = call.store.seal();
    let said: Params<'_> = &[&request, &lane, &session, &intent, &message, &emoji, &trust, &context, seal.expose()];
    let written: Value = files.iter().map(OutFile::written).collect();
    let with_files = [said, &[&written]].concat();
    let said = if files.is_empty() { said } else { with_files.as_slice() };
    let rows = match holds {
        Some(label) => call.effect_holding(label, &sql, said).await?,
        None => call.effect(&sql, said).await?,
    };
    Ok(match rows.first() {
        None => Said::ToNobody,
        Some(row) if files.is_empty() || row.get(0) => Said::Yes,
        Some(_) => Said::WithoutFiles,
    })
}

/// What saying something came to.
pub(super) enum Said {
    Yes,
    /// The very words were said before, and may have left without these files.
    WithoutFiles,
    /// The session deals with nobody's message.
    ToNobody,
}

store::row! {
    /// A row of a route inbox that waits.
    pub struct WaitingRoute {
        pub id: Uuid,
        pub seq: i64,
        pub trust: String,
        /// The message at the very beginning, where one is.
        pub root: Option<Uuid>,
    }
}

/// What may be claimed of a route inbox and is not in hand, the household's own first, at most so much.
pub async fn waiting_routes(
    lease: &mut Lease,
    table: &str,
    in_hand: &[Uuid],
    most: i64,
) -> Result<Vec<WaitingRoute>, StoreError> {
    let sql = format!(
        "SELECT n.id, n.seq, n.trust, CASE WHEN n.kind = 'message' THEN n.request_id
                ELSE (n.route #>> '{{request_context,lineage,root_request_id}}')::uuid END AS root
         FROM {table} n WHERE n.state IN ('accepted', 'processing') AND (n.claim_id IS NULL OR n.lease_until < clock_timestamp())
           AND n.available_at <= clock_timestamp() AND n.id <> ALL($1)
         ORDER BY array_position(ARRAY['owner', 'system', 'known', 'stranger'], n.trust), n.seq LIMIT $2"
    );
    lease.query(&sql, &[&in_hand, &most]).await.typed().map_err(StoreError::query("looking at the route inbox"))
}
