//! Calendars: what is when.

use async_trait::async_trait;
use jiff::Timestamp;
use jsonrpsee::Extensions;
use jsonrpsee::proc_macros::rpc;

use super::failure::Failure;
use super::rights::Need;
use super::rpc::Rpc;
use super::schedule_week::a_month;
use super::visitor::may;
use modules::calendar::{HouseEvents, house_events};

/// The household's calendars.
#[rpc(server, client, namespace = "butlerd", namespace_separator = ".")]
pub trait CalendarWeekApi {
    /// What takes place from one moment to another, at most a month, in the calendars that one butler or all see; at most
    /// 500 events. Scope `read`.
    #[method(name = "calendar_events", param_kind = map, with_extensions)]
    async fn calendar_events(
        &self,
        from: Timestamp,
        to: Timestamp,
        butler: Option<String>,
    ) -> Result<HouseEvents, Failure>;
}

#[async_trait]
impl CalendarWeekApiServer for Rpc {
    async fn calendar_events(
        &self,
        ext: &Extensions,
        from: Timestamp,
        to: Timestamp,
        butler: Option<String>,
    ) -> Result<HouseEvents, Failure> {
        let grant = may(ext, Need::Look)?;
        a_month(from, to)?;
        let (butlers, down) = self.butlers(&grant, butler.as_deref()).await?;
        // What a calendar has in it does not depend on whether its butlers are up.
        let names = butlers.iter().map(|butler| butler.name().as_str());
        let names: Vec<&str> = names.chain(down.iter().map(|butler| butler.butler.as_str())).collect();
        let services = self.supervisor.services();
        let home = services.config.owner.time_zone.time_zone();
        Ok(house_events(&services.db, &grant.tenant, &names, (from, to), home).await?)
    }
}
