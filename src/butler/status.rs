//! What people and programs are told of a butler. The JSON shape is stable.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use modules::State as ModuleState;
use sessions::ModelState;

/// Where a butler stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, IntoStaticStr, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum ButlerState {
    Booting,
    Up,
    Draining,
    /// Given up until somebody does something; the status says why.
    Parked,
    Stopped,
}

base::named!(ButlerState);

/// One phase of a butler's boot and how long it took.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PhaseTime {
    pub phase: String,
    pub ms: f64,
}

/// A butler as `status` shows it.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ButlerStatus {
    pub name: String,
    pub description: String,
    pub state: ButlerState,
    pub since: Timestamp,
    /// The port really bound; `None` while it has none.
    pub port: Option<u16>,
    /// Why it is parked, or why the last boot failed: phase and sentence.
    pub failed_phase: Option<String>,
    pub error: Option<String>,
    /// What else is worth knowing: that the roster has it no more, or that it runs on with its former files.
    #[serde(default)]
    pub note: Option<String>,
    /// The roster does not have it any more; its data is kept.
    #[serde(default)]
    pub removed: bool,
    /// Boots since the daemon started, beyond the first.
    pub restarts: u32,
    pub model: Option<ModelState>,
    pub modules: BTreeMap<String, ModuleState>,
    pub sessions_running: usize,
    pub sessions_queued: usize,
    /// Sessions that the last start found unfinished.
    pub interrupted_sessions: usize,
    pub boot_phases: Vec<PhaseTime>,
}

/// What keeps the household from its work.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Trouble {
    /// `disk`, `descriptors`, `memory`, `database`, `butlers` or `watch`; `/readyz` shows this alone.
    pub what: String,
    /// A sentence without its full stop, for people.
    pub why: String,
}

impl Trouble {
    pub fn new(what: &str, why: impl Into<String>) -> Self {
        Self { what: what.to_owned(), why: why.into() }
    }
}

/// The household as `status` shows it.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct HouseholdStatus {
    pub version: String,
    pub pid: u32,
    pub started_at: Timestamp,
    pub uptime_seconds: f64,
    /// The core butlers are up, and nothing of the machine fails that they need.
    pub ready: bool,
    /// Why it is not ready.
    #[serde(default)]
    pub troubles: Vec<Trouble>,
    pub admin: String,
    /// Lines of the log that could not be written since the start.
    #[serde(default)]
    pub log_lines_lost: u64,
    /// Backups that the daemon makes by itself; `None`: it makes none.
    #[serde(default)]
    pub backup: Option<BackupStatus>,
    /// How many deliveries wait for each channel that the household does not have.
    #[serde(default)]
    pub without_channel: BTreeMap<String, u64>,
    pub database: DatabaseStatus,
    pub butlers: Vec<ButlerStatus>,
}

/// The backups that the daemon makes by itself, as `status` shows them.
#[derive(Clone, Debug, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub struct BackupStatus {
    /// When the newest good one was made, and where it is.
    pub newest: Option<Timestamp>,
    pub file: Option<String>,
    /// When the next one is made.
    pub due_at: Option<Timestamp>,
    /// The newest is half as old again as it should be, or there is none although it was due.
    pub overdue: bool,
    /// Why the last try made none.
    pub error: Option<String>,
}

/// The database as `status` shows it.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DatabaseStatus {
    /// `embedded` or `external`
    pub kind: String,
    /// Which PostgreSQL, and where it came from.
    pub server: String,
    pub up: bool,
    pub error: Option<String>,
    /// Connections that this daemon holds.
    pub connections: usize,
}
