//! Why an event can't be had: sentences for people.

/// What is wrong with an event, a rule or a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CalendarError {
    #[error("This is not an iCalendar text: {0}.")]
    NotCalendar(String),
    #[error("This iCalendar text has no event (VEVENT).")]
    NoEvent,
    #[error("The event has no {0}; iCalendar demands it.")]
    Missing(&'static str),
    #[error("`{value}` is not valid for {property}: {expected}.")]
    Invalid { property: String, value: String, expected: String },
    #[error("The event ends at {end}, which is not after its start at {start}. Give an end after the start.")]
    EndsFirst { start: String, end: String },
    #[error("There is no time zone `{0}`. Give a name such as Europe/Berlin.")]
    NoZone(String),
    #[error("The repetition `{rule}` can't be used: {why}.")]
    Rule { rule: String, why: String },
    #[error("The event repeats too often: more than {limit} times in this window. Ask for a shorter window.")]
    TooMany { limit: usize },
    #[error("The window is too long: {0}.")]
    Window(&'static str),
    #[error("The event has no instance that starts at {0}. Ask for its instances and use the start of one of them.")]
    NoInstance(String),
    #[error("The event does not repeat, so there is no `{0}` of it. Leave the scope out.")]
    NotRecurring(&'static str),
    #[error(
        "Nobody asks the owner for an answer to this event, as far as the owner's addresses are known (own_addresses of \
             [modules.calendar]). Nothing was changed."
    )]
    NotInvited,
    #[error("The time {0} is out of range.")]
    OutOfRange(String),
}

impl CalendarError {
    pub(crate) fn rule(rule: &str, why: impl Into<String>) -> Self {
        Self::Rule { rule: rule.to_owned(), why: why.into() }
    }
    pub(crate) fn invalid(property: &str, value: &str, expected: impl Into<String>) -> Self {
        let value = value.chars().take(200).collect();
        Self::Invalid { property: property.to_owned(), value, expected: expected.into() }
    }
}
