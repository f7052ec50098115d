//! The statements on the council's tables.

use std::sync::Arc;

use base::{Audience, Label, RequestContext, Seen, SessionId, TenantId, Trust};
use council::anonymous::Labelled;
use council::episode::Episode;
use council::ranking::Place;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use store::{Aged, Lease, QueueTable, Store, StoreError, Tx};
use tokio_postgres::Row;
use tools::{ToolCall, ToolError};
use uuid::Uuid;

use super::seat::{LeftOut, Said, Seat};

/// Episodes that are told, or that nobody takes.
pub const OLD: Aged = Aged { table: "council_episodes", old: "settled_at < $1" };

fn failed(step: &'static str) -> impl FnOnce(tokio_postgres::Error) -> StoreError {
    StoreError::query(step)
}

/// The label of a row. Policies tell of what is less than the house's own, and leave the owner's and the house's alike: who
/// goes on with a row that the house had a part in asks the row itself.
fn label_of(row: &Row) -> Label {
    let audience = Audience::from_names(row.get::<_, Vec<String>>("audience"));
    Label { trust: Trust::from_name(row.get("trust")), audience }
}

/// What a model did.
pub(super) struct NewStep<'a> {
    pub stage: &'static str,
    pub round: u32,
    pub seat: &'a Seat,
    pub session: Option<SessionId>,
    /// What it said, or why it is left out.
    pub said: Result<&'a str, &'a str>,
    /// Of a judge: its letters, and the members in its order.
    pub judged: Option<(&'a [Labelled], &'a [usize])>,
    /// What it took of what the question may use: US dollars as far as they are known, and tokens.
    pub used: (Option<&'a str>, Option<u64>),
}

impl<'a> NewStep<'a> {
    /// What a model did that was asked.
    pub fn of((stage, round): (&'static str, u32), seat: &'a Seat, said: &'a Result<Said, LeftOut>) -> Self {
        let (session, words, used) = match said {
            Ok(said) => (Some(said.session), Ok(said.text.as_str()), (said.usd.as_deref(), said.tokens)),
            Err(out) => (out.session, Err(out.why.as_str()), (out.usd.as_deref(), out.tokens)),
        };
        Self { stage, round, seat, session, said: words, judged: None, used }
    }
}

/// What is on record of a question as work on it begins.
pub(super) struct Begun {
    pub seed: i64,
    /// It was answered already.
    pub answer: Option<String>,
    pub question: String,
    pub steps: Vec<Done>,
}

store::row! {
    /// What a model did in an earlier try.
    pub(super) struct Done {
        pub stage: String,
        pub round: u32 = |row| u32::try_from(row.get::<_, i32>("round")).unwrap_or(0),
        pub member: String,
        /// `None`: it was left out.
        pub said: Option<String>,
        pub usd: Option<String>,
        pub tokens: Option<u64> =
            |row| row.get::<_, Option<i64>>("tokens").and_then(|tokens| u64::try_from(tokens).ok()),
    }
}

/// How a question ended.
pub(super) struct End<'a> {
    pub way: Option<&'static str>,
    pub answer: Result<&'a str, &'a str>,
    pub ranking: &'a [Place],
}

/// Writes one conducted session's rows: each call one transaction, with the episodes that tell of the same.
pub(super) struct Record {
    pub store: Store,
    /// The question.
    pub id: Uuid,
    /// The names of members, for what is read by people.
    pub names: Vec<String>,
}

impl Record {
    /// The question, before anybody is asked. What an earlier try has of it stays, and `seen` is told what that was shown:
    /// the answer will be made of its rows.
    pub async fn begin(
        &self,
        ctx: &RequestContext,
        (session, conversation, question, seed): (SessionId, &str, &str, i64),
        episode: Option<(&Episode, &str)>,
        seen: &Arc<Seen>,
    ) -> Result<Begun, StoreError> {
        let mut lease = self.store.lease(ctx).await?.telling(seen);
        let mut tx = lease.begin().await.map_err(failed("beginning"))?;
        let sql =
            "INSERT INTO council_questions (id, session_id, conversation, question, seed) VALUES ($1, $2, $3, $4, $5)
            ON CONFLICT (id) DO UPDATE SET session_id = excluded.session_id
            RETURNING seed, answer, question, xmax = 0 AS fresh, trust, audience";
        let rows = tx.query(sql, &[&self.id, &session.0, &conversation, &question, &seed]).await;
        let rows = rows.map_err(failed("writing a question"))?;
        let row = rows.first().ok_or_else(|| StoreError::Unexpected("a question has no row".into()))?;
        let fresh: bool = row.get("fresh");
        let (seed, answer, question) = (row.get("seed"), row.get("answer"), row.get("question"));
        seen.observe(&label_of(row));
        let mut steps = Vec::new();
        if fresh {
            put(&mut tx, episode).await?;
        } else {
            let sql = "SELECT stage, round, member, said, usd, tokens, trust, audience FROM council_steps
                WHERE question_id = $1 ORDER BY ended_at, id";
            let rows = tx.query(sql, &[&self.id]).await.map_err(failed("reading what was said"))?;
            rows.iter().for_each(|row| seen.observe(&label_of(row)));
            steps.extend(rows.iter().map(Done::from));
        }
        base::crash::point("council.asked");
        tx.commit().await.map_err(failed("writing a question"))?;
        Ok(Begun { seed, answer, question, steps })
    }

    /// What a model did.
    pub async fn step(
        &self,
        ctx: &RequestContext,
        step: &NewStep<'_>,
        episode: Option<(&Episode, &str)>,
    ) -> Result<(), StoreError> {
        let mut lease = self.store.lease(ctx).await?;
        let mut tx = lease.begin().await.map_err(failed("beginning"))?;
        self.put_step(&mut tx, step).await?;
        put(&mut tx, episode).await?;
        base::crash::point("council.step");
        tx.commit().await.map_err(failed("writing what a member said"))
    }

    async fn put_step(&self, tx: &mut Tx<'_>, step: &NewStep<'_>) -> Result<(), StoreError> {
        let name = |member: &usize| self.names.get(*member).cloned().unwrap_or_default();
        let letters = step.judged.map(|(labels, _)| {
            let letters: Map<String, Value> =
                labels.iter().map(|one| (one.label.to_string(), json!(name(&one.member)))).collect();
            Value::Object(letters)
        });
        let ranking = step.judged.map(|(_, order)| json!(order.iter().map(name).collect::<Vec<_>>()));
        let (said, failure) = (step.said.ok(), step.said.err());
        let sql = "INSERT INTO council_steps (id, question_id, stage, round, member, model, session_id, said, failure, letters, ranking, usd, tokens)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)";
        let (round, session) = (i32::try_from(step.round).unwrap_or(i32::MAX), step.session.map(|id| id.0));
        tx.execute(
            sql,
            &[
                &Uuid::now_v7(),
                &self.id,
                &step.stage,
                &round,
                &step.seat.name,
                &step.seat.model,
                &session,
                &said,
                &failure,
                &letters,
                &ranking,
                &step.used.0,
                &step.used.1.map(|tokens| i64::try_from(tokens).unwrap_or(i64::MAX)),
            ],
        )
        .await
        .map(drop)
        .map_err(failed("writing what a member said"))
    }

    /// What memory was worth: what its judge did, what that came to, and the answer where it was enough.
    pub async fn weighed(
        &self,
        ctx: &RequestContext,
        (step, confidence): (Option<&NewStep<'_>>, &Value),
        answer: Option<&str>,
        episode: Option<(&Episode, &str)>,
    ) -> Result<(), StoreError> {
        let mut lease = self.store.lease(ctx).await?;
        let mut tx = lease.begin().await.map_err(failed("beginning"))?;
        if let Some(step) = step {
            self.put_step(&mut tx, step).await?;
        }
        let sql =
            "UPDATE council_questions SET confidence = $2, way = CASE WHEN $3::text IS NOT NULL THEN 'memory' END,
                answer = $3, failure = NULL, answered_at = CASE WHEN $3 IS NOT NULL THEN shared.clock() END
            WHERE id = $1";
        let done = tx.execute(sql, &[&self.id, confidence, &answer]).await;
        done.map_err(failed("writing what memory is worth"))?;
        put(&mut tx, episode).await?;
        base::crash::point("council.weighed");
        tx.commit().await.map_err(failed("writing what memory is worth"))
    }

    pub async fn title(&self, ctx: &RequestContext, title: &str) -> Result<(), StoreError> {
        let mut lease = self.store.lease(ctx).await?;
        let sql = "UPDATE council_questions SET title = $2 WHERE id = $1";
        lease.execute(sql, &[&self.id, &title]).await.map(drop).map_err(failed("writing a title"))
    }

    /// The question's end.
    pub async fn end(&self, ctx: &RequestContext, end: &End<'_>) -> Result<(), StoreError> {
        let ranking: Vec<Value> = end
            .ranking
            .iter()
            .map(|place| {
                json!({"member": self.names.get(place.member), "rankings": place.rankings,
                       "mean": (place.rankings > 0).then(|| (place.mean * 100.0).round() / 100.0)})
            })
            .collect();
        let mut lease = self.store.lease(ctx).await?;
        let mut tx = lease.begin().await.map_err(failed("beginning"))?;
        let sql = "UPDATE council_questions SET way = $2, answer = $3, failure = $4, ranking = $5, answered_at = shared.clock()
            WHERE id = $1";
        let ranking = (!ranking.is_empty()).then(|| json!(ranking));
        tx.execute(sql, &[&self.id, &end.way, &end.answer.ok(), &end.answer.err(), &ranking])
            .await
            .map_err(failed("writing the answer"))?;
        base::crash::point("council.ended");
        tx.commit().await.map_err(failed("writing the answer"))
    }
}

/// Writes an episode of a conversation, to be sent.
async fn put(tx: &mut Tx<'_>, episode: Option<(&Episode, &str)>) -> Result<(), StoreError> {
    let Some((episode, conversation)) = episode else { return Ok(()) };
    let sql = "INSERT INTO council_episodes (id, conversation, body, description, group_id, said_at)
        VALUES ($1, $2, $3, $4, $5, $6)";
    let Episode { id, body, description, at, group } = episode;
    tx.execute(sql, &[id, &conversation, body, description, group, at])
        .await
        .map(drop)
        .map_err(failed("writing an episode"))
}

/// The last question of the same conversation that nobody but the owner and the house had a part in, and its label.
pub(super) async fn last_question(
    store: &Store,
    ctx: &RequestContext,
    conversation: &str,
    before: Uuid,
) -> Result<Option<(String, Label)>, StoreError> {
    let mut lease = store.lease(ctx).await?;
    let sql = "SELECT question, trust, audience FROM council_questions WHERE conversation = $1 AND id <> $2 AND question <> ''
        AND trust IN ('owner', 'system')
        ORDER BY asked_at DESC, id DESC LIMIT 1";
    let rows = lease.read(sql, &[&conversation, &before]).await.map_err(failed("reading the last question"))?;
    Ok(rows.first().map(|row| (row.get("question"), label_of(row))))
}

/// An episode that waits, as the queue has it.
pub(super) struct Waiting {
    pub tenant: TenantId,
    pub episode: Episode,
    /// It may have arrived already.
    pub doubtful: bool,
    pub attempts: i32,
}

/// What else an episode must be to be claimed: the first of its conversation.
const FIRST: &str = "AND NOT EXISTS (SELECT 1 FROM {table} e WHERE e.tenant_id = n.tenant_id
    AND e.conversation = n.conversation AND e.seq < n.seq AND e.state IN ('accepted', 'processing'))";

/// Claims the next episode.
pub(super) async fn claim(
    lease: &mut Lease,
    table: &QueueTable,
    of: (Uuid, &str),
    in_hand: &[Uuid],
) -> Result<Option<(Uuid, Waiting)>, StoreError> {
    let also = FIRST.replace("{table}", &table.table);
    let also = store::Also { sql: &also, params: &[] };
    let columns = "q.id, q.tenant_id, q.attempts, q.body, q.description, q.group_id, q.said_at, q.doubtful";
    let rows = table.claim(lease, of, (1, in_hand), also, columns).await.map_err(failed("claiming an episode"))?;
    let Some(row) = rows.first() else { return Ok(None) };
    let id: Uuid = row.get("id");
    let tenant = TenantId::new(row.get::<_, &str>("tenant_id")).map_err(|e| StoreError::Unexpected(e.to_string()))?;
    let episode = Episode {
        id,
        body: row.get("body"),
        description: row.get("description"),
        group: row.get("group_id"),
        at: row.get("said_at"),
    };
    let waiting = Waiting { tenant, episode, doubtful: row.get("doubtful"), attempts: row.get("attempts") };
    Ok(Some((id, waiting)))
}

/// From here on nobody knows whether it has arrived, until an answer says so.
pub(super) async fn doubt(lease: &mut Lease, table: &str, claim: store::Claim) -> Result<bool, StoreError> {
    let sql = format!("UPDATE {table} SET doubtful = true WHERE id = $1 AND claim_id = $2");
    let changed =
        lease.execute(&sql, &[&claim.row, &claim.id]).await.map_err(failed("beginning to send an episode"))?;
    Ok(changed > 0)
}

/// Writes an episode's end. `false`: another claim holds it.
pub(super) async fn settle(
    lease: &mut Lease,
    table: &QueueTable,
    claim: store::Claim,
    (state, why): (&str, Option<&str>),
) -> Result<bool, StoreError> {
    let set = "state = $3, last_error = coalesce($4, last_error), settled_at = shared.clock()";
    let done = lease.execute(&table.settling(set), &[&claim.row, &claim.id, &state, &why]).await;
    Ok(done.map_err(failed("settling an episode"))? > 0)
}

/// How many episodes wait to be told to the knowledge graph, and how many it did not take.
pub(super) async fn waiting(call: &ToolCall) -> Result<(i64, i64), ToolError> {
    let sql =
        "SELECT count(*) FILTER (WHERE state IN ('accepted', 'processing')), count(*) FILTER (WHERE state = 'dead')
        FROM council_episodes";
    let rows = call.query(sql, &[]).await?;
    Ok(rows.first().map_or((0, 0), |row| (row.get(0), row.get(1))))
}

/// The newest questions; those that were asked before another, if that is named.
pub(super) async fn newest(call: &ToolCall, before: Option<Uuid>, most: i64) -> Result<Vec<Value>, ToolError> {
    let sql =
        "SELECT id, coalesce(title, left(question, 200)) AS title, way, left(answer, 300) AS answer, failure, asked_at,
        answered_at FROM council_questions
        WHERE $2::uuid IS NULL OR (asked_at, id) < (SELECT b.asked_at, b.id FROM council_questions b WHERE b.id = $2)
        ORDER BY asked_at DESC, id DESC LIMIT $1";
    let one = |row: &Row| {
        json!({"id": row.get::<_, Uuid>("id"), "question": row.get::<_, String>("title"),
               "way": row.get::<_, Option<String>>("way"), "answer": row.get::<_, Option<String>>("answer"),
               "failure": row.get::<_, Option<String>>("failure"), "asked_at": at(row, "asked_at"),
               "answered_at": at(row, "answered_at")})
    };
    Ok(call.query(sql, &[&most, &before]).await?.iter().map(one).collect())
}

fn at(row: &Row, name: &str) -> Option<String> {
    row.get::<_, Option<Timestamp>>(name).map(|at| at.to_string())
}

/// One question with all that was done for it; null: there is none with this id.
pub(super) async fn one(call: &ToolCall, id: Uuid) -> Result<Value, ToolError> {
    let sql = "SELECT * FROM council_questions WHERE id = $1";
    let rows = call.query(sql, &[&id]).await?;
    let Some(row) = rows.first() else { return Ok(Value::Null) };
    let sql = "SELECT * FROM council_steps WHERE question_id = $1 ORDER BY ended_at, id";
    let step = |row: &Row| {
        json!({"stage": row.get::<_, String>("stage"), "round": row.get::<_, i32>("round"),
               "member": row.get::<_, String>("member"), "model": row.get::<_, String>("model"),
               "session_id": row.get::<_, Option<Uuid>>("session_id"), "said": row.get::<_, Option<String>>("said"),
               "failure": row.get::<_, Option<String>>("failure"), "letters": row.get::<_, Option<Value>>("letters"),
               "ranking": row.get::<_, Option<Value>>("ranking"), "ended_at": at(row, "ended_at")})
    };
    let steps: Vec<Value> = call.query(sql, &[&id]).await?.iter().map(step).collect();
    Ok(json!({"id": id, "question": row.get::<_, String>("question"), "title": row.get::<_, Option<String>>("title"),
              "way": row.get::<_, Option<String>>("way"), "answer": row.get::<_, Option<String>>("answer"),
              "failure": row.get::<_, Option<String>>("failure"),
              "confidence": row.get::<_, Option<Value>>("confidence"),
              "ranking": row.get::<_, Option<Value>>("ranking"), "asked_at": at(row, "asked_at"),
              "answered_at": at(row, "answered_at"), "steps": steps}))
}
