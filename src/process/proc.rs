//! What `/proc` tells about processes.

use std::fs;
use std::ops::Deref;

/// One process at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stat {
    pub pid: i32,
    /// `R`, `S`, `Z`, …
    pub state: u8,
    pub ppid: i32,
    pub group: i32,
    pub session: i32,
    /// In clock ticks since boot.
    pub started: u64,
    /// The mark that it carries, where that was looked for.
    pub mark: Option<u64>,
}

impl Stat {
    /// Whether it is over and only waits to be reaped.
    pub fn is_dead(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }
}

fn parse(text: &str) -> Option<Stat> {
    let pid = text.split_once(' ')?.0.parse().ok()?;
    // The name is in parentheses and may itself hold blanks and parentheses.
    let rest: Vec<&str> = text.get(text.rfind(')')? + 2..)?.split(' ').collect();
    Some(Stat {
        pid,
        state: *rest.first()?.as_bytes().first()?,
        ppid: rest.get(1)?.parse().ok()?,
        group: rest.get(2)?.parse().ok()?,
        session: rest.get(3)?.parse().ok()?,
        started: rest.get(19)?.parse().ok()?,
        mark: None,
    })
}

/// The process `pid`, if it exists (a zombie does).
pub(super) fn stat(pid: i32) -> Option<Stat> {
    // A name may be no UTF-8.
    parse(&String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/stat")).ok()?))
}

/// All processes that we may see, as they were while they were looked at.
#[derive(Default)]
pub(super) struct Table {
    processes: Vec<Stat>,
    /// The pid that was given last when the look began.
    last: Option<i32>,
    /// A process was there when the look began and gone when it was its turn.
    pub vanished: bool,
}

impl Deref for Table {
    type Target = [Stat];

    fn deref(&self) -> &[Stat] {
        &self.processes
    }
}

impl Table {
    /// Whether this number, of a pid or a group that was alive when the table was made, still means the same if it
    /// means anything: numbers are given in a circle, and the circle has not come to it since.
    pub fn still_means(&self, number: i32) -> bool {
        let Some((before, now)) = self.last.zip(last_pid()) else { return false };
        let given = if before <= now { before < number && number <= now } else { number > before || number <= now };
        !given
    }
}

/// The pid that was given last.
fn last_pid() -> Option<i32> {
    fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().last()?.parse().ok()
}

/// Looks at all processes, and for the marks of those that were started at `since` or later. A mark is looked for as
/// soon as its process is seen: one that moves from pid to pid is gone a moment later.
pub(super) fn processes(since: u64) -> std::io::Result<Table> {
    let last = last_pid();
    let names = fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let mut pids: Vec<i32> = names.collect();
    // The newest first: they are the ones that may be gone soon.
    pids.sort_unstable_by(|a, b| b.cmp(a));
    let look = |pid| {
        let stat = stat(pid)?;
        Some(Stat { mark: if stat.started >= since { mark(pid) } else { None }, ..stat })
    };
    let found: Vec<Stat> = pids.iter().copied().filter_map(look).collect();
    Ok(Table { vanished: found.len() < pids.len(), processes: found, last })
}

/// The limit of file locks of `pid`, which our children carry as their mark. `None`: unlimited, or it is gone.
fn mark(pid: i32) -> Option<u64> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    limits.lines().find_map(|l| l.strip_prefix("Max file locks"))?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_was_given_anew_means_something_else() {
        let now = last_pid().unwrap();
        let table = |last| Table { last: Some(last), ..Table::default() };
        // In a moment a few may be given by others, but not these.
        assert!(table(now).still_means(now - 1) && !table(now - 10).still_means(now - 5));
        // Around the circle: everything but what lies between.
        assert!(table(now + 20_000).still_means(now + 15_000) && !table(now + 20_000).still_means(now - 5));
        assert!(!table(now + 20_000).still_means(now + 20_001));
    }

    #[test]
    fn names_with_parentheses_do_not_confuse() {
        let line = "42 (a) b (c) S 7 42 41 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 98765 1 2 3";
        let expected = Stat { pid: 42, state: b'S', ppid: 7, group: 42, session: 41, started: 98765, mark: None };
        assert_eq!(parse(line), Some(expected));
        assert_eq!(parse("42 (a"), None);
        let me = stat(std::process::id() as i32).unwrap();
        assert!(me.started > 0 && !me.is_dead());
    }
}
