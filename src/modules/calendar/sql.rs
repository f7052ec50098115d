//! The statements on calendars.

use std::collections::HashMap;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::days;
use calendar::Busy;
use store::{AsRows, Lease, StoreError};
use tools::{EffectTx, ToolCall, ToolError};

store::row! {
    /// A calendar that a butler sees.
    pub(super) struct SourceRow {
        pub id: Uuid,
        pub name: String,
        pub provider: String,
        pub read_only: bool,
        pub time_zone: String,
        pub synced_at: Option<Timestamp>,
        pub error: Option<String>,
        /// Whether a sync is at work or asked for.
        pub busy: bool,
        /// Whether any event of the household is about an entity: where none is, no list looks for one.
        pub has_about: bool,
    }
}

store::row! {
    /// An event as it is kept.
    pub(super) struct EventRow {
        pub id: Uuid,
        pub source: Uuid,
        pub ics: Vec<u8>,
        pub revision: i64,
    }
}

/// A time that is taken, and by what.
pub(super) struct BusyRow {
    pub event: Uuid,
    pub time: Busy,
    pub shown: Value,
}

/// A time that is looked at. Whole days have no zone: they are looked for by the clock of whoever asks.
pub(super) struct Looked {
    from: Timestamp,
    to: Timestamp,
    days: (Timestamp, Timestamp),
    /// Longer events are marked, so that no read has to look further back.
    week_before: Timestamp,
}

impl Looked {
    pub fn new((from, to): (Timestamp, Timestamp), home: &TimeZone) -> Self {
        let days = (days::by_clock(from, home), days::by_clock(to, home));
        let week_before = from.min(days.0).saturating_sub(SignedDuration::from_hours(24 * 7));
        Self { from, to, days, week_before: week_before.unwrap_or(Timestamp::MIN) }
    }

    /// As the statements below name them.
    fn params<'a>(&'a self, of: &'a (dyn ToSql + Sync), limit: &'a i64) -> [&'a (dyn ToSql + Sync); 7] {
        [of, &self.from, &self.to, &self.week_before, limit, &self.days.0, &self.days.1]
    }
}

/// Whether an instance `i` is in a window: `$2` and `$3`, and for whole days `$6` and `$7`. Plain comparisons alone: they come
/// before a row's label is looked at, so that what is not in the window lowers nobody.
macro_rules! within {
    () => {
        "CASE WHEN i.days THEN i.starts_at < $7 AND (i.ends_at > $6 OR i.starts_at = i.ends_at AND i.starts_at >= $6)
         ELSE i.starts_at < $3 AND (i.ends_at > $2 OR i.starts_at = i.ends_at AND i.starts_at >= $2) END"
    };
}

/// By their start: whole days where they begin by the clock at the window's own.
macro_rules! by_start {
    () => {
        " ORDER BY i.starts_at + CASE WHEN i.days THEN $2 - $6 ELSE interval '0' END, i.ends_at, i.event LIMIT $5"
    };
}

/// What is written of an event.
pub(super) struct Written<'a> {
    pub id: Uuid,
    pub source: Uuid,
    pub uid: &'a str,
    pub ics: Vec<u8>,
    pub repeats: bool,
    /// The revision that was looked at; `None`: it is new.
    pub seen: Option<i64>,
    pub window: (Timestamp, Timestamp),
    pub instances: Value,
}

/// Makes the calendars that a butler's settings name, in their order, and lets it see them and no others. Those of these
/// names that another provider or account keeps it does not see: they are answered with who keeps them. As the house.
pub(super) async fn open(
    lease: &mut Lease,
    butler: &str,
    (provider, account): (&str, Option<&str>),
    zone: &str,
    names: &[String],
) -> Result<Vec<(String, String)>, StoreError> {
    let sql = "WITH named AS (SELECT name, place::int FROM unnest($5::text[]) WITH ORDINALITY n (name, place)),
                    made AS (INSERT INTO shared.calendar_sources (name, provider, account, time_zone)
                             SELECT name, $2, $3, $4 FROM named
                             ON CONFLICT (tenant_id, name) DO NOTHING RETURNING id, name, provider, account),
                    of_the_name AS (SELECT id, name, provider, account FROM made UNION
                                    SELECT s.id, s.name, s.provider, s.account FROM shared.calendar_sources s
                                    WHERE s.tenant_id = shared.tenant() AND s.name = ANY ($5)),
                    all_of_them AS (SELECT id, name FROM of_the_name
                                    WHERE provider = $2 AND account IS NOT DISTINCT FROM $3),
                    gone AS (DELETE FROM shared.calendar_readers r
                             WHERE r.tenant_id = shared.tenant() AND r.butler = $1
                               AND r.source NOT IN (SELECT id FROM all_of_them)),
                    seen AS (INSERT INTO shared.calendar_readers (butler, source, place)
                             SELECT $1, a.id, n.place FROM all_of_them a JOIN named n USING (name)
                             ON CONFLICT (tenant_id, butler, source) DO UPDATE SET place = excluded.place),
                    followed AS (INSERT INTO shared.calendar_cursors (source)
                                 SELECT id FROM all_of_them WHERE $2 <> 'local' ON CONFLICT DO NOTHING)
               SELECT name, coalesce(account, 'the household') AS holder FROM of_the_name
               WHERE id NOT IN (SELECT id FROM all_of_them) ORDER BY name";
    let rows = lease.query(sql, &[&butler, &provider, &account, &zone, &names]).await;
    let rows = rows.map_err(StoreError::query("opening calendars"))?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// How many calendars a butler sees. As the house.
pub(super) async fn seen_by(lease: &mut Lease, butler: &str) -> Result<usize, StoreError> {
    let sql = "SELECT count(*) FROM shared.calendar_readers WHERE tenant_id = shared.tenant() AND butler = $1";
    let row = lease.query_opt(sql, &[&butler]).await.map_err(StoreError::query("counting calendars"))?;
    Ok(row.map_or(0, |row| usize::try_from(row.get::<_, i64>(0)).unwrap_or(0)))
}

/// The calendars of these names that a provider's account keeps. As the house.
pub(super) async fn own(
    lease: &mut Lease,
    (provider, account): (&str, Option<&str>),
    names: &[String],
) -> Result<Vec<Uuid>, StoreError> {
    let sql = "SELECT id FROM shared.calendar_sources WHERE tenant_id = shared.tenant() AND name = ANY ($3)
               AND provider = $1 AND account IS NOT DISTINCT FROM $2";
    let rows = lease.read(sql, &[&provider, &account, &names]).await;
    rows.column("id").map_err(StoreError::query("looking for calendars"))
}

store::row! {
    /// A repeating event that is not laid out for all of a time.
    pub(super) struct Unprojected {
        pub row: EventRow = |row| row.into(),
        /// For which time it is.
        pub laid_out: (Timestamp, Timestamp) = |row| (row.get("projected_from"), row.get("projected_to")),
        /// Its calendar's name and zone.
        pub calendar: String = |row| row.get("name"),
        pub time_zone: String,
        pub trust: String,
    }
}

/// The repeating events, in calendars that these butlers see, that are not laid out for all of this time. As the house:
/// nothing of them is shown by it.
pub(super) async fn unprojected(
    lease: &mut Lease,
    butlers: &[&str],
    from: Timestamp,
    to: Timestamp,
) -> Result<Vec<Unprojected>, StoreError> {
    let sql = "SELECT e.id, e.source, e.ics, e.revision, e.projected_from, e.projected_to, e.trust, s.name,
                      s.time_zone
               FROM shared.calendar_events e JOIN shared.calendar_sources s ON (s.tenant_id, s.id) = (e.tenant_id, e.source)
               WHERE e.tenant_id = shared.tenant() AND e.repeats AND (e.projected_to < $3 OR e.projected_from > $2)
                 AND e.source IN (SELECT r.source FROM shared.calendar_readers r
                                  WHERE r.tenant_id = shared.tenant() AND r.butler = ANY ($1))
               ORDER BY e.id LIMIT 10000";
    lease.query(sql, &[&butlers, &from, &to]).await.typed().map_err(StoreError::query("looking for events"))
}

store::row! {
    /// An instance that the owner is to be reminded of.
    pub(super) struct ReminderRow {
        pub event: Uuid,
        pub instance: String,
        /// Of whole days that of the first of them in UTC.
        pub starts_at: Timestamp,
        pub remind_at: Timestamp,
        pub shown: Value,
        pub trust: base::Trust = |row| base::Trust::from_name(row.get("trust")),
    }
}

/// What is to be reminded of between two moments in these calendars and is not over by the second. As the house.
pub(super) async fn reminders(
    lease: &mut Lease,
    sources: &[Uuid],
    since: &Looked,
) -> Result<Vec<ReminderRow>, StoreError> {
    let sql = "SELECT i.event, i.instance, i.starts_at, i.remind_at, i.shown, i.trust FROM shared.calendar_instances i
               WHERE i.tenant_id = shared.tenant() AND i.remind_at > least($2::timestamptz, $4::timestamptz) AND i.remind_at <= greatest($3::timestamptz, $5::timestamptz)
                 AND CASE WHEN i.days THEN i.remind_at > $4 AND i.remind_at <= $5 AND (i.ends_at > $5 OR i.starts_at > $5)
                     ELSE i.remind_at > $2 AND i.remind_at <= $3 AND (i.ends_at > $3 OR i.starts_at > $3) END
                 AND i.source = ANY ($1) AND i.shown ->> 'status' IS DISTINCT FROM 'cancelled'
               ORDER BY i.remind_at, i.event LIMIT 1000";
    let Looked { from, to, days, .. } = since;
    lease
        .read(sql, &[&sources, from, to, &days.0, &days.1])
        .await
        .typed()
        .map_err(StoreError::query("looking for reminders"))
}

/// The names of the calendars that these butlers see, and whether each is not as its server has it. As the house.
pub(super) async fn all_named(lease: &mut Lease, butlers: &[&str]) -> Result<Vec<(String, bool)>, StoreError> {
    let sql =
        "SELECT s.name, coalesce(c.synced_at IS NULL OR c.error IS NOT NULL, false) AND c.source IS NOT NULL AS behind
               FROM shared.calendar_sources s
               LEFT JOIN shared.calendar_cursors c ON (c.tenant_id, c.source) = (s.tenant_id, s.id)
               WHERE s.tenant_id = shared.tenant()
               AND s.id IN (SELECT r.source FROM shared.calendar_readers r
                            WHERE r.tenant_id = shared.tenant() AND r.butler = ANY ($1)) ORDER BY s.name";
    let rows = lease.read(sql, &[&butlers]).await.map_err(StoreError::query("listing calendars"))?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// What takes place in a window in the calendars that these butlers see, by its start, with how far it is believed. As the
/// house: whoever shows it shows that, too.
pub(super) async fn all_listed(
    lease: &mut Lease,
    butlers: &[&str],
    window: &Looked,
    limit: i64,
) -> Result<Vec<Row>, StoreError> {
    const SQL: &str = concat!(
        "SELECT i.event, i.starts_at, i.ends_at, i.days, i.shown, i.trust, s.name FROM shared.calendar_instances i
         JOIN shared.calendar_sources s ON (s.tenant_id, s.id) = (i.tenant_id, i.source)
         WHERE i.tenant_id = shared.tenant() AND (i.starts_at >= $4 OR i.long) AND ",
        within!(),
        " AND i.source IN (SELECT r.source FROM shared.calendar_readers r
                           WHERE r.tenant_id = shared.tenant() AND r.butler = ANY ($1))",
        by_start!()
    );
    let rows = lease.read(SQL, &window.params(&butlers, &limit)).await;
    rows.map_err(StoreError::query("listing events"))
}

/// Lays an event out, as it was looked at. As the house.
pub(super) async fn project(
    lease: &mut Lease,
    event: &EventRow,
    window: (Timestamp, Timestamp),
    instances: &Value,
) -> Result<(), StoreError> {
    // Locked first: else a version that is committed meanwhile would be laid out as the one before.
    let sql = "SELECT shared.calendar_project(e.id, $3, $4, $5) FROM (SELECT id FROM shared.calendar_events
               WHERE tenant_id = shared.tenant() AND id = $1 AND revision = $2 FOR UPDATE) e";
    let done = lease.query(sql, &[&event.id, &event.revision, &window.0, &window.1, instances]).await;
    done.map(drop).map_err(StoreError::query("laying out an event"))
}

/// The calendars that the butler sees, in the order of its settings.
pub(super) async fn sources(call: &ToolCall) -> Result<Vec<SourceRow>, ToolError> {
    let sql = "SELECT s.id, s.name, s.provider, s.read_only, s.time_zone, c.synced_at, c.error,
                      coalesce(c.asked OR c.claim IS NOT NULL, false) AS busy,
                      (SELECT shared.calendar_has_about()) AS has_about FROM shared.calendar_sources s
               JOIN shared.calendar_readers r ON r.source = s.id
               LEFT JOIN shared.calendar_cursors c ON c.source = s.id ORDER BY r.place";
    call.query(sql, &[]).await.typed()
}

/// Instances in a window, as a table `i`: an index has those of a week or less by their start, and another the few that are
/// longer. `$4` is a week before the window.
macro_rules! instances {
    ($sources:literal, $also:literal) => {
        concat!(
            "(SELECT * FROM shared.calendar_instances i WHERE i.source = ANY (",
            $sources,
            ") AND NOT i.long AND i.starts_at >= $4 AND i.starts_at < greatest($3::timestamptz, $7::timestamptz) AND ",
            $also,
            within!(),
            " UNION ALL SELECT * FROM shared.calendar_instances i WHERE i.source = ANY (",
            $sources,
            ") AND i.long AND i.starts_at < greatest($3::timestamptz, $7::timestamptz) AND ",
            $also,
            within!(),
            ") i"
        )
    };
}

/// What takes place in a window in the calendars of these names, or in all, by its start.
pub(super) async fn listed(
    call: &ToolCall,
    names: &[String],
    window: &Looked,
    limit: i64,
) -> Result<Vec<Row>, ToolError> {
    const SQL: &str = concat!(
        "SELECT i.event, i.shown, i.source FROM ",
        instances!("ARRAY (SELECT s.id FROM shared.calendar_sources s WHERE s.name = ANY ($1) OR $1 = '{}')", ""),
        by_start!()
    );
    call.query(SQL, &window.params(&names, &limit)).await
}

/// Events that were listed, as they are shown.
pub(super) fn shown(rows: &[Row], sources: &[SourceRow], about: &HashMap<Uuid, Value>) -> Vec<Value> {
    let of = |row: &Row| {
        let mut shown: Value = row.get("shown");
        let (source, event): (Uuid, Uuid) = (row.get("source"), row.get("event"));
        let name = sources.iter().find(|one| one.id == source).map(|one| one.name.clone());
        shown["event_id"] = Value::String(event.to_string());
        shown["calendar_id"] = name.map_or(Value::Null, Value::String);
        if let Some(about) = about.get(&event) {
            shown["entity_ids"] = about.clone();
        }
        shown
    };
    rows.iter().map(of).collect()
}

/// Events that are looked at for free time. What lies behind them would be called free.
const MOST_BUSY: i64 = 20_000;

macro_rules! busy {
    ($columns:literal, $also:literal) => {
        concat!(
            "SELECT i.starts_at, i.ends_at, i.days, i.away",
            $columns,
            " FROM ",
            instances!("$1", $also),
            " ORDER BY i.starts_at LIMIT $5"
        )
    };
}

/// When time is taken in a window, as the caller may see it.
pub(super) async fn times(
    call: &ToolCall,
    sources: &[Uuid],
    window: (Timestamp, Timestamp),
    home: &TimeZone,
) -> Result<Vec<Busy>, ToolError> {
    const SQL: &str = busy!("", "i.busy AND ");
    let rows = call.query(SQL, &Looked::new(window, home).params(&sources, &(MOST_BUSY + 1))).await?;
    few(&rows, |row| taken_time(row, home), |time| time.start)
}

/// As [`times`], with the events.
pub(super) async fn busy(
    call: &ToolCall,
    sources: &[Uuid],
    window: (Timestamp, Timestamp),
    home: &TimeZone,
) -> Result<Vec<BusyRow>, ToolError> {
    const SQL: &str = busy!(", i.event, i.shown", "i.busy AND ");
    let rows = call.query(SQL, &Looked::new(window, home).params(&sources, &(MOST_BUSY + 1))).await?;
    few(&rows, |row| busy_row(row, home), |row| row.time.start)
}

/// As [`busy`], as the house: nothing of it is shown.
pub(super) async fn taken(
    lease: &mut Lease,
    sources: &[Uuid],
    window: (Timestamp, Timestamp),
    home: &TimeZone,
) -> Result<Vec<BusyRow>, ToolError> {
    const SQL: &str = busy!(", i.event, i.shown", "i.tenant_id = shared.tenant() AND i.busy AND ");
    let rows = lease.read(SQL, &Looked::new(window, home).params(&sources, &(MOST_BUSY + 1))).await;
    few(&rows.map_err(StoreError::query("looking for what is taken"))?, |row| busy_row(row, home), |row| row.time.start)
}

fn taken_time(row: &Row, home: &TimeZone) -> Busy {
    let (start, end) = days::of(row, home);
    Busy { start, end, away: row.get("away") }
}

fn busy_row(row: &Row, home: &TimeZone) -> BusyRow {
    BusyRow { event: row.get("event"), time: taken_time(row, home), shown: row.get("shown") }
}

/// By their start.
fn few<T>(rows: &[Row], of: impl Fn(&Row) -> T, start: impl Fn(&T) -> Timestamp) -> Result<Vec<T>, ToolError> {
    if rows.len() as i64 <= MOST_BUSY {
        let mut all: Vec<T> = rows.iter().map(of).collect();
        all.sort_by_key(start);
        return Ok(all);
    }
    let why = format!("More than {MOST_BUSY} events take time in this window. Ask for a shorter one.");
    Err(ToolError::refused("too_many", why))
}

pub(super) async fn event(call: &ToolCall, id: Uuid) -> Result<Option<EventRow>, ToolError> {
    let sql = "SELECT id, source, ics, revision FROM shared.calendar_events WHERE id = $1";
    call.query(sql, &[&id]).await.first_typed()
}

/// Writes an event. `false`: somebody else changed it meanwhile.
pub(super) async fn put(tx: &mut EffectTx<'_, '_>, new: &Written<'_>) -> Result<bool, ToolError> {
    let sql = "SELECT shared.calendar_put($1, $2, $3, $4, $5, $6, $7, $8, $9) AS revision";
    let Written { id, source, uid, ics, repeats, seen, window, instances } = new;
    let params: store::Params<'_> = &[id, source, uid, ics, repeats, seen, &window.0, &window.1, instances];
    let row = tx.query_opt(sql, params).await?;
    Ok(row.is_some_and(|row| row.get::<_, Option<i64>>("revision").is_some()))
}

/// Takes an event away. `false`: somebody else changed it meanwhile.
pub(super) async fn remove(tx: &mut EffectTx<'_, '_>, id: Uuid, revision: i64) -> Result<bool, ToolError> {
    let row = tx.query_opt("SELECT shared.calendar_drop($1, $2) AS gone", &[&id, &revision]).await?;
    Ok(row.is_some_and(|row| row.get("gone")))
}

/// Notes whom the provider is to tell of a change that this transaction makes; `gone`: a deletion. `false`: more are to be
/// told of an earlier one, which has not been sent.
pub(super) async fn tell(
    tx: &mut EffectTx<'_, '_>,
    id: Uuid,
    whom: Option<&str>,
    gone: bool,
) -> Result<bool, ToolError> {
    let row = tx.query_opt("SELECT shared.calendar_tell($1, $2, $3) AS noted", &[&id, &whom, &gone]).await?;
    Ok(row.is_some_and(|row| row.get("noted")))
}

/// Notes which entities an event is about; `None`: those that `other` is. The first of them that there is not.
pub(super) async fn set_about(
    tx: &mut EffectTx<'_, '_>,
    (id, other): (Uuid, Uuid),
    about: Option<&[Uuid]>,
) -> Result<Option<Uuid>, ToolError> {
    tx.query_opt("SELECT shared.calendar_about($1, $2, $3)", &[&id, &other, &about]).await.cell(0)
}

/// Which entities each of these events is about, but for those that are about none. No label of another event is met.
pub(super) async fn about(call: &ToolCall, events: &[Uuid]) -> Result<HashMap<Uuid, Value>, ToolError> {
    // Two may have become one.
    let sql = "SELECT a.event, array_agg(DISTINCT coalesce(shared.entity_standing(a.entity), a.entity)::text) AS about
               FROM shared.calendar_entities a WHERE a.event = ANY ($1) GROUP BY a.event";
    let rows = call.query(sql, &[&events]).await?;
    Ok(rows.iter().map(|row| (row.get("event"), row.get::<_, Vec<String>>("about").into())).collect())
}

store::row! {
    /// Both sides had changed one event: all versions, and how far they are believed.
    pub(super) struct ConflictRow {
        pub id: Uuid,
        pub source: Uuid,
        pub event: Uuid,
        pub kind: String,
        pub uid: Option<String>,
        pub base: Option<Vec<u8>>,
        pub ours: Option<Vec<u8>>,
        pub theirs: Option<Vec<u8>>,
        pub found_at: Timestamp,
        pub trust: base::Trust = |row| base::Trust::from_name(row.get("trust")),
    }
}

/// The conflicts of these calendars that nobody looked at yet, or this one. As the house.
pub(super) async fn conflicts(
    lease: &mut Lease,
    sources: &[Uuid],
    id: Option<Uuid>,
) -> Result<Vec<ConflictRow>, StoreError> {
    let sql = "SELECT f.id, f.source, f.event, f.kind, f.uid, f.base, f.ours, f.theirs, f.found_at, f.trust
               FROM shared.calendar_conflicts f WHERE f.tenant_id = shared.tenant() AND f.source = ANY ($1)
                 AND CASE WHEN $2::uuid IS NULL THEN f.taken IS NULL AND f.kind <> 'merged' ELSE f.id = $2 END
               ORDER BY f.found_at, f.id LIMIT 100";
    lease.read(sql, &[&sources, &id]).await.typed().map_err(StoreError::query("reading conflicts"))
}

/// Notes which version a person chose. `false`: there is no such conflict.
pub(super) async fn chosen(tx: &mut EffectTx<'_, '_>, id: Uuid, choice: &str) -> Result<bool, ToolError> {
    let row = tx.query_opt("SELECT shared.calendar_chosen($1, $2) AS done", &[&id, &choice]).await?;
    Ok(row.is_some_and(|row| row.get("done")))
}

/// What was done under a key: the hash of its arguments, and its result.
pub(super) async fn done(call: &ToolCall, key: &str) -> Result<Option<(Vec<u8>, Value)>, ToolError> {
    let rows = call.query("SELECT sha256, result FROM shared.calendar_actions WHERE key = $1", &[&key]).await?;
    Ok(rows.first().map(|row| (row.get("sha256"), row.get("result"))))
}

/// Notes what was done under a key. `false`: it is there already.
pub(super) async fn note(
    tx: &mut EffectTx<'_, '_>,
    key: &str,
    action: &str,
    hash: &[u8],
    result: &Value,
) -> Result<bool, ToolError> {
    let row =
        tx.query_opt("SELECT shared.calendar_done($1, $2, $3, $4) AS fresh", &[&key, &action, &hash, result]).await?;
    Ok(row.is_some_and(|row| row.get("fresh")))
}
