//! The sessions that worked on the same thing, one after the other.

use uuid::Uuid;

use store::{AsRows, Lease, StoreError};
use tools::sql::calls;

/// What sessions work on.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// A row of the route inbox.
    Route(Uuid),
    /// A run of a schedule.
    Run(Uuid),
}

store::row! {
    /// A session that worked on something.
    pub struct TryRow {
        pub id: Uuid,
        pub state: String,
        pub result: Option<String>,
        pub error: Option<String>,
        /// The tools by which it may have changed something.
        pub done: Vec<String>,
        pub trust: String,
        pub audience: Vec<String>,
        pub error_class: Option<String>,
    }
}

/// The sessions that worked on this, oldest first.
pub async fn tries_at(lease: &mut Lease, schema: &str, work: Work) -> Result<Vec<TryRow>, StoreError> {
    let (column, id) = match work {
        Work::Route(id) => ("route_id", id),
        Work::Run(id) => ("run_id", id),
    };
    let sql = format!(
        "SELECT s.id, s.state, s.result, s.error,
                coalesce((SELECT array_agg(c.tool ORDER BY c.id) FROM {} c), '{{}}') AS done,
                s.trust, s.audience, s.error_class
         FROM \"{schema}\".sessions s WHERE s.{column} = $1 ORDER BY s.queued_at, s.id",
        calls::changing(schema, "s.id")
    );
    lease.read(&sql, &[&id]).await.typed().map_err(StoreError::query("looking at earlier tries"))
}

/// The other sessions that tried the same work as this one, as a query of their ids. `session` is SQL.
pub fn earlier_tries(schema: &str, session: &str) -> String {
    format!(
        "SELECT earlier.id FROM \"{schema}\".sessions this JOIN \"{schema}\".sessions earlier
         ON earlier.route_id = this.route_id OR earlier.run_id = this.run_id
         WHERE this.id = {session} AND earlier.id <> this.id"
    )
}
