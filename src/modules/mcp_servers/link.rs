//! The connection to a server, if one is open, and when one may be opened again.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

use super::start::{CLOSING, Made, remove};
use base::{Backoff, task};
use mcp::RemoteConnection;
use sessions::workspace::Workspace;

/// A server that failed is left alone at least so long, and twice as long after each failure in a row.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// An open connection. Whoever holds the last clone of its `Arc` ends it.
pub(super) struct Open {
    connection: Option<RemoteConnection>,
    workspace: Option<Workspace>,
}

impl Open {
    pub fn new((connection, workspace): Made) -> Arc<Self> {
        Arc::new(Self { connection: Some(connection), workspace })
    }

    /// `None` never: it is taken when this is dropped.
    pub fn connection(&self) -> Option<&RemoteConnection> {
        self.connection.as_ref()
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let (connection, workspace) = (self.connection.take(), self.workspace.take());
        let closing = async move {
            if let Some(connection) = connection {
                let last = tokio::time::timeout(CLOSING, connection.close()).await;
                tracing::debug!(last = last.unwrap_or_default(), "the connection to an MCP server is closed");
            }
            if let Some(workspace) = workspace {
                remove(workspace);
            }
        };
        // At the very end there may be nobody to do it; then the program dies with its handle.
        if Handle::try_current().is_ok() {
            task::spawn(task::Kind::Job, "mcp-server-end", closing);
        }
    }
}

/// Where the connection stands.
pub(super) struct Link {
    pub open: Option<Arc<Open>>,
    /// Why there is none, after a failure.
    pub down: Option<Down>,
    backoff: Backoff,
}

/// A failure.
#[derive(Clone)]
pub(super) struct Down {
    pub why: String,
    /// It is tried again from then on.
    pub until: Instant,
}

impl Default for Link {
    fn default() -> Self {
        Self { open: None, down: None, backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE) }
    }
}

impl Link {
    pub fn failed(&mut self, why: String) {
        self.open = None;
        self.down = Some(Down { why, until: Instant::now() + self.backoff.next_delay() });
    }

    pub fn opened(&mut self, open: &Arc<Open>) {
        self.open = Some(open.clone());
        self.down = None;
    }

    /// It has answered: its next failure is the first.
    pub fn answered(&mut self) {
        self.backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
    }
}
