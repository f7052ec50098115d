//! `butlerd test`: the scenarios that a roster carries, `roster/<butler>/tests/*.toml`.
//!
//! They run in a household in a scratch directory, on a database of its own and a moved clock, each as a tenant that
//! has nothing yet. A scenario says which tools it is evidence for, and of what: that they do what they are for
//! (`success`), that they refuse a mistake of the trade (`refusal`), that another tenant finds nothing (`tenant`). A
//! tool that lacks one of the three is a finding too.
//!
//! A step calls a tool (`call`, as a person, or with `session_of = "$request"` as a session that deals with that
//! request), reads rows (`rows`) or runs a job (`job`). `given` puts there what no tool brings about, as the butler's
//! role or, with `by_household = true`, as the daemon's own;
//! `eventually = true` looks until what comes to be by itself is there.

mod error;
mod evidence;
mod file;
mod matching;
mod play;
mod run;

pub use error::ScenarioError;
pub use evidence::Coverage;
pub use file::{Proves, Scenario, ScenarioFile, Step, mentions, read_dir};
pub use run::{Failure, Report, run};
