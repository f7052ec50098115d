//! `kill -9` in the middle of what changes a project's memory: it is done or not done, never half, and the developer's
//! program says that it does not know.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;

use serde_json::{Value, json};

use crate::support::developer::{Developer, with_workshop};
use crate::support::tally::died;
use crate::support::{Daemon, Household, butlerd, eventually};

const TEXTS: [&str; 3] = [
    "The retry limit of the queue is five because the vendor counts calls",
    "The retry limit of the queue is five because the vendor counts each call and bills it",
    "Uses tabs",
];

fn count(developer: &Developer<'_>) -> usize {
    developer.project(&["list"]).as_array().expect("a list").len()
}

/// Has something done that dies at the point, and starts again.
async fn killed_at(household: &Household, developer: &Developer<'_>, point: &str, args: &[&str]) -> Daemon {
    let mut daemon = Household::again(household, "BUTLERD_CRASH_POINT", point).start().await;
    let out = developer.run(butlerd(), args, "");
    died(&mut daemon, point).await;
    assert_eq!(out.status.code(), Some(3), "{point} {args:?}: {}", String::from_utf8_lossy(&out.stdout));
    drop(daemon);
    household.start().await
}

/// Points in front of and behind the commit, with dedup, cleanup, import and what sync brings.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_around_the_commit_nothing_is_half_done() {
    let household = with_workshop();
    let daemon = household.start().await;
    let api = Developer::in_repository(&household, "api");
    for text in TEXTS {
        api.remember("Learning", "", text);
    }
    drop(daemon);
    for (args, before, after) in [(["project", "dedup", "--json"], 3, 2), (["project", "cleanup", "--json"], 2, 1)] {
        let daemon = killed_at(&household, &api, "project.performed", &args).await;
        assert_eq!(count(&api), before, "{args:?}");
        drop(daemon);
        let daemon = killed_at(&household, &api, "project.committed", &args).await;
        assert_eq!(count(&api), after, "{args:?}");
        assert!(!api.recalled("retry limit of the queue").is_empty(), "{args:?}: the survivor");
        drop(daemon);
    }
    let daemon = household.start().await;
    for _ in 0..2 {
        api.project(&["undo"]);
    }
    assert_eq!(count(&api), TEXTS.len(), "both runs are taken back");
    drop(daemon);

    // An import, which a pull is as well. Done again after the kill, each memory is there once.
    let file = household.path().join("brought.json");
    let record = |n: usize| {
        json!({"id": format!("6d3f6b0a-9a51-4b55-8a53-6f3c0e7c1a{n:02}"), "experience_type": "Decision",
        "content": format!("Brought memory number {n} of another machine"), "created_at": "2026-10-01T10:00:00Z"})
    };
    let records: Vec<Value> = (10..40).map(record).collect();
    let export = json!({"version": 1, "format": "wt-memory-export", "project": "api", "count": 30, "records": records,
        "exported_at": "2026-10-01T10:00:00Z"});
    std::fs::write(&file, export.to_string()).expect("the file");
    let file = file.display().to_string();
    let import = ["project", "import", &file, "--json"];
    let daemon = killed_at(&household, &api, "project.performed", &import).await;
    assert_eq!(count(&api), TEXTS.len(), "none of it is there");
    drop(daemon);
    let _daemon = killed_at(&household, &api, "project.committed", &import).await;
    assert_eq!(count(&api), TEXTS.len() + 30, "all of it is there");
    let again = api.project(&["import", &file]);
    assert_eq!((&again["imported"], &again["skipped"]), (&json!(0), &json!(30)), "{again}");
}

/// A hook that dies between the daemon's answer and its print has told nothing: a later one tells it, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_hook_did_not_print_is_told_by_a_later_one() {
    let household = with_workshop();
    let _daemon = household.start().await;
    let api = Developer::in_repository(&household, "api");
    api.remember(
        "Learning",
        "",
        "The deploy script fails when REGION is unset, because terraform falls back to us-east-1",
    );
    let prompt = "Why does the deploy script fail with the terraform region?";
    let told = || api.project(&["metrics"])["injections"].clone();
    let input = json!({"session_id": "s1", "cwd": api.at.display().to_string(),
                       "hook_event_name": "UserPromptSubmit", "prompt": prompt});
    // One that was too slow never came to its print.
    eventually("a hook dies with an answer in hand", || async {
        let mut dying = api.command(butlerd(), &["hook", "UserPromptSubmit"]);
        let mut dying = dying.env("BUTLERD_CRASH_POINT", "hook.answered").spawn().expect("it runs");
        drop(dying.stdin.take().expect("its input").write_all(input.to_string().as_bytes()));
        let out = dying.wait_with_output().expect("its end");
        assert_eq!(String::from_utf8_lossy(&out.stdout), "");
        if out.status.signal() == Some(9) { Ok(()) } else { Err(format!("{:?}", out.status)) }
    })
    .await;
    assert_eq!(told(), 0, "nothing was told");
    eventually("a later hook tells it", || async {
        let said = api.prompt("s1", prompt);
        if said.contains("us-east-1") { Ok(()) } else { Err(format!("{said:?}")) }
    })
    .await;
    eventually("the daemon hears that it was printed", || async {
        let told = told();
        if told == 1 { Ok(()) } else { Err(told.to_string()) }
    })
    .await;
    assert_eq!(api.prompt("s1", prompt), "", "it was told");
}
