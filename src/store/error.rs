//! What can go wrong between butlerd and PostgreSQL.

use std::error::Error as _;

use base::Fault;
use base::text::with_source;
use tokio_postgres::error::SqlState;

/// A failed step of the store, named by the step.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the database can't be reached: {0}")]
    Unreachable(String),
    #[error("no free database connection within {0:?}")]
    PoolTimeout(std::time::Duration),
    #[error("{step}: {}", describe(.source))]
    Query {
        step: &'static str,
        #[source]
        source: tokio_postgres::Error,
    },
    #[error("the butler's role has changed settings of its own login")]
    RoleChanged,
    #[error("{0}")]
    Migration(#[from] MigrationError),
    #[error("the database answered something unexpected: {0}")]
    Unexpected(String),
}

impl StoreError {
    /// Wraps a failed statement with the step it belonged to.
    pub fn query(step: &'static str) -> impl FnOnce(tokio_postgres::Error) -> StoreError {
        move |source| StoreError::Query { step, source }
    }

    /// The server's error, when the server itself refused the statement.
    pub fn db(&self) -> Option<&tokio_postgres::error::DbError> {
        match self {
            StoreError::Query { source, .. } => source.as_db_error(),
            _ => None,
        }
    }

    /// Whether a role does not log in as the daemon made it: with another password or with other settings.
    pub(super) fn is_changed_role(&self) -> bool {
        let logging_in = matches!(self, StoreError::Query { step: "logging in", .. });
        logging_in || matches!(self, StoreError::RoleChanged)
    }

    /// Whether it would have changed what a more trusted hand wrote, which the database refuses.
    pub fn is_untrusted(&self) -> bool {
        self.db().is_some_and(|db| db.code().code() == "BD002")
    }

    /// Whether the server ended this transaction for another that it stood in the way of: the same may go well again.
    pub fn is_deadlock(&self) -> bool {
        self.db().is_some_and(|db| *db.code() == SqlState::T_R_DEADLOCK_DETECTED)
    }

    /// Whether the statement can't have been begun, so that nothing was changed.
    pub fn before_any_change(&self) -> bool {
        matches!(self, StoreError::Unreachable(_) | StoreError::PoolTimeout(_))
            || matches!(self, StoreError::Query { step: "setting the tenant", .. })
    }

    /// What of the machine or the server failed, so that the same may go well later; `None`: the statement itself is at
    /// fault.
    pub fn fault(&self) -> Option<Fault> {
        if self.is_connection() {
            return Some(Fault::Database);
        }
        let code = self.db()?.code();
        Some(match code {
            c if *c == SqlState::OUT_OF_MEMORY => Fault::Memory,
            c if *c == SqlState::DISK_FULL || *c == SqlState::IO_ERROR => Fault::Disk,
            c if *c == SqlState::READ_ONLY_SQL_TRANSACTION => Fault::Database,
            // Resources, the operator's hand, the server's system.
            c if ["53", "57P", "58"].iter().any(|class| c.code().starts_with(class)) => Fault::Database,
            _ => return None,
        })
    }

    /// Whether the connection or the server is gone.
    pub fn is_connection(&self) -> bool {
        match self {
            StoreError::Unreachable(_) | StoreError::PoolTimeout(_) => true,
            StoreError::Query { source, .. } => is_gone(source),
            _ => false,
        }
    }
}

/// Why a chain stopped.
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    #[error("{file}: the name of a migration is NNN_name.sql, with NNN counting from 001 without a gap")]
    BadName { file: String },
    #[error("{file}: can't be read: {source}")]
    Read {
        file: String,
        #[source]
        source: std::io::Error,
    },
    #[error("{file}{}: {}", line_suffix(.line), describe(.source))]
    Failed {
        file: String,
        line: Option<usize>,
        #[source]
        source: tokio_postgres::Error,
    },
    #[error("{file} was applied to schema {schema} with another text; a shipped migration is frozen, add a new one")]
    Changed { file: String, schema: String },
    #[error(
        "schema {schema} has version {found} of the chain `{chain}`, newer than this butlerd knows ({known}); \
         install the newer butlerd again, or restore a backup from before the upgrade"
    )]
    Newer { schema: String, chain: String, found: i32, known: i32 },
    #[error("{file}: table {table} has no tenant; add SELECT shared.tenant_table('{table}'); after its definition")]
    NoTenant { file: String, table: String },
    #[error("{file}:{line}: {word} can't be used here; use {instead}")]
    Forbidden { file: String, line: usize, word: String, instead: &'static str },
    #[error("{file}: {relation} {problem}")]
    Leak { file: String, relation: String, problem: String },
    #[error("{role}, the owner of what a roster's files make, can't log in: {why}")]
    Login {
        role: String,
        why: String,
        #[source]
        source: tokio_postgres::Error,
    },
    #[error("the history of schema {schema}: {}", describe(.source))]
    History {
        schema: String,
        #[source]
        source: tokio_postgres::Error,
    },
}

impl MigrationError {
    /// As [`StoreError::is_deadlock`].
    pub(crate) fn is_deadlock(&self) -> bool {
        use MigrationError::{Failed, History};
        let (Failed { source, .. } | History { source, .. }) = self else { return false };
        source.code() == Some(&SqlState::T_R_DEADLOCK_DETECTED)
    }
}

fn line_suffix(line: &Option<usize>) -> String {
    line.map(|l| format!(":{l}")).unwrap_or_default()
}

/// Whether the connection on which this happened is gone.
pub fn is_gone(e: &tokio_postgres::Error) -> bool {
    match e.code() {
        Some(code) => is_shutdown(code),
        None => e.is_closed() || e.source().is_some_and(|s| s.is::<std::io::Error>()),
    }
}

fn is_shutdown(code: &SqlState) -> bool {
    [
        &SqlState::ADMIN_SHUTDOWN,
        &SqlState::CRASH_SHUTDOWN,
        &SqlState::CANNOT_CONNECT_NOW,
        &SqlState::TOO_MANY_CONNECTIONS,
        &SqlState::CONNECTION_FAILURE,
        &SqlState::CONNECTION_EXCEPTION,
    ]
    .contains(&code)
}

/// As [`StoreError::fault`], of any error: by what caused it, in files as in the database.
pub fn fault_of(error: &(dyn std::error::Error + 'static)) -> Option<Fault> {
    let of_store = error.downcast_ref::<StoreError>().and_then(StoreError::fault);
    let own = of_store.or_else(|| error.downcast_ref::<std::io::Error>().and_then(Fault::of_io));
    own.or_else(|| fault_of(error.source()?))
}

/// The server's own words (`tokio_postgres::Error` prints only "db error").
pub fn describe(e: &tokio_postgres::Error) -> String {
    match e.as_db_error() {
        Some(db) => {
            let mut text = db.message().to_owned();
            for more in [db.detail(), db.hint()].into_iter().flatten() {
                text.push_str(" (");
                text.push_str(more);
                text.push(')');
            }
            text
        }
        None => with_source(e),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the workspace can't be made")]
    struct Wrapped(#[source] io::Error);

    #[test]
    fn an_error_is_known_by_its_cause() {
        let of = |code| fault_of(&Wrapped(io::Error::from_raw_os_error(code)));
        assert_eq!(of(28), Some(Fault::Disk), "ENOSPC");
        assert_eq!(of(24), Some(Fault::Descriptors), "EMFILE");
        assert_eq!(of(2), None, "ENOENT");
        assert_eq!(fault_of(&Wrapped(io::Error::other("no code"))), None);
        assert_eq!(fault_of(&StoreError::Unreachable("gone".to_owned())), Some(Fault::Database));
    }
}
