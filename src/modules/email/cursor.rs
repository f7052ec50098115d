//! Where a folder is taken in up to: pure, no network.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// Of each folder.
pub(super) type Cursor = BTreeMap<String, Mark>;

/// Of a letter that is too large, or not given out whole.
pub(super) const BEGINNING: u32 = 1024 * 1024;
/// Of a letter that is not given out in larger pieces.
const HEAD: u32 = 16 * 1024;
/// Up to so many tries a letter is asked for whole, up to so many its beginning, then its head.
const TRIES: [u32; 2] = [12, 24];
/// Between two tries of a letter, at first and at most.
const FIRST_PAUSE: SignedDuration = SignedDuration::from_mins(1);
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_hours(1);
/// After this a letter is given up: providers hold accounts back for a day.
const GIVE_UP: SignedDuration = SignedDuration::from_hours(72);
/// Letters of one folder that wait at a time. With more of them the server is at fault, and everything waits.
const MOST_LATER: usize = 500;

/// Up to where one folder is taken in.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Mark {
    /// For which the numbers count.
    pub validity: u32,
    /// The number of the next letter.
    pub next: u32,
    /// When the newest letter came that was taken in, or the folder was looked at first.
    pub at: Timestamp,
    /// The server counts anew, and what was there by then is looked at once more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<Again>,
    /// Letters before `next` that the server did not give out yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub later: Vec<Later>,
}

/// Letters that are looked at once more: those below `end` that came since.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Again {
    pub since: Timestamp,
    pub end: u32,
}

/// A letter that the server did not give out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Later {
    uid: u32,
    since: Timestamp,
    due: Timestamp,
    tries: u32,
}

/// What becomes of a letter that the server does not give out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PutOff {
    /// It is asked for later, and the next one comes.
    Waits,
    /// It was asked for long enough.
    GivenUp,
    /// Too many wait: nothing moves.
    NoRoom,
}

impl Mark {
    /// Letters whose time has come again.
    pub fn due(&self, now: Timestamp) -> Vec<u32> {
        self.later.iter().filter(|later| later.due <= now).map(|later| later.uid).collect()
    }

    pub fn waits(&self, uid: u32) -> bool {
        self.later.iter().any(|later| later.uid == uid)
    }

    /// How much of a letter is asked for, where all of it is at most `largest`.
    pub fn piece(&self, uid: u32, largest: u32) -> u32 {
        match self.later.iter().find(|later| later.uid == uid).map_or(0, |later| later.tries) {
            tries if tries < TRIES[0] => largest,
            tries if tries < TRIES[1] => largest.min(BEGINNING),
            _ => largest.min(HEAD),
        }
    }

    /// A letter was taken in, or is gone.
    pub fn done(&mut self, uid: u32) {
        self.later.retain(|later| later.uid != uid);
        self.next = self.next.max(uid.saturating_add(1));
    }

    /// The server did not give a letter out.
    pub fn put_off(&mut self, uid: u32, now: Timestamp) -> PutOff {
        let known = self.later.iter().position(|later| later.uid == uid);
        if known.is_none() && self.later.len() >= MOST_LATER {
            return PutOff::NoRoom;
        }
        let mut later = known.map_or(Later { uid, since: now, due: now, tries: 0 }, |at| self.later.remove(at));
        self.next = self.next.max(uid.saturating_add(1));
        if now.duration_since(later.since) > GIVE_UP {
            return PutOff::GivenUp;
        }
        let doubled = FIRST_PAUSE * 2_i32.pow(later.tries.min(6));
        later.due = now + doubled.min(LONGEST_PAUSE);
        later.tries += 1;
        self.later.push(later);
        PutOff::Waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark() -> Mark {
        Mark { validity: 1, next: 5, at: Timestamp::UNIX_EPOCH, again: None, later: Vec::new() }
    }

    #[test]
    fn a_letter_that_is_not_given_out_waits_for_three_days_and_blocks_nothing() {
        let (mut mark, mut now, mut pieces) = (mark(), Timestamp::UNIX_EPOCH, Vec::new());
        let began = now;
        loop {
            pieces.push(mark.piece(5, 8 * BEGINNING));
            match mark.put_off(5, now) {
                PutOff::Waits => {}
                PutOff::GivenUp => break,
                PutOff::NoRoom => panic!("there is room"),
            }
            assert_eq!((mark.next, mark.waits(5), mark.due(now)), (6, true, Vec::new()));
            now += LONGEST_PAUSE;
            assert_eq!(mark.due(now), [5]);
        }
        assert!(now.duration_since(began) > GIVE_UP && !mark.waits(5));
        assert_eq!((pieces[0], pieces[12], pieces[24]), (8 * BEGINNING, BEGINNING, HEAD));
        mark.put_off(6, now);
        mark.done(6);
        assert_eq!((mark.next, mark.waits(6)), (7, false));
    }

    #[test]
    fn not_everything_waits_one_by_one() {
        let (mut mark, now) = (mark(), Timestamp::UNIX_EPOCH);
        for uid in 5..5 + MOST_LATER as u32 {
            assert_eq!(mark.put_off(uid, now), PutOff::Waits);
        }
        let before = mark.clone();
        assert_eq!((mark.put_off(9999, now), mark == before), (PutOff::NoRoom, true));
    }
}
