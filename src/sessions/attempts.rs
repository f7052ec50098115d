//! What follows a session that failed: another try, another runtime, or nothing.
//!
//! Only a session that called no tool is followed by another, whatever its tools do: what was done once is never done
//! twice by the program's own decision.

use std::ops::Range;
use std::sync::Arc;

use super::adapters::{Adapter, ErrorClass, adapter};
use super::log::Ending;
use super::types::SessionState;
use config::{ButlerConfig, ClisConfig, RuntimeKind};

/// A runtime that a butler's sessions may run in.
pub(super) struct Candidate {
    pub kind: RuntimeKind,
    pub adapter: Arc<dyn Adapter>,
}

/// The runtimes of a butler's sessions.
pub(super) struct Candidates {
    /// The butler's runtime and its fallbacks, in their order; then all others, which a trigger may name.
    all: Vec<Candidate>,
    /// How many of them need no naming.
    planned: usize,
}

impl Candidates {
    pub fn of(config: &ButlerConfig, clis: &ClisConfig) -> Self {
        let mut kinds = vec![config.runtime.kind];
        kinds.extend(&config.runtime.fallback);
        let (own, planned) = (kinds.clone(), kinds.len());
        let others = <RuntimeKind as strum::VariantNames>::VARIANTS.iter().filter_map(|name| name.parse().ok());
        kinds.extend(others.filter(|kind| !own.contains(kind)));
        let candidate = |kind| Candidate { kind, adapter: adapter(kind, clis) };
        Self { all: kinds.into_iter().map(candidate).collect(), planned }
    }

    /// Those that a trigger's sessions run in, as indices: the one that it names, else the butler's own.
    pub fn wanted(&self, named: Option<RuntimeKind>) -> Range<usize> {
        match named.and_then(|kind| self.all.iter().position(|candidate| candidate.kind == kind)) {
            Some(at) => at..at + 1,
            None => 0..self.planned,
        }
    }

    pub fn at(&self, at: usize) -> &Candidate {
        &self.all[at]
    }
}

/// What follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    Nothing,
    /// The same once more, after a while.
    Again,
    /// The next runtime, if one is ready.
    Elsewhere,
    /// The same at once, without the pictures. Those are left out for good then, so it comes once.
    WithoutPictures,
}

/// `fallbacks`: runtimes that were not tried yet; `retries`: tries that are left.
pub(super) fn next(end: &Ending, tool_calls: i64, fallbacks: usize, retries: u32) -> Next {
    if end.state != SessionState::Failed || tool_calls > 0 || end.tools_seen > 0 {
        return Next::Nothing;
    }
    if end.of_pictures {
        return Next::WithoutPictures;
    }
    let is = |classes: &[ErrorClass]| classes.iter().any(|c| end.error_class.as_deref() == Some(c.as_str()));
    // Where another vendor may do better.
    let elsewhere = [
        ErrorClass::Auth,
        ErrorClass::Overloaded,
        ErrorClass::RateLimited,
        ErrorClass::ModelUnreachable,
        ErrorClass::ProgramMissing,
    ];
    // What may be over in a while. A crash is none of these: it comes again, or nobody knows what it did.
    let again =
        [ErrorClass::Overloaded, ErrorClass::RateLimited, ErrorClass::ModelUnreachable, ErrorClass::McpUnreachable];
    if fallbacks > 0 && is(&elsewhere) {
        Next::Elsewhere
    } else if retries > 0 && is(&again) {
        Next::Again
    } else {
        Next::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(class: ErrorClass) -> Ending {
        Ending::failed(SessionState::Failed, class.as_str(), "")
    }

    #[test]
    fn only_what_did_nothing_is_followed_by_another() {
        assert_eq!(next(&failed(ErrorClass::Overloaded), 0, 0, 1), Next::Again);
        assert_eq!(next(&failed(ErrorClass::Overloaded), 1, 1, 1), Next::Nothing);
        // A tool of the program itself leaves no row.
        assert_eq!(next(&Ending { tools_seen: 1, ..failed(ErrorClass::Overloaded) }, 0, 1, 1), Next::Nothing);
        assert_eq!(next(&failed(ErrorClass::Overloaded), 0, 0, 0), Next::Nothing);
    }

    #[test]
    fn another_runtime_goes_before_another_try() {
        assert_eq!(next(&failed(ErrorClass::Overloaded), 0, 1, 1), Next::Elsewhere);
        assert_eq!(next(&failed(ErrorClass::Auth), 0, 1, 1), Next::Elsewhere);
        assert_eq!(next(&failed(ErrorClass::ProgramMissing), 0, 1, 0), Next::Elsewhere);
        for (class, then) in [
            (ErrorClass::Auth, Next::Nothing),
            (ErrorClass::McpUnreachable, Next::Again),
            (ErrorClass::Crashed, Next::Nothing),
            (ErrorClass::Budget, Next::Nothing),
        ] {
            assert_eq!(next(&failed(class), 0, 0, 1), then, "{class:?}");
        }
    }

    #[test]
    fn who_may_have_failed_of_pictures_is_asked_without_them() {
        let end = Ending { of_pictures: true, ..failed(ErrorClass::InvalidRequest) };
        assert_eq!(next(&end, 0, 0, 0), Next::WithoutPictures, "that is no retry");
        assert_eq!(next(&end, 1, 1, 1), Next::Nothing);
        assert_eq!(next(&Ending { tools_seen: 1, ..end }, 0, 1, 1), Next::Nothing);
    }

    #[test]
    fn what_was_stopped_stays_stopped() {
        for state in [SessionState::TimedOut, SessionState::Cancelled, SessionState::Interrupted] {
            assert_eq!(next(&Ending::failed(state, "overloaded", ""), 0, 1, 1), Next::Nothing);
        }
    }
}
