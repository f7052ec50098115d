//! What searches have shown to sessions: what a session then says in those words is no news.
//!
//! Kept in memory alone. A daemon that was killed has no session left that was told something.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use uuid::Uuid;

use crate::base::SessionId;

/// Of so many sessions it is known; the one told longest ago is given up.
const SESSIONS: usize = 200;
/// So many memories of each.
const MEMORIES: usize = 2000;

/// Which memories each session was shown.
#[derive(Default)]
pub struct Told {
    sessions: Mutex<VecDeque<(SessionId, HashSet<Uuid>)>>,
}

impl Told {
    /// Notes that a session was shown these.
    pub fn note(&self, session: SessionId, ids: &[Uuid]) {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let at = sessions.iter().position(|(s, _)| *s == session);
        let (_, mut told) = at.and_then(|at| sessions.remove(at)).unwrap_or_default();
        if told.len() < MEMORIES {
            told.extend(ids);
        }
        sessions.push_back((session, told));
        if sessions.len() > SESSIONS {
            sessions.pop_front();
        }
    }

    /// What a session was shown.
    pub fn to(&self, session: SessionId) -> HashSet<Uuid> {
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.iter().find(|(s, _)| *s == session).map(|(_, told)| told.clone()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_session_told_longest_ago_is_given_up() {
        let told = Told::default();
        let all: Vec<SessionId> = (0..=SESSIONS).map(|_| SessionId::new()).collect();
        for session in &all {
            told.note(*session, &[session.0]);
        }
        assert!(told.to(all[0]).is_empty());
        told.note(all[1], &[all[0].0]);
        assert_eq!(told.to(all[1]), HashSet::from([all[0].0, all[1].0]));
    }
}
