//! Sends episodes to the knowledge graph: one after the other in each conversation, each once, however often this is
//! killed or the server goes away.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use store::{Claim, Claimed, Database, Handler, Queue, QueueOptions, QueueTable, RetryPolicy, StoreError, Verdict};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::graphiti::{Graphiti, Sent};
use super::sql::{self, Waiting};
use crate::background::{Background, TaskError};

/// Episodes are looked for this often even if nobody says that there are any.
const LOOK: Duration = Duration::from_secs(15);
/// What is being sent as this ends has so long.
const ENDS_WITHIN: Duration = Duration::from_secs(3);
/// Conversations side by side.
const SLOTS: usize = 4;
/// One with which a server fails that is there is tried so often, over about four hours: it may be the server's own
/// trouble, and those behind it wait.
const RETRY: RetryPolicy = RetryPolicy { tries: 36, pause, error: "last_error" };
/// One that may have arrived is looked for so often before it is sent again: the server may still be at work on it.
const LOOKS: i32 = 4;

fn pause(tries: i32) -> Duration {
    Duration::from_secs(1 << (tries - 1).clamp(0, 9))
}

/// Where episodes wait.
pub(super) fn table(schema: &str) -> QueueTable {
    QueueTable::accepted(format!("\"{schema}\".council_episodes"), "id", "n.seq", RETRY)
}

/// The worker, as a module's background task.
pub(super) struct Recorder {
    pub house: Arc<Database>,
    pub schema: String,
    pub butler: String,
    pub node: String,
    pub graphiti: Arc<Graphiti>,
    pub wake: Arc<Notify>,
}

#[async_trait]
impl Background for Recorder {
    async fn run(&self, stop: CancellationToken) -> Result<(), TaskError> {
        // So that it is seen from the start whether the graph is there.
        let _ = self.graphiti.connection().await;
        let sending = Sending {
            house: self.house.clone(),
            node: self.node.clone(),
            graphiti: self.graphiti.clone(),
            table: table(&self.schema),
        };
        let options = QueueOptions {
            butler: self.butler.clone(),
            wake: self.wake.clone(),
            slots: SLOTS,
            claimers: 1,
            longest: LOOK,
        };
        let running = Queue::new(sending, options).start().await.map_err(|e| TaskError(e.to_string()))?;
        loop {
            // The queue sleeps until something is due; a server that comes back is not due by any row.
            let rest = self.graphiti.rests_for().await.unwrap_or(LOOK);
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(rest.min(LOOK)) => {
                    if self.graphiti.connection().await.is_ok() {
                        self.wake.notify_one();
                    }
                }
            }
        }
        running.close();
        running.ended(ENDS_WITHIN).await;
        Ok(())
    }
}

struct Sending {
    house: Arc<Database>,
    node: String,
    graphiti: Arc<Graphiti>,
    table: QueueTable,
}

/// How an episode ends.
pub(super) enum Fate {
    Sent,
    Dead(String),
}

#[async_trait]
impl Handler for Sending {
    const NAME: &'static str = "episode";
    type Row = Waiting;
    type End = Fate;

    fn table(&self) -> &QueueTable {
        &self.table
    }

    fn db(&self) -> &Arc<Database> {
        &self.house
    }

    fn node(&self) -> &str {
        &self.node
    }

    async fn claim(&self, in_hand: &[Uuid]) -> Result<Option<Claimed<Waiting>>, StoreError> {
        // What waits for the server is not claimed, and no try of it counts.
        if self.graphiti.rests_for().await.is_some() {
            return Ok(None);
        }
        let (id, mut lease) = (Uuid::now_v7(), self.house.every_tenant().await?);
        let row = sql::claim(&mut lease, &self.table, (id, &self.node), in_hand).await?;
        Ok(row.map(|(row, waiting)| Claimed { claim: Claim { row, id }, attempts: waiting.attempts, row: waiting }))
    }

    async fn run(&self, claimed: &Claimed<Waiting>, _lost: &CancellationToken) -> Verdict<Fate> {
        let waiting = &claimed.row;
        let marked = async {
            sql::doubt(&mut self.house.shared(&waiting.tenant).await?, &self.table.table, claimed.claim).await
        };
        match marked.await {
            Ok(true) => {}
            Ok(false) => return Verdict::Gone,
            Err(_) => return Verdict::Later { after: Duration::from_secs(1), counts: false },
        }
        base::crash::point("council.sending");
        let look_only = waiting.doubtful && claimed.attempts <= LOOKS;
        match self.graphiti.send(&waiting.episode, waiting.doubtful, look_only).await {
            Sent::Yes => {
                base::crash::point("council.sent");
                Verdict::Settle(Fate::Sent)
            }
            Sent::Down(why) => Verdict::Wait { after: Duration::from_secs(1), why },
            Sent::Failed(why) => Verdict::Retry { dead: Fate::Dead(why.clone()), why },
        }
    }

    async fn settle(&self, claimed: &Claimed<Waiting>, fate: &Fate) -> Result<bool, StoreError> {
        let (state, why) = match fate {
            Fate::Sent => ("sent", None),
            Fate::Dead(why) => ("dead", Some(why.as_str())),
        };
        if let Some(why) = why {
            tracing::error!(episode = %claimed.claim.row, "the knowledge graph does not take an episode: {why}");
        }
        sql::settle(&mut self.house.shared(&claimed.row.tenant).await?, &self.table, claimed.claim, (state, why)).await
    }
}
