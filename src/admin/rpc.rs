//! The answers behind `/rpc`. Each asks for the caller's right first, then goes the way that tools go.

use std::sync::Arc;

use async_trait::async_trait;
use http::HeaderMap;
use jsonrpsee::core::{RpcResult, SubscriptionResult};
use jsonrpsee::types::ErrorObjectOwned;
use jsonrpsee::{Extensions, PendingSubscriptionSink};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::api::{
    ApiServer, Cancelled, DbLogin, LiveEvent, MadeToken, Revoked, SchedulePage, SecretName, SessionPage, Started,
    Timeline, ToolAnswer, ToolInfo, UndoableCall, Undone,
};
use super::approvals::{ActionPage, RuleRequest};
use super::deliveries::Change;
use super::failure::Failure;
use super::rights::{self, Need};
use super::sealed::Sealed;
use super::{approvals, deliveries, live, messages, schedules, sessions, timeline, tokens, undo};
use ::approvals::{Action, Rule};
use ::sessions::budget::{By, Costs, Period};
use ::sessions::{EventPage, Preview, SessionResult, Trigger};
use access::{Caller, Edge, Grant, TokenInfo};
use base::{ButlerName, TenantId, task};
use butler::{Butler, HouseholdStatus};
use inbox::Reopened;
use inbox::messages::Entry;
use outbox::{Changed, DeliveryView};
use supervisor::{Reloaded, Supervisor};
use tools::Effect;

/// Who stands at the door: put into each request's extensions, and asked again for each call, so that a token revoked
/// meanwhile opens nothing more on a connection that was open already.
#[derive(Clone)]
pub(super) struct Visitor {
    edge: Edge,
    /// The request's `Authorization`, and nothing else of it.
    headers: Arc<HeaderMap>,
}

impl Visitor {
    pub fn new(edge: Edge, headers: HeaderMap) -> Self {
        Self { edge, headers: Arc::new(headers) }
    }

    /// The grant of the visitor's token as it is now, if it is good for this.
    pub fn grant(&self, need: Need) -> Result<Arc<Grant>, Failure> {
        let grant = self.edge.authenticate(&self.headers).map_err(|r| Failure::new(r.code, r.message))?;
        rights::check(&grant, need)?;
        Ok(grant)
    }
}

/// The channel under which an operator's calls are on record.
const CHANNEL: &str = "cli";

/// The daemon's side of the calls.
pub(super) struct Rpc {
    pub supervisor: Supervisor,
}

fn visitor(ext: &Extensions) -> Result<&Visitor, Failure> {
    ext.get::<Visitor>().ok_or_else(|| Failure::new("unauthorized", "The request came in without an identity."))
}

fn may(ext: &Extensions, need: Need) -> Result<Arc<Grant>, Failure> {
    visitor(ext)?.grant(need)
}

impl Rpc {
    /// A caller's identity for work on a butler.
    pub fn caller(&self, grant: &Arc<Grant>) -> Caller {
        Caller::of(grant.clone(), &self.supervisor.services().clock, CHANNEL)
    }

    /// The butler, if the grant reaches it and it is up.
    pub async fn butler(&self, grant: &Grant, name: &str) -> Result<Butler, Failure> {
        rights::check_butler(grant, name)?;
        match self.supervisor.butler(name) {
            Ok(butler) => Ok(butler),
            Err(why) => {
                self.known(name).await?;
                Err(Failure::new("butler_unavailable", format!("{}.", why.trim_end_matches('.'))))
            }
        }
    }

    /// The name of a butler of this household, up or not.
    async fn known(&self, name: &str) -> Result<ButlerName, Failure> {
        let status = self.supervisor.status().await;
        let known = status.butlers.iter().any(|b| b.name == name).then(|| ButlerName::new(name).ok()).flatten();
        known.ok_or_else(|| {
            let names: Vec<&str> = status.butlers.iter().map(|b| b.name.as_str()).collect();
            Failure::new("unknown_butler", format!("There is no butler `{name}`; there are: {}.", names.join(", ")))
        })
    }

    /// Who shall do what.
    async fn make_trigger(
        &self,
        ext: &Extensions,
        butler: &str,
        prompt: String,
        context: Option<Value>,
    ) -> Result<(Butler, Trigger), Failure> {
        let grant = may(ext, Need::Work)?;
        let butler = self.butler(&grant, butler).await?;
        let request = self.caller(&grant).context;
        Ok((butler, Trigger { context, ..Trigger::new(prompt, "trigger", request) }))
    }

    async fn run_trigger(
        &self,
        ext: &Extensions,
        butler: &str,
        prompt: String,
        context: Option<Value>,
    ) -> Result<SessionResult, Failure> {
        let (butler, trigger) = self.make_trigger(ext, butler, prompt, context).await?;
        // A task of its own: the session has a row, and goes on when the caller hangs up.
        let running = task::spawn(task::Kind::Request, "trigger", async move { butler.trigger(trigger).await });
        Ok(running.await.map_err(|e| Failure::internal("The session", &e))??)
    }

    async fn run_tool(
        &self,
        ext: &Extensions,
        butler: &str,
        tool: String,
        args: Map<String, Value>,
    ) -> Result<ToolAnswer, Failure> {
        let grant = may(ext, Need::Work)?;
        let butler = self.butler(&grant, butler).await?;
        let (tools, name) = (butler.tools().clone(), butler.name().clone());
        if !tools.has(&tool) || tools.is_internal(&tool) {
            return Err(Failure::new(
                "unknown_tool",
                format!("{name} has no tool `{tool}`. See: butlerd tool list {name}"),
            ));
        }
        if !grant.allows(&tool) {
            return Err(Failure::forbidden(format!("This token's list lacks the tool `{tool}`.")));
        }
        let caller = self.caller(&grant);
        let cancelled = tokio_util::sync::CancellationToken::new();
        let gone = cancelled.clone().drop_guard();
        // A call with an effect reaches its end even when the caller hangs up; one without is dropped then.
        let running =
            task::spawn(
                task::Kind::Request,
                "tool-call",
                async move { tools.call(&tool, args, caller, cancelled).await },
            );
        let ended = running.await;
        gone.disarm();
        match ended {
            Ok(Some(reply)) => Ok(ToolAnswer { result: reply.json, is_error: reply.is_error }),
            Ok(None) => Err(Failure::new("unknown_tool", format!("{name} has no such tool."))),
            Err(e) => Err(Failure::internal("The tool", &e)),
        }
    }

    /// Calls one of the schedule tools for the schedule that `key` names.
    async fn on_schedule(
        &self,
        ext: &Extensions,
        key: &str,
        butler: Option<&str>,
        tool: &str,
        enabled: Option<bool>,
    ) -> Result<Value, Failure> {
        let grant = may(ext, Need::Work)?;
        let (butler, id, _) = schedules::one(self, &grant, butler, key).await?;
        let args = schedules::arguments(id, enabled);
        let answer = self.run_tool(ext, butler.name().as_str(), tool.to_owned(), args).await?;
        // A run that failed is an answer; a refusal is none.
        match answer.result["code"].as_str() {
            Some(code) => {
                Err(Failure::new(code, answer.result["error"].as_str().unwrap_or("The tool refused it.").to_owned()))
            }
            None => Ok(answer.result),
        }
    }

    async fn login(&self, ext: &Extensions, butler: &str) -> Result<DbLogin, Failure> {
        let grant = may(ext, Need::Manage)?;
        if grant.tenant != TenantId::owner() {
            // Whoever has the role's password can name any tenant.
            return Err(Failure::forbidden(
                "A tenant's token can't have a role of the database, which serves all tenants.",
            ));
        }
        let butler = self.butler(&grant, butler).await?;
        let services = self.supervisor.services();
        let (config, password) = services.db.role_login(butler.name());
        base::redact::household().hide(&password);
        let zone = services.config.owner.time_zone.name();
        let options = format!("-c butlerd.tenant={} -c TimeZone={zone}", grant.tenant);
        Ok(DbLogin { options, ..login_of(&config, password.into()) })
    }
}

/// The first address of a connection's settings, with the database's usual defaults.
fn login_of(config: &tokio_postgres::Config, password: Sealed) -> DbLogin {
    use tokio_postgres::config::Host;
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        Some(Host::Unix(dir)) => dir.display().to_string(),
        None => config.get_hostaddrs().first().map_or_else(|| "localhost".to_owned(), ToString::to_string),
    };
    DbLogin {
        host,
        port: config.get_ports().first().copied().unwrap_or(5432),
        dbname: config.get_dbname().unwrap_or_default().to_owned(),
        user: config.get_user().unwrap_or_default().to_owned(),
        password,
        options: String::new(),
    }
}

#[async_trait]
impl ApiServer for Rpc {
    async fn status(&self, ext: &Extensions) -> RpcResult<HouseholdStatus> {
        let grant = may(ext, Need::Look)?;
        let mut status = self.supervisor.status().await;
        status.butlers.retain(|b| rights::reaches(&grant, &b.name));
        Ok(status)
    }

    async fn reload(&self, ext: &Extensions) -> RpcResult<Reloaded> {
        may(ext, Need::Household)?;
        let supervisor = self.supervisor.clone();
        // A task of its own: what was begun is brought to its end when the caller hangs up.
        let running = task::spawn(task::Kind::Request, "reload", async move { supervisor.reload().await });
        let done = running.await.map_err(|e| Failure::internal("The reload", &e))?;
        Ok(done.map_err(Failure::from)?)
    }

    async fn trigger(
        &self,
        ext: &Extensions,
        butler: String,
        prompt: String,
        facts: Option<Value>,
    ) -> RpcResult<SessionResult> {
        Ok(self.run_trigger(ext, &butler, prompt, facts).await?)
    }

    async fn trigger_start(
        &self,
        ext: &Extensions,
        butler: String,
        prompt: String,
        facts: Option<Value>,
    ) -> RpcResult<Started> {
        let (butler, trigger) = self.make_trigger(ext, &butler, prompt, facts).await?;
        let name = butler.name().to_string();
        // A task of its own: a row that is written has its session, even when the caller hangs up just now.
        let starting = task::spawn(task::Kind::Request, "trigger", async move { butler.start(trigger).await });
        let started = starting.await.map_err(|e| Failure::internal("The session", &e))?.map_err(Failure::from)?;
        Ok(Started { session_id: started.0, butler: name })
    }

    async fn trigger_preview(
        &self,
        ext: &Extensions,
        butler: String,
        prompt: String,
        facts: Option<Value>,
    ) -> RpcResult<Preview> {
        let (butler, trigger) = self.make_trigger(ext, &butler, prompt, facts).await?;
        Ok(butler.preview(&trigger).await.map_err(Failure::from)?)
    }

    async fn costs(&self, ext: &Extensions, days: Option<u32>, by: By) -> RpcResult<Costs> {
        let grant = may(ext, Need::Look)?;
        let period = days.map_or(Period::Month, Period::Days);
        let ledger = self.supervisor.services().budgets.ledger();
        Ok(ledger.costs(&grant.tenant, grant.butler.as_ref(), period, by).await.map_err(Failure::from)?)
    }

    async fn sessions_list(
        &self,
        ext: &Extensions,
        butler: Option<String>,
        limit: Option<u32>,
    ) -> RpcResult<SessionPage> {
        let grant = may(ext, Need::Look)?;
        Ok(sessions::list(self, &grant, butler.as_deref(), limit).await?)
    }

    async fn sessions_get(&self, ext: &Extensions, id: Uuid) -> RpcResult<Value> {
        let grant = may(ext, Need::Look)?;
        Ok(sessions::get(self, &grant, id).await?.1)
    }

    async fn sessions_events(&self, ext: &Extensions, id: Uuid, after: Option<i32>) -> RpcResult<EventPage> {
        let grant = may(ext, Need::Look)?;
        Ok(timeline::events(self, &grant, id, after.unwrap_or(0)).await?)
    }

    async fn timeline(&self, ext: &Extensions, id: Uuid) -> RpcResult<Timeline> {
        let grant = may(ext, Need::Look)?;
        Ok(timeline::timeline(self, &grant, id).await?)
    }

    async fn schedule_list(
        &self,
        ext: &Extensions,
        butler: Option<String>,
        key: Option<String>,
    ) -> RpcResult<SchedulePage> {
        let grant = may(ext, Need::Look)?;
        Ok(schedules::list(self, &grant, butler.as_deref(), key.as_deref()).await?)
    }

    async fn schedule_show(
        &self,
        ext: &Extensions,
        key: String,
        butler: Option<String>,
        limit: Option<u32>,
    ) -> RpcResult<Value> {
        let grant = may(ext, Need::Look)?;
        Ok(schedules::show(self, &grant, butler.as_deref(), &key, limit).await?)
    }

    async fn schedule_run(&self, ext: &Extensions, key: String, butler: Option<String>) -> RpcResult<Value> {
        Ok(self.on_schedule(ext, &key, butler.as_deref(), "schedule_trigger", None).await?)
    }

    async fn schedule_switch(
        &self,
        ext: &Extensions,
        key: String,
        butler: Option<String>,
        enabled: bool,
    ) -> RpcResult<Value> {
        Ok(self.on_schedule(ext, &key, butler.as_deref(), "schedule_update", Some(enabled)).await?)
    }

    async fn inbox_list(&self, ext: &Extensions, state: Option<String>, limit: Option<u32>) -> RpcResult<Vec<Entry>> {
        let grant = may(ext, Need::Look)?;
        Ok(messages::list(self, &grant, state.as_deref(), limit).await?)
    }

    async fn inbox_show(&self, ext: &Extensions, id: Uuid) -> RpcResult<Entry> {
        let grant = may(ext, Need::Look)?;
        Ok(messages::show(self, &grant, id).await?)
    }

    async fn inbox_retry(&self, ext: &Extensions, id: Uuid) -> RpcResult<Reopened> {
        let grant = may(ext, Need::Manage)?;
        Ok(messages::retry(self, &grant, id).await?)
    }

    async fn inbox_reroute(
        &self,
        ext: &Extensions,
        id: Uuid,
        butler: String,
        part: Option<i32>,
    ) -> RpcResult<Reopened> {
        let grant = may(ext, Need::Manage)?;
        Ok(messages::reroute(self, &grant, id, butler, part).await?)
    }

    async fn approvals_list(
        &self,
        ext: &Extensions,
        butler: Option<String>,
        status: Option<String>,
        limit: Option<u32>,
    ) -> RpcResult<Vec<Action>> {
        let grant = may(ext, Need::Look)?;
        Ok(approvals::list(self, &grant, butler, status.as_deref(), limit).await?)
    }

    async fn approvals_show(&self, ext: &Extensions, id: Uuid) -> RpcResult<ActionPage> {
        let grant = may(ext, Need::Look)?;
        Ok(approvals::show(self, &grant, id).await?)
    }

    async fn approvals_approve(&self, ext: &Extensions, id: Uuid, seen: Option<String>) -> RpcResult<Action> {
        let grant = may(ext, Need::Manage)?;
        Ok(approvals::decide(self, &grant, id, true, seen, None).await?)
    }

    async fn approvals_reject(&self, ext: &Extensions, id: Uuid, reason: Option<String>) -> RpcResult<Action> {
        let grant = may(ext, Need::Manage)?;
        Ok(approvals::decide(self, &grant, id, false, None, reason).await?)
    }

    async fn approvals_rules(&self, ext: &Extensions, all: bool) -> RpcResult<Vec<Rule>> {
        let grant = may(ext, Need::Look)?;
        Ok(approvals::rules(self, &grant, all).await?)
    }

    async fn approvals_rule(&self, ext: &Extensions, id: Uuid, request: RuleRequest) -> RpcResult<Rule> {
        let grant = may(ext, Need::Manage)?;
        Ok(approvals::rule(self, &grant, id, request).await?)
    }

    async fn approvals_revoke(&self, ext: &Extensions, id: Uuid) -> RpcResult<Rule> {
        let grant = may(ext, Need::Manage)?;
        Ok(approvals::revoke(self, &grant, id).await?)
    }

    async fn deliveries_list(
        &self,
        ext: &Extensions,
        butler: Option<String>,
        state: Option<String>,
        limit: Option<u32>,
    ) -> RpcResult<Vec<DeliveryView>> {
        let grant = may(ext, Need::Look)?;
        Ok(deliveries::list(self, &grant, butler, state.as_deref(), limit).await?)
    }

    async fn deliveries_show(&self, ext: &Extensions, id: Uuid) -> RpcResult<DeliveryView> {
        let grant = may(ext, Need::Look)?;
        Ok(deliveries::show(self, &grant, id).await?)
    }

    async fn deliveries_retry(&self, ext: &Extensions, id: Uuid) -> RpcResult<Changed> {
        let grant = may(ext, Need::Manage)?;
        Ok(deliveries::change(self, &grant, id, Change::Retry).await?)
    }

    async fn deliveries_cancel(&self, ext: &Extensions, id: Uuid) -> RpcResult<Changed> {
        let grant = may(ext, Need::Manage)?;
        Ok(deliveries::change(self, &grant, id, Change::Cancel).await?)
    }

    async fn deliveries_resolve(&self, ext: &Extensions, id: Uuid, arrived: bool) -> RpcResult<Changed> {
        let grant = may(ext, Need::Manage)?;
        Ok(deliveries::change(self, &grant, id, Change::Resolve { arrived }).await?)
    }

    async fn sessions_cancel(&self, ext: &Extensions, id: Uuid) -> RpcResult<Cancelled> {
        let grant = may(ext, Need::Manage)?;
        Ok(sessions::cancel(self, &grant, id).await?)
    }

    async fn secret_set(&self, ext: &Extensions, name: String, value: Sealed) -> RpcResult<SecretName> {
        let grant = may(ext, Need::Household)?;
        let stored = self.supervisor.services().credentials.set(&grant.tenant, &name, value.secret()).await;
        stored.map_err(Failure::from)?;
        Ok(SecretName { name, updated_at: None })
    }

    async fn secret_list(&self, ext: &Extensions) -> RpcResult<Vec<SecretName>> {
        let grant = may(ext, Need::Household)?;
        let list = self.supervisor.services().credentials.list(&grant.tenant).await.map_err(Failure::from)?;
        Ok(list.into_iter().map(|s| SecretName { name: s.name, updated_at: Some(s.updated_at) }).collect())
    }

    async fn secret_remove(&self, ext: &Extensions, name: String) -> RpcResult<SecretName> {
        let grant = may(ext, Need::Household)?;
        let removed = self.supervisor.services().credentials.remove(&grant.tenant, &name).await;
        match removed.map_err(Failure::from)? {
            true => Ok(SecretName { name, updated_at: None }),
            false => Err(Failure::new("not_found", "There is no secret of that name. See: butlerd secret list").into()),
        }
    }

    async fn token_create(
        &self,
        ext: &Extensions,
        label: String,
        butler: Option<String>,
        tenant: Option<String>,
        scopes: Vec<String>,
        expires_in: Option<String>,
    ) -> RpcResult<MadeToken> {
        let grant = may(ext, Need::Manage)?;
        let butler = match butler {
            Some(name) => Some(self.known(&name).await?),
            None => None,
        };
        let services = self.supervisor.services();
        let new = tokens::requested(&grant, label, butler, tenant, &scopes, expires_in, &services.clock)?;
        Ok(tokens::make(&services.operators, new).await?)
    }

    async fn token_list(&self, ext: &Extensions) -> RpcResult<Vec<TokenInfo>> {
        may(ext, Need::Household)?;
        Ok(self.supervisor.services().operators.list().await.map_err(Failure::from)?)
    }

    async fn token_revoke(&self, ext: &Extensions, id: Uuid) -> RpcResult<Revoked> {
        may(ext, Need::Household)?;
        self.supervisor.services().operators.revoke(id).await.map_err(Failure::from)?;
        Ok(Revoked { id })
    }

    async fn undo_list(
        &self,
        ext: &Extensions,
        butler: Option<String>,
        limit: Option<u32>,
    ) -> RpcResult<Vec<UndoableCall>> {
        let grant = may(ext, Need::Look)?;
        Ok(undo::list(self, &grant, butler.as_deref(), limit).await?)
    }

    async fn undo_call(&self, ext: &Extensions, butler: String, call: i64) -> RpcResult<Undone> {
        let grant = may(ext, Need::Manage)?;
        let butler = self.butler(&grant, &butler).await?;
        Ok(undo::undo(self, &grant, &butler, undo::What::Call(call)).await?)
    }

    async fn undo_session(&self, ext: &Extensions, id: Uuid) -> RpcResult<Undone> {
        let grant = may(ext, Need::Manage)?;
        let butler = undo::butler_of(self, &grant, id).await?;
        Ok(undo::undo(self, &grant, &butler, undo::What::Session(id)).await?)
    }

    async fn tool_list(&self, ext: &Extensions, butler: String) -> RpcResult<Vec<ToolInfo>> {
        let grant = may(ext, Need::Look)?;
        let butler = self.butler(&grant, &butler).await?;
        let shown =
            butler.tools().definitions().filter(|d| grant.allows(&d.name) && !d.meta.internal).map(|d| ToolInfo {
                name: d.name.clone(),
                description: d.description.clone(),
                effect: Effect::as_str(d.effect()).to_owned(),
                input_schema: Value::Object((*d.schema).clone()),
            });
        Ok(shown.collect())
    }

    async fn tool_call(
        &self,
        ext: &Extensions,
        butler: String,
        tool: String,
        args: Option<Map<String, Value>>,
    ) -> RpcResult<ToolAnswer> {
        Ok(self.run_tool(ext, &butler, tool, args.unwrap_or_default()).await?)
    }

    async fn db_login(&self, ext: &Extensions, butler: String) -> RpcResult<DbLogin> {
        Ok(self.login(ext, &butler).await?)
    }

    async fn subscribe_events(
        &self,
        pending: PendingSubscriptionSink,
        ext: &Extensions,
        butler: Option<String>,
    ) -> SubscriptionResult {
        let watch = match visitor(ext).and_then(|v| live::Watch::new(v.clone(), butler)) {
            Ok(watch) => watch,
            Err(failure) => {
                pending.reject(ErrorObjectOwned::from(failure)).await;
                return Ok(());
            }
        };
        // Before the answer, so that whatever the caller starts after it is seen.
        let events = self.supervisor.services().events.subscribe();
        let sink = pending.accept().await?;
        live::forward(watch, events, |event: &LiveEvent| serde_json::value::to_raw_value(event), sink).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_names_where_the_server_is() {
        let socket: tokio_postgres::Config = "host=/run/x port=5433 dbname=butlers user=butler_health".parse().unwrap();
        let login = login_of(&socket, "p".to_owned().into());
        assert_eq!((login.host.as_str(), login.port), ("/run/x", 5433));
        assert_eq!((login.dbname.as_str(), login.user.as_str()), ("butlers", "butler_health"));
        let plain: tokio_postgres::Config = "host=db.home user=u".parse().unwrap();
        assert_eq!(login_of(&plain, "p".to_owned().into()).port, 5432);
    }
}
