//! Making a cluster: beside its place, and moved there when it is whole.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

use super::binaries::Binaries;
use super::layout::{self, Layout};
use super::process::{self, Death};
use super::user::RunAs;
use super::{ClusterError, LOCALES, OWNER, leftover, scram};
use base::{Secret, crash, text};

/// Names of what is made beside the cluster's place and must not stay.
const BUILD_PREFIX: &str = "postgres.new.";

/// Removes what killed runs of [`create`] left in the data directory. The caller holds its lock.
pub(super) fn clean_up(layout: &Layout) -> Result<usize, ClusterError> {
    let dir = &layout.data_dir;
    let mut removed = 0;
    for entry in std::fs::read_dir(dir).map_err(ClusterError::files("read", dir))? {
        let entry = entry.map_err(ClusterError::files("read", dir))?;
        if !entry.file_name().to_string_lossy().starts_with(BUILD_PREFIX) {
            continue;
        }
        let path = entry.path();
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let gone = if is_dir {
            // initdb dies with us, but the server it was talking to needs a moment to notice.
            leftover::end_orphans(&path)?;
            std::fs::remove_dir_all(&path)
        } else {
            std::fs::remove_file(&path)
        };
        gone.map_err(ClusterError::files("remove", &path))?;
        tracing::info!(path = %path.display(), "removed what an interrupted initdb had left");
        removed += 1;
    }
    Ok(removed)
}

/// Makes a new cluster owned by the role `butlerd` with this password. Whenever the process is killed, either nothing
/// stands in the cluster's place or a whole cluster does.
pub(super) fn create(
    layout: &Layout,
    binaries: &Binaries,
    run_as: &RunAs,
    password: &Secret<String>,
) -> Result<(), ClusterError> {
    if !run_as.known {
        return Err(ClusterError::NoPasswdEntry { uid: run_as.uid });
    }
    let build = Build::new(layout)?;
    let verifier = scram::scram_verifier(password.expose(), scram::RANDOM_PASSWORD_ITERATIONS);
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&build.pw)
        .map_err(ClusterError::files("make", &build.pw))?;
    // The server keeps a verifier as it is given, so the password itself is never on disk.
    file.write_all(verifier.as_bytes()).map_err(ClusterError::files("write", &build.pw))?;
    run_as.own(&build.pw)?;

    let mut output = String::new();
    for locale in LOCALES {
        let _ = std::fs::remove_dir_all(&build.dir);
        DirBuilder::new().mode(0o700).create(&build.dir).map_err(ClusterError::files("make", &build.dir))?;
        run_as.own(&build.dir)?;
        match initdb(binaries, run_as, &build, locale)? {
            Ok(()) => return build.finish(layout),
            Err(said) => output = said,
        }
        if !output.contains("locale") {
            break;
        }
    }
    Err(ClusterError::Initdb { output })
}

/// Runs initdb; the inner error is what it said.
fn initdb(
    binaries: &Binaries,
    run_as: &RunAs,
    build: &Build,
    locale: &str,
) -> Result<Result<(), String>, ClusterError> {
    let program = binaries.initdb();
    let mut command = process::command(&program, run_as, Death::Kill);
    command.arg("-D").arg(&build.dir).args(["-U", OWNER, "-E", "UTF8", "--locale", locale]);
    // The text search configuration would otherwise be guessed from the locale, differently by each version.
    command.args(["-T", "simple", "-A", "scram-sha-256", "--data-checksums", "--no-instructions"]);
    command.arg("--pwfile").arg(&build.pw);
    crash::point("cluster.initdb");
    let out = command.output().map_err(|source| ClusterError::Spawn { program: program.clone(), source })?;
    if out.status.success() {
        return Ok(Ok(()));
    }
    let said = String::from_utf8_lossy(&out.stderr);
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let said = text::truncate(&text::clean(&lines.join("; ")), 600);
    Ok(Err(format!("{} ({})", if said.is_empty() { "it said nothing" } else { &said }, out.status)))
}

/// The directory under construction and the password file; both are removed unless finished.
struct Build {
    dir: PathBuf,
    pw: PathBuf,
}

impl Build {
    fn new(layout: &Layout) -> Result<Self, ClusterError> {
        clean_up(layout)?;
        let path = |tail: &str| layout.data_dir.join(format!("{BUILD_PREFIX}{}{tail}", std::process::id()));
        Ok(Self { dir: path(""), pw: path(".pw") })
    }

    fn finish(self, layout: &Layout) -> Result<(), ClusterError> {
        crash::point("cluster.rename");
        // An empty directory in its place, if there is one, is replaced. initdb has flushed all below.
        std::fs::rename(&self.dir, &layout.cluster).map_err(ClusterError::files("move into place", &layout.cluster))?;
        layout::sync_dir(&layout.data_dir)
    }
}

impl Drop for Build {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.pw);
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
