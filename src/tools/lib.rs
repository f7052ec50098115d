//! The tool contract: what a tool is, how a call is validated, run, answered and put on record; the tools that every
//! butler's data has; and the tools that a roster declares in SQL.
//!
//! What never happens here: a handler running with arguments that its schema refuses, a call without an audit row, an
//! effect committed without the row that tells of it.

mod audit;
mod call;
mod core;
mod definition;
mod egress;
mod finder;
mod finding;
mod header_parts;
pub mod http;
mod notes;
mod offered;
mod registry;
mod skills;
pub mod sql;
mod taint;
mod told;
mod tool;
mod undo_template;

pub use audit::{Auditor, CallRecord, EventRecord, Outcome, SessionStatements};
pub use call::{EffectTx, ToolCall, ToolError, UNTRUSTED_CHANGE};
pub use core::{Attached, attachment, blob_ref, core_tools, pictures, put_blob};
pub use definition::{ArgumentsError, Definition, Effect, Meta, SchemaError};
pub use egress::{EgressGate, EgressRecipient, EgressTarget, EgressTargetFn, GateDecision};
pub use finder::{Finder, Reason, ShownTool, TOOL_CALL, TOOL_FIND, Wanted};
pub use finding::{finding_tools, meant};
pub use header_parts::ToolFileError;
pub use notes::{note_tools, notes_told};
pub use offered::{Offered, OfferedTools};
pub use registry::{DuplicateTool, Gate, Reply, ToolSet, ToolSetBuilder, ToolSetHandle};
pub use skills::{SKILL_LIST, SKILL_READ, skill_loaded, skill_tools};
pub use sql::undo;
pub use tool::{Handler, Tool, handler};
pub use undo_template::{NoSuchValue, UndoTemplate};
