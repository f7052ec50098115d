//! Keeps the server running until it is told to stop.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::server::{Run, Start};
use super::{ClusterState, Parts};
use base::Backoff;

/// Delays between restarts.
const FIRST_DELAY: Duration = Duration::from_millis(50);
const LONGEST_DELAY: Duration = Duration::from_secs(10);
/// After this long without a fall the next one is a first again.
const STEADY: Duration = Duration::from_secs(60);
/// How long one wait for readiness is before it is said again that the server is slow.
const RECOVERY_NOTICE: Duration = Duration::from_secs(60);

/// Shutdown of a cluster that was dropped rather than stopped, before it gets rougher.
pub(super) const DROP_PATIENCE: Duration = Duration::from_secs(10);
/// An immediate shutdown, before force.
pub(super) const QUIT_PATIENCE: Duration = Duration::from_secs(5);

pub(super) struct Supervisor {
    parts: Parts,
    state: watch::Sender<ClusterState>,
    stop: watch::Receiver<Option<Duration>>,
    backoff: Backoff,
}

impl Supervisor {
    pub fn new(parts: Parts, state: watch::Sender<ClusterState>, stop: watch::Receiver<Option<Duration>>) -> Self {
        Self { parts, state, stop, backoff: Backoff::new(FIRST_DELAY, LONGEST_DELAY) }
    }

    /// Watches a server that is ready, and starts it anew whenever it ends by itself.
    pub async fn watch_over(mut self, run: Run) {
        let mut running = Some(run);
        while let Some(mut run) = running {
            self.state.send_replace(ClusterState::Up);
            let up_since = Instant::now();
            tokio::select! {
                reason = run.ended() => {
                    if self.parts.slot.is_closing() {
                        break;
                    }
                    self.fell(reason);
                }
                patience = told_to_stop(&mut self.stop) => {
                    self.shut_down(run, patience).await;
                    break;
                }
            }
            if up_since.elapsed() >= STEADY {
                self.backoff = Backoff::new(FIRST_DELAY, LONGEST_DELAY);
            }
            running = self.raise().await;
        }
        self.parts.release();
        self.state.send_replace(ClusterState::Stopped);
    }

    /// Ends a server whose start has failed.
    pub async fn give_up(self, run: Run) {
        self.shut_down(run, DROP_PATIENCE).await;
        self.parts.release();
    }

    /// Starts the server until it is ready; `None` if told to stop meanwhile.
    async fn raise(&mut self) -> Option<Run> {
        loop {
            let delay = self.backoff.next_delay();
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                _ = told_to_stop(&mut self.stop) => return None,
            }
            match self.start_once().await {
                Ok(run) => return run,
                Err(reason) => self.fell(reason),
            }
        }
    }

    /// One start. `Ok(None)`: told to stop meanwhile, and stopped.
    async fn start_once(&mut self) -> Result<Option<Run>, String> {
        let began = Instant::now();
        self.parts.clear().await.map_err(|e| e.to_string())?;
        self.state.send_replace(ClusterState::Starting);
        let mut run = self.parts.launch().await.map_err(|e| e.to_string())?;
        loop {
            tokio::select! {
                start = run.until_ready(&self.parts.owner, RECOVERY_NOTICE) => match start {
                    Start::Ready => break,
                    Start::Ended(reason) => return Err(reason),
                    // Somebody changed it by hand. The server runs, and who connects will be told.
                    Start::Refused(said) => {
                        tracing::warn!(said, "the embedded database no longer lets its owner in");
                        break;
                    }
                    Start::Slow(reason) => tracing::warn!(reason, "the embedded database is still starting"),
                },
                patience = told_to_stop(&mut self.stop) => {
                    self.shut_down(run, patience).await;
                    return Ok(None);
                }
            }
        }
        tracing::info!(ms = began.elapsed().as_millis(), "the embedded database is up again");
        Ok(Some(run))
    }

    fn fell(&self, reason: String) {
        tracing::error!(reason, log = %self.parts.layout.log.display(), "the embedded database is down; restarting it");
        self.state.send_replace(ClusterState::Down { reason });
    }

    /// Fast shutdown, then immediate, then by force.
    async fn shut_down(&self, mut run: Run, patience: Duration) {
        let slot = &self.parts.slot;
        slot.close();
        if tokio::time::timeout(patience, run.ended()).await.is_ok() {
            return;
        }
        tracing::warn!("the embedded database did not shut down in time; skipping its last checkpoint");
        slot.signal(libc::SIGQUIT);
        if tokio::time::timeout(QUIT_PATIENCE, run.ended()).await.is_ok() {
            return;
        }
        tracing::error!("the embedded database does not respond; killing it");
        slot.signal(libc::SIGKILL);
        run.ended().await;
        if let Err(error) = self.parts.clear().await {
            tracing::error!(%error, "after killing the embedded database");
        }
    }
}

/// Waits for the wish to stop, and says how long the shutdown may take. A dropped cluster is one, too.
async fn told_to_stop(stop: &mut watch::Receiver<Option<Duration>>) -> Duration {
    match stop.wait_for(Option::is_some).await {
        Ok(patience) => patience.unwrap_or(DROP_PATIENCE),
        Err(_) => DROP_PATIENCE,
    }
}
