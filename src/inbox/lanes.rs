//! What waits, in memory. Only a hint where to look first: the rows are the queue, and whatever is not in here the
//! scanner finds.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;
use uuid::Uuid;

use super::sql::messages;
use super::turns::{Candidate, Turns};
use super::types::{Lane, Tier, joined};
use base::text::plain_identity;
use base::{RequestId, TenantId, Trust};

/// One message that waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Item {
    pub request: RequestId,
    pub tenant: TenantId,
    pub lane: Lane,
    pub tier: Tier,
    pub trust: Trust,
    /// Who sent it, one name for each sender of a channel.
    pub sender: String,
    /// The order of acceptance.
    pub seq: i64,
}

impl Item {
    /// A message that waits on record; `None` if its tenant's name can't be read.
    pub fn of(row: messages::Waiting) -> Option<Self> {
        Some(Self {
            request: RequestId(row.request_id),
            tenant: TenantId::new(&row.tenant_id).ok()?,
            lane: Lane(row.lane),
            tier: Tier::from_number(row.tier),
            trust: Trust::from_name(&row.trust),
            sender: sender_name(&row.channel, &row.sender),
            seq: row.seq,
        })
    }

    fn candidate(&self) -> Candidate {
        let Self { trust, tier, sender, seq, .. } = self;
        Candidate { trust: *trust, tier: *tier, sender: sender.clone(), seq: *seq }
    }
}

/// One name for each sender of a channel, whatever he calls himself.
pub(super) fn sender_name(channel: &str, identity: &str) -> String {
    joined(&[Some(channel), Some(&plain_identity(identity))])
}

/// A tenant's lane.
type LaneKey = (TenantId, Lane);

#[derive(Default)]
struct Waiting {
    /// The first of each lane that is free.
    ready: Vec<Item>,
    turns: Turns,
    /// Lanes in which one is ready or under way, and what waits behind it.
    lanes: HashMap<LaneKey, VecDeque<Item>>,
    /// All that is in here or under way.
    known: HashSet<RequestId>,
    /// There may be rows that are not in here.
    overflown: bool,
}

/// The lanes of one switchboard.
pub struct Lanes {
    capacity: usize,
    waiting: Mutex<Waiting>,
    /// Rung when there is one to take.
    ready: Arc<Notify>,
    /// Rows wait that are not in memory, and there is room.
    pub starved: Notify,
}

impl Lanes {
    pub fn new(capacity: usize, ready: Arc<Notify>) -> Self {
        Self { capacity, waiting: Mutex::default(), ready, starved: Notify::new() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Takes a message in, if there is room and it is not known already. What strangers fill leaves half as much again
    /// to people who are known, and as much again to the household's own.
    pub fn offer(&self, item: Item) {
        let mut waiting = self.lock();
        if waiting.known.contains(&item.request) {
            return;
        }
        let more = match item.trust {
            Trust::Stranger => 0,
            Trust::Known => self.capacity / 2,
            Trust::System | Trust::Owner => self.capacity,
        };
        if waiting.known.len() >= self.capacity.saturating_add(more) {
            waiting.overflown = true;
            return;
        }
        waiting.known.insert(item.request);
        let key = (item.tenant.clone(), item.lane.clone());
        match waiting.lanes.get_mut(&key) {
            Some(behind) => {
                let at = behind.iter().position(|other| other.seq > item.seq).unwrap_or(behind.len());
                behind.insert(at, item);
            }
            None => {
                waiting.lanes.insert(key, VecDeque::new());
                waiting.ready.push(item);
                drop(waiting);
                self.ready.notify_one();
            }
        }
    }

    /// Somebody is to look whether there is one to take.
    pub fn wake(&self) {
        self.ready.notify_one();
    }

    /// Takes the message whose turn it is, if one waits; `own`: only the household's own. Its lane is taken until
    /// [`Lanes::leave`].
    pub fn take(&self, own: bool) -> Option<Item> {
        let mut waiting = self.lock();
        let candidates: Vec<Candidate> = waiting.ready.iter().map(Item::candidate).collect();
        let at = waiting.turns.next(&candidates, own)?;
        let item = waiting.ready.remove(at);
        let more = waiting.ready.iter().any(|item| !own || item.trust >= Trust::System);
        drop(waiting);
        if more {
            self.ready.notify_one();
        }
        Some(item)
    }

    /// The message is not under way any more: it is at its end, or it waits in its row for another time.
    pub fn leave(&self, item: &Item, ended: bool) {
        let key = (item.tenant.clone(), item.lane.clone());
        let mut waiting = self.lock();
        if !waiting.known.remove(&item.request) {
            // It has left before, and its lane may be another's by now.
            return;
        }
        let next = match ended {
            true => waiting.lanes.get_mut(&key).and_then(VecDeque::pop_front),
            // What stands behind it in the lane must not pass it.
            false => None,
        };
        match next {
            Some(next) => {
                waiting.ready.push(next);
                drop(waiting);
                self.ready.notify_one();
                return;
            }
            None => {
                for gone in waiting.lanes.remove(&key).unwrap_or_default() {
                    waiting.known.remove(&gone.request);
                    waiting.overflown = true;
                }
            }
        }
        self.look_again(&mut waiting);
    }

    /// A message of this lane has ended that may not have been known here. Returns whether the next of its lane is.
    pub fn ended(&self, item: &Item) -> bool {
        if self.lock().known.contains(&item.request) {
            self.leave(item, true);
        }
        self.lock().lanes.contains_key(&(item.tenant.clone(), item.lane.clone()))
    }

    fn look_again(&self, waiting: &mut Waiting) {
        if waiting.overflown && waiting.known.len() <= self.capacity / 2 {
            waiting.overflown = false;
            self.starved.notify_one();
        }
    }

    /// The scan found as many as it asked for: there may be more.
    pub fn there_is_more(&self) {
        self.lock().overflown = true;
    }

    /// Room for so many more.
    pub fn room(&self) -> usize {
        self.capacity.saturating_sub(self.lock().known.len())
    }

    /// All that is in here.
    pub fn known(&self) -> Vec<Uuid> {
        self.lock().known.iter().map(|request| request.0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(lane: &str, tier: Tier, seq: i64) -> Item {
        let (tenant, lane) = (TenantId::owner(), Lane(lane.to_owned()));
        let sender = sender_name("telegram", &lane.0);
        Item { request: RequestId::new(), tenant, lane, tier, trust: Trust::Stranger, sender, seq }
    }

    fn taken(lanes: &Lanes) -> Vec<Item> {
        std::iter::from_fn(|| lanes.take(false)).collect()
    }

    #[test]
    fn what_strangers_fill_keeps_the_owner_neither_out_nor_waiting() {
        let lanes = Lanes::new(2, Arc::default());
        for n in 0..5 {
            lanes.offer(item(&format!("s{n}"), Tier::HighPriority, n));
        }
        let owners = Item { trust: Trust::Owner, ..item("ada", Tier::Default, 9) };
        lanes.offer(owners.clone());
        assert_eq!(lanes.known().len(), 3);
        assert_eq!(lanes.take(true), Some(owners));
        assert_eq!(lanes.take(true), None);
        assert_eq!(taken(&lanes).len(), 2);
    }

    #[test]
    fn a_lane_goes_one_after_the_other_and_lanes_side_by_side() {
        let lanes = Lanes::new(10, Arc::default());
        let (a1, a2, b1) = (item("a", Tier::Default, 1), item("a", Tier::Default, 2), item("b", Tier::Default, 3));
        // As they may come in: the later first.
        for it in [&a1, &b1, &a2] {
            lanes.offer(it.clone());
        }
        assert_eq!(taken(&lanes), [a1.clone(), b1]);
        lanes.leave(&a1, true);
        assert_eq!(taken(&lanes), [a2]);
    }

    #[test]
    fn what_stands_behind_a_message_that_waits_again_does_not_pass_it() {
        let lanes = Lanes::new(10, Arc::default());
        let (one, two) = (item("a", Tier::Default, 1), item("a", Tier::Default, 2));
        lanes.offer(one.clone());
        lanes.offer(two);
        assert_eq!(taken(&lanes), std::slice::from_ref(&one));
        lanes.leave(&one, false);
        assert!(taken(&lanes).is_empty() && lanes.known().is_empty());
    }

    #[test]
    fn urgent_ones_go_first_but_not_for_ever() {
        let lanes = Lanes::new(100, Arc::default());
        for n in 0..20 {
            lanes.offer(item(&format!("u{n}"), Tier::HighPriority, n));
        }
        lanes.offer(item("slow", Tier::Default, 99));
        let order: Vec<Tier> = taken(&lanes).iter().map(|i| i.tier).collect();
        assert_eq!(order.iter().position(|t| *t == Tier::Default), Some(10), "{order:?}");
    }

    #[test]
    fn full_lanes_say_when_there_is_room_again() {
        let lanes = Lanes::new(2, Arc::default());
        let items: Vec<Item> = (0..3).map(|n| item(&n.to_string(), Tier::Default, n)).collect();
        items.iter().for_each(|i| lanes.offer(i.clone()));
        assert_eq!((lanes.known().len(), lanes.room()), (2, 0));
        let taken = taken(&lanes);
        assert_eq!(taken.len(), 2);
        lanes.leave(&taken[0], true);
        let starved = lanes.starved.notified();
        tokio::pin!(starved);
        assert!(starved.as_mut().enable(), "the scanner is woken");
    }
}
