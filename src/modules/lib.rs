//! Modules: opt-in parts of a butler that bring tools and tables. One that fails does not take its butler along.
//!
//! A module never imports another; it works with the [`ModuleContext`] it is given.

mod approvals;
mod catalog;
mod contract;
mod file;
mod log;
pub mod memory;
mod order;
#[cfg(debug_assertions)]
mod probe;
mod roster;
mod set;
mod strict;
mod vcard;
mod webhook;

pub use catalog::Catalog;
pub use contract::{
    AskModel, AskModelError, Credential, Factory, Health, Job, JobCall, JobFailure, Manifest, Module, ModuleContext,
    NamedJob, Phase, State, told,
};
pub use set::{ModuleStates, Modules, switch_key};
pub use strict::{Mentions, StrictCatalog};
