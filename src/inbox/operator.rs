//! What people do with messages by hand: the service, and what its deeds have in common. Each leaves its record in the
//! transaction in which it happens.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::IntoStaticStr;
use uuid::Uuid;

use super::handle::Inbox;
use super::lanes::{Item, sender_name};
use super::settlement::Withdrawn;
use super::sql::actions::{self, NewAction};
use super::sql::messages::HeldRow;
use super::sql::segments::PartRow;
use super::sql::{messages, segments};
use super::types::{Lane, Tier};
use base::{RequestId, TenantId, Trust};
use store::{StoreError, Tx};

/// Whose hand it is, and why.
#[derive(Clone, Debug, Default)]
pub struct Operator {
    /// As their token calls them.
    pub by: String,
    /// Who they say they are: a note.
    pub said_by: Option<String>,
    pub reason: Option<String>,
}

/// How a message is ended before its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Stop {
    /// Nothing of it has begun.
    Cancel,
    /// It is under way.
    Abort,
}

base::named!(Stop);

/// What was done with the message.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Reopened {
    pub request_id: Uuid,
    /// The butlers that it goes to now; empty: the switchboard finds out.
    pub butlers: Vec<String>,
    /// Steps that may have changed something and were taken for the parts that are replaced, as `butler: tool`. None of
    /// them is undone, and the new session may take it again.
    pub taken_before: Vec<String>,
    /// The rule that would have sent it there: ready to be typed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

/// Why it was not done. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum OperatorActionError {
    #[error("there is no message {0}")]
    Unknown(Uuid),
    #[error("{0}")]
    NotNow(String),
    #[error("there is no butler `{butler}` to route to; there are: {}", .there.join(", "))]
    NoButler { butler: String, there: Vec<String> },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Taking messages up again and ending them, by a person's hand. Cheap to clone.
#[derive(Clone)]
pub struct Requests {
    pub(super) inbox: Inbox,
}

pub(super) fn failed() -> impl FnOnce(tokio_postgres::Error) -> StoreError {
    StoreError::query("changing a message by hand")
}

impl Inbox {
    /// What people do with messages by hand.
    pub fn requests(&self) -> Requests {
        Requests { inbox: self.clone() }
    }
}

impl HeldRow {
    /// The message as the workers know it.
    pub(super) fn item(&self, tenant: &TenantId, request: Uuid) -> Item {
        Item {
            request: RequestId(request),
            tenant: tenant.clone(),
            lane: Lane(self.lane.clone()),
            tier: Tier::from_number(self.tier),
            trust: Trust::from_name(&self.trust),
            sender: sender_name(&self.channel, &self.sender),
            seq: self.seq,
        }
    }
}

impl Requests {
    /// The message's row, held until the end of the transaction.
    pub(super) async fn hold(
        &self,
        tx: &mut Tx<'_>,
        tenant: &TenantId,
        request: Uuid,
    ) -> Result<HeldRow, OperatorActionError> {
        let held = messages::hold(tx, self.inbox.schema(), tenant, request).await?;
        held.ok_or(OperatorActionError::Unknown(request))
    }

    /// Takes back what its butler has not begun; what it works on is not taken out of its hands.
    pub(super) async fn withdraw(
        &self,
        tx: &mut Tx<'_>,
        tenant: &TenantId,
        part: &PartRow,
    ) -> Result<(), OperatorActionError> {
        let now = self.inbox.clock().now();
        let butler = &part.butler;
        match self.inbox.handed().withdraw(tx, tenant, (butler, part.id), now).await? {
            Withdrawn::Back => Ok(()),
            Withdrawn::UnderWay(session) => {
                let session = session.map(|id| format!(": butlerd sessions cancel {id}")).unwrap_or_default();
                Err(OperatorActionError::NotNow(format!(
                    "{butler} is working on it just now; wait for its end, or end its session first{session}"
                )))
            }
        }
    }

    /// Takes back what butlers have of it and have not begun.
    pub(super) async fn withdraw_all(
        &self,
        tx: &mut Tx<'_>,
        tenant: &TenantId,
        request: Uuid,
    ) -> Result<(), OperatorActionError> {
        let parts = segments::all(tx, self.inbox.schema(), request).await?;
        for part in parts.iter().filter(|p| p.state == "accepted") {
            self.withdraw(tx, tenant, part).await?;
        }
        Ok(())
    }

    /// Writes down what was done.
    pub(super) async fn note(
        &self,
        tx: &mut Tx<'_>,
        of: (&TenantId, Uuid),
        (action, detail): (&str, Value),
        operator: &Operator,
    ) -> Result<(), StoreError> {
        let (said_by, reason) = (operator.said_by.as_deref(), operator.reason.as_deref());
        let new = NewAction { action, by: &operator.by, said_by, reason, detail };
        actions::add(tx, self.inbox.schema(), of, new, self.inbox.clock().now()).await
    }
}
