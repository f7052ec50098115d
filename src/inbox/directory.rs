//! The directory of butlers: who is up here and can be handed things, and who will be in a moment.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};

use tokio::sync::{Notify, watch};

use super::registry::{ButlerRegistration, Listed, Registry};
use base::Clock;
use tools::ToolSet;

/// A butler that things can be handed to.
#[derive(Clone)]
pub struct Target {
    pub schema: String,
    pub tools: ToolSet,
    /// How it wants to be known; `None`: messages are not for it.
    pub registration: Option<ButlerRegistration>,
    /// Something new is in its route inbox.
    pub wake: Arc<Notify>,
    /// Somebody decided on a call of its that waited.
    pub decided: Arc<Notify>,
}

/// Who is there.
pub struct ButlerDirectory {
    clock: Clock,
    targets: RwLock<BTreeMap<String, Target>>,
    /// Butlers that are being started anew, with how they were known: things for them wait.
    away: RwLock<BTreeMap<String, Option<ButlerRegistration>>>,
    /// Whether every butler that can be there is.
    complete: watch::Sender<bool>,
    /// What the registry says of who is there.
    pub(super) registry: Registry,
}

impl ButlerDirectory {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            targets: RwLock::default(),
            away: RwLock::default(),
            complete: watch::Sender::new(false),
            registry: Registry::default(),
        }
    }

    /// From now on things can be handed to this butler. Its registration is written as soon as that can be done.
    pub fn enrol(&self, butler: &str, target: Target) {
        self.registry.expect(butler);
        self.targets.write().unwrap_or_else(|e| e.into_inner()).insert(butler.to_owned(), target);
        self.no_more_expected(butler);
        self.registry.look();
    }

    /// From now on nothing can.
    pub fn withdraw(&self, butler: &str) {
        self.targets.write().unwrap_or_else(|e| e.into_inner()).remove(butler);
    }

    /// The butler is about to be started anew: until it is back, or nobody expects it any more, things for it wait.
    pub fn expect_back(&self, butler: &str) {
        let Some(target) = self.target(butler) else { return };
        self.away.write().unwrap_or_else(|e| e.into_inner()).insert(butler.to_owned(), target.registration);
    }

    /// Nothing waits for the butler any more.
    pub fn no_more_expected(&self, butler: &str) {
        self.away.write().unwrap_or_else(|e| e.into_inner()).remove(butler);
    }

    /// Whether the butler is not here and will be in a moment.
    pub(super) fn is_expected(&self, butler: &str) -> bool {
        self.target(butler).is_none() && self.away.read().unwrap_or_else(|e| e.into_inner()).contains_key(butler)
    }

    /// Whether messages that were meant for this butler can go to it, now or in a moment. One that is `named` need not
    /// want to be known.
    pub(super) fn reaches(&self, butler: &str, named: bool) -> bool {
        if let Some(target) = self.target(butler) {
            return named || target.registration.is_some();
        }
        let away = self.away.read().unwrap_or_else(|e| e.into_inner());
        away.get(butler).is_some_and(|registration| named || registration.is_some())
    }

    pub(super) fn set_complete(&self, complete: bool) {
        self.complete.send_replace(complete);
    }

    pub(super) fn complete(&self) -> watch::Receiver<bool> {
        self.complete.subscribe()
    }

    /// The registrations of the butlers that are up here, or will be in a moment.
    pub(super) fn adverts(&self) -> Vec<(String, ButlerRegistration)> {
        let mut all = self.away.read().unwrap_or_else(|e| e.into_inner()).clone();
        let targets = self.targets.read().unwrap_or_else(|e| e.into_inner());
        all.extend(targets.iter().map(|(name, target)| (name.clone(), target.registration.clone())));
        all.into_iter().filter_map(|(name, registration)| Some((name, registration?))).collect()
    }

    /// A butler that is up.
    pub fn target(&self, butler: &str) -> Option<Target> {
        self.targets.read().unwrap_or_else(|e| e.into_inner()).get(butler).cloned()
    }

    /// The schemas of all butlers that are up.
    pub(super) fn schemas(&self) -> Vec<String> {
        self.targets.read().unwrap_or_else(|e| e.into_inner()).values().map(|target| target.schema.clone()).collect()
    }

    /// The butlers that messages can go to now, with what they are for.
    pub fn routable(&self) -> Vec<(String, String)> {
        let eligible = |(name, registration): (String, ButlerRegistration)| {
            let listed = self.registry.of(&name, &registration, self.clock.now());
            listed.routable().then_some((name, registration.description))
        };
        self.adverts().into_iter().filter_map(eligible).collect()
    }

    /// The names of the butlers that messages can go to now, if `butler` is none of them.
    pub(super) fn others_than(&self, butler: &str) -> Option<Vec<String>> {
        let names: Vec<String> = self.routable().into_iter().map(|(name, _)| name).collect();
        (!names.iter().any(|name| name == butler)).then_some(names)
    }

    /// All butlers that are registered, those that are not here included.
    pub fn registered(&self) -> Vec<Listed> {
        self.registry.listed(&self.adverts(), self.clock.now())
    }
}
