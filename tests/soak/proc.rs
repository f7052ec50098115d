//! What `/proc` tells of a daemon and of what its sessions have started.

use std::collections::BTreeMap;
use std::path::Path;

/// A process at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Process {
    pub pid: i32,
    pub parent: i32,
    /// Over, and not yet buried by its parent.
    pub dead: bool,
    /// In clock ticks since boot.
    pub started: u64,
}

impl Process {
    pub fn of(pid: i32) -> Option<Self> {
        let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        let text = String::from_utf8_lossy(&text);
        // The name may hold blanks and parentheses; after its last one the fields are plain.
        let words: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        Some(Self {
            pid,
            parent: words.get(1)?.parse().ok()?,
            dead: matches!(*words.first()?, "Z" | "X"),
            started: words.get(19)?.parse().ok()?,
        })
    }

    /// Whether it runs this very file, whatever it calls itself.
    pub fn runs(&self, program: &Path) -> bool {
        !self.dead && std::fs::read_link(format!("/proc/{}/exe", self.pid)).is_ok_and(|exe| exe == program)
    }

    /// The mark of a session, in the form in which [`sessions::child::Mark`] is shown.
    pub fn mark(&self) -> Option<String> {
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", self.pid)).ok()?;
        let line = limits.lines().find_map(|l| l.strip_prefix("Max file locks"))?;
        line.split_whitespace().next()?.parse::<u64>().ok().map(|mark| format!("{mark:x}"))
    }
}

/// All that there are.
pub fn processes() -> impl Iterator<Item = Process> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| Process::of(entry.file_name().to_str()?.parse().ok()?))
}

/// How many descriptors of each kind a process holds: `socket`, `pipe`, `anon_inode:[pidfd]`, and files by their path.
pub fn descriptors(pid: i32) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
        let Ok(target) = std::fs::read_link(entry.path()) else { continue };
        let target = target.to_string_lossy();
        let kind = match target.split_once(":[") {
            Some((kind, _)) if kind != "anon_inode" => kind,
            _ => &target,
        };
        *kinds.entry(kind.to_owned()).or_default() += 1;
    }
    kinds
}

/// A field of a process's status, in KiB; 0 when it is gone.
pub fn memory(pid: i32, field: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix(field)?.strip_prefix(':'));
    line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}
