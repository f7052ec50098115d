//! Schedules over all butlers: found by name or by the beginning of their ids, shown, run, paused.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::join_all;
use jiff::Timestamp;
use jsonrpsee::Extensions;
use jsonrpsee::proc_macros::rpc;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::failure::Failure;
use super::rights::Need;
use super::rpc::{Rpc, Unavailable, limited, not_found, typed};
use super::visitor::may;
use access::Grant;
use base::Money;
use butler::Butler;

const MOST: u32 = 500;
const USUAL: u32 = 20;

/// What butlers do by themselves, and when.
#[rpc(server, client, namespace = "butlerd", namespace_separator = ".")]
pub trait SchedulesApi {
    /// The schedules of one butler or of all, each with its last run; those that `key` names (a name, or an id or its
    /// beginning), if it is given. Scope `read`.
    #[method(name = "schedule_list", param_kind = map, with_extensions)]
    async fn schedule_list(&self, butler: Option<String>, key: Option<String>) -> Result<SchedulePage, Failure>;

    /// One schedule, with its newest runs as `history`, at most `limit` (1 to 500, else 20). Scope `read`.
    #[method(name = "schedule_show", param_kind = map, with_extensions)]
    async fn schedule_show(
        &self,
        key: String,
        butler: Option<String>,
        limit: Option<u32>,
    ) -> Result<ScheduleDetail, Failure>;

    /// The runs of a schedule, the newest first, at most `limit` (1 to 500, else 20); those that came before the run
    /// `before`, if it is named. Scope `read`.
    #[method(name = "schedule_runs", param_kind = map, with_extensions)]
    async fn schedule_runs(&self, id: Uuid, before: Option<Uuid>, limit: Option<u32>) -> Result<Vec<RunRow>, Failure>;

    /// Runs a schedule once, now, and answers when the run is over, as the tool `schedule_trigger` does. Scope `tools`.
    #[method(name = "schedule_run", param_kind = map, with_extensions)]
    async fn schedule_run(&self, key: String, butler: Option<String>) -> Result<ScheduleRan, Failure>;

    /// The runs at work and those that wait, of one butler or of all. Scope `read`.
    #[method(name = "schedule_running", param_kind = map, with_extensions)]
    async fn schedule_running(&self, butler: Option<String>) -> Result<OpenRunPage, Failure>;

    /// Pauses a schedule, or lets it go on; the schedule as it is then. Scope `tools`.
    #[method(name = "schedule_switch", param_kind = map, with_extensions)]
    async fn schedule_switch(&self, key: String, butler: Option<String>, enabled: bool)
    -> Result<ScheduleRow, Failure>;
}

/// What `schedule_list` answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SchedulePage {
    pub schedules: Vec<ScheduleRow>,
    /// Butlers whose schedules can't be read just now.
    pub unavailable: Vec<Unavailable>,
}

/// A schedule, as the tool `schedule_list` shows it.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ScheduleRow {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub butler: String,
    pub id: Uuid,
    pub name: String,
    /// One of `cron`, `every` and `at` says when it is due.
    pub cron: Option<String>,
    pub every: Option<String>,
    pub at: Option<Timestamp>,
    pub timezone: Option<String>,
    pub start_at: Option<Timestamp>,
    pub until_at: Option<Timestamp>,
    pub next_run_at: Option<Timestamp>,
    pub enabled: bool,
    pub paused: bool,
    pub source: String,
    pub priority: i16,
    pub require_idle: bool,
    pub missed: String,
    pub missed_window: String,
    pub overlap: String,
    pub prompt: Option<String>,
    pub job_name: Option<String>,
    pub job_args: Option<Value>,
    /// Its newest run that is no longer to come.
    #[serde(default)]
    pub last: Option<RunRow>,
    /// What else its row has.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// What `schedule_show` answers.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ScheduleDetail {
    #[serde(flatten)]
    pub schedule: ScheduleRow,
    /// The newest first.
    pub history: Vec<RunRow>,
}

/// A time of a schedule, or several that were skipped together, and what became of it.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RunRow {
    /// Its id; `None` where a calendar marks it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Uuid>,
    pub fire_at: Timestamp,
    /// The last of `times` times; with `more`, there were even more.
    pub until: Option<Timestamp>,
    pub times: i32,
    pub more: bool,
    pub cause: String,
    pub state: String,
    pub reason: Option<String>,
    pub session_id: Option<Uuid>,
    pub cost_usd: Option<Money>,
    /// What else its row has.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// What `schedule_run` answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScheduleRan {
    /// `triggered`: it is done; else it failed.
    pub status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default)]
    pub result: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    pub session_id: Option<Uuid>,
    /// What else the tool says.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// What `schedule_running` answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OpenRunPage {
    pub runs: Vec<OpenRun>,
    /// Butlers whose runs can't be read just now.
    pub unavailable: Vec<Unavailable>,
}

/// A run at work, or one that waits, and its schedule.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct OpenRun {
    pub butler: String,
    pub schedule: String,
    pub task_id: Uuid,
    pub started_at: Option<Timestamp>,
    #[serde(flatten)]
    pub run: RunRow,
}

impl Rpc {
    /// The schedules of one butler or of all; those that `key` names, if there is one.
    async fn schedules(
        &self,
        grant: &Arc<Grant>,
        butler: Option<&str>,
        key: Option<&str>,
    ) -> Result<SchedulePage, Failure> {
        let (butlers, mut unavailable) = self.butlers(grant, butler).await?;
        let mut schedules = Vec::new();
        let asked = butlers.iter().map(|butler| butler.schedules().listed(&grant.tenant, key));
        for (butler, found) in butlers.iter().zip(join_all(asked).await) {
            match found {
                Ok(found) => schedules.extend(typed::<Vec<ScheduleRow>>(found.into())?),
                Err(e) => unavailable.push(Unavailable::new(butler, &e)),
            }
        }
        Ok(SchedulePage { schedules, unavailable })
    }

    /// The one schedule that `key` names, and its butler.
    pub(super) async fn schedule(
        &self,
        grant: &Arc<Grant>,
        butler: Option<&str>,
        key: &str,
    ) -> Result<(Butler, ScheduleRow), Failure> {
        let SchedulePage { mut schedules, unavailable } = self.schedules(grant, butler, Some(key)).await?;
        let named = |s: &ScheduleRow| s.name == key || s.id.to_string() == key;
        if schedules.iter().any(named) {
            schedules.retain(named);
        }
        match schedules.len() {
            0 => {
                let message = format!("There is no schedule `{key}`. See: butlerd schedule list");
                Err(not_found(&message, &unavailable))
            }
            1 => {
                let found = schedules.remove(0);
                Ok((self.butler(grant, &found.butler).await?, found))
            }
            _ => {
                let name = |s: &ScheduleRow| format!("{} of {} ({})", s.name, s.butler, s.id);
                let names: Vec<String> = schedules.iter().map(name).collect();
                Err(Failure::invalid(format!(
                    "`{key}` names several: {}. Add --butler NAME, or write more of the id.",
                    names.join(", ")
                )))
            }
        }
    }

    /// Calls one of the schedule tools, with these arguments, for the schedule that `key` names.
    pub(super) async fn on_schedule<T: DeserializeOwned>(
        &self,
        ext: &Extensions,
        (key, butler): (&str, Option<&str>),
        tool: &str,
        mut args: Map<String, Value>,
    ) -> Result<T, Failure> {
        let grant = may(ext, Need::Work)?;
        // Boxed: the compiler lays out futures within futures only so deep.
        let (butler, found) = Box::pin(self.schedule(&grant, butler, key)).await?;
        args.insert("id".to_owned(), json!(found.id));
        self.of_schedules(&grant, &butler, tool, args).await
    }

    /// Calls one of the schedule tools of a butler.
    pub(super) async fn of_schedules<T: DeserializeOwned>(
        &self,
        grant: &Arc<Grant>,
        butler: &Butler,
        tool: &str,
        args: Map<String, Value>,
    ) -> Result<T, Failure> {
        let mut answer = Box::pin(self.run_tool(grant, butler, tool, args)).await?;
        // A run that failed is an answer; a refusal is none.
        match answer.result["code"].as_str() {
            Some(code) => Err(Failure::new(code, answer.result["error"].as_str().unwrap_or("The tool refused it."))),
            None => {
                if let Some(shown) = answer.result.as_object_mut() {
                    shown.insert("butler".to_owned(), json!(butler.name().as_str()));
                }
                typed(answer.result)
            }
        }
    }
}

#[async_trait]
impl SchedulesApiServer for Rpc {
    async fn schedule_list(
        &self,
        ext: &Extensions,
        butler: Option<String>,
        key: Option<String>,
    ) -> Result<SchedulePage, Failure> {
        let grant = may(ext, Need::Look)?;
        self.schedules(&grant, butler.as_deref(), key.as_deref()).await
    }

    async fn schedule_show(
        &self,
        ext: &Extensions,
        key: String,
        butler: Option<String>,
        limit: Option<u32>,
    ) -> Result<ScheduleDetail, Failure> {
        let grant = may(ext, Need::Look)?;
        let limit = limited(limit, USUAL, MOST)?;
        let (butler, schedule) = self.schedule(&grant, butler.as_deref(), &key).await?;
        let history = butler.schedules().history(&grant.tenant, schedule.id, None, limit).await?;
        Ok(ScheduleDetail { schedule, history: typed(history.into())? })
    }

    async fn schedule_runs(
        &self,
        ext: &Extensions,
        id: Uuid,
        before: Option<Uuid>,
        limit: Option<u32>,
    ) -> Result<Vec<RunRow>, Failure> {
        let grant = may(ext, Need::Look)?;
        let limit = limited(limit, USUAL, MOST)?;
        let (butler, schedule) = self.schedule(&grant, None, &id.to_string()).await?;
        typed(butler.schedules().history(&grant.tenant, schedule.id, before, limit).await?.into())
    }

    async fn schedule_running(&self, ext: &Extensions, butler: Option<String>) -> Result<OpenRunPage, Failure> {
        let grant = may(ext, Need::Look)?;
        let (butlers, mut unavailable) = self.butlers(&grant, butler.as_deref()).await?;
        let mut runs = Vec::new();
        for butler in butlers {
            match butler.schedules().open(&grant.tenant).await {
                Ok(open) => runs.extend(typed::<Vec<OpenRun>>(open.into())?),
                Err(e) => unavailable.push(Unavailable::new(&butler, &e)),
            }
        }
        Ok(OpenRunPage { runs, unavailable })
    }

    async fn schedule_run(
        &self,
        ext: &Extensions,
        key: String,
        butler: Option<String>,
    ) -> Result<ScheduleRan, Failure> {
        self.on_schedule(ext, (&key, butler.as_deref()), "schedule_trigger", Map::new()).await
    }

    async fn schedule_switch(
        &self,
        ext: &Extensions,
        key: String,
        butler: Option<String>,
        enabled: bool,
    ) -> Result<ScheduleRow, Failure> {
        let args = Map::from_iter([("enabled".to_owned(), json!(enabled))]);
        self.on_schedule(ext, (&key, butler.as_deref()), "schedule_update", args).await
    }
}
