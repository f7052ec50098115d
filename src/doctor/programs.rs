//! The command-line programs that sessions may run.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use super::Finding;
use crate::base::{SessionId, text};
use crate::config::ClisConfig;
use crate::config::{ButlerConfig, Config, RuntimeKind};
use crate::spawner::RUNTIMES;
use crate::spawner::adapters::{CHILD_PATH, adapter};
use crate::spawner::child::{ChildSpec, Nursery, Output, OutputLimits, Rlimits};

const TOPIC: &str = "programs";
const PATIENCE: Duration = Duration::from_secs(10);

/// Kinds of runtimes with a program of a vendor's, and its name.
const PROGRAMS: [(RuntimeKind, &str); 3] =
    [(RuntimeKind::ClaudeCode, "claude"), (RuntimeKind::Codex, "codex"), (RuntimeKind::Gemini, "gemini")];

/// The first executable file of this name on the PATH, links resolved.
pub(super) fn on_path(name: &str) -> Option<PathBuf> {
    let usable = |path: PathBuf| {
        let path = path.canonicalize().ok()?;
        let meta = path.metadata().ok()?;
        (meta.is_file() && meta.permissions().mode() & 0o111 != 0).then_some(path)
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).filter(|d| d.is_absolute()).find_map(|dir| usable(dir.join(name)))
}

pub(super) async fn findings(config: Option<&Config>, butlers: &[ButlerConfig]) -> Vec<Finding> {
    let nursery = match Nursery::start() {
        Ok(nursery) => nursery,
        Err(e) => return vec![Finding::problem(TOPIC, format!("children can't be started: {e}"))],
    };
    let mut found = Vec::new();
    for (kind, name) in PROGRAMS {
        let users: Vec<&str> = butlers.iter().filter(|b| b.runtime.kind == kind).map(|b| b.name.as_str()).collect();
        let look = match RUNTIMES.contains(&kind) {
            true => known(&nursery, kind, config).await,
            false => unknown(&nursery, name).await,
        };
        found.push(judge(kind, name, look, &users));
    }
    found
}

/// Where a program is and what it says; or why it can't be used.
struct Seen {
    program: Option<PathBuf>,
    version: Option<String>,
    problem: Option<String>,
}

/// A program that this build has an adapter for: the adapter knows how to look.
async fn known(nursery: &Nursery, kind: RuntimeKind, config: Option<&Config>) -> Seen {
    let clis = config.map(|c| c.spawner.clis.clone()).unwrap_or(ClisConfig { claude: None });
    match adapter(kind, &clis) {
        Some(adapter) => {
            let probe = adapter.probe(nursery).await;
            Seen { program: probe.program, version: probe.version, problem: probe.problem }
        }
        None => Seen { program: None, version: None, problem: None },
    }
}

async fn unknown(nursery: &Nursery, name: &str) -> Seen {
    let Some(program) = on_path(name) else { return Seen { program: None, version: None, problem: None } };
    let version = version(nursery, program.clone()).await;
    Seen { program: Some(program), version, problem: None }
}

/// The first line of `--version`. The program gets a home that isn't there, so that it neither reads nor writes one.
async fn version(nursery: &Nursery, program: PathBuf) -> Option<String> {
    let env = [("PATH", CHILD_PATH), ("HOME", "/nonexistent")];
    let spec = ChildSpec {
        program,
        args: vec!["--version".to_owned()],
        env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        cwd: "/".into(),
        user: None,
        limits: Rlimits { core: Some(0), ..Rlimits::default() },
        sandbox: None,
        stdin: None,
        session: SessionId::new(),
        output: OutputLimits { total: 64 << 10, ..OutputLimits::default() },
    };
    let mut child = nursery.spawn(spec).await.ok()?;
    let mut first = None;
    if let Some(mut lines) = child.stdout.take() {
        let read = async {
            while let Ok(Some(Output::Line(line))) = lines.next().await {
                first.get_or_insert(line.text);
            }
        };
        // Whatever came until then counts.
        let _ = tokio::time::timeout(PATIENCE, read).await;
    }
    child.terminate(Duration::ZERO).await;
    first.map(|line| text::truncate(&text::clean(line.trim()), 100)).filter(|line| !line.is_empty())
}

fn judge(kind: RuntimeKind, name: &str, seen: Seen, users: &[&str]) -> Finding {
    let who = users.join(", ");
    if let Some(program) = &seen.program
        && seen.problem.is_none()
    {
        let version = seen.version.as_deref().unwrap_or("it does not tell its version");
        let text = format!("{name}: {} ({version})", program.display());
        if !RUNTIMES.contains(&kind) {
            return Finding::ok(TOPIC, format!("{text}; this version of butlerd does not use it"));
        }
        return match users {
            [] => Finding::ok(TOPIC, format!("{text}; no butler of this roster asks for it")),
            _ => Finding::ok(TOPIC, format!("{text}, for {who}")),
        };
    }
    // What is amiss comes with what to do, which nobody need do for a program that no butler wants.
    let missing = if seen.program.is_none() { "not installed" } else { "not usable" };
    let why = seen.problem.unwrap_or_else(|| "not on this PATH".to_owned());
    match users {
        [] => Finding::ok(TOPIC, format!("{name}: {missing}; no butler of this roster asks for it")),
        _ => Finding::problem(TOPIC, format!("{name}: {why}; asked for by {who}"))
            .so(format!("Install it, or set [runtime] type = \"native\" in their butler.toml (`{kind}` needs it).")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    fn seen(program: bool, problem: Option<&str>) -> Seen {
        let version = program.then(|| "2.1.0".to_owned());
        Seen { program: program.then(|| "/usr/bin/x".into()), version, problem: problem.map(Into::into) }
    }

    #[test]
    fn a_missing_program_matters_to_those_who_ask_for_it() {
        let kind = RuntimeKind::ClaudeCode;
        let unwanted = judge(kind, "claude", seen(false, Some("not found; install it with npm")), &[]);
        assert_eq!(unwanted, Finding::ok(TOPIC, "claude: not installed; no butler of this roster asks for it"));
        let wanted = judge(kind, "claude", seen(false, None), &["health"]);
        assert_eq!(wanted.level, Level::Problem);
        assert!(wanted.text.contains("asked for by health"));
        assert_eq!(judge(kind, "claude", seen(true, Some("it crashes")), &["health"]).level, Level::Problem);
        assert_eq!(judge(kind, "claude", seen(true, None), &["health"]).text, "claude: /usr/bin/x (2.1.0), for health");
        let codex = judge(RuntimeKind::Codex, "codex", seen(true, None), &[]);
        assert!(codex.text.ends_with("does not use it"), "{}", codex.text);
    }

    #[tokio::test]
    async fn programs_are_asked_for_their_version() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("tool");
        std::fs::write(&program, "#!/bin/sh\necho \"tool $1 1.2\"; echo more\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let nursery = Nursery::start().unwrap();
        assert_eq!(version(&nursery, program).await.as_deref(), Some("tool --version 1.2"));
        assert_eq!(version(&nursery, dir.path().join("none")).await, None);
    }
}
