//! `butlerd demo`: a household in a scratch directory does one piece of work, with a scripted model.

mod run;
mod story;

pub use run::{DemoOptions, run};
