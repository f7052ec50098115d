//! `butlerd trigger`

use std::io::Read;

use clap::Args;
use serde_json::{Value, json};
use uuid::Uuid;

use super::common::BadArgument;
use super::events::{Printer, SHOWN, ending};
use super::out::{Out, Tone};
use super::problem::{FAILED, Problem};
use super::text::block;
use super::{Caller, Outcome, follow};
use admin::api::{EventsApiClient, WorkApiClient};
use sessions::{SessionResult, SessionState};

/// `trigger`
#[derive(Debug, Args)]
pub struct TriggerArgs {
    pub butler: String,
    /// What to do, in words; `-` reads it from standard input
    pub prompt: String,
    /// Facts for the session, given to it as data
    #[arg(long, value_name = "JSON", value_parser = json)]
    pub context: Option<Value>,
    /// Show what the session does while it does it
    #[arg(long)]
    pub follow: bool,
    /// Show what would run and what it may cost, but start nothing
    #[arg(long, conflicts_with = "follow")]
    pub dry_run: bool,
}

fn json(text: &str) -> Result<Value, BadArgument> {
    serde_json::from_str(text).map_err(|e| BadArgument(format!("it is not valid JSON: {e}")))
}

pub async fn run(caller: Caller, args: TriggerArgs) -> Outcome {
    let mut args = args;
    if args.prompt == "-" {
        args.prompt.clear();
        std::io::stdin().read_to_string(&mut args.prompt).map_err(|e| {
            Problem::usage(format!("The prompt can't be read from standard input: {e}."), "Give it as an argument.")
        })?;
        args.prompt.truncate(args.prompt.trim_end().len());
    }
    match (args.dry_run, args.follow) {
        (true, _) => super::preview::run(&caller, args.butler, args.prompt, args.context).await,
        (_, true) => follow(&caller, args).await,
        _ => wait(&caller, args).await,
    }
}

async fn wait(caller: &Caller, args: TriggerArgs) -> Outcome {
    let calls = caller.client.patient()?;
    let result = tokio::select! {
        result = calls.trigger(args.butler, args.prompt, args.context) => caller.got(result)?,
        _ = tokio::signal::ctrl_c() => return Err(left(None)),
    };
    if caller.out.json {
        caller.out.value(&result);
    } else {
        answer(&caller.out, &result);
        let end = format!("session {}: {}", result.session_id, ending(&result));
        caller.out.aside(&caller.out.paint(Tone::Faint, &end));
    }
    Ok(exit(&result))
}

async fn follow(caller: &Caller, args: TriggerArgs) -> Outcome {
    let live = caller.client.live().await?;
    let mut events = caller.got(live.subscribe_events(Some(args.butler.clone())).await)?;
    let printer = Printer { out: &caller.out, butlers: false, most: SHOWN };
    let started = caller.got(live.trigger_start(args.butler, args.prompt, args.context).await)?;
    let mut id = started.session_id;
    let result = loop {
        match follow::follow(caller, &live, &mut events, &printer, id).await? {
            None => return Err(left(Some(id))),
            Some(follow::End { follower: Some(next), .. }) => id = next,
            Some(end) => break end.result,
        }
    };
    if caller.out.json {
        caller.out.record(&json!({"event": "result", "result": result}));
    } else {
        caller.out.line("");
        answer(&caller.out, &result);
    }
    Ok(exit(&result))
}

fn answer(out: &Out, result: &SessionResult) {
    if let Some(output) = &result.output {
        out.line(&block(output));
    }
}

fn exit(result: &SessionResult) -> i32 {
    if result.state == SessionState::Succeeded { 0 } else { FAILED }
}

/// The person hung up; the session has a row and goes on.
fn left(session: Option<Uuid>) -> Problem {
    let next = match session {
        Some(id) => format!("End it with: butlerd sessions cancel {id}"),
        None => "See it with: butlerd sessions list".to_owned(),
    };
    Problem::new(FAILED, "interrupted", "The session goes on in the daemon.", next)
}
