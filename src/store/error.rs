//! What can go wrong between butlerd and PostgreSQL.

use std::error::Error as _;

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
    #[error("{0}")]
    Migration(#[from] super::migrate::MigrationError),
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

    /// Whether the statement can't have been begun, so that nothing was changed.
    pub fn before_any_change(&self) -> bool {
        matches!(self, StoreError::Unreachable(_) | StoreError::PoolTimeout(_))
            || matches!(self, StoreError::Query { step: "setting the tenant", .. })
    }

    /// Whether the connection or the server is gone, so that trying again later may help.
    pub fn is_connection(&self) -> bool {
        match self {
            StoreError::Unreachable(_) | StoreError::PoolTimeout(_) => true,
            StoreError::Query { source, .. } => is_gone(source),
            _ => false,
        }
    }
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
        None => match e.source() {
            Some(source) => format!("{e}: {source}"),
            None => e.to_string(),
        },
    }
}
