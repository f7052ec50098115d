//! Routes: one for each session that runs, known by its session's token, gone with the session.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use llm_api::{ErrorClass, Failure};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::login::Login;
use super::types::{ModelCall, Upstream};
use crate::adapters::Outcome;
use crate::budget::Meter;
use base::SessionId;
use base::redact::household;

/// Calls of one session that may be under way at once. Programs make one, now and then a second for a side question.
const AT_ONCE: usize = 16;
/// Parts of a session's requests that were left out and are told of.
const MOST_TOLD: usize = 40;

/// All routes there are.
#[derive(Clone, Default)]
pub(super) struct Routes {
    live: Arc<RwLock<HashMap<SessionId, Arc<Route>>>>,
}

impl Routes {
    pub fn find(&self, session: SessionId) -> Option<Arc<Route>> {
        self.live.read().unwrap_or_else(|e| e.into_inner()).get(&session).cloned()
    }

    pub fn open(
        &self,
        session: SessionId,
        upstream: Upstream,
        client: reqwest::Client,
        meter: Meter,
        origin: &str,
    ) -> Link {
        let (calls, told) = mpsc::unbounded_channel();
        if let Login::Key(secret) | Login::Bearer(secret) = &upstream.login {
            household().hide(secret);
        }
        let route = Arc::new(Route {
            session,
            upstream,
            client,
            meter,
            calls,
            at_once: Arc::new(Semaphore::new(AT_ONCE)),
            count: AtomicU32::new(0),
            last: Mutex::default(),
            refused: watch::Sender::new(None),
            closed: CancellationToken::new(),
            left_out: Mutex::default(),
        });
        let base_url = route.upstream.family.base_url(origin);
        self.live.write().unwrap_or_else(|e| e.into_inner()).insert(session, route.clone());
        Link { routes: self.clone(), session, route, base_url, told }
    }
}

/// One session's way to its model.
pub(super) struct Route {
    pub session: SessionId,
    pub upstream: Upstream,
    pub client: reqwest::Client,
    pub meter: Meter,
    pub at_once: Arc<Semaphore>,
    /// The session is over: what is under way ends.
    pub closed: CancellationToken,
    calls: mpsc::UnboundedSender<ModelCall>,
    count: AtomicU32,
    /// How the newest call that ended did so.
    last: Mutex<Option<Failure>>,
    /// The first limit that a call was refused for.
    refused: watch::Sender<Option<Failure>>,
    /// What of its requests was left out, as far as it was told of.
    left_out: Mutex<BTreeSet<String>>,
}

impl Route {
    /// The number of the next call.
    pub fn number(&self) -> u32 {
        self.count.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The text without secrets of the household's, such as the login, which an upstream may quote as it refuses it.
    pub fn hide(&self, text: &[u8]) -> Vec<u8> {
        household().cleaned(text).unwrap_or_else(|| text.to_vec())
    }

    /// Tells of what was left out of a request, each once.
    pub fn left_out(&self, what: &BTreeSet<String>) {
        let mut told = self.left_out.lock().unwrap_or_else(|e| e.into_inner());
        for name in what {
            // A program that makes up names does not fill the log.
            if told.len() < MOST_TOLD && told.insert(name.clone()) {
                let name = base::text::truncate(&base::text::clean(name), 100);
                tracing::info!(session = %self.session, "left out of a session's requests to its model: {name}");
            }
        }
    }

    /// Remembers a call that was refused. Only the first is told of: a program that does not stop would fill what
    /// tells.
    pub fn refuse(&self, number: u32, path: &str, over: Failure) {
        let mut first = false;
        self.refused.send_if_modified(|slot| {
            first = slot.is_none();
            slot.get_or_insert_with(|| over.clone());
            first
        });
        if first {
            let failure = Some(over);
            self.tell(ModelCall { number, path: path.to_owned(), failure, ..ModelCall::default() });
        }
    }

    /// Notes how a call ended, and tells whoever keeps the session's story.
    pub fn ended(&self, call: ModelCall) {
        *self.last.lock().unwrap_or_else(|e| e.into_inner()) = call.failure.clone();
        self.tell(call);
    }

    fn tell(&self, call: ModelCall) {
        // An error means that the session is over already.
        let _ = self.calls.send(call);
    }
}

/// A session's end of its route. Dropped, the route is gone, and so is what was under way on it.
pub struct Link {
    routes: Routes,
    session: SessionId,
    route: Arc<Route>,
    base_url: String,
    told: mpsc::UnboundedReceiver<ModelCall>,
}

impl Link {
    /// The base address for the child's client of the session's API.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// The next call that has ended.
    pub async fn next_call(&mut self) -> ModelCall {
        match self.told.recv().await {
            Some(call) => call,
            // The route, whose sender it is, lives as long as this.
            None => std::future::pending().await,
        }
    }

    /// The calls that have ended and were not taken yet.
    pub fn rest(&mut self) -> Vec<ModelCall> {
        std::iter::from_fn(|| self.told.try_recv().ok()).collect()
    }

    /// Returns once a call was refused because of a limit.
    pub fn over_limit(&self) -> impl Future<Output = ()> + use<> {
        let mut refused = self.route.refused.subscribe();
        async move {
            if refused.wait_for(Option::is_some).await.is_err() {
                std::future::pending().await
            }
        }
    }

    /// The limit that ended the session, if one did.
    pub fn refused(&self) -> Option<Failure> {
        self.route.refused.borrow().clone()
    }

    /// Puts the tokens and turns that the gateway counted over those that the program says of itself.
    pub fn count(&self, outcome: &mut Outcome) {
        let spent = self.route.meter.spent();
        outcome.usage = spent.usage;
        outcome.turns = Some(spent.turns);
    }

    /// Puts what the gateway saw over what the program says of itself: what it counted; a limit that was reached; and
    /// the cause of a failure of which the program knows only that its model call failed.
    pub fn correct(&self, outcome: &mut Outcome) {
        self.count(outcome);
        if let Some(over) = self.refused() {
            outcome.ok = false;
            outcome.error = Some(over);
            return;
        }
        let last = self.route.last.lock().unwrap_or_else(|e| e.into_inner()).clone();
        // A call that the program itself gave up, by dying for one, is no reason for anything.
        if let (Some(error), Some(failure)) = (&outcome.error, last)
            && of_the_model(error.class)
            && failure.class != ErrorClass::Cancelled
        {
            outcome.error = Some(failure);
        }
    }
}

/// Whether a program that reports this may mean a failed model call. A crash may: some say nothing else.
fn of_the_model(class: ErrorClass) -> bool {
    match class {
        ErrorClass::Auth
        | ErrorClass::RateLimited
        | ErrorClass::Overloaded
        | ErrorClass::ModelUnreachable
        | ErrorClass::ContextTooLong
        | ErrorClass::Budget
        | ErrorClass::InvalidRequest
        | ErrorClass::TimedOut
        | ErrorClass::Crashed => true,
        ErrorClass::Turns
        | ErrorClass::Runaway
        | ErrorClass::OutputLimit
        | ErrorClass::Refused
        | ErrorClass::McpUnreachable
        | ErrorClass::ProgramMissing
        | ErrorClass::Killed
        | ErrorClass::Cancelled => false,
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.routes.live.write().unwrap_or_else(|e| e.into_inner()).remove(&self.session);
        self.route.closed.cancel();
    }
}
