//! Days on which both sides are edited at random, with kills and lost answers: at the end both are equal, nothing is
//! doubled, and nothing that anybody wrote is lost without a word.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use super::faults::{FaultyRemote, FaultyStore, Fuse, until_killed};
use super::memory::MemoryStore;
use super::random::Random;
use super::simulated::{Habits, Simulated};
use crate::sync::{ConflictKind, Options, Report, sync};
use crate::uid;

/// What is edited; each edit writes a word that is nowhere else.
const FIELDS: [&str; 4] = ["SUMMARY", "LOCATION", "DESCRIPTION", "DTSTART"];
/// More items than this are rather deleted than added to.
const CROWD: usize = 40;

/// Both sides, and what is true of them.
struct World {
    store: MemoryStore,
    server: Simulated,
    book: Mutex<Book>,
}

struct Book {
    random: Random,
    words: usize,
    items: usize,
    /// Words that somebody wrote over or deleted who had seen them.
    superseded: BTreeSet<String>,
    made: BTreeSet<String>,
    deleted: BTreeSet<String>,
    /// Deleted at the server while nobody here had heard that a new item arrived there: it may come again.
    unsure: BTreeSet<String>,
}

impl Book {
    fn word(&mut self) -> String {
        self.words += 1;
        format!("w{}w", self.words)
    }

    fn new_item(&mut self, uid: &str) -> Vec<u8> {
        let lines: String = FIELDS.iter().map(|field| format!("{field}:{}\r\n", self.word())).collect();
        self.made.insert(uid.to_owned());
        let text = "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nX-KEPT;A=\"b:c\":as\r\n  it is\r\nUID:";
        format!("{text}{uid}\r\n{lines}END:VEVENT\r\nEND:VCALENDAR\r\n").into_bytes()
    }

    fn edited(&mut self, bytes: &[u8]) -> Vec<u8> {
        let field = FIELDS[self.random.below(FIELDS.len())];
        let word = self.word();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let (head, rest) = text.split_once(&format!("\n{field}:")).unwrap();
        let (old, tail) = rest.split_once("\r\n").unwrap();
        self.superseded.insert(old.to_owned());
        format!("{head}\n{field}:{word}\r\n{tail}").into_bytes()
    }

    fn deletes(&mut self, bytes: &[u8]) {
        self.superseded.extend(words(bytes));
        self.deleted.extend(uid(bytes));
    }
}

fn words(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.filter(|(name, _)| FIELDS.contains(name)).map(|(_, value)| value.to_owned()).collect()
}

impl World {
    fn new(habits: Habits, seed: u64) -> Self {
        let book = Book {
            random: Random::new(seed),
            words: 0,
            items: 0,
            superseded: BTreeSet::new(),
            made: BTreeSet::new(),
            deleted: BTreeSet::new(),
            unsure: BTreeSet::new(),
        };
        Self { store: MemoryStore::default(), server: Simulated::new(habits), book: Mutex::new(book) }
    }

    fn chance(&self, percent: usize) -> bool {
        self.book.lock().unwrap().random.percent(percent)
    }

    fn below(&self, n: usize) -> usize {
        self.book.lock().unwrap().random.below(n)
    }

    /// The house does something.
    fn here(&self) {
        let mut book = self.book.lock().unwrap();
        let shown = self.store.shown();
        let (what, crowd) = (book.random.below(100), if shown.len() > CROWD { 5 } else { 30 });
        match book.random.of(&shown).cloned() {
            Some((id, bytes)) if what >= crowd && what < 80 => self.store.edit(id, Some(book.edited(&bytes))),
            Some((id, bytes)) if what >= 80 => {
                book.deletes(&bytes);
                // What another program made with the same UID was not meant, as long as nobody here has seen it.
                let uid = uid(&bytes).unwrap();
                let seen = self.store.state().items.iter().any(|item| item.id == id && item.base.is_some());
                let others = self.server.state().others_with(&bytes);
                if !seen && others {
                    book.unsure.insert(uid);
                }
                self.store.edit(id, None);
            }
            _ => {
                book.items += 1;
                let uid = format!("u{}", book.items);
                let bytes = book.new_item(&uid);
                self.store.add(bytes);
            }
        }
    }

    /// Another program does something at the server.
    fn there(&self) {
        let mut book = self.book.lock().unwrap();
        let mut server = self.server.state();
        let all: Vec<(String, Vec<u8>)> = server.items.iter().map(|(href, (_, b))| (href.clone(), b.clone())).collect();
        let (what, crowd) = (book.random.below(100), if all.len() > CROWD { 5 } else { 30 });
        match book.random.of(&all).cloned() {
            Some((href, bytes)) if what >= crowd && what < 80 => server.write(&href, Some(book.edited(&bytes))),
            Some((href, bytes)) if what >= 80 => {
                book.deletes(&bytes);
                let uid = uid(&bytes).unwrap();
                let known = |item: &crate::sync::Item| item.base.is_some() && item.uid.as_ref() == Some(&uid);
                if !self.store.state().items.iter().any(known) {
                    book.unsure.insert(uid);
                }
                server.write(&href, None);
            }
            _ => {
                // Sometimes what the house has just made as well, such as an invitation that came to both.
                let new =
                    self.store.state().items.iter().filter(|item| item.base.is_none()).find_map(|i| i.uid.clone());
                let taken = |name: &String| all.iter().any(|(_, bytes)| uid(bytes).as_ref() == Some(name));
                let same = new.filter(|name| book.random.percent(30) && !taken(name) && !book.deleted.contains(name));
                book.items += 1;
                let uid = same.unwrap_or_else(|| format!("u{}", book.items));
                let bytes = book.new_item(&uid);
                let href = format!("/c/other-{}", book.items);
                server.write(&href, Some(bytes));
            }
        }
    }

    async fn run(&self, fuse: &Fuse<'_>, options: Options) -> Option<Result<Report, String>> {
        let remote = FaultyRemote { inner: &self.server, fuse };
        let store = FaultyStore { inner: &self.store, fuse };
        let run = async { sync(&remote, &store, options).await.map_err(|e| e.to_string()) };
        let done = until_killed(run, fuse).await;
        if let Some(Ok(Report { held: Some(_), .. })) = done {
            return None;
        }
        done
    }

    async fn day(&self) {
        for _ in 0..self.below(4) {
            if self.chance(50) { self.here() } else { self.there() }
        }
        if self.chance(5) {
            self.server.state().expire();
        }
        for _ in 0..=self.below(3) {
            let kill = self.chance(40).then(|| self.below(30));
            let lost = if self.chance(40) { 20 } else { 0 };
            let busy = self.chance(50);
            let meanwhile = || {
                if busy && self.chance(10) {
                    if self.chance(50) { self.here() } else { self.there() }
                }
            };
            let fuse = Fuse::new(kill, lost, self.below(1 << 30) as u64).with(&meanwhile);
            // A household that saw what is missing says that it is right.
            let options = Options { believe_mass_deletion: true, ..Options::default() };
            self.run(&fuse, options).await;
        }
    }

    /// A list that is empty by mistake removes nothing.
    async fn blank_list(&self) {
        let known = self.store.state().items.iter().filter(|item| item.base.is_some()).count();
        if known < 3 || self.store.is_pending() {
            return;
        }
        let before = self.store.shown();
        self.server.state().expire();
        self.server.state().blank = true;
        let report = sync(&self.server, &self.store, Options::default()).await.unwrap();
        assert!(report.held.is_some_and(|held| held.missing == known && held.known == known), "{report:?}");
        assert_eq!(self.store.shown(), before);
        self.server.state().blank = false;
    }

    /// Lets both sides come to rest, and compares them.
    async fn rest(&self) {
        let options = Options { believe_mass_deletion: true, ..Options::default() };
        for _ in 0..6 {
            let report = sync(&self.server, &self.store, options).await.unwrap();
            assert!(report.refused.is_empty() && report.unreadable.is_empty(), "{report:?}");
        }
        assert!(!self.store.is_pending(), "{:#?}", self.store.state().items);
        let sorted = |mut all: Vec<String>| {
            all.sort();
            all
        };
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let here = sorted(self.store.shown().iter().map(|(_, bytes)| text(bytes)).collect());
        let there = sorted(self.server.state().items.values().map(|(_, bytes)| text(bytes)).collect());
        assert_eq!(here, there);
        let mut uids = BTreeMap::new();
        here.iter().for_each(|bytes| *uids.entry(uid(bytes.as_bytes()).unwrap()).or_insert(0) += 1);
        assert!(uids.values().all(|n| *n == 1), "doubled: {uids:?}");
        self.nothing_is_lost(&uids, &here);
    }

    fn nothing_is_lost(&self, uids: &BTreeMap<String, i32>, here: &[String]) {
        let (book, state) = (self.book.lock().unwrap(), self.store.state());
        let mut kept: BTreeSet<String> = here.iter().flat_map(|text| words(text.as_bytes())).collect();
        for conflict in &state.conflicts {
            [&conflict.ours, &conflict.theirs].iter().filter_map(|b| b.as_ref()).for_each(|b| kept.extend(words(b)));
        }
        for n in 1..=book.words {
            let word = format!("w{n}w");
            assert!(kept.contains(&word) || book.superseded.contains(&word), "{word} is lost");
        }
        for text in here {
            assert!(text.contains("X-KEPT;A=\"b:c\":as\r\n  it is\r\n"), "bytes that nobody touched changed: {text}");
        }
        let on_record: BTreeSet<&String> =
            state.conflicts.iter().filter_map(|conflict| conflict.uid.as_ref()).collect();
        for uid in &book.made {
            match (uids.contains_key(uid), book.deleted.contains(uid)) {
                (true, true) => {
                    let known = on_record.contains(uid) || book.unsure.contains(uid);
                    assert!(known, "{uid} was deleted, and is there without a conflict");
                }
                (false, false) => panic!("{uid} is gone, and nobody deleted it"),
                _ => {}
            }
        }
        for (n, conflict) in state.conflicts.iter().enumerate() {
            assert!(!state.conflicts[..n].contains(conflict), "recorded twice: {conflict:?}");
        }
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[tokio::test]
async fn both_sides_are_equal_after_many_days() {
    let (days, seed) = (number("DAV_DAYS", 100), number("DAV_SEED", u64::from(std::process::id())));
    println!("DAV_SEED={seed} DAV_DAYS={days}");
    let mut sums = BTreeMap::new();
    for (n, (tokens, etags, rewrites, page, twice)) in [
        (true, true, false, 7, Some(3)),
        (true, false, true, 50, None),
        (true, true, true, 3, Some(2)),
        (false, true, true, 50, Some(4)),
        (false, false, false, 5, None),
    ]
    .into_iter()
    .enumerate()
    {
        let habits = Habits { tokens, etags, rewrites, page, twice };
        println!("{habits:?}");
        let world = World::new(habits, seed + n as u64);
        for day in 0..days {
            world.day().await;
            if world.chance(10) || day + 1 == days {
                world.rest().await;
                world.blank_list().await;
                world.rest().await;
            }
        }
        for conflict in &world.store.state().conflicts {
            *sums.entry(format!("{:?}", conflict.kind)).or_insert(0) += 1;
        }
        let (items, book) = (world.store.shown().len(), world.book.lock().unwrap());
        println!("{items} items of {}, {} words, conflicts so far {sums:?}", book.items, book.words);
    }
}

#[tokio::test]
async fn edits_one_after_the_other_are_no_conflicts() {
    for (tokens, etags, rewrites) in
        [(true, true, true), (true, false, false), (false, true, true), (false, false, true)]
    {
        let world = World::new(Habits { tokens, etags, rewrites, page: 10, twice: None }, 7);
        for n in 0..300 {
            if n % 2 == 0 {
                world.here()
            } else {
                world.there()
            }
            sync(&world.server, &world.store, Options::default()).await.unwrap();
            assert!(!world.store.is_pending());
        }
        assert_eq!(world.store.state().conflicts, []);
        world.rest().await;
    }
}

#[tokio::test]
async fn each_instant_of_one_run_may_be_its_last() {
    // A new item, an edit of both sides, a deletion: killed before and behind each step.
    for kill in 0..200 {
        let world = World::new(
            Habits { tokens: true, etags: kill % 2 == 0, rewrites: kill % 3 == 0, page: 10, twice: None },
            kill,
        );
        (0..6).for_each(|_| world.there());
        sync(&world.server, &world.store, Options::default()).await.unwrap();
        (0..4).for_each(|_| world.here());
        (0..3).for_each(|_| world.there());
        let fuse = Fuse::new(Some(kill as usize), 0, kill);
        let done = world.run(&fuse, Options::default()).await;
        world.rest().await;
        if done.is_some() {
            assert!(kill > 10, "a run has more steps than {kill}");
            return;
        }
    }
    panic!("a run has no end");
}

/// Whoever sends something newer instead may find the older at the server in the end: the first request may still be
/// under way.
#[tokio::test]
async fn what_was_sent_and_not_answered_is_sent_again_unchanged() {
    let world = World::new(Habits { tokens: true, etags: true, rewrites: false, page: 10, twice: None }, 3);
    let first = world.book.lock().unwrap().new_item("mine");
    let second = world.book.lock().unwrap().edited(&first);
    world.store.add(second.clone());
    {
        let item = &mut world.store.state().items[0];
        (item.href, item.sent) = (Some("/c/made".into()), Some(first.clone()));
    }
    sync(&world.server, &world.store, Options::default()).await.unwrap();
    sync(&world.server, &world.store, Options::default()).await.unwrap();
    let made = "/c/made".to_owned();
    assert_eq!(world.server.state().puts, [(made.clone(), first), (made, second)]);
    world.rest().await;
}

#[tokio::test]
async fn what_is_read_only_waits() {
    let world = World::new(Habits { tokens: true, etags: true, rewrites: false, page: 10, twice: None }, 1);
    world.there();
    world.store.add(world.book.lock().unwrap().new_item("mine"));
    let options = Options { read_only: true, ..Options::default() };
    let report = sync(&world.server, &world.store, options).await.unwrap();
    assert_eq!((report.pulled, report.pushed, world.server.state().items.len()), (1, 0, 1));
    assert!(world.store.is_pending());
    world.rest().await;
    assert_eq!(world.server.state().items.len(), 2);
    assert!(!world.store.state().conflicts.iter().any(|conflict| conflict.kind == ConflictKind::Merged));
}
