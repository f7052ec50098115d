//! A session's calls of its model, where they go through the gateway.

use std::convert::Infallible;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::budget::Meter;
use super::drive::{Driven, Stopped};
use super::gateway::login::account::{self, AccountError};
use super::gateway::{Link, Login, ModelCall};
use super::log::Ending;
use super::state::{Attempt, Inner};
use super::types::{EventKind, SessionState};
use access::Token;
use base::{SessionId, TraceContext};
use llm_api::ErrorClass;

/// Why a session has no way to its model.
#[derive(Debug, thiserror::Error)]
pub enum NoWay {
    #[error("the way to the model: {0}")]
    Client(#[from] reqwest::Error),
    #[error(transparent)]
    Account(#[from] AccountError),
}

impl NoWay {
    /// How a session without one ends.
    pub fn ending(&self) -> Ending {
        let class = match self {
            NoWay::Client(_) => ErrorClass::InvalidRequest,
            NoWay::Account(_) => ErrorClass::Auth,
        };
        Ending::failed(SessionState::Failed, class.as_str(), self.to_string())
    }
}

/// Opens the session's way to its model: behind the gateway the child's key is its own token. Without a gateway the
/// attempt stays as it is.
pub async fn through_gateway(
    inner: &Inner,
    mut attempt: Attempt,
    token: &Token,
    meter: &Meter,
) -> Result<(Attempt, Option<Link>), NoWay> {
    let parts = &inner.parts;
    let Some(gateway) = &parts.gateway else {
        meter.goes_past_gateway();
        return Ok((attempt, None));
    };
    let mut upstream = attempt.access.upstream.clone();
    if let Login::File(file) = &upstream.login {
        upstream.login = account::ready(file, &parts.credentials, &parts.settings.endpoints, &parts.clock).await?;
    }
    let link = gateway.open(attempt.id, upstream, meter.clone())?;
    attempt.access.put_behind(link.base_url(), token.expose().to_owned().into());
    Ok((attempt, Some(link)))
}

/// What happens beside the driving of a child, as long as that lasts: calls of its model are told of; it is ended when
/// the daemon stops, and when it goes on for `grace` after it was refused another call.
pub async fn beside(
    inner: &Inner,
    (id, trace): (SessionId, &TraceContext),
    link: Option<&mut Link>,
    ended_by: &CancellationToken,
    grace: Duration,
) -> Infallible {
    let Some(link) = link else {
        inner.killing.cancelled().await;
        ended_by.cancel();
        return std::future::pending().await;
    };
    let over = link.over_limit();
    let stubborn = async {
        over.await;
        tokio::time::sleep(grace).await;
    };
    tokio::pin!(stubborn);
    loop {
        tokio::select! {
            call = link.next_call() => tell_call(inner, (id, trace), call),
            () = inner.killing.cancelled(), if !ended_by.is_cancelled() => ended_by.cancel(),
            () = &mut stubborn, if !ended_by.is_cancelled() => ended_by.cancel(),
        }
    }
}

/// Puts what the gateway saw over what the child said, unless a person or the clock ended the session.
pub fn correct(
    inner: &Inner,
    (id, trace): (SessionId, &TraceContext),
    link: &mut Link,
    driven: &mut Driven,
    cancel: &CancellationToken,
) {
    link.rest().into_iter().for_each(|call| tell_call(inner, (id, trace), call));
    match driven.stopped {
        // Ended because it went on after a limit: the limit is the reason.
        Some(Stopped::Cancelled) if link.refused().is_some() && !cancel.is_cancelled() => driven.stopped = None,
        Some(_) => {
            link.count(&mut driven.outcome);
            return;
        }
        None => {}
    }
    link.correct(&mut driven.outcome);
}

fn tell_call(inner: &Inner, (id, trace): (SessionId, &TraceContext), call: ModelCall) {
    super::trace::model_call(inner, trace, &call);
    if let Some(failure) = &call.failure {
        let (class, message) = (failure.class.as_str(), failure.message.as_str());
        tracing::info!(session = %id, number = call.number, status = call.status, class, message, "a model call failed");
    }
    if call.not_allowed {
        inner.parts.metrics.model_call_refused();
    }
    let ModelCall { model, status, first_byte_ms, duration_ms, usage, failure, .. } = call;
    let error = failure.map(|f| f.message);
    inner.tell(id, EventKind::ModelCall { model, status, first_byte_ms, duration_ms, usage, error });
}
