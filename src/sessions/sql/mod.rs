//! The statements on the tables of sessions, and the pieces of SQL by which statements of others look at them.

mod ended;
mod events;
mod log;
mod memory;
mod old;
mod shown;
mod tries;

pub use ended::{EndedRow, ended, notices, remembered};
pub use events::{EventRow, events_of};
pub(super) use events::{PART_OF_EVENTS, SHOWN_BEFORE, SessionEnd, end_of};
pub(super) use log::{CHILD, CLOSE, ClosedRow, INTERRUPT, OPEN, OpenRow, RUNNING, SPENT};
pub use memory::{source, told_by_memory};
pub use old::{EVENTS, delete_before, delete_unused_prompts};
pub(super) use shown::{
    IDS, PROMPT, PromptRow, TRACED_IDS, TRACES, TRUST, all_sums, by_day, by_model, newest, newest_before, of_traces,
    one, top,
};
pub use shown::{cost_of_run, sums_by_source};
pub use tries::{TryRow, Work, earlier_tries, tries_at};

use uuid::Uuid;

use base::{Audience, Label, TenantId, Trust};
use store::{Lease, StoreError, Tx};
use tools::SessionStatements;
use tools::sql::calls;

/// What tool calls write to the tables of sessions.
pub const STATEMENTS: SessionStatements =
    SessionStatements { insert_events: events::INSERT, note_taint: log::NOTE_TAINT };

/// The row of the route inbox that a session deals with. `session` is SQL.
pub fn route_of(schema: &str, session: &str) -> String {
    format!("(SELECT s.route_id FROM \"{schema}\".sessions s WHERE s.id = {session})")
}

/// Whether a session that dealt with a route came to be trusted just so far. `route` and `trust` are SQL.
pub fn came_to(schema: &str, route: &str, trust: &str) -> String {
    format!("EXISTS (SELECT 1 FROM \"{schema}\".sessions s WHERE s.route_id = {route} AND s.trust = {trust})")
}

/// The sessions that dealt with these routes, in their order.
pub async fn of_routes(
    lease: &mut Lease,
    schema: &str,
    tenant: &TenantId,
    routes: &[Uuid],
) -> Result<Vec<Uuid>, StoreError> {
    let sql = format!(
        "SELECT id FROM \"{schema}\".sessions WHERE tenant_id = $1 AND route_id = ANY($2) ORDER BY queued_at, id"
    );
    let rows = lease.read(&sql, &[&tenant.as_str(), &routes]).await;
    Ok(rows.map_err(StoreError::query("looking for the sessions of a message"))?.iter().map(|r| r.get("id")).collect())
}

/// The least trusted text that a session was shown so far. One that is not on record is not trusted.
pub async fn trust_of(lease: &mut Lease, schema: &str, tenant: &TenantId, session: Uuid) -> Result<Trust, StoreError> {
    let sql = format!("SELECT trust FROM \"{schema}\".sessions WHERE tenant_id = $1 AND id = $2");
    let rows = lease.read(&sql, &[&tenant.as_str(), &session]).await;
    let rows = rows.map_err(StoreError::query("asking what a session was shown"))?;
    Ok(rows.first().map_or(Trust::Stranger, |row| Trust::from_name(row.get("trust"))))
}

/// The label of all that a session was shown so far; of one that is not on record nothing is known.
pub async fn label_of(lease: &mut Lease, schema: &str, tenant: &TenantId, session: Uuid) -> Result<Label, StoreError> {
    let sql = format!("SELECT trust, audience FROM \"{schema}\".sessions WHERE tenant_id = $1 AND id = $2");
    let rows = lease.read(&sql, &[&tenant.as_str(), &session]).await;
    let rows = rows.map_err(StoreError::query("asking what a session was shown"))?;
    let read = |row: &tokio_postgres::Row| Label {
        trust: Trust::from_name(row.get("trust")),
        audience: Audience::from_names(row.get::<_, Vec<String>>("audience")),
    };
    Ok(rows.first().map_or_else(|| Label::household(Trust::Stranger), read))
}

/// The tools by which sessions that dealt with these routes may have changed something, in the order of the calls.
pub async fn changing_steps(
    tx: &mut Tx<'_>,
    schema: &str,
    tenant: &TenantId,
    routes: &[Uuid],
) -> Result<Vec<String>, StoreError> {
    let sql = format!(
        "SELECT c.tool FROM \"{schema}\".sessions s, LATERAL {} c
         WHERE s.tenant_id = $1 AND s.route_id = ANY($2) ORDER BY c.called_at, c.id",
        calls::changing(schema, "s.id")
    );
    let rows = tx.query(&sql, &[&tenant.as_str(), &routes]).await;
    Ok(rows.map_err(StoreError::query("reading what sessions did"))?.iter().map(|r| r.get("tool")).collect())
}
