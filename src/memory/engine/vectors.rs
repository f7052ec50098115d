//! Vectors that are missing, or of another model than today's, are made in the background while searches go on.

use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use base::{Backoff, TenantId, task};
use memory_index::embed::EmbedError;
use store::StoreError;

use super::Memory;
use crate::sql::{Unembedded, give_vector, unembedded};

/// So many are made at once.
const BATCH: i32 = 50;

/// Why there are none yet.
#[derive(Debug, thiserror::Error)]
enum NotYet {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Embed(#[from] EmbedError),
}

/// Makes them until none is missing, or nobody remembers any more; unless that is being done already.
pub fn make_missing(memory: &Arc<Memory>, tenant: &TenantId) {
    if !memory.embedding.lock().unwrap_or_else(PoisonError::into_inner).insert(tenant.clone()) {
        return;
    }
    let (memory, tenant): (Weak<Memory>, TenantId) = (Arc::downgrade(memory), tenant.clone());
    task::spawn(task::Kind::Job, "memory-vectors", async move {
        let mut pause = Backoff::new(Duration::from_secs(2), Duration::from_secs(600));
        let mut made = 0;
        loop {
            let Some(memory) = memory.upgrade() else { return };
            match some(&memory, &tenant).await {
                Ok(0) => {
                    memory.embedding.lock().unwrap_or_else(PoisonError::into_inner).remove(&tenant);
                    if made > 0 {
                        tracing::info!(butler = %memory.butler, made, model = memory.embedder.model(), "memories have vectors now");
                    }
                    return;
                }
                Ok(n) => made += n,
                Err(e) => {
                    tracing::warn!(butler = %memory.butler, error = %e, "memories have no vectors yet; only words find them");
                    drop(memory);
                    tokio::time::sleep(pause.next_delay()).await;
                }
            }
        }
    });
}

/// Makes the next few. Returns how many.
async fn some(memory: &Memory, tenant: &TenantId) -> Result<usize, NotYet> {
    let model = memory.embedder.model();
    let mut lease = memory.store.tenant(tenant).await?;
    let missing = unembedded(&mut lease, &["fact", "rule", "episode"], model, BATCH).await?;
    drop(lease);
    if missing.is_empty() {
        return Ok(0);
    }
    let texts: Vec<String> = missing.iter().map(Unembedded::spoken).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let vectors = memory.embedder.embed(&texts).await?;
    let mut lease = memory.store.tenant(tenant).await?;
    for (row, vector) in missing.iter().zip(&vectors) {
        give_vector(&mut lease, row, model, vector).await?;
    }
    drop(lease);
    memory.step(tenant).await?;
    Ok(missing.len())
}
