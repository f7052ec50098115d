//! Calls about the household as a whole: how it is, its settings, what it costs, its database.

use async_trait::async_trait;
use futures_util::future::join_all;
use jsonrpsee::Extensions;
use jsonrpsee::proc_macros::rpc;
use serde::{Deserialize, Serialize};

use super::failure::Failure;
use super::rights::{self, Need};
use super::rpc::{Rpc, to_its_end};
use super::sealed::Sealed;
use super::usage::{Usage, usage};
use super::visitor::may;
use base::TenantId;
use butler::HouseholdStatus;
use config::EffectiveSetting;
use modules::TriedAccount;
use sessions::budget::{By, Costs, LimitLeft, Period};
use supervisor::{Reloaded, backup_dir};

/// The household.
#[rpc(server, client, namespace = "butlerd", namespace_separator = ".")]
pub trait HouseApi {
    /// The household: database, butlers, modules. Scope `read`.
    #[method(name = "status", param_kind = map, with_extensions)]
    async fn status(&self) -> Result<HouseholdStatus, Failure>;

    /// Takes up the roster as it is now: new, changed and removed butlers, and no others. Answers when all is done; a
    /// butler that is drained takes as long as its sessions, at most its own shutdown timeout. Scope `admin`.
    #[method(name = "reload", param_kind = map, with_extensions)]
    async fn reload(&self) -> Result<Reloaded, Failure>;

    /// Tries the accounts of the channels that messages come in through. Scope `admin`.
    #[method(name = "accounts_try", param_kind = map, with_extensions)]
    async fn accounts_try(&self) -> Result<Vec<TriedAccount>, Failure>;

    /// What was spent in the last `days` days, today included, or without them since the first of this month; and what
    /// the month will come to. Of the butlers that the token reaches. Scope `read`.
    #[method(name = "costs", param_kind = map, with_extensions)]
    async fn costs(&self, days: Option<u32>, by: By) -> Result<Costs, Failure>;

    /// The limits of this day that there are, and what is left of each, for the butlers that the token reaches. Scope `read`.
    #[method(name = "budgets", param_kind = map, with_extensions)]
    async fn budgets(&self) -> Result<Vec<LimitLeft>, Failure>;

    /// Every setting with its value, its default and where it comes from; none that may hold a password. Scope `admin`.
    #[method(name = "settings", param_kind = map, with_extensions)]
    async fn settings(&self) -> Result<Vec<EffectiveSetting>, Failure>;

    /// How to connect to the database as a butler's role. Scope `admin`.
    #[method(name = "db_login", param_kind = map, with_extensions)]
    async fn db_login(&self, butler: String) -> Result<DbLogin, Failure>;

    /// What the tables and the data directory take, and what they grow by. Scope `admin`.
    #[method(name = "db_usage", param_kind = map, with_extensions)]
    async fn db_usage(&self) -> Result<Usage, Failure>;
}

/// A role's way into the database.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DbLogin {
    /// A host name, an address, or the directory of a Unix socket.
    pub host: String,
    pub port: u16,
    pub dbname: String,
    pub user: String,
    pub password: Sealed,
    /// What libpq calls `options`: the tenant, without which no row is seen, and the owner's time zone.
    pub options: String,
}

impl DbLogin {
    /// The first address of a connection's settings, with the database's usual defaults.
    fn of(config: &tokio_postgres::Config, password: Sealed, options: String) -> Self {
        use tokio_postgres::config::Host;
        let host = match config.get_hosts().first() {
            Some(Host::Tcp(name)) => name.clone(),
            Some(Host::Unix(dir)) => dir.display().to_string(),
            None => config.get_hostaddrs().first().map_or_else(|| "localhost".to_owned(), ToString::to_string),
        };
        Self {
            host,
            port: config.get_ports().first().copied().unwrap_or(5432),
            dbname: config.get_dbname().unwrap_or_default().to_owned(),
            user: config.get_user().unwrap_or_default().to_owned(),
            password,
            options,
        }
    }
}

#[async_trait]
impl HouseApiServer for Rpc {
    async fn status(&self, ext: &Extensions) -> Result<HouseholdStatus, Failure> {
        let grant = may(ext, Need::Look)?;
        let mut status = self.supervisor.status().await;
        status.butlers.retain(|b| rights::reaches(&grant, &b.name));
        Ok(status)
    }

    async fn reload(&self, ext: &Extensions) -> Result<Reloaded, Failure> {
        may(ext, Need::Household)?;
        let supervisor = self.supervisor.clone();
        to_its_end("reload", "The reload", async move { supervisor.reload().await }).await
    }

    async fn accounts_try(&self, ext: &Extensions) -> Result<Vec<TriedAccount>, Failure> {
        may(ext, Need::Household)?;
        let butlers = self.supervisor.butlers();
        let tried = butlers.iter().map(|butler| butler.modules().clone()).map(async |m| m.try_accounts().await);
        Ok(join_all(tried).await.into_iter().flatten().collect())
    }

    async fn costs(&self, ext: &Extensions, days: Option<u32>, by: By) -> Result<Costs, Failure> {
        let grant = may(ext, Need::Look)?;
        let period = days.map_or(Period::Month, Period::Days);
        let ledger = self.supervisor.services().budgets.ledger();
        Ok(ledger.costs(&grant.tenant, grant.butler.as_ref(), period, by).await?)
    }

    async fn budgets(&self, ext: &Extensions) -> Result<Vec<LimitLeft>, Failure> {
        let grant = may(ext, Need::Look)?;
        let mut butlers = self.supervisor.configs();
        butlers.retain(|butler| rights::reaches(&grant, butler.name.as_str()));
        let mut limits = self.supervisor.services().budgets.standing(&grant.tenant, &butlers).await?;
        // What all come to is not for whoever may see one.
        limits.retain(|limit| rights::reaches(&grant, &limit.scope));
        Ok(limits)
    }

    async fn settings(&self, ext: &Extensions) -> Result<Vec<EffectiveSetting>, Failure> {
        may(ext, Need::Household)?;
        Ok(self.supervisor.settings().to_vec())
    }

    async fn db_login(&self, ext: &Extensions, butler: String) -> Result<DbLogin, Failure> {
        let grant = may(ext, Need::Manage)?;
        if grant.tenant != TenantId::owner() {
            // With the role's password one can name any tenant.
            return Err(Failure::forbidden(
                "A role of the database serves all tenants, so a token of one tenant can't have it.",
            ));
        }
        let butler = self.butler(&grant, &butler).await?;
        let services = self.supervisor.services();
        let (config, password) = services.db.role_login(butler.name());
        base::redact::household().hide(&password);
        let zone = services.config.owner.time_zone.name();
        let options = format!("-c butlerd.tenant={} -c TimeZone={zone}", grant.tenant);
        Ok(DbLogin::of(&config, password.into(), options))
    }

    async fn db_usage(&self, ext: &Extensions) -> Result<Usage, Failure> {
        may(ext, Need::Household)?;
        let services = self.supervisor.services();
        let (settings, data_dir) = (&services.config, &services.data_dir);
        let backups = backup_dir(settings, data_dir);
        Ok(usage(&services.db, services.clock.now(), data_dir, backups, settings.daemon.disk_floor).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_names_where_the_server_is() {
        let login = |text: &str| DbLogin::of(&text.parse().unwrap(), "p".to_owned().into(), String::new());
        let socket = login("host=/run/x port=5433 dbname=butlers user=butler_health");
        assert_eq!((socket.host.as_str(), socket.port), ("/run/x", 5433));
        assert_eq!((socket.dbname.as_str(), socket.user.as_str()), ("butlers", "butler_health"));
        assert_eq!(login("host=db.home user=u").port, 5432);
    }
}
