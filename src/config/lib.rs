//! Configuration: the typed tree of `config/butlerd.toml` and of every `roster/<butler>/butler.toml`.
//!
//! Everything is read and checked before any side effect, and every mistake found is reported at once with file,
//! line, key, what was found and what was expected. Precedence: command line, then environment
//! (`BUTLERD_DATABASE__URL`), then `config/butlerd.toml`, then default.
//!
//! Each key is declared once, as a field of a struct in `daemon.rs` or `butler.rs`: of the struct's derived schema come the
//! check, the annotated default file and the JSON Schema for editors.

mod annotate;
mod butler;
mod catalog;
mod check;
mod cron;
mod daemon;
mod digest;
mod editor;
mod effective;
mod environment;
mod inside;
mod load;
mod mistake;
mod node;
mod page;
mod pricing;
mod roster;
mod rules;
mod runtime;
mod schema;
mod section;
mod servers;
mod single;
pub mod skills;
mod values;
mod variables;

#[cfg(test)]
mod tests;

pub use annotate::annotated_default;
pub use butler::{
    BufferSection, ButlerBudgets, ButlerConfig, DbSection, EnvSection, RuntimeSection, ScheduleEntry, SessionsSection,
    ShutdownSection, SwitchboardSection,
};
pub use catalog::{Catalog, Finding, Place};
pub use check::nearest;
pub use cron::{CronExpression, CronExpressionError};
pub use daemon::{
    AdminConfig, BackupConfig, BudgetsConfig, ClisConfig, Config, DaemonConfig, DatabaseConfig, EndpointsConfig,
    LimitsConfig, OwnerConfig, RetentionConfig, SchedulesConfig, SpawnerConfig, TelemetryConfig,
};
pub use editor::{butler_schema, pricing_schema, settings_schema};
pub use effective::{EffectiveSetting, SettingSource};
pub use environment::{Environment, Overrides};
pub use load::{Household, Origin, load, load_config};
pub use mistake::{BrokenButler, Mistake, Refused};
pub use page::settings_page;
pub use pricing::{LongPrice, ModelPrice, Pricing, Rates};
pub use roster::has_module;
pub use runtime::{HouseholdRuntime, ModelTiers};
pub use schema::keys;
pub use section::{KeyMistake, Section};
pub use servers::{McpSection, McpServer, ResultTrust, SERVER_MODULES, UndoTool};
pub use skills::Skill;
pub use values::{
    Api, DispatchMode, LogFormat, Missed, ModelTier, Moment, Overlap, Ports, QuietHours, Retention, RuntimeKind,
    SandboxMode, SyncedContacts, VendorTool, Zone,
};

/// The directory of the roster that holds what butlers share; no butler.
pub const SHARED_DIR: &str = "shared";

/// The butlers without which there is no household.
pub const CORE_BUTLERS: [&str; 2] = ["switchboard", "messenger"];

/// Modules that take messages in and send them: their settings stand in the switchboard's file, and the messenger has them
/// by that.
pub const CHANNEL_MODULES: [&str; 2] = ["email", "telegram"];
