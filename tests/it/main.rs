//! The integration tests: real PostgreSQL, real ports, real children, the real binary. One file for each behaviour.

mod leaks;
mod left_out;
#[path = "../routing/mod.rs"]
mod routing_score;
#[path = "../soak/mod.rs"]
mod soak;
mod support;

mod approvals;
mod approvals_crash;
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
mod crash;
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
mod misbehave;
mod notices;
mod people;
mod routing;
mod runtimes;
mod sandbox;
mod schedules;
mod schedules_crash;
mod schedules_jobs;
mod scheduling;
mod skills;
mod tidy;
mod trace;
mod transcript;
mod triage;
mod unit_file;
mod webhook;
