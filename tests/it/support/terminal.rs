//! A person at a terminal: a command on a pseudo-terminal, what it shows, and what is typed.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::{Household, butlerd};

/// A command that believes itself at a terminal.
pub struct Terminal {
    child: Child,
    keys: File,
    shown: Arc<Mutex<Vec<u8>>>,
    read: usize,
}

impl Terminal {
    /// Runs a command of the CLI in the household's directory, with nothing on its command line but `args`.
    pub fn open(household: &Household, args: &[&str]) -> Self {
        let (mut near, mut far) = (0, 0);
        let none = std::ptr::null_mut();
        let opened = unsafe { libc::openpty(&raw mut near, &raw mut far, none, none.cast(), none.cast()) };
        assert_eq!(opened, 0, "{}", std::io::Error::last_os_error());
        unsafe { libc::fcntl(near, libc::F_SETFD, libc::FD_CLOEXEC) };
        let (near, far) = unsafe { (OwnedFd::from_raw_fd(near), OwnedFd::from_raw_fd(far)) };
        let side = || Stdio::from(far.try_clone().expect("a copy"));
        let child = Command::new(butlerd())
            .args(args)
            .env_clear()
            .env("PATH", std::env::var("PATH").unwrap_or_default())
            .env("HOME", household.path())
            .env("NO_COLOR", "1")
            .envs(household.environment())
            .current_dir(household.path())
            .stdin(side())
            .stdout(side())
            .stderr(side())
            .spawn()
            .expect("butlerd runs");
        drop(far);
        let shown = Arc::new(Mutex::new(Vec::new()));
        let (mut screen, text) = (File::from(near.try_clone().expect("a copy")), shown.clone());
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(n) = screen.read(&mut part)
                && n > 0
            {
                text.lock().expect("the text").extend_from_slice(&part[..n]);
            }
        });
        Self { child, keys: File::from(near), shown, read: 0 }
    }

    /// Talks to the household, or to the butler that `args` name.
    pub fn chat(household: &Household, args: &[&str]) -> Self {
        let data = household.data();
        Self::open(household, &[&["chat", "--data-dir", data.to_str().expect("a path")], args].concat())
    }

    /// Waits until something is shown that was not there at the last call, and returns all since then up to it.
    pub async fn sees(&mut self, words: &str) -> String {
        let started = Instant::now();
        loop {
            let shown = self.shown();
            if let Some(at) = shown[self.read..].find(words) {
                let from = self.read;
                self.read += at + words.len();
                return shown[from..self.read].to_owned();
            }
            assert!(started.elapsed() < Duration::from_secs(60), "no {words:?} in:\n{}", &shown[self.read..]);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits for a question and answers it.
    pub async fn answers(&mut self, question: &str, answer: &str) {
        self.sees(question).await;
        self.types(answer);
    }

    /// Types a line.
    pub fn types(&mut self, line: &str) {
        self.presses(&format!("{line}\n"));
    }

    /// Presses these keys.
    pub fn presses(&mut self, keys: &str) {
        write!(self.keys, "{keys}").expect("the terminal takes it");
    }

    /// What Ctrl-C does while the command reads no keys: a terminal of its own would make a signal of it.
    pub fn interrupts(&self) {
        let pid = i32::try_from(self.child.id()).expect("a pid");
        // SAFETY: a plain system call; the process is this test's child.
        unsafe { libc::kill(pid, libc::SIGINT) };
    }

    /// All that was shown so far.
    pub fn shown(&self) -> String {
        // Read as a whole: the end of a part may be in the middle of a character.
        String::from_utf8_lossy(&self.shown.lock().expect("the text")).into_owned()
    }

    /// Waits for the end and returns the exit code.
    pub fn end(&mut self) -> i32 {
        self.child.wait().expect("its end").code().unwrap_or(-1)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
