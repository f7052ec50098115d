//! Servers with bad habits, and houses that stand in the way: one run of each.

use super::memory::MemoryStore;
use super::simulated::{Habits, Simulated};
use crate::sync::{Held, Options, Report, sync};

const PLAIN: Habits = Habits { tokens: true, etags: true, rewrites: false, page: 100, twice: None };

fn event(uid: &str, summary: &str) -> Vec<u8> {
    format!("BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nUID:{uid}\r\nSUMMARY:{summary}\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n")
        .into_bytes()
}

/// Both sides with the same items, `/c/other-0` and so on.
async fn equal(habits: Habits, items: usize) -> (Simulated, MemoryStore) {
    let (server, store) = (Simulated::new(habits), MemoryStore::default());
    for n in 0..items {
        server.state().write(&format!("/c/other-{n}"), Some(event(&format!("u{n}"), "old")));
    }
    run(&server, &store).await;
    (server, store)
}

async fn run(server: &Simulated, store: &MemoryStore) -> Report {
    sync(server, store, Options::default()).await.unwrap()
}

fn summaries(store: &MemoryStore, summary: &str) -> usize {
    let line = format!("SUMMARY:{summary}\r\n");
    store.shown().iter().filter(|(_, bytes)| String::from_utf8_lossy(bytes).contains(&line)).count()
}

#[tokio::test]
async fn what_a_list_left_out_is_taken_though_the_run_is_held() {
    let (server, store) = equal(PLAIN, 100).await;
    for n in 0..100 {
        let bytes = (n >= 60).then(|| event(&format!("u{n}"), "new"));
        server.state().write(&format!("/c/other-{n}"), bytes);
    }
    server.state().expire();
    server.state().unlisted = true;
    let cursor = store.state().cursor.clone();
    let report = run(&server, &store).await;
    assert_eq!(report.held, Some(Held { missing: 60, known: 100 }));
    assert_eq!((report.pulled, report.removed, store.shown().len(), summaries(&store, "new")), (40, 0, 100, 40));
    assert_eq!(store.state().cursor, cursor);
    let options = Options { believe_mass_deletion: true, ..Options::default() };
    let report = sync(&server, &store, options).await.unwrap();
    assert_eq!((report.held, report.removed, store.shown().len()), (None, 60, 40));
}
