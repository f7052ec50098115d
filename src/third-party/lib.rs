//! Holds nothing. Its manifest gives every selection of crates the same third-party features, so that all share one
//! build.
