//! A way to end a run from outside, with the reason that its row shall tell.

use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

use super::adapters::RunError;

/// Ends one session's run. Cheap to clone; all clones are the same.
#[derive(Clone, Debug, Default)]
pub struct StopSignal {
    why: Arc<OnceLock<RunError>>,
    stopped: CancellationToken,
}

impl StopSignal {
    /// Ends the run. The first reason stays.
    pub fn stop(&self, why: RunError) {
        // An error means that there is a reason already.
        let _ = self.why.set(why);
        self.stopped.cancel();
    }

    /// Waits until somebody pulls.
    pub async fn stopped(&self) {
        self.stopped.cancelled().await;
    }

    /// Why the run was ended, if it was.
    pub fn why(&self) -> Option<&RunError> {
        self.why.get()
    }
}
