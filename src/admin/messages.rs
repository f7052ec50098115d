//! The inbox for people: looking, and taking a message up again.

use uuid::Uuid;

use super::failure::Failure;
use super::rights;
use super::rpc::Rpc;
use access::{Grant, Holder};
use base::task;
use inbox::inbox::Entry;
use inbox::{AgainError, Hand, Reopened, SWITCHBOARD};

const MOST: u32 = 200;
const USUAL: u32 = 20;
const STATES: [&str; 4] = ["accepted", "processing", "done", "dead"];

fn unknown(id: Uuid) -> Failure {
    Failure::new("not_found", format!("There is no message {id}. See: butlerd inbox list"))
}

impl From<AgainError> for Failure {
    fn from(e: AgainError) -> Self {
        match e {
            AgainError::Store(e) => e.into(),
            AgainError::Unknown(id) => unknown(id),
            AgainError::NotNow(why) => Self::new("not_now", sentence(&why)),
            e @ AgainError::NoButler { .. } => Self::new("unknown_butler", sentence(&e.to_string())),
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
    let desk = &rpc.supervisor.house().desk;
    Ok(desk.entries(&grant.tenant, state, i64::from(limit)).await?)
}

pub(super) async fn show(rpc: &Rpc, grant: &Grant, id: Uuid) -> Result<Entry, Failure> {
    rights::check_butler(grant, SWITCHBOARD)?;
    rpc.supervisor.house().desk.entry(&grant.tenant, id).await?.ok_or_else(|| unknown(id))
}

/// Whose hand it is.
fn hand(grant: &Grant) -> Hand {
    let by = match &grant.holder {
        Holder::Operator { label, .. } => label.as_str(),
        _ => "butlerd",
    };
    Hand { by: by.to_owned(), ..Hand::default() }
}

pub(super) async fn retry(rpc: &Rpc, grant: &Grant, id: Uuid) -> Result<Reopened, Failure> {
    rights::check_butler(grant, SWITCHBOARD)?;
    let (desk, tenant, hand) = (rpc.supervisor.house().desk.clone(), grant.tenant.clone(), hand(grant));
    // A task of its own, here and below: what is committed is begun, even when the caller hangs up just now.
    let work = task::spawn(task::Kind::Request, "inbox-retry", async move { desk.retry(&tenant, id, &hand).await });
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
    let (desk, tenant, hand) = (rpc.supervisor.house().desk.clone(), grant.tenant.clone(), hand(grant));
    let work = task::spawn(task::Kind::Request, "inbox-reroute", async move {
        desk.reroute(&tenant, id, &butler, part, &hand).await
    });
    Ok(work.await.map_err(|e| Failure::internal("The reroute", &e))??)
}
