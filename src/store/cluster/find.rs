//! Which PostgreSQL runs: the configured one, the system's, or the pinned bundle.

use std::path::{Path, PathBuf};

use super::binaries::{Binaries, Origin, OtherMajor};
use super::bundle::{self, BundleOptions};
use super::user::RunAs;
use super::version::probe;
use super::{ClusterError, MIN_MAJOR};

impl Binaries {
    /// Finds the binaries to use, and takes the bundle (a download, once) where nothing else will do:
    ///
    /// 1. the directory `pg_bin`, if one is configured (whatever its version: comparing is the caller's);
    /// 2. the system's, of exactly `existing_major` where there is a cluster already, else the newest from 14 on;
    /// 3. the pinned bundle, if its version fits.
    ///
    /// Blocks (it runs `postgres --version`, perhaps `npm pack`): not for an async task.
    ///
    /// # Errors
    /// `ConfiguredBinaries`, `OtherMajor` (nothing here reads a cluster of that version), `NoBinaries` or a bundle's.
    pub fn find(
        pg_bin: Option<&Path>,
        existing_major: Option<u32>,
        bundle: BundleOptions,
    ) -> Result<Self, ClusterError> {
        Self::find_for(&RunAs::choose(None)?, pg_bin, existing_major, &bundle)
    }

    /// As [`Binaries::find`], for binaries that `run_as` can execute.
    pub(super) fn find_for(
        run_as: &RunAs,
        pg_bin: Option<&Path>,
        existing_major: Option<u32>,
        bundle: &BundleOptions,
    ) -> Result<Self, ClusterError> {
        if let Some(dir) = pg_bin {
            let fail = |problem| ClusterError::ConfiguredBinaries { dir: dir.to_path_buf(), problem };
            let dir = dir.canonicalize().map_err(|e| fail(e.to_string()))?;
            let version = probe(&dir, run_as).map_err(fail)?;
            if version.0 < MIN_MAJOR {
                return Err(fail(format!("that is PostgreSQL {}.{}", version.0, version.1)));
            }
            return Ok(Self { dir, version, origin: Origin::Configured });
        }
        let system = match existing_major {
            None if bundle.prefer => Vec::new(),
            _ => system(run_as),
        };
        if let Some(best) = best(&system, existing_major) {
            return Ok(best.clone());
        }
        match existing_major {
            Some(wanted) if Some(wanted) != bundle::pinned_major() => Err(ClusterError::OtherMajor(OtherMajor {
                cluster: None,
                wanted,
                available: system.into_iter().max_by_key(|b| b.version),
            })),
            _ => bundle::obtain(bundle, run_as),
        }
    }
}

/// The newest of the wanted major version, or of all that are new enough.
fn best(found: &[Binaries], wanted: Option<u32>) -> Option<&Binaries> {
    let fits = |b: &&Binaries| wanted.map_or(b.version.0 >= MIN_MAJOR, |major| b.version.0 == major);
    found.iter().filter(fits).max_by_key(|b| b.version)
}

/// Every usable PostgreSQL of this machine.
fn system(run_as: &RunAs) -> Vec<Binaries> {
    let mut seen: Vec<PathBuf> = Vec::new();
    for dir in system_dirs() {
        let Ok(dir) = dir.canonicalize() else { continue };
        if !seen.contains(&dir) && ["initdb", "postgres"].iter().all(|name| dir.join(name).is_file()) {
            seen.push(dir);
        }
    }
    let probed = seen.into_iter().filter_map(|dir| match probe(&dir, run_as) {
        Ok(version) => Some(Binaries { dir, version, origin: Origin::System }),
        Err(problem) => {
            tracing::debug!(dir = %dir.display(), problem, "PostgreSQL binaries passed over");
            None
        }
    });
    probed.collect()
}

/// Directories where PostgreSQL's server programs are put, by whoever packages it.
fn system_dirs() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut dirs: Vec<PathBuf> = std::env::split_paths(&path).filter(|d| d.is_absolute()).collect();
    if let Some(tool) = dirs.iter().map(|d| d.join("pg_config")).find(|p| p.is_file())
        && let Ok(out) = std::process::Command::new(tool).arg("--bindir").output()
        && out.status.success()
    {
        dirs.push(PathBuf::from(String::from_utf8_lossy(&out.stdout).trim()));
    }
    // Debian and its kin, Red Hat and its kin, Homebrew on both Mac architectures, Postgres.app.
    for (parent, prefix, tail) in [
        ("/usr/lib/postgresql", "", "bin"),
        ("/usr", "pgsql-", "bin"),
        ("/opt/homebrew/opt", "postgresql", "bin"),
        ("/usr/local/opt", "postgresql", "bin"),
        ("/home/linuxbrew/.linuxbrew/opt", "postgresql", "bin"),
        ("/Applications/Postgres.app/Contents/Versions", "", "bin"),
    ] {
        let Ok(entries) = std::fs::read_dir(parent) else { continue };
        let names = entries.flatten().filter(|e| e.file_name().to_string_lossy().starts_with(prefix));
        dirs.extend(names.map(|e| e.path().join(tail)));
    }
    dirs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binaries(major: u32, minor: u32) -> Binaries {
        Binaries { dir: format!("/pg/{major}.{minor}/bin").into(), version: (major, minor), origin: Origin::System }
    }

    #[test]
    fn the_existing_version_wins_over_the_newest() {
        let found = [binaries(13, 9), binaries(17, 2), binaries(15, 3), binaries(15, 18), binaries(9, 6)];
        assert_eq!(best(&found, None).unwrap().version, (17, 2));
        assert_eq!(best(&found, Some(15)).unwrap().version, (15, 18));
        assert_eq!(best(&found, Some(16)), None);
        assert_eq!(best(&found[..1], None), None, "13 is too old");
    }
}
