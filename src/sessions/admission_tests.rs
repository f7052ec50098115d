use super::*;

fn admission(permits: &SessionPermits, name: &str, most: usize, max_queued: usize) -> Admission {
    Admission::new(name, most, max_queued, permits.clone(), CancellationToken::new())
}

fn alone(most: usize, max_queued: usize) -> Admission {
    admission(&SessionPermits::new(10), "health", most, max_queued)
}

async fn slot(a: &Admission) -> Slot {
    a.enter(Urgency::Owner, false).unwrap().wait().await.unwrap()
}

/// Whether the place has been given its slot.
fn called(place: &mut Place) -> bool {
    match &mut place.seat {
        Seat::Ready(_) => true,
        Seat::Queue(_, called) => !called.is_empty(),
    }
}

#[tokio::test]
async fn the_queue_is_bounded_and_first_come_first_served() {
    let a = alone(1, 1);
    let first = slot(&a).await;
    let second = a.enter(Urgency::Owner, false).unwrap();
    assert_eq!((a.running(), a.queued()), (1, 1));
    assert!(matches!(a.enter(Urgency::Owner, false), Err(TriggerError::Capacity { running: 1, queued: 1, .. })));
    drop(first);
    // The slot is the second's already, before it looks.
    assert_eq!((a.running(), a.queued()), (1, 0));
    let third = a.enter(Urgency::Owner, false).unwrap();
    drop(second.wait().await.unwrap());
    drop(third.wait().await.unwrap());
    assert_eq!((a.running(), a.queued()), (0, 0));
}

#[tokio::test]
async fn whoever_leaves_the_queue_gives_its_slot_back() {
    let a = alone(1, 5);
    let first = slot(&a).await;
    let (left, mut stays) = (a.enter(Urgency::Owner, false).unwrap(), a.enter(Urgency::Owner, false).unwrap());
    let late = a.enter(Urgency::Owner, false).unwrap();
    drop(late);
    assert_eq!(a.queued(), 2);
    // Called, and gone before it took the slot.
    drop(first);
    drop(left);
    assert!(called(&mut stays));
    drop(stays);
    assert_eq!((a.running(), a.queued()), (0, 0));
}

#[tokio::test]
async fn a_butler_is_idle_since_its_last_session_or_trigger_went() {
    let permits = SessionPermits::new(10);
    let (a, other) = (admission(&permits, "health", 1, 5), admission(&permits, "travel", 1, 5));
    assert!(a.idle_for().is_some(), "nothing has been yet");
    let (first, busy) = (slot(&a).await, slot(&other).await);
    assert_eq!(a.idle_for(), None);
    let waits = a.enter(Urgency::Owner, false).unwrap();
    let before = Instant::now();
    drop(first);
    assert_eq!(a.idle_for(), None, "the slot is the next one's");
    drop(waits);
    assert!(a.idle_for().is_some_and(|idle| idle <= before.elapsed()), "it counts from the last one");
    assert_eq!(other.idle_for(), None, "each butler has its own");
    drop(busy);
}

#[tokio::test]
async fn a_session_never_waits_for_a_slot() {
    let a = alone(1, 5);
    let held = slot(&a).await;
    assert!(matches!(a.enter(Urgency::Owner, true), Err(TriggerError::SelfWait { .. })));
    assert_eq!(a.queued(), 0);
    drop(held);
    // Nor for the household's last permit.
    let permits = SessionPermits::new(1);
    let (a, b) = (admission(&permits, "health", 5, 5), admission(&permits, "general", 5, 5));
    let _held = slot(&a).await;
    assert!(matches!(a.enter(Urgency::Owner, true), Err(TriggerError::SelfWait { .. })));
    assert!(matches!(b.enter(Urgency::Owner, true), Err(TriggerError::SelfWait { .. })));
    assert_eq!((a.running(), b.running()), (1, 0));
}

#[tokio::test]
async fn stopping_ends_the_wait() {
    let stop = CancellationToken::new();
    let a = Admission::new("health", 1, 5, SessionPermits::new(1), stop.clone());
    let _held = slot(&a).await;
    let waiting = a.enter(Urgency::Owner, false).unwrap();
    stop.cancel();
    assert!(matches!(waiting.wait().await, Err(TriggerError::Stopping(_))));
    assert!(matches!(a.enter(Urgency::Owner, false), Err(TriggerError::Stopping(_))));
    assert_eq!(a.queued(), 0);
}

#[tokio::test]
async fn the_owner_goes_before_schedules_and_these_before_housekeeping() {
    let permits = SessionPermits::new(2);
    let (a, b) = (admission(&permits, "health", 2, 9), admission(&permits, "general", 2, 9));
    let held = [slot(&a).await, slot(&b).await];
    let trigger = |a: &Admission, urgency| a.enter(urgency, false).unwrap();
    let mut tidy = trigger(&a, Urgency::Housekeeping);
    let mut cron = trigger(&a, Urgency::Schedule);
    let mut guest = trigger(&b, Urgency::Others);
    let mut owner = trigger(&a, Urgency::Owner);
    let [one, two] = held;
    drop(two);
    assert_eq!([&mut tidy, &mut cron, &mut guest, &mut owner].map(called), [false, false, false, true]);
    drop(one);
    assert_eq!([&mut tidy, &mut cron, &mut guest].map(called), [false, false, true]);
    drop(owner.wait().await.unwrap());
    assert_eq!([&mut tidy, &mut cron].map(called), [false, true]);
    // Housekeeping leaves the last free permit to somebody who may come.
    drop(guest.wait().await.unwrap());
    assert!(!called(&mut tidy));
    let _owner = slot(&b).await;
    drop(cron.wait().await.unwrap());
    assert!(!called(&mut tidy));
    drop(_owner);
    assert!(called(&mut tidy));
}

#[tokio::test]
async fn a_butler_with_a_long_queue_does_not_keep_the_others_out() {
    let permits = SessionPermits::new(2);
    let (busy, quiet) = (admission(&permits, "busy", 2, 100), admission(&permits, "quiet", 2, 100));
    let (one, two) = (slot(&busy).await, slot(&busy).await);
    let mut crowd: Vec<Place> = (0..50).map(|_| busy.enter(Urgency::Owner, false).unwrap()).collect();
    let mut late = quiet.enter(Urgency::Owner, false).unwrap();
    drop(one);
    assert!(called(&mut late), "the butler with nothing running is next");
    assert_eq!((busy.running(), quiet.running()), (1, 1));
    drop(two);
    assert_eq!(crowd.iter_mut().map(called).filter(|c| *c).count(), 1);
    // Its own bound holds whatever is free.
    drop(late.wait().await.unwrap());
    assert_eq!(busy.running(), 2);
}

#[tokio::test]
async fn nobody_waits_for_ever() {
    let a = alone(1, 9);
    let _held = slot(&a).await;
    let _cron = a.enter(Urgency::Schedule, false).unwrap();
    let _owner = a.enter(Urgency::Owner, false).unwrap();
    let _guest = a.enter(Urgency::Stranger, false).unwrap();
    let next = |after: Duration| {
        let mut state = a.permits.lock();
        state.running = 0;
        state.butlers[a.quota].running = 0;
        let at = state.first(Instant::now() + after).unwrap();
        (state.running, state.butlers[a.quota].running) = (1, 1);
        state.waiting[at].urgency
    };
    assert_eq!(next(Duration::ZERO), Urgency::Owner);
    assert_eq!(next(PATIENCE * 2), Urgency::Schedule);
    // What is to go before all messages does, but not for ever.
    let _memory = a.enter(Urgency::First, false).unwrap();
    assert_eq!(next(PATIENCE * 2), Urgency::First);
    assert_eq!(next(PATIENCE * 5), Urgency::Schedule);
    a.permits.lock().waiting.retain(|w| [Urgency::Owner, Urgency::Stranger].contains(&w.urgency));
    assert_eq!(next(PATIENCE * 4), Urgency::Owner, "a stranger does not wait himself up to the owner");
}

#[tokio::test]
async fn those_from_outside_leave_the_last_permit_to_the_owner() {
    for outside in [Urgency::Known, Urgency::Stranger] {
        // Of the butler.
        let permits = SessionPermits::new(10);
        let a = admission(&permits, "health", 3, 9);
        let mut guests: Vec<Place> = (0..3).map(|_| a.enter(outside, false).unwrap()).collect();
        assert_eq!(guests.iter_mut().map(called).filter(|called| *called).count(), 2, "{outside:?}");
        let mut owner = a.enter(Urgency::Owner, false).unwrap();
        assert!(called(&mut owner));
        drop(owner);
        assert!(!called(&mut guests[2]), "it waits for one of its own to end");
        // Of the household.
        let permits = SessionPermits::new(2);
        let (a, b) = (admission(&permits, "health", 5, 9), admission(&permits, "general", 5, 9));
        let _guest = a.enter(outside, false).unwrap();
        assert!(!called(&mut b.enter(outside, false).unwrap()), "{outside:?}");
        assert!(called(&mut b.enter(Urgency::Owner, false).unwrap()));
    }
    // Where there is one permit, nobody is kept out; the owner goes first.
    let a = alone(1, 9);
    let held = a.enter(Urgency::Stranger, false).unwrap().wait().await.unwrap();
    let (mut guest, mut owner) = (a.enter(Urgency::Known, false).unwrap(), a.enter(Urgency::Owner, false).unwrap());
    drop(held);
    assert!(called(&mut owner) && !called(&mut guest));
}

#[test]
fn a_schedules_priority_is_its_urgency() {
    use super::super::types::SessionOptions;
    use base::{Clock, RequestContext, TenantId};
    let request = RequestContext::root(&Clock::default(), TenantId::owner(), "schedule", "b", "s", Trust::System);
    let of = |priority| {
        let options = SessionOptions { priority: Some(priority), ..SessionOptions::default() };
        Urgency::of(&Trigger { options, ..Trigger::new("p", "schedule:s", Arc::new(request.clone())) })
    };
    assert_eq!([1, 2, 3].map(of), [Urgency::First, Urgency::Others, Urgency::Schedule]);
    let strangers = Arc::new(request.with_trust_at_most(Trust::Stranger));
    let from = |source: &str| Trigger::new("p", source, strangers.clone());
    assert_eq!((Urgency::of(&from("route")), from("route").is_strangers()), (Urgency::Stranger, true));
    // Whoever wrote what is inspected asked for nothing.
    assert_eq!((Urgency::of(&from(INSPECT)), from(INSPECT).is_strangers()), (Urgency::Others, false));
}
