//! The scripted model that the demo and the tests use in place of a real one.

pub mod model;
