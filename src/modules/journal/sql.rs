//! The statements on the journal's tables. All but the writes of calls are the daemon's, which reads every label.

use std::collections::BTreeMap;

use ::journal::documents::{Change, Document, Documents};
use ::journal::file::FileName;
use ::journal::ops::Op;
use ::journal::section::Section;
use ::journal::undo::{Made, Moved, StepTaken};
use ::journal::wire::Checkpoint;
use base::{RequestId, SessionId, TenantId, Trust};
use jiff::Timestamp;
use serde_json::{Value, json};
use store::{AsRows, Lease, Params, StoreError, Tx};
use tokio_postgres::Row;
use tools::{EffectTx, ToolError};
use uuid::Uuid;

fn failed(step: &'static str) -> impl FnOnce(tokio_postgres::Error) -> StoreError {
    StoreError::query(step)
}

/// Whose journal: a butler's, by its schema, and a tenant's.
type Of<'a> = (&'a str, &'a TenantId);

/// Which files are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Files {
    All,
    /// Those that sessions are told: core memory and references.
    Shown,
}

/// The journal as it is committed.
pub(super) async fn load(lease: &mut Lease, (schema, tenant): Of<'_>, files: Files) -> Result<Documents, StoreError> {
    let rows = lease.read(&sections(schema), &[&tenant.as_str(), &(files == Files::All)]).await;
    Ok(documents(&rows.map_err(failed(READING))?))
}

/// The whole journal, within the transaction that changes it.
pub(super) async fn load_to_change(tx: &mut Tx<'_>, (schema, tenant): Of<'_>) -> Result<Documents, StoreError> {
    let rows = tx.query(&sections(schema), &[&tenant.as_str(), &true]).await;
    Ok(documents(&rows.map_err(failed(READING))?))
}

const READING: &str = "reading the journal";

fn sections(schema: &str) -> String {
    format!(
        "SELECT id, file, text, trust FROM \"{schema}\".journal_sections
         WHERE tenant_id = $1 AND ended IS NULL AND ($2 OR file = 'core.md' OR file LIKE 'reference/%')
         ORDER BY file, place, begun, id"
    )
}

fn documents(rows: &[Row]) -> Documents {
    let mut documents: BTreeMap<FileName, Document> = BTreeMap::new();
    for row in rows {
        // Nothing else is ever written.
        let Some(file) = FileName::read(row.get("file")) else { continue };
        let section = Section { id: row.get("id"), text: row.get("text"), trust: Trust::from_name(row.get("trust")) };
        documents.entry(file).or_default().sections.push(section);
    }
    Documents::new(documents)
}

/// Who makes a step, and as how far it is believed where the daemon makes it.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// `init`, `call`, `sync`, `person`, `rotate`, `check`, `migrate`, `migrate_back` or `undo`.
    pub kind: &'static str,
    pub actor: String,
    pub session: Option<SessionId>,
    pub trust: Trust,
    /// The step that it takes back.
    pub undoes: Option<Undoes>,
}

/// What a step takes back.
#[derive(Clone, Debug)]
pub(super) struct Undoes {
    pub step: i64,
    /// Of each section that begins again, by its new id, the first section that it is.
    pub restores: BTreeMap<Uuid, Uuid>,
}

impl Step {
    /// One that takes nothing back.
    pub fn new(kind: &'static str, actor: &str, session: Option<SessionId>, trust: Trust) -> Self {
        Self { kind, actor: actor.to_owned(), session, trust, undoes: None }
    }

    fn json(&self) -> Value {
        let (undoes, restores) = self.undoes.as_ref().map(|undoes| (undoes.step, &undoes.restores)).unzip();
        json!({"kind": self.kind, "actor": self.actor, "session_id": self.session.map(|id| id.0), "trust": self.trust,
            "undoes": undoes, "restores": restores})
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
        /// By hand: the least trusted words of others that were shown.
        pub least: Option<String>,
        /// Words of others up to this conversation are worked in, or given up.
        pub reached: i64,
        /// The session that works on the words of others goes up to this one; `None`: to the end.
        pub portion: Option<i64>,
    }
}

impl SyncRow {
    /// Whether only words of others are left to be worked in.
    pub fn is_at_others(&self) -> bool {
        !self.by_hand && self.pass == "others"
    }

    /// Whether further words of others follow those that its session works on.
    pub fn has_more(&self) -> bool {
        match self.is_at_others() {
            true => self.portion.is_some_and(|portion| portion < self.end_id),
            false => !self.by_hand && self.has_others,
        }
    }
}

const SYNC: &str = "id, begin_id, end_id, count, by_hand, pass, has_own, has_others, state, reason, begun_at, lease_until, \
     ended_at, tries, least, reached, portion";

async fn syncs(lease: &mut Lease, sql: &str, params: Params<'_>) -> Result<Option<SyncRow>, StoreError> {
    lease.read(sql, params).await.first_typed().map_err(failed("reading the journal's syncs"))
}

/// The sync that is under way.
pub(super) async fn open_sync(lease: &mut Lease, (schema, tenant): Of<'_>) -> Result<Option<SyncRow>, StoreError> {
    let sql = format!("SELECT {SYNC} FROM \"{schema}\".journal_syncs WHERE tenant_id = $1 AND state = 'open'");
    syncs(lease, &sql, &[&tenant.as_str()]).await
}

/// The open sync that this request works on.
pub(super) async fn sync_of(
    lease: &mut Lease,
    (schema, tenant): Of<'_>,
    request: RequestId,
) -> Result<Option<SyncRow>, StoreError> {
    let sql = format!(
        "SELECT {SYNC} FROM \"{schema}\".journal_syncs
         WHERE tenant_id = $1 AND request_id = $2 AND state = 'open' AND NOT by_hand"
    );
    syncs(lease, &sql, &[&tenant.as_str(), &request.0]).await
}

/// How far the least trusted words are that syncs by hand were shown since a person looked at what was edited; `None`: no
/// words of others.
pub(super) async fn least_shown(lease: &mut Lease, (schema, tenant): Of<'_>) -> Result<Option<Trust>, StoreError> {
    let sql = format!(
        "SELECT DISTINCT coalesce(least, 'stranger') AS least FROM \"{schema}\".journal_syncs
         WHERE tenant_id = $1 AND by_hand AND pass = 'others' AND looked_at IS NULL"
    );
    let rows = lease.read(&sql, &[&tenant.as_str()]).await.map_err(failed("reading the journal's syncs"))?;
    Ok(rows.iter().map(|row| Trust::from_name(row.get("least"))).min())
}

/// A person has looked at what is edited: what is edited from here on is the person's own.
pub(super) async fn looked(lease: &mut Lease, (schema, tenant): Of<'_>, at: Timestamp) -> Result<(), StoreError> {
    let sql = format!(
        "UPDATE \"{schema}\".journal_syncs SET looked_at = $2
         WHERE tenant_id = $1 AND by_hand AND pass = 'others' AND looked_at IS NULL AND state <> 'open'"
    );
    lease.execute(&sql, &[&tenant.as_str(), &at]).await.map(drop).map_err(failed("noting that a person looked"))
}

/// The sync that ended last.
pub(super) async fn last_sync(lease: &mut Lease, (schema, tenant): Of<'_>) -> Result<Option<SyncRow>, StoreError> {
    let sql = format!(
        "SELECT {SYNC} FROM \"{schema}\".journal_syncs WHERE tenant_id = $1 AND ended_at IS NOT NULL
         ORDER BY ended_at DESC, begun_at DESC LIMIT 1"
    );
    syncs(lease, &sql, &[&tenant.as_str()]).await
}

/// Begins a sync.
pub(super) async fn begin_sync(tx: &mut Tx<'_>, schema: &str, sync: &SyncRow) -> Result<(), StoreError> {
    let sql = format!(
        "INSERT INTO \"{schema}\".journal_syncs
             (id, begin_id, end_id, count, by_hand, pass, has_own, has_others, begun_at, lease_until, least)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"
    );
    let SyncRow {
        id, begin_id, end_id, count, by_hand, pass, has_own, has_others, begun_at, lease_until, least, ..
    } = sync;
    let params: Params<'_> =
        &[id, begin_id, end_id, count, by_hand, pass, has_own, has_others, begun_at, lease_until, least];
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

/// A session begins to work on a pass, of the words of others up to `portion`: what an earlier one wrote in it is
/// forgotten.
pub(super) async fn work_on(
    lease: &mut Lease,
    schema: &str,
    (id, portion): (Uuid, Option<i64>),
    request: RequestId,
    lease_until: Timestamp,
) -> Result<(), StoreError> {
    let sql = format!(
        "WITH taken AS (UPDATE \"{schema}\".journal_syncs SET request_id = $2, lease_until = $3, portion = $4
                        WHERE id = $1 AND state = 'open' RETURNING id, pass)
         DELETE FROM \"{schema}\".journal_drafts d USING taken t WHERE d.sync_id = t.id AND d.pass = t.pass"
    );
    let params: Params<'_> = &[&id, &request.0, &lease_until, &portion];
    lease.execute(&sql, params).await.map(drop).map_err(failed("working on a sync"))
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
    (sync, summary, next): (Uuid, &str, Option<&str>),
) -> Result<Option<i64>, StoreError> {
    let params: Params<'_> = &[&sync, &summary, &next, &None::<Uuid>];
    let rows = tx.query(&settle_sql(Some(schema)), params).await.map_err(failed("making a checkpoint"))?;
    Ok(checkpoint_id(rows.first()))
}

/// Adds to what a pass wrote.
pub(super) const ADD_DRAFT: &str = "INSERT INTO journal_drafts (sync_id, pass, op) VALUES ($1, $2, $3)";

/// The last checkpoints, the newest first; with `before` those with a lower number. The table's key serves both.
pub(super) async fn checkpoints(
    lease: &mut Lease,
    (schema, tenant): Of<'_>,
    before: Option<i64>,
    most: i64,
) -> Result<Vec<Checkpoint>, StoreError> {
    let sql = format!(
        "SELECT id, start_id, end_id, count, summary, made_at FROM \"{schema}\".journal_checkpoints
         WHERE tenant_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3"
    );
    let rows = lease
        .read(&sql, &[&tenant.as_str(), &before.unwrap_or(i64::MAX), &most])
        .await
        .map_err(failed("reading checkpoints"))?;
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

store::row! {
    /// A step of the history.
    #[derive(Clone, PartialEq, Debug)]
    pub(super) struct StepRow {
        pub id: i64,
        pub kind: String,
        pub actor: String,
        pub at: Timestamp,
    }
}

/// The last sync's or person's change that is not taken back.
pub(super) async fn last_undoable(lease: &mut Lease, (schema, tenant): Of<'_>) -> Result<Option<StepRow>, StoreError> {
    let sql = format!(
        "SELECT c.id, c.kind, c.actor, c.at FROM \"{schema}\".journal_changes c
         WHERE c.tenant_id = $1 AND c.kind IN ('sync', 'person')
           AND NOT EXISTS (SELECT 1 FROM \"{schema}\".journal_changes u WHERE u.undoes = c.id)
           AND (EXISTS (SELECT 1 FROM \"{schema}\".journal_sections s WHERE s.begun = c.id OR s.ended = c.id)
                OR EXISTS (SELECT 1 FROM \"{schema}\".journal_moves m WHERE m.step = c.id))
         ORDER BY c.id DESC LIMIT 1"
    );
    lease.read(&sql, &[&tenant.as_str()]).await.first_typed().map_err(failed("reading the history"))
}

/// The steps of the last migration that are not taken back, the last one first: the person's, and those of the session
/// that it had divide a file; `of`: only those of this session.
pub(super) async fn migration_steps(
    lease: &mut Lease,
    (schema, tenant): Of<'_>,
    of: Option<SessionId>,
) -> Result<Vec<i64>, StoreError> {
    let sql = format!(
        "WITH open AS (SELECT c.id, c.session_id FROM \"{schema}\".journal_changes c
                       WHERE c.tenant_id = $1 AND c.kind = 'migrate'
                         AND NOT EXISTS (SELECT 1 FROM \"{schema}\".journal_changes b WHERE b.undoes = c.id OR
                             b.tenant_id = $1 AND b.kind = 'migrate_back' AND b.undoes IS NULL AND b.id > c.id))
         SELECT id FROM open WHERE CASE WHEN $2::uuid IS NULL
             THEN id >= (SELECT max(id) FROM open WHERE session_id IS NULL) ELSE session_id = $2 END
         ORDER BY id DESC"
    );
    let params: Params<'_> = &[&tenant.as_str(), &of.map(|id| id.0)];
    lease.read(&sql, params).await.column("id").map_err(failed("reading migrations"))
}

/// How the division of a file by a session ended that the last migration began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Division {
    /// It came to its end, or there was none.
    Done,
    /// Its session wrote something and nobody noted its end.
    Broken,
    /// It failed, and what it had written was taken back.
    TakenBack,
    /// No session did anything with what the migration brought.
    Undone,
}

/// How the last one ended. `file`: what there is to divide.
pub(super) async fn division(
    lease: &mut Lease,
    (schema, tenant): Of<'_>,
    file: &FileName,
) -> Result<Division, StoreError> {
    let sql = format!(
        "SELECT l.kind = 'migrate_back' AND l.actor = $2 AS taken_back,
                l.kind = 'migrate' AND l.session_id IS NULL AND EXISTS (SELECT 1 FROM \"{schema}\".journal_sections s
                        WHERE s.tenant_id = $1 AND s.begun = l.id AND s.ended IS NULL AND s.file = $3) AS undone,
                EXISTS (SELECT 1 FROM \"{schema}\".journal_changes c
                        WHERE c.tenant_id = $1 AND c.kind = 'migrate' AND c.session_id IS NOT NULL
                          AND NOT EXISTS (SELECT 1 FROM \"{schema}\".journal_changes u WHERE u.undoes = c.id OR
                              u.kind = 'migrate' AND u.actor = $2 AND u.session_id = c.session_id)) AS broken
         FROM \"{schema}\".journal_changes l WHERE l.tenant_id = $1 AND l.kind IN ('migrate', 'migrate_back')
         ORDER BY l.id DESC LIMIT 1"
    );
    let params: Params<'_> = &[&tenant.as_str(), &HOUSE, &file.as_str()];
    let rows = lease.read(&sql, params).await.map_err(failed("reading migrations"))?;
    Ok(match rows.first().map(|last| (last.get("broken"), last.get("taken_back"), last.get("undone"))) {
        Some((true, ..)) => Division::Broken,
        Some((_, true, _)) => Division::TakenBack,
        Some((.., true)) => Division::Undone,
        _ => Division::Done,
    })
}

/// Who makes the steps of the daemon itself.
pub(super) const HOUSE: &str = "butlerd";

/// What a step did, and of each section that would begin again the first one that it is.
pub(super) async fn step(
    lease: &mut Lease,
    schema: &str,
    (tenant, step): (&TenantId, i64),
) -> Result<(StepTaken, BTreeMap<Uuid, Uuid>), StoreError> {
    // What is left of a section now: it, or what began again when a step that had ended it was taken back.
    let left = |root: &str| {
        format!(
            "(SELECT n.id FROM \"{schema}\".journal_sections n
              WHERE n.tenant_id = $2 AND n.ended IS NULL AND (n.id = {root} OR n.restores = {root}) LIMIT 1) AS left"
        )
    };
    let root = "coalesce(s.restores, s.id)";
    let sql = format!(
        "SELECT s.file, s.place, s.text, s.trust, s.begun = $1 AS made, {root} AS root, {},
                (SELECT format('step %s (%s of %s)', c.id, c.kind, c.actor)
                 FROM \"{schema}\".journal_sections n JOIN \"{schema}\".journal_changes c ON c.id = n.ended
                 WHERE n.id = {root} OR n.restores = {root} ORDER BY c.id DESC LIMIT 1) AS ended_by
         FROM \"{schema}\".journal_sections s WHERE s.tenant_id = $2 AND (s.begun = $1 OR s.ended = $1)
         ORDER BY s.file, s.place, s.id",
        left(root)
    );
    let moves = format!(
        "SELECT m.file, m.place, m.moved_to, s.text, {} FROM \"{schema}\".journal_moves m
         JOIN \"{schema}\".journal_sections s ON s.id = m.section_id
         WHERE m.step = $1 AND m.tenant_id = $2 ORDER BY m.file, m.place",
        left(root)
    );
    let params: Params<'_> = &[&step, &tenant.as_str()];
    let (mut taken, mut restores) = (StepTaken::default(), BTreeMap::new());
    for row in lease.read(&sql, params).await.map_err(failed("reading a step"))? {
        // Nothing else is ever written.
        let Some(file) = FileName::read(row.get("file")) else { continue };
        let text: String = row.get("text");
        if row.get("made") {
            taken.made.push(Made { id: row.get("left"), file, text, ended_by: row.get("ended_by") });
            continue;
        }
        let section = Section { id: Uuid::now_v7(), text, trust: Trust::from_name(row.get("trust")) };
        restores.insert(section.id, row.get("root"));
        taken.ended.push((file, row.get("place"), section));
    }
    for row in lease.read(&moves, params).await.map_err(failed("reading a step"))? {
        let file = |column| FileName::read(row.get(column));
        let Some((from, to)) = file("file").zip(file("moved_to")) else { continue };
        taken.moved.push(Moved { id: row.get("left"), from, place: row.get("place"), to, text: row.get("text") });
    }
    Ok((taken, restores))
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
