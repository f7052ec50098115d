//! Deliveries for people: looking, sending again, calling off, saying what became of one.

use uuid::Uuid;

use super::failure::Failure;
use super::rights;
use super::rpc::Rpc;
use access::{Grant, Holder};
use base::task;
use outbox::{Changed, Delivery, LookError, Post};

const MOST: u32 = 200;
const USUAL: u32 = 20;
const STATES: [&str; 7] = ["pending", "deferred", "sending", "sent", "unknown", "failed", "dead"];
/// Those that somebody should look at.
const BAD: &str = "bad";

impl From<LookError> for Failure {
    fn from(e: LookError) -> Self {
        match e {
            LookError::Store(e) => e.into(),
            LookError::Unknown(id) => unknown(id),
            LookError::NotNow(why) => Self::new("not_now", format!("Nothing was changed: {why}.")),
        }
    }
}

fn unknown(id: Uuid) -> Failure {
    Failure::new("not_found", format!("There is no delivery {id}. See: butlerd deliveries list"))
}

/// The newest deliveries. A token of one butler sees that butler's.
pub(super) async fn list(
    rpc: &Rpc,
    grant: &Grant,
    butler: Option<String>,
    state: Option<&str>,
    limit: Option<u32>,
) -> Result<Vec<Delivery>, Failure> {
    let limit = limit.unwrap_or(USUAL);
    if !(1..=MOST).contains(&limit) {
        return Err(Failure::invalid(format!("The limit must be from 1 to {MOST}.")));
    }
    let butler = butler.or_else(|| grant.butler.as_ref().map(ToString::to_string));
    if let Some(butler) = &butler {
        rights::check_butler(grant, butler)?;
    }
    let states: &[&str] = match &state {
        None => &[],
        Some(BAD) => &["unknown", "failed", "dead"],
        Some(state) if STATES.contains(state) => std::slice::from_ref(state),
        Some(state) => {
            let known = STATES.join(", ");
            return Err(Failure::invalid(format!("There is no state `{state}`; there are: {known}, and {BAD}.")));
        }
    };
    let post = &rpc.supervisor.house().post;
    Ok(post.list(&grant.tenant, butler.as_deref(), states, i64::from(limit)).await?)
}

pub(super) async fn show(rpc: &Rpc, grant: &Grant, id: Uuid) -> Result<Delivery, Failure> {
    let found = rpc.supervisor.house().post.show(&grant.tenant, id).await?;
    if rights::check_butler(grant, &found.origin).is_err() {
        return Err(unknown(id));
    }
    Ok(found)
}

/// What a person does to one.
pub(super) enum Change {
    Retry,
    Cancel,
    Resolve { arrived: bool },
}

pub(super) async fn change(rpc: &Rpc, grant: &Grant, id: Uuid, what: Change) -> Result<Changed, Failure> {
    show(rpc, grant, id).await?;
    let (post, tenant): (Post, _) = (rpc.supervisor.house().post.clone(), grant.tenant.clone());
    let by = match &grant.holder {
        Holder::Operator { label, .. } => label.clone(),
        _ => return Err(Failure::forbidden("Only a person decides on a delivery.")),
    };
    // A task of its own: what is committed is begun, even when the caller hangs up just now.
    let work = task::spawn(task::Kind::Request, "delivery-change", async move {
        match what {
            Change::Retry => post.retry(&tenant, id).await,
            Change::Cancel => post.cancel(&tenant, id, &by).await,
            Change::Resolve { arrived } => post.resolve(&tenant, id, arrived, &by).await,
        }
    });
    Ok(work.await.map_err(|e| Failure::internal("The change", &e))??)
}
