//! Consolidation: episodes become facts and rules, by one session for each group of them.
//!
//! A group is one tenant's, and strangers' words stay apart, so that what is learned of them is believed as far as they
//! are. What a session answers is written down in the transaction that settles its episodes: killed before that, the claim
//! ends and all of it is done again; the writer knows what it has already.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::Mutex;
use uuid::Uuid;

use super::super::Memory;
use super::answer::{self, Asked, Skipped};
use super::apply::{self, Writing, Wrote};
use super::prompt::{Known, MAX_EPISODES, least_trust, prompt, room_of};
use super::queue::{Episode, Queue};
use crate::base::{RequestContext, Trust, crash};
use crate::modules::{Job, JobCall, JobFailure, Unthought};
use crate::spawner::{SCHEDULE, Trigger, Wants};
use crate::store::StoreError;

pub(super) struct Consolidate {
    memory: Arc<Memory>,
    /// One run at a time on this node: what its last one left is known to be nobody's.
    alone: Mutex<()>,
}

/// What a run has done.
#[derive(Default)]
struct Done {
    sessions: usize,
    episodes: usize,
    wrote: Wrote,
    skipped: Skipped,
    failed: Vec<String>,
    failed_episodes: usize,
    given_up: i64,
}

/// Why a group was not learned from.
pub(super) enum Not {
    /// It is as it was; the sentence says what is in the way of all of them.
    Now(String),
    /// As the one before, and somebody should hear of it.
    Away(String),
    /// The try counts.
    Failed(String),
    Store(StoreError),
}

impl From<StoreError> for Not {
    fn from(e: StoreError) -> Self {
        Not::Store(e)
    }
}

impl Consolidate {
    pub fn new(memory: &Arc<Memory>) -> Self {
        Self { memory: memory.clone(), alone: Mutex::default() }
    }
}

#[async_trait]
impl Job for Consolidate {
    async fn run(&self, call: JobCall<'_>) -> Result<String, JobFailure> {
        let Ok(_alone) = self.alone.try_lock() else {
            return Ok("an earlier run is still at work".to_owned());
        };
        let queue = Queue {
            db: call.db,
            schema: self.memory.store.schema(),
            tenant: call.tenant,
            node: call.node,
            claim: Uuid::now_v7(),
        };
        queue.recover().await?;
        if let Err(why) = call.think.ready().await {
            return Ok(match queue.waiting().await? {
                0 => "no episode waits".to_owned(),
                n => format!("no model: {}. {why}", wait(n)),
            });
        }
        let episodes = queue.claim(self.memory.settings.consolidation.batch).await?;
        if episodes.is_empty() {
            return Ok("no episode waits".to_owned());
        }
        crash::point("memory.claimed");
        tokio::select! {
            told = self.learn(&call, &queue, episodes) => told,
            never = queue.hold() => match never {},
        }
    }
}

impl Consolidate {
    async fn learn(&self, call: &JobCall<'_>, queue: &Queue<'_>, episodes: Vec<Episode>) -> Result<String, JobFailure> {
        let all: Vec<Uuid> = episodes.iter().map(|e| e.id).collect();
        let mut done = Done::default();
        let mut stopped = None;
        for part in parts(episodes).into_iter().take(self.memory.settings.consolidation.max_sessions as usize) {
            let ids: Vec<Uuid> = part.iter().map(|e| e.id).collect();
            match self.part(call, queue, &part, &mut done).await {
                Ok(()) => {}
                Err(Not::Failed(why)) => {
                    tracing::warn!(butler = %self.memory.butler, episodes = ids.len(), "episodes were not consolidated: {why}");
                    done.given_up += queue.fail(&ids, &why, self.memory.store.clock().now()).await?;
                    done.failed_episodes += ids.len();
                    done.failed.push(why);
                }
                Err(other) => {
                    stopped = Some(other);
                    break;
                }
            }
        }
        // What there was no session for, and what was forgotten meanwhile.
        let released = queue.release(&all).await;
        let told = done.told(released.as_ref().map_or(0, |n| *n));
        match stopped {
            None => released.map(drop)?,
            // Where the giving back fails as well, the lease runs out.
            Some(Not::Store(e)) => return Err(e.into()),
            Some(Not::Away(why)) => return Err(JobFailure::Told(format!("{told}: {why}"))),
            Some(Not::Now(why) | Not::Failed(why)) => return Ok(format!("{told}: {why}")),
        }
        if done.sessions == 0 && !done.failed.is_empty() { Err(JobFailure::Told(told)) } else { Ok(told) }
    }

    /// One session for a part of a group, and what follows from its answer.
    async fn part(&self, call: &JobCall<'_>, queue: &Queue<'_>, part: &[Episode], done: &mut Done) -> Result<(), Not> {
        let Some(first) = part.first() else { return Ok(()) };
        let known = Known::of(call.db, queue.schema, &first.tenant, part).await?;
        let trust = least_trust(part).min(Trust::System);
        let butler = self.memory.butler.as_str();
        let root = RequestContext::root(
            self.memory.store.clock(),
            first.tenant.clone(),
            "schedule",
            butler,
            call.schedule,
            trust,
        );
        let request = Arc::new(RequestContext { private: true, ..root });
        let wants = Wants {
            tools: Some(Arc::default()),
            one_round: true,
            apart_from_memory: true,
            priority: Some(call.priority),
            ..Wants::default()
        };
        let source = format!("{SCHEDULE}{}", call.schedule);
        let wish = Trigger { wants, ..Trigger::new(prompt(part, &known), source, request.clone()) };
        let result = call.think.think(wish).await.map_err(|e| match e {
            Unthought::NotNow(why) => Not::Now(why),
            Unthought::Away(why) => Not::Away(why),
            Unthought::Failed(why) => Not::Failed(why),
            Unthought::Store(e) => Not::Store(e),
        })?;
        crash::point("memory.thought");
        let episodes: HashSet<Uuid> = part.iter().map(|e| e.id).collect();
        let asked = Asked { episodes: &episodes, known: &known, stranger: trust == Trust::Stranger };
        let learned = answer::read(result.output.as_deref().unwrap_or_default(), &asked).map_err(Not::Failed)?;
        let writing =
            Writing { request: &request, session: result.session_id, claim: queue.claim, part, known: &known };
        let (wrote, settled) = apply::write(&self.memory, &writing, learned, &mut done.skipped).await?;
        done.sessions += 1;
        done.episodes += settled;
        done.wrote += wrote;
        Ok(())
    }
}

impl Done {
    /// `1 session over 12 episodes: 3 facts, 1 rule, …`; `waiting`: so many were claimed and given back.
    fn told(&self, waiting: i64) -> String {
        let Wrote { facts, updated, rules, confirmed } = self.wrote;
        let mut told = match self.sessions {
            0 => "nothing was consolidated".to_owned(),
            n => format!(
                "{} over {}: {}, {}, {updated} changed, {confirmed} confirmed",
                counted(n, "session"),
                counted(self.episodes, "episode"),
                counted(facts, "new fact"),
                counted(rules, "new rule"),
            ),
        };
        let failed = self.failed.first().map(|why| {
            let up = match self.given_up {
                0 => String::new(),
                n => format!(", {n} of them given up"),
            };
            format!("{} failed{up}: {why}", counted(self.failed_episodes, "episode"))
        });
        let waiting = (waiting > 0).then(|| format!("{} for the next run", wait(waiting)));
        for more in [self.skipped.told(), failed, waiting].into_iter().flatten() {
            told.push_str("; ");
            told.push_str(&more);
        }
        told
    }
}

fn wait(n: impl TryInto<u64>) -> String {
    match n.try_into().unwrap_or(0) {
        1 => "1 episode waits".to_owned(),
        n => format!("{n} episodes wait"),
    }
}

fn counted(n: impl TryInto<u64>, what: &str) -> String {
    let n = n.try_into().unwrap_or(0);
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// Groups by tenant and by whether strangers' words are in it; those with which a try failed stand apart, so that one bad
/// episode takes no new ones along. Each group is cut to what a session can read. The first parts of all groups come first.
fn parts(episodes: Vec<Episode>) -> Vec<Vec<Episode>> {
    let mut groups: BTreeMap<(bool, String, bool), Vec<Vec<Episode>>> = BTreeMap::new();
    let mut room: BTreeMap<(bool, String, bool), usize> = BTreeMap::new();
    for episode in episodes {
        let key = (episode.tried, episode.tenant.as_str().to_owned(), episode.trust == Trust::Stranger);
        let (group, left) = (groups.entry(key.clone()).or_default(), room.entry(key).or_default());
        let wants = room_of(&episode);
        if group.is_empty() || wants > *left {
            group.push(Vec::new());
            *left = MAX_EPISODES;
        }
        *left = left.saturating_sub(wants);
        group.last_mut().expect("one was pushed").push(episode);
    }
    let most = groups.values().map(Vec::len).max().unwrap_or(0);
    let mut groups: Vec<_> = groups.into_values().map(Vec::into_iter).collect();
    (0..most).flat_map(|_| groups.iter_mut().filter_map(Iterator::next).collect::<Vec<_>>()).collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::base::TenantId;

    fn episode(tenant: &str, trust: Trust, tried: bool, bytes: usize) -> Episode {
        Episode {
            id: Uuid::now_v7(),
            tenant: TenantId::new(tenant).expect("a name"),
            trust,
            tried,
            session: None,
            speaker: None,
            content: "x".repeat(bytes),
            occurred_at: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn tenants_strangers_and_what_failed_stand_apart_and_no_part_is_too_long() {
        let all = vec![
            episode("owner", Trust::Owner, false, 10),
            episode("owner", Trust::Stranger, false, 10),
            episode("guest", Trust::Owner, false, 10),
            episode("owner", Trust::Known, false, 10),
            episode("owner", Trust::Owner, true, 10),
            episode("guest", Trust::Stranger, false, 10),
        ];
        let ids: Vec<Uuid> = all.iter().map(|e| e.id).collect();
        let of = |n: usize| ids[n];
        let cut: Vec<Vec<Uuid>> = parts(all).iter().map(|part| part.iter().map(|e| e.id).collect()).collect();
        assert_eq!(cut, [vec![of(2)], vec![of(5)], vec![of(0), of(3)], vec![of(1)], vec![of(4)]]);
        let many: Vec<Episode> = (0..30).map(|_| episode("owner", Trust::Owner, false, 100_000)).collect();
        let cut = parts(many.into_iter().chain([episode("owner", Trust::Stranger, false, 1)]).collect());
        assert_eq!(cut.iter().map(Vec::len).sum::<usize>(), 31);
        assert!(cut.iter().all(|part| part.iter().map(room_of).sum::<usize>() <= MAX_EPISODES));
        assert_eq!(cut[1].len(), 1, "the stranger's comes before the second of the others");
    }
}
