//! A request's body: read whole, within bounds, before anything is asked of the upstream.

use bytes::Bytes;
use http_body::Body;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;

use access::Refusal;
use base::task;
use mcp::{BODY_TIMEOUT, TOO_SLOW, body_refusal};

/// The body itself. Dropped before its end, the rest is still read: a client that is refused while it speaks would
/// see a broken connection in the place of the refusal.
pub(super) struct RequestBody {
    body: Option<Limited<Incoming>>,
}

impl RequestBody {
    /// At most `most` bytes.
    pub fn new(body: Incoming, most: u64) -> Self {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        Self { body: Some(Limited::new(body, most)) }
    }

    /// All of it.
    pub async fn whole(mut self) -> Result<Bytes, Refusal> {
        let Some(body) = &mut self.body else { return Ok(Bytes::new()) };
        let read = async {
            let mut pieces = Vec::new();
            while let Some(frame) = body.frame().await {
                if let Ok(piece) = frame.map_err(|e| body_refusal(&*e))?.into_data() {
                    pieces.push(piece);
                }
            }
            Ok(Bytes::from(pieces.concat()))
        };
        let read = tokio::time::timeout(BODY_TIMEOUT, read).await.unwrap_or(Err(TOO_SLOW));
        if read.is_ok() {
            self.body = None;
        }
        read
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let Some(mut rest) = self.body.take().filter(|body| !body.is_end_stream()) else { return };
        task::spawn(task::Kind::Request, "rest-of-request", async move {
            let to_its_end = async { while let Some(Ok(_)) = rest.frame().await {} };
            let _ = tokio::time::timeout(BODY_TIMEOUT, to_its_end).await;
        });
    }
}
