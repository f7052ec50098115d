//! Whole days have no zone. As rows they are days of UTC, which each reader compares with what its own clock shows.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use tokio_postgres::Row;

/// What the clock shows at a moment, as if it were UTC.
pub(super) fn by_clock(at: Timestamp, home: &TimeZone) -> Timestamp {
    TimeZone::UTC.to_timestamp(at.to_zoned(home.clone()).datetime()).unwrap_or(at)
}

/// When the clock shows what it shows in UTC at this moment.
fn at_home(day: Timestamp, home: &TimeZone) -> Timestamp {
    home.to_timestamp(day.to_zoned(TimeZone::UTC).datetime()).unwrap_or(day)
}

/// When an instance is for whoever asks.
pub(super) fn times(days: bool, (start, end): (Timestamp, Timestamp), home: &TimeZone) -> (Timestamp, Timestamp) {
    if days { (at_home(start, home), at_home(end, home)) } else { (start, end) }
}

/// That of a row.
pub(super) fn of(row: &Row, home: &TimeZone) -> (Timestamp, Timestamp) {
    times(row.get("days"), (row.get("starts_at"), row.get("ends_at")), home)
}
