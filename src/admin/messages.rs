//! The inbox for people: looking, and taking a message up again.

use uuid::Uuid;

use super::failure::Failure;
use super::rights;
use super::rpc::Rpc;
use access::{Grant, Holder};
use base::task;
use inbox::messages::Entry;
use inbox::{Operator, OperatorActionError, Reopened, SWITCHBOARD};

const MOST: u32 = 200;
const USUAL: u32 = 20;
const STATES: [&str; 4] = ["accepted", "processing", "done", "dead"];

fn unknown(id: Uuid) -> Failure {
    Failure::new("not_found", format!("There is no message {id}. See: butlerd inbox list"))
}

impl From<OperatorActionError> for Failure {
    fn from(e: OperatorActionError) -> Self {
        match e {
            OperatorActionError::Store(e) => e.into(),
            OperatorActionError::Unknown(id) => unknown(id),
            OperatorActionError::NotNow(why) => Self::new("not_now", sentence(&why)),
            e @ OperatorActionError::NoButler { .. } => Self::new("unknown_butler", sentence(&e.to_string())),
        }
    }
}

fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| format!("{}{}.", first.to_uppercase(), chars.as_str()))
}

/// The newest messages. All of them are the switchboard's, whoever they went to.
pub(super) async fn list(
    rpc: &Rpc,
    grant: &Grant,
    state: Option<&str>,
    limit: Option<u32>,
) -> Result<Vec<Entry>, Failure> {
    rights::check_butler(grant, SWITCHBOARD)?;
    let limit = limit.unwrap_or(USUAL);
    if !(1..=MOST).contains(&limit) {
        return Err(Failure::invalid(format!("The limit must be from 1 to {MOST}.")));
    }
    if let Some(state) = state.filter(|state| !STATES.contains(state)) {
        return Err(Failure::invalid(format!("There is no state `{state}`; there are: {}.", STATES.join(", "))));
    }
    let inbox = &rpc.supervisor.services().inbox;
    Ok(inbox.entries(&grant.tenant, state, i64::from(limit)).await?)
}

pub(super) async fn show(rpc: &Rpc, grant: &Grant, id: Uuid) -> Result<Entry, Failure> {
    rights::check_butler(grant, SWITCHBOARD)?;
    rpc.supervisor.services().inbox.entry(&grant.tenant, id).await?.ok_or_else(|| unknown(id))
}

/// Whose hand it is.
fn operator(grant: &Grant) -> Operator {
    let by = match &grant.holder {
        Holder::Operator { label, .. } => label.as_str(),
        _ => "butlerd",
    };
    Operator { by: by.to_owned(), ..Operator::default() }
}

pub(super) async fn retry(rpc: &Rpc, grant: &Grant, id: Uuid) -> Result<Reopened, Failure> {
    rights::check_butler(grant, SWITCHBOARD)?;
    let (inbox, tenant, operator) = (rpc.supervisor.services().inbox.clone(), grant.tenant.clone(), operator(grant));
    // A task of its own, here and below: what is committed is begun, even when the caller hangs up just now.
    let work =
        task::spawn(task::Kind::Request, "inbox-retry", async move { inbox.retry(&tenant, id, &operator).await });
    Ok(work.await.map_err(|e| Failure::internal("The retry", &e))??)
}

pub(super) async fn reroute(
    rpc: &Rpc,
    grant: &Grant,
    id: Uuid,
    butler: String,
    part: Option<i32>,
) -> Result<Reopened, Failure> {
    rights::check_butler(grant, SWITCHBOARD)?;
    let (inbox, tenant, operator) = (rpc.supervisor.services().inbox.clone(), grant.tenant.clone(), operator(grant));
    let work = task::spawn(task::Kind::Request, "inbox-reroute", async move {
        inbox.reroute(&tenant, id, &butler, part, &operator).await
    });
    Ok(work.await.map_err(|e| Failure::internal("The reroute", &e))??)
}
