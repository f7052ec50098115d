//! `butlerd demo`, and the scripted model that it and the tests use in place of a real one.

pub mod model;
mod run;
mod story;

pub use run::{DemoOptions, run};
