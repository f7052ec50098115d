//! The statements on the tables of messages, their parts, people and registries: one file for each table.

pub(super) mod actions;
pub(super) mod affinity;
pub(super) mod backfill;
pub(super) mod butlers;
pub(super) mod connectors;
pub(super) mod contacts;
pub(super) mod dead;
pub(super) mod extractions;
pub(super) mod fates;
pub(super) mod limits;
pub(super) mod mail;
pub(super) mod messages;
pub(super) mod pairings;
pub(super) mod replies;
pub(super) mod rules;
pub(super) mod segments;
pub(super) mod shown;

use store::Aged;

/// Messages that are dealt with, and what was done with them, in the switchboard's schema. A message's parts go with
/// it.
pub const OLD: &[Aged] = &[
    Aged { table: "message_inbox", old: "settled_at < $1" },
    Aged { table: "request_actions", old: "at < $1" },
    Aged { table: "mail", old: "created_at < $1" },
    Aged { table: "extraction_log", old: "created_at < $1" },
    Aged { table: "connector_refusals", old: "refused_at < $1" },
];

/// What was answered to them.
pub const OLD_SHARED: &[Aged] = &[Aged { table: "replies", old: "at < $1" }];
