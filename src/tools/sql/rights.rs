//! Whether the butler's role may run a statement: preparing it does not ask, planning it does.

use tokio_postgres::error::SqlState;

use super::tool::SqlTool;
use crate::ToolFileError;
use store::lexer::line_of;
use store::{Lease, describe};

/// A name of its own, on a connection that is given up afterwards.
const NAME: &str = "butlerd_rights";

/// The files whose statements the role of this connection may not run. They are planned with nothing for each argument,
/// never run; whatever else is wrong with one is told by preparing it.
pub async fn refused(lease: &mut Lease, files: &[SqlTool]) -> Vec<ToolFileError> {
    let mut found = Vec::new();
    for file in files {
        let statement = &file.statement;
        if lease.batch(&format!("PREPARE {NAME} AS {}\n", statement.sql)).await.is_err() {
            continue;
        }
        let nothing = vec!["NULL"; statement.params.len()].join(", ");
        let arguments = if nothing.is_empty() { nothing } else { format!("({nothing})") };
        let planned = lease.batch(&format!("EXPLAIN EXECUTE {NAME}{arguments}")).await;
        // It was prepared a moment ago; what fails here fails for the next one, too, and is told there by nobody.
        let _ = lease.batch(&format!("DEALLOCATE {NAME}")).await;
        if let Err(e) = planned
            && e.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE)
        {
            let sql = &file.header.sql;
            // `permission denied for table secrets`
            let what = e.as_db_error().and_then(|db| db.message().rsplit(' ').next()).unwrap_or_default();
            let at = sql.find(what).unwrap_or(sql.len() - sql.trim_start().len());
            let problem = format!("{}: the butler's role may not run it", describe(&e));
            found.push(file.fail(file.header.lines + line_of(sql, at), problem));
        }
    }
    lease.forget_scope();
    found
}
