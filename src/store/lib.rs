//! PostgreSQL: the embedded server, the owner's connections, butlers' schemas, roles and pools, migrations, tenants.
//!
//! What never happens here: a statement without a tenant, a butler's role outside its own schema, a shipped migration
//! applied with another text.

pub mod cluster;
mod database;
mod error;
mod joint;
pub mod lexer;
mod limit;
pub mod migrate;
mod nodes;
mod pool;
mod queue;
pub mod replay;
mod role_keeper;
mod roles;
mod roster;
mod row;
pub mod rules;
mod sql;
mod stored;
mod tls;

pub use database::{Database, DatabaseOptions, Store, owner_connection};
pub use error::{MigrationError, StoreError, describe, fault_of};
pub use nodes::Presence;
pub use pool::{Lease, Params, Scope, Tx};
pub use queue::{
    Also, Claim, Claimed, Handler, Left, Outlook, Queue, QueueOptions, QueueTable, RetryPolicy, RunningQueue,
    Statements, Verdict, lease_seconds, renew_every,
};
pub use roles::derive;
pub use row::AsRows;
pub use sql::{Aged, NODES, TableUsage, in_parts, note_sizes, places_in, places_of, places_with, table_usage};
pub use tls::connector;
