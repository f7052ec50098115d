//! The rules of `docs/security.md`, written down a second time: small, slow, and without a line of the house's own.

use std::collections::{BTreeMap, BTreeSet};

/// How far something is believed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Believed {
    Stranger,
    Known,
    /// The owner, or the house itself.
    Own,
}

/// Trust, and the people besides the household who may learn it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mark {
    pub believed: Believed,
    pub learners: BTreeSet<&'static str>,
}

impl Mark {
    pub fn of(believed: Believed, learners: &[&'static str]) -> Self {
        Self { believed, learners: learners.iter().copied().collect() }
    }

    fn lower(&mut self, by: &Mark) {
        self.believed = self.believed.min(by.believed);
        self.learners.retain(|one| by.learners.contains(one));
    }

    /// Something was shown that is the household's alone.
    fn private(&mut self) {
        self.learners.clear();
    }
}

/// What the settings of a butler let others do.
#[derive(Clone, Copy, Default, Debug)]
pub struct Settings {
    /// `[butler.strangers] may` and `[butler.known] may` name what changes rows.
    pub strangers_change: bool,
    pub known_change: bool,
    /// `[people] known_may_learn` names the butler.
    pub known_learn: bool,
}

/// What becomes of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    Runs,
    Waits,
    Refused,
}

/// The rows and sessions of one program.
#[derive(Default, Debug)]
pub struct Reference {
    pub settings: Settings,
    pub rows: BTreeMap<usize, Mark>,
    /// Each session with the one who hears its answers.
    pub sessions: BTreeMap<usize, (Mark, &'static str)>,
}

impl Reference {
    fn session(&mut self, session: usize) -> &mut Mark {
        &mut self.sessions.get_mut(&session).expect("a session").0
    }

    /// A session that another one causes begins with its label.
    pub fn caused(&mut self, session: usize, by: usize) {
        self.sessions.insert(session, self.sessions[&by].clone());
    }

    pub fn read(&mut self, session: usize, row: Option<usize>) -> End {
        let shown: Vec<Mark> =
            self.rows.iter().filter(|(name, _)| row.is_none_or(|row| row == **name)).map(|(_, m)| m.clone()).collect();
        shown.iter().for_each(|mark| self.session(session).lower(mark));
        End::Runs
    }

    /// A tool whose answers are the household's, whatever they say.
    pub fn look(&mut self, session: usize) -> End {
        self.session(session).private();
        End::Runs
    }

    /// Rules 1, 3 and 4. `delete`: the row goes.
    pub fn change(&mut self, session: usize, row: usize, delete: bool) -> End {
        let before = self.sessions[&session].0.clone();
        let may = match before.believed {
            Believed::Own => true,
            Believed::Known => self.settings.known_change,
            Believed::Stranger => self.settings.strangers_change,
        };
        if !may {
            return End::Waits;
        }
        if let Some(old) = self.rows.get(&row).cloned() {
            self.session(session).lower(&old);
            if before.believed < old.believed {
                self.session(session).private();
                return End::Refused;
            }
        }
        if delete {
            self.rows.remove(&row);
        } else {
            self.rows.insert(row, self.sessions[&session].0.clone());
        }
        End::Runs
    }

    /// A change that the owner has approved: whoever wrote the row, it is done, and labelled as any other.
    pub fn approved(&mut self, session: usize, row: usize, delete: bool) -> End {
        let mut mark = self.sessions[&session].0.clone();
        if let Some(old) = self.rows.get(&row) {
            mark.lower(old);
        }
        if delete {
            self.rows.remove(&row);
        } else {
            self.rows.insert(row, mark);
        }
        End::Runs
    }

    /// Rule 2. `None`: nobody can say who would learn of it.
    pub fn tell(&mut self, session: usize, those: Option<&[&'static str]>) -> End {
        let (mark, hears) = &self.sessions[&session];
        let may = mark.believed == Believed::Own
            || those.is_some_and(|those| {
                let open = mark.believed == Believed::Known && self.settings.known_learn;
                those.iter().all(|one| mark.learners.contains(one)) || open && those.iter().all(|one| one == hears)
            });
        if may { End::Runs } else { End::Waits }
    }
}
