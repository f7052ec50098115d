//! The calls on `/rpc`: JSON-RPC 2.0 with named parameters, by HTTP POST or over a WebSocket.
//!
//! Each file of this crate that declares calls (a trait with `#[rpc]`) answers them, too. A call asks for the caller's
//! right first, then goes the way that tools go. An error has a sentence as its message and `{"code": …}`, a stable
//! name, as its data.

use jsonrpsee::core::RegisterMethodError;
use jsonrpsee::server::Methods;

use super::rpc::Rpc;
use super::{
    approvals, audit, calendar_week, contacts, conversations, deliveries, ids, inbox, live, local_answers, login,
    looks, models, owner_notes, schedule_edits, schedule_week, schedules, secrets, services, session_pages, sessions,
    timeline, tokens, undo, work,
};

/// All calls that this port answers.
pub(super) fn all(rpc: &Rpc) -> Result<Methods, RegisterMethodError> {
    let mut all = Methods::new();
    all.merge(services::HouseApiServer::into_rpc(rpc.clone()))?;
    all.merge(work::WorkApiServer::into_rpc(rpc.clone()))?;
    all.merge(sessions::SessionsApiServer::into_rpc(rpc.clone()))?;
    all.merge(session_pages::SessionPagesApiServer::into_rpc(rpc.clone()))?;
    all.merge(timeline::TimelineApiServer::into_rpc(rpc.clone()))?;
    all.merge(live::EventsApiServer::into_rpc(rpc.clone()))?;
    all.merge(schedules::SchedulesApiServer::into_rpc(rpc.clone()))?;
    all.merge(schedule_edits::ScheduleEditsApiServer::into_rpc(rpc.clone()))?;
    all.merge(schedule_week::ScheduleWeekApiServer::into_rpc(rpc.clone()))?;
    all.merge(inbox::InboxApiServer::into_rpc(rpc.clone()))?;
    all.merge(login::LoginApiServer::into_rpc(rpc.clone()))?;
    all.merge(local_answers::LocalAnswersApiServer::into_rpc(rpc.clone()))?;
    all.merge(looks::LooksApiServer::into_rpc(rpc.clone()))?;
    all.merge(ids::IdsApiServer::into_rpc(rpc.clone()))?;
    all.merge(models::ModelsApiServer::into_rpc(rpc.clone()))?;
    all.merge(owner_notes::NotesApiServer::into_rpc(rpc.clone()))?;
    all.merge(approvals::ApprovalsApiServer::into_rpc(rpc.clone()))?;
    all.merge(audit::AuditApiServer::into_rpc(rpc.clone()))?;
    all.merge(calendar_week::CalendarWeekApiServer::into_rpc(rpc.clone()))?;
    all.merge(contacts::ContactsApiServer::into_rpc(rpc.clone()))?;
    all.merge(conversations::ConversationsApiServer::into_rpc(rpc.clone()))?;
    all.merge(deliveries::DeliveriesApiServer::into_rpc(rpc.clone()))?;
    all.merge(undo::UndoApiServer::into_rpc(rpc.clone()))?;
    all.merge(secrets::SecretsApiServer::into_rpc(rpc.clone()))?;
    all.merge(tokens::TokensApiServer::into_rpc(rpc.clone()))?;
    Ok(all)
}
