//! Reads one answer as it passes, and settles its call exactly once, however it ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use llm_api::{Api, ErrorClass, Failure, Reading};
use tokio::sync::OwnedSemaphorePermit;

use super::routes::Route;
use super::types::ModelCall;
use crate::budget::Sum;
use base::SseReader;

/// The largest answer in one piece that is read for what it used. A larger one passes all the same.
const LARGEST_DOCUMENT: usize = 16 << 20;

/// One call under way. Dropped before its answer is whole, it counts as given up by the child.
pub(super) struct Tally {
    route: Arc<Route>,
    pub api: Api,
    call: ModelCall,
    begun: Instant,
    reader: Reader,
    said: Reading,
    /// Bytes that are still to come, where the answer's head said how many.
    left: Option<u64>,
    settled: bool,
    /// Whether the request may have reached a model that worked on it.
    under_way: bool,
    /// What it has reserved of its limits.
    open: Option<Sum>,
    _permit: OwnedSemaphorePermit,
}

enum Reader {
    Events(SseReader),
    Document(Vec<u8>),
    /// More than can be read.
    Nothing,
}

impl Tally {
    pub fn new(route: Arc<Route>, api: Api, call: ModelCall, permit: OwnedSemaphorePermit) -> Self {
        Self {
            route,
            api,
            call,
            begun: Instant::now(),
            reader: Reader::Nothing,
            said: Reading::default(),
            left: None,
            settled: false,
            under_way: false,
            open: None,
            _permit: permit,
        }
    }

    fn ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// The request was read: the model that it names, where its path names none.
    pub fn asks(&mut self, model: Option<String>) {
        self.call.model = self.call.model.take().or(model);
    }

    /// Reserves what the call may come to, for its request has so many bytes and lets its answer have so many tokens.
    /// `Err`: it must not be sent, and never was a call.
    pub async fn reserve(&mut self, request: usize, answer: Option<u64>, patience: Duration) -> Result<(), Failure> {
        let (meter, model) = (&self.route.meter, self.call.model.as_deref());
        let reserved = match meter.has_price(model) {
            Ok(()) => meter.reserve(meter.at_most(model, request, answer), patience).await,
            Err(unpriced) => Err(unpriced),
        };
        match reserved {
            Ok(open) => self.open = Some(open),
            Err(over) => {
                // No limit is reached: its client may try again, and the session goes on.
                if over.class == ErrorClass::Overloaded {
                    self.settle(Some(over.clone()));
                    return Err(over);
                }
                self.settled = true;
                meter.take_back(None);
                self.route.refuse(self.call.number, &self.call.path, over.clone());
                return Err(over);
            }
        }
        Ok(())
    }

    /// The request is sent: from here on the model may work on it.
    pub fn sent(&mut self) {
        self.under_way = true;
    }

    /// There was no connection, and so no model that worked on it.
    pub fn not_sent(&mut self) {
        self.under_way = false;
    }

    /// It asks for something that a session may not ask.
    pub fn not_allowed(&mut self, message: &str) {
        self.call.not_allowed = true;
        self.fail(ErrorClass::InvalidRequest, message);
    }

    /// The answer's head has come.
    pub fn head(&mut self, status: StatusCode, headers: &HeaderMap) {
        let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok());
        self.call.status = Some(status.as_u16());
        // What an endpoint refuses no model works on.
        self.under_way = status.is_success();
        let id = ["request-id", "x-request-id"].iter().find_map(|name| text(name));
        self.call.request_id = id.map(|id| base::text::truncate(id, 100));
        self.left = text(CONTENT_LENGTH.as_str()).and_then(|n| n.parse().ok());
        let events = text(CONTENT_TYPE.as_str()).is_some_and(|t| t.starts_with("text/event-stream"));
        self.reader = if events { Reader::Events(SseReader::default()) } else { Reader::Document(Vec::new()) };
    }

    /// A piece of the answer, before it goes on: what it says counts before the child can act on it.
    pub fn piece(&mut self, bytes: &Bytes) {
        if self.call.first_byte_ms.is_none() {
            self.call.first_byte_ms = Some(self.ms());
        }
        if self.settled {
            return;
        }
        match &mut self.reader {
            Reader::Events(sse) => match sse.push(bytes) {
                Ok(events) => events.iter().for_each(|event| self.said.event(self.api, event)),
                Err(_) => self.reader = Reader::Nothing,
            },
            Reader::Document(all) if all.len() + bytes.len() <= LARGEST_DOCUMENT => all.extend_from_slice(bytes),
            Reader::Document(_) => self.reader = Reader::Nothing,
            Reader::Nothing => {}
        }
        self.left = self.left.map(|left| left.saturating_sub(bytes.len() as u64));
        if self.said.over || self.left == Some(0) {
            self.complete();
        }
    }

    /// All of the answer has passed.
    pub fn complete(&mut self) {
        match std::mem::replace(&mut self.reader, Reader::Nothing) {
            Reader::Events(sse) => {
                if let Some(event) = sse.finish() {
                    self.said.event(self.api, &event);
                }
                if !self.said.whole && self.said.failure.is_none() {
                    return self.fail(ErrorClass::ModelUnreachable, "the model's answer broke off before its end");
                }
            }
            Reader::Document(all) => {
                if let Ok(data) = serde_json::from_slice(&all) {
                    self.said.document(self.api, &data);
                }
            }
            Reader::Nothing => {}
        }
        self.settle(None);
    }

    /// It ends as a failure of ours or of the way there.
    pub fn fail(&mut self, class: ErrorClass, message: impl Into<String>) {
        self.settle(Some(Failure::new(class, message)));
    }

    /// It ends as an error that the upstream answered with. Nothing was used.
    pub fn refused(&mut self, status: StatusCode, body: &[u8]) {
        let Failure { class, message } = Failure::of_answer(status.as_u16(), body);
        self.fail(class, format!("the model's endpoint answered {}: {message}", status.as_u16()));
    }

    fn settle(&mut self, failure: Option<Failure>) {
        if std::mem::replace(&mut self.settled, true) {
            return;
        }
        let said = std::mem::take(&mut self.said);
        // Some upstreams answer an error as if it were a success, before a model has begun.
        let declined = said.failure.is_some() && said.model.is_none();
        self.call.duration_ms = self.ms();
        self.call.usage = said.usage;
        self.call.failure = failure.or(said.failure);
        let model = said.model.or_else(|| self.call.model.take());
        // A call that the upstream failed is no turn of the conversation: its client tries again. One that was given up,
        // by the client or for its time, is, or it could have answers that nobody counts; but not one that met no model.
        let given_up = |f: &Failure| matches!(f.class, ErrorClass::Cancelled | ErrorClass::TimedOut) && self.under_way;
        let failed = self.call.failure.as_ref().is_some_and(|f| !given_up(f));
        let (meter, named) = (&self.route.meter, model.as_deref().unwrap_or_default());
        let said_all = said.whole && self.call.usage.total() > 0;
        if self.under_way && self.call.failure.is_some() && !said_all {
            meter.uncounted(named);
        }
        if self.under_way && self.call.status.is_some() && !said_all && !declined {
            meter.unseen(named, self.call.usage, self.open);
        }
        if failed && self.call.usage.total() == 0 {
            meter.take_back(self.open);
        } else {
            meter.used(named, self.call.usage, self.open);
        }
        self.call.model = model;
        self.route.ended(std::mem::take(&mut self.call));
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        if self.settled {
            return;
        }
        // With a declared length the last byte may be the last that is asked for; here something is missing.
        if self.said.whole {
            self.complete();
        } else {
            self.fail(ErrorClass::Cancelled, "the session's program gave the request up before its answer was whole");
        }
    }
}
