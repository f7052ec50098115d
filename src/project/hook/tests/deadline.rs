//! The assistant does not wait, and what was missed is counted.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use super::*;
use crate::hook::missed::read;

/// Waits for work, and counts what it missed.
fn within(
    until: Instant,
    state: Option<&StateDirectory>,
    work: impl FnOnce(&Sender<Report>) -> Result<(), HookError> + Send + 'static,
) -> Option<ProjectPart> {
    let outcome = Worker::begin("test", work).wait(until);
    if let (Some(why), Some(state)) = (outcome.missed, state) {
        missed::count(state, &why, until + Duration::from_secs(5));
    }
    outcome.text
}

/// A daemon that answers when the test ends.
struct Late(Receiver<()>);

impl Daemon for Late {
    fn ask(&mut self, _op: &str, _args: Value) -> Result<Value, ConnectionError> {
        let _ = self.0.recv();
        Err(away())
    }
}

fn state_in(home: &tempfile::TempDir) -> StateDirectory {
    StateDirectory::at(&home.path().join("butlerd"))
}

/// What the assistant's own settings allow is far more, and nobody waits for that.
#[test]
fn a_hook_has_a_tenth_of_a_second() {
    assert_eq!(crate::hook::DEADLINE, Duration::from_millis(100));
    for name in crate::hook::EVENTS {
        let most = if *name == "Stop" { Duration::from_secs(3) } else { crate::hook::DEADLINE };
        assert_eq!(Event::from_name(name).map(Event::deadline), Some(most), "{name}");
    }
}

#[test]
fn a_late_daemon_is_not_waited_for() {
    let home = tempfile::tempdir().unwrap();
    let state = state_in(&home);
    let (end, ended) = channel();
    let began = Instant::now();
    let said = within(began + Duration::from_millis(50), Some(&state), move |reports| {
        let input = Input::read("{\"prompt\": \"Deploy\", \"session_id\": \"a\"}")?;
        let until = Instant::now() + Duration::from_secs(60);
        let around = Surroundings { top: Path::new("/"), name: "api", rules: &no_rules, until, state: None };
        let event = Event::UserPromptSubmit;
        let mut daemon = Late(ended);
        let hook = Hook { event, input: &input, around: &around, daemon: &mut daemon, reports };
        hook.perform(work(event, &input))
    });
    // A busy machine may be slow, but this one would be slow for ever.
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert!(said.is_none());
    let missed = read(&state).unwrap();
    assert_eq!((missed.missed, missed.why.as_str()), (1, "the deadline came before the answer"));
    drop(end);
}

#[test]
fn what_was_said_before_the_deadline_is_printed() {
    let home = tempfile::tempdir().unwrap();
    let state = state_in(&home);
    let (end, ended) = channel::<()>();
    let (speak, spoken) = channel();
    let said = std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            within(Instant::now() + Duration::from_secs(2), Some(&state), move |reports| {
                let _ = reports.send(Report::Text(ProjectPart { text: "text".to_owned(), ..ProjectPart::default() }));
                let _ = speak.send(());
                let _ = ended.recv();
                Ok(())
            })
        });
        spoken.recv().unwrap();
        waits.join().unwrap()
    });
    assert_eq!(said.map(|part| part.text).as_deref(), Some("text"));
    assert_eq!(read(&state).unwrap().missed, 1);
    drop(end);
}

#[test]
fn a_panic_is_a_miss() {
    let home = tempfile::tempdir().unwrap();
    let state = state_in(&home);
    let until = Instant::now() + Duration::from_secs(60);
    assert!(within(until, Some(&state), |_| panic!("on purpose")).is_none());
    assert_eq!(read(&state).unwrap().why, "the hook broke off");
}

#[test]
fn an_absent_daemon_is_a_miss_and_nothing_is_said() {
    let home = tempfile::tempdir().unwrap();
    let state = state_in(&home);
    let top = Arc::new(tempfile::tempdir().unwrap());
    for event in ["SessionStart", "UserPromptSubmit", "PreCompact"] {
        let top = Arc::clone(&top);
        let said = within(Instant::now() + Duration::from_secs(60), Some(&state), move |_| {
            let mut daemon = Played { failures: [Some(away())].into(), ..Played::default() };
            let rules = |_: &str| Ok(vec!["Ask first.".to_owned()]);
            let input = "{\"prompt\": \"Deploy\", \"session_id\": \"a\"}";
            hook_in(top.path(), event, input, &rules, &mut daemon).outcome
        });
        assert!(said.is_none(), "{event}");
    }
    let missed = read(&state).unwrap();
    assert_eq!(missed.missed, 3);
    assert!(missed.why.contains("/run/butlerd/project.sock"), "{missed:?}");
    // Without a home there is nowhere to count.
    assert!(within(Instant::now() + Duration::from_secs(60), None, |_| Err(HookError::NoObject)).is_none());
}

#[test]
fn nothing_missed_is_nothing_counted() {
    let home = tempfile::tempdir().unwrap();
    let state = state_in(&home);
    assert!(within(Instant::now() + Duration::from_secs(60), Some(&state), |_| Ok(())).is_none());
    assert_eq!(read(&state), None);
    assert!(!home.path().join("butlerd").exists());
}

#[test]
fn an_unknown_event_is_silent() {
    assert!(crate::hook::run("SessionEnd", || "{}".to_owned(), None).is_none());
}
