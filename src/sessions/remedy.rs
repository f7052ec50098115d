//! What a session's failure asks for: patience, another try, or none.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::log::Ending;
use super::types::SessionState;
use base::Machine;
use llm_api::ErrorClass;
use store::fault_of;

/// The class of what the machine or the database was to blame for.
pub const UNAVAILABLE: &str = "unavailable";

/// The class of sessions whose program was killed from outside.
const KILLED: &str = "killed";

/// What waits for the machine or a model's side waits no longer than this after it came; then each try counts.
const PATIENCE: SignedDuration = SignedDuration::from_hours(24);
/// The same of a model's side while a person waits for the answer: they are told what is wrong.
const OF_A_PERSON: SignedDuration = SignedDuration::from_mins(5);
/// The same of what is killed: it may be its own size that the machine can't bear, and each try costs.
const OF_THE_KILLED: SignedDuration = SignedDuration::from_mins(10);
const SHORTEST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_mins(15);
/// The same while a person waits, and where the age is not known: a step of the clock must hold nobody for long.
const LONGEST_FOR_A_PERSON: Duration = Duration::from_mins(1);

/// What a failure asks for. Work that changed something is never begun again, whatever this says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Remedy {
    /// The machine, the database or the model's side let it down: the same later, and that was no try.
    Wait,
    /// It may pass: another try, of which there are few.
    Retry,
    /// It stays.
    GiveUp,
}

impl Remedy {
    /// Of a failure of this class.
    pub fn of(class: Option<&str>) -> Self {
        match class {
            Some(UNAVAILABLE | KILLED | "model_unreachable" | "overloaded" | "rate_limited") => Remedy::Wait,
            None | Some("mcp_unreachable" | "crashed" | "interrupted") => Remedy::Retry,
            _ => Remedy::GiveUp,
        }
    }
}

/// How long work that came at `since` waits for what failed with this class before its next try: a quarter of the time that
/// it has waited, within bounds. `None`: it has waited long enough, and a try counts. `interactive`: a person waits for it.
pub fn wait_for(class: Option<&str>, interactive: bool, since: Timestamp, now: Timestamp) -> Option<Duration> {
    let age = now.duration_since(since);
    let patience = match class {
        Some(KILLED) => OF_THE_KILLED,
        class if interactive && class != Some(UNAVAILABLE) => OF_A_PERSON,
        _ => PATIENCE,
    };
    if age > patience {
        return None;
    }
    let longest = if interactive || age.is_negative() { LONGEST_FOR_A_PERSON } else { LONGEST };
    Some((age.unsigned_abs() / 4).clamp(SHORTEST, longest))
}

/// How a session ends for which something could not be made. By its cause it is the machine's fault, or the request's.
pub(super) fn broken(what: &str, e: &(dyn std::error::Error + 'static)) -> Ending {
    let mut message = format!("{what}: {e}");
    if let Some(cause) = e.source() {
        message = format!("{message}: {cause}");
    }
    let class = if fault_of(e).is_some() { UNAVAILABLE } else { ErrorClass::InvalidRequest.as_str() };
    Ending::failed(SessionState::Failed, class, message)
}

/// The ending of a session that began at `begun`. What failed in a way that a failing machine makes programs fail, while it
/// did fail, is the machine's fault.
pub(super) async fn blamed(end: Ending, machine: &Machine, begun: std::time::Instant) -> Ending {
    let class = end.error_class.as_deref();
    let may_be = end.state == SessionState::Failed
        && (matches!(class, Some(UNAVAILABLE | KILLED))
            || Remedy::of(class) == Remedy::Retry
            || class == Some("invalid_request"));
    if !may_be || !machine.failed_since(begun).await {
        return end;
    }
    let why = machine.why().unwrap_or_else(|| "the machine was short of something for a moment".to_owned());
    let said = end.error.map(|said| format!(" ({said})")).unwrap_or_default();
    Ending { error_class: Some(UNAVAILABLE.to_owned()), error: Some(format!("{why}{said}")), ..end }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_grows_with_the_time_that_has_passed_and_ends_after_a_day() {
        let at = |seconds: i64| Timestamp::from_second(1_800_000_000 + seconds).unwrap();
        let of = |class, answered, seconds| wait_for(Some(class), answered, at(0), at(seconds)).map(|d| d.as_secs());
        let wait = |seconds| of("overloaded", false, seconds);
        assert_eq!(wait(0), Some(2));
        assert_eq!(wait(40), Some(10));
        assert_eq!(wait(10 * 3600), Some(900));
        assert_eq!(wait(25 * 3600), None);
        // A clock that was put back or forward by an hour is not waited for.
        assert_eq!((wait(-60), wait(-3600)), (Some(15), Some(60)));
        assert_eq!((of(UNAVAILABLE, true, -3600), of(UNAVAILABLE, true, 3600)), (Some(60), Some(60)));
        // A person is told soon that the model can't be had; a machine that fails tells nobody.
        assert_eq!((of("overloaded", true, 240), of("overloaded", true, 400)), (Some(60), None));
        assert_eq!((of(UNAVAILABLE, true, 200), of(UNAVAILABLE, false, 400)), (Some(50), Some(100)));
        assert_eq!((of(KILLED, false, 400), of(KILLED, false, 700)), (Some(100), None));
    }
}
