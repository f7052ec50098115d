//! Test points: what a test does to a process from outside, by variables of its environment.
//!
//! Most are named crash points, at which the process dies as if by `kill -9`. `BUTLERD_CRASH_POINT=name` dies at the
//! first passage, `name:3` at the third. `BUTLERD_STOP_POINT` stands still there until it gets SIGCONT, so that a test
//! can do to the world around it what it wants at that moment; before the file that `BUTLERD_STOP_ARMED` names is
//! there, passages do not count. Beside them stand points where a test lets the process panic, or go wrong in a way
//! that the point knows. A clock that is moved and waits that are shortened go by [`variable`], too.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Whether this build has test points: those with debug assertions do, and a release with the feature `test-points`.
/// The release that people get contains none of this.
pub const TEST_POINTS: bool = cfg!(any(debug_assertions, feature = "test-points"));

/// What a test says by this variable of the environment; nothing in a build without test points.
pub fn variable(name: &str) -> Option<String> {
    if TEST_POINTS { std::env::var(name).ok() } else { None }
}

/// Passes the crash point `name`; dies or stands still there if the environment says so.
pub fn point(name: &str) {
    static WANTED: OnceLock<Option<(String, u64, i32)>> = OnceLock::new();
    static PASSED: AtomicU64 = AtomicU64::new(0);
    if !TEST_POINTS {
        return;
    }
    let wanted = WANTED.get_or_init(|| {
        let said = |name: &str, signal: i32| Some((variable(name)?, signal));
        let crash = said("BUTLERD_CRASH_POINT", libc::SIGKILL);
        let (text, signal) = crash.or_else(|| said("BUTLERD_STOP_POINT", libc::SIGSTOP))?;
        let (name, nth) = text.split_once(':').unwrap_or((&text, "1"));
        Some((name.to_owned(), nth.parse().unwrap_or(1), signal))
    });
    if let Some((wanted, nth, signal)) = wanted
        && wanted == name
        && std::env::var_os("BUTLERD_STOP_ARMED").is_none_or(|file| Path::new(&file).exists())
        && PASSED.fetch_add(1, Ordering::SeqCst) + 1 == *nth
    {
        // To this very thread, which goes no further: no destructor, no flush, no exit handler runs.
        unsafe { libc::raise(*signal) };
    }
}

/// Passes the panic point `name`; panics there as often as `BUTLERD_PANIC_POINT=name:times` says, then no more.
pub fn panic_point(name: &str) {
    static WANTED: OnceLock<Option<(String, AtomicI64)>> = OnceLock::new();
    if !TEST_POINTS {
        return;
    }
    let wanted = WANTED.get_or_init(|| {
        let text = variable("BUTLERD_PANIC_POINT")?;
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

/// Whether `BUTLERD_FAULT_POINT=name` asks for the fault `name`.
pub fn fault(name: &str) -> bool {
    variable("BUTLERD_FAULT_POINT").is_some_and(|wanted| wanted == name)
}
