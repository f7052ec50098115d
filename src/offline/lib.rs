//! What runs without a daemon: backup and restore, check, upgrade, test, doctor, demo, and what makes files for people.
//!
//! Each room here is one command or a few; the command line adds arguments and printing.

pub mod backup;
pub mod check;
pub mod demo;
pub mod doctor;
pub mod scenario;
pub mod setup;
mod sql;
pub mod upgrade;

/// Starts the admin server with all that answers on its port: what the supervisor is handed for it.
pub fn admin_port(door: supervisor::AdminDoor) -> tokio::task::JoinHandle<()> {
    admin::spawn_with(door, &[dashboard::SITE, api::SITE])
}

/// The admin address of households that exist for a moment: whatever the settings say, it is a free one.
const ANY_PORT: &str = "127.0.0.1:0";
