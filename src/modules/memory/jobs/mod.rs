//! What the memory does by itself: makes episodes into facts and rules, lets fade what nobody confirms, and takes old
//! episodes away. Each starts from rows and can be begun again at any instant.

mod answer;
mod apply;
mod ask;
mod cleanup;
mod compare;
mod consolidation;
mod decay;
mod demand;
mod doubt;
mod prompt;
mod sql;

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Notify;

use super::Settings;
use super::tools::Runs;
use crate::NamedJob;
use base::TenantId;
use memory::Memory;
use memory::sql::upkeep::{self, Held};
use schedule::BuiltInSchedule;
use store::{Database, StoreError};

/// The names of the jobs, the first of each its own.
pub(crate) const CONSOLIDATION: &[&str] = &["memory_consolidation", "consolidate", "consolidation"];
pub(crate) const DECAY: &[&str] = &["memory_decay_sweep", "decay_sweep", "decay"];
pub(crate) const CLEANUP: &[&str] = &["memory_episode_cleanup", "episode_cleanup", "cleanup"];

/// What schedules may name.
pub(super) fn named(memory: &Arc<Memory>, settings: &Settings) -> Vec<NamedJob> {
    let schema = memory.store.schema().to_owned();
    vec![
        NamedJob {
            names: CONSOLIDATION,
            job: Arc::new(consolidation::Consolidate::new(memory, &settings.consolidation)),
        },
        NamedJob { names: DECAY, job: Arc::new(decay::Decay { schema }) },
        NamedJob {
            names: CLEANUP,
            job: Arc::new(cleanup::Cleanup { memory: memory.clone(), capacity: settings.episodes.capacity }),
        },
    ]
}

/// Lets tools run them.
pub(super) fn on_demand(memory: &Arc<Memory>, due: &Arc<Notify>) -> Arc<dyn Runs> {
    Arc::new(demand::OnDemand { memory: memory.clone(), due: due.clone() })
}

/// When they run by themselves.
pub(super) fn schedules(settings: &Settings) -> Vec<BuiltInSchedule> {
    let learning = settings.consolidation.enabled.then(|| {
        let priority = settings.consolidation.priority;
        BuiltInSchedule::upkeep("memory-consolidation", settings.consolidation_cron(), CONSOLIDATION, priority)
    });
    let sweeps = [
        BuiltInSchedule::upkeep("memory-decay-sweep", settings.decay_cron(), DECAY, 3),
        BuiltInSchedule::upkeep("memory-episode-cleanup", settings.cleanup_cron(), CLEANUP, 3),
    ];
    learning.into_iter().chain(sweeps).collect()
}

/// The argument of the SQL function `memory_job_state`, which says how the jobs stand: last and next run, backlog,
/// cost.
pub fn job_names() -> Value {
    let jobs = [CONSOLIDATION, DECAY, CLEANUP];
    jobs.iter().map(|names| (names[0].to_owned(), json!(names))).collect::<serde_json::Map<_, _>>().into()
}

/// Whose memories there are in a schema: of one tenant alone, unless it is the owner's.
async fn every_tenant(db: &Database, schema: &str, tenant: &TenantId, held: Held) -> Result<Vec<TenantId>, StoreError> {
    if *tenant != TenantId::owner() {
        return Ok(vec![tenant.clone()]);
    }
    upkeep::tenants(&mut db.every_tenant().await?, schema, held).await
}
