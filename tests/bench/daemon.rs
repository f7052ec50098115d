//! The daemon as a part of the bench, and the handle on it.
//!
//! It is the library's daemon as `butlerd serve` runs it, with the same log settings; the bench only gives it a roster
//! and a data directory, and a session's token for the butler that is called.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use access::{CallGuard, Grant, GrantScope, Holder, Token, ToolsSeen};
use base::{Clock, RequestContext, SessionId, TenantId, Trust, task};
use config::{Environment, Overrides, Ports, load};
use modules::Catalog;
use supervisor::{Hooks, Supervisor, serve_with};
use telemetry::start_log;

use crate::household::{Household, MODEL, READER};
use crate::part::Part;
use crate::{Failed, machine, trigger};

/// What the daemon says once all butlers were tried.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ready {
    pub butlers_up: usize,
    pub ports: BTreeMap<String, u16>,
    /// Tokens of sessions of the butler that is called: as many as its connections need, of which each has a share.
    pub tokens: Vec<String>,
    /// The same for the butler whose tool reads a table of its roster.
    pub reader_tokens: Vec<String>,
    /// Connections of each butler's pool.
    pub pool_size: u16,
    /// Which PostgreSQL.
    pub server: String,
    /// Of the process, from its start to this line.
    pub cpu_seconds: f64,
}

/// Among the daemon's arguments: it serves all that it serves but the pages.
pub const WITHOUT_PAGES: &str = "without-pages";

/// Runs the daemon. Arguments: roster, data directory, then `key=value` settings; `probe` among them makes it ready for
/// measured triggers, at the cost of its log.
pub async fn run(args: &[String]) -> Result<(), Failed> {
    let [roster, data, rest @ ..] = args else { return Err("daemon ROSTER DATA [KEY=VALUE ..]".into()) };
    let set = rest.iter().filter_map(|s| s.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    let overrides = Overrides {
        data_dir: Some(data.into()),
        roster: Some(roster.into()),
        ports: Some(Ports::Auto),
        set,
        ..Overrides::default()
    };
    // Settings of the user's own environment and working directory take no part.
    let mut environment = Environment { working_dir: PathBuf::from(roster), ..Environment::of_process() };
    environment.variables.clear();
    let household = load(&overrides, &environment, &Catalog::default()).map_err(|e| e.to_string())?;
    let probe = rest.iter().any(|s| s == "probe").then(trigger::Probe::start);
    if probe.is_none() {
        start_log(&household.config.telemetry)?;
    }
    let stop = CancellationToken::new();
    let on_signal = stop.clone();
    let mut term = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    task::spawn(task::Kind::Actor, "signals", async move {
        term.recv().await;
        on_signal.cancel();
    });
    let (tell, told) = oneshot::channel();
    let ready = Box::new(move |supervisor: Supervisor| drop(tell.send(supervisor)));
    let hooks = Hooks { ready: Some(ready), ..Hooks::default() };
    let broken = stop.clone();
    let speaking = task::spawn(task::Kind::Job, "bench", async move {
        let speak = async {
            let Ok(supervisor) = told.await else { return Err(Failed::from("the household did not start")) };
            println!("{}", serde_json::to_string(&ready_line(&supervisor).await?)?);
            if let Some(probe) = probe {
                trigger::obey(&supervisor, &probe).await?;
            }
            Ok(())
        };
        let spoken = speak.await;
        if spoken.is_err() {
            // Else whoever waits for the next line waits for ever.
            broken.cancel();
        }
        spoken
    });
    let admin = if rest.iter().any(|s| s == WITHOUT_PAGES) { without_pages } else { offline::admin_port };
    serve_with(household, Catalog::default(), stop, admin, hooks).await?;
    speaking.await?
}

/// What [`offline::admin_port`] starts, without the dashboard.
fn without_pages(door: supervisor::AdminDoor) -> tokio::task::JoinHandle<()> {
    admin::spawn_with(door, &[api::SITE])
}

async fn ready_line(supervisor: &Supervisor) -> Result<Ready, Failed> {
    let cpu_seconds = machine::own_cpu();
    let house = supervisor.services();
    Ok(Ready {
        butlers_up: supervisor.butlers().len(),
        ports: supervisor.ports().into_iter().map(|(name, port)| (name.to_string(), port)).collect(),
        tokens: session_tokens(supervisor, MODEL)?,
        reader_tokens: session_tokens(supervisor, READER)?,
        pool_size: house.config.database.pool_size,
        server: supervisor.status().await.database.server,
        cpu_seconds,
    })
}

/// Sessions that call at once: one has no more than 64 requests under way.
const CALLERS: usize = 8;

fn session_tokens(supervisor: &Supervisor, butler: &str) -> Result<Vec<String>, Failed> {
    (0..CALLERS).map(|_| session_token(supervisor, butler)).collect()
}

/// A token as a session of the owner's has it at this butler.
fn session_token(supervisor: &Supervisor, butler: &str) -> Result<String, Failed> {
    let butler = supervisor.butler(butler)?;
    let clock: &Clock = supervisor.clock();
    let token = Token::generate().map_err(|e| e.to_string())?;
    let context = RequestContext::root(clock, TenantId::owner(), "cli", "bench", "owner", Trust::Owner);
    let grant = Grant {
        holder: Holder::Session {
            session: SessionId::new(),
            context: Arc::new(context),
            tools_seen: ToolsSeen::default(),
            tools_shown: Default::default(),
            taint: Default::default(),
            calls: Arc::new(CallGuard::open()),
        },
        tenant: TenantId::owner(),
        butler: Some(butler.name().clone()),
        tools: None,
        scopes: [GrantScope::Tools].into(),
        ends: access::ChannelEnds::default(),
        expires_at: None,
    };
    supervisor.services().book.insert(token.sha256(), grant);
    Ok(token.expose().to_owned())
}

/// A running daemon. Dropped, it is told to end and waited for, so that its database ends with it.
pub struct Daemon {
    pub part: Part,
    pub ready: Ready,
    /// From the start of the process until it was ready.
    pub wall: Duration,
    /// Of that, the time that starting PostgreSQL took, where there is a log that tells it.
    pub postgres: Option<Duration>,
    log: PathBuf,
    stopped: bool,
}

impl Daemon {
    /// Starts the daemon with these settings and waits until it is ready.
    pub async fn start(household: &Household, settings: &[String]) -> Result<Self, Failed> {
        let mut args = vec![household.roster().display().to_string(), household.data().display().to_string()];
        args.extend_from_slice(settings);
        let log = std::fs::File::create(household.log())?;
        let started = Instant::now();
        let mut part = Part::start("daemon", &args, Some(log))?;
        let ready = part.receive().await;
        let wall = started.elapsed();
        let log = std::fs::read_to_string(household.log())?;
        let ready: Ready = ready.map_err(|e: Failed| format!("{e}; its log ends: {}", tail(&log)))?;
        let postgres = database_up_ms(&log).map(Duration::from_millis);
        let daemon = Self { part, ready, wall, postgres, log: household.log(), stopped: false };
        let expected = std::fs::read_dir(household.roster())?.count() - 1;
        if daemon.ready.butlers_up != expected {
            let up = daemon.ready.butlers_up;
            return Err(format!("{up} of {expected} butlers are up; the log ends: {}", tail(&log)).into());
        }
        Ok(daemon)
    }

    pub fn pid(&self) -> u32 {
        self.part.pid()
    }

    /// What it answers an order with; where it failed, its log says why.
    pub async fn answer<T: DeserializeOwned>(&mut self) -> Result<T, Failed> {
        let answer = self.part.receive().await;
        answer.map_err(|e| match std::fs::read_to_string(&self.log) {
            Ok(log) => format!("{e}; its log ends: {}", tail(&log)).into(),
            Err(_) => e,
        })
    }

    fn signal(&self, signal: i32) {
        if let Ok(pid) = i32::try_from(self.pid())
            && pid > 0
        {
            // SAFETY: a signal to a child of ours that was not waited for yet.
            unsafe { libc::kill(pid, signal) };
        }
    }

    /// Ends it as `systemctl stop` would.
    pub async fn stop(mut self) -> Result<(), Failed> {
        self.part.close_input();
        self.signal(libc::SIGTERM);
        let status = tokio::time::timeout(Duration::from_secs(60), self.part.child.wait()).await??;
        self.stopped = true;
        if status.success() { Ok(()) } else { Err(format!("the daemon ended with {status}").into()) }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if self.stopped {
            return;
        }
        self.part.close_input();
        self.signal(libc::SIGTERM);
        let started = Instant::now();
        while matches!(self.part.child.try_wait(), Ok(None)) && started.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(5)..].join("\n")
}

/// How long the start of the embedded server took, as the daemon's log has it.
fn database_up_ms(log: &str) -> Option<u64> {
    let line = log.lines().find(|l| l.contains("the embedded database is up"))?;
    // `ms=81` in a text, `"ms":"81"` in JSON.
    let after = line.split_once("ms=").or_else(|| line.split_once("\"ms\":"))?.1;
    let digits: String = after.trim_start_matches('"').chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}
