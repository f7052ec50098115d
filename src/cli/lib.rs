//! The command line: what can be typed, and how answers are printed. Whatever is decided is decided elsewhere.
//!
//! Exit codes: 0 done, 1 refused or failed, 2 wrong usage or configuration, 3 the daemon can't be reached.

mod approvals;
mod args;
mod backup;
mod chat;
mod check;
mod costs;
mod db;
mod deliveries;
mod doctor;
mod events;
mod follow;
mod inbox;
mod ingest;
mod init;
mod lines;
mod memory;
mod new;
mod notes;
mod out;
mod preview;
mod problem;
mod prompt;
mod reach;
mod reload;
mod schedule;
mod secret;
mod serve;
mod session;
mod settings;
mod status;
mod switchboard;
mod test;
mod timeline;
mod token;
mod tool;
mod trigger;
mod undo;

use std::future::Future;

use clap::Parser;
use jiff::tz::TimeZone;

use admin::Client;
use args::{Cli, Command, Common};
use config::{Config, Environment, Overrides, load_config};
use out::Out;
use problem::{FAILED, Problem, USAGE};

/// What a command came to: its exit code, or what went wrong.
type Outcome = Result<i32, Problem>;

/// Runs what the process was started for and returns its exit code.
pub fn main() -> i32 {
    // One provider for the whole process, before anything speaks TLS; an error means that there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => {
            // A closed pipe is no reason to complain about.
            let _ = e.print();
            return if e.use_stderr() { USAGE } else { 0 };
        }
    };
    let out = Out::new(cli.common.json);
    match dispatch(cli, out) {
        Ok(code) => code,
        Err(problem) => {
            problem.tell(out);
            problem.exit
        }
    }
}

fn dispatch(cli: Cli, out: Out) -> Outcome {
    let context = CommandContext { overrides: overrides(&cli.common), environment: Environment::of_process(), out };
    match cli.command.unwrap_or_else(|| Command::Serve(args::ServeArgs::default())) {
        Command::Agent => Ok(agent::main()),
        Command::Serve(args) => serve::run(context, args),
        Command::Check(args) => check::run(&context, &args),
        Command::Init(args) => init::run(context, args),
        Command::New(what) => new::run(&context, what),
        Command::Test(args) => test::run(&context, args),
        Command::Doctor(postgres) => doctor::run(context, postgres),
        Command::Demo(args) => serve::demo(args),
        Command::Backup(args) => backup::backup(context, args),
        Command::Restore(args) => backup::restore(context, args),
        Command::Config(args) => settings::run(&out, &args),
        Command::Status => context.call(status::run),
        Command::Reload => context.call(reload::run),
        Command::Trigger(args) => context.call(|caller| trigger::run(caller, args)),
        Command::Chat(args) => context.call(|caller| chat::run(caller, args)),
        Command::Ingest { file } => {
            let lines = lines::of(file.as_deref())?;
            context.call(|caller| ingest::run(caller, lines))
        }

        Command::Approvals(what) => context.call(|caller| approvals::run(caller, what)),
        Command::Inbox(what) => context.call(|caller| inbox::run(caller, what)),
        Command::Deliveries(what) => context.call(|caller| deliveries::run(caller, what)),
        Command::Costs(args) => context.call(|caller| costs::run(caller, args)),
        Command::Sessions(what) => context.call(|caller| session::run(caller, what)),
        Command::Notes(what) => context.call(|caller| notes::run(caller, what)),
        Command::Memory(args) => context.call(|caller| memory::run(caller, args)),
        Command::Schedule(what) => context.call(|caller| schedule::run(caller, what)),
        Command::Timeline { id } => context.call(|caller| timeline::run(caller, id)),
        Command::Secret(what) => {
            let request = secret::prepare(what, out)?;
            context.call(|caller| secret::run(caller, request))
        }
        Command::Token(what) => context.call(|caller| token::run(caller, what)),
        Command::Db(what) => context.call(|caller| db::run(caller, what)),
        Command::Rules(what) => context.call(|caller| switchboard::rules(caller, what)),
        Command::Contacts(what) => context.call(|caller| switchboard::contacts(caller, what)),
        Command::Undo(args) => {
            let request = undo::prepare(args)?;
            context.call(|caller| undo::run(caller, request))
        }
        Command::Tool(what) => {
            let request = tool::prepare(what)?;
            context.call(|caller| tool::run(caller, request))
        }
    }
}

fn overrides(common: &Common) -> Overrides {
    Overrides {
        config_file: common.config.clone(),
        data_dir: common.data_dir.clone(),
        roster: common.roster.clone(),
        ..Overrides::default()
    }
}

/// What every command has at hand.
struct CommandContext {
    overrides: Overrides,
    environment: Environment,
    out: Out,
}

/// What a command has that talks to the daemon.
struct Caller {
    client: Client,
    config: Config,
    out: Out,
}

impl Caller {
    /// The time zone in which people read.
    fn zone(&self) -> TimeZone {
        self.config.owner.time_zone.time_zone().clone()
    }

    /// A moment as people read it.
    fn moment(&self, at: jiff::Timestamp) -> String {
        out::moment(at, &self.zone())
    }

    /// A way to say what a failed call means.
    fn failed(&self) -> impl Fn(jsonrpsee::core::ClientError) -> Problem + '_ {
        |e| self.client.error(e).into()
    }
}

impl CommandContext {
    /// Finds the daemon of these settings and lets `work` talk to it.
    fn call<F>(self, work: impl FnOnce(Caller) -> F) -> Outcome
    where
        F: Future<Output = Outcome>,
    {
        let config = load_config(&self.overrides, &self.environment)?;
        let client = Client::find(&config.daemon.data_dir).map_err(Problem::from)?;
        let caller = Caller { client, config, out: self.out };
        runtime()?.block_on(work(caller))
    }
}

/// A small runtime: one thread waits for one daemon.
fn runtime() -> Result<tokio::runtime::Runtime, Problem> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.map_err(|e| Problem::new(FAILED, "runtime", format!("The async runtime can't be started: {e}."), ""))
}
