//! The files by which the command line finds the daemon.

use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde_json::json;

use super::tree::Supervisor;
use sessions::gateway::Gateway;

/// Writes `run/daemon.json`: where everything listens.
pub(super) fn tell_place(supervisor: &Supervisor) -> io::Result<()> {
    let services = supervisor.services();
    let content = json!({
        "pid": std::process::id(),
        "version": env!("CARGO_PKG_VERSION"),
        "admin": supervisor.admin(),
        "butlers": supervisor.ports(),
        "gateway": services.gateway.as_ref().map(Gateway::port),
        "started_at": supervisor.clock().now(),
    });
    write_private(&services.data_dir.join("run/daemon.json"), &content.to_string())
}

/// Writes a file that only the daemon's user can read, whole or not at all.
pub(super) fn write_private(path: &Path, content: &str) -> io::Result<()> {
    use std::io::Write;
    let temporary = path.with_extension("new");
    let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(content.as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)
}
