//! A butler's modules while it is up: their routes, their background tasks, what they say to sessions, and their end.

use std::sync::Arc;

use super::{Modules, Slot};
use crate::background::{OnFailure, Supervised};
use crate::contract::{Health, Phase, State};
use crate::opening::NamedOpening;
use crate::routes::{RouteTable, check_declared};
use sessions::Conductor;

impl Modules {
    /// What the modules that are well say at the start of sessions, in the order in which they are heard.
    pub fn openings(&self) -> Vec<NamedOpening> {
        let named = self.slots.iter().filter(|slot| slot.failure.is_none()).filter_map(|slot| {
            let opening = slot.module.as_deref()?.opening(slot.context.as_ref()?)?;
            Some(NamedOpening { module: slot.name.clone(), gate: slot.gate.clone(), opening })
        });
        let mut all: Vec<NamedOpening> = named.collect();
        all.sort_by(|a, b| (a.opening.order, &a.module).cmp(&(b.opening.order, &b.module)));
        all
    }

    /// Who works on the butler's sessions in the place of a model: the first module that is well and does.
    pub fn conductor(&self) -> Option<Arc<dyn Conductor>> {
        let well = self.slots.iter().filter(|slot| slot.failure.is_none());
        well.filter_map(|slot| slot.module.as_deref()?.conductor(slot.context.as_ref()?)).next()
    }

    /// Phase `routes`: serves the modules' routes. One that brings what it did not declare, or what is another's,
    /// fails.
    pub fn serve_routes(&mut self, table: &RouteTable) {
        for i in self.alive() {
            let slot = &self.slots[i];
            let (Some(module), Some(cx)) = (&slot.module, &slot.context) else { continue };
            let routes = module.routes(cx);
            let served = check_declared(&routes, &slot.manifest.routes)
                .and_then(|()| table.serve(self.butler.as_str(), &slot.gate, routes));
            if let Err(e) = served {
                let name = slot.name.clone();
                self.fail_running(&name, Phase::Routes, e.to_string());
            }
        }
        self.publish();
    }

    /// Starts the modules' background tasks, in the order of the modules and of each one's list.
    pub fn start_tasks(&mut self) {
        let failed = self.on_failure();
        for slot in self.slots.iter_mut().filter(|slot| slot.failure.is_none()) {
            let (Some(module), Some(cx)) = (&slot.module, &slot.context) else { continue };
            let tasks = module.tasks(cx).into_iter().map(|task| {
                Supervised::start(self.butler.as_str(), &slot.name, task, &self.board, &slot.stop, failed.clone())
            });
            slot.tasks = tasks.collect();
        }
        let of = |slot: &Slot| {
            let served = slot.module.as_ref().zip(slot.context.as_ref()).map(|(module, cx)| module.accounts(cx));
            served.unwrap_or_default().into_iter().map(|account| (slot.name.clone(), account)).collect::<Vec<_>>()
        };
        self.accounts.set(self.slots.iter().filter(|slot| slot.failure.is_none()).flat_map(of).collect());
    }

    /// A failure of a module whose tools are there already: they refuse from now on.
    fn fail_running(&mut self, name: &str, phase: Phase, error: String) {
        self.fail(name, phase, error);
        for slot in &self.slots {
            if let Some((_, _, why)) = &slot.failure {
                let _ = slot.gate.failed.set(why.clone());
            }
        }
    }

    /// What happens when a vital task ends: its module fails, and so do those that need it.
    fn on_failure(&self) -> OnFailure {
        let states = self.states.clone();
        // In the order of their start, so that one pass finds all that need a failed one.
        let all = self.slots.iter().map(|s| (s.name.clone(), s.needs.clone(), s.gate.clone(), s.stop.clone()));
        let all: Vec<_> = all.collect();
        Arc::new(move |module, error| {
            let mut gone: Vec<&str> = Vec::new();
            let mut states = states.lock().unwrap_or_else(|e| e.into_inner());
            for (name, needs, gate, stop) in &all {
                let (health, why) = match needs.iter().find(|needed| gone.contains(&needed.as_str())) {
                    _ if name == module => (Health::Failed, error.clone()),
                    Some(needed) => (Health::CascadeFailed, format!("the module `{needed}` that it needs failed")),
                    None => continue,
                };
                gone.push(name);
                let _ = gate.failed.set(why.clone());
                stop.cancel();
                if let Some(state) = states.get_mut(name).filter(|state| state.health == Health::Active) {
                    let (failure_phase, failure_error) = (Some(Phase::Running), Some(why));
                    *state = State { health, failure_phase, failure_error, ..state.clone() };
                }
            }
        })
    }

    /// Ends what the modules do in the background, one after the other: what was started last goes first.
    pub async fn stop_tasks(&mut self) {
        for slot in self.slots.iter_mut().rev() {
            for task in slot.tasks.drain(..).rev() {
                task.stop(&slot.name).await;
            }
        }
    }

    /// Stops the modules in reverse order of their start, after what they do in the background.
    pub async fn stop(&mut self) {
        self.stop_tasks().await;
        for slot in self.slots.iter_mut().rev() {
            if let (Some(module), true) = (&slot.module, slot.started) {
                module.stop().await;
                slot.started = false;
            }
        }
    }
}
