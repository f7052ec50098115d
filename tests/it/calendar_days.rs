//! Days on which a calendar is edited from both sides, by the tools of the real daemon and at a real Radicale by another
//! program, while requests and answers are lost on the way and the daemon is killed at every step of a sync. At rest both
//! sides have the same, no event is there twice, and all that was lost is on record.
//!
//! `CALENDAR_DAYS` (else a few) makes more of it; `just soak` has 1,000. `CALENDAR_SEED` chooses other edits; what happens
//! at the same instant is not in its hand.

mod door;
mod record;
mod there;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;

use calendar::{Object, Window};
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};

use crate::support::hostile_mail::Chance;
use crate::support::radicale::Radicale;
use crate::support::{Daemon, Household, tally};
use door::{Door, Way};
use record::{Conflict, Record, Side};
use there::{RULES, Server, There};

const BUTLER: &str = "switchboard";
const FIRST: Date = jiff::civil::date(2028, 3, 1);
/// Both sides come to rest and are compared this often.
const REST: u64 = 10;
/// More events than this are rather deleted than added to.
const CROWD: usize = 25;
/// Where the daemon dies, and the latest passage at which it does.
const POINTS: [(&str, usize); 15] = [
    ("calendar.claimed", 6),
    ("calendar.listed", 8),
    ("calendar.fetched", 4),
    ("calendar.writing", 8),
    ("calendar.written", 8),
    ("calendar.moving", 6),
    ("calendar.moved", 6),
    ("calendar.synced", 4),
    ("calendar.changed", 5),
    ("calendar.sending", 2),
    ("calendar.sent", 2),
    ("calendar.updating", 2),
    ("calendar.updated", 2),
    ("calendar.deleting", 1),
    ("calendar.deleted", 1),
];

/// The full form has so many days.
const FULL: u64 = 1000;
/// What both sides' changes of one event may come to, beside nothing.
const KINDS: [&str; 5] = ["both_created", "both_edited", "deleted_here", "deleted_there", "merged"];

/// The daemon, and where it will die.
struct Alive {
    daemon: Option<Daemon>,
    point: usize,
    kills: BTreeMap<&'static str, usize>,
}

/// An event of the household.
#[derive(Clone)]
struct Here {
    id: uuid::Uuid,
    uid: String,
    repeats: bool,
    all_day: bool,
}

/// What changes may come to: done, its event was changed or taken away by the other side meanwhile, or a series would end
/// before it begins.
const CAME_TO: [&str; 6] = ["created", "updated", "deleted", "changed", "not_found", "invalid_event"];

struct Days {
    household: Household,
    alive: Mutex<Alive>,
    db: Mutex<Arc<Client>>,
    /// The server without what stands before it.
    server: Server,
    door: Door,
    record: Mutex<Record>,
    chance: std::sync::Mutex<Chance>,
    words: std::sync::atomic::AtomicUsize,
    /// What changes of the household came to, with how many did.
    answers: std::sync::Mutex<BTreeMap<String, usize>>,
    home: TimeZone,
    today: std::sync::Mutex<Date>,
    _radicale: Radicale,
}

impl Days {
    async fn begin(radicale: Radicale, seed: u64) -> Self {
        let door = Door::before(&radicale.server.url, seed ^ 0xD00D).await;
        let household = Household::few().with_caldav(BUTLER, &radicale, "private = [\"cal\"]\n").replace(
            &format!("{BUTLER}/butler.toml"),
            &radicale.server.url,
            &door.url,
        );
        let file = household.path().join("clock").to_string_lossy().into_owned();
        let household = household.env("BUTLERD_CLOCK_FILE", &file).env("BUTLERD_OWNER__TIME_ZONE", "Europe/Berlin");
        let home = TimeZone::get("Europe/Berlin").expect("a zone");
        household.set_clock(&noon(FIRST, &home).to_string());
        let daemon = household.start().await;
        let db = household.owner().await;
        let record = Record::begin(&db).await;
        Self {
            alive: Mutex::new(Alive { daemon: Some(daemon), point: POINTS.len(), kills: BTreeMap::new() }),
            db: Mutex::new(Arc::new(db)),
            server: Server::new(&radicale.server.url),
            door,
            record: Mutex::new(record),
            chance: std::sync::Mutex::new(Chance::new(seed)),
            words: std::sync::atomic::AtomicUsize::new(0),
            answers: std::sync::Mutex::default(),
            home,
            today: std::sync::Mutex::new(FIRST),
            household,
            _radicale: radicale,
        }
    }

    fn chance<T>(&self, of: impl FnOnce(&mut Chance) -> T) -> T {
        of(&mut self.chance.lock().unwrap())
    }

    fn below(&self, end: usize) -> usize {
        self.chance(|chance| chance.below(end))
    }

    /// A word that is nowhere else.
    fn word(&self) -> String {
        format!("w{}w", self.words.fetch_add(1, std::sync::atomic::Ordering::SeqCst))
    }

    fn today(&self) -> DateTime {
        self.today.lock().unwrap().at(12, 0, 0, 0)
    }

    /// The database, which ends with the daemon that began it: whoever finds it ended begins both again.
    async fn db(&self) -> Arc<Client> {
        loop {
            let db = self.db.lock().await.clone();
            if !db.is_closed() {
                return db;
            }
            if let Some(again) = self.household.try_owner().await {
                *self.db.lock().await = Arc::new(again);
                continue;
            }
            let mut alive = self.alive.lock().await;
            if alive.daemon.as_mut().is_some_and(Daemon::ended) {
                self.again(&mut alive).await;
            }
        }
    }

    /// Rows of the database, which may end with its daemon while it is asked.
    async fn query(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Vec<Row> {
        loop {
            match self.db().await.query(sql, params).await {
                Ok(rows) => return rows,
                Err(e) if e.is_closed() || e.code() == Some(&SqlState::ADMIN_SHUTDOWN) => {
                    tokio::task::yield_now().await;
                }
                Err(e) => panic!("{sql}: {e}"),
            }
        }
    }

    /// A call of a tool. One whose answer died with the daemon is made again, under the same key.
    async fn ask(&self, tool: &str, args: &Value) -> Value {
        loop {
            let mut alive = self.alive.lock().await;
            let daemon = alive.daemon.as_ref().expect("it runs");
            if let Some(answer) = daemon.mcp(BUTLER).try_call(tool, args.clone()).await {
                let answer = answer.text();
                self.note(tool, args, &answer);
                return answer;
            }
            self.again(&mut alive).await;
        }
    }

    /// Counts what a change came to, which is nothing else than what this household may meet.
    fn note(&self, tool: &str, args: &Value, answer: &Value) {
        if args.get("request_id").is_none() {
            return;
        }
        let word = answer["code"].as_str().or(answer["status"].as_str()).unwrap_or_default();
        assert!(CAME_TO.contains(&word), "{tool} {args}: {answer}");
        *self.answers.lock().unwrap().entry(format!("{tool} {word}")).or_default() += 1;
    }

    /// Starts the daemon again, which has died at its point, and chooses the next one.
    async fn again(&self, alive: &mut Alive) {
        let mut daemon = alive.daemon.take().expect("it ran");
        let name = POINTS.get(alive.point).map_or("nothing", |(name, _)| name);
        tally::died(&mut daemon, name).await;
        *alive.kills.entry(name).or_default() += 1;
        drop(daemon);
        self.start(alive).await;
    }

    async fn start(&self, alive: &mut Alive) {
        // Each in its turn, so that the least common is among few kills as well.
        alive.point = (alive.point + 1 + 7 * usize::from(alive.point < POINTS.len())) % POINTS.len();
        let (name, latest) = POINTS[alive.point];
        let point = format!("{name}:{}", 1 + self.below(latest));
        // It may die before anybody has seen it, or right after that, and its database goes down with it.
        for point in [point.as_str(), "none"] {
            let again = Household::again(&self.household, "BUTLERD_CRASH_POINT", point);
            let daemon = Daemon::spawn(&again);
            let (mut daemon, up) =
                tokio::task::spawn_blocking(move || daemon.wait_ready_or_end()).await.expect("the wait");
            if up {
                // The one before may have taken the database with it.
                if let Some(owner) = self.household.try_owner().await {
                    alive.daemon = Some(daemon);
                    *self.db.lock().await = Arc::new(owner);
                    return;
                }
                tally::died(&mut daemon, name).await;
            }
            *alive.kills.entry(name).or_default() += 1;
        }
        panic!("a daemon without a point to die at ended");
    }

    /// Dies at any instant.
    async fn kill(&self) {
        let mut alive = self.alive.lock().await;
        let mut daemon = alive.daemon.take().expect("it runs");
        tokio::task::block_in_place(|| daemon.kill());
        drop(daemon);
        *alive.kills.entry("any instant").or_default() += 1;
        self.start(&mut alive).await;
    }

    async fn events(&self) -> Vec<Here> {
        let sql = "SELECT id, uid, repeats, convert_from(ics, 'UTF8') LIKE '%DTSTART;VALUE=DATE:%'
                   FROM shared.calendar_events ORDER BY uid";
        let of = |row: &Row| Here { id: row.get(0), uid: row.get(1), repeats: row.get(2), all_day: row.get(3) };
        self.query(sql, &[]).await.iter().map(of).collect()
    }

    fn some<T: Clone>(&self, all: &[T]) -> Option<T> {
        if all.is_empty() { None } else { Some(all[self.below(all.len())].clone()) }
    }

    /// The household does something, to this event or to any.
    async fn here(&self, uid: Option<&str>) {
        let all = self.events().await;
        let one = match uid {
            Some(uid) => all.iter().find(|event| event.uid == uid).cloned(),
            None => self.some(&all),
        };
        let (what, crowd) = (self.below(100), if all.len() > CROWD { 4 } else { 40 });
        match one {
            Some(event) if what >= crowd && what < 82 || uid.is_some() && what < 75 => self.edit(&event).await,
            Some(event) if what >= 82 || uid.is_some() => {
                let mut args = json!({"event_id": event.id, "request_id": self.word()});
                self.scoped(&event, &mut args).await;
                self.ask("calendar_delete_event", &args).await;
            }
            _ => {
                let (word, all_day) = (self.word(), self.below(4) == 0);
                let mut args = json!({"title": word, "location": format!("at {word}"), "start_at": self.when(all_day),
                                      "conflict_policy": "allow_overlap", "request_id": format!("new {word}")});
                if self.below(3) == 0 {
                    args["recurrence_rule"] = json!(self.chance(|chance| chance.one_of(&RULES).to_owned()));
                }
                let made = self.ask("calendar_create_event", &args).await;
                assert_eq!(made["status"], "created", "{made}");
            }
        }
    }

    /// A time by chance, or its day.
    fn when(&self, all_day: bool) -> String {
        let at = self.chance(|chance| there::time(chance, self.today()));
        if all_day { at.date().to_string() } else { at.to_string() }
    }

    async fn edit(&self, event: &Here) {
        let word = self.word();
        let mut args = json!({"event_id": event.id, "request_id": word, "conflict_policy": "allow_overlap"});
        match self.below(5) {
            0 => args["location"] = json!(word),
            1 => args["description"] = json!(word),
            2 => args["start_at"] = json!(self.when(event.all_day)),
            _ => args["title"] = json!(word),
        }
        self.scoped(event, &mut args).await;
        self.ask("calendar_update_event", &args).await;
    }

    /// Of a series, one time of it, or it from one time on, or all of it.
    async fn scoped(&self, event: &Here, args: &mut Value) {
        let scope = if event.repeats { self.below(3) } else { 2 };
        if scope == 2 {
            return;
        }
        let seen = self.ask("calendar_get_event", &json!({"event_id": event.id})).await;
        let coming = seen["next_instances"].as_array().cloned().unwrap_or_default();
        let Some(one) = self.some(&coming) else { return };
        args["recurrence_scope"] = json!(["this", "following"][scope]);
        args["instance_start_at"] = one["instance_start_at"].clone();
        if args.get("start_at").is_some() {
            // An hour or so later, on that day; or a day later, or two.
            let (start, later) = (one["start_at"].as_str().expect("a time"), self.below(120));
            args["start_at"] = json!(match start.parse::<Timestamp>() {
                Ok(at) => (at + SignedDuration::from_mins(30 + i64::try_from(later).expect("minutes"))).to_string(),
                Err(_) => {
                    let day: Date = start.parse().expect("a day");
                    let days = if later < 60 { 1 } else { 2 };
                    day.saturating_add(jiff::Span::new().days(days)).to_string()
                }
            });
        }
    }

    /// The other program does something, to this event or to any.
    async fn there(&self, uid: Option<&str>) {
        let all = self.server.all().await;
        let one = match uid {
            Some(uid) => all.iter().find(|item| record::uid(&item.bytes) == uid).cloned(),
            None => self.some(&all),
        };
        let (what, crowd) = (self.below(100), if all.len() > CROWD { 4 } else { 40 });
        match one {
            Some(item) if what >= crowd && what < 82 || uid.is_some() && what < 75 => self.put(&item).await,
            Some(item) if what >= 82 || uid.is_some() => {
                let uid = record::uid(&item.bytes);
                let sql = "SELECT EXISTS (SELECT 1 FROM shared.calendar_items WHERE uid = $1 AND base IS NOT NULL)";
                let known: bool = self.query(sql, &[&uid]).await[0].get(0);
                if self.server.delete(&item).await {
                    let mut record = self.record.lock().await;
                    record.there.note(Some(&item.bytes), None);
                    if !known {
                        record.unsure.insert(uid);
                    }
                }
            }
            _ => {
                let word = self.word();
                let uid = self.uid(&word, &all).await;
                let bytes = self.chance(|chance| there::new(chance, &uid, &word, self.today()));
                if self.server.create(&word, bytes.clone()).await {
                    self.record.lock().await.there.note(None, Some(&bytes));
                }
            }
        }
    }

    /// The UID of a new event of the other program: sometimes of one that the household has just made as well, such as an
    /// invitation that came to both.
    async fn uid(&self, word: &str, all: &[There]) -> String {
        let sql = "SELECT e.uid FROM shared.calendar_items i JOIN shared.calendar_events e USING (tenant_id, id)
                   WHERE i.base IS NULL AND i.sent IS NULL ORDER BY i.made_at LIMIT 1";
        let new = self.query(sql, &[]).await.first().map(|row| row.get::<_, String>(0));
        let taken = |uid: &String| all.iter().any(|item| record::uid(&item.bytes) == *uid);
        match new.filter(|uid| !taken(uid) && self.below(2) == 0) {
            Some(uid) => {
                // Whoever deletes it here may not have seen that it is there as well.
                self.record.lock().await.unsure.insert(uid.clone());
                uid
            }
            None => format!("u{word}"),
        }
    }

    async fn put(&self, item: &There) {
        let word = self.word();
        let at = (self.today(), &self.home);
        let bytes = self.chance(|chance| there::changed(chance, &item.bytes, &word, at));
        if self.server.put(item, bytes.clone()).await {
            self.record.lock().await.there.note(Some(&item.bytes), Some(&bytes));
        }
    }

    async fn day(&self) {
        // On some days nothing gets through until the evening.
        self.door.shut(self.below(3) == 0);
        for _ in 0..1 + self.below(4) {
            match self.below(2) {
                0 => self.here(None).await,
                _ => self.there(None).await,
            }
        }
        if self.below(2) == 0
            && let Some(one) = self.some(&self.events().await)
        {
            let uid = Some(one.uid.as_str());
            tokio::join!(self.here(uid), self.there(uid));
        }
        self.door.shut(false);
        if self.below(20) == 0 {
            let sql = "UPDATE shared.calendar_cursors SET sync_token = 'token:http://radicale.org/ns/sync/0' WHERE sync_token IS NOT NULL";
            self.query(sql, &[]).await;
        }
        if self.below(25) == 0 {
            self.kill().await;
        }
        for _ in 0..=self.below(2) {
            let state = self.ask("calendar_force_sync", &json!({})).await;
            let error = state["calendars"][0]["error"].as_str().unwrap_or_default();
            assert!(!error.contains("--accept-deletions"), "nobody deleted as much as this: {state}");
        }
    }

    /// Lets both sides come to rest, and compares them.
    async fn rest(&self) {
        self.door.bad(false);
        let mut quiet = 0;
        for _ in 0..40 {
            let state = self.ask("calendar_force_sync", &json!({})).await;
            let one = &state["calendars"][0];
            let done = one["state"] == "synced" && one["changes_waiting"] == 0 && one["error"].is_null();
            quiet = if done { quiet + 1 } else { 0 };
            if quiet == 2 {
                break;
            }
        }
        if quiet < 2 {
            let sql = "SELECT coalesce(convert_from(e.ics, 'UTF8'), '-') || coalesce(convert_from(i.base, 'UTF8'), '-')
                       FROM shared.calendar_items i LEFT JOIN shared.calendar_events e USING (tenant_id, id) WHERE i.pending";
            let waits = self.query(sql, &[]).await;
            let waits: Vec<String> = waits.iter().map(|row| row.get(0)).collect();
            let state = self.ask("calendar_force_sync", &json!({})).await;
            panic!("no rest: {state}\n{}", waits.join("\n"));
        }
        let mut record = self.record.lock().await;
        record.read(&*self.db().await).await;
        let there = self.server.all().await;
        self.both_are_equal(&there).await;
        self.lists_are_right(&there).await;
        let now: Vec<Vec<u8>> = there.iter().map(|item| item.bytes.clone()).collect();
        record.judge(&now, &Conflict::all(&*self.db().await).await);
        self.door.bad(true);
    }

    /// Each item of the server is one event here, in the same bytes, and there are no others.
    async fn both_are_equal(&self, there: &[There]) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace("\r\n", "\n");
        let sql =
            "SELECT i.href, coalesce(i.etag, ''), e.ics, i.base, i.sent IS NULL AND NOT i.pending AND NOT i.reread
                   FROM shared.calendar_items i FULL JOIN shared.calendar_events e USING (tenant_id, id)";
        let mut here = BTreeMap::new();
        for row in self.query(sql, &[]).await {
            let href: String = row.get::<_, Option<String>>(0).expect("an event without its item");
            let ics: Vec<u8> = row.get::<_, Option<Vec<u8>>>(2).unwrap_or_else(|| panic!("{href} has no event"));
            assert_eq!(row.get::<_, Option<Vec<u8>>>(3).as_deref(), Some(ics.as_slice()), "{href} waits");
            assert_eq!(row.get::<_, Option<bool>>(4), Some(true), "{href} waits");
            let double = here.insert(href.clone(), (row.get::<_, String>(1), text(&ics)));
            assert!(double.is_none(), "{href} is there twice");
        }
        let there: BTreeMap<String, (String, String)> =
            there.iter().map(|item| (item.href.clone(), (item.etag.clone(), text(&item.bytes)))).collect();
        assert_eq!(here, there, "both sides");
    }

    /// What the tools list is what the server's items say.
    async fn lists_are_right(&self, there: &[There]) {
        let today = *self.today.lock().unwrap();
        let day = |days: i64| today.saturating_add(jiff::Span::new().days(days));
        let (from, to) = (day(-20), day(30));
        let window = json!({"start_at": from.to_string(), "end_at": to.to_string(), "limit": 500});
        let listed = self.ask("calendar_list_events", &window).await;
        assert_eq!(listed["more"], false, "too many to compare");
        let shown = |event: &Value| format!("{} {} {}", event["start_at"], event["end_at"], event["title"]);
        let mut here: Vec<String> = listed["events"].as_array().expect("a list").iter().map(shown).collect();
        let midnight = |date: Date| date.to_zoned(self.home.clone()).expect("a time").timestamp();
        let window = Window::new(midnight(from), midnight(to)).expect("a window");
        let mut wanted = Vec::new();
        for item in there {
            let object = Object::read(&item.bytes).expect("an event");
            for one in object.instances(window, &self.home).expect("its times") {
                let (start, end) = (one.start.shown(&self.home), one.end.shown(&self.home));
                wanted.push(shown(&json!({"start_at": start, "end_at": end, "title": object.events[one.event].title})));
            }
        }
        here.sort();
        wanted.sort();
        assert_eq!(here, wanted, "what takes place");
    }
}

/// Fails unless the days had what they are for. A short form has what no chance leaves out; the full one a kill at each point,
/// each way in which requests and answers are lost, and each kind of conflict.
fn had_all(
    count: u64,
    kills: &BTreeMap<&'static str, usize>,
    went: &BTreeMap<Way, usize>,
    kinds: &BTreeMap<String, usize>,
) {
    assert!(kills.contains_key("any instant"), "no daemon was killed: {kills:?}");
    assert!(went.contains_key(&Way::Answered) && went.len() > 1, "nothing was lost: {went:?}");
    if count < FULL {
        return;
    }
    let points = POINTS.iter().map(|(name, _)| *name).filter(|name| !kills.contains_key(name));
    let mut lacks: Vec<String> = points.map(str::to_owned).collect();
    lacks.extend(Way::ALL.into_iter().filter(|way| !went.contains_key(way)).map(|way| format!("{way:?}")));
    lacks.extend(KINDS.into_iter().filter(|kind| !kinds.contains_key(*kind)).map(str::to_owned));
    assert!(lacks.is_empty(), "{count} days without {lacks:?}: {kills:?} {went:?} {kinds:?}");
}

fn noon(day: Date, home: &TimeZone) -> Timestamp {
    day.at(12, 0, 0, 0).to_zoned(home.clone()).expect("a time").timestamp()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_sides_are_equal_after_many_days() {
    let Some(radicale) = Radicale::start("calendar_days").await else { return };
    let (count, seed) = (tally::times("CALENDAR_DAYS", 25), tally::times("CALENDAR_SEED", 24));
    // Past what the harness keeps for itself: the seed is printed also where all goes well.
    let said = writeln!(std::io::stderr(), "CALENDAR_DAYS={count} CALENDAR_SEED={seed} (the full form: 1,000 days)");
    said.expect("standard error is open");
    let begun = std::time::Instant::now();
    let days = Days::begin(radicale, seed).await;
    let mut day = FIRST;
    days.door.bad(true);
    // From here on each daemon has a point at which it dies.
    days.kill().await;
    for n in 1..=count {
        days.day().await;
        if n % REST == 0 || n == count {
            days.rest().await;
        }
        // After the last day none begins: a sync would be due then, and the daemon die at its point while it is asked below.
        if n < count {
            day = day.tomorrow().expect("a day");
            *days.today.lock().unwrap() = day;
            days.household.set_clock(&noon(day, &days.home).to_string());
        }
    }
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for conflict in Conflict::all(&*days.db().await).await {
        *kinds.entry(conflict.kind).or_default() += 1;
    }
    let (kills, went) = (days.alive.lock().await.kills.clone(), days.door.went());
    let record = days.record.lock().await;
    let (here, there) = (&record.here, &record.there);
    println!(
        "{count} days: {} events made here and {} there, {} statements here and {} there; requests {went:?}; conflicts {kinds:?}; \
         kills {kills:?}; answers {:?}; {:.0} s",
        here.created.len(),
        there.created.len(),
        here.made.len(),
        there.made.len(),
        days.answers.lock().unwrap(),
        begun.elapsed().as_secs_f64()
    );
    assert!(!here.created.is_empty() && !there.created.is_empty(), "one side made nothing");
    had_all(count, &kills, &went, &kinds);
    let is_day = |word: &String| word.split_once(" DTSTART:").is_some_and(|(_, at)| at.len() == 8);
    let all_day = |side: &Side| side.made.iter().any(is_day);
    assert!(count < FULL || all_day(here) && all_day(there), "one side had no event of whole days");
}
