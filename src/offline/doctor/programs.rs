//! The command-line programs that sessions may run.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::Finding;
use config::{ButlerConfig, ClisConfig, Config, RuntimeKind, SandboxMode, SpawnerConfig};
use process::ProcessSupervisor;
use sessions::adapters::{Probe, adapter, oldest_tried};

const TOPIC: &str = "programs";

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
    let processes = match ProcessSupervisor::start() {
        Ok(processes) => processes,
        Err(e) => return vec![Finding::problem(TOPIC, format!("children can't be started: {e}"))],
    };
    let mut found = Vec::new();
    for (kind, name) in PROGRAMS {
        let users: Vec<&str> = butlers.iter().filter(|b| b.runtime.kind == kind).map(|b| b.name.as_str()).collect();
        // The adapter knows how to look.
        let clis = config.map_or(ClisConfig::ON_PATH, |c| c.spawner.clis.clone());
        let sandbox = config.map_or(SandboxMode::Auto, |c| c.spawner.sandbox);
        let probe = adapter(kind, &clis).probe(&processes, sandbox).await;
        found.push(judge(kind, name, probe, &users));
    }
    found
}

/// Why a runtime's program tells no version.
#[derive(Debug, thiserror::Error)]
pub enum NoVersion {
    #[error("children can't be started: {0}")]
    NoChildren(String),
    #[error("{0}")]
    Failed(String),
    #[error("the program of {0} is not on this PATH")]
    Absent(RuntimeKind),
}

/// Asks a runtime's program for its version, as its sessions would run it.
pub async fn version_of(kind: RuntimeKind, settings: &SpawnerConfig) -> Result<String, NoVersion> {
    let processes = ProcessSupervisor::start().map_err(|e| NoVersion::NoChildren(e.to_string()))?;
    let seen = adapter(kind, &settings.clis).probe(&processes, settings.sandbox).await;
    match (seen.program, seen.problem) {
        (_, Some(problem)) => Err(NoVersion::Failed(problem)),
        (None, None) => Err(NoVersion::Absent(kind)),
        (Some(program), None) => {
            let version = seen.version.as_deref().unwrap_or("it does not tell its version");
            Ok(format!("{} ({version})", program.display()))
        }
    }
}

fn judge(kind: RuntimeKind, name: &str, seen: Probe, users: &[&str]) -> Finding {
    let who = users.join(", ");
    if let Some(program) = &seen.program
        && seen.problem.is_none()
    {
        let version = seen.version.as_deref().unwrap_or("it does not tell its version");
        let text = format!("{name}: {} ({version})", program.display());
        let old = oldest_tried(kind).filter(|oldest| is_older(version, oldest));
        return match (users, old) {
            ([_, ..], Some(oldest)) => Finding::warning(
                TOPIC,
                format!("{text}, for {who}, is older than {oldest}, which butlerd was tried with"),
            )
            .so("Update it: sessions may end without an answer."),
            ([], _) => Finding::ok(TOPIC, format!("{text}; no butler of this roster asks for it")),
            (_, None) => Finding::ok(TOPIC, format!("{text}, for {who}")),
        };
    }
    // What is amiss comes with what to do, which nobody need do for a program that no butler wants.
    let (missing, so) = match seen.program {
        None => ("not installed", "Install it"),
        Some(_) => ("not usable", "Update it, or install it anew"),
    };
    let why = seen.problem.unwrap_or_else(|| "not on this PATH".to_owned());
    match users {
        [] => Finding::ok(TOPIC, format!("{name}: {missing}; no butler of this roster asks for it")),
        _ => Finding::problem(TOPIC, format!("{name}: {why}; asked for by {who}"))
            .so(format!("{so}, or take another [runtime] type in butlerd.toml (`{kind}` needs it).")),
    }
}

/// Whether the version that a program tells, such as `2.1.197 (Claude Code)`, is below another one.
fn is_older(told: &str, than: &str) -> bool {
    let numbers = |text: &str| -> Option<Vec<u64>> {
        let mut words = text.split(|c: char| !(c.is_ascii_digit() || c == '.'));
        let version = words.find(|word| word.split('.').filter(|part| !part.is_empty()).count() == 3)?;
        version.split('.').map(|part| part.parse().ok()).collect()
    };
    // What tells no version is not judged by it.
    matches!((numbers(told), numbers(than)), (Some(told), Some(than)) if told < than)
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    fn seen(program: bool, problem: Option<&str>) -> Probe {
        let version = program.then(|| "2.1.200".to_owned());
        Probe { program: program.then(|| "/usr/bin/x".into()), version, problem: problem.map(Into::into) }
    }

    #[test]
    fn versions_are_compared_by_their_numbers() {
        for (told, older) in [
            ("2.1.99 (Claude Code)", true),
            ("2.1.197 (Claude Code)", false),
            ("codex-cli 2.10.0", false),
            ("v1.9.9-nightly", true),
            ("it does not tell its version", false),
        ] {
            assert_eq!(is_older(told, "2.1.197"), older, "{told}");
        }
        let old = Probe { version: Some("2.1.9 (Claude Code)".to_owned()), ..seen(true, None) };
        let judged = judge(RuntimeKind::ClaudeCode, "claude", old.clone(), &["health"]);
        assert!(judged.level == Level::Warning && judged.text.contains("older than 2.1.197"), "{judged:?}");
        assert_eq!(judge(RuntimeKind::ClaudeCode, "claude", old, &[]).level, Level::Ok);
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
        assert_eq!(
            judge(kind, "claude", seen(true, None), &["health"]).text,
            "claude: /usr/bin/x (2.1.200), for health"
        );
    }
}
