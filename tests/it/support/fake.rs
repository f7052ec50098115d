//! Households whose sessions are run by the child that misbehaves (tests/bin/fake_cli.rs), and what is left of it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

use super::{Daemon, Household};
use crate::soak::{self, proc};

/// The butler whose sessions misbehave. It has the tools of the probe module besides its own.
pub const FAKE: &str = "faker";

impl Household {
    /// As [`Household::few`], with the butler [`FAKE`] and patience of a second where a child should leave by itself.
    pub fn misbehaving() -> Self {
        Self::few().with_fake()
    }

    /// With the butler [`FAKE`], as [`Household::misbehaving`] has it.
    pub fn with_fake(self) -> Self {
        let household = self.butler(FAKE, &format!("{}\n[modules.probe]\n", soak::butler(FAKE, 40191, "60s")));
        let program = household.fake_program();
        // A copy of its own: whatever a process does to itself, this is the file that it runs.
        std::fs::copy(built(), &program).expect("a copy of the program");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("its mode");
        household
            .env("BUTLERD_SPAWNER__CLIS__CLAUDE", program.to_str().expect("a path"))
            .env("BUTLERD_SPAWNER__KILL_GRACE", "1s")
            .env("BUTLERD_SPAWNER__FINAL_EVENT_GRACE", "1s")
            .env("BUTLERD_SPAWNER__MAX_SESSIONS", "8")
            .env("BUTLERD_SPAWNER__RETRIES", "0")
            .env("ANTHROPIC_API_KEY", "sk-test-key-that-nobody-takes")
    }

    /// The same program, to be an MCP server.
    pub fn fake_server(&self) -> PathBuf {
        let program = self.path().join("mcp-server");
        std::fs::copy(built(), &program).expect("a copy of the program");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("its mode");
        program
    }

    /// With another limit of time for each session of [`FAKE`].
    pub fn session_timeout(self, timeout: &str) -> Self {
        let new = format!("session_timeout = \"{timeout}\"");
        self.replace("faker/butler.toml", "session_timeout = \"60s\"", &new)
    }

    fn fake_program(&self) -> PathBuf {
        self.path().join("claude")
    }

    /// Living processes that run this household's misbehaving program.
    pub fn fakes(&self) -> Vec<i32> {
        let program = self.fake_program();
        proc::processes().filter(|process| process.runs(&program)).map(|process| process.pid).collect()
    }

    /// Dead children of the daemon that it has not buried.
    pub fn zombies(&self, daemon: &Daemon) -> Vec<i32> {
        let dead = |process: &proc::Process| process.dead && process.parent == daemon.pid();
        proc::processes().filter(dead).map(|process| process.pid).collect()
    }

    /// For the soak.
    pub fn soaked(&self, daemon: &Daemon) -> soak::Target {
        soak::Target { pid: daemon.pid(), program: self.fake_program(), work: self.data().join("work") }
    }

    /// What is in the directory of workspaces.
    pub fn workspaces(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.data().join("work")).expect("the directory of workspaces");
        entries.flatten().map(|e| e.path()).collect()
    }
}

/// The program. `cargo test` has built it with the tests; `cargo test --test it` has not.
fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let own = std::env::current_exe().expect("the path of the tests");
        let profile = own.ancestors().nth(2).expect("the directory of the build");
        let program = profile.join("examples/fake_cli");
        let changed = |path: &Path| path.metadata().and_then(|m| m.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bin");
        let parts = std::fs::read_dir(sources.join("fake_cli")).expect("its parts").flatten().map(|e| e.path());
        let newest = parts.chain([sources.join("fake_cli.rs")]).map(|p| changed(&p)).max();
        if Some(changed(&program)) < newest {
            let name = match profile.file_name().and_then(|n| n.to_str()).expect("a name") {
                "debug" => "dev",
                other => other,
            };
            let built = Command::new(env!("CARGO"))
                .args(["build", "--quiet", "--locked", "--example", "fake_cli", "--profile", name, "--target-dir"])
                .arg(profile.parent().expect("the directory of builds"))
                .current_dir(env!("CARGO_MANIFEST_DIR"))
                .status();
            assert!(built.expect("cargo runs").success(), "tests/bin/fake_cli.rs can't be built");
        }
        program
    })
}

/// Undoes what the step `finish-turned` did: each letter is replaced by the one 13 places on.
pub fn turned(text: &str) -> String {
    let turn = |c: char| match c {
        'A'..='M' | 'a'..='m' => (c as u8 + 13) as char,
        'N'..='Z' | 'n'..='z' => (c as u8 - 13) as char,
        other => other,
    };
    text.chars().map(turn).collect()
}
