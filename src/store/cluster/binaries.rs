//! Which PostgreSQL runs: the configured one, the system's, or the pinned bundle.

use std::fmt;
use std::path::{Path, PathBuf};

use super::bundle::{self, BundleOptions};
use super::process::{self, Death};
use super::user::RunAs;
use super::{ClusterError, MIN_MAJOR};

/// Where binaries came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// `database.pg_bin`.
    Configured,
    /// Found on this machine.
    System,
    /// The pinned package, unpacked in the cache.
    Bundle,
}

/// A directory with `initdb` and `postgres`. `Display` is a sentence for people that says which was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binaries {
    pub dir: PathBuf,
    /// Major and minor, as in 15.18.
    pub version: (u32, u32),
    pub origin: Origin,
}

impl fmt::Display for Binaries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.version;
        let origin = match self.origin {
            Origin::Configured => "as configured",
            Origin::System => "found on this system",
            Origin::Bundle => "from the pinned bundle",
        };
        write!(f, "PostgreSQL {major}.{minor}, {origin} ({})", self.dir.display())
    }
}

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

    pub(super) fn initdb(&self) -> PathBuf {
        self.dir.join("initdb")
    }

    pub(super) fn postgres(&self) -> PathBuf {
        self.dir.join("postgres")
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
        if !seen.contains(&dir) && has_server(&dir) {
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

fn has_server(dir: &Path) -> bool {
    ["initdb", "postgres"].iter().all(|name| dir.join(name).is_file())
}

/// Asks the server program itself for its version, as the user that will run it.
pub(super) fn probe(dir: &Path, run_as: &RunAs) -> Result<(u32, u32), String> {
    if let Some(missing) = ["initdb", "postgres"].iter().find(|name| !dir.join(name).is_file()) {
        return Err(format!("there is no `{missing}` in it"));
    }
    let program = dir.join("postgres");
    let out = process::command(&program, run_as, Death::Kill)
        .arg("--version")
        .output()
        .map_err(|e| format!("`{} --version` does not run as {}: {e}", program.display(), run_as.name))?;
    let text = String::from_utf8_lossy(&out.stdout);
    parse_version(&text).ok_or_else(|| {
        let said = if text.trim().is_empty() { String::from_utf8_lossy(&out.stderr) } else { text };
        format!("`postgres --version` says: {}", base::text::truncate(said.trim(), 300))
    })
}

/// Reads `postgres (PostgreSQL) 15.18 (Debian …)`, `… 19beta2`, `… 18devel`.
fn parse_version(text: &str) -> Option<(u32, u32)> {
    let number = text.split_once("(PostgreSQL)")?.1.split_whitespace().next()?;
    let end = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
    let major = number[..end].parse().ok()?;
    let rest = number[end..].strip_prefix('.').unwrap_or("0");
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    Some((major, rest[..end].parse().unwrap_or(0)))
}

/// A cluster whose major version none of the binaries here reads. `Display` says how to move it.
#[derive(Clone, Debug)]
pub struct OtherMajor {
    /// PostgreSQL's directory, where known.
    pub cluster: Option<PathBuf>,
    /// The version that made it.
    pub wanted: u32,
    /// What would run instead.
    pub available: Option<Binaries>,
}

impl fmt::Display for OtherMajor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cluster = self.cluster.as_deref().map_or("<data_dir>/postgres".into(), |dir| dir.display().to_string());
        let wanted = self.wanted;
        write!(f, "the database in {cluster} was made by PostgreSQL {wanted}, ")?;
        let Some(here) = &self.available else {
            return write!(
                f,
                "and no PostgreSQL {wanted} is here. Install it (butlerd then takes it by itself), or set \
                 database.pg_bin to the directory that holds its `initdb` and `postgres`"
            );
        };
        let (new, dir) = (here.version.0, here.dir.display());
        write!(f, "but only PostgreSQL {new} is here ({dir}), which cannot read it. ")?;
        if wanted > new {
            return write!(
                f,
                "A database never moves to an older version in place: install PostgreSQL {wanted} (butlerd then takes \
                 it by itself), or set database.pg_bin to the directory of its binaries"
            );
        }
        write!(
            f,
            "Install PostgreSQL {wanted} beside it and butlerd goes on with that. \
             To move the database to {new} instead, stop butlerd, and as the owner of {cluster}, with OLD the \
             directory of PostgreSQL {wanted}'s binaries and `local all all trust` as the first line of \
             {cluster}/pg_hba.conf meanwhile, in a directory that it may write to:\n  \
             {dir}/initdb -D {cluster}.moved -U {user} -E UTF8 --locale={locale} --data-checksums -A trust\n  \
             {dir}/pg_upgrade -b OLD -B {dir} -d {cluster} -D {cluster}.moved -U {user}\n  \
             mv {cluster} {cluster}.{wanted} && mv {cluster}.moved {cluster}\n  \
             echo 'local all all scram-sha-256' > {cluster}/pg_hba.conf\n\
             or, with pg_dumpall and psql, from one to the other: \
             start OLD/postgres -D {cluster} -k {cluster} -c listen_addresses= , \
             pg_dumpall -h {cluster} -U {user} > all.sql, stop it (Ctrl-C), run the initdb above, start {dir}/postgres \
             on {cluster}.moved the same way, psql -h {cluster}.moved -U {user} -d postgres -f all.sql (it may say \
             that the role {user} exists), stop it, then the last two lines",
            user = super::OWNER,
            locale = super::initdb::LOCALES[0],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        for (text, version) in [
            ("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n", Some((15, 18))),
            ("postgres (PostgreSQL) 18.4\n", Some((18, 4))),
            ("postgres (PostgreSQL) 19beta2\n", Some((19, 0))),
            ("postgres (PostgreSQL) 20devel\n", Some((20, 0))),
            ("postgres (EnterpriseDB) 9\n", None),
            ("", None),
        ] {
            assert_eq!(parse_version(text), version, "{text}");
        }
    }

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

    #[test]
    fn the_refusal_says_how_to_move() {
        let mut other =
            OtherMajor { cluster: Some("/d/postgres".into()), wanted: 15, available: Some(binaries(17, 2)) };
        let text = other.to_string();
        assert!(text.contains("pg_upgrade -b OLD -B /pg/17.2/bin -d /d/postgres -D /d/postgres.moved"), "{text}");
        assert!(text.contains("pg_dumpall"), "{text}");
        other.wanted = 18;
        assert!(other.to_string().contains("never moves to an older version"), "{other}");
        other.available = None;
        assert!(other.to_string().contains("no PostgreSQL 18 is here"), "{other}");
    }
}
