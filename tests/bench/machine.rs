//! What the kernel tells of the machine and of processes.

use std::path::Path;

use crate::Failed;

/// One line: cores, processor, load, kernel.
pub fn describe() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find_map(|l| l.strip_prefix("model name")).unwrap_or_default();
    let load = read("/proc/loadavg");
    let load: Vec<&str> = load.split(' ').take(3).collect();
    let kernel = read("/proc/sys/kernel/osrelease");
    format!(
        "{cores} cores ({}), Linux {}, load average before: {}",
        model.trim_start_matches(['\t', ' ', ':']),
        kernel.trim(),
        load.join(" ")
    )
}

/// A field of `/proc/PID/status` in KiB.
pub fn status_kib(pid: u32, field: &str) -> Result<u64, Failed> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|l| l.strip_prefix(field)?.strip_prefix(':'));
    let number = line.and_then(|l| l.trim().strip_suffix(" kB")).ok_or_else(|| format!("no {field} of {pid}"))?;
    Ok(number.trim().parse()?)
}

struct Stat {
    parent: u32,
    /// Clock ticks: own, and of children that were waited for.
    own: u64,
    reaped: u64,
}

fn stat(pid: u32) -> Option<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold spaces and brackets; after its last bracket the fields are plain.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |i: usize| fields.get(i)?.parse::<u64>().ok();
    Some(Stat {
        parent: fields.get(1)?.parse().ok()?,
        own: number(11)? + number(12)?,
        reaped: number(13)? + number(14)?,
    })
}

fn seconds(ticks: u64) -> f64 {
    // SAFETY: sysconf has no preconditions.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    ticks as f64 / per_second as f64
}

/// CPU seconds of one process so far, without its children.
pub fn cpu(pid: u32) -> f64 {
    stat(pid).map_or(0.0, |s| seconds(s.own))
}

/// CPU seconds of a database server so far: the postmaster, its living children and those that have ended.
pub fn cpu_of_server(postmaster: u32) -> f64 {
    let Some(top) = stat(postmaster) else { return 0.0 };
    let mut ticks = top.own + top.reaped;
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|n| n.parse().ok());
        if let Some(s) = pid.and_then(stat).filter(|s| s.parent == postmaster) {
            ticks += s.own + s.reaped;
        }
    }
    seconds(ticks)
}

/// Memory of a database server in KiB: what its processes have each, and what they share once.
pub fn resident_of_server(postmaster: u32) -> u64 {
    let children = std::fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        stat(pid).filter(|s| s.parent == postmaster).map(|_| pid)
    });
    let rollup = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let pss = |text: &str| {
        text.lines().find_map(|l| l.strip_prefix("Pss:")?.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok())
    };
    children.chain([postmaster]).filter_map(|pid| pss(&rollup(pid))).sum()
}

/// The postmaster of the cluster in this data directory.
pub fn postmaster(data: &Path) -> Result<u32, Failed> {
    let text = std::fs::read_to_string(data.join("postgres/postmaster.pid"))?;
    Ok(text.lines().next().unwrap_or_default().parse()?)
}

/// CPU seconds of this process so far, more finely than `/proc` tells.
pub fn own_cpu() -> f64 {
    // SAFETY: rusage is plain numbers, for which zeros are valid, and the call only writes into it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let part = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    part(usage.ru_utime) + part(usage.ru_stime)
}

/// Nanoseconds of the clock that all processes share and nobody sets.
pub fn monotonic_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes into a timespec of ours.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}
