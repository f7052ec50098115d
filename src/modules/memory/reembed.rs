//! Vectors that are missing, or of another model than today's, are made in the background while searches go on.

use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use super::core::{Memory, fact_text};
use super::rank::spoken;
use base::{Backoff, TenantId, task};
use store::StoreError;

/// So many are made at once.
const BATCH: i32 = 50;

/// Why there are none yet.
#[derive(Debug, thiserror::Error)]
enum NotYet {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Embed(#[from] super::embed::EmbedError),
}

/// Makes them until none is missing, or nobody remembers any more; unless that is being done already.
pub(super) fn begin(memory: &Arc<Memory>, tenant: &TenantId) {
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
                    tracing::warn!(butler = %memory.butler, error = %e, "memories have no vectors yet; words alone find them");
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
    let kinds = ["fact", "rule", "episode"];
    let rows = lease
        .query(
            "SELECT kind, id, about, predicate, content FROM memory_unembedded($1, $2, $3)",
            &[&&kinds[..], &model, &BATCH],
        )
        .await
        .map_err(StoreError::query("looking for memories without vectors"))?;
    drop(lease);
    if rows.is_empty() {
        return Ok(0);
    }
    let texts: Vec<String> = rows
        .iter()
        .map(|row| {
            let (about, content): (Option<&str>, &str) = (row.get(2), row.get(4));
            let worded = row.get::<_, Option<&str>>(3).map(|predicate| fact_text(predicate, content));
            spoken(about, worded.as_deref().unwrap_or(content))
        })
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let vectors = memory.embedder.embed(&texts).await?;
    let mut lease = memory.store.tenant(tenant).await?;
    for (row, vector) in rows.iter().zip(&vectors) {
        let bytes: Vec<u8> = vector.iter().map(|n| n.cast_unsigned()).collect();
        let (kind, id): (&str, uuid::Uuid) = (row.get(0), row.get(1));
        lease
            .query("SELECT memory_vector($1, $2, $3, $4)", &[&kind, &id, &bytes, &model])
            .await
            .map_err(StoreError::query("giving a memory its vector"))?;
    }
    drop(lease);
    memory.step(tenant).await?;
    Ok(rows.len())
}
