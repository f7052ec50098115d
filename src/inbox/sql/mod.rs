//! The statements on the tables of messages, their parts, people and registries: one file for each table.

pub(super) mod actions;
pub(super) mod affinity;
pub(super) mod backfill;
pub(super) mod butlers;
pub(super) mod connectors;
pub(super) mod contacts;
pub(super) mod dead;
pub(super) mod extractions;
pub(super) mod limits;
pub(super) mod mail;
pub(super) mod messages;
pub(super) mod replies;
pub(super) mod rules;
pub(super) mod segments;
pub(super) mod shown;
