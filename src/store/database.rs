//! The household's database: the owner's connections, the schemas and roles of butlers, and their pools.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use tokio::sync::Mutex;

use super::error::StoreError;
use super::limit::ConnectionLimit;
use super::migrate::{self, Chain};
use super::pool::{Lease, Pool, Scope};
use super::role_keeper::RoleKeeper;
use super::roles::{role_name, role_password};
use super::roster::RosterOwner;
use super::sql;
use base::{ButlerName, Clock, Machine, RequestContext, Secret, TenantId};
use telemetry::QueueMetrics;

/// The database that butlerd keeps on a server that is all its own.
const DATABASE: &str = "butlers";
/// Few: the owner works at boot and for reconcilers, never for a tool call.
const OWNER_POOL: usize = 4;
/// Connections of a server that butlers do not get: the owner's and its probe, those that apply a roster's files, a
/// backup's, and those of people who look in.
const NOT_FOR_BUTLERS: usize = 24;
/// What all butlers together have where a server has hardly any.
const FEWEST: usize = 4;
/// So many butlers keep one connection each at rest, unless that is much of what the server has: what comes after a pause then
/// does not wait for a login. Of more butlers, none keeps any.
const KEPT: usize = 16;
/// A connection idle for this long is closed.
const IDLE: Duration = Duration::from_secs(30);

/// Where the database is and how butlers' pools are sized.
pub struct DatabaseOptions {
    /// How the owner role reaches the server (host, user, password). Without a database of its own (none named, or
    /// `postgres`), `butlers` is used and created when missing.
    pub owner: tokio_postgres::Config,
    /// Most connections of one butler.
    pub pool_size: usize,
    /// The owner's time zone.
    pub time_zone: TimeZone,
    /// Roles' passwords are derived from it.
    pub master_key: Secret<Vec<u8>>,
    pub clock: Clock,
}

/// The household's database.
pub struct Database {
    options: DatabaseOptions,
    owner: Pool,
    /// One connection of the owner that nobody waits for: it shows how the server is.
    probe: Pool,
    /// Of all butlers' pools together.
    limit: Arc<ConnectionLimit>,
    stores: Mutex<HashMap<ButlerName, Store>>,
    queues: QueueMetrics,
    machine: Machine,
}

/// One butler's part of the database, under its own role.
#[derive(Clone)]
pub struct Store {
    pool: Pool,
    roles: Arc<RoleKeeper>,
    clock: Clock,
    schema: Arc<str>,
    time_zone: TimeZone,
    machine: Machine,
}

impl Database {
    /// Connects as the owner, creates the database when missing and brings `shared` up to date.
    pub async fn open(mut options: DatabaseOptions) -> Result<Self, StoreError> {
        if !name_database(&mut options.owner) {
            create_database(&options.owner).await?;
        }
        options.owner.application_name("butlerd");
        let zone = zone_name(&options.time_zone);
        let owner = Pool::new(options.owner.clone(), &zone, OWNER_POOL, &ConnectionLimit::new(OWNER_POOL));
        let probe = Pool::new(options.owner.clone(), &zone, 1, &ConnectionLimit::new(1));
        let mut lease = owner.unscoped().await?;
        let accepted = lease.query(sql::ACCEPTED, &[]).await;
        let accepted = accepted.map_err(StoreError::query("asking how many connections there may be"))?;
        let accepted: i32 = accepted.first().map_or(0, |row| row.get("accepted"));
        let for_butlers = usize::try_from(accepted).unwrap_or(0).saturating_sub(NOT_FOR_BUTLERS);
        let db = Self {
            options,
            owner,
            probe,
            limit: ConnectionLimit::new(for_butlers.max(FEWEST)),
            stores: Mutex::default(),
            queues: QueueMetrics::default(),
            machine: Machine::default(),
        };
        let fresh = lease
            .query_opt(sql::SHARED_EXISTS, &[])
            .await
            .map_err(StoreError::query("looking for the shared schema"))?
            .is_none();
        if fresh {
            lease.batch(sql::GROUND).await.map_err(StoreError::query("creating the shared schema"))?;
        }
        migrate::run(lease.raw(), "shared", &[&Chain::shipped("shared")?], None).await?;
        drop(lease);
        Ok(db)
    }

    /// What its queues count.
    pub fn queue_metrics(&self) -> &QueueMetrics {
        &self.queues
    }

    /// The state of the machine that the household runs on.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Whether the server answers and takes writes; `write`: it is made to show that.
    pub async fn ping(&self, write: bool) -> Result<(), StoreError> {
        let sql = if write { sql::TRY_WRITE } else { sql::MAY_WRITE };
        let mut lease = self.probe.unscoped().await?;
        let rows = lease.read(sql, &[]).await.map_err(StoreError::query("asking the database"))?;
        match rows.first().is_some_and(|row| row.get(0)) {
            true => Ok(()),
            false => Err(StoreError::Unreachable("it takes no writes just now".to_owned())),
        }
    }

    /// All butlers that ever had a schema here, each with it.
    pub async fn places(&self) -> Result<Vec<super::replay::Place>, StoreError> {
        super::replay::places(self.owner.unscoped().await?.raw()).await
    }

    /// The butler's schema and roles, made when missing, and what they were when they were made where they changed
    /// since; then its store. Migrations run separately.
    pub async fn provision(&self, butler: &ButlerName, schema: &str) -> Result<Store, StoreError> {
        let store = {
            let mut stores = self.stores.lock().await;
            stores.entry(butler.clone()).or_insert_with(|| self.store(butler, schema)).clone()
        };
        store.roles.restore().await?;
        drop(store.tenant(&TenantId::owner()).await?);
        Ok(store)
    }

    fn store(&self, butler: &ButlerName, schema: &str) -> Store {
        let mut config = self.options.owner.clone();
        config.user(role_name(butler));
        config.password(self.role_password(butler).expose());
        config.application_name(format!("butlerd {butler}"));
        // What a connection begins with, and what its role set for itself is not asked.
        let given = config.get_options().unwrap_or_default().to_owned();
        config.options(format!(
            "{given} -c search_path=\"{schema}\",shared,public -c row_security=on -c statement_timeout=60s \
             -c idle_in_transaction_session_timeout=60s"
        ));
        let pool = Pool::new(config, &zone_name(&self.options.time_zone), self.options.pool_size, &self.limit);
        let master_key = self.options.master_key.clone();
        Store {
            pool,
            roles: Arc::new(RoleKeeper::new(self.owner.clone(), butler, schema, master_key)),
            clock: self.options.clock.clone(),
            schema: schema.into(),
            time_zone: self.options.time_zone.clone(),
            machine: self.machine.clone(),
        }
    }

    /// Applies `chains` to the butler's schema and grants its role what it needs there.
    pub async fn migrate(&self, butler: &ButlerName, schema: &str, chains: &[&Chain]) -> Result<(), StoreError> {
        let mut lease = self.owner.unscoped().await?;
        let roster = RosterOwner::new(butler, schema, &self.options.owner, &self.options.master_key);
        Ok(migrate::run(lease.raw(), schema, chains, Some(&roster)).await?)
    }

    /// A connection of the owner role that speaks for `tenant`: for the daemon's own tables in `shared`.
    pub async fn shared(&self, tenant: &TenantId) -> Result<Lease, StoreError> {
        self.owner.lease(&Scope::tenant(tenant.clone(), &self.options.clock)).await
    }

    /// A connection of the owner role that sees the rows of every tenant: for recovery and reconcilers alone.
    pub async fn every_tenant(&self) -> Result<Lease, StoreError> {
        self.owner.unscoped().await
    }

    /// When this household's database was made, by its server's clock.
    pub async fn made_at(&self) -> Result<Timestamp, StoreError> {
        let mut lease = self.every_tenant().await?;
        let rows = lease.read(sql::MADE_AT, &[]).await.map_err(StoreError::query("asking how old the household is"))?;
        Ok(rows.first().and_then(|row| row.get(0)).unwrap_or(Timestamp::UNIX_EPOCH))
    }

    /// How to connect as the butler's role: the settings and the password apart.
    pub fn role_login(&self, butler: &ButlerName) -> (tokio_postgres::Config, Secret<String>) {
        let mut config = self.options.owner.clone();
        config.user(role_name(butler));
        (config, self.role_password(butler))
    }

    /// Open connections, over all pools.
    pub async fn connections(&self) -> usize {
        self.owner.size() + self.probe.size() + self.stores.lock().await.values().map(|s| s.pool.size()).sum::<usize>()
    }

    /// Notes how its pools are used.
    pub async fn note_pools(&self) {
        let work = self.queues.work();
        work.pool("owner", self.owner.in_use());
        for (butler, store) in self.stores.lock().await.iter() {
            work.pool(butler.as_str(), store.pool.in_use());
        }
    }

    /// Closes connections that nobody used lately.
    pub async fn shrink(&self) {
        self.shrink_older(IDLE).await;
    }

    /// Closes all idle connections but those that stay: after the boot, which needs more than the rest does.
    pub async fn shrink_to_rest(&self) {
        self.shrink_older(Duration::ZERO).await;
    }

    async fn shrink_older(&self, age: Duration) {
        self.owner.shrink(age, 1);
        let stores = self.stores.lock().await;
        for store in stores.values() {
            store.pool.shrink(age, usize::from(stores.len() <= KEPT.min(self.limit.most() / 4)));
        }
    }

    /// Closes a butler's pool.
    pub async fn release(&self, butler: &ButlerName) {
        if let Some(store) = self.stores.lock().await.remove(butler) {
            store.pool.close();
        }
    }

    /// Closes every connection.
    pub async fn close(&self) {
        for (_, store) in self.stores.lock().await.drain() {
            store.pool.close();
        }
        self.owner.close();
        self.probe.close();
    }

    fn role_password(&self, butler: &ButlerName) -> Secret<String> {
        role_password(&self.options.master_key, butler)
    }
}

/// The zone's IANA name, as PostgreSQL takes it.
fn zone_name(zone: &TimeZone) -> String {
    zone.iana_name().unwrap_or("UTC").to_owned()
}

/// Names the database to use; says whether the settings did so themselves. One that they name exists.
fn name_database(owner: &mut tokio_postgres::Config) -> bool {
    let named = owner.get_dbname().is_some_and(|name| name != "postgres");
    if !named {
        owner.dbname(DATABASE);
    }
    named
}

/// A connection of the owner role for one long piece of work, which makes the household's database first if `create`
/// says so and the settings name none. Its driver ends with it.
pub async fn owner_connection(
    mut owner: tokio_postgres::Config,
    create: bool,
) -> Result<tokio_postgres::Client, StoreError> {
    if !name_database(&mut owner) && create {
        create_database(&owner).await?;
    }
    owner.application_name("butlerd");
    let connected = owner.connect(super::tls::connector(&owner)).await;
    let (client, connection) = connected.map_err(|e| StoreError::Unreachable(super::error::describe(&e)))?;
    drop(base::task::spawn(base::task::Kind::Job, "owner-connection", connection));
    Ok(client)
}

async fn create_database(owner: &tokio_postgres::Config) -> Result<(), StoreError> {
    let mut config = owner.clone();
    config.dbname("postgres");
    let unreachable = |e: tokio_postgres::Error| StoreError::Unreachable(super::error::describe(&e));
    let (client, connection) = config.connect(super::tls::connector(&config)).await.map_err(unreachable)?;
    let driver = base::task::spawn(base::task::Kind::Job, "create-database", connection);
    let exists = client
        .query_opt(sql::DATABASE_EXISTS, &[&DATABASE])
        .await
        .map_err(StoreError::query("looking for the database"))?;
    if exists.is_none() {
        client
            .batch_execute(&format!("CREATE DATABASE {DATABASE}"))
            .await
            .map_err(StoreError::query("creating the database"))?;
        // Butlers' roles have no business in the server's other databases. On a server that is not ours this may be
        // refused, and then it is its owner's to decide.
        if let Err(e) = client.batch_execute("REVOKE CONNECT ON DATABASE postgres, template1 FROM PUBLIC").await {
            tracing::debug!(error = %e, "the server's other databases stay open to all roles");
        }
    }
    drop(client);
    // The connection ends once the client is gone; its error would say nothing new.
    let _ = driver.await;
    Ok(())
}

impl Store {
    /// The state of the machine that the database runs on.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// A connection that speaks for the request's tenant.
    pub async fn lease(&self, ctx: &RequestContext) -> Result<Lease, StoreError> {
        self.lease_as(&Scope::of(ctx, &self.clock)).await
    }

    /// As [`Store::lease`], for a call that a person has approved: it may change what a more trusted hand wrote.
    pub async fn lease_approved(&self, ctx: &RequestContext) -> Result<Lease, StoreError> {
        self.lease_as(&Scope::approved(ctx, &self.clock)).await
    }

    /// A connection that speaks for a tenant: for the butler's own housekeeping.
    pub async fn tenant(&self, tenant: &TenantId) -> Result<Lease, StoreError> {
        self.lease_as(&Scope::tenant(tenant.clone(), &self.clock)).await
    }

    /// A role may change its own password and settings; only the daemon's count.
    async fn lease_as(&self, scope: &Scope) -> Result<Lease, StoreError> {
        match self.pool.lease(scope).await {
            Err(e) if e.is_changed_role() => {
                let role = self.roles.role();
                tracing::warn!(role, "a role has changed its own password or settings; they are set again");
                self.roles.restore().await?;
                self.pool.lease(scope).await
            }
            lease => lease,
        }
    }

    /// What the daemon hands to those functions of `shared` that a roster's SQL must not call (`shared.by_daemon`): as
    /// a bound parameter, which no other SQL sees.
    pub fn seal(&self) -> Secret<String> {
        self.roles.seal()
    }

    /// The butler's schema.
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// The owner's time zone.
    pub fn time_zone(&self) -> &TimeZone {
        &self.time_zone
    }

    /// The household's clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }
}
