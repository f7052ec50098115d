//! Memory: what the allocator keeps although nothing uses it, and whether there is enough for more work.

/// Blocks of this many bytes and more go back to the system as they are freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE: libc::c_int = 1 << 20;

/// Has large blocks given back to the system for as long as the process lives. To be called once, at its start. The C
/// library's allocator raises the size from which it does so with each such block, up to 32 MiB: after a child's line
/// of a megabyte was parsed once, tens of megabytes stayed with the daemon.
pub fn give_large_blocks_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it sets a number of the allocator's, under the allocator's own lock.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
    }
}

/// Of less memory than this no child is begun: the kernel would kill one of those that run.
const LEAST: u64 = 24 << 20;

/// Why the machine, the service or this process has no memory for more work, in a sentence without its full stop;
/// `None`: it has. What the system does not tell counts as enough.
pub fn shortage() -> Option<String> {
    if !can_map(LEAST as usize) {
        return Some("the daemon may take no more memory: raise its limit (`ulimit -v`, LimitAS=)".to_owned());
    }
    let read = |path: &str| std::fs::read_to_string(path).ok();
    if let Some(left) = read("/proc/meminfo").and_then(|text| machine_left(&text)).filter(|left| *left < LEAST) {
        return Some(format!("the machine has {} MiB of memory left", left >> 20));
    }
    let own = read("/proc/self/cgroup")?;
    let dir = format!("/sys/fs/cgroup{}", own.lines().find_map(|line| line.strip_prefix("0::"))?.trim_end_matches('/'));
    let file = |name: &str| read(&format!("{dir}/{name}"));
    let left = group_left(&file("memory.max")?, &file("memory.current")?, &file("memory.stat")?)?;
    (left < LEAST).then(|| format!("the service has {} MiB left of what MemoryMax= gives it", left >> 20))
}

/// Whether the system gives this process so many bytes more. They are never touched, so that they cost nothing.
fn can_map(bytes: usize) -> bool {
    let (rights, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: it maps memory of its own at a place that the system chooses, and gives back just that.
    unsafe {
        let at = libc::mmap(std::ptr::null_mut(), bytes, rights, kind, -1, 0);
        at != libc::MAP_FAILED && libc::munmap(at, bytes) == 0
    }
}

/// Bytes that programs can still get, by `/proc/meminfo`.
fn machine_left(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

/// Bytes that a control group can still get; what it holds of files is given back when asked for. `None`: no limit.
fn group_left(max: &str, current: &str, stat: &str) -> Option<u64> {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let files = |name: &str| stat.lines().find_map(|line| number(line.strip_prefix(name)?)).unwrap_or_default();
    let held = number(current)?.saturating_sub(files("inactive_file ") + files("active_file "));
    Some(number(max)?.saturating_sub(held))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_read_of_the_machine_and_of_the_group() {
        assert_eq!(machine_left("MemTotal: 100 kB\nMemAvailable:     2048 kB\n"), Some(2 << 20));
        assert_eq!(machine_left("MemTotal: 100 kB\n"), None);
        assert_eq!(group_left("max\n", "4096\n", ""), None);
        let stat = "anon 1\ninactive_file 1000\nactive_file 24\n";
        assert_eq!(group_left("10000\n", "9024\n", stat), Some(2000));
        assert_eq!(shortage(), None, "there is enough to test with");
    }
}
