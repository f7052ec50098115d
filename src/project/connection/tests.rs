//! Connections to a thread that plays the daemon.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use uuid::Uuid;

use super::{Connection, ConnectionError, SOCKET, SOCKET_VARIABLE};
use crate::place::ProjectPlace;
use crate::wire::{Answer, MAX_LINE, Refusal, Request};

const LONG: Duration = Duration::from_secs(60);

fn place() -> ProjectPlace {
    let identity = crate::wire::Identity { name: "api".to_owned(), ..Default::default() };
    ProjectPlace { top: "/".into(), common_dir: None, identity, branch: Some("main".to_owned()) }
}

/// A daemon that answers each line as `answer` says, until that is nothing; then it closes and takes the next.
fn daemon(socket: &Path, answer: impl Fn(Request) -> Option<String> + Send + 'static) {
    let listener = UnixListener::bind(socket).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            while let Some(Ok(line)) = lines.next() {
                let Some(text) = answer(serde_json::from_str(&line).unwrap()) else { break };
                if (&stream).write_all(text.as_bytes()).is_err() {
                    break;
                }
            }
        }
    });
}

fn line(answer: &Answer) -> String {
    serde_json::to_string(answer).unwrap() + "\n"
}

fn echo(request: Request) -> Option<String> {
    let result =
        json!({"op": request.op, "args": request.args, "branch": request.branch, "name": request.project.name});
    Some(line(&Answer::Done { project: Uuid::nil(), result }))
}

#[test]
fn a_connection_carries_many_questions() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    daemon(&socket, echo);
    let mut connection = Connection::open_first(vec![dir.path().join("none"), socket], LONG).unwrap();
    for n in 0..50 {
        let (project, result) = connection.ask(&place(), "recall", json!({"query": "a\nb", "n": n})).unwrap();
        assert_eq!(project, Uuid::nil());
        let want = json!({"op": "recall", "args": {"query": "a\nb", "n": n}, "branch": "main", "name": "api"});
        assert_eq!(result, want);
    }
    let large = "x".repeat(20 << 20);
    let (_, result) = connection.ask(&place(), "remember", json!({"content": large})).unwrap();
    assert_eq!(result["args"]["content"].as_str().map(str::len), Some(20 << 20));
    let error = connection.ask(&place(), "remember", Value::String("x".repeat(MAX_LINE))).unwrap_err();
    assert!(matches!(&error, ConnectionError::Refused(refusal) if refusal.code == "too_long"), "{error}");
    connection.ask(&place(), "recall", json!({})).unwrap();
}

#[test]
fn a_refusal_leaves_the_connection_open() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    daemon(&socket, |request| {
        let refusal = Refusal { code: "not_found".to_owned(), message: format!("no {}", request.op) };
        Some(line(&Answer::Refused(refusal)))
    });
    let mut connection = Connection::open_first(vec![socket], LONG).unwrap();
    for op in ["one", "two"] {
        let error = connection.ask(&place(), op, json!({})).unwrap_err();
        assert_eq!(error.to_string(), format!("no {op}"));
        assert!(!error.is_away());
    }
}

#[test]
fn silence_and_nonsense_are_told_and_the_next_question_starts_afresh() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    daemon(&socket, |request| match request.op.as_str() {
        "silence" => Some(String::new()),
        "half" => Some("{\"done\"".to_owned()),
        "end" => None,
        "nonsense" => Some("hello\n".to_owned()),
        "two" => Some("{}\n{}\n".to_owned()),
        _ => echo(request),
    });
    let mut connection = Connection::open_first(vec![socket], Duration::from_millis(300)).unwrap();
    for op in ["silence", "half", "end", "nonsense", "two"] {
        let before = Instant::now();
        let error = connection.ask(&place(), op, json!({})).unwrap_err();
        let lost = matches!(error, ConnectionError::Lost(_));
        assert_eq!(lost, ["silence", "half", "end"].contains(&op), "{op}: {error}");
        assert!(lost || matches!(error, ConnectionError::Foreign(_)), "{op}: {error}");
        assert!(before.elapsed() < Duration::from_secs(20), "{op}");
        connection.0.answer_within(LONG);
        connection.ask(&place(), "echo", json!({})).unwrap();
        connection.0.answer_within(Duration::from_millis(300));
    }
}

#[test]
fn a_daemon_that_closed_an_idle_connection_is_asked_by_another() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let listener = UnixListener::bind(&socket).unwrap();
    let mut connection = Connection::open_first(vec![socket.clone()], LONG).unwrap();
    let (old, _) = listener.accept().unwrap();
    drop((old, listener));
    std::fs::remove_file(&socket).unwrap();
    let error = connection.ask(&place(), "recall", json!({})).unwrap_err();
    assert!(error.is_away(), "{error}");
    daemon(&socket, echo);
    connection.ask(&place(), "recall", json!({})).unwrap();
}

#[test]
fn nobody_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let dead = dir.path().join("dead");
    drop(UnixListener::bind(&dead).unwrap());
    let tried = vec![dir.path().join("none"), dead, PathBuf::from("/".to_owned() + &"long".repeat(60))];
    let error = Connection::open_first(tried.clone(), LONG).unwrap_err();
    assert!(matches!(&error, ConnectionError::Away { tried: said } if *said == tried), "{error}");
    assert!(error.is_away() && UnixStream::connect(&tried[1]).is_err());
}

#[test]
fn the_socket_is_looked_for_in_this_order() {
    let set = |name: &str| match name {
        "XDG_RUNTIME_DIR" => Some("/run/user/7".into()),
        "HOME" => Some("/home/ada".into()),
        _ => None,
    };
    let looked = |data_dir, set: &dyn Fn(&str) -> Option<std::ffi::OsString>| {
        base::local::candidates_of(SOCKET_VARIABLE, SOCKET, data_dir, set)
    };
    let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
    let of = |dir: &str| PathBuf::from(dir).join("project.sock");
    let home = of("/home/ada/.local/share/butlerd/run");
    let own = [of("/run/user/7/butlerd"), of("/run/butlerd"), home.clone()];
    assert_eq!(looked(None, &set), own);
    // One daemon is meant: never another one's.
    assert_eq!(looked(Some(Path::new("/data")), &set), paths(&["/data/run/project.sock"]));
    assert_eq!(looked(Some(Path::new("/home/ada/.local/share/butlerd")), &set), [home, own[0].clone()]);
    assert_eq!(looked(Some(Path::new("/var/lib/butlerd")), &set), [of("/var/lib/butlerd/run"), of("/run/butlerd")]);
    assert_eq!(looked(None, &|_| None), paths(&["/run/butlerd/project.sock"]));
    let named = |name: &str| (name == SOCKET_VARIABLE).then(|| "/x".into());
    assert_eq!(looked(Some(Path::new("/data")), &named), paths(&["/x"]));
}
