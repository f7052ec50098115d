//! What is handed to a butler: accepted into its own inbox, worked on by sessions, ended once.

mod ask;
mod execute;
pub(super) mod prior;
mod worker;

pub(super) use ask::{COUNCIL, ask_tools, council_tool};
pub(super) use execute::route_execute;
pub(super) use worker::{RoutedParts, start};
