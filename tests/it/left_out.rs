//! A test that can't run here says so. In the gate, which installs everything, it fails instead.

use std::io::Write;

/// Tells that `test` was left out and why; the caller returns then. Panics if nothing may be left out.
///
/// Written past the test harness, which shows what a test prints only when it fails.
pub fn left_out(test: &str, reason: &str) {
    let line = format!("left out: {test}: {reason}\n");
    assert!(std::env::var_os("BUTLERD_TEST_LEAVE_NOTHING_OUT").is_none(), "{line}");
    std::io::stderr().write_all(line.as_bytes()).expect("standard error is open");
}
