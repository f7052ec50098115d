//! `butlerd serve` and `butlerd demo`: the commands that are a household themselves.

use clap::Args;
use config::{Overrides, Ports, RuntimeKind};

use super::common::PostgresArgs;
use super::problem::{FAILED, Problem};
use super::{Outcome, Place};
use offline::demo::DemoOptions;
use supervisor::{ServeError, with_causes};

/// `serve`
#[derive(Debug, Clone, Default, Args)]
pub struct ServeArgs {
    /// Where butlers' ports come from: `roster` or `auto` (free ones, the admin port's, too, unless it is set)
    #[arg(long, value_name = "WHICH")]
    pub ports: Option<Ports>,
    /// The admin port's address
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<String>,
    /// What is logged: a level, or directives for single parts
    #[arg(long, value_name = "FILTER")]
    pub log: Option<String>,
    #[command(flatten)]
    pub postgres: PostgresArgs,
}

/// `demo`
#[derive(Debug, Clone, Args)]
pub struct DemoArgs {
    /// `claude-code`, `codex`, `gemini` or `native` [default: claude-code where it is installed]
    #[arg(long, value_name = "RUNTIME")]
    pub runtime: Option<RuntimeKind>,
    /// Leave it running until Ctrl-C
    #[arg(long)]
    pub keep: bool,
}

pub fn run(place: Place, args: ServeArgs) -> Outcome {
    let mut overrides = Overrides {
        ports: args.ports,
        listen: args.listen,
        log: args.log,
        pg_bin: args.postgres.pg_bin,
        pg_bundle: args.postgres.pg_bundle,
        ..place.overrides
    };
    if place.out.json {
        overrides.set.push(("telemetry.format".to_owned(), "json".to_owned()));
    }
    let served = on_all_cores(supervisor::serve(
        &overrides,
        &place.environment,
        offline::admin_port,
        offline::backup::scheduled,
    ))?;
    served?;
    Ok(0)
}

pub fn demo(args: &DemoArgs) -> Outcome {
    on_all_cores(offline::demo::run(DemoOptions { runtime: args.runtime, keep: args.keep }))
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
        if let Some(sentence) = error.already_running() {
            return Problem::new(FAILED, "already_running", sentence, "");
        }
        match error {
            ServeError::Config(refused) => refused.into(),
            // A whole sentence, with what to do.
            port @ ServeError::Admin(_) => Problem::new(FAILED, "serve", port.to_string(), ""),
            other => {
                let why = with_causes(&other);
                let message = format!("The household can't be served: {}.", why.trim_end_matches('.'));
                Problem::new(FAILED, "serve", message, "`butlerd doctor` examines the machine and says what to do.")
            }
        }
    }
}
