//! The running daemon.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::butlerd;
use super::household::Household;
use super::invariants;
use super::mcp::{Mcp, http};

/// A daemon process. Dropped, it is killed as by `kill -9`.
pub struct Daemon {
    child: Child,
    data: PathBuf,
    log: PathBuf,
    pub info: Value,
}

impl Daemon {
    /// Starts the process; it may not be ready yet.
    pub fn spawn(household: &Household) -> Self {
        let log = household.path().join(format!("daemon-{}.log", uuid::Uuid::now_v7()));
        let file = File::create(&log).expect("the log file");
        Self::spawn_into(household, log, file.into())
    }

    /// As [`Daemon::spawn`], with a log of the test's own.
    pub fn spawn_with_log(household: &Household, log: OwnedFd) -> Self {
        Self::spawn_into(household, household.path().join("elsewhere.log"), log)
    }

    fn spawn_into(household: &Household, log: PathBuf, file: OwnedFd) -> Self {
        let child = Command::new(butlerd())
            .arg("serve")
            .arg("--data-dir")
            .arg(household.data())
            .arg("--roster")
            .arg(household.roster())
            .env_clear()
            .env("PATH", std::env::var("PATH").unwrap_or_default())
            .env("HOME", household.path())
            .env("XDG_CACHE_HOME", std::env::var("XDG_CACHE_HOME").unwrap_or_else(|_| "/tmp".to_owned()))
            .envs(household.environment())
            .current_dir(household.path())
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("the log file"))
            .stderr(file)
            .spawn()
            .expect("butlerd starts");
        Self { child, data: household.data(), log, info: Value::Null }
    }

    /// Waits until the daemon says where it is.
    pub fn wait_ready(self) -> Self {
        match self.wait_ready_or_end() {
            (daemon, true) => daemon,
            (daemon, false) => panic!("the daemon ended before it was ready:\n{}", daemon.log()),
        }
    }

    /// Waits until the daemon says where it is, or has ended before that: then the second is `false`.
    pub fn wait_ready_or_end(mut self) -> (Self, bool) {
        let started = Instant::now();
        loop {
            // Looked at first: one that dies of what it does as soon as it is ready has been ready.
            let ended = self.ended();
            let text = std::fs::read_to_string(self.data.join("run/daemon.json")).unwrap_or_default();
            let info: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
            if info["pid"].as_u64() == Some(u64::from(self.child.id())) {
                self.info = info;
                return (self, true);
            }
            if ended {
                return (self, false);
            }
            assert!(started.elapsed() < Duration::from_secs(120), "the daemon is not ready:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a pid")
    }

    /// What the daemon has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until at least `times` lines of the log have all of these words, and returns how many do. A thread of its
    /// own writes the log, so that a line may come later than the answer to the request that it is about.
    pub async fn logged(&self, words: &[&str], times: usize) -> usize {
        super::eventually("the log", || async {
            let log = self.log();
            let told = log.lines().filter(|l| words.iter().all(|word| l.contains(word))).count();
            if told < times { Err(format!("{told} of {times} lines with {words:?} in\n{log}")) } else { Ok(told) }
        })
        .await
    }

    /// `host:port` of the admin server.
    pub fn admin(&self) -> &str {
        self.info["admin"].as_str().expect("the admin address")
    }

    /// A butler's port.
    pub fn port(&self, butler: &str) -> u16 {
        let port = self.info["butlers"][butler].as_u64();
        let port = port.unwrap_or_else(|| panic!("{butler} has no port in {}", self.info));
        u16::try_from(port).expect("a port")
    }

    /// The operator's token of this run.
    pub fn token(&self) -> String {
        std::fs::read_to_string(self.data.join("run/operator.token")).expect("the token").trim().to_owned()
    }

    /// A client of a butler's MCP server with the operator's token.
    pub fn mcp(&self, butler: &str) -> Mcp {
        Mcp::new(self.port(butler), Some(self.token()))
    }

    /// GET of a path of the admin server, with the operator's token.
    pub async fn get(&self, path: &str) -> (u16, String) {
        let request = http().get(format!("http://{}{path}", self.admin())).bearer_auth(self.token());
        let response = request.send().await.expect("the admin server answers");
        (response.status().as_u16(), response.text().await.expect("a body"))
    }

    /// Waits until it says that it is ready. A machine that stands still for a moment lets a probe of its database or disk
    /// be late, and then it says for that moment that it is not.
    pub async fn ready(&self) {
        super::eventually("it is ready", || async {
            match self.get("/readyz").await {
                (200, _) => Ok(()),
                (code, body) => Err(format!("{code} {body}")),
            }
        })
        .await;
    }

    /// The household's status.
    pub async fn status(&self) -> Value {
        self.rpc("status", serde_json::json!({})).await
    }

    /// Calls a method of the admin API with the operator's token; panics where it fails.
    pub async fn rpc(&self, method: &str, params: Value) -> Value {
        let method = format!("butlerd.{method}");
        let body = serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let client = http();
        let request = client.post(format!("http://{}/rpc", self.admin())).bearer_auth(self.token()).json(&body);
        let answer: Value = request.send().await.expect("an answer").json().await.expect("JSON");
        assert!(answer["error"].is_null(), "{answer}");
        answer["result"].clone()
    }

    /// One butler's part of the status.
    pub async fn butler(&self, name: &str) -> Value {
        let status = self.status().await;
        let list = status["butlers"].as_array().cloned().unwrap_or_default();
        list.into_iter().find(|b| b["name"] == name).unwrap_or_else(|| panic!("no {name} in {status}"))
    }

    /// Ends it as `systemctl stop` would and waits for its exit code.
    pub fn stop_blocking(&mut self) -> i32 {
        self.check();
        self.signal(libc::SIGTERM);
        self.wait_end()
    }

    /// Waits until it has ended and returns its exit code.
    pub fn wait_end(&mut self) -> i32 {
        self.child.wait().expect("its end").code().unwrap_or(-1)
    }

    pub fn signal(&self, signal: i32) {
        unsafe { libc::kill(self.pid(), signal) };
    }

    /// `kill -9`, and waits until it is gone.
    pub fn kill(&mut self) {
        self.signal(libc::SIGKILL);
        let _ = self.child.wait();
    }

    /// Whether the process has ended.
    pub fn ended(&mut self) -> bool {
        self.child.try_wait().expect("the daemon's status").is_some()
    }
}

impl Daemon {
    /// Fails the test if anything is wrong with the rows of a daemon that is there.
    fn check(&mut self) {
        if !std::thread::panicking() && !self.info.is_null() && !self.ended() {
            let found = invariants::check_if_there(&self.data);
            assert!(found.is_empty(), "the household's rows:\n{}", found.join("\n"));
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.check();
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = self.log();
            let told: Vec<&str> = log.lines().filter(|l| l.contains("ERROR") || l.contains("WARN")).collect();
            eprintln!("the daemon's warnings and errors:\n{}", told.join("\n"));
        }
    }
}
