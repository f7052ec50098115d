//! `butlerd trigger`

use std::io::Read;

use serde_json::json;
use uuid::Uuid;

use super::args::TriggerArgs;
use super::events::{Printer, SHOWN, ending};
use super::out::{Out, Tone, block};
use super::problem::{FAILED, Problem};
use super::{Caller, Outcome, follow};
use admin::ApiClient;
use sessions::{SessionResult, SessionState};

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
        (true, _) => super::preview::run(&caller, args).await,
        (_, true) => follow(&caller, args).await,
        _ => wait(&caller, args).await,
    }
}

async fn wait(caller: &Caller, args: TriggerArgs) -> Outcome {
    let calls = caller.client.patient()?;
    let result = tokio::select! {
        result = calls.trigger(args.butler, args.prompt, args.context) => result.map_err(caller.failed())?,
        _ = tokio::signal::ctrl_c() => return Err(left(None)),
    };
    if caller.out.json {
        caller.out.value(&result);
    } else {
        answer(caller.out, &result);
        caller
            .out
            .aside(&caller.out.paint(Tone::Faint, &format!("session {}: {}", result.session_id, ending(&result))));
    }
    Ok(exit(&result))
}

async fn follow(caller: &Caller, args: TriggerArgs) -> Outcome {
    let live = caller.client.live().await?;
    let mut events = live.subscribe_events(Some(args.butler.clone())).await.map_err(caller.failed())?;
    let printer = Printer { out: caller.out, zone: caller.zone(), butlers: false, most: SHOWN };
    let started = live.trigger_start(args.butler, args.prompt, args.context).await.map_err(caller.failed())?;
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
        answer(caller.out, &result);
    }
    Ok(exit(&result))
}

fn answer(out: Out, result: &SessionResult) {
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
