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
    let desk = Desk { overrides: overrides(&cli.common), environment: Environment::of_process(), out };
    match cli.command.unwrap_or_else(|| Command::Serve(args::ServeArgs::default())) {
        Command::Agent => Ok(agent::main()),
        Command::Serve(args) => serve::run(desk, args),
        Command::Check(args) => check::run(&desk, &args),
        Command::Init(args) => init::run(desk, args),
        Command::New(what) => new::run(&desk, what),
        Command::Test(args) => test::run(&desk, args),
        Command::Doctor(postgres) => doctor::run(desk, postgres),
        Command::Demo(args) => serve::demo(args),
        Command::Backup(args) => backup::backup(desk, args),
        Command::Restore(args) => backup::restore(desk, args),
        Command::Config(args) => settings::run(&out, &args),
        Command::Status => desk.call(status::run),
        Command::Reload => desk.call(reload::run),
        Command::Trigger(args) => desk.call(|caller| trigger::run(caller, args)),
        Command::Chat(args) => desk.call(|caller| chat::run(caller, args)),
        Command::Ingest { file } => {
            let lines = lines::of(file.as_deref())?;
            desk.call(|caller| ingest::run(caller, lines))
        }

        Command::Approvals(what) => desk.call(|caller| approvals::run(caller, what)),
        Command::Inbox(what) => desk.call(|caller| inbox::run(caller, what)),
        Command::Deliveries(what) => desk.call(|caller| deliveries::run(caller, what)),
        Command::Costs(args) => desk.call(|caller| costs::run(caller, args)),
        Command::Sessions(what) => desk.call(|caller| session::run(caller, what)),
        Command::Notes(what) => desk.call(|caller| notes::run(caller, what)),
        Command::Memory(args) => desk.call(|caller| memory::run(caller, args)),
        Command::Schedule(what) => desk.call(|caller| schedule::run(caller, what)),
        Command::Timeline { id } => desk.call(|caller| timeline::run(caller, id)),
        Command::Secret(what) => {
            let wish = secret::prepare(what, out)?;
            desk.call(|caller| secret::run(caller, wish))
        }
        Command::Token(what) => desk.call(|caller| token::run(caller, what)),
        Command::Db(what) => desk.call(|caller| db::run(caller, what)),
        Command::Rules(what) => desk.call(|caller| switchboard::rules(caller, what)),
        Command::Contacts(what) => desk.call(|caller| switchboard::contacts(caller, what)),
        Command::Undo(args) => {
            let wish = undo::prepare(args)?;
            desk.call(|caller| undo::run(caller, wish))
        }
        Command::Tool(what) => {
            let wish = tool::prepare(what)?;
            desk.call(|caller| tool::run(caller, wish))
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
struct Desk {
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

impl Desk {
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
