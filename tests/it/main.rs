//! The integration tests: real PostgreSQL, real ports, real children, the real binary. One file for each behaviour.

#![allow(clippy::too_many_lines, reason = "a test is one story, told to its end")]
#![allow(clippy::unwrap_used, reason = "a test's panic is its report")]

mod leaks;
mod left_out;
#[path = "../routing/mod.rs"]
mod routing_score;
#[path = "../soak/mod.rs"]
mod soak;
mod support;

mod approvals;
mod approvals_crash;
mod approvals_shown;
mod attempts;
mod backup;
mod broken;
mod budgets;
mod calls;
mod canary;
mod chat;
mod classify;
mod claude_code;
mod clients;
mod connectors;
mod conversation;
mod crash;
mod days;
mod defanged;
mod deliveries;
mod delivery_crash;
mod delivery_storm;
mod doors;
mod environment;
mod failures;
mod first_light;
mod gateway;
mod inbound;
mod inbound_claims;
mod inbound_crash;
mod inbound_database;
mod inbound_storm;
mod inbox;
mod injections;
mod isolation;
mod lifecycle;
mod memory;
mod memory_compare;
mod memory_jobs;
mod memory_life;
mod memory_owner;
mod memory_tenants;
mod memory_vectors;
mod memory_writes;
mod misbehave;
mod modules_contract;
mod notes;
mod notices;
mod people;
mod proposals;
mod queue;
mod reload;
mod rosters;
mod routing;
mod runtimes;
mod sandbox;
mod scenarios;
mod schedules;
mod schedules_crash;
mod schedules_jobs;
mod scheduling;
mod setup;
mod skills;
mod standing_rules;
mod tidy;
mod trace;
mod transcript;
mod triage;
mod two_daemons;
mod undo;
mod unit_file;
mod vcard;
mod webhook;
