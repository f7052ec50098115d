//! What all butlers of a household share.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{Semaphore, broadcast};

use access::credentials::Credentials;
use access::{OperatorTokens, TokenBook};
use base::Clock;
use config::Config;
use inbox::Inbox;
use modules::{Catalog, Grants, RouteTable};
use outbox::Outbox;
use process::ProcessSupervisor;
use sessions::budget::Budgets;
use sessions::gateway::Gateway;
use sessions::workspace::Workspaces;
use sessions::{SessionEvent, SessionPermits};
use store::Database;
use telemetry::Metrics;

/// The household's shared services.
pub struct HouseholdServices {
    pub config: Config,
    pub data_dir: PathBuf,
    pub roster_dir: PathBuf,
    pub db: Arc<Database>,
    /// Access to accounts that was given by OAuth.
    pub grants: Grants,
    pub credentials: Credentials,
    pub book: TokenBook,
    pub operators: OperatorTokens,
    pub clock: Clock,
    pub metrics: Arc<Metrics>,
    /// Live events of all sessions; who reads too slowly misses some.
    pub events: broadcast::Sender<SessionEvent>,
    pub catalog: Catalog,
    /// Where all children are started.
    pub processes: ProcessSupervisor,
    /// Sessions that may run at once in the whole household.
    pub permits: SessionPermits,
    /// Where children reach their models, unless `[spawner] gateway` is off.
    pub gateway: Option<Gateway>,
    /// Where sessions get their workspaces.
    pub workspaces: Workspaces,
    /// Where messages come in.
    pub inbox: Inbox,
    /// What modules answer over HTTP.
    pub routes: RouteTable,
    /// What leaves the household.
    pub outbox: Outbox,
    /// What sessions cost and may cost.
    pub budgets: Budgets,
    /// Butlers that may boot at once, so that none waits longer for a connection than a connection is waited for.
    pub boots: Semaphore,
}
