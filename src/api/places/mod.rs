//! The endpoints, by what they are about.

use crate::endpoint::{Endpoint, Group};

/// Endpoints that hand what they are given on to one call, and its answer back.
macro_rules! forwards {
    ($($name:ident($($of:tt: $type:ty),+) -> $answer:ty = $call:ident($($arg:expr),*);)+) => {$(
        async fn $name(visit: &Visit, $($of: $type),+) -> Result<$answer, Failure> {
            visit.calls.$call(&visit.ext $(, $arg)*).await
        }
    )+};
}

/// The same of calls that answer a whole list.
macro_rules! lists {
    ($($name:ident($($of:tt: $type:ty),+) -> $row:ty = $call:ident($($arg:expr),*);)+) => {$(
        async fn $name(visit: &Visit, $($of: $type),+) -> Result<Page<$row>, Failure> {
            Ok(visit.whole(visit.calls.$call(&visit.ext $(, $arg)*).await?))
        }
    )+};
}

mod approvals;
mod butlers;
mod council;
mod house;
mod journal;
mod memory;
mod messages;
mod people;
mod records;
mod schedules;
mod sessions;

/// All groups with their endpoints.
pub(crate) fn all() -> Vec<(Group, Vec<Endpoint>)> {
    let group = |name, about| Group { name, about };
    vec![
        (group("Household", "How the household is, what it costs, what it is set to."), house::endpoints()),
        (group("Butlers", "Each butler with its tools, skills and notes to self."), butlers::endpoints()),
        (group("Sessions", "What butlers did, as it is on record."), sessions::endpoints()),
        (group("Messages", "What came in, what was said, and what was sent."), messages::endpoints()),
        (group("Approvals", "Calls that wait for a person, and standing rules."), approvals::endpoints()),
        (group("Schedules", "What butlers do by themselves, and when."), schedules::endpoints()),
        (group("Memory", "What a butler remembers, why, and what was done to it."), memory::endpoints()),
        (group("Council", "What the council was asked, and how it came to its answers."), council::endpoints()),
        (
            group("Journal and projects", "The owner's journal, and what is remembered of projects."),
            journal::endpoints(),
        ),
        (
            group("People", "Whom the household knows, where messages come from, and the rules for them."),
            people::endpoints(),
        ),
        (group("Records", "Calls on record, notes for the owner, names of secrets, tokens."), records::endpoints()),
    ]
}
