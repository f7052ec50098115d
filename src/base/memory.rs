//! Memory that the allocator keeps although nobody uses it.

/// Blocks of this many bytes and more go back to the system as they are freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE: libc::c_int = 1 << 20;

/// Has large blocks given back to the system for as long as the process lives. To be called once, at its start. The C
/// library's allocator raises the size from which it does so with each such block, up to 32 MiB: after a child's line of
/// a megabyte was parsed once, tens of megabytes stayed with the daemon.
pub fn give_large_blocks_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it sets a number of the allocator's, under the allocator's own lock.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
    }
}
