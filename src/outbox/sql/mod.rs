//! The SQL on the outbox and its channels. Rows of every tenant: a claim, an end and what follows are the owner role's.

mod channels;
pub(super) mod notices;
pub(super) mod post;
mod queue;
mod recipients;
pub(super) mod tools;
pub(super) mod views;

pub(super) use queue::{DeliveryRows, End, Queued, Settled};

use store::Aged;

/// What the owner was told of, and what has left, never will, or has waited for a channel for as long, with its tries.
pub const OLD: &[Aged] = &[
    Aged { table: "notices", old: "created_at < $1" },
    Aged {
        table: "outbox",
        old: "(settled_at < $1 AND followed_at IS NOT NULL OR state = 'waiting' AND created_at < $1)
              AND NOT EXISTS (SELECT FROM shared.notices n WHERE n.delivery_id = outbox.id)",
    },
];
