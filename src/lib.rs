//! butlerd: one process that keeps a household staff of LLM agents. ARCHITECTURE.md says which room does what.

pub mod base;
pub mod store;
