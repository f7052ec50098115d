//! `butlerd serve`

use super::args::ServeArgs;
use super::problem::{FAILED, Problem};
use super::{Desk, Outcome};
use crate::base::task;
use crate::config::Overrides;
use crate::supervisor::{AdminDoor, ServeError, Supervisor};

pub fn run(desk: Desk, args: ServeArgs) -> Outcome {
    let mut overrides = Overrides {
        ports: args.ports,
        listen: args.listen,
        log: args.log,
        pg_bin: args.postgres.pg_bin,
        pg_bundle: args.postgres.pg_bundle,
        ..desk.overrides
    };
    if desk.out.json {
        overrides.set.push(("telemetry.format".to_owned(), "json".to_owned()));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime
        .map_err(|e| Problem::new(FAILED, "runtime", format!("The async runtime can't be started: {e}."), ""))?;
    let served = runtime.block_on(crate::supervisor::serve(&overrides, &desk.environment, admin));
    // Whatever still blocks a thread by now has nothing to say any more.
    runtime.shutdown_background();
    served?;
    Ok(0)
}

/// Opens the admin port.
fn admin(supervisor: Supervisor, door: AdminDoor) -> tokio::task::JoinHandle<()> {
    task::spawn(task::Kind::Actor, "admin", crate::admin::serve(supervisor, door.listener, door.edge, door.stop))
}

impl From<ServeError> for Problem {
    fn from(error: ServeError) -> Self {
        match error {
            ServeError::Config(refused) => refused.into(),
            other => {
                let message = format!("The household can't be served: {}.", other.to_string().trim_end_matches('.'));
                Problem::new(FAILED, "serve", message, "`butlerd doctor` looks at the machine and says what to do.")
            }
        }
    }
}
