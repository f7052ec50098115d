//! butlerd: one process that keeps a household staff of LLM agents. ARCHITECTURE.md says which room does what.

pub mod access;
pub mod admin;
pub mod agent;
pub mod approvals;
pub mod backup;
pub mod base;
pub mod butler;
pub mod cli;
pub mod config;
pub mod conversation;
pub mod credentials;
pub mod demo;
pub mod doctor;
pub mod mcp;
pub mod messenger;
pub mod modules;
pub mod scenario;
pub mod scheduler;
pub mod setup;
pub mod spawner;
pub mod store;
pub mod supervisor;
pub mod switchboard;
pub mod telemetry;
pub mod tools;
