//! Who may hold a connection of one port open.
//!
//! A connection is *proven* once a request on it brought a valid token. Until then it is anybody's: it gets little time,
//! and when there are too many of them the one that has been there longest gives way to the next that comes. So whoever
//! opens connections without a token, idle or a byte at a time, takes them from himself. Proven ones that wait for their
//! next request give way as well. A session's token opens only so many requests at a time: one session that was led
//! astray takes no butler away from the others.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Extensions, StatusCode};
use http_body::{Body, Frame, SizeHint};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use access::{Grant, Holder, Refusal};
use base::SessionId;

/// How many there may be, and for how long.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Unproven connections of a port.
    unproven: usize,
    /// Its proven ones.
    proven: usize,
    /// Requests of one session that are being answered on it.
    of_session: u32,
    /// So long an unproven connection stays even where others wait: its first request may be on the way.
    grace: Duration,
    /// So long it may take to send the head of its first request.
    first_head: Duration,
    /// So long it may stay without a token, but for the time in which a request of its is answered.
    unproven_life: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // A new connection waits for the grace of the oldest at most, however large the crowd without a token is: a
            // queue of the kernel's that is as long as this gives way within one grace.
            unproven: 1024,
            proven: 512,
            of_session: 64,
            grace: Duration::from_millis(100),
            first_head: Duration::from_secs(5),
            unproven_life: Duration::from_secs(10),
        }
    }
}

const TOO_MANY: Refusal = Refusal::new(
    StatusCode::SERVICE_UNAVAILABLE,
    "too_many_connections",
    "Too many requests are under way on this port. Try again in a moment.",
);
const TOO_MANY_OF_SESSION: Refusal = Refusal::new(
    StatusCode::TOO_MANY_REQUESTS,
    "too_many_requests",
    "This session has too many requests under way at once. Wait for their answers.",
);

/// The connections of one port.
#[derive(Clone, Default)]
pub(super) struct Connections {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    limits: Limits,
    open: Mutex<Open>,
    /// One has gone, or was proven.
    room: Notify,
}

#[derive(Default)]
struct Open {
    /// By number, which is the order in which they came.
    seats: BTreeMap<u64, Seat>,
    next: u64,
    unproven: usize,
    /// The unproven ones of which no request is being answered: who gives way is looked up for each one that comes.
    quiet: BTreeSet<u64>,
    /// How many requests of each session are being answered.
    sessions: HashMap<SessionId, u32>,
}

/// What is known of one connection.
struct Seat {
    proven: bool,
    /// Requests that are being answered.
    busy: u32,
    /// When it came, or when its last answer ended.
    since: Instant,
    leaves: CancellationToken,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn remove(&mut self, number: u64) -> Option<Seat> {
        let seat = self.seats.remove(&number)?;
        self.unproven -= usize::from(!seat.proven);
        self.quiet.remove(&number);
        Some(seat)
    }

    /// The unproven connection that has been here longest; those whose request is being answered come last.
    fn oldest_unproven(&self) -> Option<(u64, Instant)> {
        let quiet = self.quiet.first().copied();
        let number = quiet.or_else(|| self.seats.iter().find(|(_, seat)| !seat.proven).map(|(number, _)| *number))?;
        self.seats.get(&number).map(|seat| (number, seat.since))
    }

    /// The proven connection that has waited longest for its next request.
    fn idlest_proven(&self) -> Option<u64> {
        let idle = self.seats.iter().filter(|(_, seat)| seat.proven && seat.busy == 0);
        idle.min_by_key(|(_, seat)| seat.since).map(|(number, _)| *number)
    }

    fn send_away(&mut self, number: u64) {
        if let Some(seat) = self.remove(number) {
            seat.leaves.cancel();
        }
    }
}

impl Connections {
    /// Makes room for a connection that was accepted. Waits no longer than an unproven one's grace.
    pub async fn enter(&self) -> Connection {
        let Limits { unproven: most, grace, .. } = self.shared.limits;
        loop {
            let room = self.shared.room.notified();
            let wait_until = {
                let mut open = self.shared.lock();
                if open.unproven < most {
                    return self.seat(&mut open);
                }
                match open.oldest_unproven() {
                    None => return self.seat(&mut open),
                    Some((number, since)) if since.elapsed() >= grace => {
                        open.send_away(number);
                        return self.seat(&mut open);
                    }
                    Some((_, since)) => since + grace,
                }
            };
            tokio::select! {
                () = room => {}
                () = sleep_until(wait_until) => {}
            }
        }
    }

    fn seat(&self, open: &mut Open) -> Connection {
        let (number, since, leaves) = (open.next, Instant::now(), CancellationToken::new());
        open.next += 1;
        open.unproven += 1;
        open.quiet.insert(number);
        open.seats.insert(number, Seat { proven: false, busy: 0, since, leaves: leaves.clone() });
        Connection { shared: self.shared.clone(), number, since, leaves, flags: Arc::default() }
    }

    /// Sends one away that was not proven: the system has no descriptor left for the next.
    pub fn make_room(&self) {
        let mut open = self.shared.lock();
        if let Some((number, _)) = open.oldest_unproven() {
            open.send_away(number);
        }
    }
}

/// One connection. Dropped, its place is free.
pub(super) struct Connection {
    shared: Arc<Shared>,
    number: u64,
    since: Instant,
    leaves: CancellationToken,
    flags: Arc<Flags>,
}

/// What has happened on a connection, whether or not it still has its place.
#[derive(Default)]
struct Flags {
    /// A request's head has come.
    asked: AtomicBool,
    /// A token has come.
    proven: AtomicBool,
}

/// How a connection is to end before its client ends it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Leave {
    /// At once: no token was ever seen on it.
    Now,
    /// After the answer that is under way, if there is one.
    AfterAnswer,
}

impl Connection {
    /// Returns when the connection has to go.
    pub async fn leave(&self) -> Leave {
        self.leaves.run_until_cancelled(self.overdue()).await;
        if self.flags.proven.load(Ordering::Relaxed) { Leave::AfterAnswer } else { Leave::Now }
    }

    /// Returns when the connection has had its time without a token.
    async fn overdue(&self) {
        let Limits { grace, first_head, unproven_life, .. } = self.shared.limits;
        sleep_until(self.since + first_head).await;
        if !self.flags.asked.load(Ordering::Relaxed) {
            return;
        }
        let mut end = self.since + unproven_life;
        loop {
            sleep_until(end).await;
            if self.flags.proven.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
            if !self.is_busy() {
                return;
            }
            end = Instant::now() + grace;
        }
    }

    /// Whether a request of its is being answered.
    pub fn is_busy(&self) -> bool {
        self.shared.lock().seats.get(&self.number).is_some_and(|seat| seat.busy > 0)
    }

    /// A request's head has come. Its answer is over when the last of what this returns is dropped.
    pub fn begin(&self) -> Busy {
        self.flags.asked.store(true, Ordering::Relaxed);
        let mut open = self.shared.lock();
        if let Some(seat) = open.seats.get_mut(&self.number) {
            seat.busy += 1;
            open.quiet.remove(&self.number);
        }
        drop(open);
        let (shared, flags) = (self.shared.clone(), self.flags.clone());
        Busy { answering: Arc::new(Answering { shared, number: self.number, session: Mutex::default(), flags }) }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.lock().remove(self.number);
        self.shared.room.notify_one();
    }
}

/// A request that is being answered; in the request's extensions, and beside the answer's body.
#[derive(Clone)]
pub(super) struct Busy {
    answering: Arc<Answering>,
}

struct Answering {
    shared: Arc<Shared>,
    number: u64,
    /// Whose token it brought, if it was a session's.
    session: Mutex<Option<SessionId>>,
    flags: Arc<Flags>,
}

impl Busy {
    fn prove(&self, grant: &Arc<Grant>) -> Result<(), Refusal> {
        let answering = &self.answering;
        let mut open = answering.shared.lock();
        if let Holder::Session { session, .. } = &grant.holder {
            let mut own = answering.session.lock().unwrap_or_else(PoisonError::into_inner);
            let count = open.sessions.entry(*session).or_default();
            if own.is_none() {
                if *count >= answering.shared.limits.of_session {
                    return Err(TOO_MANY_OF_SESSION);
                }
                *count += 1;
                *own = Some(*session);
            }
        }
        let proven = open.seats.len() - open.unproven;
        match open.seats.get(&answering.number) {
            Some(seat) if seat.proven => return Ok(()),
            Some(_) => {}
            // It had to make room just now.
            None => return Err(TOO_MANY),
        }
        if proven >= answering.shared.limits.proven {
            let idlest = open.idlest_proven().ok_or(TOO_MANY)?;
            open.send_away(idlest);
        }
        if let Some(seat) = open.seats.get_mut(&answering.number) {
            seat.proven = true;
            open.unproven -= 1;
            answering.flags.proven.store(true, Ordering::Relaxed);
        }
        drop(open);
        answering.shared.room.notify_one();
        Ok(())
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let mut open = self.shared.lock();
        if let Some(seat) = open.seats.get_mut(&self.number) {
            seat.busy = seat.busy.saturating_sub(1);
            seat.since = if seat.proven { Instant::now() } else { seat.since };
            if !seat.proven && seat.busy == 0 {
                open.quiet.insert(self.number);
            }
        }
        let session = self.session.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(session) = session
            && let Some(count) = open.sessions.get_mut(&session)
        {
            *count -= 1;
            if *count == 0 {
                open.sessions.remove(&session);
            }
        }
    }
}

/// Says that this request brought the token of `grant`. Whoever authenticates a request says so before it reads the body.
/// `Err`: there is no place for another request just now.
pub fn prove(request: &Extensions, grant: &Arc<Grant>) -> Result<(), Refusal> {
    // Requests that came over no connection of a port have none to prove.
    request.get::<Busy>().map_or(Ok(()), |busy| busy.prove(grant))
}

/// An answer's body. Its request is over when this is dropped.
pub(super) struct AnswerBody<B> {
    inner: Pin<Box<B>>,
    _busy: Busy,
}

impl<B> AnswerBody<B> {
    pub fn new(body: B, busy: Busy) -> Self {
        Self { inner: Box::pin(body), _busy: busy }
    }
}

impl<B: Body> Body for AnswerBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        self.inner.as_mut().poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A port for a few, on which everything that waits has waited long enough.
    fn impatient() -> Connections {
        let none = Duration::ZERO;
        let limits =
            Limits { unproven: 3, proven: 3, of_session: 2, grace: none, first_head: none, unproven_life: none };
        Connections { shared: Arc::new(Shared { limits, ..Shared::default() }) }
    }

    fn grant(holder: Holder) -> Arc<Grant> {
        let tenant = base::TenantId::owner();
        Arc::new(Grant {
            holder,
            tenant,
            butler: None,
            tools: None,
            scopes: Default::default(),
            ends: Default::default(),
            expires_at: None,
        })
    }

    fn session() -> Arc<Grant> {
        let clock = base::Clock::default();
        let context =
            base::RequestContext::root(&clock, base::TenantId::owner(), "cli", "local", "owner", base::Trust::Owner);
        grant(Holder::Session {
            session: SessionId::new(),
            context: Arc::new(context),
            tools_seen: Default::default(),
            tools_shown: Default::default(),
            calls: Arc::new(access::CallGuard::new(100, |_| {})),
            taint: Default::default(),
        })
    }

    fn proof(busy: &Busy, grant: &Arc<Grant>) -> Result<(), Refusal> {
        let mut extensions = Extensions::new();
        extensions.insert(busy.clone());
        prove(&extensions, grant)
    }

    fn gone(open: &[Connection]) -> Vec<usize> {
        (0..open.len()).filter(|n| open[*n].leaves.is_cancelled()).collect()
    }

    #[tokio::test]
    async fn the_oldest_without_a_token_gives_way() {
        let connections = impatient();
        let mut open = Vec::new();
        for _ in 0..3 {
            open.push(connections.enter().await);
        }
        // It was there first, and has a token; the next one is being answered.
        proof(&open[0].begin(), &grant(Holder::Daemon)).unwrap();
        let _busy = open[1].begin();
        open.push(connections.enter().await);
        assert_eq!(gone(&open), [0; 0], "there was room");
        open.push(connections.enter().await);
        assert_eq!(gone(&open), [2]);
        assert_eq!(open[2].leave().await, Leave::Now);
        open.push(connections.enter().await);
        assert_eq!(gone(&open), [2, 3]);
        // Out of descriptors: one more goes.
        connections.make_room();
        assert_eq!(gone(&open), [2, 3, 4]);
    }

    #[tokio::test]
    async fn a_full_port_waits_for_room_no_longer_than_a_moment() {
        let grace = Duration::from_millis(30);
        let limits = Limits { unproven: 1, grace, ..Limits::default() };
        let connections = Connections { shared: Arc::new(Shared { limits, ..Shared::default() }) };
        let first = connections.enter().await;
        let begun = Instant::now();
        let second = connections.enter().await;
        assert!(begun.elapsed() >= grace / 2 && first.leaves.is_cancelled(), "{:?}", begun.elapsed());
        // One that goes by itself makes room at once.
        drop((first, second));
        let limits = Limits { grace: Duration::from_secs(3600), ..limits };
        let connections = Connections { shared: Arc::new(Shared { limits, ..Shared::default() }) };
        let only = connections.enter().await;
        let waiting = connections.enter();
        tokio::pin!(waiting);
        assert!(futures_util::poll!(waiting.as_mut()).is_pending());
        drop(only);
        assert!(futures_util::poll!(waiting.as_mut()).is_ready());
    }

    #[tokio::test]
    async fn time_without_a_token_ends() {
        let connections = impatient();
        let idle = connections.enter().await;
        assert_eq!(idle.leave().await, Leave::Now);
        let asking = connections.enter().await;
        drop(asking.begin());
        assert_eq!(asking.leave().await, Leave::Now);
        let proven = connections.enter().await;
        proof(&proven.begin(), &grant(Holder::Daemon)).unwrap();
        assert!(tokio::time::timeout(Duration::from_millis(30), proven.leave()).await.is_err());
    }

    #[tokio::test]
    async fn the_idlest_with_a_token_gives_way_and_who_is_being_answered_does_not() {
        let connections = impatient();
        let daemon = grant(Holder::Daemon);
        let (mut open, mut busy) = (Vec::new(), Vec::new());
        for n in 0..3 {
            open.push(connections.enter().await);
            let answering = open[n].begin();
            proof(&answering, &daemon).unwrap();
            busy.push(answering);
        }
        let next = connections.enter().await;
        assert_eq!(proof(&next.begin(), &daemon), Err(TOO_MANY));
        busy.remove(1);
        assert_eq!(proof(&next.begin(), &daemon), Ok(()));
        assert_eq!((gone(&open), open[1].leave().await), (vec![1], Leave::AfterAnswer));
    }

    #[tokio::test]
    async fn one_session_takes_no_port_from_the_others() {
        let connections = impatient();
        let (one, other) = (session(), session());
        let connection = connections.enter().await;
        let busy: Vec<Busy> = (0..3).map(|_| connection.begin()).collect();
        assert_eq!((proof(&busy[0], &one), proof(&busy[1], &one)), (Ok(()), Ok(())));
        assert_eq!(proof(&busy[0], &one), Ok(()), "it is counted once");
        assert_eq!(proof(&busy[2], &one), Err(TOO_MANY_OF_SESSION));
        assert_eq!(proof(&busy[2], &other), Ok(()));
        drop(busy);
        assert_eq!(proof(&connection.begin(), &one), Ok(()));
    }
}
