//! `butlerd serve` and `butlerd demo`: the commands that are a household themselves.

use super::args::{DemoArgs, ServeArgs};
use super::problem::{FAILED, Problem};
use super::{CommandContext, Outcome};
use config::Overrides;
use demo::DemoOptions;
use supervisor::{ServeError, with_causes};

pub fn run(context: CommandContext, args: ServeArgs) -> Outcome {
    let mut overrides = Overrides {
        ports: args.ports,
        listen: args.listen,
        log: args.log,
        pg_bin: args.postgres.pg_bin,
        pg_bundle: args.postgres.pg_bundle,
        ..context.overrides
    };
    if context.out.json {
        overrides.set.push(("telemetry.format".to_owned(), "json".to_owned()));
    }
    let served = on_all_cores(supervisor::serve(&overrides, &context.environment, admin::spawn))?;
    served?;
    Ok(0)
}

pub fn demo(args: DemoArgs) -> Outcome {
    on_all_cores(demo::run(DemoOptions { runtime: args.runtime, keep: args.keep }))
}

pub(super) fn on_all_cores<T>(work: impl Future<Output = T>) -> Result<T, Problem> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime
        .map_err(|e| Problem::new(FAILED, "runtime", format!("The async runtime can't be started: {e}."), ""))?;
    let done = runtime.block_on(work);
    // Whatever still blocks a thread by now has nothing to say any more.
    runtime.shutdown_background();
    Ok(done)
}

impl From<ServeError> for Problem {
    fn from(error: ServeError) -> Self {
        match error {
            ServeError::Config(refused) => refused.into(),
            // A whole sentence, with what to do.
            port @ ServeError::Admin(_) => Problem::new(FAILED, "serve", port.to_string(), ""),
            other => {
                let why = with_causes(&other);
                let message = format!("The household can't be served: {}.", why.trim_end_matches('.'));
                Problem::new(FAILED, "serve", message, "`butlerd doctor` looks at the machine and says what to do.")
            }
        }
    }
}
