//! Why an event can't be had on the other side.

/// A sentence, or the end of one, for the owner.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unfit(pub String);

impl From<&str> for Unfit {
    fn from(why: &str) -> Self {
        Self(why.to_owned())
    }
}

impl From<calendar::CalendarError> for Unfit {
    fn from(e: calendar::CalendarError) -> Self {
        Self(e.to_string())
    }
}
