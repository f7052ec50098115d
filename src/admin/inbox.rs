//! The inbox for people: looking, and taking a message up again.

use async_trait::async_trait;
use jsonrpsee::Extensions;
use jsonrpsee::proc_macros::rpc;
use uuid::Uuid;

use super::failure::Failure;
use super::rights::{self, Need};
use super::rpc::{Rpc, limited, to_its_end};
use super::visitor::may;
use access::{Grant, Holder};
use base::text::capital;
use inbox::messages::Entry;
use inbox::{Operator, OperatorActionError, Reopened, SWITCHBOARD};

const MOST: u32 = 200;
const USUAL: u32 = 20;
const STATES: [&str; 4] = ["accepted", "processing", "done", "dead"];

/// Messages that came in. All of them are the switchboard's, whichever butler they went to.
#[rpc(server, client, namespace = "butlerd", namespace_separator = ".")]
pub trait InboxApi {
    /// The newest messages, at most `limit` (1 to 200, else 20), without their parts; of one state, if that is named;
    /// those that came before the message `before`, if that is. Scope `read`.
    #[method(name = "inbox_list", param_kind = map, with_extensions)]
    async fn inbox_list(
        &self,
        state: Option<String>,
        limit: Option<u32>,
        before: Option<Uuid>,
    ) -> Result<Vec<Entry>, Failure>;

    /// One message with its parts and answers. Scope `read`.
    #[method(name = "inbox_show", param_kind = map, with_extensions)]
    async fn inbox_show(&self, id: Uuid) -> Result<Entry, Failure>;

    /// Takes a dead message, or its dead parts, up again. Scope `admin`.
    #[method(name = "inbox_retry", param_kind = map, with_extensions)]
    async fn inbox_retry(&self, id: Uuid) -> Result<Reopened, Failure>;

    /// Gives a message, or its part of this number, to another butler. Scope `admin`.
    #[method(name = "inbox_reroute", param_kind = map, with_extensions)]
    async fn inbox_reroute(&self, id: Uuid, butler: String, part: Option<i32>) -> Result<Reopened, Failure>;
}

fn unknown(id: Uuid) -> Failure {
    Failure::new("not_found", format!("There is no message {id}. See: butlerd inbox list"))
}

impl From<OperatorActionError> for Failure {
    fn from(e: OperatorActionError) -> Self {
        match e {
            OperatorActionError::Store(e) => e.into(),
            OperatorActionError::Unknown(id) => unknown(id),
            OperatorActionError::NotNow(why) => Self::new("not_now", format!("{}.", capital(&why))),
            e @ OperatorActionError::NoButler { .. } => {
                Self::new("unknown_butler", format!("{}.", capital(&e.to_string())))
            }
        }
    }
}

/// Whose hand it is.
fn hand(grant: &Grant) -> Operator {
    let by = match &grant.holder {
        Holder::Operator { label, .. } => label.as_str(),
        _ => "butlerd",
    };
    Operator { by: by.to_owned(), ..Operator::default() }
}

#[async_trait]
impl InboxApiServer for Rpc {
    async fn inbox_list(
        &self,
        ext: &Extensions,
        state: Option<String>,
        limit: Option<u32>,
        before: Option<Uuid>,
    ) -> Result<Vec<Entry>, Failure> {
        let grant = may(ext, Need::Look)?;
        rights::check_butler(&grant, SWITCHBOARD)?;
        let limit = limited(limit, USUAL, MOST)?;
        if let Some(state) = state.as_deref().filter(|state| !STATES.contains(state)) {
            let known = STATES.join(", ");
            return Err(Failure::invalid(format!("There is no state `{state}`; there are: {known}.")));
        }
        let inbox = &self.supervisor.services().inbox;
        Ok(inbox.entries(&grant.tenant, state.as_deref(), i64::from(limit), before).await?)
    }

    async fn inbox_show(&self, ext: &Extensions, id: Uuid) -> Result<Entry, Failure> {
        let grant = may(ext, Need::Look)?;
        rights::check_butler(&grant, SWITCHBOARD)?;
        self.supervisor.services().inbox.entry(&grant.tenant, id).await?.ok_or_else(|| unknown(id))
    }

    async fn inbox_retry(&self, ext: &Extensions, id: Uuid) -> Result<Reopened, Failure> {
        let grant = may(ext, Need::Manage)?;
        rights::check_butler(&grant, SWITCHBOARD)?;
        let (inbox, hand) = (self.supervisor.services().inbox.clone(), hand(&grant));
        let retry = async move { inbox.requests().retry(&grant.tenant, id, &hand).await };
        to_its_end("inbox-retry", "The retry", retry).await
    }

    async fn inbox_reroute(
        &self,
        ext: &Extensions,
        id: Uuid,
        butler: String,
        part: Option<i32>,
    ) -> Result<Reopened, Failure> {
        let grant = may(ext, Need::Manage)?;
        rights::check_butler(&grant, SWITCHBOARD)?;
        let (inbox, hand) = (self.supervisor.services().inbox.clone(), hand(&grant));
        let reroute = async move { inbox.requests().reroute(&grant.tenant, id, &butler, part, &hand).await };
        to_its_end("inbox-reroute", "The reroute", reroute).await
    }
}
