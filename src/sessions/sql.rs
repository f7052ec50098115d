//! Statements on the tables of sessions.

/// How far the words of a session are believed.
pub(super) const TRUST: &str = "SELECT trust FROM sessions WHERE id = $1";
