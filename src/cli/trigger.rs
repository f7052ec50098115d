//! `butlerd trigger`

use std::io::Read;

use jsonrpsee::core::client::Subscription;
use serde_json::json;

use super::args::TriggerArgs;
use super::events::{Printer, TRAILING, cut_off, ending, next};
use super::out::{Out, Tone, block};
use super::problem::{FAILED, Problem};
use super::{Caller, Outcome};
use crate::admin::{ApiClient, LiveEvent};
use crate::base::SessionId;
use crate::spawner::{EventKind, SessionResult, SessionState};

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
    let printer = Printer { out: caller.out, zone: caller.zone(), butlers: false };
    let mut watch = Watch { prompt: args.prompt.clone(), session: None, ended: false };
    let call = live.trigger(args.butler, args.prompt, args.context);
    tokio::pin!(call);
    let result = loop {
        tokio::select! {
            // The answer comes after the events that led to it, so those are looked at first.
            biased;
            event = next(&mut events) => match event? {
                Some(event) => watch.show(&printer, &event),
                None => return Err(cut_off()),
            },
            result = &mut call => break result.map_err(caller.failed())?,
            _ = tokio::signal::ctrl_c() => return Err(left(watch.session)),
        }
    };
    watch.session = Some(result.session_id);
    trailing(&mut watch, &printer, &mut events).await?;
    if caller.out.json {
        caller.out.record(&json!({"event": "result", "result": result}));
    } else {
        if !watch.ended {
            caller.out.aside(&ending(&result));
        }
        caller.out.line("");
        answer(caller.out, &result);
    }
    Ok(exit(&result))
}

async fn trailing(watch: &mut Watch, printer: &Printer, events: &mut Subscription<LiveEvent>) -> Result<(), Problem> {
    let rest = async {
        while !watch.ended {
            match next(events).await? {
                Some(event) => watch.show(printer, &event),
                None => break,
            }
        }
        Ok(())
    };
    // An end that was missed is told from the result.
    tokio::time::timeout(TRAILING, rest).await.unwrap_or(Ok(()))
}

/// Which of the butler's sessions is the one that was asked for.
struct Watch {
    prompt: String,
    session: Option<SessionId>,
    ended: bool,
}

impl Watch {
    /// Shows an event of the own session. That is the first one to wait with the own prompt.
    fn show(&mut self, printer: &Printer, event: &LiveEvent) {
        match event {
            LiveEvent::Missed { .. } => printer.event(event),
            LiveEvent::Session(one) => {
                if let (None, EventKind::Queued { source, prompt }) = (self.session, &one.kind)
                    && source == "trigger"
                    && same(prompt, &self.prompt)
                {
                    self.session = Some(one.session_id);
                }
                if self.session == Some(one.session_id) {
                    self.ended |= matches!(one.kind, EventKind::Ended(_));
                    printer.event(event);
                }
            }
        }
    }
}

/// Whether an event tells of this prompt. Events cut long ones, and say so at the end.
fn same(told: &str, own: &str) -> bool {
    told == own || told.rsplit_once("… [").is_some_and(|(start, _)| own.starts_with(start))
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
fn left(session: Option<SessionId>) -> Problem {
    let next = match session {
        Some(id) => format!("End it with: butlerd sessions cancel {id}"),
        None => "See it with: butlerd sessions list".to_owned(),
    };
    Problem::new(FAILED, "interrupted", "The session goes on in the daemon.", next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spawner::SessionEvent;

    fn event(session_id: SessionId, kind: EventKind) -> LiveEvent {
        let at = "2026-01-01T10:00:00Z".parse().unwrap();
        LiveEvent::Session(Box::new(SessionEvent { butler: "health".into(), session_id, at, kind }))
    }

    #[test]
    fn a_cut_prompt_is_known_again() {
        let long = "x".repeat(5000);
        assert!(same(&crate::base::text::truncate(&long, 4096), &long));
        assert!(same("short", "short") && !same("short", "shorter"));
        assert!(!same(&crate::base::text::truncate(&long, 4096), "y"));
    }

    #[test]
    fn only_the_own_session_is_followed() {
        let queued = |prompt: &str, source: &str| EventKind::Queued { source: source.into(), prompt: prompt.into() };
        let printer = Printer { out: Out::new(true), zone: jiff::tz::TimeZone::UTC, butlers: false };
        let mut watch = Watch { prompt: "mine".into(), session: None, ended: false };
        let (other, scheduled, own) = (SessionId::new(), SessionId::new(), SessionId::new());
        watch.show(&printer, &event(other, queued("theirs", "trigger")));
        watch.show(&printer, &event(scheduled, queued("mine", "schedule:daily")));
        assert_eq!(watch.session, None);
        watch.show(&printer, &event(own, queued("mine", "trigger")));
        watch.show(&printer, &event(other, queued("mine", "trigger")));
        assert_eq!(watch.session, Some(own));
    }
}
