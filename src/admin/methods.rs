//! The calls on `/rpc`: JSON-RPC 2.0 with named parameters, by HTTP POST or over a WebSocket.
//!
//! Each file of this crate that declares calls (a trait with `#[rpc]`) answers them, too. A call asks for the caller's
//! right first, then goes the way that tools go. An error has a sentence as its message and `{"code": …}`, a stable
//! name, as its data.

use jsonrpsee::core::RegisterMethodError;
use jsonrpsee::server::Methods;

use super::approvals::ApprovalsApiServer;
use super::deliveries::DeliveriesApiServer;
use super::inbox::InboxApiServer;
use super::live::EventsApiServer;
use super::rpc::Rpc;
use super::schedules::SchedulesApiServer;
use super::secrets::SecretsApiServer;
use super::services::HouseApiServer;
use super::sessions::SessionsApiServer;
use super::timeline::TimelineApiServer;
use super::tokens::TokensApiServer;
use super::undo::UndoApiServer;
use super::work::WorkApiServer;

/// All calls that this port answers.
pub(super) fn all(rpc: &Rpc) -> Result<Methods, RegisterMethodError> {
    let mut all = Methods::new();
    all.merge(HouseApiServer::into_rpc(rpc.clone()))?;
    all.merge(WorkApiServer::into_rpc(rpc.clone()))?;
    all.merge(SessionsApiServer::into_rpc(rpc.clone()))?;
    all.merge(TimelineApiServer::into_rpc(rpc.clone()))?;
    all.merge(EventsApiServer::into_rpc(rpc.clone()))?;
    all.merge(SchedulesApiServer::into_rpc(rpc.clone()))?;
    all.merge(InboxApiServer::into_rpc(rpc.clone()))?;
    all.merge(ApprovalsApiServer::into_rpc(rpc.clone()))?;
    all.merge(DeliveriesApiServer::into_rpc(rpc.clone()))?;
    all.merge(UndoApiServer::into_rpc(rpc.clone()))?;
    all.merge(SecretsApiServer::into_rpc(rpc.clone()))?;
    all.merge(TokensApiServer::into_rpc(rpc.clone()))?;
    Ok(all)
}
