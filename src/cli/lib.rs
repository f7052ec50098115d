//! The command line: what can be typed, and how answers are printed. It decides nothing.
//!
//! Exit codes: 0 done, 1 refused or failed, 2 wrong usage or configuration, 3 the daemon can't be reached.

mod address_book;
mod approvals;
mod approvals_shown;
mod approvals_walk;
mod args;
mod backup;
mod calendar;
mod caller;
mod changes;
mod chat;
mod check;
mod common;
mod connect;
mod costs;
mod council;
mod db;
mod deliveries;
mod doctor;
mod events;
mod follow;
mod help;
mod inbox;
mod ingest;
mod init;
mod init_model;
mod init_try;
mod journal;
mod keys;
mod lines;
mod local;
mod manual;
mod markdown;
mod mcp_servers;
mod memory;
mod new;
mod notes;
mod open;
mod out;
mod preview;
mod problem;
mod project;
mod prompt;
mod reach;
mod reload;
mod schedule;
mod schedule_edit;
mod screen;
mod secret;
mod serve;
mod session;
mod settings;
mod status;
mod switchboard;
mod table;
mod test;
mod text;
mod timeline;
mod token;
mod tool;
mod tool_args;
mod trigger;
mod undo;
mod upgrade;

pub use help::command;

use clap::{CommandFactory, FromArgMatches};

use admin::IdKind;
use admin::api::{HouseApiClient, TimelineApiClient};
use args::{Cli, Command, Common};
use caller::Caller;
use config::{Environment, Overrides};
use out::Out;
use problem::{FAILED, Problem, USAGE};

/// What a command came to: its exit code, or what went wrong.
type Outcome = Result<i32, Problem>;

/// Runs what the process was started for and returns its exit code.
pub fn main() -> i32 {
    let argv: Vec<std::ffi::OsString> = std::env::args_os().collect();
    if let Some(code) = project::at_once(&argv) {
        return code;
    }
    // One provider for the whole process, before anything speaks TLS; an error means that there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let argv = tool_args::own_flags_first(argv);
    let cli = match help::command().try_get_matches_from(argv).and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(e) => {
            // A closed pipe is no reason to complain.
            let _ = e.print();
            return if e.use_stderr() { USAGE } else { 0 };
        }
    };
    let place = Place::of(&cli.common);
    let out = place.out.clone();
    let done = dispatch(cli, place);
    // Its reader may stand still.
    telemetry::flush_log(std::time::Duration::from_millis(500));
    told(done, &out)
}

/// The exit code of a command, which is told if it went wrong.
fn told(done: Outcome, out: &Out) -> i32 {
    done.unwrap_or_else(|problem| {
        problem.tell(out);
        problem.exit
    })
}

fn dispatch(cli: Cli, place: Place) -> Outcome {
    match cli.command.unwrap_or_else(|| Command::Serve(serve::ServeArgs::default())) {
        Command::Agent => Ok(agent::main()),
        Command::Serve(args) => serve::run(place, args),
        Command::Check(args) => check::run(&place, &args),
        Command::Init(args) => init::run(place, args),
        Command::New(what) => new::run(&place, what),
        Command::Connect(what) => connect::run(place, what),
        Command::Test(args) => test::run(&place, &args),
        Command::Doctor(postgres) => doctor::run(place, postgres),
        Command::Demo(args) => serve::demo(&args),
        Command::Upgrade(args) => upgrade::run(place, args),
        Command::Backup(args) => backup::backup(place, args),
        Command::Restore(args) => backup::restore(place, args),
        Command::Version => {
            let version = serde_json::json!({"name": "butlerd", "version": env!("CARGO_PKG_VERSION")});
            place.out.answer(&version, |out, _| out.line(concat!("butlerd ", env!("CARGO_PKG_VERSION"))))
        }
        Command::Completions(args) => manual::completions(Cli::command(), &args),
        Command::Man(args) => manual::man(Cli::command(), &place, &args),
        Command::Config(args) => settings::run(&place.out, &args),
        Command::Project(args) => project::run(&place, args),
        Command::Journal(args) => journal::run(&place, args),
        Command::Council(args) => council::run(place, args),
        Command::Mcp => project::mcp(&place),
        Command::Hook(args) => project::hook(&place, &args),
        command => call(place, command),
    }
}

/// The commands that a running daemon answers.
fn call(place: Place, command: Command) -> Outcome {
    match command {
        Command::Status => place.call(async |caller| caller.show(caller.quick()?.status().await, status::show)),
        Command::Reload => place.call(reload::run),
        Command::Trigger(args) => place.call(|caller| trigger::run(caller, args)),
        Command::Chat(args) => place.call(|caller| chat::run(caller, args)),
        Command::Ingest { file } => {
            let lines = lines::of(file.as_deref())?;
            place.call(|caller| ingest::run(caller, lines))
        }
        Command::Approvals(what) => place.call(|caller| approvals::run(caller, what)),
        Command::Inbox(what) => place.call(|caller| inbox::run(caller, what)),
        Command::Deliveries(what) => place.call(|caller| deliveries::run(caller, what)),
        Command::Costs(args) => place.call(|caller| costs::run(caller, args)),
        Command::Sessions(what) => place.call(|caller| session::run(caller, what)),
        Command::Explain { id } => place.call(|caller| session::run(caller, session::Sessions::Show { id })),
        Command::Calendar(args) => place.call(|caller| calendar::run(caller, args)),
        Command::Notes(what) => place.call(|caller| notes::run(caller, what)),
        Command::McpServers(what) => place.call(|caller| mcp_servers::run(caller, what)),
        Command::Memory(args) => place.call(|caller| memory::run(caller, args)),
        Command::Schedule(what) => place.call(|caller| schedule::run(caller, what)),
        Command::Timeline { id } => place.call(async |caller| {
            let id = caller.id(IdKind::Traced, &id).await?;
            caller.show(caller.quick()?.timeline(id).await, timeline::show)
        }),
        Command::Secret(what) => {
            let request = secret::prepare(what, &place.out)?;
            place.call(|caller| secret::run(caller, request))
        }
        Command::Open(args) => place.call(|caller| open::open(caller, args)),
        Command::LoginLink(args) => place.call(|caller| open::link(caller, args)),
        Command::Token(what) => place.call(|caller| token::run(caller, what)),
        Command::Db(what) => place.call(|caller| db::run(caller, what)),
        Command::Rules(what) => place.call(|caller| switchboard::rules(caller, what)),
        Command::Contacts(what) => place.call(|caller| switchboard::contacts(caller, what)),
        Command::Undo(args) => {
            let request = undo::prepare(args)?;
            place.call(|caller| undo::run(caller, request))
        }
        Command::Tool(what) => {
            let request = tool::prepare(what)?;
            place.call(|caller| tool::run(caller, request))
        }
        other => Err(Problem::new(FAILED, "internal", format!("{other:?} is not a call to the daemon."), "")),
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

/// Where a command is run: whose settings count, and where its output goes.
struct Place {
    overrides: Overrides,
    environment: Environment,
    out: Out,
}

impl Place {
    /// Where these flags of the command line say.
    fn of(common: &Common) -> Self {
        let out = Out::new(common.json);
        Self { overrides: overrides(common), environment: Environment::of_process(), out }
    }

    /// For a command that reads no settings: to find the machine's time zone takes a walk through all zones.
    fn without_surroundings(common: &Common) -> Self {
        Self { overrides: overrides(common), environment: Environment::default(), out: Out::new(common.json) }
    }

    /// The same once more, for a command that asks the daemon beside what it does itself.
    fn again(&self) -> Self {
        Self { overrides: self.overrides.clone(), environment: self.environment.clone(), out: self.out.clone() }
    }

    /// Finds the daemon of these settings and lets `work` talk to it.
    fn call(self, work: impl AsyncFnOnce(Caller) -> Outcome) -> Outcome {
        let caller = Caller::find(self)?;
        runtime()?.block_on(work(caller))
    }
}

/// A small runtime: one thread waits for one daemon.
fn runtime() -> Result<tokio::runtime::Runtime, Problem> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.map_err(|e| Problem::new(FAILED, "runtime", format!("The async runtime can't be started: {e}."), ""))
}
