//! Memory that the allocator keeps although nobody uses it.

/// Gives the system back what the allocator holds in reserve. To be called after something large is over: the C
/// library's allocator keeps what a parsed megabyte took, in case there is another.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes the allocator's own locks and has no other precondition.
    unsafe {
        libc::malloc_trim(0);
    }
}
