//! Finding and killing every process of a session, until none is left.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use super::cgroup::Group;
use super::fork::Unreaped;
use super::proc::{self, Stat, Table};
use super::{Identity, Mark};

/// Processes by pid, each with the start time that tells it from others of the same pid.
pub(super) type ProcessSet = HashMap<i32, u64>;

/// How long somebody waits for the result. A process that is still there then (in an uninterruptible system
/// call, say) is reported, and killed again and again without anybody waiting.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// After so many looks that found nobody alive, deaths on this machine are taken for those of others.
const MANY_LOOKS: u32 = 4;

/// The search for what is left of one session.
pub(super) struct ProcessTree {
    mark: Mark,
    /// The session's first process. With `held` its pid can't be anybody else's.
    leader: Option<Identity>,
    /// The leader, not reaped yet, if this process started it.
    held: Option<Unreaped>,
    /// The session's control group, where it has one.
    group: Option<Group>,
    known: ProcessSet,
    /// Processes that were killed, the leader apart.
    killed: ProcessSet,
    alive: Vec<i32>,
    clean_passes: u32,
    /// Passes that found nobody alive.
    looks: u32,
    started: Instant,
}

impl ProcessTree {
    /// After the end of a child of ours. `known`: what was seen below it while it lived.
    pub fn after((child, group): (Unreaped, Option<Group>), leader: Identity, mark: Mark, known: ProcessSet) -> Self {
        Self { held: Some(child), group, leader: Some(leader), ..Self::of(mark, known) }
    }

    /// For what a daemon that died left behind. A leader of an earlier boot is nobody now.
    pub fn left_over(mark: Mark, leader: Option<Identity>) -> Self {
        Self { leader: leader.filter(Identity::of_this_boot), ..Self::of(mark, ProcessSet::new()) }
    }

    fn of(mark: Mark, known: ProcessSet) -> Self {
        Self {
            mark,
            leader: None,
            held: None,
            group: None,
            known,
            killed: ProcessSet::new(),
            alive: Vec::new(),
            clean_passes: 0,
            looks: 0,
            started: Instant::now(),
        }
    }

    /// Looks once and kills what it finds. `true`: nothing is left, and the leader is reaped.
    pub fn pass(&mut self, table: &Table) -> bool {
        let own = std::process::id() as i32;
        let mut groups = HashSet::new();
        self.alive.clear();
        let grown = self.find(table);
        if let Some(group) = &self.group {
            group.kill();
        }
        for stat in table.iter().filter(|s| self.known.get(&s.pid) == Some(&s.started)) {
            let is_leader = self.leader.as_ref().is_some_and(|l| l.pid == stat.pid);
            if !is_leader {
                // A dead member's too: one that moves on from pid to pid shows itself by those it leaves behind.
                groups.insert(stat.group);
            }
            if !stat.is_dead() {
                self.alive.push(stat.pid);
                kill(stat.pid, stat.started);
                if !is_leader {
                    self.killed.insert(stat.pid, stat.started);
                }
            } else if stat.ppid == own && !is_leader {
                // Handed to us because there is no other reaper: in a container we may be process 1.
                // SAFETY: a pid of a zombie that is our child and whom nobody else waits for.
                unsafe { libc::waitpid(stat.pid, std::ptr::null_mut(), libc::WNOHANG) };
            }
        }
        kill_groups(table, groups);
        if !self.alive.is_empty() {
            self.clean_passes = 0;
            return false;
        }
        // Something may have forked behind our back where something had to be killed, or was never seen before, or was
        // gone before it could be looked at. The last is often somebody else's, so it does not count for ever, nor
        // where a control group names all of its members.
        self.looks += 1;
        let missed = table.vanished && self.group.is_none() && self.looks <= MANY_LOOKS;
        let unsure = grown || missed;
        self.clean_passes = if unsure { 0 } else { self.clean_passes + 1 };
        if unsure || self.clean_passes < 2 && !self.killed.is_empty() {
            return false;
        }
        let reaped = self.held.as_mut().is_none_or(Unreaped::reap);
        if !reaped {
            self.alive.extend(self.leader.iter().map(|l| l.pid));
        }
        reaped
    }

    /// Adds to `known` what belongs to the session. `true`: among that is one, besides the leader, that was not known.
    fn find(&mut self, table: &[Stat]) -> bool {
        let leader = self.leader.as_ref().map(|l| (l.pid, l.started));
        // The number of the leader's session is the leader's as long as it is unreaped, or seen alive right now.
        let holds = leader.filter(|l| self.held.is_some() || table.iter().any(|s| (s.pid, s.started) == *l));
        let since = self.since();
        self.known.extend(holds);
        let before = self.known.len();
        for stat in table {
            let of_session = holds.is_some_and(|(pid, _)| stat.session == pid);
            if of_session || (stat.started >= since && stat.mark == Some(self.mark.0)) {
                self.known.insert(stat.pid, stat.started);
            }
        }
        let in_group = self.group.as_ref().map(Group::processes).unwrap_or_default();
        self.known.extend(table.iter().filter(|s| in_group.contains(&s.pid)).map(|s| (s.pid, s.started)));
        below(table, &mut self.known);
        self.known.len() > before
    }

    /// When its first process was started, in clock ticks since boot; 0 where that is not known.
    pub fn since(&self) -> u64 {
        self.leader.as_ref().map_or(0, |leader| leader.started)
    }

    /// Whether somebody who waits for the end has waited long enough.
    pub fn is_late(&self) -> bool {
        self.started.elapsed() > PATIENCE
    }

    /// Processes other than the leader that had to be killed.
    pub fn killed(&self) -> usize {
        self.killed.len()
    }

    /// Processes that were still there at the last look.
    pub fn alive(&self) -> &[i32] {
        &self.alive
    }
}

/// Everything that hangs below the process `pid` now, itself included.
pub(super) fn descendants(leader: &Identity) -> ProcessSet {
    let mut known = ProcessSet::from([(leader.pid, leader.started)]);
    if let Ok(table) = proc::processes(u64::MAX) {
        below(&table, &mut known);
    }
    known
}

/// Adds the descendants of all who are in `known`.
fn below(table: &[Stat], known: &mut ProcessSet) {
    let there: HashMap<i32, u64> = table.iter().map(|s| (s.pid, s.started)).collect();
    loop {
        let before = known.len();
        for stat in table {
            // A pid of `known` that died and was given again is no member by its number.
            let started = known.get(&stat.ppid);
            if started.is_some() && started == there.get(&stat.ppid) {
                known.insert(stat.pid, stat.started);
            }
        }
        if known.len() == before {
            return;
        }
    }
}

/// Kills groups that members of the session were in. A process that goes on as its own child time and again is gone
/// before it is its turn, but its group is not. The groups are the session's alone: nobody joins one from outside of
/// the session in which it was made, and that was made by the leader or below it.
fn kill_groups(table: &Table, groups: HashSet<i32>) {
    // SAFETY: plain system calls.
    let own = unsafe { libc::getpgrp() };
    for group in groups {
        if group > 1 && group != own && table.still_means(group) {
            unsafe { libc::kill(-group, libc::SIGKILL) };
        }
    }
}

/// Kills exactly the process that had this pid at that start time, or nobody.
fn kill(pid: i32, started: u64) {
    // SAFETY: plain system calls; the descriptor is ours.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0) as libc::c_int;
        if fd < 0 {
            return;
        }
        let fd = OwnedFd::from_raw_fd(fd);
        // From here on the descriptor means one process, whatever happens to the number.
        if proc::stat(pid).is_some_and(|s| s.started == started) {
            libc::syscall(libc::SYS_pidfd_send_signal, fd.as_raw_fd(), libc::SIGKILL, std::ptr::null::<u8>(), 0);
        }
    }
}
