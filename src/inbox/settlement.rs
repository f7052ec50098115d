//! What the end of a part of a message is, and who keeps the rows that butlers have of what was handed to them.

use async_trait::async_trait;
use jiff::Timestamp;
use strum::IntoStaticStr;
use uuid::Uuid;

use super::types::{Lane, RouteKind};
use base::{RequestContext, RequestId, TenantId, Trust};
use store::{Claim, QueueTable, StoreError, Tx};

/// How a part came to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum End {
    Done,
    Dead,
}

base::named!(End);

/// What the person is told for a butler that did not tell them itself.
#[derive(Clone, Debug)]
pub struct Answer {
    pub lane: Lane,
    pub text: String,
    pub trust: Trust,
    pub session: Option<Uuid>,
    /// The request that it answers, where that can be read: it says where the answer goes.
    pub context: Option<Box<RequestContext>>,
    /// It says that something failed, not what the butler said last. It is told even after an answer.
    pub failure: bool,
}

/// The end of one row of a butler's route inbox.
pub struct Settlement<'a> {
    pub tenant: &'a TenantId,
    pub butler: &'a str,
    /// The butler's schema.
    pub schema: &'a str,
    /// The butler's route inbox.
    pub table: &'a QueueTable,
    /// The row, and the claim that holds it; another's settles nothing.
    pub claim: Claim,
    pub request: RequestId,
    pub kind: RouteKind,
    pub end: End,
    pub error: Option<&'a str>,
    pub answer: Option<Answer>,
    /// Of a question: the butler that asked, and what it is told.
    pub asked: Option<(&'a str, &'a str)>,
}

/// What became of taking a row back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Withdrawn {
    /// The butler does not work on it and will not.
    Back,
    /// The butler works on it just now, in this session as far as that is known.
    UnderWay(Option<Uuid>),
}

/// The rows that butlers keep of what was handed to them, and of what they asked. The crate that owns them stands above
/// this one and is given at boot. Each method works in the caller's transaction, which is of the owner's role.
///
/// ```
/// use async_trait::async_trait;
/// use base::TenantId;
/// use inbox::{HandedWork, Settlement, Withdrawn};
/// use jiff::Timestamp;
/// use store::{StoreError, Tx};
/// use uuid::Uuid;
///
/// /// A household whose butlers have nothing.
/// struct Nothing;
///
/// #[async_trait]
/// impl HandedWork for Nothing {
///     async fn end(&self, _: &mut Tx<'_>, _: &Settlement<'_>, _: Timestamp) -> Result<bool, StoreError> {
///         Ok(false)
///     }
///     async fn answer(
///         &self,
///         _: &mut Tx<'_>,
///         _: &Settlement<'_>,
///         _: (&str, &str),
///         _: Timestamp,
///     ) -> Result<bool, StoreError> {
///         Ok(false)
///     }
///     async fn withdraw(
///         &self,
///         _: &mut Tx<'_>,
///         _: &TenantId,
///         _: (&str, Uuid),
///         _: Timestamp,
///     ) -> Result<Withdrawn, StoreError> {
///         Ok(Withdrawn::Back)
///     }
/// }
/// ```
#[async_trait]
pub trait HandedWork: Send + Sync {
    /// Ends the row of a settlement. `false`: its claim does not hold the row any more.
    async fn end(&self, tx: &mut Tx<'_>, settlement: &Settlement<'_>, now: Timestamp) -> Result<bool, StoreError>;

    /// Puts the answer of a settlement where the question is: the butler that asked, and what it is told. Returns
    /// whether the answer came too late to be waited for and is new work of that butler.
    async fn answer(
        &self,
        tx: &mut Tx<'_>,
        settlement: &Settlement<'_>,
        asked: (&str, &str),
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// Takes back the row of this id that the named butler has not begun.
    async fn withdraw(
        &self,
        tx: &mut Tx<'_>,
        tenant: &TenantId,
        row: (&str, Uuid),
        now: Timestamp,
    ) -> Result<Withdrawn, StoreError>;
}
