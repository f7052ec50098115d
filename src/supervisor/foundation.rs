//! What stands before any butler: directories, master key, database, credentials, tokens.

use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::access::{OperatorTokens, TokenBook, TokenError};
use crate::base::{Clock, Secret};
use crate::config::Config;
use crate::credentials::{Credentials, MasterKey, MasterKeyError};
use crate::store::cluster::{Cluster, ClusterError, ClusterOptions};
use crate::store::{Database, DatabaseOptions, StoreError, derive};

/// Why the household has no ground to stand on.
#[derive(Debug, thiserror::Error)]
pub enum FoundationError {
    #[error("the directory {path} can't be made: {source}")]
    Directory {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error(transparent)]
    MasterKey(#[from] MasterKeyError),
    #[error("the embedded database: {0}")]
    Cluster(#[from] ClusterError),
    #[error("database.url: {0}")]
    Url(String),
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
    pub book: TokenBook,
    pub operators: OperatorTokens,
}

/// Makes `path` with `mode`; a directory that is there keeps its owner but gets the mode.
fn directory(path: &Path, mode: u32) -> Result<(), FoundationError> {
    let fail = |source| FoundationError::Directory { path: path.to_owned(), source };
    std::fs::DirBuilder::new().recursive(true).mode(mode).create(path).map_err(fail)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).map_err(fail)
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

/// Lays the ground. `stage` is told in a few words what happens, for systemd and the log.
pub(super) async fn lay(
    config: &Config,
    clock: &Clock,
    stage: &(dyn Fn(&str) + Sync),
) -> Result<Foundation, FoundationError> {
    let data_dir = &config.daemon.data_dir;
    directories(data_dir, nix::unistd::geteuid().is_root())?;
    let credentials_dir = std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
    let master_key = MasterKey::load(credentials_dir.as_deref(), data_dir)?;
    if master_key.is_new() {
        tracing::warn!(path = %master_key.path().display(), "a new master key was made: back it up, secrets can't be read without it");
    }
    let (cluster, owner, kind) = match &config.database.url {
        Some(url) => {
            let owner: tokio_postgres::Config =
                url.expose().parse().map_err(|e: tokio_postgres::Error| FoundationError::Url(e.to_string()))?;
            let server = owner.get_hosts().iter().map(|h| format!("{h:?}")).collect::<Vec<_>>().join(", ");
            stage("connecting to the database");
            (None, owner, DatabaseKind::External(server))
        }
        None => {
            stage("starting the embedded database");
            let password = owner_login(&master_key);
            let cache = cache_dir(data_dir);
            let mut options = ClusterOptions::new(data_dir.clone(), cache, password.clone());
            options.pg_bin = config.database.pg_bin.clone();
            options.bundle.file = config.database.pg_bundle.clone();
            options.max_connections = u32::from(config.database.max_connections);
            let cluster = Cluster::start(options).await?;
            let owner = cluster.connect_config("butlerd", &password);
            let kind = DatabaseKind::Embedded(cluster.binaries().to_string());
            tracing::info!(server = kind.server(), dir = %cluster.cluster_dir().display(), "embedded database up");
            (Some(cluster), owner, kind)
        }
    };
    stage("bringing the database up to date");
    let options = DatabaseOptions {
        owner,
        pool_size: usize::from(config.database.pool_size),
        time_zone: config.owner.time_zone.time_zone().clone(),
        master_key: master_key.bytes().clone(),
        clock: clock.clone(),
    };
    let db = Arc::new(Database::open(options).await?);
    let credentials = Credentials::new(db.clone(), master_key.bytes());
    let book = TokenBook::new(clock.clone());
    let operators = OperatorTokens::load(db.clone(), book.clone()).await?;
    Ok(Foundation { cluster, kind, db, credentials, book, operators })
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
