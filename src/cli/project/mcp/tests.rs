//! The server against a daemon that is a thread with a socket.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread::JoinHandle;

use serde_json::json;

use super::*;
use project::wire::{Answer, Refusal, Request};

/// Listens in a data directory, answers so many requests, each on whatever connection it comes, and gives them back.
fn daemon(data_dir: &Path, answers: Vec<Answer>) -> JoinHandle<Vec<Request>> {
    let socket = data_dir.join("run/project.sock");
    std::fs::create_dir_all(data_dir.join("run")).unwrap();
    drop(std::fs::remove_file(&socket));
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        let (mut asked, mut answers) = (Vec::new(), answers.into_iter().peekable());
        while answers.peek().is_some() {
            let (stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            while answers.peek().is_some() {
                let Some(Ok(line)) = lines.next() else { break };
                asked.push(serde_json::from_str(&line).unwrap());
                let mut line = serde_json::to_vec(&answers.next().unwrap()).unwrap();
                line.push(b'\n');
                (&stream).write_all(&line).unwrap();
            }
        }
        asked
    })
}

fn done(result: Value) -> Answer {
    Answer::Done { project: uuid::Uuid::nil(), result }
}

struct Bench {
    data: tempfile::TempDir,
    project: tempfile::TempDir,
    server: MemoryServer,
}

fn bench() -> Bench {
    let (data, project) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = MemoryServer::new(Sockets::new(Some(data.path().to_owned())), project.path().to_owned());
    Bench { data, project, server }
}

impl Bench {
    fn call(&self, tool: &str, args: Value) -> (Value, bool) {
        let Value::Object(args) = args else { panic!("{args}") };
        let tool = self.server.tools.iter().find(|known| known.name == tool).unwrap();
        let result = serde_json::to_value(self.server.answer(tool, &args)).unwrap();
        let content = result["content"].as_array().unwrap();
        assert_eq!(content.len(), 1, "{result}");
        (serde_json::from_str(content[0]["text"].as_str().unwrap()).unwrap(), result["isError"] == true)
    }
}

#[test]
fn a_call_is_one_question_to_the_daemon() {
    let bench = bench();
    let refusal = Refusal { code: "not_remembered".to_owned(), message: "it holds a secret".to_owned() };
    let thread = daemon(bench.data.path(), vec![done(json!({"id": "1"})), Answer::Refused(refusal), done(json!([]))]);
    assert_eq!(bench.call("remember", json!({"content": "x"})), (json!({"id": "1"}), false));
    let (told, is_error) = bench.call("remember", json!({"content": "password"}));
    assert!(is_error && told["error"] == "It holds a secret." && told["code"] == "not_remembered", "{told}");
    assert_eq!(bench.call("recall", json!({"query": "q", "tags": "a"})), (json!([]), false));
    let asked = thread.join().unwrap();
    assert_eq!(asked[0].op, "remember");
    assert_eq!(asked[0].args, json!({"content": "x", "type": "Learning"}));
    assert_eq!(asked[2].args, json!({"query": "q", "tags": "a", "limit": 5, "mode": "hybrid"}));
    assert_eq!(asked[2].project.name, project::wire::GLOBAL);
}

#[test]
fn a_daemon_that_comes_back_is_asked_again() {
    let bench = bench();
    let (told, is_error) = bench.call("brain", json!({}));
    assert!(is_error && told["code"] == "not_running" && told["next"].as_str().unwrap().contains("serve"), "{told}");
    for n in [1, 2] {
        let thread = daemon(bench.data.path(), vec![done(json!({"n": n}))]);
        assert_eq!(bench.call("brain", json!({})), (json!({"n": n}), false));
        assert_eq!(thread.join().unwrap().len(), 1);
    }
    assert!(bench.call("brain", json!({})).1);
}

#[test]
fn files_and_git_are_the_developers_own() {
    let bench = bench();
    let export = json!({"version": 1, "format": "wt-memory-export", "project": "api", "exported_at": "", "count": 1,
                        "records": [{"id": "1", "content": "x", "experience_type": "Learning"}]});
    std::fs::write(bench.project.path().join("all.json"), export.to_string()).unwrap();
    let answer = json!({"imported": 1, "skipped": 0, "errors": 0});
    let thread = daemon(bench.data.path(), vec![done(answer.clone())]);
    assert_eq!(bench.call("import_memories", json!({"file_path": "all.json"})), (answer, false));
    assert_eq!(thread.join().unwrap()[0].args["export"]["records"][0]["id"], "1");
    for (tool, args, code) in [
        ("import_memories", json!({"file_path": "none.json"}), "file"),
        ("import_memories", json!({}), "usage"),
        ("import_memories", json!({"file_path": "all.json", "force": true}), "usage"),
        ("sync_status", json!({}), "sync"),
    ] {
        let (told, is_error) = bench.call(tool, args);
        assert!(is_error && told["code"] == code, "{tool}: {told}");
    }
}

#[test]
fn each_tool_is_listed_with_a_schema() {
    for tool in tool::all() {
        let listed = serde_json::to_value(listed(&tool)).unwrap();
        assert_eq!(listed["inputSchema"]["type"], "object", "{listed}");
        assert_eq!(listed["annotations"]["readOnlyHint"], json!(!tool.writes), "{listed}");
    }
}
