//! The start of a server: a program in the sandbox of sessions, or an address.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base::{ButlerName, Secret, SessionId, text};
use config::{McpServer, SandboxMode, SpawnerConfig};
use mcp::{ClientError, RemoteConnection, RemoteServer, SERVER_OUTPUT};
use outbox::Outbox;
use process::{ChildSpec, ProcessSupervisor, Sandbox, Stdin, program};
use sessions::workspace::{Workspace, Workspaces};
use sessions::{CHILD_PATH, child_limits};
use store::Store;
use tools::http::HeaderTemplate;

use crate::live::Live;

/// How a module starts programs: as sessions start theirs. Cheap to clone.
#[derive(Clone)]
pub struct Children {
    pub processes: ProcessSupervisor,
    pub workspaces: Workspaces,
    pub settings: SpawnerConfig,
    pub roster_dir: PathBuf,
    pub data_dir: PathBuf,
}

/// What a server is made of.
pub(super) struct ServerParts {
    pub name: String,
    pub config: McpServer,
    pub butler: ButlerName,
    pub secrets: Arc<BTreeMap<String, Secret<String>>>,
    pub children: Children,
    pub store: Store,
    pub outbox: Outbox,
    pub live: Live,
}

/// What was made for a connection: the connection, and the directory of its program.
pub(super) type Made = (RemoteConnection, Option<Workspace>);

/// Starts the program or connects to the address, and lists its tools. `Err`: why not, in a sentence without its full
/// stop.
pub(super) async fn start(parts: &ServerParts) -> Result<Made, String> {
    let ServerParts { name, config, secrets, .. } = parts;
    let Some(url) = &config.url else { return run(parts).await };
    let header = |(key, value): (&String, &String)| {
        let value = HeaderTemplate(value).fill(secrets);
        Ok((key.clone(), value.map_err(|e| e.to_string())?))
    };
    let server = RemoteServer {
        name: name.clone(),
        url: url.clone(),
        token: None,
        headers: config.headers.iter().map(header).collect::<Result<_, String>>()?,
        call_within: config.timeout.0,
    };
    Ok((RemoteConnection::open(server).await.map_err(|e| explained(&e, config))?, None))
}

/// What went wrong, and what the owner can do about it where the server lets nobody in.
pub(super) fn explained(e: &ClientError, config: &McpServer) -> String {
    let secrets = config.headers.values().flat_map(|value| HeaderTemplate(value).secrets().unwrap_or_default());
    let set: Vec<String> = secrets.map(|name| format!("`butlerd secret set {name}`")).collect();
    match e {
        ClientError::NotLetIn { .. } if !set.is_empty() => {
            format!("{e}; store a secret that holds with {}, then run `butlerd reload`", set.join(" and "))
        }
        e => e.to_string(),
    }
}

async fn run(parts: &ServerParts) -> Result<Made, String> {
    let ServerParts { name, config, children, .. } = parts;
    let id = SessionId::new();
    let mut workspace = children.workspaces.create(id, &[]).map_err(|e| e.to_string())?;
    let started = async {
        workspace.fill(&[]).map_err(|e| e.to_string())?;
        let spec = spec(id, parts, &workspace)?;
        let child = children.processes.spawn(spec).await.map_err(|e| text::with_source(&e))?;
        RemoteConnection::over(name, config.timeout.0, child).await.map_err(|e| e.to_string())
    };
    match started.await {
        Ok(connection) => Ok((connection, Some(workspace))),
        Err(why) => {
            remove(workspace);
            Err(why)
        }
    }
}

/// Removes the directory of a program that is gone.
pub(super) fn remove(workspace: Workspace) {
    if let Err(e) = workspace.remove() {
        tracing::warn!(error = %e, "the directory of an MCP server could not be removed");
    }
}

fn spec(id: SessionId, parts: &ServerParts, workspace: &Workspace) -> Result<ChildSpec, String> {
    let ServerParts { config, secrets, children, .. } = parts;
    let (wanted, args) = config.command.split_first().ok_or("it has no command")?;
    let program = program::find(wanted).ok_or_else(|| format!("there is no program `{wanted}` that can be run"))?;
    let paths = &workspace.paths;
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let own = [("PATH", CHILD_PATH.to_owned()), ("HOME", path(&paths.home)), ("TMPDIR", path(&paths.tmp))];
    let declared = config.env.iter().filter_map(|name| Some((name.clone(), secrets.get(name)?.expose().clone())));
    let Children { workspaces, settings, .. } = children;
    Ok(ChildSpec {
        args: args.to_vec(),
        env: own.into_iter().map(|(name, value)| (name.to_owned(), value)).chain(declared).collect(),
        cwd: paths.work.clone(),
        user: workspace.user(),
        limits: child_limits(settings, workspaces, workspace.user()),
        sandbox: sandbox(config, &program, children, workspace),
        stdin: Stdin::Pipe,
        session: id,
        output: SERVER_OUTPUT,
        program,
    })
}

fn sandbox(config: &McpServer, program: &Path, children: &Children, workspace: &Workspace) -> Option<Sandbox> {
    let mode = children.settings.sandbox;
    if mode == SandboxMode::Off {
        return None;
    }
    let mut connect = config.connect.clone();
    // Name resolution falls back to TCP for long answers.
    connect.extend((!connect.is_empty()).then_some(53));
    let never = [&children.data_dir, &children.roster_dir].into_iter().filter_map(|dir| dir.canonicalize().ok());
    let given = config.command.iter().skip(1).map(Path::new).filter(|arg| arg.is_absolute() && arg.is_file());
    let own = std::iter::once(program).chain(given).flat_map(installed_with);
    Some(Sandbox {
        read: config.read.iter().cloned().chain(own).collect(),
        write: std::iter::once(workspace.paths.root.clone()).chain(config.write.iter().cloned()).collect(),
        never: never.collect(),
        names: !connect.is_empty(),
        connect,
        required: mode == SandboxMode::Required,
        ..Sandbox::default()
    })
}

/// What a program or a script needs to read: itself, what npm installed beside it, the Python environment that it is
/// in.
fn installed_with(file: &Path) -> Vec<PathBuf> {
    let real = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let modules = real.ancestors().filter(|dir| dir.ends_with("node_modules")).last().map(Path::to_owned);
    let environment = file.ancestors().nth(2).filter(|dir| dir.join("pyvenv.cfg").is_file()).map(Path::to_owned);
    // Its interpreter may be no part of the system.
    let library = environment.as_ref().and_then(|_| Some(real.ancestors().nth(2)?.join("lib")));
    [Some(real), modules, environment, library].into_iter().flatten().collect()
}

/// How long a program that is told to end may take.
pub(super) const CLOSING: Duration = Duration::from_secs(3);
