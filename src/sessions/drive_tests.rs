//! Whole runs of children that behave like the native agent, well or badly.

use std::sync::{Arc, Mutex};

use super::*;
use crate::adapters::{Adapter, Native};
use base::{Secret, task};
use process::{ChildSpec, OutputLimits, ProcessSupervisor};

const INIT: &str = r#"echo '{"type":"init","model":"m","tools":[],"mcp_connected":true}'"#;
const RESULT: &str = r#"echo '{"type":"result","ok":true,"final_text":"done","turns":1,"error":null}'"#;

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(100);
const DEADLINES: Deadlines = Deadlines { session: LONG, after_final: LONG, grace: SHORT };

fn spec(script: &str) -> ChildSpec {
    let args = vec!["-c".into(), script.into()];
    ChildSpec {
        output: OutputLimits { total: 4 << 20, ..OutputLimits::default() },
        ..ChildSpec::new("/bin/sh", args, vec![("PATH".into(), "/usr/bin:/bin".into())])
    }
}

async fn run_with(
    script: &str,
    deadlines: Deadlines,
    redactor: &Redactor,
    cancel: &CancellationToken,
    mut on_event: impl FnMut(RunEvent) + Send,
) -> Driven {
    let on_step = |step| match step {
        Step::Said(event) => on_event(event),
        Step::Signal { .. } => {}
    };
    let child = ProcessSupervisor::start().unwrap().spawn(spec(script)).await.unwrap();
    let driven = drive(child, Native.parser(&[]), deadlines, redactor, cancel, on_step);
    tokio::time::timeout(Duration::from_secs(30), driven).await.expect("the run's end")
}

async fn run(script: &str, deadlines: Deadlines) -> Driven {
    run_with(script, deadlines, &Redactor::default(), &CancellationToken::new(), |_| {}).await
}

fn class(driven: &Driven) -> Option<ErrorClass> {
    assert_eq!(driven.outcome.ok, driven.outcome.error.is_none());
    driven.outcome.error.as_ref().map(|e| e.class)
}

#[tokio::test]
async fn a_run_that_says_so_and_leaves_has_succeeded() {
    let driven = run(&format!("{INIT}; {RESULT}; exit 7"), DEADLINES).await;
    assert_eq!((class(&driven), driven.outcome.final_text.as_deref()), (None, Some("done")));
    assert_eq!(driven.ended.exit.unwrap().code, Some(7), "its exit status proves nothing");
}

#[tokio::test]
async fn exit_0_without_a_result_is_a_failure() {
    let driven = run(&format!("{INIT}; echo 'it went wrong' >&2; exit 0"), DEADLINES).await;
    let error = driven.outcome.error.unwrap();
    assert_eq!(error.class, ErrorClass::Crashed);
    assert_eq!(error.message, "butlerd's agent ended (exit 0) without its final event; its last words: it went wrong");
    assert_eq!(driven.stderr_tail, "it went wrong\n");
}

#[tokio::test]
async fn half_a_result_is_none() {
    let half = format!("{INIT}; printf '{{\"type\":\"result\",\"ok\":tr'");
    let driven = run(&half, DEADLINES).await;
    assert_eq!(class(&driven), Some(ErrorClass::Crashed));
}

#[tokio::test]
async fn a_result_without_a_line_feed_counts() {
    let driven = run(&format!("{INIT}; printf '%s' \"$({RESULT})\""), DEADLINES).await;
    assert_eq!(class(&driven), None);
}

#[tokio::test]
async fn a_child_that_stays_after_its_result_is_ended_and_has_succeeded() {
    let stays = format!("trap '' TERM; {INIT}; {RESULT}; while :; do sleep 1000; done");
    let driven = run(&stays, Deadlines { after_final: SHORT, ..DEADLINES }).await;
    assert_eq!((class(&driven), driven.stopped), (None, None));
    assert_eq!(driven.ended.exit.unwrap().signal, Some(libc::SIGKILL));
}

#[tokio::test]
async fn a_child_that_closes_its_output_and_stays_is_waited_for() {
    let driven = run(&format!("{INIT}; {RESULT}; exec >&- 2>&-; exit 4"), DEADLINES).await;
    assert_eq!((class(&driven), driven.ended.exit.unwrap().code), (None, Some(4)));
    let stays = "exec >&- 2>&-; while :; do sleep 1000; done";
    assert_eq!(class(&run(stays, Deadlines { session: SHORT, ..DEADLINES }).await), Some(ErrorClass::TimedOut));
}

#[tokio::test]
async fn a_grandchild_that_holds_the_pipe_does_not_hold_up_the_end() {
    let driven = run(&format!("{INIT}; {RESULT}; setsid sleep 1000 & exit 0"), DEADLINES).await;
    assert_eq!(class(&driven), None);
    assert!(driven.ended.survivors.is_empty());
}

#[tokio::test]
async fn time_runs_out() {
    let deadlines = Deadlines { session: Duration::from_millis(300), ..DEADLINES };
    let driven = run(&format!("{INIT}; while :; do sleep 1000; done"), deadlines).await;
    assert_eq!((class(&driven), driven.stopped), (Some(ErrorClass::TimedOut), Some(Stopped::TimedOut)));
    assert!(driven.outcome.error.unwrap().message.contains("300ms"));
}

#[tokio::test]
async fn the_program_s_own_timeout_is_not_the_session_s() {
    let own = r#"{"type":"result","ok":false,"error":{"class":"timed_out","message":"a model request took 300s"}}"#;
    let driven = run(&format!("{INIT}; echo '{own}'"), DEADLINES).await;
    assert_eq!((class(&driven), driven.stopped), (Some(ErrorClass::TimedOut), None));
}

#[tokio::test]
async fn somebody_cancels() {
    let cancel = CancellationToken::new();
    let on_event = |event| {
        if event == RunEvent::McpConnected(true) {
            cancel.cancel();
        }
    };
    let script = format!("{INIT}; while :; do sleep 1000; done");
    let driven = run_with(&script, DEADLINES, &Redactor::default(), &cancel, on_event).await;
    assert_eq!(class(&driven), Some(ErrorClass::Cancelled));
}

#[tokio::test]
async fn cancelled_after_the_result_it_has_succeeded() {
    let cancel = CancellationToken::new();
    let on_event = |event| {
        if event == RunEvent::Final {
            cancel.cancel();
        }
    };
    let script = format!("{INIT}; {RESULT}; while :; do sleep 1000; done");
    let driven = run_with(&script, DEADLINES, &Redactor::default(), &cancel, on_event).await;
    assert_eq!(class(&driven), None);
}

#[tokio::test]
async fn without_tools_it_is_ended_at_once() {
    let script = format!("{}; while :; do sleep 1000; done", INIT.replace("true", "false"));
    assert_eq!(class(&run(&script, DEADLINES).await), Some(ErrorClass::McpUnreachable));
}

#[tokio::test]
async fn a_flood_ends_the_run() {
    let driven = run(&format!("{INIT}; yes abcdefgh"), DEADLINES).await;
    let error = driven.outcome.error.unwrap();
    assert!(error.class == ErrorClass::Crashed && error.message.contains("wrote more"), "{error:?}");
}

#[tokio::test]
async fn secrets_are_hidden_wherever_they_are_quoted() {
    let (token, key) = (Secret::new("token-0123456789".to_owned()), Secret::new("quoted\"key".to_owned()));
    let short = Secret::new("m".to_owned());
    let redactor = Redactor::default();
    [&token, &key, &short].into_iter().for_each(|secret| redactor.hide(secret));
    let seen = Arc::new(Mutex::new(String::new()));
    let script = format!(
        r#"{INIT}
        echo '{{"type":"text","text":"the token is token-0123456789"}}'
        echo '{{"type":"tool_call","id":"1","name":"x","arguments":{{"a":["quoted\"key"]}}}}'
        echo 'error with quoted"key and token-0123456789' >&2
        echo '{{"type":"result","ok":false,"error":{{"class":"auth","message":"bad key quoted\"key"}}}}'"#
    );
    let events = seen.clone();
    let on_event = move |event| events.lock().unwrap().push_str(&format!("{event:?}\n"));
    let driven = run_with(&script, DEADLINES, &redactor, &CancellationToken::new(), on_event).await;
    let all = format!("{}{driven:?}", seen.lock().unwrap());
    assert_eq!(driven.outcome.error.unwrap().message, "bad key [hidden]");
    assert_eq!(driven.stderr_tail, "error with [hidden] and [hidden]\n");
    assert!(!all.contains("token-0") && !all.contains("quoted"), "{all}");
    assert!(all.contains("the token is [hidden]"), "{all}");
}

#[tokio::test]
async fn a_dropped_run_leaves_no_process() {
    let spec = spec(&format!("{INIT}; setsid sleep 1000 & while :; do sleep 1000; done"));
    let child = ProcessSupervisor::start().unwrap().spawn(spec).await.unwrap();
    let pid = child.pid();
    let (told, heard) = tokio::sync::oneshot::channel();
    let mut told = Some(told);
    let run = task::spawn(task::Kind::Job, "test", async move {
        let on_event = |_| {
            let _ = told.take().map(|t| t.send(()));
        };
        drive(child, Native.parser(&[]), DEADLINES, &Redactor::default(), &CancellationToken::new(), on_event).await
    });
    heard.await.unwrap();
    run.abort();
    assert!(run.await.unwrap_err().is_cancelled());
    let start = std::time::Instant::now();
    while std::path::Path::new(&format!("/proc/{pid}")).exists() {
        assert!(start.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
