//! Cargo looks at the features of build dependencies only where there is a build script.

fn main() {}
