//! How it lives on, and whom it leaves behind.

use std::time::Duration;

use serde_json::{Value, json};

use super::Tried;

/// Sleeps.
pub fn wait(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// For ever; but whatever a test that failed has left behind ends with the file that it runs.
pub fn hang() -> ! {
    loop {
        end_with_the_program();
        wait(2000);
    }
}

fn end_with_the_program() {
    if std::env::args_os().next().is_some_and(|program| !std::path::Path::new(&program).exists()) {
        std::process::exit(0);
    }
}

/// Ignores every signal that can be ignored.
pub fn deaf() {
    for signal in 1..=64 {
        // SAFETY: a plain system call; those that it must not touch refuse.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Closes its output, as a daemon would.
pub fn mute() {
    // SAFETY: plain system calls; nothing here owns these descriptors but the standard streams, which stand it.
    unsafe {
        libc::close(1);
        libc::close(2);
    }
}

/// Does not die with its parent.
pub fn undying() {
    // SAFETY: a plain system call.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, 0, 0, 0, 0) };
}

/// Sends itself a signal.
pub fn die(signal: i32) {
    // SAFETY: plain system calls.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::kill(libc::getpid(), signal);
    }
}

/// Leaves a process behind that is deaf and lives for ever:
/// `plain` in its group and session; `setsid` in a session of its own; `double` the same, and its parent is gone;
/// `hidden` the same, with every descriptor closed, another name, its environment wiped and `/` as its directory;
/// `unmarked` the same, and it lowers the limit by which butlerd knows its own; `loud` is `double` and writes to
/// standard output without end; `hopper` moves on to a new pid every millisecond.
pub fn fork(kind: &str) -> Tried {
    // SAFETY: this program has one thread, so its children may do anything.
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => return Err(super::attempts::name(&std::io::Error::last_os_error())),
        0 => {}
        pid if matches!(kind, "plain" | "setsid") => return Ok(json!(pid)),
        pid => {
            // The one between ends at once.
            unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
            return Ok(Value::Null);
        }
    }
    deaf();
    if kind != "plain" {
        // SAFETY: plain system calls; the second fork is of a process with one thread, as the first.
        unsafe {
            libc::setsid();
            if kind != "setsid" && libc::fork() != 0 {
                libc::_exit(0);
            }
        }
    }
    match kind {
        "hidden" | "unmarked" => hide(),
        "loud" => loop {
            end_with_the_program();
            super::print_now("still here\n");
        },
        "hopper" => loop {
            end_with_the_program();
            wait(1);
            // SAFETY: as above.
            if unsafe { libc::fork() } > 0 {
                unsafe { libc::_exit(0) };
            }
        },
        _ => {}
    }
    if kind == "unmarked" {
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the pointer is to a local of the right type.
        unsafe { libc::setrlimit(libc::RLIMIT_LOCKS, &none) };
    }
    hang()
}

/// As much of a process as it can give up by itself.
fn hide() {
    let _ = std::env::set_current_dir("/");
    // SAFETY: plain system calls. The memory between these two addresses holds arguments and environment, which this
    // process, about to sleep for ever, reads no more.
    unsafe {
        libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0);
        libc::prctl(libc::PR_SET_NAME, c"kworker/0:1".as_ptr(), 0, 0, 0);
        unsafe extern "C" {
            static mut environ: *mut *mut libc::c_char;
        }
        let mut at = environ;
        while !at.is_null() && !(*at).is_null() {
            let text = *at;
            std::ptr::write_bytes(text, 0, libc::strlen(text));
            at = at.add(1);
        }
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
    }
}
