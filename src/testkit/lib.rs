//! What tests, benches and the demo share: stand-ins for what a household talks to. No other room uses it.

pub mod model;
