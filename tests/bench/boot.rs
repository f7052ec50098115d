//! Boot on a warm database, and what the household holds on to when nothing happens.

use std::time::Duration;

use access::credentials::MasterKey;
use store::cluster::{OWNER, socket_config};
use supervisor::owner_login;

use crate::daemon::Daemon;
use crate::household::Household;
use crate::table::{self, Verdict, median};
use crate::{Failed, Plan, machine};

/// Memory that is nobody else's, with seven butlers.
const OWN_MB: f64 = 10.0;

/// Boots it as often as planned, prints, and leaves the last one running.
pub async fn measure(plan: &Plan, household: &Household, butlers: usize) -> Result<Daemon, Failed> {
    let (mut walls, mut cpus, mut servers) = (Vec::new(), Vec::new(), Vec::new());
    let mut last: Option<Daemon> = None;
    for _ in 0..plan.rounds {
        if let Some(daemon) = last.take() {
            daemon.stop().await?;
        }
        let daemon = Daemon::start(household, &[]).await?;
        let postgres = daemon.postgres.ok_or("the daemon's log does not say how long its database took")?;
        walls.push(daemon.wall.saturating_sub(postgres).as_secs_f64());
        cpus.push(daemon.ready.cpu_seconds);
        servers.push(postgres.as_secs_f64());
        last = Some(daemon);
    }
    let daemon = last.ok_or("no round was planned")?;
    let most = match butlers {
        7 => 0.7,
        8..=100 => 4.0,
        _ => 20.0,
    };
    let wall = median(&walls);
    table::boot(
        butlers,
        (wall, table::spread(&walls)),
        median(&cpus),
        median(&servers),
        Verdict::at_most(&format!("boot.{butlers}.ready"), wall, most, "s"),
    );
    tokio::time::sleep(plan.settle).await;
    let mb = |field: &str| Ok::<_, Failed>(machine::status_kib(daemon.pid(), field)? as f64 / 1024.0);
    let (rss, own) = (mb("VmRSS")?, mb("RssAnon")?);
    let server = machine::resident_of_server(machine::postmaster(&household.data())?) as f64 / 1024.0;
    let most = match butlers {
        7 => 32.0,
        8..=100 => 60.0,
        _ => 300.0,
    };
    let connections = connections(household).await?;
    let few = Verdict::at_most(&format!("rest.{butlers}.connections"), connections as f64, 24.0, "connections");
    let rest = Verdict::at_most(&format!("rest.{butlers}.resident"), rss, most, "MB");
    let of_its_own = (butlers == 7).then(|| Verdict::at_most("rest.7.own", own, OWN_MB, "MB"));
    table::idle(butlers, plan.settle, (rss, rest), (own, of_its_own), server, (connections, few));
    Ok(daemon)
}

/// How the owner connects to the household's server, to a database of it.
pub fn owner(household: &Household, database: &str) -> Result<tokio_postgres::Config, Failed> {
    let key = MasterKey::load(None, &household.data())?;
    let mut config = socket_config(&socket_dir(household)?, OWNER, &owner_login(&key));
    config.dbname(database).application_name("bench");
    Ok(config)
}

/// Where the server's socket is, as the server itself says.
fn socket_dir(household: &Household) -> Result<std::path::PathBuf, Failed> {
    let text = std::fs::read_to_string(household.data().join("postgres/postmaster.pid"))?;
    Ok(text.lines().nth(4).ok_or("postmaster.pid has no socket directory")?.into())
}

/// Connections of the daemon to its server.
async fn connections(household: &Household) -> Result<i64, Failed> {
    let (client, connection) = owner(household, "postgres")?.connect(tokio_postgres::NoTls).await?;
    let driver = base::task::spawn(base::task::Kind::Job, "bench", connection);
    let row = client
        .query_one(
            "SELECT count(*) FROM pg_stat_activity
             WHERE backend_type = 'client backend' AND application_name LIKE 'butlerd%'",
            &[],
        )
        .await?;
    drop(client);
    // It ends with its client.
    let _ = tokio::time::timeout(Duration::from_secs(5), driver).await;
    Ok(row.get(0))
}
