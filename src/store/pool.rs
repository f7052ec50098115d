//! Pools whose connections know for whom they speak.
//!
//! A connection carries the tenant, the time zone and (in tests) the moved clock as session settings. They are set
//! before the first statement of a lease and only when they differ from what the connection already has, so that the
//! common case costs no extra round trip. Nothing outside this room can get a connection without that step.

use std::sync::Arc;
use std::time::Duration;

use deadpool::managed::{self, Metrics, PoolError, RecycleResult};
use deadpool_postgres::ClientWrapper;
use futures_util::future::BoxFuture;
use tokio::sync::OwnedSemaphorePermit;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Row, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::StoreError;
use super::joint::also;
use super::limit::{ConnectionLimit, OpenConnection};
use super::sql;
use base::{Clock, IdBeginning, Label, RequestContext, Seen, TenantId, Trust, task};
use telemetry::PoolUse;

/// How long a caller waits for a free connection before it is told that the database is busy.
const WAIT: Duration = Duration::from_secs(10);
const CREATE: Duration = Duration::from_secs(5);
/// Statements that a connection may have prepared. Those that name a butler's schema are as many as there are butlers,
/// and each stays in memory on both sides for as long as its connection.
const STATEMENTS: usize = 1000;
/// The pause before a server is asked again that has all the connections that it accepts.
const FULL: Duration = Duration::from_millis(20);

/// For whom statements run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    tenant: TenantId,
    /// What rows written under it carry on. `None`: the house's own work, which moves rows on and puts nothing that it
    /// reads into others.
    label: Option<Label>,
    /// A person has approved what is done: it may change what a more trusted hand wrote. Its rows carry the label all the
    /// same.
    approved: bool,
    /// `None` while the clock is the real one.
    now: Option<String>,
}

impl Scope {
    /// The scope of a request.
    pub fn of(ctx: &RequestContext, clock: &Clock) -> Self {
        Self { label: Some(ctx.label()), ..Self::tenant(ctx.tenant_id.clone(), clock) }
    }
    /// The scope of a call that a person has approved.
    pub fn approved(ctx: &RequestContext, clock: &Clock) -> Self {
        Self { approved: true, ..Self::of(ctx, clock) }
    }
    /// The scope of a tenant's housekeeping.
    pub fn tenant(tenant: TenantId, clock: &Clock) -> Self {
        Self { tenant, label: None, approved: false, now: clock.is_moved().then(|| clock.now().to_string()) }
    }
}

struct Connection {
    client: ClientWrapper,
    scope: Option<Scope>,
    /// Its role has settings of its own making.
    altered: bool,
    /// What the server said of the rows that its statements saw.
    seen: Arc<Seen>,
    /// While it is leased.
    permit: Option<OwnedSemaphorePermit>,
    _open: OpenConnection,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
enum NoConnection {
    #[error("as many connections are in use as there may be")]
    Busy,
    #[error("the server lets nobody in for {CREATE:?}")]
    Late,
    #[error(transparent)]
    Refused(#[from] tokio_postgres::Error),
}

struct Manager {
    config: tokio_postgres::Config,
    tls: MakeRustlsConnect,
    time_zone: String,
    limit: Arc<ConnectionLimit>,
}

/// What the policy of a table says when a statement reads a row that somebody less than the house wrote (`shared.saw`).
const SAW: &str = "BD001";

impl Manager {
    async fn connect(&self) -> Result<(ClientWrapper, Arc<Seen>), tokio_postgres::Error> {
        let (client, mut connection) = self.config.connect(self.tls.clone()).await?;
        let seen = Arc::new(Seen::default());
        let noted = seen.clone();
        // Messages come in order: what is said of a statement is noted before its rows are handed on.
        let driver = task::spawn(task::Kind::Job, "connection", async move {
            while let Some(message) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
                match message {
                    Ok(AsyncMessage::Notice(notice)) if notice.code().code() == SAW => {
                        noted.observe(&label_of(notice.message()));
                    }
                    Ok(AsyncMessage::Notice(notice)) => tracing::debug!("the database says: {}", notice.message()),
                    Ok(_) => {}
                    Err(e) => {
                        tracing::debug!(error = %e, "a database connection ended");
                        break;
                    }
                }
            }
        });
        Ok((ClientWrapper::new(client, driver), seen))
    }
}

impl managed::Manager for Manager {
    type Type = Connection;
    type Error = NoConnection;

    async fn create(&self) -> Result<Connection, NoConnection> {
        let permit = tokio::time::timeout(WAIT, self.limit.permit()).await;
        let permit = Some(permit.ok().flatten().ok_or(NoConnection::Busy)?);
        let open = self.limit.open();
        let connected = tokio::time::timeout(CREATE, async {
            let (client, seen) = loop {
                match self.connect().await {
                    // What was closed to make room may still be on its way out.
                    Err(e) if e.code() == Some(&SqlState::TOO_MANY_CONNECTIONS) => tokio::time::sleep(FULL).await,
                    connected => break connected?,
                }
            };
            let altered: bool = client.query_one(sql::LOGGED_IN, &[&self.time_zone]).await?.get("altered");
            Ok::<_, NoConnection>((client, seen, altered))
        });
        let (client, seen, altered) = connected.await.map_err(|_| NoConnection::Late)??;
        Ok(Connection { client, scope: None, altered, seen, permit, _open: open })
    }

    async fn recycle(&self, c: &mut Connection, _: &Metrics) -> RecycleResult<NoConnection> {
        if c.client.is_closed() {
            return Err(managed::RecycleError::message("it is closed"));
        }
        c.permit = self.limit.permit_now();
        // This one is closed then, and makes room for those who waited before.
        if c.permit.is_none() { Err(managed::RecycleError::message("others wait for a connection")) } else { Ok(()) }
    }
}

/// The label that `shared.saw` tells: `butlerd.saw TRUST ["AUDIENCE", …]`. What can't be read is the lowest.
fn label_of(message: &str) -> Label {
    let mut parts = message.splitn(3, ' ').skip(1);
    let trust = Trust::from_name(parts.next().unwrap_or_default());
    let audience = parts.next().and_then(|names| serde_json::from_str(names).ok()).unwrap_or_default();
    Label { trust, audience }
}

/// A small pool of one role's connections.
#[derive(Clone)]
pub struct Pool {
    inner: managed::Pool<Manager>,
    tls: MakeRustlsConnect,
}

impl Pool {
    /// A pool that opens connections when they are needed, at most `max`, and with others at most as `limit` says.
    pub fn new(config: tokio_postgres::Config, time_zone: &str, max: usize, limit: &Arc<ConnectionLimit>) -> Self {
        let tls = super::tls::connector(&config);
        let manager = Manager { config, tls: tls.clone(), time_zone: time_zone.to_owned(), limit: limit.clone() };
        let inner = managed::Pool::builder(manager)
            .max_size(max)
            // The one used last is used next, so that the others become idle and can be given back.
            .queue_mode(managed::QueueMode::Lifo)
            .runtime(deadpool::Runtime::Tokio1)
            .wait_timeout(Some(WAIT))
            .build()
            .expect("a pool with a runtime and timeouts is complete");
        let weak = inner.weak();
        limit.join(move || {
            let (pool, mut closed) = (weak.upgrade()?, false);
            // The first is the one that was used longest ago.
            pool.retain(|_, _| std::mem::replace(&mut closed, true));
            Some(closed)
        });
        Self { inner, tls }
    }

    /// Closes connections that were idle for `age`, but keeps `keep` of them; and idle ones that have prepared a great many
    /// statements.
    pub fn shrink(&self, age: Duration, keep: usize) {
        let mut left = self.inner.status().size;
        self.inner.retain(|c, metrics| {
            let few = c.client.statement_cache.size() <= STATEMENTS;
            let stay = few && (left <= keep || metrics.last_used() < age);
            if !stay {
                left -= 1;
            }
            stay
        });
    }

    /// Closes the pool: waiting callers get an error, connections end as they come back.
    pub fn close(&self) {
        self.inner.close();
    }

    /// Number of open connections.
    pub fn size(&self) -> usize {
        self.inner.status().size
    }

    /// How it is used just now.
    pub fn in_use(&self) -> PoolUse {
        let managed::Status { max_size, size, available, waiting } = self.inner.status();
        let idle = available.min(size);
        PoolUse { in_use: size - idle, idle, awaited: waiting, limit: max_size }
    }

    async fn get(&self) -> Result<managed::Object<Manager>, StoreError> {
        // Boxed, because all that leases a connection holds this future, and the compiler follows them only so deep.
        let object: BoxFuture<'_, _> = Box::pin(self.inner.get());
        let object = object.await.map_err(|e| match e {
            PoolError::Timeout(managed::TimeoutType::Wait) | PoolError::Backend(NoConnection::Busy) => {
                StoreError::PoolTimeout(WAIT)
            }
            PoolError::Backend(NoConnection::Refused(source)) if source.code() == Some(&SqlState::INVALID_PASSWORD) => {
                StoreError::Query { step: "logging in", source }
            }
            PoolError::Backend(NoConnection::Refused(source)) => {
                StoreError::Unreachable(super::error::describe(&source))
            }
            other => StoreError::Unreachable(other.to_string()),
        })?;
        if object.altered {
            drop(managed::Object::take(object));
            return Err(StoreError::RoleChanged);
        }
        Ok(object)
    }

    /// A connection that speaks for `scope`.
    pub async fn lease(&self, scope: &Scope) -> Result<Lease, StoreError> {
        self.lease_of(Some(scope.clone())).await
    }

    async fn lease_of(&self, scope: Option<Scope>) -> Result<Lease, StoreError> {
        let lease = self.try_lease(scope.clone()).await;
        match lease {
            // A connection that died unnoticed; the others will have died with it.
            Err(StoreError::Query { source, .. }) if super::error::is_gone(&source) => {
                self.inner.retain(|_, _| false);
                self.try_lease(scope).await
            }
            lease => lease,
        }
    }

    async fn try_lease(&self, scope: Option<Scope>) -> Result<Lease, StoreError> {
        let object = self.get().await?;
        // From now on it is given back as a lease, whatever comes of this.
        let mut lease = Lease { pool: self.clone(), scope, object: Some(object), busy: false, tell: None };
        lease.set_scope().await?;
        Ok(lease)
    }

    /// A connection of the owner role for administration; it speaks for no tenant.
    pub(super) async fn unscoped(&self) -> Result<Lease, StoreError> {
        self.lease_of(None).await
    }
}

/// A leased connection. Dropped in the middle of a statement, it cancels that statement on the server and is not used
/// again.
pub struct Lease {
    pool: Pool,
    scope: Option<Scope>,
    object: Option<managed::Object<Manager>>,
    busy: bool,
    /// Who wants to know what was seen.
    tell: Option<Arc<Seen>>,
}

/// A statement's parameters.
pub type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

impl Lease {
    fn client(&self) -> &ClientWrapper {
        &self.object.as_ref().expect("the object is only taken in drop").client
    }

    /// As the lease ends, `seen` is told the label of the rows that its statements saw.
    #[must_use]
    pub fn telling(mut self, seen: &Arc<Seen>) -> Self {
        self.tell = Some(seen.clone());
        self
    }

    /// Has the connection speak for the lease's scope.
    async fn set_scope(&mut self) -> Result<(), StoreError> {
        let object = self.object.as_mut().expect("the object is only taken in drop");
        // Work for no tenant is the house's own, whatever the connection did before.
        let labelled = object.scope.as_ref().filter(|has| has.label.is_some());
        let wanted =
            self.scope.clone().or_else(|| labelled.map(|has| Scope { label: None, approved: false, ..has.clone() }));
        if let Some(scope) = &wanted
            && object.scope.as_ref() != Some(scope)
        {
            // Unknown until the settings are really there: a cut in between must not leave a wrong belief.
            object.scope = None;
            let statement =
                object.client.prepare_cached(sql::SET_SCOPE).await.map_err(StoreError::query("setting the tenant"))?;
            let now = scope.now.as_deref().unwrap_or("");
            let label = scope.label.clone().unwrap_or(Label::household(Trust::System));
            let (trust, audience) = (label.trust.as_str(), label.audience.names());
            let [house, approved] = [scope.label.is_none(), scope.approved].map(|on| if on { "on" } else { "" });
            let settings: Params<'_> = &[&scope.tenant.as_str(), &now, &trust, &audience, &house, &approved];
            let set = object.client.query_one(&statement, settings).await;
            set.map_err(StoreError::query("setting the tenant"))?;
            object.scope = Some(scope.clone());
        }
        object.seen.forget();
        Ok(())
    }

    fn tell(&self) {
        if let (Some(tell), Some(object)) = (&self.tell, &self.object) {
            tell.observe(&object.seen.label());
        }
    }

    /// Prepares `sql` once for each connection.
    pub async fn prepare(&mut self, sql: &str) -> Result<Statement, tokio_postgres::Error> {
        self.busy = true;
        let statement = self.client().prepare_cached(sql).await;
        self.busy = false;
        statement
    }

    /// As [`Lease::query`], and once more on another connection when this one turns out to be dead: for statements that
    /// change nothing.
    pub async fn read(&mut self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, tokio_postgres::Error> {
        match self.query(sql, params).await {
            Err(e) if super::error::is_gone(&e) => {
                self.replace().await.map_err(|_| e)?;
                self.query(sql, params).await
            }
            done => done,
        }
    }

    /// The rows that `all` makes of a tenant, `$1`, and whose `id` begins so, in the order of it.
    pub async fn beginning(
        &mut self,
        all: &str,
        tenant: &TenantId,
        beginning: &IdBeginning,
        most: i64,
    ) -> Result<Vec<Row>, StoreError> {
        let (first, last) = beginning.range();
        let rows = self.read(&sql::beginning(all), &[&tenant.as_str(), &first, &last, &most]).await;
        rows.map_err(StoreError::query("looking for an id"))
    }

    /// Takes another connection in place of a dead one. All idle ones are dropped: they were cut by the same blow.
    async fn replace(&mut self) -> Result<(), StoreError> {
        self.busy = true;
        // A dead one is not in use.
        if let Some(object) = &mut self.object {
            object.permit = None;
        }
        self.pool.inner.retain(|_, _| false);
        let mut fresh = self.pool.lease_of(self.scope.clone()).await?;
        fresh.tell = self.tell.clone();
        std::mem::swap(self, &mut fresh);
        Ok(())
    }

    /// Runs one statement as its own transaction and returns its rows.
    pub async fn query(&mut self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, tokio_postgres::Error> {
        let statement = self.prepare(sql).await?;
        self.busy = true;
        let rows = self.client().query(&statement, params).await;
        self.busy = false;
        rows
    }

    /// As [`Lease::query`], for at most one row.
    pub async fn query_opt(&mut self, sql: &str, params: Params<'_>) -> Result<Option<Row>, tokio_postgres::Error> {
        Ok(self.query(sql, params).await?.into_iter().next())
    }

    /// Runs one statement as its own transaction and returns the number of rows it touched.
    pub async fn execute(&mut self, sql: &str, params: Params<'_>) -> Result<u64, tokio_postgres::Error> {
        let statement = self.prepare(sql).await?;
        self.busy = true;
        let n = self.client().execute(&statement, params).await;
        self.busy = false;
        n
    }

    /// Runs several statements without parameters.
    pub async fn batch(&mut self, sql: &str) -> Result<(), tokio_postgres::Error> {
        self.busy = true;
        let done = self.client().batch_execute(sql).await;
        self.busy = false;
        done
    }

    /// Runs one statement in a transaction that can't write, sent together: one round trip.
    pub async fn query_read_only(&mut self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, tokio_postgres::Error> {
        self.read_only("BEGIN READ ONLY", sql, params).await
    }

    /// As [`Lease::query_read_only`]; the server stops the statement after `within`.
    pub async fn query_read_only_within(
        &mut self,
        sql: &str,
        params: Params<'_>,
        within: Duration,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let begin = format!("BEGIN READ ONLY; SET LOCAL statement_timeout = {}", within.as_millis());
        self.read_only(&begin, sql, params).await
    }

    async fn read_only(
        &mut self,
        begin: &str,
        sql: &str,
        params: Params<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let statement = self.prepare(sql).await?;
        self.busy = true;
        let client = self.client();
        let (begun, rows, ended) = tokio::join!(
            biased;
            client.batch_execute(begin),
            client.query(&statement, params),
            client.batch_execute("COMMIT"),
        );
        self.busy = false;
        begun?;
        let rows = rows?;
        ended?;
        Ok(rows)
    }

    /// The next lease of this connection sets its tenant and clock again, whatever it believes it has.
    pub fn forget_scope(&mut self) {
        if let Some(object) = &mut self.object {
            object.scope = None;
        }
    }

    /// Runs `first` and `second` in one transaction and one round trip. Returns the rows of `first`. `second` is an
    /// INSERT, UPDATE or DELETE that does not look at what `first` does.
    ///
    /// Either both are committed or neither is.
    pub async fn query_with(
        &mut self,
        first: (&str, Params<'_>),
        second: (&str, Params<'_>),
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        if let Some(sql) = also(first.0, first.1.len(), second.0) {
            let params: Vec<_> = first.1.iter().chain(second.1).copied().collect();
            return self.query(&sql, &params).await;
        }
        let one = self.prepare(first.0).await?;
        let two = self.prepare(second.0).await?;
        self.busy = true;
        let client = self.client();
        // The futures are polled in this order, so the messages leave in this order; when a statement fails, the
        // server answers the rest with errors and the COMMIT as a rollback.
        let (begun, rows, also, ended) = tokio::join!(
            biased;
            client.batch_execute("BEGIN"),
            client.query(&one, first.1),
            client.execute(&two, second.1),
            client.batch_execute("COMMIT"),
        );
        self.busy = false;
        begun?;
        let rows = rows?;
        also?;
        ended?;
        Ok(rows)
    }

    /// Starts a transaction; it rolls back unless [`Tx::commit`] is called.
    pub async fn begin(&mut self) -> Result<Tx<'_>, tokio_postgres::Error> {
        self.batch("BEGIN").await?;
        // Busy until committed: a transaction that is dropped half done ends with its connection.
        self.busy = true;
        Ok(Tx { lease: self })
    }

    /// The raw client, for the migration runner.
    pub(super) fn raw(&mut self) -> &mut tokio_postgres::Client {
        &mut self.object.as_mut().expect("the object is only taken in drop").client
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.tell();
        let Some(mut object) = self.object.take() else { return };
        // Before the pool has it: whoever gets it there takes a permit of its own.
        object.permit = None;
        if !self.busy {
            return;
        }
        let connection = managed::Object::take(object);
        let token = connection.client.cancel_token();
        let tls = self.pool.tls.clone();
        base::task::spawn(base::task::Kind::Job, "cancel-statement", async move {
            // Best effort: the statement ends at the latest when its connection does.
            if let Err(e) = token.cancel_query(tls).await {
                tracing::debug!(error = %e, "a statement could not be cancelled");
            }
            drop(connection);
        });
    }
}

/// An open transaction.
pub struct Tx<'a> {
    lease: &'a mut Lease,
}

impl Tx<'_> {
    pub async fn query(&mut self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, tokio_postgres::Error> {
        let client = self.lease.client();
        let statement = client.prepare_cached(sql).await?;
        client.query(&statement, params).await
    }
    pub async fn query_opt(&mut self, sql: &str, params: Params<'_>) -> Result<Option<Row>, tokio_postgres::Error> {
        Ok(self.query(sql, params).await?.into_iter().next())
    }
    pub async fn execute(&mut self, sql: &str, params: Params<'_>) -> Result<u64, tokio_postgres::Error> {
        let client = self.lease.client();
        let statement = client.prepare_cached(sql).await?;
        client.execute(&statement, params).await
    }
    /// Runs several statements without parameters.
    pub(super) async fn batch(&mut self, sql: &str) -> Result<(), tokio_postgres::Error> {
        self.lease.client().batch_execute(sql).await
    }
    /// Makes it durable.
    pub async fn commit(self) -> Result<(), tokio_postgres::Error> {
        self.lease.client().batch_execute("COMMIT").await?;
        self.lease.busy = false;
        Ok(())
    }
    /// Undoes it and keeps the connection.
    pub async fn rollback(self) -> Result<(), tokio_postgres::Error> {
        self.lease.client().batch_execute("ROLLBACK").await?;
        self.lease.busy = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_approved_call_had_serves_no_other() {
        let clock = Clock::default();
        let ctx = RequestContext::root(&clock, TenantId::owner(), "cli", "local", "eve", Trust::Stranger);
        assert_eq!(Scope::of(&ctx, &clock), Scope::of(&ctx, &clock));
        assert_ne!(Scope::of(&ctx, &clock), Scope::approved(&ctx, &clock));
    }
}
