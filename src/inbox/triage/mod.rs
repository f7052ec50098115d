//! Rules that decide what becomes of a message before any model is asked. They live in the database, in an order; the
//! first that fits decides.

mod book;
mod dry_run;
mod given;
mod rules;
mod tools;

pub use book::RuleBook;
pub use rules::{Kind, Rule, Rules};
pub(super) use tools::tools;
