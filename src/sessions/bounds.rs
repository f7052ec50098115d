//! What one session's child may reach: its program, its workspace, its butler and its model.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::adapters::{Composed, Invocation};
use super::workspace::{SKILLS_DIR, WorkspacePaths};
use config::SandboxMode;
use process::Sandbox;

/// The sandbox of a session, if there is to be one. `roster`: where the butlers are, whom sessions don't read (their own
/// butler's skills are copied).
pub(super) fn bounds(mode: SandboxMode, inv: &Invocation, composed: &Composed, roster: &Path) -> Option<Sandbox> {
    if mode == SandboxMode::Off {
        return None;
    }
    let butler = address(&inv.mcp_url);
    let model = inv.base_url.as_deref().map_or(Address { port: Some(443), names: true, local: false }, address);
    let mut connect: Vec<u16> = butler.port.into_iter().chain(model.port).collect();
    // Name resolution falls back to TCP for long answers.
    connect.extend((!model.local).then_some(53));
    connect.sort_unstable();
    connect.dedup();
    let mut never: Vec<PathBuf> = data_dir(&inv.workspace).into_iter().collect();
    never.extend(roster.canonicalize());
    let WorkspacePaths { root, home, tmp, work } = inv.workspace.clone();
    // What may run programs of the system may run those of its butler's skills, too.
    let scripts = (composed.needs.programs && !inv.skills.is_empty()).then(|| root.join(SKILLS_DIR));
    Some(Sandbox {
        read: composed.needs.read.clone(),
        execute: composed.needs.execute.clone(),
        // Beside these lie the skills and the adapter's files, which nobody writes.
        write: vec![home, tmp, work],
        own: vec![root],
        scripts: scripts.into_iter().collect(),
        never,
        connect,
        names: model.names,
        programs: composed.needs.programs,
        required: mode == SandboxMode::Required,
    })
}

/// The directory above the workspaces' own.
fn data_dir(paths: &WorkspacePaths) -> Option<PathBuf> {
    Some(paths.root.parent()?.parent()?.to_owned())
}

/// What it takes to reach a URL.
#[derive(PartialEq, Eq, Debug)]
struct Address {
    /// `None`: a URL that nobody can call.
    port: Option<u16>,
    /// A name has to be looked up.
    names: bool,
    /// On this machine.
    local: bool,
}

fn address(url: &str) -> Address {
    let Ok(url) = reqwest::Url::parse(url) else { return Address { port: None, names: false, local: true } };
    let host = url.host_str().unwrap_or_default();
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let local = host == "localhost" || ip.as_ref().is_ok_and(IpAddr::is_loopback);
    Address { port: url.port_or_known_default(), names: ip.is_err(), local }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_are_looked_up() {
        let seen = |url| {
            let a = address(url);
            (a.port, a.names, a.local)
        };
        assert_eq!(seen("http://127.0.0.1:41101/mcp"), (Some(41101), false, true));
        assert_eq!(seen("http://[::1]:8080/v1"), (Some(8080), false, true));
        assert_eq!(seen("https://api.example.org"), (Some(443), true, false));
        assert_eq!(seen("http://192.168.1.7:11434/v1"), (Some(11434), false, false));
        assert_eq!(seen("http://localhost:11434/v1"), (Some(11434), true, true));
        assert_eq!(seen("nonsense"), (None, false, true));
    }
}
