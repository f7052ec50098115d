//! PostgreSQL: the embedded server, the owner's connections, butlers' schemas, roles and pools, migrations, tenants.
//!
//! What never happens here: a statement without a tenant, a butler's role outside its own schema, a shipped migration
//! applied with another text.

mod claims;
pub mod cluster;
mod database;
mod error;
pub mod lexer;
pub mod migrate;
mod nodes;
mod pool;
pub mod replay;
mod roles;
mod row;
pub mod rules;
mod tls;

pub use claims::{Claim, ClaimTable, lease_seconds, renew_every, settle};
pub use database::{Database, DatabaseOptions, Store, owner_connection};
pub use error::{MigrationError, StoreError, describe};
pub use nodes::Presence;
pub use pool::{Lease, Params, Scope, Tx};
pub use roles::derive;
pub use tls::connector;
