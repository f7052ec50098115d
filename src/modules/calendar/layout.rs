//! When events take place, laid out as rows, so that lists are reads of an index.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::sql::{self, Unprojected};
use calendar::{CalendarError, Event, Object, Status, Window};
use store::{Lease, StoreError};

/// How far back events are laid out when they are written.
pub(super) const BACK: SignedDuration = SignedDuration::from_hours(24 * 400);
const DAY: SignedDuration = SignedDuration::from_hours(24);
/// All times that an event may be at: the years 1 to 9999.
const ALWAYS: (Timestamp, Timestamp) =
    (Timestamp::constant(-62_135_596_800, 0), Timestamp::constant(253_402_200_000, 0));

/// How a calendar's events are laid out.
pub(super) struct Layout<'a> {
    /// The zone of times without one.
    pub home: &'a TimeZone,
    /// How far beyond what is looked at.
    pub ahead: SignedDuration,
    /// The owner's addresses, as events name who comes.
    pub own: &'a [String],
}

/// Whether an event takes the owner's time: not what was cancelled, and not what the owner declined.
pub(super) fn takes_time(event: &Event, own: &[String]) -> bool {
    event.busy && event.status != Status::Cancelled && event.answer_of(own) != Some("declined")
}

impl Layout<'_> {
    /// Lays a repeating event out for this time and for what was laid out before. Returns why nobody can say when it is
    /// then, if so.
    pub async fn cover(
        &self,
        lease: &mut Lease,
        event: &Unprojected,
        (from, to): (Timestamp, Timestamp),
    ) -> Result<Option<CalendarError>, StoreError> {
        let object = match Object::read(&event.row.ics) {
            Ok(object) => object,
            // A task or a note: it is at no time, whenever somebody looks.
            Err(CalendarError::NoEvent) => {
                sql::project(lease, &event.row, (ALWAYS.0, ALWAYS.1), &json!([])).await?;
                return Ok(None);
            }
            Err(e) => return Ok(Some(e)),
        };
        let reach = (from.saturating_sub(BACK).unwrap_or(from), to.saturating_add(self.ahead).unwrap_or(to));
        // Nothing is taken away under somebody who reads another time just now.
        let reach = (reach.0.min(event.laid_out.0), reach.1.max(event.laid_out.1));
        let laid = self.laid_out(&object, reach).map(|laid| (reach, laid));
        let laid = laid.or_else(|_| self.laid_out(&object, (from, to)).map(|laid| ((from, to), laid)));
        let (window, instances) = match laid {
            Ok(laid) => laid,
            Err(e) => return Ok(Some(e)),
        };
        sql::project(lease, &event.row, window, &instances).await?;
        Ok(None)
    }

    /// When an event takes place, as rows.
    pub fn laid_out(&self, object: &Object, (from, to): (Timestamp, Timestamp)) -> Result<Value, CalendarError> {
        let Self { home, own, .. } = *self;
        let mut rows = Vec::new();
        // Whole days are there by another clock already, or still.
        let near = (from.saturating_sub(DAY).unwrap_or(from), to.saturating_add(DAY).unwrap_or(to));
        for instance in object.instances(Window::new(near.0, near.1)?, home)? {
            let event = &object.events[instance.event];
            let zone = if instance.start.is_date() { &TimeZone::UTC } else { home };
            let (start, end) = (instance.start.instant(zone)?, instance.end.instant(zone)?);
            let busy = takes_time(event, own);
            // Only what is out of the ordinary is said: a month is hundreds of events, and its reader pays for each word.
            let mut shown = json!({
                "title": event.title, "start_at": instance.start.shown(home), "end_at": instance.end.shown(home),
            });
            if instance.start.is_date() {
                shown["all_day"] = json!(true);
            }
            if !event.location.is_empty() {
                shown["location"] = json!(event.location);
            }
            if event.status != Status::Confirmed {
                shown["status"] = json!(event.status);
            }
            if !busy {
                shown["busy"] = json!(false);
            }
            if let Some(answer) = event.answer_of(own).filter(|_| event.organizer.is_some()) {
                shown["your_response"] = json!(answer);
            }
            if let Some(minutes) = event.reminder {
                shown["reminder_minutes"] = json!(minutes);
            }
            if let Some(zone) = &event.unknown_zone {
                shown["unknown_timezone"] = json!(zone);
            }
            if object.repeats() {
                shown["recurring"] = json!(true);
                shown["instance_start_at"] = json!(instance.id.shown(home));
            }
            rows.push(json!({"instance": instance.id.shown(home), "starts_at": start.to_string(), "ends_at": end.max(start).to_string(),
                             "busy": busy, "away": !event.location.trim().is_empty(), "shown": shown}));
        }
        Ok(Value::Array(rows))
    }
}
