//! As root every session's child is somebody whom nothing else on the machine is.

use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use crate::support::{Household, eventually, model};
use what_was_left_out::left_out;

/// The children of this household, as their directories in `/proc`.
fn children(household: &Household) -> Vec<PathBuf> {
    let work = household.data().join("work").to_string_lossy().into_owned();
    let all = std::fs::read_dir("/proc").expect("proc").flatten().map(|entry| entry.path());
    let ours = |path: &PathBuf| {
        let environment = std::fs::read(path.join("environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(&work)
    };
    all.filter(ours).collect()
}

fn uid(process: &Path) -> u32 {
    let status = std::fs::read_to_string(process.join("status")).expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:")).expect("its user");
    line.split_whitespace().next().and_then(|uid| uid.parse().ok()).expect("a number")
}

/// Whether a program that runs as this user reads what is in this file.
fn reads(uid: u32, file: &Path) -> bool {
    // As root the standard library drops the supplementary groups with the user.
    let cat = Command::new("/bin/cat").arg(file).uid(uid).gid(uid).stderr(Stdio::null()).output();
    !cat.expect("cat runs").stdout.is_empty()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_neighbour_reads_the_token_of_a_session() {
    if !nix::unistd::geteuid().is_root() {
        return left_out("no_neighbour_reads_the_token_of_a_session", "only root gives children another user");
    }
    let model = model(json!([{"when": "wait", "steps": [{"hang": true}]}])).await;
    let household = Household::few_with_model(&model).with_tally(2);
    let daemon = household.start().await;
    let sessions: Vec<_> = (0..2)
        .map(|_| {
            let tally = daemon.mcp("tally");
            tokio::spawn(async move { tally.call("trigger", json!({"prompt": "wait for it"})).await })
        })
        .collect();
    model.wait_for(|seen| seen.len() == 2).await;
    let both = eventually("two children", || async {
        let found = children(&household);
        if found.len() == 2 { Ok(found) } else { Err(format!("{found:?}")) }
    })
    .await;
    let (one, other) = (uid(&both[0]), uid(&both[1]));
    assert_ne!(one, other, "each session has a user of its own");
    let nobody = 65_534;
    let database = std::fs::metadata(household.data().join("postgres")).expect("the database").uid();
    for user in [one, other] {
        assert!(![0, nobody, database].contains(&user), "{user}");
        let known = nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(user)).expect("a look-up");
        assert!(known.is_none(), "{user} is {known:?}");
    }
    for (process, own, neighbour) in [(&both[0], one, other), (&both[1], other, one)] {
        let environment = process.join("environ");
        assert!(reads(own, &environment), "the measure itself: its own user can");
        for user in [nobody, database, neighbour] {
            assert!(!reads(user, &environment), "user {user} reads the token of a session of user {own}");
        }
    }
    let (code, out, err) = household.cli(&["doctor", "--json"]);
    assert!(out.contains("a user of each session's own"), "{code} {out}{err}");
    for session in sessions {
        session.abort();
    }
}
