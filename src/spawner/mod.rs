//! Sessions: a prompt is composed, a child process is given a workspace and started, its output is read as it comes,
//! and every run ends with exactly one outcome and no process left.

pub mod adapters;
pub mod child;
pub mod drive;
pub mod prompt;
pub mod workspace;
