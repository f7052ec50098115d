//! Deliveries for people: looking, sending again, calling off, saying what became of one.

use uuid::Uuid;

use super::failure::Failure;
use super::rights;
use super::rpc::Rpc;
use access::{Grant, Holder};
use base::task;
use outbox::{Changed, DeliveryError, DeliveryView, Outbox};

const MOST: u32 = 200;
const USUAL: u32 = 20;
const STATES: [&str; 7] = ["pending", "deferred", "sending", "sent", "unknown", "failed", "dead"];
/// Those that somebody should look at.
const BAD: &str = "bad";

impl From<DeliveryError> for Failure {
    fn from(e: DeliveryError) -> Self {
        match e {
            DeliveryError::Store(e) => e.into(),
            DeliveryError::Unknown(id) => unknown(id),
            DeliveryError::NotNow(why) => Self::new("not_now", format!("Nothing was changed: {why}.")),
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
) -> Result<Vec<DeliveryView>, Failure> {
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
    let outbox = &rpc.supervisor.services().outbox;
    Ok(outbox.list(&grant.tenant, butler.as_deref(), states, i64::from(limit)).await?)
}

pub(super) async fn show(rpc: &Rpc, grant: &Grant, id: Uuid) -> Result<DeliveryView, Failure> {
    let found = rpc.supervisor.services().outbox.show(&grant.tenant, id).await?;
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
    let (outbox, tenant): (Outbox, _) = (rpc.supervisor.services().outbox.clone(), grant.tenant.clone());
    let by = match &grant.holder {
        Holder::Operator { label, .. } => label.clone(),
        _ => return Err(Failure::forbidden("Only a person decides on a delivery.")),
    };
    // A task of its own: what is committed is begun, even when the caller hangs up just now.
    let work = task::spawn(task::Kind::Request, "delivery-change", async move {
        match what {
            Change::Retry => outbox.retry(&tenant, id).await,
            Change::Cancel => outbox.cancel(&tenant, id, &by).await,
            Change::Resolve { arrived } => outbox.resolve(&tenant, id, arrived, &by).await,
        }
    });
    Ok(work.await.map_err(|e| Failure::internal("The change", &e))??)
}
