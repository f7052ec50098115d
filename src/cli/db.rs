//! `butlerd db`

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use clap::Subcommand;
use serde::Serialize;

use super::out::Out;
use super::problem::{FAILED, Problem};
use super::text::{count, size};
use super::{Caller, Outcome};
use admin::api::HouseApiClient;
use admin::{DbLogin, Usage};

/// `db`
#[derive(Debug, Subcommand)]
pub enum Db {
    /// Print how to connect as the butler's role, its password included
    Url {
        #[arg(long, value_name = "NAME")]
        butler: String,
    },
    /// Show what tables and directories take, what they grow by, and when the disk is full at this pace
    Usage {
        /// Every table, not only the largest
        #[arg(long)]
        all: bool,
    },
    /// Run psql as the butler's role
    Psql {
        #[arg(long, value_name = "NAME")]
        butler: String,
        /// Handed on to psql
        #[arg(last = true)]
        args: Vec<OsString>,
    },
}

/// How to connect, as programs read it.
#[derive(Serialize)]
struct Connection<'a> {
    url: String,
    #[serde(flatten)]
    login: &'a DbLogin,
}

pub async fn run(caller: Caller, what: Db) -> Outcome {
    let login = async |butler: String| caller.got(caller.quick()?.db_login(butler).await);
    match what {
        Db::Url { butler } => {
            let login = login(butler).await?;
            caller.out.answer(&Connection { url: url(&login), login: &login }, |out, shown| out.line(&shown.url))
        }
        Db::Psql { butler, args } => Err(become_psql(&login(butler).await?, &args)),
        Db::Usage { all } => {
            let usage = caller.got(caller.quick()?.db_usage().await)?;
            caller.out.answer(&usage, |out, usage| show(out, usage, if all { usize::MAX } else { LARGEST }))
        }
    }
}

/// So many tables are shown.
const LARGEST: usize = 15;

fn show(out: &Out, usage: &Usage, most: usize) {
    let day = |grows: f64| match grows < 0.0 {
        true => format!("-{}", size(-grows as u64)),
        false => size(grows as u64),
    };
    let (shown, others) = usage.tables.split_at(usage.tables.len().min(most));
    out.table(shown)
        .column("TABLE", |t| format!("{}.{}", t.schema, t.name))
        .column("SIZE", |t| size(t.bytes as u64))
        .column("ROWS (ABOUT)", |t| t.rows)
        .column("A DAY", move |t| t.grows.map_or_else(|| "unknown".to_owned(), day))
        .print("No tables");
    if !others.is_empty() {
        let bytes = others.iter().map(|t| t.bytes as u64).sum();
        out.line(&format!("and {} of together {}; --all shows them", count(others.len(), "table"), size(bytes)));
    }
    out.line("");
    out.table(&usage.directories)
        .column("PATH", |d| d.path.display().to_string())
        .column("SIZE", |d| match d.unreadable {
            0 => size(d.bytes),
            n => format!("{} and {} that can't be looked at", size(d.bytes), count(n as usize, "file")),
        })
        .print("No directories");
    let all = usage.tables.iter().map(|t| t.bytes as u64).sum();
    let grows = usage.grows.map_or_else(
        || "how fast they grow is known in a day".to_owned(),
        |g| format!("they grow by {} a day", day(g)),
    );
    out.line(&format!("\nAll tables have {}; {grows}.", size(all)));
    let free = usage.disk.free.map_or_else(|| "an unknown amount".to_owned(), size);
    let full = match (usage.full_in_days, usage.grows) {
        (Some(days), _) => format!("full in about {} at this pace", count(days as usize, "day")),
        (None, Some(_)) => "at this pace never full".to_owned(),
        (None, None) => "when it is full is not known yet".to_owned(),
    };
    out.line(&format!("The disk has {free} left: {full}. No work is begun below {}.", size(usage.disk.floor)));
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
