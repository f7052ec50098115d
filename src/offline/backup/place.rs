//! Which database, and under which master key: the private server, running or not, or the one of `database.url`.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio_postgres::Client;

use super::error::BackupError;
use access::credentials::MasterKey;
use base::Secret;
use base::redact::household;
use config::Config;
use store::cluster::{self, Cluster, ClusterError, ClusterOptions, OWNER, socket_config};
use store::{StoreError, derive, owner_connection};
use supervisor::cache_dir;

/// Per connection: enough for some hundred butlers, and 20 MB at most for as long as a restore takes.
const MOST_LOCKS: u32 = 512;

/// How long a server that was started for this may take to stop.
const STOP: Duration = Duration::from_secs(30);

/// How long a daemon may be starting or stopping before its database is given up, and how often it is looked at.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(100);

/// Where a household is, or shall be.
pub struct Where<'a> {
    pub config: &'a Config,
    /// `$CREDENTIALS_DIRECTORY`, where systemd puts the master key.
    pub credentials_dir: Option<PathBuf>,
    /// Where downloads are kept.
    pub cache_dir: PathBuf,
    /// A master key that is elsewhere.
    pub key: Option<PathBuf>,
}

/// A way to the database, and the server if it was started for this.
pub(crate) struct Open {
    pub client: Client,
    /// Which database it is, in words.
    pub words: String,
    cluster: Option<Cluster>,
}

impl Open {
    /// Lets go of it; a server that was started for this is gone afterwards.
    pub async fn close(self) {
        drop(self.client);
        if let Some(cluster) = self.cluster {
            cluster.stop(STOP).await;
        }
    }
}

impl<'a> Where<'a> {
    /// Where these settings say, with the master key that the daemon would find.
    pub fn of(config: &'a Config) -> Self {
        let credentials_dir = std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
        Self { config, credentials_dir, cache_dir: cache_dir(&config.daemon.data_dir), key: None }
    }

    fn data_dir(&self) -> &Path {
        &self.config.daemon.data_dir
    }

    /// The master key that is named, else the household's own.
    pub(crate) fn key(&self) -> Result<MasterKey, BackupError> {
        if let Some(path) = &self.key {
            return Ok(MasterKey::read(path.clone())?);
        }
        let found = MasterKey::find(self.credentials_dir.as_deref(), self.data_dir())?;
        found.ok_or_else(|| BackupError::NoKey(self.data_dir().join("master.key")))
    }

    /// Refuses a key that is not the one which is there already.
    pub(super) fn refuse_other_key(&self, key: &MasterKey) -> Result<(), BackupError> {
        let Some(present) = MasterKey::find(self.credentials_dir.as_deref(), self.data_dir())? else { return Ok(()) };
        if present.bytes().same_as(key.bytes().expose()) {
            return Ok(());
        }
        Err(BackupError::OtherKey { given: key.path().to_owned(), present: present.path().to_owned() })
    }

    /// Puts the key where the daemon will look for it, unless it is there. Returns where it is.
    pub(super) fn place_key(&self, key: &MasterKey) -> Result<PathBuf, BackupError> {
        self.refuse_other_key(key)?;
        if let Some(present) = MasterKey::find(self.credentials_dir.as_deref(), self.data_dir())? {
            return Ok(present.path().to_owned());
        }
        let dir = self.data_dir();
        // As the daemon makes it: as root, the database's user must reach its part.
        let mode = if nix::unistd::geteuid().is_root() { 0o711 } else { 0o700 };
        let made = std::fs::DirBuilder::new().recursive(true).mode(mode).create(dir);
        made.map_err(|source| BackupError::File { path: dir.to_owned(), step: "made", source })?;
        Ok(key.place(dir)?.path().to_owned())
    }

    /// Refuses a private server that somebody uses.
    pub(super) fn refuse_running(&self) -> Result<(), BackupError> {
        let running = self.config.database.url.is_none() && cluster::running(self.data_dir()).is_some();
        if running { Err(BackupError::Running(self.data_dir().to_owned())) } else { Ok(()) }
    }

    /// The way to the household's database: through the running daemon's server, one started for this, or by the URL.
    pub(crate) async fn open(&self, key: &MasterKey) -> Result<Open, BackupError> {
        if self.config.database.url.is_none() && !cluster::exists(self.data_dir()) {
            return Err(BackupError::Nothing(self.words()));
        }
        let give_up = Instant::now() + PATIENCE;
        loop {
            let tried = match cluster::running(self.data_dir()).filter(|_| self.config.database.url.is_none()) {
                Some(socket_dir) => self.join(&socket_dir, key).await,
                None => self.start(key, false).await,
            };
            match tried {
                // A daemon that starts or stops at this moment.
                Err(
                    BackupError::Cluster(ClusterError::Locked { .. }) | BackupError::Store(StoreError::Unreachable(_)),
                ) if Instant::now() < give_up && self.config.database.url.is_none() => {}
                other => return other,
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The way through the server of a running daemon.
    async fn join(&self, socket_dir: &Path, key: &MasterKey) -> Result<Open, BackupError> {
        let login = socket_config(socket_dir, OWNER, &owner_password(key));
        Ok(Open { client: owner_connection(login, false).await?, words: self.words(), cluster: None })
    }

    /// As [`Where::open`], and makes what is missing: the private server's cluster, the database.
    pub(super) async fn start(&self, key: &MasterKey, create: bool) -> Result<Open, BackupError> {
        let words = self.words();
        if let Some(url) = &self.config.database.url {
            let owner: tokio_postgres::Config = url.expose().parse().map_err(|_| BackupError::Url)?;
            if let Some(password) = owner.get_password() {
                household().hide_bytes(password);
            }
            return Ok(Open { client: owner_connection(owner, create).await?, words, cluster: None });
        }
        let password = owner_password(key);
        let mut options = ClusterOptions::new(self.data_dir().to_owned(), self.cache_dir.clone(), password.clone());
        options.pg_bin = self.config.database.pg_bin.clone();
        options.bundle.file = self.config.database.pg_bundle.clone();
        options.max_connections = u32::from(self.config.database.max_connections);
        // A restore makes all tables in one transaction, and each of them is locked to its end.
        options.max_locks = Some(MOST_LOCKS);
        let cluster = Cluster::start(options).await.map_err(|e| match e {
            ClusterError::Locked { .. } if create => BackupError::Running(self.data_dir().to_owned()),
            other => other.into(),
        })?;
        match owner_connection(cluster.connect_config(OWNER, &password), create).await {
            Ok(client) => Ok(Open { client, words, cluster: Some(cluster) }),
            Err(e) => {
                cluster.stop(STOP).await;
                Err(e.into())
            }
        }
    }

    fn words(&self) -> String {
        match &self.config.database.url {
            Some(_) => "the database of database.url".to_owned(),
            None => format!("the data directory {}", self.data_dir().display()),
        }
    }
}

/// The owner role's password on the private server.
fn owner_password(key: &MasterKey) -> Secret<String> {
    let password = Secret::new(derive(key.bytes(), "owner"));
    household().hide(&password);
    password
}
