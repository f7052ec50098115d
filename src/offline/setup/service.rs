//! The household as a service of systemd.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde::Serialize;

use super::SetupError;
use super::place::{is_there, write_new};
use base::Secret;

const UNIT: &str = include_str!("../../../config/butlerd.service");
const UNIT_FILE: &str = "/etc/systemd/system/butlerd.service";
/// The same unit in the Debian package (`dist/deb`), which brings the program and the account, too.
const PACKAGED_UNIT: &str = "/usr/lib/systemd/system/butlerd.service";
const PROGRAM: &str = "/usr/local/bin/butlerd";
/// Keys for the daemon's environment; for root's eyes alone.
const ENVIRONMENT: &str = "/etc/butlerd/environment";

/// Where settings and roster of the service are.
pub const SETTINGS: &str = "/etc/butlerd/butlerd.toml";
pub const ROSTER: &str = "/etc/butlerd/roster";

/// What became of the wish for a service.
#[derive(Debug, Serialize)]
pub struct Service {
    pub installed: bool,
    /// Why it was not.
    pub why: Option<String>,
    /// What was done, or would be, as commands for root.
    pub commands: Vec<String>,
}

/// Why this process can't install a service; `None`: it can.
pub fn obstacle() -> Option<&'static str> {
    if !nix::unistd::geteuid().is_root() {
        return Some("only root may install a service");
    }
    (!Path::new("/run/systemd/system").is_dir()).then_some("systemd does not run this machine")
}

/// The commands that make a service of these files.
fn commands(program: &str, settings: &Path, roster: &Path, packaged: bool) -> Vec<String> {
    let mut all = vec![
        format!("install -m 0755 {program} {PROGRAM}"),
        "systemd-sysusers --inline 'u butlerd - \"butlerd household\" /var/lib/butlerd'".to_owned(),
    ];
    if packaged {
        all.clear();
    }
    if settings != Path::new(SETTINGS) {
        all.push("install -d /etc/butlerd".to_owned());
        all.push(format!("cp -rT {} {ROSTER}", roster.display()));
        all.push(format!(
            "sed 's|^roster = .*|roster = \"{ROSTER}\"|; /^data_dir = /d' {} > {SETTINGS}",
            settings.display()
        ));
    }
    if !packaged {
        all.push(format!("butlerd init --print-unit > {UNIT_FILE}"));
    }
    all.push("systemctl daemon-reload".to_owned());
    all.push("systemctl enable --now butlerd".to_owned());
    all
}

/// The unit file.
pub fn unit() -> &'static str {
    UNIT
}

/// Installs and starts the service, or says why not and what root would do.
pub fn install(settings: &Path, roster: &Path, key: Option<(&str, &Secret<String>)>) -> Result<Service, SetupError> {
    let program = std::env::current_exe().map(|p| p.display().to_string()).unwrap_or_else(|_| "butlerd".to_owned());
    let packaged = is_there(Path::new(PACKAGED_UNIT));
    let commands = commands(&program, settings, roster, packaged);
    if let Some(why) = obstacle() {
        return Ok(Service { installed: false, why: Some(why.to_owned()), commands });
    }
    for there in [UNIT_FILE, ENVIRONMENT].iter().filter(|file| is_there(Path::new(file))) {
        if *there == UNIT_FILE || key.is_some() {
            let sentence = format!("{there} exists already and is not changed.");
            return Err(SetupError::failed(sentence, "Change it by hand, or remove it first."));
        }
    }
    let failed = |what: &str, e: std::io::Error| SetupError::failed(format!("{what} can't be written: {e}."), "");
    if !packaged && !is_there(Path::new(PROGRAM)) {
        fs::copy(&program, PROGRAM).map_err(|e| failed(PROGRAM, e))?;
        fs::set_permissions(PROGRAM, fs::Permissions::from_mode(0o755)).map_err(|e| failed(PROGRAM, e))?;
    }
    if let Some((name, value)) = key {
        let line = format!("{name}={}\n", value.expose());
        write_new(Path::new(ENVIRONMENT), &line, 0o600).map_err(|e| failed(ENVIRONMENT, e))?;
    }
    if !packaged {
        write_new(Path::new(UNIT_FILE), UNIT, 0o644).map_err(|e| failed(UNIT_FILE, e))?;
    }
    for (program, args) in [
        ("systemd-sysusers", &["--inline", "u butlerd - \"butlerd household\" /var/lib/butlerd"][..]),
        ("systemctl", &["daemon-reload"]),
        ("systemctl", &["enable", "--now", "butlerd"]),
    ] {
        let told = format!("{program} {}", args.join(" "));
        let done = Command::new(program).args(args).output();
        let why = match done {
            Ok(out) if out.status.success() => continue,
            Ok(out) => String::from_utf8_lossy(&out.stderr).trim().to_owned(),
            Err(e) => e.to_string(),
        };
        return Err(SetupError::failed(format!("`{told}` failed: {why}."), "Fix that, then run it by hand."));
    }
    Ok(Service { installed: true, why: None, commands })
}
