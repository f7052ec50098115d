//! What the definitions of the switchboard's tools have in common.

use tools::{Effect, Meta};

/// Metadata of what only the people of the household change.
pub(super) fn operators(effect: Effect) -> Meta {
    Meta { operators: true, ..Meta::write(effect) }
}
