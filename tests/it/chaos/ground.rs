//! What the daemon of the rounds stands on: a log that can be closed, a clock that can be moved, and names of hosts
//! that can be forgotten.

use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::model_door::ModelDoor;
use crate::support::{Daemon, Household, http};

/// The host of the model: known as long as it stands in the file of hosts.
const MODEL: &str = "model.invalid";

pub struct Ground {
    hosts: PathBuf,
    clock: PathBuf,
    fifo: PathBuf,
    closed: Arc<AtomicBool>,
    gone: Arc<AtomicBool>,
    client: reqwest::Client,
}

impl Ground {
    /// Where the model and the clock are.
    pub fn settings(household: Household, door: &ModelDoor) -> Household {
        let clock = household.path().join("clock");
        std::fs::write(&clock, "0s").expect("the clock's file");
        let url = door.url().replace("127.0.0.1", MODEL);
        household.env("BUTLERD_SPAWNER__ENDPOINTS__ANTHROPIC", &url).env("BUTLERD_CLOCK_FILE", &clock.to_string_lossy())
    }

    pub fn new(household: &Household) -> Self {
        let dir = household.path();
        let fifo = dir.join("log.fifo");
        let name = CString::new(fifo.as_os_str().as_bytes()).expect("a path");
        // SAFETY: the path is a string that ends with a zero.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let ground = Self {
            hosts: dir.join("hosts"),
            clock: dir.join("clock"),
            fifo: fifo.clone(),
            closed: Arc::default(),
            gone: Arc::default(),
            client: fresh(),
        };
        ground.knows_model(true);
        let (closed, gone) = (ground.closed.clone(), ground.gone.clone());
        let log = File::create(dir.join("elsewhere.log")).expect("the log");
        std::thread::spawn(move || read_log(&fifo, log, &closed, &gone));
        ground
    }

    /// Starts a daemon that knows hosts by the file of the ground.
    pub fn start(&self, household: &Household) -> Daemon {
        // A thread of its own: its mounts are the daemon's, and nobody else's.
        let start = || {
            own_hosts(&self.hosts);
            let log = File::options().write(true).open(&self.fifo).expect("the log is read");
            Daemon::spawn_with_log(household, log.into()).wait_ready()
        };
        tokio::task::block_in_place(|| std::thread::scope(|scope| scope.spawn(start).join().expect("it starts")))
    }

    /// What `/readyz` says to somebody who comes anew; else why it says nothing within a second.
    pub async fn readiness(&self, daemon: &Daemon) -> Result<(u16, String), String> {
        let told = |e: reqwest::Error| format!("{e:?}");
        let request = self.client.get(format!("http://{}/readyz", daemon.admin())).timeout(Duration::from_secs(1));
        let answer = request.send().await.map_err(told)?;
        Ok((answer.status().as_u16(), answer.text().await.map_err(told)?))
    }

    /// Whether it says that it is ready, within this time.
    pub async fn is_ready(&self, daemon: &Daemon, within: Duration) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < within {
            if self.readiness(daemon).await.is_ok_and(|(code, _)| code == 200) {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        false
    }

    pub fn close_log(&self, closed: bool) {
        self.closed.store(closed, Ordering::Release);
    }

    /// Moves the daemon's clock away from the machine's by this much.
    pub fn move_clock(&self, by: &str) {
        let new = self.clock.with_extension("new");
        std::fs::write(&new, by).expect("the clock's file");
        std::fs::rename(new, &self.clock).expect("the clock is set");
    }

    /// Whether the model's host has an address. Written in place: the file is mounted.
    pub fn knows_model(&self, knows: bool) {
        let model = if knows { format!("127.0.0.1 {MODEL}\n") } else { String::new() };
        std::fs::write(&self.hosts, format!("127.0.0.1 localhost\n{model}")).expect("the file of hosts");
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        self.gone.store(true, Ordering::Release);
    }
}

/// A client that keeps no connection.
fn fresh() -> reqwest::Client {
    drop(http());
    reqwest::Client::builder().pool_max_idle_per_host(0).build().expect("a client")
}

/// Writes down what comes through the pipe, and lets go of it while it is closed.
fn read_log(fifo: &Path, mut log: File, closed: &AtomicBool, gone: &AtomicBool) {
    let open = || File::options().read(true).custom_flags(libc::O_NONBLOCK).open(fifo).ok();
    let (mut pipe, mut bytes) = (open(), vec![0; 1 << 16]);
    while !gone.load(Ordering::Acquire) {
        match (closed.load(Ordering::Acquire), &mut pipe) {
            (true, _) => pipe = None,
            (false, None) => pipe = open(),
            (false, Some(pipe)) => {
                if let Ok(n @ 1..) = pipe.read(&mut bytes) {
                    log.write_all(&bytes[..n]).expect("the log");
                    continue;
                }
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Gives this thread, and whatever it starts, a file of hosts of its own.
fn own_hosts(hosts: &Path) {
    let path = |path: &Path| CString::new(path.as_os_str().as_bytes()).expect("a path");
    let (hosts, system, root) = (path(hosts), path(Path::new("/etc/hosts")), path(Path::new("/")));
    let none = std::ptr::null();
    // SAFETY: the paths end with a zero; the kernel reads nothing else.
    unsafe {
        assert_eq!(libc::unshare(libc::CLONE_NEWNS), 0, "a mount namespace");
        assert_eq!(libc::mount(none, root.as_ptr(), none, libc::MS_REC | libc::MS_PRIVATE, none.cast()), 0);
        assert_eq!(libc::mount(hosts.as_ptr(), system.as_ptr(), none, libc::MS_BIND, none.cast()), 0);
    }
}
