//! Whose turn it is. Pure.
//!
//! Those who wait stand in classes, by how far they are believed and how urgent they are, and within a class by who
//! sent them. Each class has a weight. A class that was served waits its turn anew, the shorter the heavier it is; so
//! the owner goes before people he knows and these before strangers, whatever strangers call urgent, and yet everybody
//! goes at last. Within a class each sender has one turn after the other's, so that whoever sends much only makes his
//! own wait longer.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use super::types::Tier;
use base::Trust;

/// What the turn of a stranger's message of no urgency costs its class.
const COST: u64 = 4000;

/// How far something is believed and how urgent it is.
type Class = (Trust, Tier);

/// How many turns a class gets while another of weight 1 gets one. No urgency makes up for trust.
fn weight((trust, tier): Class) -> u64 {
    let trust = match trust {
        Trust::Owner | Trust::System => 400,
        Trust::Known => 20,
        Trust::Stranger => 1,
    };
    let tier = match tier {
        Tier::HighPriority => 10,
        Tier::Interactive => 5,
        Tier::Default => 1,
    };
    trust * tier
}

/// One that waits.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub trust: Trust,
    pub tier: Tier,
    /// Who sent it, in whatever form as long as it is one for each sender.
    pub sender: String,
    /// The order of coming.
    pub seq: i64,
}

/// When the turns of a class or a sender are, in a time of its own that passes as turns are taken.
#[derive(Default)]
struct Share {
    next: u64,
    /// Of a class: the time among its senders, and when each of them who waits is next.
    now: u64,
    senders: HashMap<String, u64>,
}

/// Who was served so far. It starts anew with the process: what waits is in its rows.
#[derive(Default)]
pub struct Turns {
    now: u64,
    classes: HashMap<Class, Share>,
}

impl Turns {
    /// Which of all that wait is next; it counts as served. `own`: only the household's own may go.
    pub fn next(&mut self, waiting: &[Candidate], own: bool) -> Option<usize> {
        let here: HashSet<Class> = waiting.iter().map(|one| (one.trust, one.tier)).collect();
        for (class, share) in &mut self.classes {
            // Who did not wait saves up nothing.
            if !here.contains(class) {
                share.next = share.next.max(self.now);
                share.senders.clear();
            }
        }
        for class in &here {
            let now = self.now;
            self.classes.entry(*class).or_insert_with(|| Share { next: now, ..Share::default() });
        }
        let end = |class: &Class| self.classes.get(class).map_or(0, |share| share.next) + COST / weight(*class);
        // The more trusted first, then the more urgent, where it is the turn of both.
        let may = here.into_iter().filter(|class| !own || class.0 >= Trust::System);
        let class = may.min_by_key(|class| (end(class), std::cmp::Reverse(class.0), class.1))?;
        let share = self.classes.get_mut(&class)?;
        self.now = share.next;
        share.next += COST / weight(class);
        let of_class = || waiting.iter().enumerate().filter(|(_, one)| (one.trust, one.tier) == class);
        let senders: HashSet<&str> = of_class().map(|(_, one)| one.sender.as_str()).collect();
        share.senders.retain(|sender, _| senders.contains(sender.as_str()));
        for sender in senders {
            share.senders.entry(sender.to_owned()).or_insert(share.now);
        }
        let (at, one) = of_class().min_by_key(|(_, one)| (share.senders.get(&one.sender), one.seq))?;
        if let Some(next) = share.senders.get_mut(&one.sender) {
            share.now = *next;
            *next += 1;
        }
        Some(at)
    }
}

/// The hands of a queue of which one pair is the owner's: what others sent fills all but that.
pub struct OwnersHand {
    others: usize,
    held: Mutex<HashSet<Uuid>>,
}

impl OwnersHand {
    /// `others`: how many rows of others may be in hand.
    pub fn new(others: usize) -> Self {
        Self { others, held: Mutex::default() }
    }

    /// How many pairs of hands there are.
    pub fn slots(&self) -> usize {
        self.others + 1
    }

    fn held(&self) -> MutexGuard<'_, HashSet<Uuid>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what `choose` gives: the row, and how far it is believed. `choose` is told whether only the household's
    /// own may be taken.
    pub fn take<T>(&self, choose: impl FnOnce(bool) -> Option<T>, of: impl FnOnce(&T) -> (Uuid, Trust)) -> Option<T> {
        let mut held = self.held();
        let taken = choose(held.len() >= self.others)?;
        let (row, trust) = of(&taken);
        if trust < Trust::System {
            held.insert(row);
        }
        Some(taken)
    }

    /// The row is in no hands any more.
    pub fn leave(&self, row: Uuid) {
        self.held().remove(&row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(trust: Trust, tier: Tier, sender: &str, seq: i64) -> Candidate {
        Candidate { trust, tier, sender: sender.to_owned(), seq }
    }

    /// All of these in the order of their turns.
    fn order(turns: &mut Turns, mut waiting: Vec<Candidate>) -> Vec<i64> {
        let mut order = Vec::new();
        while let Some(at) = turns.next(&waiting, false) {
            order.push(waiting.remove(at).seq);
        }
        order
    }

    #[test]
    fn the_owner_is_next_whatever_strangers_call_urgent() {
        let mut turns = Turns::default();
        let mut waiting: Vec<Candidate> =
            (0..140).map(|n| one(Trust::Stranger, Tier::HighPriority, "eve", n)).collect();
        for _ in 0..50 {
            let at = turns.next(&waiting, false).unwrap();
            waiting.remove(at);
        }
        waiting.push(one(Trust::Known, Tier::Default, "bea", 999));
        waiting.push(one(Trust::Owner, Tier::Default, "ada", 1000));
        assert_eq!(order(&mut turns, waiting)[..2], [1000, 999]);
    }

    #[test]
    fn nobody_waits_for_ever() {
        let mut turns = Turns::default();
        let stranger = one(Trust::Stranger, Tier::Default, "eve", 0);
        let mut served = 0;
        for n in 1.. {
            // The owner goes on without end.
            let waiting = [stranger.clone(), one(Trust::Owner, Tier::Default, "ada", n)];
            if turns.next(&waiting, false) == Some(0) {
                break;
            }
            served += 1;
        }
        assert_eq!(served, 400, "as their weights are");
    }

    #[test]
    fn a_sender_with_many_gets_one_in_turn() {
        let mut turns = Turns::default();
        let mut waiting: Vec<Candidate> = (0..10).map(|n| one(Trust::Stranger, Tier::Default, "eve", n)).collect();
        waiting.push(one(Trust::Stranger, Tier::Default, "mal", 10));
        waiting.push(one(Trust::Stranger, Tier::Default, "mal", 11));
        waiting.push(one(Trust::Stranger, Tier::Default, "zoe", 12));
        let first = turns.next(&waiting, false).unwrap();
        assert_eq!(waiting.remove(first).seq, 0);
        assert_eq!(turns.next(&waiting, true), None, "none is the household's own, and nobody's turn has passed");
        assert_eq!(order(&mut turns, waiting)[..5], [10, 12, 1, 11, 2]);
    }

    #[test]
    fn one_hand_is_the_owners() {
        let hands = OwnersHand::new(1);
        let row = Uuid::now_v7();
        let take = |trust: Trust| {
            let choose = move |own: bool| (!own || trust >= Trust::System).then_some((row, trust));
            hands.take(choose, |taken| *taken).is_some()
        };
        assert!(take(Trust::Stranger) && !take(Trust::Known) && take(Trust::Owner));
        hands.leave(row);
        assert!(take(Trust::Known));
        assert_eq!(hands.slots(), 2);
    }
}
