//! What a module changes of itself while its butler is up: its tools, and a sentence about how it is.

use std::sync::Arc;

use super::background::TaskBoard;
use tools::{DuplicateTool, Gate, Tool, ToolSetHandle};

/// Why a module's tools can't be offered.
#[derive(Debug, thiserror::Error)]
pub enum OfferError {
    #[error("it brings the tool `{0}`, which its manifest does not declare")]
    Undeclared(String),
    #[error(transparent)]
    Duplicate(#[from] DuplicateTool),
}

/// A module's hold on how it is shown and on its tools. Cheap to clone.
#[derive(Clone, Default)]
pub struct Live {
    handle: ToolSetHandle,
    own: Option<Own>,
    board: TaskBoard,
}

#[derive(Clone)]
struct Own {
    gate: Gate,
    /// What its manifest declares.
    tools: Arc<[String]>,
}

impl Live {
    /// Leads to the butler's tools once they are there.
    pub fn handle(&self) -> &ToolSetHandle {
        &self.handle
    }

    pub(super) fn of(&self, gate: &Gate, tools: &[String], board: &TaskBoard) -> Self {
        let own = Some(Own { gate: gate.clone(), tools: tools.into() });
        Self { handle: self.handle.clone(), own, board: board.clone() }
    }

    /// Puts tools in the place of those that the module has, for the next call and the next session. Before the
    /// butler's tools are gathered it does nothing: then the module is asked for them.
    ///
    /// # Errors
    /// One is not in the module's manifest, or is called like somebody else's.
    pub fn offer(&self, tools: Vec<Tool>) -> Result<(), OfferError> {
        let Some(own) = &self.own else { return Ok(()) };
        if let Some(other) = tools.iter().find(|tool| !own.tools.contains(&tool.def.name)) {
            return Err(OfferError::Undeclared(other.def.name.clone()));
        }
        Ok(self.handle.replace(&own.gate, tools).map(drop)?)
    }

    /// Shows the owner that something is not as it should be, in a sentence; `None`: all is well again.
    pub fn note(&self, what: Option<String>) {
        if let Some(own) = &self.own {
            self.board.note(&own.gate.module, what);
        }
    }
}
