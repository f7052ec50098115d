//! Servers with bad habits, and houses that stand in the way: one run of each.

use super::faults::{FaultyRemote, FaultyStore, Fuse};
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

#[tokio::test]
async fn items_that_a_server_stumbles_over_keep_no_other_away() {
    for bad in [
        // The oldest nine, and nine with others between them.
        |n: usize| n < 9,
        |n: usize| n.is_multiple_of(3) && n < 27,
    ] {
        let (server, store) = equal(PLAIN, 0).await;
        for n in 0..40 {
            store.add(event(&format!("u{n}"), if bad(n) { "odd" } else { "new" }));
        }
        let fuse = Fuse::new(None, 0, 1).stumbling("SUMMARY:odd");
        let remote = FaultyRemote { inner: &server, fuse: &fuse };
        let error = sync(&remote, &store, Options::default()).await.unwrap_err();
        assert_eq!((error.to_string().as_str(), server.state().items.len()), ("no connection", 31));
        // Once it takes them, nothing is left.
        run(&server, &store).await;
        assert_eq!((server.state().items.len(), store.is_pending()), (40, false));
    }
}

#[tokio::test]
async fn however_many_stumble_each_other_has_its_turn() {
    let (server, store) = equal(PLAIN, 0).await;
    for n in 0..30 {
        store.add(event(&format!("u{n}"), if n == 25 { "new" } else { "odd" }));
    }
    let fuse = Fuse::new(None, 0, 1).stumbling("SUMMARY:odd");
    let remote = FaultyRemote { inner: &server, fuse: &fuse };
    // Each run comes to it with a chance of one in five at least.
    for _ in 0..1_000 {
        sync(&remote, &store, Options::default()).await.unwrap_err();
        if server.state().items.len() == 1 {
            return;
        }
    }
    panic!("it has no turn");
}

#[tokio::test]
async fn a_server_that_is_away_is_left_alone() {
    let (server, store) = equal(PLAIN, 0).await;
    (0..40).for_each(|n| store.add(event(&format!("u{n}"), "odd")));
    let fuse = Fuse::new(None, 0, 1).stumbling("SUMMARY:odd");
    let remote = FaultyRemote { inner: &server, fuse: &fuse };
    sync(&remote, &store, Options::default()).await.unwrap_err();
    assert_eq!(store.state().items.iter().filter(|item| item.sent.is_some()).count(), 10);
}

#[tokio::test]
async fn an_edit_that_nobody_can_send_safely_is_named() {
    let (server, store) = equal(PLAIN, 3).await;
    server.state().nameless = true;
    server.state().expire();
    run(&server, &store).await;
    let shown = store.shown();
    store.edit(shown[0].0, Some(event("u0", "mine")));
    store.edit(shown[1].0, None);
    // A new one needs none.
    store.add(event("u3", "new"));
    for _ in 0..2 {
        let report = run(&server, &store).await;
        let named: Vec<_> = report.refused.iter().map(|(id, _)| *id).collect();
        assert_eq!(named, [shown[0].0, shown[1].0], "{report:?}");
        assert!(report.refused[0].1.contains("names no etag"), "{report:?}");
        let state = server.state();
        assert_eq!((state.items.len(), state.puts.len()), (4, 1));
    }
    // It has learned to.
    server.state().nameless = false;
    let report = run(&server, &store).await;
    assert_eq!((report.refused, report.conflicts, server.state().items.len()), (vec![], 0, 3));
    assert!(!store.is_pending());
}

#[tokio::test]
async fn what_the_house_edits_all_the_time_is_brought_again() {
    let (server, store) = equal(PLAIN, 3).await;
    let (id, _) = store.shown()[0];
    for n in 0..3 {
        server.state().write(&format!("/c/other-{n}"), (n < 2).then(|| event(&format!("u{n}"), "new")));
    }
    let before = store.state().cursor.clone();
    let shown = event("u0", "old");
    let meanwhile = || store.edit(id, Some(shown.clone()));
    let fuse = Fuse::new(None, 0, 1).with(&meanwhile);
    let busy = FaultyStore { inner: &store, fuse: &fuse };
    let options = Options { read_only: true, ..Options::default() };
    let report = sync(&server, &busy, options).await.unwrap();
    // What stood still is taken and counted.
    assert_eq!((report.pulled, report.removed, summaries(&store, "new")), (1, 1, 1));
    assert_eq!(store.state().cursor, before);
    let report = sync(&server, &store, options).await.unwrap();
    assert_eq!((report.pulled, report.removed, summaries(&store, "new")), (1, 0, 2));
    assert_ne!(store.state().cursor, before);
}

#[tokio::test]
async fn an_item_that_no_database_takes_keeps_no_other_away() {
    let (server, store) = equal(PLAIN, 2).await;
    server.state().write("/c/other-0", Some(event("u0", "a\0b")));
    server.state().write("/c/other-1", Some(event("u1", "new")));
    server.state().write("/c/other-2", Some(event("u\x002", "new")));
    let report = run(&server, &store).await;
    let hrefs: Vec<&str> = report.unreadable.iter().map(|(href, _)| href.as_str()).collect();
    assert_eq!((report.pulled, &*hrefs), (1, &["/c/other-0", "/c/other-2"][..]), "{report:?}");
    assert_eq!((summaries(&store, "new"), summaries(&store, "old")), (1, 1), "what was there before stays");
    // It is mended there.
    server.state().write("/c/other-0", Some(event("u0", "new")));
    server.state().write("/c/other-2", Some(event("u2", "new")));
    let report = run(&server, &store).await;
    assert_eq!((report.pulled, report.unreadable.len(), summaries(&store, "new")), (2, 0, 3));
}
