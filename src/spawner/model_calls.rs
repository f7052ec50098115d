//! A session's calls of its model, where they go through the gateway.

use std::convert::Infallible;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::budget::{Limits, Meter};
use super::core::{Attempt, Inner};
use super::drive::{Driven, Stopped};
use super::gateway::{Link, ModelCall};
use super::types::EventKind;
use crate::access::Token;
use crate::base::SessionId;

/// Opens the session's way to its model: behind the gateway the child's key is its own token. Without a gateway the
/// attempt stays as it is.
pub fn through_gateway(
    inner: &Inner,
    mut attempt: Attempt,
    token: &Token,
) -> Result<(Attempt, Option<Link>), reqwest::Error> {
    let Some(gateway) = &inner.parts.gateway else { return Ok((attempt, None)) };
    let meter = Meter::new(Limits { turns: Some(inner.parts.config.sessions.max_turns), tokens: None });
    let link = gateway.open(attempt.id, attempt.access.upstream.clone(), meter)?;
    attempt.access = link.instead_of(&attempt.access, &token.expose().to_owned().into());
    Ok((attempt, Some(link)))
}

/// What happens beside the driving of a child, as long as that lasts: calls of its model are told of; it is ended when
/// the daemon stops, and when it goes on for `grace` after it was refused another call.
pub async fn beside(
    inner: &Inner,
    id: SessionId,
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
            call = link.next_call() => tell_call(inner, id, call),
            () = inner.killing.cancelled(), if !ended_by.is_cancelled() => ended_by.cancel(),
            () = &mut stubborn, if !ended_by.is_cancelled() => ended_by.cancel(),
        }
    }
}

/// Puts what the gateway saw over what the child said, but for an end that was somebody's wish or the clock's.
pub fn correct(inner: &Inner, id: SessionId, link: &mut Link, driven: &mut Driven, cancel: &CancellationToken) {
    link.rest().into_iter().for_each(|call| tell_call(inner, id, call));
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

fn tell_call(inner: &Inner, id: SessionId, call: ModelCall) {
    if let Some(failure) = &call.failure {
        let (class, message) = (failure.class.as_str(), failure.message.as_str());
        tracing::info!(session = %id, number = call.number, status = call.status, class, message, "a model call failed");
    }
    let ModelCall { model, status, first_byte_ms, duration_ms, usage, failure, .. } = call;
    let error = failure.map(|f| f.message);
    inner.tell(id, EventKind::ModelCall { model, status, first_byte_ms, duration_ms, usage, error });
}
