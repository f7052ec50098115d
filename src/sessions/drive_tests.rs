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
async fn a_run_that_says_so_has_succeeded_however_it_leaves() {
    let stays = "while :; do sleep 1000; done";
    let short = Deadlines { session: SHORT, ..DEADLINES };
    for (script, deadlines, failed, code) in [
        // Its exit status proves nothing.
        (format!("{INIT}; {RESULT}; exit 7"), DEADLINES, None, Some(7)),
        // Half a result is none, and one without a line feed counts.
        (format!("{INIT}; printf '{{\"type\":\"result\",\"ok\":tr'"), DEADLINES, Some(ErrorClass::Crashed), None),
        (format!("{INIT}; printf '%s' \"$({RESULT})\""), DEADLINES, None, None),
        // A child that closes its output and stays is waited for.
        (format!("{INIT}; {RESULT}; exec >&- 2>&-; exit 4"), DEADLINES, None, Some(4)),
        (format!("exec >&- 2>&-; {stays}"), short, Some(ErrorClass::TimedOut), None),
        // A grandchild that holds the pipe does not hold up the end.
        (format!("{INIT}; {RESULT}; setsid sleep 1000 & exit 0"), DEADLINES, None, None),
        // Without tools it is ended at once.
        (format!("{}; {stays}", INIT.replace("true", "false")), DEADLINES, Some(ErrorClass::McpUnreachable), None),
    ] {
        let driven = run(&script, deadlines).await;
        assert_eq!(class(&driven), failed, "{script}");
        assert!(failed.is_some() || driven.outcome.final_text.as_deref() == Some("done"), "{script}: {driven:?}");
        assert!(code.is_none() || driven.ended.exit.unwrap().code == code, "{script}: {driven:?}");
        assert!(driven.ended.survivors.is_empty(), "{script}: {driven:?}");
    }
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
async fn a_child_that_stays_after_its_result_is_ended_and_has_succeeded() {
    let stays = format!("trap '' TERM; {INIT}; {RESULT}; while :; do sleep 1000; done");
    let driven = run(&stays, Deadlines { after_final: SHORT, ..DEADLINES }).await;
    assert_eq!((class(&driven), driven.stopped), (None, None));
    assert_eq!(driven.ended.exit.unwrap().signal, Some(libc::SIGKILL));
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
