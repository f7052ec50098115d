//! Named crash points: where a test lets the process die as if by `kill -9`.
//!
//! `BUTLERD_CRASH_POINT=name` dies at the first passage, `name:3` at the third. `BUTLERD_STOP_POINT` stands still there
//! until it gets SIGCONT, so that a test can do to the world around it what it wants at that moment; before the file
//! that `BUTLERD_STOP_ARMED` names is there, passages do not count. Beside them stand points where a test lets the
//! process panic, or go wrong in a way that the point knows. Builds without debug assertions (a release) contain none
//! of this.

/// Passes the crash point `name`; dies or stands still there if the environment says so.
#[cfg(debug_assertions)]
pub fn point(name: &str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    static WANTED: OnceLock<Option<(String, u64, i32)>> = OnceLock::new();
    static PASSED: AtomicU64 = AtomicU64::new(0);
    let wanted = WANTED.get_or_init(|| {
        let said = |variable: &str, signal: i32| Some((std::env::var(variable).ok()?, signal));
        let crash = said("BUTLERD_CRASH_POINT", libc::SIGKILL);
        let (text, signal) = crash.or_else(|| said("BUTLERD_STOP_POINT", libc::SIGSTOP))?;
        let (name, nth) = text.split_once(':').unwrap_or((&text, "1"));
        Some((name.to_owned(), nth.parse().unwrap_or(1), signal))
    });
    if let Some((wanted, nth, signal)) = wanted
        && wanted == name
        && std::env::var_os("BUTLERD_STOP_ARMED").is_none_or(|file| std::path::Path::new(&file).exists())
        && PASSED.fetch_add(1, Ordering::SeqCst) + 1 == *nth
    {
        // To this very thread, which goes no further: no destructor, no flush, no exit handler runs.
        unsafe { libc::raise(*signal) };
    }
}

/// Passes the crash point `name`; nothing happens in a release.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn point(_name: &str) {}

/// Passes the panic point `name`; panics there as often as `BUTLERD_PANIC_POINT=name:times` says, then no more.
#[cfg(debug_assertions)]
pub fn panic_point(name: &str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicI64, Ordering};
    static WANTED: OnceLock<Option<(String, AtomicI64)>> = OnceLock::new();
    let wanted = WANTED.get_or_init(|| {
        let text = std::env::var("BUTLERD_PANIC_POINT").ok()?;
        let (name, times) = text.split_once(':').unwrap_or((&text, "1"));
        Some((name.to_owned(), AtomicI64::new(times.parse().unwrap_or(1))))
    });
    if let Some((wanted, left)) = wanted
        && wanted == name
        && left.fetch_sub(1, Ordering::SeqCst) > 0
    {
        panic!("asked to panic at {name}");
    }
}

/// Passes the panic point `name`; nothing happens in a release.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn panic_point(_name: &str) {}

/// Whether `BUTLERD_FAULT_POINT=name` asks for the fault `name`; never in a release.
pub fn fault(name: &str) -> bool {
    cfg!(debug_assertions) && std::env::var("BUTLERD_FAULT_POINT").is_ok_and(|wanted| wanted == name)
}
