//! Playing one scenario.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::error::StepError;
use super::evidence::only_the_schema_refuses;
use super::file::{Act, Proves, Scenario, Step};
use super::matching::{Kept, differs, fill, fill_map, part};
use access::{CallGuard, Caller, ChannelEnds, Grant, GrantScope, Holder, Taint, ToolsSeen};
use base::{Clock, Label, RequestContext, RequestId, SessionId, TenantId, Trust};
use butler::Butler;
use store::{Database, Store};
use tools::Effect;
use tools::sql::SqlJob;

/// So long something may take that comes to be by itself, and so often it is looked at.
const IN_TIME: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// What stands in a `given` for the butler's seal.
const SEAL: &str = "seal";

/// Where scenarios of one butler are played.
pub struct Stage {
    pub butler: Butler,
    pub store: Store,
    pub db: Arc<Database>,
    pub jobs: BTreeMap<String, Arc<SqlJob>>,
    pub clock: Clock,
}

/// The step at which a scenario went wrong: its line, and how.
pub type Wrong = (usize, StepError);

impl Stage {
    /// Plays it as the tenant `as_tenant`, which nobody else uses.
    pub async fn play(&self, scenario: &Scenario, as_tenant: &str) -> Result<(), Wrong> {
        let mut kept = Kept::new();
        for step in &scenario.steps {
            let tenant = match &step.tenant {
                None => as_tenant.to_owned(),
                Some(other) => format!("{as_tenant}-{other}"),
            };
            let tenant = TenantId::new(&tenant);
            let tenant = tenant.map_err(|e| (step.line, StepError::Unexpected(format!("as: {e}"))))?;
            self.clock.set(step.now.or(scenario.now));
            let wrong = |why: StepError| (step.line, why);
            let got = self.step_in_time(scenario, step, &tenant, &kept).await.map_err(wrong)?;
            for (name, path) in &step.keep {
                let value = part(&got, path).filter(|v| !v.is_null());
                let value = value
                    .ok_or_else(|| wrong(StepError::Unexpected(format!("keep: the result has no {path}: {got}"))))?;
                kept.insert(name.clone(), value.clone());
            }
        }
        Ok(())
    }

    /// A step; what comes to be by itself is looked at until it has.
    async fn step_in_time(
        &self,
        scenario: &Scenario,
        step: &Step,
        tenant: &TenantId,
        kept: &Kept,
    ) -> Result<Value, StepError> {
        // What has an effect is called once.
        let reads = match &step.act {
            Act::Call { tool, .. } => {
                let def = self.butler.tools().definition(tool);
                def.is_some_and(|def| def.effect() == Effect::None)
            }
            _ => true,
        };
        if step.eventually && !reads {
            return StepError::unexpected("`eventually` is for what only reads; this call has an effect");
        }
        let deadline = Instant::now() + IN_TIME;
        loop {
            let got = self.step(scenario, step, tenant, kept).await;
            if got.is_ok() || !step.eventually || Instant::now() > deadline {
                return got;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    async fn step(&self, scenario: &Scenario, step: &Step, tenant: &TenantId, kept: &Kept) -> Result<Value, StepError> {
        let got = match &step.act {
            Act::Rows(sql) => self.rows(sql, tenant, kept).await?,
            Act::Given { sql, by_household } => self.given(sql, *by_household, tenant, kept).await?,
            Act::Job { job, args } => self.job(job, args, tenant, kept).await?,
            Act::Call { tool, args } => {
                let caller = self.caller(step, tenant, kept)?;
                self.call(scenario, step, tool, fill_map(args, kept)?, caller).await?
            }
        };
        if let Some(expected) = &step.expect
            && let Some(how) = differs(&fill(expected, kept)?, &got)
        {
            return StepError::unexpected(how);
        }
        let nothing = [json!([]), json!(null), json!({"found": false})];
        if step.nothing && !nothing.contains(&got) {
            return StepError::unexpected(format!("something was found: {got}"));
        }
        Ok(got)
    }

    /// Who calls: a person, or a session that deals with a request.
    fn caller(&self, step: &Step, tenant: &TenantId, kept: &Kept) -> Result<Caller, StepError> {
        let holder = match &step.session_of {
            None => Grant::owner("scenario").holder,
            Some(request) => {
                let request = fill(&Value::String(request.clone()), kept)?;
                let request = request
                    .as_str()
                    .and_then(|id| id.parse().ok())
                    .ok_or_else(|| StepError::Unexpected("session_of: that is not an id".to_owned()))?;
                let root =
                    RequestContext::root(&self.clock, tenant.clone(), "scenario", "local", "scenario", Trust::Owner);
                Holder::Session {
                    session: SessionId(Uuid::now_v7()),
                    context: Arc::new(RequestContext { request_id: RequestId(request), ..root }),
                    calls: Arc::new(CallGuard::open()),
                    tools_seen: ToolsSeen::default(),
                    tools_shown: Default::default(),
                    taint: Arc::new(Taint::of(&Label::household(Trust::Owner))),
                }
            }
        };
        let grant = Grant {
            holder,
            tenant: tenant.clone(),
            scopes: [GrantScope::Tools].into(),
            ends: ends(step),
            ..Grant::owner("scenario")
        };
        Ok(Caller::of(Arc::new(grant), &self.clock, "scenario"))
    }

    async fn call(
        &self,
        scenario: &Scenario,
        step: &Step,
        tool: &str,
        args: Map<String, Value>,
        caller: Caller,
    ) -> Result<Value, StepError> {
        let reply = self.butler.tools().call(tool, args, caller, CancellationToken::new()).await;
        let reply =
            reply.ok_or_else(|| StepError::Unexpected(format!("{} has no tool `{tool}`", self.butler.name())))?;
        let problem = (reply.is_error || reply.json["status"] == "error")
            .then(|| reply.json["error"].as_str().unwrap_or_default().to_owned());
        match (&step.refused, problem) {
            (None, None) => {}
            (None, Some(problem)) => return StepError::unexpected(format!("{tool} was refused: {problem}")),
            (Some(_), None) => return StepError::unexpected(format!("{tool} was not refused: {}", reply.json)),
            (Some(part), Some(problem)) if !problem.contains(part) => {
                return StepError::unexpected(format!("{tool} was refused in other words: {problem}"));
            }
            (Some(_), Some(problem)) => {
                let of_trade = reply.json["code"] != "invalid_arguments";
                let def = self.butler.tools().definition(tool);
                let evidence = scenario.proves == Some(Proves::Refusal) && scenario.tools.iter().any(|t| t == tool);
                if evidence && !of_trade && !def.is_some_and(|def| only_the_schema_refuses(&def)) {
                    let why = "that is a mistake of form, which any tool refuses; show a mistake of the trade";
                    return StepError::unexpected(format!("{tool}: {problem}: {why}"));
                }
            }
        }
        Ok(reply.json)
    }

    /// Rows as the butler's own role sees them. `$name` in the statement becomes the value, as a literal.
    async fn rows(&self, sql: &str, tenant: &TenantId, kept: &Kept) -> Result<Value, StepError> {
        let sql = filled(sql, kept);
        let mut lease = self.store.tenant(tenant).await?;
        let rows = lease.query_read_only(&tools::sql::objects(&sql), &[]).await;
        let rows = rows.map_err(|source| StepError::Sql { what: "rows", source })?;
        Ok(Value::Array(rows.iter().map(|row| row.get(0)).collect()))
    }

    /// Makes rows as the butler's own role, or as the daemon's. `$seal` is what functions want that are for the daemon
    /// alone.
    async fn given(&self, sql: &str, by_household: bool, tenant: &TenantId, kept: &Kept) -> Result<Value, StepError> {
        let mut lease = match by_household {
            true => self.db.shared(tenant).await?,
            false => self.store.tenant(tenant).await?,
        };
        let mut kept = kept.clone();
        kept.insert(SEAL.to_owned(), Value::String(self.store.seal().expose().clone()));
        let done = lease.execute(&filled(sql, &kept), &[]).await;
        let rows = done.map_err(|source| StepError::Sql { what: "given", source })?;
        if rows == 0 { StepError::unexpected("given: the statement found no row") } else { Ok(Value::Null) }
    }

    async fn job(
        &self,
        job: &str,
        args: &Map<String, Value>,
        tenant: &TenantId,
        kept: &Kept,
    ) -> Result<Value, StepError> {
        let Some(found) = self.jobs.get(job) else {
            return StepError::unexpected(format!("{} has no job `{job}`", self.butler.name()));
        };
        let args = Value::Object(fill_map(args, kept)?);
        let rows = found.rows(&self.store, tenant, Some(&args)).await;
        let (rows, _) = rows.map_err(|e| StepError::Unexpected(e.to_string()))?;
        Ok(Value::Array(rows.into_iter().map(Value::Object).collect()))
    }
}

/// A statement with kept values as literals where `$name` stands.
fn filled(sql: &str, kept: &Kept) -> String {
    let mut sql = sql.trim().trim_end_matches(';').to_owned();
    // Longer names first, so that none is taken for the begin of another.
    let mut names: Vec<(&String, &Value)> = kept.iter().collect();
    names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    for (name, value) in names {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        sql = sql.replace(&format!("${name}"), &format!("'{}'", text.replace('\'', "''")));
    }
    sql
}

/// The ends of channels that the step's caller speaks for: whoever writes a scenario also says who has proven to be
/// whom.
fn ends(step: &Step) -> ChannelEnds {
    let Act::Call { args, .. } = &step.act else { return ChannelEnds::default() };
    let channel = args.get("source").and_then(|source| source.get("channel")).and_then(Value::as_str);
    ChannelEnds { channels: channel.map(str::to_owned).into_iter().collect(), ..ChannelEnds::default() }
}
