//! Memory: what a butler knows.

pub mod embed;
pub mod rank;
