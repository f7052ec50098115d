//! A household within another program of ours: the demo, scenarios.

use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

use super::serve::{Hooks, Prepare, ServeError, StartAdmin, serve_with, with_causes};
use super::tree::Supervisor;
use base::task;
use config::Household;
use modules::Catalog;

/// Why an embedded household did not start, or did not stop.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    #[error("the household did not start")]
    NeverStarted,
    #[error("the household ended before it was ready")]
    EndedEarly,
    #[error("{}", with_causes(.0))]
    Serve(#[from] ServeError),
    #[error("the household's task ended: {0}")]
    Task(#[from] JoinError),
}

/// A household that runs until [`Embedded::end`].
pub struct Embedded {
    pub supervisor: Supervisor,
    stop: CancellationToken,
    serving: JoinHandle<Result<(), ServeError>>,
}

impl Embedded {
    /// Starts it and returns once every butler was tried.
    pub async fn start(
        household: Household,
        admin: StartAdmin,
        prepare: Option<Prepare>,
    ) -> Result<Self, EmbeddedError> {
        let stop = CancellationToken::new();
        let (tell, told) = oneshot::channel();
        let hooks = Hooks {
            prepare,
            ready: Some(Box::new(move |supervisor| {
                // Nobody listens any more only when the start itself was given up.
                let _ = tell.send(supervisor);
            })),
            ..Hooks::default()
        };
        let serving = serve_with(household, Catalog::default(), stop.clone(), admin, hooks);
        let mut serving = task::spawn(task::Kind::Actor, "household", serving);
        tokio::select! {
            supervisor = told => {
                let supervisor = supervisor.map_err(|_| EmbeddedError::NeverStarted)?;
                Ok(Self { supervisor, stop, serving })
            }
            ended = &mut serving => Err(match ended {
                Ok(Err(e)) => e.into(),
                _ => EmbeddedError::EndedEarly,
            }),
        }
    }

    /// Stops it.
    pub async fn end(self) -> Result<(), EmbeddedError> {
        self.stop.cancel();
        Ok(self.serving.await??)
    }
}
