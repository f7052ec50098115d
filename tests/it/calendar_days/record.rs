//! What each side wrote, so that what was lost can be told from what somebody wrote over who had seen it.

use std::collections::BTreeSet;

use calendar::text::{Component, Line, read};
use tokio_postgres::Client;

/// A statement of one event: its UID, its place in the series, the property and its value.
pub type Words = BTreeSet<String>;

/// Properties that the days edit.
const NAMES: [&str; 7] = ["SUMMARY", "LOCATION", "DESCRIPTION", "DTSTART", "DTEND", "RRULE", "EXDATE"];

pub fn uid(bytes: &[u8]) -> String {
    let root = read(bytes).expect("a calendar's text");
    let event = root.components("VEVENT").next().and_then(|event| event.line("UID"));
    event.map(|line| line.value.clone()).unwrap_or_default()
}

pub fn words(bytes: &[u8]) -> Words {
    let root = read(bytes).expect("a calendar's text");
    let uid = uid(bytes);
    let mut words = Words::new();
    for event in root.components("VEVENT") {
        let which = event.line("RECURRENCE-ID").map(|line| line.value.clone()).unwrap_or_default();
        for name in NAMES {
            let values = event.lines(name).flat_map(|line| match name {
                "EXDATE" => line.value.split(',').map(str::to_owned).collect(),
                // A server may write its parts in another order.
                "RRULE" => {
                    let mut parts: Vec<&str> = line.value.split(';').collect();
                    parts.sort_unstable();
                    vec![parts.join(";")]
                }
                _ => vec![line.value.clone()],
            });
            words.extend(values.map(|value| format!("{uid} {which} {name}:{value}")));
        }
    }
    words
}

fn words_of(bytes: Option<&[u8]>) -> Words {
    bytes.map(words).unwrap_or_default()
}

/// What one side did.
#[derive(Default)]
pub struct Side {
    /// What it wrote that was not there.
    pub made: Words,
    /// What it wrote over or took away, having seen it.
    pub gone: Words,
    pub created: BTreeSet<String>,
    pub deleted: BTreeSet<String>,
}

impl Side {
    pub fn note(&mut self, old: Option<&[u8]>, new: Option<&[u8]>) {
        let (before, after) = (words_of(old), words_of(new));
        self.made.extend(after.difference(&before).cloned());
        self.gone.extend(before.difference(&after).cloned());
        match (old, new) {
            (None, Some(new)) => drop(self.created.insert(uid(new))),
            (Some(old), None) => drop(self.deleted.insert(uid(old))),
            _ => {}
        }
    }

    /// Whether it is this side that made the one of the other.
    fn changed(&self, base: Option<&[u8]>, now: Option<&[u8]>) -> bool {
        let (before, after) = (words_of(base), words_of(now));
        after.difference(&before).any(|word| self.made.contains(word))
            || before.difference(&after).any(|word| self.gone.contains(word))
    }
}

/// Notes what tools make of events, in their own transactions, and leaves out what a sync makes of them.
const TOOLS: &str = "
    CREATE SCHEMA days_of_test;
    CREATE TABLE days_of_test.versions (n bigint GENERATED ALWAYS AS IDENTITY, old bytea, new bytea);
    CREATE FUNCTION days_of_test.seen() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
    DECLARE
        told text;
        has bytea;
        had bytea;
    BEGIN
        GET DIAGNOSTICS told = PG_CONTEXT;
        IF TG_OP <> 'DELETE' THEN has := NEW.ics; END IF;
        IF TG_OP <> 'INSERT' THEN had := OLD.ics; END IF;
        IF (told LIKE '%calendar_put%' OR told LIKE '%calendar_drop%') AND has IS DISTINCT FROM had THEN
            INSERT INTO days_of_test.versions (old, new) VALUES (had, has);
        END IF;
        RETURN NULL;
    END $$;
    CREATE TRIGGER days_of_test AFTER INSERT OR UPDATE OR DELETE ON shared.calendar_events
    FOR EACH ROW EXECUTE FUNCTION days_of_test.seen()";

/// What both sides wrote.
#[derive(Default)]
pub struct Record {
    pub here: Side,
    pub there: Side,
    /// Deleted at the server while nobody here had heard that it arrived there: it may come again.
    pub unsure: BTreeSet<String>,
    read: i64,
}

impl Record {
    pub async fn begin(db: &Client) -> Self {
        db.batch_execute(TOOLS).await.expect("the notes of what tools do");
        Self::default()
    }

    /// Reads what tools did since the last time.
    pub async fn read(&mut self, db: &Client) {
        let sql = "SELECT n, old, new FROM days_of_test.versions WHERE n > $1 ORDER BY n";
        for row in db.query(sql, &[&self.read]).await.expect("the notes") {
            let (old, new): (Option<Vec<u8>>, Option<Vec<u8>>) = (row.get(1), row.get(2));
            self.here.note(old.as_deref(), new.as_deref());
            self.read = row.get(0);
        }
    }

    /// Nothing that anybody wrote is neither there, nor written over by somebody who saw it, nor on record; and each record
    /// has its reason. `now`: what both sides have.
    pub fn judge(&self, now: &[Vec<u8>], conflicts: &[Conflict]) {
        let mut kept: Words = now.iter().flat_map(|bytes| words(bytes)).collect();
        for conflict in conflicts {
            kept.extend(words_of(conflict.ours.as_deref()));
            kept.extend(words_of(conflict.theirs.as_deref()));
            self.has_reason(conflict);
        }
        for word in self.here.made.union(&self.there.made) {
            let over = self.here.gone.contains(word) || self.there.gone.contains(word);
            assert!(over || kept.contains(word), "lost, and on no record: {word}");
        }
        let there: BTreeSet<String> = now.iter().map(|bytes| uid(bytes)).collect();
        assert_eq!(there.len(), now.len(), "an event is there twice");
        for made in self.here.created.union(&self.there.created) {
            let deleted = self.here.deleted.contains(made) || self.there.deleted.contains(made);
            let on_record = conflicts.iter().any(|one| one.uid == *made) || self.unsure.contains(made);
            assert!(deleted || there.contains(made), "{made} is gone, and nobody deleted it");
            assert!(
                !deleted || on_record || !there.contains(made),
                "{made} was deleted, and is there without a conflict"
            );
        }
    }

    fn has_reason(&self, conflict: &Conflict) {
        let (base, ours, theirs) = (conflict.base.as_deref(), conflict.ours.as_deref(), conflict.theirs.as_deref());
        let (here, there) = (self.here.changed(base, ours), self.there.changed(base, theirs));
        let right = match conflict.kind.as_str() {
            "merged" | "both_edited" => here && there,
            // What was edited here is new here as well once it is deleted there.
            "both_created" => {
                let new_here = self.here.created.contains(&conflict.uid) || self.there.deleted.contains(&conflict.uid);
                new_here && self.there.created.contains(&conflict.uid)
            }
            "deleted_there" => here && self.there.deleted.contains(&conflict.uid),
            "deleted_here" => there && self.here.deleted.contains(&conflict.uid),
            _ => false,
        };
        assert!(right, "a conflict without a reason: {conflict}");
    }
}

/// A row of the conflicts.
pub struct Conflict {
    pub kind: String,
    pub uid: String,
    base: Option<Vec<u8>>,
    ours: Option<Vec<u8>>,
    theirs: Option<Vec<u8>>,
}

impl Conflict {
    pub async fn all(db: &Client) -> Vec<Self> {
        let sql = "SELECT kind, coalesce(uid, ''), base, ours, theirs FROM shared.calendar_conflicts ORDER BY found_at";
        let of = |row: &tokio_postgres::Row| Self {
            kind: row.get(0),
            uid: row.get(1),
            base: row.get(2),
            ours: row.get(3),
            theirs: row.get(4),
        };
        db.query(sql, &[]).await.expect("the conflicts").iter().map(of).collect()
    }
}

impl std::fmt::Display for Conflict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = |bytes: &Option<Vec<u8>>| String::from_utf8_lossy(bytes.as_deref().unwrap_or(b"none")).into_owned();
        let (base, ours, theirs) = (text(&self.base), text(&self.ours), text(&self.theirs));
        write!(f, "{} of {}\nbase: {base}\nours: {ours}\ntheirs: {theirs}", self.kind, self.uid)
    }
}

/// A text with one component changed.
pub fn edited(bytes: &[u8], change: impl FnOnce(&mut Component)) -> Vec<u8> {
    let mut root = read(bytes).expect("a calendar's text");
    change(&mut root);
    let mut out = Vec::new();
    root.write(&mut out);
    out
}

/// Sets one property.
pub fn set(event: &mut Component, line: Line) {
    let name = line.name.clone();
    event.set(&name, vec![line]);
}
