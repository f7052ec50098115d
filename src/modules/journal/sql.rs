//! The statements on the journal's tables. All but the writes of calls are the daemon's, which reads every label.

use std::collections::BTreeMap;

use ::journal::documents::{Change, Document, Documents};
use ::journal::file::FileName;
use ::journal::ops::Op;
use ::journal::section::Section;
use ::journal::wire::Checkpoint;
use base::{RequestId, SessionId, TenantId, Trust};
use jiff::Timestamp;
use serde_json::{Value, json};
use store::{Lease, Params, StoreError, Tx};
use tokio_postgres::Row;
use tools::{EffectTx, ToolError};
use uuid::Uuid;

fn failed(step: &'static str) -> impl FnOnce(tokio_postgres::Error) -> StoreError {
    StoreError::query(step)
}

/// Which files are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Files {
    All,
    /// Those that sessions are told: core memory and references.
    Shown,
}

/// The journal as it is committed.
pub(super) async fn load(
    lease: &mut Lease,
    schema: &str,
    tenant: &TenantId,
    files: Files,
) -> Result<Documents, StoreError> {
    let sql = format!(
        "SELECT id, file, text, trust FROM \"{schema}\".journal_sections
         WHERE tenant_id = $1 AND ended IS NULL AND ($2 OR file = 'core.md' OR file LIKE 'reference/%')
         ORDER BY file, place, begun, id"
    );
    let rows =
        lease.read(&sql, &[&tenant.as_str(), &(files == Files::All)]).await.map_err(failed("reading the journal"))?;
    let mut documents: BTreeMap<FileName, Document> = BTreeMap::new();
    for row in &rows {
        // Nothing else is ever written.
        let Some(file) = FileName::read(row.get("file")) else { continue };
        let section = Section { id: row.get("id"), text: row.get("text"), trust: Trust::from_name(row.get("trust")) };
        documents.entry(file).or_default().sections.push(section);
    }
    Ok(Documents::new(documents))
}

/// Who makes a step, and as how far it is believed where the daemon makes it.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// `init`, `call`, `sync`, `person`, `rotate`, `check`, `migrate` or `migrate_back`.
    pub kind: &'static str,
    pub actor: String,
    pub session: Option<SessionId>,
    pub trust: Trust,
}

impl Step {
    fn json(&self) -> Value {
        json!({"kind": self.kind, "actor": self.actor, "session_id": self.session.map(|id| id.0), "trust": self.trust})
    }
}

fn changes_json(changes: &[Change]) -> Value {
    let one = |change: &Change| match change {
        Change::Put { file, place, section } => json!({"put": section.id, "file": file.as_str(), "place": place,
            "text": section.text, "trust": section.trust}),
        Change::Move { file, place, id } => json!({"move": id, "file": file.as_str(), "place": place}),
        Change::End { id } => json!({"end": id}),
    };
    changes.iter().map(one).collect()
}

/// One writer at a time: until the transaction ends, what is committed of the journal stays as it is.
pub(super) async fn lock(tx: &mut Tx<'_>, schema: &str) -> Result<(), StoreError> {
    let sql = format!("SELECT \"{schema}\".journal_lock()");
    tx.query(&sql, &[]).await.map(drop).map_err(failed("waiting for the journal"))
}

/// Makes a step, as the daemon. Returns its number.
pub(super) async fn apply(tx: &mut Tx<'_>, schema: &str, step: &Step, changes: &[Change]) -> Result<i64, StoreError> {
    let sql = format!("SELECT \"{schema}\".journal_apply($1, $2) AS step");
    let rows = tx.query(&sql, &[&step.json(), &changes_json(changes)]).await.map_err(failed("writing the journal"))?;
    rows.first().map(|row| row.get("step")).ok_or_else(|| StoreError::Unexpected("a step has no number".into()))
}

/// Waits for the journal within a call, and says how far the call is believed.
pub(super) async fn lock_for(tx: &mut EffectTx<'_, '_>) -> Result<Trust, ToolError> {
    let rows = tx.query("SELECT shared.trust() AS trust FROM journal_lock()", &[]).await?;
    Ok(rows.first().map_or(Trust::Stranger, |row| Trust::from_name(row.get("trust"))))
}

/// Makes a step within a call.
pub(super) async fn apply_for(tx: &mut EffectTx<'_, '_>, step: &Step, changes: &[Change]) -> Result<(), ToolError> {
    tx.query("SELECT journal_apply($1, $2)", &[&step.json(), &changes_json(changes)]).await.map(drop)
}

store::row! {
    /// A sync.
    #[derive(Clone, PartialEq, Debug)]
    pub(super) struct SyncRow {
        pub id: Uuid,
        pub begin_id: i64,
        pub end_id: i64,
        pub count: i64,
        pub by_hand: bool,
        /// `own` or `others`.
        pub pass: String,
        pub has_own: bool,
        pub has_others: bool,
        pub state: String,
        pub reason: Option<String>,
        pub begun_at: Timestamp,
        pub lease_until: Timestamp,
        pub ended_at: Option<Timestamp>,
        /// How often the words of others were tried in vain.
        pub tries: i32,
    }
}

impl SyncRow {
    /// Whether its own pass is worked in, and that over the words of others is not.
    pub fn is_half_done(&self) -> bool {
        !self.by_hand && self.has_own && self.pass == "others"
    }
}

const SYNC: &str = "id, begin_id, end_id, count, by_hand, pass, has_own, has_others, state, reason, begun_at, lease_until, \
     ended_at, tries";

async fn syncs(lease: &mut Lease, sql: &str, params: Params<'_>) -> Result<Option<SyncRow>, StoreError> {
    let rows = lease.read(sql, params).await.map_err(failed("reading the journal's syncs"))?;
    Ok(rows.first().map(SyncRow::from))
}

/// The sync that is under way.
pub(super) async fn open_sync(
    lease: &mut Lease,
    schema: &str,
    tenant: &TenantId,
) -> Result<Option<SyncRow>, StoreError> {
    let sql = format!("SELECT {SYNC} FROM \"{schema}\".journal_syncs WHERE tenant_id = $1 AND state = 'open'");
    syncs(lease, &sql, &[&tenant.as_str()]).await
}

/// The open sync that this request works on.
pub(super) async fn sync_of(
    lease: &mut Lease,
    schema: &str,
    tenant: &TenantId,
    request: RequestId,
) -> Result<Option<SyncRow>, StoreError> {
    let sql = format!(
        "SELECT {SYNC} FROM \"{schema}\".journal_syncs
         WHERE tenant_id = $1 AND request_id = $2 AND state = 'open' AND NOT by_hand"
    );
    syncs(lease, &sql, &[&tenant.as_str(), &request.0]).await
}

/// The sync by hand that began last.
pub(super) async fn last_by_hand(
    lease: &mut Lease,
    schema: &str,
    tenant: &TenantId,
) -> Result<Option<SyncRow>, StoreError> {
    let sql = format!(
        "SELECT {SYNC} FROM \"{schema}\".journal_syncs WHERE tenant_id = $1 AND by_hand ORDER BY begun_at DESC, id DESC LIMIT 1"
    );
    syncs(lease, &sql, &[&tenant.as_str()]).await
}

/// The sync that ended last.
pub(super) async fn last_sync(
    lease: &mut Lease,
    schema: &str,
    tenant: &TenantId,
) -> Result<Option<SyncRow>, StoreError> {
    let sql = format!(
        "SELECT {SYNC} FROM \"{schema}\".journal_syncs WHERE tenant_id = $1 AND ended_at IS NOT NULL
         ORDER BY ended_at DESC, begun_at DESC LIMIT 1"
    );
    syncs(lease, &sql, &[&tenant.as_str()]).await
}

/// Begins a sync.
pub(super) async fn begin_sync(tx: &mut Tx<'_>, schema: &str, sync: &SyncRow) -> Result<(), StoreError> {
    let sql = format!(
        "INSERT INTO \"{schema}\".journal_syncs (id, begin_id, end_id, count, by_hand, pass, has_own, has_others, begun_at, lease_until)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
    );
    let SyncRow { id, begin_id, end_id, count, by_hand, pass, has_own, has_others, begun_at, lease_until, .. } = sync;
    let params: Params<'_> = &[id, begin_id, end_id, count, by_hand, pass, has_own, has_others, begun_at, lease_until];
    tx.execute(&sql, params).await.map(drop).map_err(failed("beginning a sync"))
}

/// Ends an open sync without a checkpoint: what it had written is forgotten.
pub(super) async fn give_up(
    lease: &mut Lease,
    schema: &str,
    (id, reason): (Uuid, &str),
    at: Timestamp,
) -> Result<(), StoreError> {
    let sql = format!(
        "WITH given_up AS (UPDATE \"{schema}\".journal_syncs SET state = 'given_up', reason = $2, ended_at = $3
                           WHERE id = $1 AND state = 'open' RETURNING id)
         DELETE FROM \"{schema}\".journal_drafts d USING given_up g WHERE d.sync_id = g.id"
    );
    lease.execute(&sql, &[&id, &reason, &at]).await.map(drop).map_err(failed("ending a sync"))
}

/// Keeps an open sync for so long from others, its session apart; `tried`: one more try came to nothing.
pub(super) async fn hold(
    lease: &mut Lease,
    schema: &str,
    (id, tried): (Uuid, bool),
    lease_until: Timestamp,
) -> Result<(), StoreError> {
    let sql = format!(
        "UPDATE \"{schema}\".journal_syncs SET lease_until = $2, request_id = NULL, tries = tries + $3::integer
         WHERE id = $1 AND state = 'open'"
    );
    lease.execute(&sql, &[&id, &lease_until, &i32::from(tried)]).await.map(drop).map_err(failed("holding a sync"))
}

/// A session begins to work on a pass: what an earlier one wrote in it is forgotten.
pub(super) async fn work_on(
    lease: &mut Lease,
    schema: &str,
    id: Uuid,
    request: RequestId,
    lease_until: Timestamp,
) -> Result<(), StoreError> {
    let sql = format!(
        "WITH taken AS (UPDATE \"{schema}\".journal_syncs SET request_id = $2, lease_until = $3
                        WHERE id = $1 AND state = 'open' RETURNING id, pass)
         DELETE FROM \"{schema}\".journal_drafts d USING taken t WHERE d.sync_id = t.id AND d.pass = t.pass"
    );
    lease.execute(&sql, &[&id, &request.0, &lease_until]).await.map(drop).map_err(failed("working on a sync"))
}

/// What a pass wrote so far.
pub(super) async fn drafts(lease: &mut Lease, schema: &str, sync: &SyncRow) -> Result<Vec<Op>, StoreError> {
    let sql = format!("SELECT op FROM \"{schema}\".journal_drafts WHERE sync_id = $1 AND pass = $2 ORDER BY seq");
    let rows = lease.read(&sql, &[&sync.id, &sync.pass]).await.map_err(failed("reading drafts"))?;
    // Only operations are ever written there.
    Ok(rows.iter().filter_map(|row| serde_json::from_value(row.get("op")).ok()).collect())
}

/// Ends a pass within a call, or, `as_daemon`, by hand: with `next` the sync goes on, else its checkpoint is made.
fn settle_sql(schema: Option<&str>) -> String {
    let schema = schema.map(|schema| format!("\"{schema}\".")).unwrap_or_default();
    format!("SELECT {schema}journal_settle($1, $2, $3, $4) AS checkpoint")
}

fn checkpoint_id(row: Option<&Row>) -> Option<i64> {
    row.and_then(|row| row.get("checkpoint"))
}

pub(super) async fn settle_for(
    tx: &mut EffectTx<'_, '_>,
    (sync, summary, next): (Uuid, &str, Option<&str>),
    session: Option<SessionId>,
) -> Result<Option<i64>, ToolError> {
    let params: Params<'_> = &[&sync, &summary, &next, &session.map(|id| id.0)];
    Ok(checkpoint_id(tx.query(&settle_sql(None), params).await?.first()))
}

pub(super) async fn settle(
    tx: &mut Tx<'_>,
    schema: &str,
    sync: Uuid,
    summary: &str,
) -> Result<Option<i64>, StoreError> {
    let params: Params<'_> = &[&sync, &summary, &None::<&str>, &None::<Uuid>];
    let rows = tx.query(&settle_sql(Some(schema)), params).await.map_err(failed("making a checkpoint"))?;
    Ok(checkpoint_id(rows.first()))
}

/// Adds to what a pass wrote.
pub(super) const ADD_DRAFT: &str = "INSERT INTO journal_drafts (sync_id, pass, op) VALUES ($1, $2, $3)";

/// The last checkpoints, the newest first.
pub(super) async fn checkpoints(
    lease: &mut Lease,
    schema: &str,
    tenant: &TenantId,
    most: i64,
) -> Result<Vec<Checkpoint>, StoreError> {
    let sql = format!(
        "SELECT id, start_id, end_id, count, summary, made_at FROM \"{schema}\".journal_checkpoints
         WHERE tenant_id = $1 ORDER BY id DESC LIMIT $2"
    );
    let rows = lease.read(&sql, &[&tenant.as_str(), &most]).await.map_err(failed("reading checkpoints"))?;
    let checkpoint = |row: &Row| Checkpoint {
        id: row.get("id"),
        start_id: row.get("start_id"),
        end_id: row.get("end_id"),
        count: row.get("count"),
        summary: row.get("summary"),
        made_at: row.get("made_at"),
    };
    Ok(rows.iter().map(checkpoint).collect())
}

/// What the last migration made that is still as it was made, and what it ended.
pub(super) async fn last_migration(
    lease: &mut Lease,
    schema: &str,
    tenant: &TenantId,
) -> Result<Option<i64>, StoreError> {
    let sql = format!(
        "SELECT c.id FROM \"{schema}\".journal_changes c WHERE c.tenant_id = $1 AND c.kind = 'migrate'
           AND NOT EXISTS (SELECT 1 FROM \"{schema}\".journal_changes b WHERE b.tenant_id = $1 AND b.kind = 'migrate_back' AND b.id > c.id)
         ORDER BY c.id DESC LIMIT 1"
    );
    let rows = lease.read(&sql, &[&tenant.as_str()]).await.map_err(failed("reading migrations"))?;
    Ok(rows.first().map(|row| row.get("id")))
}

/// The sections that a step made, and those that it ended, each with its file.
pub(super) async fn step(
    lease: &mut Lease,
    schema: &str,
    step: i64,
) -> Result<(Vec<Uuid>, Vec<(FileName, Section)>), StoreError> {
    let sql = format!(
        "SELECT id, file, text, trust, begun FROM \"{schema}\".journal_sections WHERE begun = $1 OR ended = $1 ORDER BY file, place, id"
    );
    let rows = lease.read(&sql, &[&step]).await.map_err(failed("reading a step"))?;
    let (made, ended): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.get::<_, i64>("begun") == step);
    let section = |row: &&Row| {
        let file = FileName::read(row.get("file"))?;
        Some((file, Section { id: Uuid::now_v7(), text: row.get("text"), trust: Trust::from_name(row.get("trust")) }))
    };
    Ok((made.iter().map(|row| row.get("id")).collect(), ended.iter().filter_map(section).collect()))
}

/// Whose journals there are; the owner's always.
pub(super) async fn tenants(lease: &mut Lease, schema: &str) -> Result<Vec<TenantId>, StoreError> {
    let sql = format!("SELECT DISTINCT tenant_id FROM \"{schema}\".journal_changes ORDER BY 1");
    let rows = lease.read(&sql, &[]).await.map_err(failed("reading whose journals there are"))?;
    let mut tenants: Vec<TenantId> =
        rows.iter().filter_map(|row| TenantId::new(row.get::<_, &str>("tenant_id")).ok()).collect();
    if !tenants.contains(&TenantId::owner()) {
        tenants.push(TenantId::owner());
    }
    Ok(tenants)
}
