//! A request's body on its way to the upstream: passed on as it comes, within bounds.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde::Deserialize;
use tokio::time::Sleep;

use access::Refusal;
use base::task;
use mcp::{BODY_TIMEOUT, TOO_SLOW, body_refusal};

/// The pieces that have passed, and why no more did. They are kept, not copied, for as long as the call lasts.
#[derive(Clone, Default)]
pub(super) struct Seen {
    inner: Arc<Mutex<Pieces>>,
}

#[derive(Default)]
struct Pieces {
    pieces: Vec<Bytes>,
    refused: Option<Refusal>,
}

impl Seen {
    fn lock(&self) -> std::sync::MutexGuard<'_, Pieces> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the body ended before its end, if it did.
    pub fn refused(&self) -> Option<Refusal> {
        self.lock().refused.clone()
    }

    /// The model that the request names; known once all of it has passed.
    pub fn model(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct ModelField {
            model: Option<String>,
        }
        let text = self.lock().pieces.concat();
        serde_json::from_slice::<ModelField>(&text).ok()?.model
    }

    /// Lets the pieces go.
    pub fn forget(&self) {
        self.lock().pieces = Vec::new();
    }
}

/// The body itself. Dropped before its end, the rest is still read: a client that is refused while it speaks would
/// see a broken connection in the place of the refusal.
pub(super) struct RelayedBody {
    body: Option<Limited<Incoming>>,
    patience: Pin<Box<Sleep>>,
    seen: Seen,
}

impl RelayedBody {
    /// At most `most` bytes.
    pub fn new(body: Incoming, most: u64) -> Self {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        Self {
            body: Some(Limited::new(body, most)),
            patience: Box::pin(tokio::time::sleep(BODY_TIMEOUT)),
            seen: Seen::default(),
        }
    }

    pub fn seen(&self) -> Seen {
        self.seen.clone()
    }

    fn refuse(&mut self, why: Refusal) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        self.body = None;
        let message = why.message;
        self.seen.lock().refused = Some(why);
        Poll::Ready(Some(Err(message)))
    }
}

impl Body for RelayedBody {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let Poll::Ready(frame) = Pin::new(body).poll_frame(context) else {
            ready!(self.patience.as_mut().poll(context));
            return self.refuse(TOO_SLOW);
        };
        match frame {
            Some(Ok(frame)) => {
                if let Some(piece) = frame.data_ref() {
                    self.seen.lock().pieces.push(piece.clone());
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Err(e)) => self.refuse(body_refusal(&*e)),
            None => {
                self.body = None;
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(Body::size_hint).unwrap_or_else(|| SizeHint::with_exact(0))
    }
}

impl Drop for RelayedBody {
    fn drop(&mut self) {
        let Some(mut rest) = self.body.take().filter(|body| !body.is_end_stream()) else { return };
        task::spawn(task::Kind::Request, "rest-of-request", async move {
            let to_its_end = async { while let Some(Ok(_)) = rest.frame().await {} };
            let _ = tokio::time::timeout(BODY_TIMEOUT, to_its_end).await;
        });
    }
}
