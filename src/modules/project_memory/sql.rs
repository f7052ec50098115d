//! The statements on projects, and on what sessions were told.

use jiff::Timestamp;
use memory::sql::Rows;
use project::wire::Identity;
use store::{AsRows, StoreError};
use uuid::Uuid;

store::row! {
    /// A project.
    #[derive(Clone, Debug)]
    pub(super) struct ProjectRow {
        pub id: Uuid,
        pub name: String,
    }
}

/// Lets one transaction at a time look for a project and make it. What is done to memories does not wait for this.
pub(super) async fn lock(rows: &mut dyn Rows) -> Result<(), StoreError> {
    let sql = "SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ': projects', 0))";
    rows.rows(sql, &[]).await.map(drop)
}

/// The project of this id.
pub(super) async fn by_id(rows: &mut dyn Rows, id: Uuid) -> Result<Option<ProjectRow>, StoreError> {
    let found =
        rows.rows("SELECT id, name FROM projects WHERE tenant_id = shared.tenant() AND id = $1", &[&id]).await?;
    Ok(found.first().map(ProjectRow::from))
}

/// The projects of this name, or with this id as a text, the oldest first.
pub(super) async fn by_name(rows: &mut dyn Rows, name: &str) -> Result<Vec<ProjectRow>, StoreError> {
    let sql = "SELECT id, name FROM projects WHERE tenant_id = shared.tenant() AND (name = $1 OR id::text = lower($1))
               ORDER BY created_at, id";
    Ok(rows.rows(sql, &[&name]).await?.iter().map(ProjectRow::from).collect())
}

/// The project that is known by this: the same commit and origin; the same commit in the same directory where one of
/// both came from nowhere yet; the same origin, whose history was rewritten; or, of what has neither, the same directory.
pub(super) async fn by_identity(rows: &mut dyn Rows, by: &Identity) -> Result<Option<ProjectRow>, StoreError> {
    let sql = "SELECT p.id, p.name FROM project_identities i JOIN projects p ON p.id = i.project_id
               WHERE i.tenant_id = shared.tenant() AND CASE
                   WHEN $1 <> '' AND i.root_commit = $1 THEN i.origin = $2 AND $2 <> '' OR i.directory = $3
                   WHEN $2 <> '' THEN i.origin = $2
                   ELSE $1 = '' AND i.root_commit = '' AND i.origin = '' AND i.directory = $3 END
               ORDER BY (i.root_commit = $1 AND i.origin = $2) DESC, (i.root_commit = $1) DESC, i.created_at, p.id LIMIT 1";
    let (root, origin, directory) = columns(by);
    Ok(rows.rows(sql, &[&root, &origin, &directory]).await?.first().map(ProjectRow::from))
}

/// Notes that a project is also known by this.
pub(super) async fn add_identity(rows: &mut dyn Rows, id: Uuid, by: &Identity) -> Result<(), StoreError> {
    let sql = "INSERT INTO project_identities (project_id, root_commit, origin, directory) VALUES ($1, $2, $3, $4)
               ON CONFLICT DO NOTHING";
    let (root, origin, directory) = columns(by);
    rows.rows(sql, &[&id, &root, &origin, &directory]).await.map(drop)
}

/// Makes a project.
pub(super) async fn make(rows: &mut dyn Rows, name: &str) -> Result<ProjectRow, StoreError> {
    let made = rows.rows("INSERT INTO projects (name) VALUES ($1) RETURNING id, name", &[&name]).await?;
    made.first().map(ProjectRow::from).ok_or_else(|| StoreError::Unexpected("a project was not made".into()))
}

/// What stands in the columns. The directory tells clones without an origin apart: all that were made of one template
/// have its first commit.
fn columns(by: &Identity) -> (&str, &str, String) {
    let root = by.root_commit.as_deref().unwrap_or_default();
    let origin = by.origin.as_deref().unwrap_or_default();
    let directory = by.directory.clone().unwrap_or_else(|| format!("name:{}", by.name));
    (root, origin, directory)
}

/// Notes that these were forgotten elsewhere.
pub(super) async fn add_tombstones(rows: &mut dyn Rows, project: Uuid, ids: &[Uuid]) -> Result<(), StoreError> {
    let sql =
        "INSERT INTO project_tombstones (project_id, memory_id) SELECT $1, unnest($2::uuid[]) ON CONFLICT DO NOTHING";
    rows.rows(sql, &[&project, &ids]).await.map(drop)
}

/// What was forgotten elsewhere before it came here.
pub(super) async fn tombstones(rows: &mut dyn Rows, project: Uuid) -> Result<Vec<Uuid>, StoreError> {
    let sql = "SELECT memory_id FROM project_tombstones WHERE tenant_id = shared.tenant() AND project_id = $1
               ORDER BY memory_id";
    Ok(rows.rows(sql, &[&project]).await?.iter().map(|row| row.get("memory_id")).collect())
}

store::row! {
    /// A project as a list shows it.
    #[derive(Clone, Debug)]
    pub(super) struct ListedProject {
        pub id: Uuid,
        pub name: String,
        pub created_at: Timestamp,
        pub root_commit: Option<String>,
        pub origin: Option<String>,
    }
}

/// All projects, by name, each with what it was known by last.
pub(super) async fn all(rows: &mut dyn Rows) -> Result<Vec<ListedProject>, StoreError> {
    let sql = "SELECT p.id, p.name, p.created_at, nullif(i.root_commit, '') AS root_commit, nullif(i.origin, '') AS origin
               FROM projects p LEFT JOIN LATERAL (
                   SELECT * FROM project_identities i WHERE i.project_id = p.id ORDER BY i.created_at DESC LIMIT 1) i ON true
               WHERE p.tenant_id = shared.tenant() ORDER BY p.name, p.created_at";
    Ok(rows.rows(sql, &[]).await?.iter().map(ListedProject::from).collect())
}

store::row! {
    /// How the exchange over a project's repository stands for one machine.
    #[derive(Clone, Debug, serde::Serialize)]
    pub(super) struct ExchangeRow {
        pub identity: String,
        pub pushed_at: Option<Timestamp>,
        pub pulled_at: Option<Timestamp>,
        pub error: Option<String>,
        pub noted_at: Timestamp,
    }
}

/// How the exchange of a project stands, machine by machine.
pub(super) async fn exchanges(rows: &mut dyn Rows, project: Uuid) -> Result<Vec<ExchangeRow>, StoreError> {
    let sql = "SELECT identity, pushed_at, pulled_at, error, noted_at FROM project_exchanges
               WHERE tenant_id = shared.tenant() AND project_id = $1 ORDER BY identity";
    Ok(rows.rows(sql, &[&project]).await?.iter().map(ExchangeRow::from).collect())
}

/// Notes how an exchange ended. A time that is not known stays as it was.
pub(super) async fn note_exchange(
    rows: &mut dyn Rows,
    project: Uuid,
    identity: &str,
    (pushed_at, pulled_at): (Option<Timestamp>, Option<Timestamp>),
    error: Option<&str>,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO project_exchanges AS e (project_id, identity, pushed_at, pulled_at, error)
               VALUES ($1, $2, $3, $4, left($5, 2000))
               ON CONFLICT (tenant_id, project_id, identity) DO UPDATE SET pushed_at = coalesce(excluded.pushed_at, e.pushed_at),
                   pulled_at = coalesce(excluded.pulled_at, e.pulled_at), error = excluded.error, noted_at = shared.clock()";
    rows.rows(sql, &[&project, &identity, &pushed_at, &pulled_at, &error]).await.map(drop)
}

/// What a hook has printed, or has in hand. One that has said nothing for so long, many times its deadline, is dead.
const HELD: &str = "(i.printed OR i.at > shared.clock() - interval '2 seconds')";

/// What a session was told, or is about to be.
pub(super) async fn told(rows: &mut dyn Rows, session: &str) -> Result<Vec<Uuid>, StoreError> {
    let sql = format!(
        "SELECT memory_id FROM project_injections i
         WHERE tenant_id = shared.tenant() AND session = $1 AND told AND {HELD}"
    );
    Ok(rows.rows(&sql, &[&session]).await?.iter().map(|row| row.get("memory_id")).collect())
}

/// Notes that a hook is given these to tell a session. Returns those that no other hook of it has in hand or told.
pub(super) async fn tell(
    rows: &mut dyn Rows,
    project: Uuid,
    (session, event): (&str, &str),
    ids: &[Uuid],
    tokens: &[i32],
) -> Result<Vec<Uuid>, StoreError> {
    let sql = format!(
        "INSERT INTO project_injections AS i (session, memory_id, project_id, event, tokens)
         SELECT $1, m.id, $2, $3, m.tokens FROM unnest($4::uuid[], $5::integer[]) AS m(id, tokens)
         ON CONFLICT (tenant_id, session, memory_id) WHERE told
         DO UPDATE SET event = excluded.event, tokens = excluded.tokens, at = excluded.at WHERE NOT {HELD}
         RETURNING memory_id"
    );
    rows.rows(&sql, &[&session, &project, &event, &ids, &tokens]).await.column("memory_id")
}

/// A hook has printed these: its session was told them, once and for all. Returns how many those are.
pub(super) async fn printed(rows: &mut dyn Rows, session: &str, ids: &[Uuid]) -> Result<i64, StoreError> {
    let sql = "WITH done AS (UPDATE project_injections SET printed = true
                             WHERE tenant_id = shared.tenant() AND session = $1 AND memory_id = ANY($2)
                               AND told AND NOT printed RETURNING 1)
               SELECT count(*) AS n FROM done";
    Ok(rows.rows(sql, &[&session, &ids]).await?.first().map(|row| row.get("n")).unwrap_or_default())
}

/// A session's context was cut: it may be told everything again. Returns how much that is.
pub(super) async fn forget_told(rows: &mut dyn Rows, session: &str) -> Result<i64, StoreError> {
    let sql = "WITH cut AS (UPDATE project_injections SET told = false
                            WHERE tenant_id = shared.tenant() AND session = $1 AND told RETURNING 1)
               SELECT count(*) AS n FROM cut";
    Ok(rows.rows(sql, &[&session]).await?.first().map(|row| row.get("n")).unwrap_or_default())
}

store::row! {
    /// What the sessions of a project were told by one kind of hook.
    #[derive(Clone, Debug)]
    pub(super) struct InjectionCount {
        pub event: String,
        pub sessions: i64,
        pub injections: i64,
        pub tokens: i64,
    }
}

/// What sessions of a project were told since a moment, by event.
pub(super) async fn told_since(
    rows: &mut dyn Rows,
    project: Uuid,
    since: Timestamp,
) -> Result<Vec<InjectionCount>, StoreError> {
    let sql = "SELECT event, count(DISTINCT session) AS sessions, count(*) AS injections, sum(tokens)::bigint AS tokens
               FROM project_injections WHERE tenant_id = shared.tenant() AND project_id = $1 AND at >= $2 AND printed
               GROUP BY event ORDER BY event";
    Ok(rows.rows(sql, &[&project, &since]).await?.iter().map(InjectionCount::from).collect())
}

/// In how many sessions of a project something was told since a moment.
pub(super) async fn sessions_since(rows: &mut dyn Rows, project: Uuid, since: Timestamp) -> Result<i64, StoreError> {
    let sql = "SELECT count(DISTINCT session) AS n FROM project_injections
               WHERE tenant_id = shared.tenant() AND project_id = $1 AND at >= $2 AND printed";
    Ok(rows.rows(sql, &[&project, &since]).await?.first().map(|row| row.get("n")).unwrap_or_default())
}
