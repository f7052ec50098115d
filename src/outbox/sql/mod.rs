//! The SQL on the outbox and its channels. Rows of every tenant: a claim, an end and what follows are the owner role's.

mod channels;
mod queue;
mod recipients;

pub(super) use queue::{DeliveryRows, End, Queued, Settled};
