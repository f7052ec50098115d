//! The one leased queue: rows of any table that are worked on one by one, by whichever daemon gets there first.
//!
//! # What it guarantees
//!
//! **A row is its own place in the queue.** Whatever is in memory only says where to look first. A row waits until a
//! *claim* takes it: one committed statement that writes a new claim id, the node, and a lease by the server's clock.
//! `FOR UPDATE SKIP LOCKED` gives it to one worker, however many ask.
//!
//! **Only the claim that holds a row ends it.** Each write that follows (renew, give back, settle) names the claim id
//! in its condition, and changes nothing once another claim has taken the row. So a worker that was asleep, cut off or
//! slow may finish late, and writes nothing. It does not make the work itself happen once: what a try did outside of
//! the database is the handler's to know, by rows that it writes before and after.
//!
//! **A claim ends by itself.** It is renewed three times a lease, for as long as its worker lives. A worker that finds
//! its claim gone is told so ([`Handler::run`] gets a token), ends what it began in order, and its result is dropped.
//!
//! **What a dead node held is taken up as its lease ends.** Leases go by the server's clock, and nobody rings for the
//! dead. So each look asks when the first lease ends, whoever's it is, and the next look comes then; it comes within a
//! lease in any case, so that no lease begins and ends between two, unless one look for all who share the table does
//! that ([`Handler::WATCHED`]). Another node has the row a lease after the death at the latest, the same node at its
//! next start. Whoever takes a row first closes what the node before has open of it, then goes by what is on record. A
//! node that was only stopped renews as it wakes, finds its claim gone, and ends what it began; a call that it is in
//! the middle of then may still have its effect.
//!
//! **Every instant is safe to die at**, because the next look at the rows sees what is committed and nothing else:
//!
//! | killed or cut off | what is on record | what follows |
//! |---|---|---|
//! | before the claim is committed | the row waits | the next claim takes it |
//! | after it (`NAME.claimed`) | a claim of this node | the start of this node gives it back, another node takes it as its lease ends |
//! | the answer to a claim is lost | perhaps a claim that no worker knows | the next look gives it back, and counts no try |
//! | during the work | the claim, and what the handler wrote | as above; the handler looks at what earlier tries did |
//! | after it (`NAME.tried`) | the same: nothing of the result | as above |
//! | while the end is written | all of the end or nothing: it is one transaction | as above, or the row is at its end |
//! | after it (`NAME.settled`) | the end | nothing |
//! | the database is away | what it had | the end is written again and again for two minutes; then the lease runs out |
//!
//! **The scanner is the recovery.** Start and steady state run the same loop: prepare, claim while there is room, do
//! what follows from ends, sleep until something is due, a signal comes or [`QueueOptions::longest`] is over. A start
//! merely gives back at once what its node held before, so that nobody waits for a lease. A missed signal costs one
//! sleep.
//!
//! **Failing is bounded.** A try that fails waits longer each time and counts; after [`RetryPolicy::tries`] the row
//! gets the end that its handler gave for this. What could not be tried at all waits and counts nothing. A try that
//! never came to its end counted when it was claimed.
//!
//! **Who is next is the user's to say**: [`QueueTable::order`] and [`Also`] are SQL (priority, lanes one at a time, a
//! turn for each tenant), or [`Handler::claim`] asks something in memory and claims that very row.
//!
//! **A stop is orderly.** [`RunningQueue::close`] claims nothing more; [`RunningQueue::ended`] waits for the work in
//! hand. A panic of the work ends that try alone: it counts, and the row keeps what the panic said.
//!
//! # What a table must have
//!
//! An uuid as key, a state, `claim_id uuid`, `claimed_by text`, `lease_until timestamptz`, all three null or none; with
//! a [`RetryPolicy`] also `attempts integer` and `available_at timestamptz`, by the server's clock, and a text column
//! for the last error.

mod handler;
mod lease;
mod sql;
mod worker;

pub use handler::{Claimed, Handler, Left, Verdict};
pub use lease::{lease_seconds, renew_every};
pub use sql::{Also, Claim, Outlook, QueueTable, RetryPolicy, Statements};
pub use worker::{Queue, QueueOptions, RunningQueue};
