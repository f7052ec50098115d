//! What `/proc` tells about processes.

use std::fs;

/// One process at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stat {
    pub pid: i32,
    /// `R`, `S`, `Z`, …
    pub state: u8,
    pub ppid: i32,
    pub session: i32,
    /// In clock ticks since boot.
    pub started: u64,
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
        session: rest.get(3)?.parse().ok()?,
        started: rest.get(19)?.parse().ok()?,
    })
}

/// The process `pid`, if it exists (a zombie does).
pub(super) fn stat(pid: i32) -> Option<Stat> {
    // A name may be no UTF-8.
    parse(&String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/stat")).ok()?))
}

/// All processes that we may see.
pub(super) fn processes() -> std::io::Result<Vec<Stat>> {
    let pids = fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Ok(pids.filter_map(stat).collect())
}

/// The limit of file locks of `pid`, which our children carry as their mark. `None`: unlimited, or it is gone.
pub(super) fn mark(pid: i32) -> Option<u64> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    limits.lines().find_map(|l| l.strip_prefix("Max file locks"))?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses_do_not_confuse() {
        let line = "42 (a) b (c) S 7 42 41 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 98765 1 2 3";
        let expected = Stat { pid: 42, state: b'S', ppid: 7, session: 41, started: 98765 };
        assert_eq!(parse(line), Some(expected));
        assert_eq!(parse("42 (a"), None);
        let me = stat(std::process::id() as i32).unwrap();
        assert!(me.started > 0 && !me.is_dead());
    }
}
