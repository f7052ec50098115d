//! Taking up the roster as it is now: butlers that are new, changed or removed, and nobody else.
//!
//! What never happens here: a butler touched whose files are as they were; one that runs stopped for files that are
//! wrong; two that have one port or one schema at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use tracing::instrument::WithSubscriber;

use super::entry::Entry;
use super::notify;
use super::place::tell_place;
use super::rehearsal::rehearse;
use super::tree::Supervisor;
use butler::{ButlerState, HouseholdServices, own_tools};
use config::{BrokenButler, ButlerConfig, Household, Mistake, Ports, Refused};
use inbox::SWITCHBOARD;
use modules::StrictCatalog;

/// Why nothing was reloaded.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    #[error("{0}")]
    Config(Refused),
    #[error("the household is being stopped")]
    Ending,
}

/// What a reload did with one butler.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Its files are as they were.
    Unchanged,
    /// It was not there before.
    Added,
    /// It was drained, and started with its new files.
    Changed,
    /// It was parked, and was started once more.
    Retried,
    /// Its new files have mistakes: it runs on with the former ones.
    Kept,
    /// It was drained, and is gone; its data is kept.
    Removed,
}

impl Change {
    pub fn as_str(self) -> &'static str {
        match self {
            Change::Unchanged => "unchanged",
            Change::Added => "added",
            Change::Changed => "changed",
            Change::Retried => "tried again",
            Change::Kept => "kept as it was",
            Change::Removed => "removed",
        }
    }
}

/// One butler after a reload. The JSON shape is stable.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReloadedButler {
    pub name: String,
    pub change: Change,
    pub state: ButlerState,
    pub port: Option<u16>,
    /// Why it was kept as it was, or does not run.
    pub error: Option<String>,
    /// Where its data is, once it is gone.
    pub note: Option<String>,
    /// How long after the beginning of the reload it was done with.
    pub ms: f64,
}

/// What a reload came to. The JSON shape is stable.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reloaded {
    /// In the order of their start.
    pub butlers: Vec<ReloadedButler>,
    /// Tables of the settings that have changed, which only a restart takes up.
    pub restart_for: Vec<String>,
}

/// What is to be done with one butler.
enum Step {
    Leave(Arc<Entry>),
    Keep(Arc<Entry>, String),
    /// Once the one that has its place, if there is one, has ended.
    Start(Option<Arc<Entry>>, Box<ButlerConfig>, Change),
    Park(Option<Arc<Entry>>, BrokenButler, Change),
    Remove(Arc<Entry>),
}

impl Step {
    /// The butler that is stopped by it.
    fn stops(&self) -> Option<&Arc<Entry>> {
        match self {
            Step::Start(old, ..) => old.as_ref(),
            Step::Remove(old) => Some(old),
            _ => None,
        }
    }
}

impl Supervisor {
    /// Takes up the roster as it is now. Returns once all is done, the draining of changed and removed butlers
    /// included; one reload at a time.
    pub async fn reload(&self) -> Result<Reloaded, ReloadError> {
        let _settling = self.inner.settling.lock().await;
        if self.inner.closing.is_cancelled() {
            return Err(ReloadError::Ending);
        }
        let started = Instant::now();
        let (household, mut strict) = self.read_again()?;
        self.rehearse_changes(&household, &mut strict).await;
        let restart_for = household.settings_that_differ(&self.services().config, &self.inner.pricing);
        if !restart_for.is_empty() {
            tracing::warn!(tables = restart_for.join(", "), "settings have changed; restart butlerd to apply them");
        }
        let restart_for = restart_for.into_iter().map(str::to_owned).collect();
        let steps = plan(&self.entries(), household, &strict, self.services());
        let leaving: Vec<Arc<Entry>> = steps.iter().filter_map(Step::stops).cloned().collect();
        let taken = join_all(steps.into_iter().map(|step| self.take(step, &leaving, started))).await;
        let mut butlers: BTreeMap<String, ReloadedButler> =
            taken.into_iter().flatten().map(|b| (b.name.clone(), b)).collect();
        notify::status(&self.summary());
        let butlers = self.entries().iter().filter_map(|e| butlers.remove(&e.name)).collect();
        Ok(Reloaded { butlers, restart_for })
    }

    /// The household as it is on the disk, and the mistakes of each butler by the measure of `butlerd check`: who runs
    /// is not stopped to be started with less than it has.
    fn read_again(&self) -> Result<(Household, BTreeMap<String, String>), ReloadError> {
        let (origin, services) = (&self.inner.origin, self.services());
        let now = origin.read_again(&services.config, &services.catalog).map_err(ReloadError::Config)?;
        let running: BTreeMap<String, String> =
            (self.entries().iter()).filter_map(|e| Some((e.name.clone(), e.config()?.digest.clone()))).collect();
        let changed = |b: &ButlerConfig| running.get(b.name.as_str()).is_some_and(|digest| *digest != b.digest);
        if !now.butlers.iter().any(changed) {
            return Ok((now, BTreeMap::new()));
        }
        // Its scenarios keep no butler from its work.
        let strict = StrictCatalog::new(own_tools, |_| Ok(Vec::new()));
        let strict = origin.read_again(&services.config, &strict);
        let broken = strict.map_or_else(|refused| refused.broken, |household| household.broken);
        Ok((now, broken.into_iter().map(|b| (b.name, told(&b.mistakes))).collect()))
    }

    /// Tries on a scratch database what butlers that run would get to run: statements that it refuses are mistakes of
    /// theirs.
    async fn rehearse_changes(&self, now: &Household, wrong: &mut BTreeMap<String, String>) {
        let entries = self.entries();
        let changed = |b: &&ButlerConfig| {
            let entry = entries.iter().find(|e| e.name == b.name.as_str() && e.state() != ButlerState::Parked);
            entry.and_then(|e| e.config()).is_some_and(|running| running.sql_digest != b.sql_digest)
        };
        let tried: Vec<&ButlerConfig> = now.butlers.iter().filter(changed).collect();
        if tried.iter().all(|b| wrong.contains_key(b.name.as_str())) {
            return;
        }
        // What others have is there for it, as at a start. Nothing of it belongs into the log of this household.
        let sound: Vec<ButlerConfig> =
            now.butlers.iter().filter(|b| !wrong.contains_key(b.name.as_str())).cloned().collect();
        let silent = tracing::subscriber::NoSubscriber::default();
        let mistakes = match rehearse(&self.services().config, &sound).with_subscriber(silent).await {
            Ok(mistakes) => mistakes,
            Err(e) => return tracing::warn!(error = %e, "changed SQL was not tried on a scratch database"),
        };
        for butler in tried {
            let own: Vec<Mistake> = mistakes.iter().filter(|m| is_of(m, butler)).cloned().collect();
            if !own.is_empty() {
                wrong.insert(butler.name.to_string(), told(&own));
            }
        }
    }

    /// Does one step. `None`: the household ends, or there is nothing to tell of.
    async fn take(&self, step: Step, leaving: &[Arc<Entry>], started: Instant) -> Option<ReloadedButler> {
        let (entry, change) = match step {
            Step::Leave(entry) => {
                entry.set_note(None);
                (entry, Change::Unchanged)
            }
            Step::Keep(entry, why) => {
                tracing::error!(butler = entry.name, why, "the butler's changed files were not loaded");
                entry.set_note(Some(format!("its files have mistakes, and it runs on with the former ones: {why}")));
                let shown = reloaded(&entry, Change::Kept, started).await;
                return Some(ReloadedButler { error: Some(why), note: None, ..shown });
            }
            Step::Start(old, config, change) => (self.start_one(old, *config, leaving).await?, change),
            Step::Park(old, broken, change) => {
                if let Some(old) = old {
                    old.stop.cancel();
                    old.ended().await;
                }
                let entry = Entry::broken(self.services(), &broken);
                if !self.place(&entry) {
                    return None;
                }
                self.launch(&entry).cancelled().await;
                (entry, change)
            }
            Step::Remove(old) => (self.remove_one(old).await?, Change::Removed),
        };
        if change != Change::Unchanged {
            tracing::info!(butler = entry.name, state = entry.state().as_str(), "reload: {}", change.as_str());
        }
        if !self.inner.closing.is_cancelled()
            && let Err(e) = tell_place(self)
        {
            tracing::error!(error = %e, "run/daemon.json can't be written");
        }
        Some(reloaded(&entry, change, started).await)
    }

    /// Starts a butler once the one that has its place has ended, and whoever has its port or schema.
    async fn start_one(
        &self,
        old: Option<Arc<Entry>>,
        config: ButlerConfig,
        leaving: &[Arc<Entry>],
    ) -> Option<Arc<Entry>> {
        let inbox = &self.services().inbox;
        let name = config.name.to_string();
        if let Some(old) = old {
            // Messages for it wait, so that none goes to another butler because this one is away for a moment.
            inbox.butlers().expect_back(&name);
            old.stop.cancel();
            old.ended().await;
        }
        for other in leaving.iter().filter(|other| other.name != name && in_the_way(other, &config)) {
            other.ended().await;
        }
        let entry = Entry::new(self.services(), config);
        let placed = self.place(&entry);
        if placed {
            self.launch(&entry).cancelled().await;
        }
        inbox.butlers().no_more_expected(&name);
        placed.then_some(entry)
    }

    /// Stops a butler that the roster does not have any more. `None`: it never had any data either.
    async fn remove_one(&self, old: Arc<Entry>) -> Option<Arc<Entry>> {
        // Before its tools close, so that nothing more is handed to it.
        self.services().inbox.butlers().withdraw(&old.name);
        old.set_note(Some("it is not in the roster any more, and ends once its sessions have".to_owned()));
        old.stop.cancel();
        old.ended().await;
        let schema = match old.config() {
            Some(config) => Some(config.db.schema.clone()),
            // It never ran with this daemon; an earlier one may have given it a schema.
            None => match self.services().db.places().await {
                Ok(places) => places.into_iter().find(|p| p.butler == old.name).map(|p| p.schema),
                Err(e) => {
                    let why = format!("it is not in the roster any more; whether it has data can't be told: {e}");
                    tracing::warn!(butler = old.name, "{why}");
                    old.set_note(Some(why));
                    return Some(old);
                }
            },
        };
        let Some(schema) = schema else {
            self.forget(&old);
            return None;
        };
        old.set_removed(&schema);
        self.strike_out(&old.name).await;
        Some(old)
    }
}

/// Whether it is a mistake in one of the butler's files.
fn is_of(mistake: &Mistake, butler: &ButlerConfig) -> bool {
    butler.file.parent().is_some_and(|dir| mistake.file.starts_with(dir))
}

fn told(mistakes: &[Mistake]) -> String {
    mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

async fn reloaded(entry: &Entry, change: Change, started: Instant) -> ReloadedButler {
    let ms = (started.elapsed().as_secs_f64() * 1e6).round() / 1e3;
    let shown = entry.status().await;
    let (state, port, error, note) = (shown.state, shown.port, shown.error, shown.note);
    ReloadedButler { name: entry.name.clone(), change, state, port, error, note, ms }
}

/// Whether the butler can't be started before the other one has ended.
fn in_the_way(other: &Entry, config: &ButlerConfig) -> bool {
    other.config().is_some_and(|theirs| theirs.port == config.port || theirs.db.schema == config.db.schema)
}

/// What is to be done with each butler. `strict`: what is wrong with the files of some, so that they don't take the
/// place of those that run.
fn plan(
    entries: &[Arc<Entry>],
    now: Household,
    strict: &BTreeMap<String, String>,
    services: &HouseholdServices,
) -> Vec<Step> {
    let (ports, credentials) = (services.config.daemon.ports, &services.credentials);
    let there: BTreeMap<&str, &Arc<Entry>> =
        entries.iter().filter(|e| !e.is_removed()).map(|e| (e.name.as_str(), e)).collect();
    let known: BTreeSet<String> =
        now.butlers.iter().map(|b| b.name.to_string()).chain(now.broken.iter().map(|b| b.name.clone())).collect();
    let mut steps: Vec<Step> = Vec::new();
    for broken in now.broken {
        steps.push(match there.get(broken.name.as_str()) {
            Some(old) if old.state() != ButlerState::Parked => Step::Keep((*old).clone(), told(&broken.mistakes)),
            // The owner was told of it already.
            Some(old) if old.error().is_some_and(|why| why == told(&broken.mistakes)) => Step::Leave((*old).clone()),
            Some(old) => Step::Park(Some((*old).clone()), broken, Change::Retried),
            None => Step::Park(None, broken, Change::Added),
        });
    }
    for config in now.butlers {
        let Some(&old) = there.get(config.name.as_str()) else {
            steps.push(Step::Start(None, Box::new(config), Change::Added));
            continue;
        };
        let stale = old.butler().is_ok_and(|butler| butler.modules().have_stale_secrets(credentials));
        let same = !stale && old.config().is_some_and(|running| running.digest == config.digest);
        steps.push(match (old.state(), strict.get(config.name.as_str())) {
            (ButlerState::Parked, _) => {
                let change = if same { Change::Retried } else { Change::Changed };
                Step::Start(Some(old.clone()), Box::new(config), change)
            }
            _ if same => Step::Leave(old.clone()),
            (_, Some(why)) => Step::Keep(old.clone(), why.clone()),
            _ => match fixed(old, &config) {
                Some(why) => Step::Keep(old.clone(), why),
                None => Step::Start(Some(old.clone()), Box::new(config), Change::Changed),
            },
        });
    }
    let removed = entries.iter().filter(|e| !e.is_removed() && !known.contains(&e.name));
    steps.extend(removed.map(|e| Step::Remove(e.clone())));
    yield_to_kept(&mut steps, ports);
    steps
}

/// What of a running butler can't be changed while the household runs.
fn fixed(old: &Entry, new: &ButlerConfig) -> Option<String> {
    let moved = old.config().is_some_and(|running| running.db.schema != new.db.schema);
    (old.name == SWITCHBOARD && moved).then(|| {
        format!("{}: the switchboard's schema is another one, and only a restart takes that up", new.file.display())
    })
}

/// Whoever wants a port or a schema of a butler that is kept as it was does not get it: it is kept, or parked, itself.
fn yield_to_kept(steps: &mut [Step], ports: Ports) {
    loop {
        let held: Vec<Arc<ButlerConfig>> = (steps.iter())
            .filter_map(|step| if let Step::Keep(kept, _) = step { kept.config().cloned() } else { None })
            .collect();
        let mut settled = true;
        for step in steps.iter_mut() {
            let Step::Start(old, config, change) = step else { continue };
            let claimed = held.iter().filter(|kept| kept.name != config.name).find_map(|kept| {
                if ports == Ports::Roster && kept.port == config.port {
                    return Some(("butler.port", config.port.to_string(), &kept.name));
                }
                let same = kept.db.schema == config.db.schema;
                same.then(|| ("butler.db.schema", config.db.schema.clone(), &kept.name))
            });
            let Some((key, value, holder)) = claimed else { continue };
            let mistake = Mistake {
                file: config.file.clone(),
                line: None,
                key: key.to_owned(),
                problem: format!("found {value}, which `{holder}` holds as long as its new files are not taken up"),
                expected: "a value of the butler's own, or first right files there".to_owned(),
            };
            settled = false;
            *step = match old.take() {
                Some(old) if old.state() != ButlerState::Parked => Step::Keep(old, mistake.to_string()),
                old => {
                    let (name, dir) = (config.name.to_string(), config.dir.clone());
                    Step::Park(old, BrokenButler { name, dir, mistakes: vec![mistake] }, *change)
                }
            };
        }
        if settled {
            return;
        }
    }
}
