//! PostgreSQL's programs, and the refusal where none of them reads the cluster.

use std::fmt;
use std::path::PathBuf;

use super::{LOCALES, OWNER};

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
    pub(super) fn initdb(&self) -> PathBuf {
        self.dir.join("initdb")
    }

    pub(super) fn postgres(&self) -> PathBuf {
        self.dir.join("postgres")
    }
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
            user = OWNER,
            locale = LOCALES[0],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusal_says_how_to_move() {
        let here = Binaries { dir: "/pg/17.2/bin".into(), version: (17, 2), origin: Origin::System };
        let mut other = OtherMajor { cluster: Some("/d/postgres".into()), wanted: 15, available: Some(here) };
        let text = other.to_string();
        assert!(text.contains("pg_upgrade -b OLD -B /pg/17.2/bin -d /d/postgres -D /d/postgres.moved"), "{text}");
        assert!(text.contains("pg_dumpall"), "{text}");
        other.wanted = 18;
        assert!(other.to_string().contains("never moves to an older version"), "{other}");
        other.available = None;
        assert!(other.to_string().contains("no PostgreSQL 18 is here"), "{other}");
    }
}
