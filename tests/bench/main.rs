//! `just bench` (`cargo bench --bench house`): what the house costs, beside what its two floors cost in the same run.
//!
//! The parts run as processes of their own, all of them this very program with another first argument, so that each
//! one's CPU time can be told apart: the daemon (`daemon`), bare hyper (`floor-hyper`), the bare protocol library
//! (`floor-sdk`), the bare database pool (`floor-sql`), the bare echo bot (`floor-echo`), the model gateway (`gateway`),
//! the generator of load (`load`), and the children of sessions (`agent`, which the daemon starts).
//!
//! `BENCH_ONLY=boot,thousand,calls,accepts,gateway,trigger,strangers,drain,channels,project,journal,memory,pages,trade,
//! overhead,calendar` names parts.
//! `BENCH_ONLY=soak` is one that nobody else asks for: a thousand sessions of the child that misbehaves, and whether
//! anything is left of them. In it, and in the overhead, this program plays that child as well.
//!
//! `route FILE` and `recall FILE` measure something else: how well messages are routed (`just bench-route`), and how
//! much of what was said memory finds again (`just bench-recall`).
//!
//! `BENCH_QUICK=1` is a short form: one round of a second each, and no wait for idle connections to be given back.
//! A target that is missed in full form is named at the end, and the exit code is 1. The figures of a run in full form are
//! a line of `bench/history.jsonl`; `plot` draws them (`just bench-plot`).

#![allow(clippy::too_many_lines, reason = "a measurement is one story, told to its end")]

mod accepts;
mod boot;
#[path = "../bot_api/mod.rs"]
mod bot_api;
mod calendar;
mod calls;
mod channels;
mod council;
mod daemon;
mod drain;
#[path = "../bin/fake_cli.rs"]
mod fake_cli;
mod figures;
mod floor_echo;
mod floor_hyper;
mod floor_sdk;
mod floor_sql;
mod gateway;
mod household;
mod journal;
mod load;
mod machine;
mod memory;
mod overhead;
mod pages;
mod part;
mod project;
mod recall;
mod routing;
#[path = "../routing/mod.rs"]
mod routing_score;
#[path = "../soak/mod.rs"]
mod soak;
mod soaking;
mod strangers;
mod table;
mod trade;
mod trigger;

use std::process::ExitCode;
use std::time::Duration;

/// What went wrong with the measuring itself.
type Failed = Box<dyn std::error::Error + Send + Sync>;

/// How thorough the run is.
#[derive(Clone, Copy)]
struct Plan {
    rounds: usize,
    warm_up: Duration,
    measured: Duration,
    triggers: usize,
    soaked: usize,
    /// How long the household is left alone before its memory is read. Connections idle for 30 s are given back.
    settle: Duration,
}

impl Plan {
    fn of_environment() -> Self {
        let quick = std::env::var_os("BENCH_QUICK").is_some_and(|v| !v.is_empty() && v != "0");
        if quick {
            let s = Duration::from_secs;
            return Self { rounds: 1, warm_up: s(1) / 2, measured: s(1), triggers: 5, soaked: 64, settle: s(3) };
        }
        let ms = Duration::from_millis;
        Self { rounds: 5, warm_up: ms(500), measured: ms(2500), triggers: 20, soaked: 1000, settle: ms(50_000) }
    }

    fn is_quick(&self) -> bool {
        self.rounds == 1
    }
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let role = args.next().unwrap_or_default();
    // `cargo bench` adds a flag of its own behind them.
    let rest: Vec<String> = args.filter(|arg| arg != "--bench").collect();
    let ended = match role.as_str() {
        "agent" => return ExitCode::from(u8::try_from(agent::main()).unwrap_or(1)),
        "daemon" => many_threads(daemon::run(&rest)),
        "floor-ask" => project::ask(&rest),
        "floor-echo" => one_thread(floor_echo::run(&rest)),
        "floor-hyper" => many_threads(floor_hyper::run()),
        "floor-sdk" => many_threads(floor_sdk::run()),
        "floor-sql" => many_threads(floor_sql::run()),
        "gateway" => many_threads(gateway::run(&rest)),
        "load" => load::run(),
        "plot" => figures::plot(&rest),
        "recall" => one_thread(async {
            recall::run(&rest).await?;
            figures::close(&Plan::of_environment(), &machine::describe(), "recall")
        }),
        "route" => one_thread(routing::run(&rest)),
        // As the daemon calls Claude Code.
        "-p" => {
            fake_cli::main();
            return ExitCode::SUCCESS;
        }
        // Nothing, or that flag.
        _ => one_thread(measure_until_interrupted()),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("bench {role}: {}", supervisor::with_causes(&*e));
            ExitCode::FAILURE
        }
    }
}

/// As the daemon's own main: a thread for each core.
fn many_threads(work: impl Future<Output = Result<(), Failed>>) -> Result<(), Failed> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(work)
}

fn one_thread(work: impl Future<Output = Result<(), Failed>>) -> Result<(), Failed> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// Interrupted, it still takes its processes and files with it: both go with what owns them.
async fn measure_until_interrupted() -> Result<(), Failed> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut int, mut term) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        done = measure(Plan::of_environment()) => done,
        _ = int.recv() => Err("interrupted".into()),
        _ = term.recv() => Err("terminated".into()),
    }
}

async fn measure(plan: Plan) -> Result<(), Failed> {
    let machine = machine::describe();
    let only = std::env::var("BENCH_ONLY").unwrap_or_default();
    let wanted = |part: &str| only.is_empty() || only.split(',').any(|p| p == part);
    let seven = household::Household::new(0)?;
    // Made once: initdb, roles, migrations. Everything below finds a warm database.
    let first = daemon::Daemon::start(&seven, &[]).await?;
    let server = first.ready.server.clone();
    first.stop().await?;
    println!("{machine}");
    println!("{server}; {}", plan_line(&plan));
    if wanted("boot") {
        table::boot_head();
        let running = boot::measure(&plan, &seven, 7).await?;
        running.stop().await?;
        let hundred = household::Household::new(93)?;
        daemon::Daemon::start(&hundred, &[]).await?.stop().await?;
        boot::measure(&plan, &hundred, 100).await?.stop().await?;
    }
    if wanted("thousand") {
        table::thousand_head();
        let thousand = household::Household::new(993)?;
        let begun = std::time::Instant::now();
        daemon::Daemon::start(&thousand, &[]).await?.stop().await?;
        table::note(&format!("the first start, and its end: {:.1} s", begun.elapsed().as_secs_f64()));
        boot::measure(&Plan { rounds: 1, ..plan }, &thousand, 1000).await?.stop().await?;
    }
    if wanted("calls") {
        calls::measure(&plan, &seven).await?;
    }
    if wanted("accepts") {
        accepts::measure(&plan).await?;
    }
    if wanted("gateway") {
        gateway::measure(&plan).await?;
    }
    if wanted("trigger") {
        trigger::measure(&plan, &seven).await?;
    }
    if wanted("strangers") {
        strangers::measure(&plan, &seven).await?;
    }
    if wanted("drain") {
        drain::measure(&plan).await?;
    }
    if wanted("channels") {
        channels::measure(&plan).await?;
    }
    if wanted("project") {
        project::measure(&plan).await?;
    }
    if wanted("council") {
        council::measure(&plan).await?;
    }
    if wanted("journal") {
        journal::measure(&plan).await?;
    }
    if wanted("memory") {
        memory::measure(&plan).await?;
    }
    if wanted("calendar") {
        calendar::measure(&plan).await?;
    }
    if wanted("pages") {
        pages::measure(&plan).await?;
    }
    if wanted("trade") {
        trade::measure(&plan).await?;
    }
    if wanted("overhead") {
        overhead::measure(&plan).await?;
    }
    if only.split(',').any(|part| part == "soak") {
        soaking::measure(&plan).await?;
    }
    figures::close(&plan, &machine, &only)
}

fn plan_line(plan: &Plan) -> String {
    let form = if plan.is_quick() { "quick form, " } else { "medians of " };
    format!("{form}{} round(s), {:?} measured after {:?} each", plan.rounds, plan.measured, plan.warm_up)
}
