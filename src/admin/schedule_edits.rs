//! Schedules made, changed and removed, and their runs marked as done: by the tools that sessions have, with their errors.

use async_trait::async_trait;
use jsonrpsee::Extensions;
use jsonrpsee::proc_macros::rpc;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::failure::Failure;
use super::rights::{Need, own_or};
use super::rpc::Rpc;
use super::schedules::ScheduleRow;
use super::visitor::may;

/// Whose a new schedule is, if nobody says.
const USUAL_BUTLER: &str = "general";

/// What people change of schedules.
#[rpc(server, client, namespace = "butlerd", namespace_separator = ".")]
pub trait ScheduleEditsApi {
    /// Makes a schedule, as the tool `schedule_create` does; of `general`, if no butler is named. Scope `tools`.
    #[method(name = "schedule_create", param_kind = map, with_extensions)]
    async fn schedule_create(&self, fields: ScheduleFields, butler: Option<String>) -> Result<ScheduleRow, Failure>;

    /// Changes the given fields of a schedule, as the tool `schedule_update` does. Scope `tools`.
    #[method(name = "schedule_change", param_kind = map, with_extensions)]
    async fn schedule_change(
        &self,
        key: String,
        fields: ScheduleFields,
        butler: Option<String>,
    ) -> Result<ScheduleRow, Failure>;

    /// Deletes a schedule, as the tool `schedule_delete` does. Scope `tools`.
    #[method(name = "schedule_remove", param_kind = map, with_extensions)]
    async fn schedule_remove(&self, key: String, butler: Option<String>) -> Result<RemovedSchedule, Failure>;

    /// Marks the current run of a schedule as done, as the tool `schedule_done` does. Scope `tools`.
    #[method(name = "schedule_done", param_kind = map, with_extensions)]
    async fn schedule_done(&self, key: String, butler: Option<String>) -> Result<MarkedRun, Failure>;
}

/// What a schedule is to be, or what is to change of it: the arguments of the tools `schedule_create` and
/// `schedule_update`. What is left out stays, or is as usual.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScheduleFields {
    pub prompt: Option<String>,
    pub name: Option<String>,
    pub cron: Option<String>,
    pub every: Option<String>,
    pub at: Option<String>,
    #[serde(rename = "in")]
    pub after: Option<String>,
    pub timezone: Option<String>,
    pub priority: Option<u8>,
    pub require_idle: Option<bool>,
    pub missed: Option<String>,
    pub reply_channel: Option<String>,
    pub reply_to: Option<String>,
    pub clear_reply: Option<bool>,
}

impl ScheduleFields {
    fn args(&self) -> Result<Map<String, Value>, Failure> {
        match serde_json::to_value(self) {
            Ok(Value::Object(args)) => Ok(args.into_iter().filter(|(_, value)| !value.is_null()).collect()),
            Ok(_) => Ok(Map::new()),
            Err(e) => Err(Failure::internal("Reading a schedule", &e)),
        }
    }
}

/// What `schedule_remove` answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RemovedSchedule {
    pub id: Uuid,
    pub butler: String,
    /// `deleted`.
    pub status: String,
}

/// What `schedule_done` answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MarkedRun {
    pub id: Uuid,
    pub name: String,
    pub butler: String,
    /// `done`.
    pub status: String,
    /// `at_work`: it counts as done, and its session goes on to its end. `waiting`: it does not begin any more.
    pub run: String,
}

#[async_trait]
impl ScheduleEditsApiServer for Rpc {
    async fn schedule_create(
        &self,
        ext: &Extensions,
        fields: ScheduleFields,
        butler: Option<String>,
    ) -> Result<ScheduleRow, Failure> {
        let grant = may(ext, Need::Work)?;
        let name = own_or(&grant, butler)?.unwrap_or_else(|| USUAL_BUTLER.to_owned());
        let butler = self.butler(&grant, &name).await?;
        self.of_schedules(&grant, &butler, "schedule_create", fields.args()?).await
    }

    async fn schedule_change(
        &self,
        ext: &Extensions,
        key: String,
        fields: ScheduleFields,
        butler: Option<String>,
    ) -> Result<ScheduleRow, Failure> {
        self.on_schedule(ext, (&key, butler.as_deref()), "schedule_update", fields.args()?).await
    }

    async fn schedule_remove(
        &self,
        ext: &Extensions,
        key: String,
        butler: Option<String>,
    ) -> Result<RemovedSchedule, Failure> {
        self.on_schedule(ext, (&key, butler.as_deref()), "schedule_delete", Map::new()).await
    }

    async fn schedule_done(&self, ext: &Extensions, key: String, butler: Option<String>) -> Result<MarkedRun, Failure> {
        self.on_schedule(ext, (&key, butler.as_deref()), "schedule_done", Map::new()).await
    }
}
