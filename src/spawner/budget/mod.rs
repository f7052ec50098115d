//! What a session may use, and what it has used.

mod meter;

pub use meter::{Limits, Meter, OverBudget, Spent};
