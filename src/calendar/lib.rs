//! Calendars as bytes and as what people mean by them: iCalendar (RFC 5545), recurrences, edits, free time.
//!
//! Pure: no database, no network, no clock. Whoever calls says which time it is and in which zone the household lives.
//!
//! [`Object`] is what a calendar server keeps under one UID: an event, and where it recurs, its exceptions. What an edit
//! doesn't touch stays byte for byte ([`text`]).
//!
//! # Bounds
//!
//! Events come from outside, so each has bounds, and one that breaks them is refused with a sentence:
//! - a text has at most 1 MiB, 1,000 events of one UID and components 4 deep;
//! - a rule repeats hourly at the most often: `SECONDLY` and `MINUTELY` are refused, and so are parts out of their range
//!   or where RFC 5545 forbids them, an interval above 1,000 and a count above 10,000;
//! - a window has at most ten years, and an event at most 10,000 instances in it;
//! - a rule without end costs its window alone: the walk begins at the window, not at the first instance. A rule with a
//!   count is walked from its start, at most 200,000 periods far;
//! - nothing repeats after the year 2200.

mod answer;
mod edit;
mod error;
mod event;
mod free;
mod moved;
mod object;
mod rule;
mod series;
pub mod text;
mod walk;
mod when;
mod zone_rules;

pub use answer::{Answer, is_one_of, others, plain_address, respond};
pub use edit::{Change, Edited, Scope, remove, update};
pub use error::CalendarError;
pub use event::{Attendee, COLORS, Event, GUESTS_WRITE, Status};
pub use free::{Busy, DayHours, FreeSearch, Slot, conflicts, free_slots, suggestions};
pub use object::Object;
pub use rule::{Frequency, Rule};
pub use series::{Instance, MAX_INSTANCES, Window};
pub use when::{When, Zone};
