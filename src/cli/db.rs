//! `butlerd db`

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use serde_json::json;

use super::args::Db;
use super::problem::{FAILED, Problem};
use super::{Caller, Outcome};
use admin::{ApiClient, DbLogin};

pub async fn run(caller: Caller, what: Db) -> Outcome {
    let (Db::Url { butler } | Db::Psql { butler, .. }) = &what;
    let login = caller.client.quick()?.db_login(butler.clone()).await.map_err(caller.failed())?;
    match what {
        Db::Url { .. } => {
            let url = url(&login);
            match caller.out.json {
                true => caller.out.value(&json!({
                    "url": url, "host": login.host, "port": login.port, "dbname": login.dbname, "user": login.user,
                    "password": login.password, "options": login.options,
                })),
                false => caller.out.line(&url),
            }
            Ok(0)
        }
        Db::Psql { args, .. } => Err(become_psql(&login, &args)),
    }
}

/// A connection URL. A socket's directory stands in the query, because it can't stand in the authority.
fn url(login: &DbLogin) -> String {
    let (user, password) = (encode(&login.user), encode(login.password.expose()));
    let (port, dbname, options) = (login.port, encode(&login.dbname), encode(&login.options));
    if login.host.starts_with('/') {
        let host = encode(&login.host);
        return format!("postgresql://{user}:{password}@/{dbname}?host={host}&port={port}&options={options}");
    }
    let host = if login.host.contains(':') { format!("[{}]", login.host) } else { encode(&login.host) };
    format!("postgresql://{user}:{password}@{host}:{port}/{dbname}?options={options}")
}

/// Percent-encodes whatever is not plain.
fn encode(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    let each = |b: u8| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") };
    text.bytes().map(each).collect()
}

/// Turns this process into psql. The password goes through its environment, which only the same user can read; in its
/// arguments everybody could. Comes back only if there is no psql.
fn become_psql(login: &DbLogin, args: &[OsString]) -> Problem {
    let error = Command::new("psql")
        .args(args)
        .env("PGHOST", &login.host)
        .env("PGPORT", login.port.to_string())
        .env("PGDATABASE", &login.dbname)
        .env("PGUSER", &login.user)
        .env("PGPASSWORD", login.password.expose())
        .env("PGOPTIONS", &login.options)
        .exec();
    let next = "Install PostgreSQL's client (Debian: apt install postgresql-client), or use `butlerd db url`.";
    Problem::new(FAILED, "no_psql", format!("psql can't be started: {error}."), next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(host: &str) -> DbLogin {
        DbLogin {
            host: host.to_owned(),
            port: 5432,
            dbname: "butlers".to_owned(),
            user: "butler_health".to_owned(),
            password: "p@ss/word".to_owned().into(),
            options: "-c butlerd.tenant=owner".to_owned(),
        }
    }

    #[test]
    fn urls_are_read_back_as_they_were_meant() {
        for host in ["db.home", "10.0.0.5", "/run/butlerd/sock dir"] {
            let text = url(&login(host));
            let config: tokio_postgres::Config = text.parse().unwrap();
            assert_eq!(config.get_password(), Some(&b"p@ss/word"[..]), "{text}");
            assert_eq!((config.get_user(), config.get_dbname()), (Some("butler_health"), Some("butlers")));
            let expected = match host.starts_with('/') {
                true => tokio_postgres::config::Host::Unix(host.into()),
                false => tokio_postgres::config::Host::Tcp(host.to_owned()),
            };
            assert_eq!(config.get_hosts(), [expected], "{text}");
            assert_eq!(config.get_ports(), [5432], "{text}");
            assert_eq!(config.get_options(), Some("-c butlerd.tenant=owner"), "{text}");
        }
        assert!(url(&login("::1")).contains("@[::1]:5432/"));
    }
}
