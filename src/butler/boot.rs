//! A butler's boot: stages made of phases, each of which is timed and logged.

mod life;
mod stages;

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::BoxFuture;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

use self::life::RunningButler;
use self::stages::Booting;
use super::handle::Butler;
use super::services::HouseholdServices;
use super::status::PhaseTime;
use base::{ButlerName, task};
use config::ButlerConfig;
use inbox::SWITCHBOARD;
use store::MigrationError;
use store::migrate::Chain;

/// A boot that came to nothing.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{phase}: {error}")]
pub struct BootError {
    pub phase: &'static str,
    pub error: String,
    /// Whether it may go better by itself in a moment.
    pub transient: bool,
    pub phases: Vec<PhaseTime>,
}

/// A butler that is up.
pub struct BootedButler {
    pub butler: Butler,
    pub phases: Vec<PhaseTime>,
    task: JoinHandle<()>,
}

impl BootedButler {
    /// Waits for the end of the butler's task; `Err` when it ended by a panic.
    pub async fn ended(&mut self) -> Result<(), JoinError> {
        (&mut self.task).await
    }
}

/// Gathers the phases' durations and logs each.
struct Phases<'a> {
    butler: &'a str,
    done: Vec<PhaseTime>,
}

impl Phases<'_> {
    async fn run<T, E: Failure>(
        &mut self,
        phase: &'static str,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, BootError> {
        let started = Instant::now();
        let result = work.await;
        let ms = started.elapsed().as_secs_f64() * 1000.0;
        self.done.push(PhaseTime { phase: phase.to_owned(), ms: (ms * 1000.0).round() / 1000.0 });
        match result {
            Ok(value) => {
                tracing::debug!(butler = self.butler, phase, ms = format_args!("{ms:.2}"), "boot phase");
                Ok(value)
            }
            Err(e) => {
                Err(BootError { phase, transient: e.transient(), error: e.to_string(), phases: self.done.clone() })
            }
        }
    }

    /// The same of work that can't fail.
    async fn did<T>(&mut self, phase: &'static str, work: impl Future<Output = T>) -> Result<T, BootError> {
        self.run(phase, async { Ok::<_, String>(work.await) }).await
    }
}

/// What a phase may fail with.
trait Failure: std::fmt::Display {
    fn transient(&self) -> bool {
        false
    }
}
impl Failure for String {}
impl Failure for store::StoreError {
    fn transient(&self) -> bool {
        self.fault().is_some()
    }
}
impl Failure for schedule::SyncError {
    fn transient(&self) -> bool {
        matches!(self, schedule::SyncError::Store(e) if e.fault().is_some())
    }
}
impl Failure for mcp::BindError {}
impl Failure for sessions::NoModel {}
impl Failure for MigrationError {}

/// Boots the butler. `stop` ends it again: sessions are drained, then everything is taken down in reverse.
///
/// A module that fails does not fail the boot; whatever else fails does, named by its phase. Modules that had started
/// are stopped then. Boxed, so that crates above do not compile a butler's whole code again.
pub fn boot<'a>(
    services: &'a Arc<HouseholdServices>,
    config: &'a Arc<ButlerConfig>,
    stop: CancellationToken,
) -> BoxFuture<'a, Result<BootedButler, BootError>> {
    Box::pin(boot_stages(services, config, stop))
}

async fn boot_stages(
    services: &Arc<HouseholdServices>,
    config: &Arc<ButlerConfig>,
    stop: CancellationToken,
) -> Result<BootedButler, BootError> {
    let phases = Phases { butler: config.name.as_str(), done: Vec::new() };
    let mut booting = Booting { services, config, phases };
    let mut prepared = booting.prepare().await?;
    let bound = booting.bind(&prepared).await?;
    let booted = match booting.start(&mut prepared, bound).await {
        Ok(booted) => booted,
        Err(e) => {
            prepared.modules.stop().await;
            return Err(e);
        }
    };
    let Booting { mut phases, .. } = booting;
    let mut modules = prepared.modules;
    let begun = phases.did("module tasks", async {
        modules.serve_routes(&services.routes);
        modules.start_tasks();
    });
    begun.await?;
    let butler = booted.butler.clone();
    let life = RunningButler::new(booted, modules, stop);
    let serving =
        phases.run("mcp server", async { Ok::<_, String>(task::spawn(task::Kind::Job, "butler", life.run())) });
    let task = serving.await?;
    Ok(BootedButler { butler, phases: phases.done, task })
}

/// What of butlerd's own a butler's schema holds.
pub fn core_chains(name: &ButlerName) -> Result<Vec<Chain>, MigrationError> {
    let more = (name.as_str() == SWITCHBOARD).then_some("inbox");
    ["core"].into_iter().chain(more).map(Chain::shipped).collect()
}
