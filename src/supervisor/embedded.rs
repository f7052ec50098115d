//! A household within another program of ours: the demo, scenarios.

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::serve::{AdminDoor, Hooks, Prepare, ServeError, serve_with, with_causes};
use super::tree::Supervisor;
use base::task;
use config::Household;
use modules::Catalog;

/// A household that runs until [`Embedded::end`].
pub struct Embedded {
    pub supervisor: Supervisor,
    stop: CancellationToken,
    serving: JoinHandle<Result<(), ServeError>>,
}

impl Embedded {
    /// Starts it and returns once every butler was tried. The error is a sentence.
    pub async fn start<A>(household: Household, admin: A, prepare: Option<Prepare>) -> Result<Self, String>
    where
        A: FnOnce(Supervisor, AdminDoor) -> JoinHandle<()> + Send + 'static,
    {
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
                let supervisor = supervisor.map_err(|_| "the household did not start".to_owned())?;
                Ok(Self { supervisor, stop, serving })
            }
            ended = &mut serving => Err(match ended {
                Ok(Err(e)) => with_causes(&e),
                _ => "the household ended before it was ready".to_owned(),
            }),
        }
    }

    /// Stops it.
    pub async fn end(self) -> Result<(), String> {
        self.stop.cancel();
        match self.serving.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(e)) => Err(with_causes(&e)),
            Err(e) => Err(e.to_string()),
        }
    }
}
