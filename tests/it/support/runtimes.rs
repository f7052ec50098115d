//! The four runtimes, with their real programs where these are installed.

use std::path::Path;

use what_was_left_out::left_out;

use super::Household;

/// One runtime, and what a test needs to run it against a scripted model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runtime {
    /// Of `[runtime] type`. Butlers that tests make for it have the same name.
    pub kind: &'static str,
    /// A model that it may be asked for.
    pub model: &'static str,
    /// The variable that names the installed program, and the setting that takes it.
    program: Option<(&'static str, &'static str)>,
    /// The variable of its key.
    key: &'static str,
    /// The tool with which its model reads a skill, as a script calls it.
    pub skill_tool: &'static str,
}

/// All of them, in the order of the failure table's columns.
pub const RUNTIMES: [Runtime; 4] = [
    Runtime {
        kind: "claude-code",
        model: "claude-sonnet-4-5",
        program: Some(("BUTLERD_TEST_CLAUDE", "BUTLERD_SPAWNER__CLIS__CLAUDE")),
        key: "ANTHROPIC_API_KEY",
        skill_tool: "Skill",
    },
    Runtime {
        kind: "codex",
        model: "gpt-5",
        program: Some(("BUTLERD_TEST_CODEX", "BUTLERD_SPAWNER__CLIS__CODEX")),
        key: "OPENAI_API_KEY",
        skill_tool: "skill_read",
    },
    Runtime {
        kind: "gemini",
        model: "gemini-2.5-pro",
        program: Some(("BUTLERD_TEST_GEMINI", "BUTLERD_SPAWNER__CLIS__GEMINI")),
        key: "GEMINI_API_KEY",
        skill_tool: "activate_skill",
    },
    Runtime {
        kind: "native",
        model: "claude-sonnet-4-5",
        program: None,
        key: "ANTHROPIC_API_KEY",
        skill_tool: "skill_read",
    },
];

/// The runtimes whose programs are installed; of each other it says that `test` leaves it out.
pub fn installed(test: &str) -> Vec<Runtime> {
    let there = |runtime: &Runtime| match runtime.program {
        Some((variable, _)) if std::env::var_os(variable).is_none() => {
            let why = format!("{variable} is not set; `eval \"$(.ci/run clients)\"` installs it");
            left_out(&format!("{test}, {}", runtime.kind), &why);
            false
        }
        _ => true,
    };
    RUNTIMES.into_iter().filter(there).collect()
}

/// The PATH of these tests, with the pinned Node.js first where it is installed: a system's own may be too old for the
/// Gemini CLI, which is a program of Node.js.
pub fn path_with_node() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    let node = std::env::var("BUTLERD_TEST_NODE22").unwrap_or_default();
    match Path::new(&node).parent().filter(|dir| dir.is_absolute()) {
        Some(dir) => format!("{}:{path}", dir.display()),
        None => path,
    }
}

impl Household {
    /// Adds a butler for each of these runtimes, named like it, with these further lines under `[butler.runtime]`; and
    /// their programs and keys.
    pub fn with_runtimes(self, runtimes: &[Runtime], more: &str) -> Self {
        runtimes.iter().enumerate().fold(self, |household, (n, runtime)| {
            let Runtime { kind, model, program, key, .. } = runtime;
            let toml = format!(
                "[butler]\nname = \"{kind}\"\nport = {}\n\n[runtime]\ntype = \"{kind}\"\n\n\
                 [butler.runtime]\nmodel = \"{model}\"\n{more}",
                40190 + n
            );
            let household = household.butler(kind, &toml).env(key, &format!("sk-test-key-of-{kind}"));
            match program {
                Some((variable, setting)) => {
                    let program = std::env::var(variable).expect("a program");
                    household.env(setting, &program).env("PATH", &path_with_node())
                }
                None => household,
            }
        })
    }
}
