//! What a Stop sends, how often, and from where on.

use super::*;
use crate::hook::stop::{MOST_AT_ONCE, MOST_OF_A_SESSION};

const FIX: &str = include_str!("fix.jsonl");
const REPORT: &str = include_str!("report.jsonl");

/// A session with a transcript.
struct Session {
    home: tempfile::TempDir,
    transcript: std::path::PathBuf,
}

impl Session {
    fn new(text: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let transcript = home.path().join("5f0c3c1e.jsonl");
        std::fs::write(&transcript, text).unwrap();
        Self { home, transcript }
    }

    fn write(&self, text: &str) {
        let before = std::fs::read_to_string(&self.transcript).unwrap();
        std::fs::write(&self.transcript, before + text).unwrap();
    }

    fn input(&self, more: &Value) -> String {
        let mut all = json!({"session_id": "5f0c3c1e", "transcript_path": self.transcript, "hook_event_name": "Stop",
            "stop_hook_active": false, "background_tasks": [], "session_crons": []});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all.to_string()
    }

    fn stop_with(&self, more: &Value, daemon: &mut Played) -> HookRun {
        let said = hook_in(self.home.path(), "Stop", &self.input(more), &no_rules, daemon);
        assert_eq!(said.line, None, "Stop says nothing");
        said
    }

    fn stop(&self) -> Vec<String> {
        let mut daemon = Played::default();
        self.stop_with(&json!({}), &mut daemon).outcome.unwrap();
        daemon.remembered()
    }
}

fn says(text: &str) -> String {
    json!({"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": text}]}})
        .to_string()
        + "\n"
}

/// A learning that shares few words with the others.
fn learning(n: usize) -> String {
    let words =
        ["alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliet", "kilo", "lima"];
    let (a, b) = (words[n % 12], words[(n / 12 + n * 5 + 1) % 12]);
    format!("The root cause was that `{a}{n}.rs` {b}{n} held {a}{n}lock before {b}{n}lock{n} opened.")
}

#[test]
fn memories_are_sent_with_type_and_tags() {
    let session = Session::new(FIX);
    let mut daemon = Played::default();
    session.stop_with(&json!({}), &mut daemon).outcome.unwrap();
    assert_eq!(daemon.ops(), ["remember", "remember"]);
    let (_, args) = &daemon.asked[0];
    assert_eq!((&args["type"], &args["tags"]), (&json!("Learning"), &json!(["auto", "source:stop-hook"])));
    assert!(args["content"].as_str().unwrap().starts_with("Root cause: `sync_channel(16)`"));
}

#[test]
fn only_what_is_new_is_read() {
    let session = Session::new(FIX);
    assert_eq!(session.stop().len(), 2);
    assert_eq!(session.stop(), [] as [&str; 0]);
    let (whole, half) = (says(&learning(1)), says(&learning(2)));
    session.write(&(whole + &half[..half.len() - 9]));
    assert_eq!(session.stop(), [learning(1)]);
    session.write(&half[half.len() - 9..]);
    assert_eq!(session.stop(), [learning(2)]);
    // The same words again, later: they were sent already.
    session.write(&says(&learning(1)));
    assert_eq!(session.stop(), [] as [&str; 0]);
}

#[test]
fn few_are_sent_at_once_and_of_a_session() {
    let session = Session::new(REPORT);
    assert_eq!(session.stop().len(), MOST_AT_ONCE);
    let mut all = MOST_AT_ONCE;
    for n in 0..10 {
        session.write(&(0..4).map(|m| says(&learning(n * 4 + m))).collect::<String>());
        all += session.stop().len();
    }
    assert_eq!(all, MOST_OF_A_SESSION);
}

#[test]
fn the_last_message_counts_before_the_transcript_has_it() {
    let session = Session::new("");
    let last = json!({"last_assistant_message": learning(1)});
    let mut daemon = Played::default();
    session.stop_with(&last, &mut daemon).outcome.unwrap();
    assert_eq!(daemon.remembered(), [learning(1)]);
    session.write(&says(&learning(1)));
    assert_eq!(session.stop(), [] as [&str; 0]);
}

#[test]
fn what_could_not_be_sent_is_sent_the_next_time() {
    let session = Session::new(FIX);
    let mut daemon = Played { failures: [None, Some(away())].into(), ..Played::default() };
    session.stop_with(&json!({}), &mut daemon).outcome.unwrap_err();
    let second = daemon.remembered().pop().unwrap();
    let mut daemon = Played { failures: [Some(refused("unavailable"))].into(), ..Played::default() };
    session.stop_with(&json!({}), &mut daemon).outcome.unwrap_err();
    assert_eq!(session.stop(), [second]);
    assert_eq!(session.stop(), [] as [&str; 0]);
}

#[test]
fn what_the_daemon_does_not_want_is_not_sent_again() {
    let session = Session::new(FIX);
    let mut daemon = Played { failures: [Some(refused("not_remembered"))].into(), ..Played::default() };
    session.stop_with(&json!({}), &mut daemon).outcome.unwrap();
    assert_eq!(daemon.ops().len(), 2);
    assert_eq!(session.stop(), [] as [&str; 0]);
}

#[test]
fn what_a_session_was_shown_before_is_known_at_its_next_stop() {
    let shown = json!({"type": "attachment", "attachment": {"type": "hook_additional_context",
        "content": [format!("=== PROJECT MEMORY (x) ===\n- [0193c5a1] {} (Learning, 2026-11-03)\n=== END ===", learning(1))]}});
    let session = Session::new(&(shown.to_string() + "\n" + &says("Nothing to say.")));
    assert_eq!(session.stop(), [] as [&str; 0]);
    session.write(&says(&learning(1)));
    assert_eq!(session.stop(), [] as [&str; 0]);
}

#[test]
fn sessions_keep_apart_how_far_they_were_read() {
    let session = Session::new(FIX);
    assert_eq!(session.stop().len(), 2);
    let mut daemon = Played::default();
    session.stop_with(&json!({"session_id": "another"}), &mut daemon).outcome.unwrap();
    assert_eq!(daemon.remembered().len(), 2);
    let files = session.home.path().join("state/transcripts");
    let names = std::fs::read_dir(files).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut kept: Vec<String> = names.filter(|name| name.ends_with(".json")).collect();
    kept.sort();
    assert_eq!(kept.len(), 2, "{kept:?}");
    assert!(kept.iter().all(|name| name.len() == 32 + ".json".len() && !name.contains("5f0c3c1e")), "{kept:?}");
}

#[test]
fn two_stops_of_a_session_do_not_send_the_same() {
    let session = Session::new(FIX);
    assert_eq!(session.stop().len(), 2);
    session.write(&says(&learning(1)));
    let state = StateDirectory::at(&session.home.path().join("state"));
    let folder = std::fs::read_dir(state.path("transcripts")).unwrap();
    let names = folder.map(|file| file.unwrap().file_name().into_string().unwrap());
    let lock = names.filter(|name| name.ends_with(".lock")).collect::<Vec<_>>().concat();
    let held = state.lock(&format!("transcripts/{lock}")).unwrap();
    assert_eq!(session.stop(), [] as [&str; 0]);
    drop(held);
    assert_eq!(session.stop(), [learning(1)]);
}

#[test]
fn without_time_nothing_is_asked() {
    let session = Session::new(FIX);
    let state = StateDirectory::at(&session.home.path().join("state"));
    let input = Input::read(&session.input(&json!({}))).unwrap();
    let until = Instant::now();
    let around = Surroundings { top: session.home.path(), name: "api", rules: &no_rules, until, state: Some(&state) };
    let mut daemon = Played::default();
    crate::hook::stop::store(&input, &around, &mut daemon).unwrap_err();
    assert_eq!(daemon.ops(), [] as [&str; 0]);
    assert_eq!(session.stop().len(), 2);
}

#[test]
fn a_missing_transcript_is_a_miss() {
    let session = Session::new("");
    std::fs::remove_file(&session.transcript).unwrap();
    session.stop_with(&json!({}), &mut Played::default()).outcome.unwrap_err();
    // Nothing says where it is: then the last message is all there is.
    let mut daemon = Played::default();
    let more = json!({"transcript_path": null, "session_id": null, "last_assistant_message": learning(1)});
    session.stop_with(&more, &mut daemon).outcome.unwrap();
    assert_eq!(daemon.remembered(), [learning(1)]);
}
