//! What stands before any butler: directories, master key, database, credentials, tokens.

use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::unistd::{Uid, User};
use tokio_postgres::config::Host;

use access::credentials::{Credentials, MasterKey, MasterKeyError};
use access::{OperatorTokens, TokenBook, TokenError};
use base::redact::household;
use base::{Clock, Secret, access_list};
use config::Config;
use store::cluster::{Cluster, ClusterError, ClusterOptions};
use store::{Database, DatabaseOptions, StoreError, derive};

/// Why the household has no ground to stand on.
#[derive(Debug, thiserror::Error)]
pub enum FoundationError {
    #[error("the directory {path} can't be made: {source}")]
    Directory { path: PathBuf, source: std::io::Error },
    #[error("{0} is a file; name a directory with --data-dir or [daemon] data_dir")]
    File(PathBuf),
    #[error("{path} belongs to {owner}, and butlerd runs as {own}: choose --data-dir, or run it as {owner}")]
    Foreign { path: PathBuf, owner: String, own: String },
    #[error(transparent)]
    MasterKey(#[from] MasterKeyError),
    #[error("the embedded database: {0}")]
    Cluster(#[from] ClusterError),
    #[error("database.url is not a connection string such as postgres://user@host:5432/butlers")]
    Url,
    #[error("no PostgreSQL answers at {server} (database.url): {why}; start it or correct the URL")]
    NoServer { server: String, why: String },
    #[error("the PostgreSQL at {server} (database.url) refuses butlerd: {why}; correct user, password or database")]
    Refused { server: String, why: String },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Tokens(#[from] TokenError),
}

/// Which database it is.
#[derive(Clone, Debug)]
pub enum DatabaseKind {
    Embedded(String),
    External(String),
}

impl DatabaseKind {
    /// `embedded` or `external`.
    pub fn name(&self) -> &'static str {
        match self {
            DatabaseKind::Embedded(_) => "embedded",
            DatabaseKind::External(_) => "external",
        }
    }
    /// Which server.
    pub fn server(&self) -> &str {
        match self {
            DatabaseKind::Embedded(s) | DatabaseKind::External(s) => s,
        }
    }
}

/// The ground, once it stands.
pub(super) struct Foundation {
    pub cluster: Option<Cluster>,
    pub kind: DatabaseKind,
    pub db: Arc<Database>,
    pub credentials: Credentials,
    pub operators: OperatorTokens,
}

/// Makes `path` with `mode`; a directory that is there keeps its owner but gets the mode. Users whom root has let through
/// it stay so.
fn directory(path: &Path, mode: u32) -> Result<(), FoundationError> {
    let fail = |source| why_not(path, source);
    std::fs::DirBuilder::new().recursive(true).mode(mode).create(path).map_err(fail)?;
    let lets_through = std::fs::File::open(path).is_ok_and(access_list::names_a_user);
    let mode = if lets_through { mode | 0o010 } else { mode };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).map_err(fail)
}

fn name_of(uid: u32) -> String {
    User::from_uid(Uid::from_raw(uid)).ok().flatten().map_or_else(|| format!("user {uid}"), |u| u.name)
}

/// Why `path` can't be a directory of ours, as told by what is there, or by the nearest that is there above it.
fn why_not(path: &Path, source: std::io::Error) -> FoundationError {
    let denied = source.kind() == std::io::ErrorKind::PermissionDenied;
    let own = Uid::effective().as_raw();
    match path.ancestors().find_map(|p| Some((p, std::fs::metadata(p).ok()?))) {
        Some((there, meta)) if !meta.is_dir() => FoundationError::File(there.to_owned()),
        Some((there, meta)) if denied && meta.uid() != own => {
            FoundationError::Foreign { path: there.to_owned(), owner: name_of(meta.uid()), own: name_of(own) }
        }
        _ => FoundationError::Directory { path: path.to_owned(), source },
    }
}

/// The servers of a connection string as `host:port`; never its user or password.
fn servers(config: &tokio_postgres::Config) -> String {
    let ports = config.get_ports();
    let port = |i: usize| ports.get(i).or(ports.first()).copied().unwrap_or(5432);
    let shown = config.get_hosts().iter().enumerate().map(|(i, host)| match host {
        Host::Tcp(name) if name.contains(':') => format!("[{name}]:{}", port(i)),
        Host::Tcp(name) => format!("{name}:{}", port(i)),
        Host::Unix(dir) => format!("{}/.s.PGSQL.{}", dir.display(), port(i)),
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// How long a server may take to show whether it is there at all.
const PROBE: Duration = Duration::from_secs(5);

/// Says of an external server whether it is away or turns us down; the store's own error does not tell these apart.
async fn outside(server: &str, owner: tokio_postgres::Config, e: StoreError) -> FoundationError {
    let (server, why) = match &e {
        StoreError::Unreachable(why) => (server.to_owned(), why.clone()),
        StoreError::PoolTimeout(_) => (server.to_owned(), e.to_string()),
        _ => return e.into(),
    };
    match tokio::time::timeout(PROBE, owner.connect(store::connector(&owner))).await {
        Ok(Ok(_)) => e.into(),
        Ok(Err(again)) if again.as_db_error().is_some() => FoundationError::Refused { server, why },
        Ok(Err(_)) | Err(_) => FoundationError::NoServer { server, why },
    }
}

/// The directories of the data directory. As root others may pass through it (the database's and the children's users
/// must reach their own parts), but not list it.
pub(super) fn directories(data_dir: &Path, root: bool) -> Result<(), FoundationError> {
    let open = if root { 0o711 } else { 0o700 };
    directory(data_dir, open)?;
    directory(&data_dir.join("work"), open)?;
    directory(&data_dir.join("run"), 0o700)
}

/// The owner role's login on the embedded server: password derived from the master key.
pub fn owner_login(master_key: &MasterKey) -> Secret<String> {
    Secret::new(derive(master_key.bytes(), "owner"))
}

/// The server accepts no fewer connections: the household itself has some before its butlers share the rest.
const LEAST_CONNECTIONS: u32 = 40;
/// Locks that a server has for each connection by itself, and those that it gets for each butler's tables: a backup
/// locks all tables in one transaction.
const LOCKS: u32 = 64;

/// Lays the ground. `book` learns the operators' tokens, `stage` is told in a few words what happens.
pub(super) async fn lay(
    config: &Config,
    butlers: usize,
    clock: &Clock,
    book: &TokenBook,
    stage: &(dyn Fn(&'static str) + Sync),
) -> Result<Foundation, FoundationError> {
    let data_dir = &config.daemon.data_dir;
    directories(data_dir, nix::unistd::geteuid().is_root())?;
    let credentials_dir = std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
    let master_key = MasterKey::load(credentials_dir.as_deref(), data_dir)?;
    if master_key.is_new() {
        tracing::info!(path = %master_key.path().display(), "a new master key was made: back it up, secrets can't be read without it");
    }
    let (cluster, owner, kind) = match &config.database.url {
        Some(url) => {
            let owner: tokio_postgres::Config =
                // The parser's words could repeat a part of the URL, and that may hold a password.
                url.expose().parse().map_err(|_| FoundationError::Url)?;
            if let Some(password) = owner.get_password() {
                household().hide_bytes(password);
            }
            let server = servers(&owner);
            stage("connecting to the database");
            (None, owner, DatabaseKind::External(server))
        }
        None => {
            stage("starting the embedded database");
            let password = owner_login(&master_key);
            household().hide(&password);
            let cache = cache_dir(data_dir);
            let mut options = ClusterOptions::new(data_dir.clone(), cache, password.clone());
            options.pg_bin = config.database.pg_bin.clone();
            options.bundle.file = config.database.pg_bundle.clone();
            options.max_connections = u32::from(config.database.max_connections).max(LEAST_CONNECTIONS);
            let butlers = u32::try_from(butlers).unwrap_or(u32::MAX);
            options.max_locks = Some(LOCKS + LOCKS.saturating_mul(butlers) / options.max_connections);
            let cluster = Cluster::start(options).await?;
            let owner = cluster.connect_config("butlerd", &password);
            let kind = DatabaseKind::Embedded(cluster.binaries().to_string());
            (Some(cluster), owner, kind)
        }
    };
    stage("bringing the database up to date");
    let options = DatabaseOptions {
        owner: owner.clone(),
        pool_size: usize::from(config.database.pool_size),
        time_zone: config.owner.time_zone.time_zone().clone(),
        master_key: master_key.bytes().clone(),
        clock: clock.clone(),
    };
    let db = match (Database::open(options).await, &kind) {
        (Ok(db), _) => Arc::new(db),
        (Err(e), DatabaseKind::External(server)) => return Err(outside(server, owner, e).await),
        (Err(e), DatabaseKind::Embedded(_)) => return Err(e.into()),
    };
    let credentials = Credentials::new(db.clone(), master_key.bytes());
    let operators = OperatorTokens::load(db.clone(), book.clone()).await?;
    Ok(Foundation { cluster, kind, db, credentials, operators })
}

/// Does something with the household's secrets where no daemon runs: lays the ground, and takes it up again.
pub async fn on_ground<W, T>(config: &Config, clock: &Clock, work: W) -> Result<T, FoundationError>
where
    W: AsyncFnOnce(Credentials) -> T,
{
    let Foundation { cluster, db, credentials, .. } =
        lay(config, 0, clock, &TokenBook::new(clock.clone()), &|_| {}).await?;
    let done = work(credentials).await;
    db.close().await;
    if let Some(cluster) = cluster {
        cluster.stop(Duration::from_secs(10)).await;
    }
    Ok(done)
}

/// Where downloads are kept: systemd's cache directory, root's `/var/cache` (the database's user can't enter root's
/// home), else the user's cache, else the data directory's own.
pub fn cache_dir(data_dir: &Path) -> PathBuf {
    let from = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let root = nix::unistd::geteuid().is_root().then(|| PathBuf::from("/var/cache/butlerd"));
    from("CACHE_DIRECTORY")
        .or_else(|| from("XDG_CACHE_HOME").map(|d| d.join("butlerd")))
        .or(root)
        .or_else(|| from("HOME").map(|d| d.join(".cache/butlerd")))
        .unwrap_or_else(|| data_dir.join("cache"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_where_a_directory_is_needed_is_named() {
        let top = tempfile::tempdir().unwrap();
        let file = top.path().join("file");
        std::fs::write(&file, "").unwrap();
        for data_dir in [file.clone(), file.join("below")] {
            let said = directories(&data_dir, false).unwrap_err().to_string();
            assert!(said.starts_with(&format!("{} is a file; name a directory", file.display())), "{said}");
        }
    }

    #[test]
    fn another_users_directory_is_told_with_both_names() {
        // The first process is root's: somebody else's, unless root runs this test.
        let denied = || std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        let own = Uid::effective().as_raw();
        let top = tempfile::tempdir().unwrap();
        assert!(matches!(why_not(top.path(), denied()), FoundationError::Directory { .. }));
        let theirs = Path::new("/proc/1");
        let owner = std::fs::metadata(theirs).unwrap().uid();
        let said = why_not(&theirs.join("none"), denied()).to_string();
        let expected =
            format!("belongs to {}, and butlerd runs as {}: choose --data-dir", name_of(owner), name_of(own));
        assert_eq!(said.contains(&expected), owner != own, "{said}");
    }

    #[tokio::test]
    async fn a_server_that_is_away_is_named_without_its_password() {
        // A port that was just free: nobody listens there.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let config: tokio_postgres::Config = format!("postgres://u:s3cret@127.0.0.1:{port}/x").parse().unwrap();
        let server = servers(&config);
        let said = outside(&server, config, StoreError::Unreachable("refused".to_owned())).await.to_string();
        let expected = format!("no PostgreSQL answers at 127.0.0.1:{port} (database.url): refused; start it");
        assert!(said.starts_with(&expected) && !said.contains("s3cret"), "{said}");
    }

    #[test]
    fn servers_are_shown_as_people_write_them() {
        let shown = |text: &str| servers(&text.parse().unwrap());
        assert_eq!(shown("postgres://u:s3cret@db.home/x"), "db.home:5432");
        assert_eq!(shown("host=a,b port=1,2"), "a:1, b:2");
        assert_eq!(shown("host=/run/postgresql port=5433"), "/run/postgresql/.s.PGSQL.5433");
    }
}
