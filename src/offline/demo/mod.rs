//! `butlerd demo`: a household in a scratch directory, with the scripted model.

mod error;
mod run;
mod story;

pub use error::DemoError;
pub use run::{DemoOptions, run};
