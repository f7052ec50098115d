//! The demonstration: everything real but the model.

pub mod model;
