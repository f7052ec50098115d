//! What all adapters do alike.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{AdapterError, Composed, EnvList, ErrorClass, Failure, Invocation, Needs, Probe, RunEvent};
use crate::workspace::SessionFile;
use base::{Secret, text};
use config::SandboxMode;
use process::{ExitInfo, ProcessSupervisor, Sandbox, program};

/// The variables of every child.
pub const BASE_ENV: &[&str] = &["PATH", "HOME", "TMPDIR", "MCP_SERVERS", "TRACEPARENT"];

/// The children's PATH: fixed, so that nothing of the daemon's reaches them.
pub const CHILD_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The name under which a child knows its one MCP server.
pub(super) const SERVER: &str = "butler";

/// The address of the one server, with the session's id for correlation.
pub(super) fn server_url(inv: &Invocation) -> String {
    let joiner = if inv.mcp_url.contains('?') { '&' } else { '?' };
    format!("{}{joiner}runtime_session_id={}", inv.mcp_url, inv.session_id)
}

/// A prompt that can't be taken for a command of the program: those begin with `/`.
pub(super) fn no_command(prompt: &str) -> String {
    if prompt.starts_with('/') { format!("\n{prompt}") } else { prompt.to_owned() }
}

/// The next piece of the text that is being written, if it says something; `at`: how many bytes of it there are.
pub(super) fn written(at: &mut usize, piece: &str) -> Vec<RunEvent> {
    let start = std::mem::replace(at, *at + piece.len());
    if piece.is_empty() { Vec::new() } else { vec![RunEvent::TextDelta { start, text: piece.to_owned() }] }
}

/// The butler's names of its tools, by what programs make of them for models whose API allows fewer characters.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    own: Vec<String>,
    by_shown: HashMap<String, String>,
}

impl Names {
    pub fn new(tools: &[String]) -> Self {
        let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
        let shown = |name: &String| name.chars().map(allowed).collect();
        Self { own: tools.to_vec(), by_shown: tools.iter().map(|name| (shown(name), name.clone())).collect() }
    }

    /// The butler's name of the tool that a program shows under this one; the same where it is not known.
    pub fn own(&self, shown: &str) -> String {
        if self.own.iter().any(|name| name == shown) {
            return shown.to_owned();
        }
        self.by_shown.get(shown).cloned().unwrap_or_else(|| shown.to_owned())
    }
}

/// The value of `MCP_SERVERS`: the one server, with the session's id for correlation and its token as proof.
pub(super) fn mcp_servers(inv: &Invocation) -> Value {
    json!({"mcpServers": {SERVER: {
        "type": "http",
        "url": server_url(inv),
        "headers": {"Authorization": format!("Bearer {}", inv.token.expose())},
    }}})
}

/// The environment: what every child has, what the adapter sets, what the butler declares. Nothing else; and the butler
/// can't declare what butlerd sets, or what could name the program another key or model.
pub(super) fn environment(
    inv: &Invocation,
    list: EnvList,
    own: Vec<(&'static str, String)>,
) -> Result<Vec<(String, String)>, AdapterError> {
    let mut env = BTreeMap::new();
    for (name, value) in &inv.declared_env {
        if [BASE_ENV, list.always, list.sometimes].iter().any(|names| names.contains(&name.as_str())) {
            return Err(AdapterError::Reserved(name.clone()));
        }
        env.insert(name.clone(), value.expose().clone());
    }
    let path = |p: &Path| p.to_string_lossy().into_owned();
    let base = [
        ("PATH", CHILD_PATH.to_owned()),
        ("HOME", path(&inv.workspace.home)),
        ("TMPDIR", path(&inv.workspace.tmp)),
        ("MCP_SERVERS", mcp_servers(inv).to_string()),
        ("TRACEPARENT", inv.traceparent.clone()),
    ];
    env.extend(base.into_iter().chain(own).map(|(name, value)| (name.to_owned(), value)));
    for (name, value) in &env {
        let mut bytes = name.bytes();
        let first = bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
        if !first || !bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_') || value.contains('\0') {
            return Err(AdapterError::Variable(name.clone()));
        }
    }
    Ok(env.into_iter().collect())
}

/// The first of `names` that there is a key for.
pub(super) fn credential<'a>(
    inv: &'a Invocation,
    names: &[&'static str],
) -> Option<(&'static str, &'a Secret<String>)> {
    names.iter().find_map(|wanted| {
        let (_, key) = inv.credentials.iter().find(|(name, key)| name == wanted && !key.expose().is_empty())?;
        Some((*wanted, key))
    })
}

/// Where a program is: as configured, else the first of this name on the daemon's PATH. Links are resolved, because
/// the children's user may be unable to read them.
pub(super) fn find_program(
    configured: Option<&Path>,
    setting: &'static str,
    name: &'static str,
    hint: &'static str,
) -> Result<PathBuf, AdapterError> {
    let real = |path: &Path| path.canonicalize().ok().filter(|path| program::is_program(path));
    match configured {
        Some(path) => real(path).ok_or_else(|| AdapterError::ProgramGone { path: path.to_owned(), setting }),
        None => program::find(name).and_then(|path| real(&path)).ok_or(AdapterError::NoProgram { name, hint }),
    }
}

/// The error of a program that ended without its final event.
pub(super) fn no_final_event(program: &str, exit: ExitInfo, stderr_tail: &str) -> Failure {
    let words = stderr_tail.trim();
    let mut message = format!("{program} ended ({exit}) without its final event");
    if words.is_empty() {
        message.push_str(" and without a word on standard error");
    } else {
        message.push_str("; its last words: ");
        message.push_str(&last_words(words));
    }
    message.extend(explained(exit));
    // Where the daemon itself killed it, what it killed it for is the reason, whatever stands here.
    let killed = exit.signal == Some(libc::SIGKILL);
    Failure::new(if killed { ErrorClass::Killed } else { ErrorClass::Crashed }, message)
}

/// What a signal that ended a program says, after a full stop.
fn explained(exit: ExitInfo) -> Option<String> {
    // A program that runs another one tells the other's signal as a number above 128.
    let signal = exit.signal.or_else(|| exit.code?.checked_sub(128).filter(|n| (1..32).contains(n)))?;
    Some(format!(". {}: {}", ExitInfo { code: None, signal: Some(signal) }, of_signal(signal)?))
}

/// What ends a program so, and what to try, in a sentence.
fn of_signal(signal: i32) -> Option<&'static str> {
    Some(match signal {
        libc::SIGABRT | libc::SIGTRAP | libc::SIGILL | libc::SIGSEGV | libc::SIGBUS => {
            "it broke down by itself, often an old version that misses a file which the sandbox hides, or memory that \
             [spawner.limits] refuses. Update the program, look at `butlerd doctor`, and see whether it works with [spawner] \
             sandbox = \"off\""
        }
        libc::SIGSYS => {
            "the sandbox's filter of system calls ended it. Update the program, and see whether it works with [spawner] \
             sandbox = \"off\""
        }
        libc::SIGKILL => "something outside of butlerd killed it: mostly the kernel, when memory ran out",
        libc::SIGXFSZ => "a file that it wrote became larger than [spawner.limits] allows",
        _ => return None,
    })
}

/// At most the last 500 bytes.
pub(super) fn last_words(words: &str) -> String {
    text::last(words, 500)
}

/// An error text of a vendor, fit for a row.
pub(super) fn shown(message: &str) -> String {
    text::truncate(text::clean(message).trim(), 2000)
}

/// A `u64` that is there.
pub(super) fn number(value: &Value, key: &str) -> Option<u64> {
    value.get(key)?.as_u64()
}

/// A text that is there.
pub(super) fn string<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key)?.as_str()
}

/// How a program is asked for its version: with `before… --version`, in the sandbox of sessions unless that is off.
pub(super) struct Smoke<'a> {
    pub before: Vec<String>,
    pub env: &'a [(&'a str, &'a str)],
    pub needs: Needs,
    pub sandbox: SandboxMode,
}

impl Smoke<'_> {
    /// It needs neither a place to write nor a network.
    fn sandbox(&self) -> Option<Sandbox> {
        (self.sandbox != SandboxMode::Off).then(|| Sandbox {
            read: self.needs.read.clone(),
            execute: self.needs.execute.clone(),
            programs: self.needs.programs,
            ..Sandbox::default()
        })
    }
}

/// Whether a program is there, and the version that it tells. Its home is one that isn't there: nothing is read from the
/// user's, and nothing written.
pub(super) async fn probe(
    processes: &ProcessSupervisor,
    found: Result<PathBuf, AdapterError>,
    smoke: Smoke<'_>,
) -> Probe {
    let program = match found {
        Ok(program) => program,
        Err(e) => return Probe { program: None, version: None, problem: Some(e.to_string()) },
    };
    let env = [("PATH", CHILD_PATH), ("HOME", "/nonexistent")].iter().chain(smoke.env);
    let env = env.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    match ask_version(processes, program.clone(), smoke, env).await {
        Ok(version) => Probe { program: Some(program), version: Some(version), problem: None },
        Err(problem) => Probe { program: Some(program), version: None, problem: Some(problem) },
    }
}

/// A version that a program told, or why it told none.
async fn ask_version(
    processes: &ProcessSupervisor,
    program: PathBuf,
    smoke: Smoke<'_>,
    env: Vec<(String, String)>,
) -> Result<String, String> {
    use process::{ChildSpec, Output, OutputLimits, Rlimits};

    let sandbox = smoke.sandbox();
    let within = if sandbox.is_some() { " in the sandbox of sessions" } else { "" };
    let mut args = smoke.before;
    args.push("--version".to_owned());
    let spec = ChildSpec {
        limits: Rlimits { core: Some(0), ..Rlimits::default() },
        sandbox,
        output: OutputLimits { total: 64 << 10, ..OutputLimits::default() },
        ..ChildSpec::new(program, args, env)
    };
    let mut child = processes.spawn(spec).await.map_err(|e| text::with_source(&e))?;
    let mut first = None;
    if let Some(mut lines) = child.stdout.take() {
        let read = async {
            while let Ok(Some(Output::Line(line))) = lines.next().await {
                first.get_or_insert(line.text);
            }
        };
        let _ = tokio::time::timeout(std::time::Duration::from_secs(20), read).await;
    }
    let ended = child.terminate(std::time::Duration::ZERO).await;
    let words = child.stderr_tail().await;
    match (first.filter(|f| !f.trim().is_empty()), ended.exit) {
        (Some(version), Some(ExitInfo { code: Some(0), .. })) => Ok(text::clean(version.trim())),
        (_, exit) => {
            let (exit, words) = (exit.unwrap_or_default(), last_words(words.trim()));
            let why = explained(exit).unwrap_or_default();
            Err(format!("it does not tell its version{within} ({exit}): {words}{why}"))
        }
    }
}

/// The directory of the package that a script is of: the nearest above it with a `package.json`.
pub(super) fn package_of(script: &Path) -> Option<PathBuf> {
    script.ancestors().skip(1).take(4).find(|dir| dir.join("package.json").is_file()).map(Path::to_owned)
}

/// The whole of an adapter's composition, but for the program.
pub(super) fn composed(
    program: PathBuf,
    args: Vec<String>,
    env: Vec<(String, String)>,
    files: Vec<(&str, String)>,
    stdin: Option<&str>,
) -> Composed {
    let files = files.into_iter().map(|(path, contents)| SessionFile {
        path: path.into(),
        contents: contents.into_bytes(),
        mode: 0o600,
    });
    let (files, stdin) = (files.collect(), stdin.map(PathBuf::from));
    Composed { program, args, env, files, stdin, piped: None, needs: Needs::default() }
}

/// The pictures as files of the workspace.
pub(super) fn pictures(inv: &Invocation) -> Vec<SessionFile> {
    let file = |(n, (kind, contents)): (usize, &(String, Vec<u8>))| SessionFile {
        path: format!("picture-{}.{}", n + 1, kind.rsplit('/').next().unwrap_or_default()).into(),
        contents: contents.clone(),
        mode: 0o600,
    };
    inv.images.iter().enumerate().map(file).collect()
}
