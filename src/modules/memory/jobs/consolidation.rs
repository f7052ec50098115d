//! Consolidation: episodes become facts and rules, by one session for each group of them.
//!
//! A group is one tenant's and of one scope, and strangers' words stay apart, so that what is learned of them is believed as far as they
//! are. What a session answers is written down in the transaction that settles its episodes: killed before that, the
//! claim ends and all of it is done again; the writer knows what it has already.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::Mutex;
use uuid::Uuid;

use super::answer::{self, AnswerScope, Skipped};
use super::apply::{self, Writing, Wrote};
use super::ask::ask;
use super::compare::{Compared, Comparing};
use super::prompt::{KnownMemories, MAX_EPISODES, least_trust, makes_rules, prompt, room_of};
use super::sql::{Claimed, Episode, Episodes};
use crate::memory::settings;
use crate::{AskModelError, Job, JobCall, JobFailure};
use base::{Trust, crash};
use memory::Memory;

pub(super) struct Consolidate {
    memory: Arc<Memory>,
    settings: settings::Consolidation,
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
    /// So many episodes were claimed and given back.
    waiting: i64,
    /// So many could not be claimed.
    passed_over: i64,
    compared: Compared,
}

impl Consolidate {
    pub fn new(memory: &Arc<Memory>, settings: &settings::Consolidation) -> Self {
        Self { memory: memory.clone(), settings: settings.clone(), alone: Mutex::default() }
    }
}

#[async_trait]
impl Job for Consolidate {
    async fn run(&self, call: JobCall<'_>) -> Result<String, JobFailure> {
        let Ok(_alone) = self.alone.try_lock() else {
            return Ok("an earlier run is still at work".to_owned());
        };
        let queue = Episodes::of(&call, &self.memory);
        queue.recover().await?;
        if let Err(why) = call.model.ready().await {
            return Ok(match queue.waiting().await? {
                0 => "no episode waits".to_owned(),
                n => format!("no model: {}. {why}", wait(n)),
            });
        }
        let mut done = Done::default();
        let mut most = self.settings.max_sessions as usize;
        let Claimed { episodes, passed_over } = queue.claim(self.settings.batch).await?;
        done.passed_over = passed_over;
        let mut ended = Ok(());
        if !episodes.is_empty() {
            crash::point("memory.claimed");
            let all: Vec<Uuid> = episodes.iter().map(|e| e.id).collect();
            let learning = self.learn(&call, &queue, episodes, &mut most, &mut done);
            tokio::pin!(learning);
            ended = tokio::select! {
                ended = &mut learning => ended,
                // What is written names the claim, and comes to nothing without it.
                () = queue.hold(&all) => learning.await,
            };
        }
        if ended.is_ok() {
            let mut compared = Compared::default();
            let mut comparing = Comparing { memory: &self.memory, call: &call, sessions: most, done: &mut compared };
            ended = comparing.run().await;
            done.compared = compared;
        }
        let told = match (done.told(), &ended) {
            (Some(told), _) => told,
            (None, Ok(())) => "no episode waits".to_owned(),
            (None, Err(_)) => "nothing was consolidated".to_owned(),
        };
        match ended {
            // Where the giving back fails as well, the lease runs out.
            Err(AskModelError::Store(e)) => Err(e.into()),
            Err(AskModelError::Unreachable(why)) => Err(JobFailure::Failed(format!("{told}: {why}"))),
            Err(AskModelError::NotNow(why) | AskModelError::Failed(why)) => Ok(format!("{told}: {why}")),
            Ok(()) if done.in_vain() => Err(JobFailure::Failed(told)),
            Ok(()) => Ok(told),
        }
    }
}

impl Consolidate {
    /// At most `most` sessions; what is left of them stays there.
    async fn learn(
        &self,
        call: &JobCall<'_>,
        queue: &Episodes<'_>,
        episodes: Vec<Episode>,
        most: &mut usize,
        done: &mut Done,
    ) -> Result<(), AskModelError> {
        let all: Vec<Uuid> = episodes.iter().map(|e| e.id).collect();
        let mut stopped = Ok(());
        for part in parts(episodes) {
            if *most == 0 {
                break;
            }
            *most -= 1;
            let ids: Vec<Uuid> = part.iter().map(|e| e.id).collect();
            match self.part(call, queue, &part, done).await {
                Ok(()) => {}
                Err(AskModelError::Failed(why)) => {
                    tracing::warn!(butler = %self.memory.butler, episodes = ids.len(), "episodes were not consolidated: {why}");
                    done.given_up += queue.fail(&ids, &why, self.memory.store.clock().now()).await?;
                    done.failed_episodes += ids.len();
                    done.failed.push(why);
                }
                Err(other) => {
                    stopped = Err(other);
                    break;
                }
            }
        }
        // What there was no session for, and what was forgotten meanwhile.
        let released = queue.release(&all).await;
        done.waiting = released.as_ref().map_or(0, |n| *n);
        stopped?;
        Ok(released.map(drop)?)
    }

    /// One session for a part of a group, and what follows from its answer.
    async fn part(
        &self,
        call: &JobCall<'_>,
        queue: &Episodes<'_>,
        part: &[Episode],
        done: &mut Done,
    ) -> Result<(), AskModelError> {
        let Some(first) = part.first() else { return Ok(()) };
        let known = KnownMemories::of(call.db, &self.memory, &first.tenant, part).await?;
        let trust = least_trust(part).min(Trust::System);
        let asked = ask(&self.memory, call, &first.tenant, trust, prompt(part, &known)).await?;
        crash::point("memory.thought");
        let episodes: HashSet<Uuid> = part.iter().map(|e| e.id).collect();
        let about = AnswerScope { episodes: &episodes, known: &known, rules: makes_rules(part) };
        let learned =
            answer::read(asked.output.as_deref().unwrap_or_default(), &about).map_err(AskModelError::Failed)?;
        let writing =
            Writing { request: &asked.request, session: asked.session, claim: queue.claim, part, known: &known };
        let (wrote, settled) = apply::write(&self.memory, &writing, learned, &mut done.skipped).await?;
        done.sessions += 1;
        done.episodes += settled;
        queue.count("settled", settled);
        done.wrote += wrote;
        Ok(())
    }
}

impl Done {
    /// Whether all that was tried has failed.
    fn in_vain(&self) -> bool {
        self.sessions + self.compared.sessions == 0 && !(self.failed.is_empty() && self.compared.failed.is_empty())
    }

    /// `1 session over 12 episodes: 3 facts, 1 rule, …; 1 session over 9 pairs of facts: 2 said the same`.
    /// None: there was nothing to do.
    fn told(&self) -> Option<String> {
        let Wrote { facts, updated, rules, confirmed } = self.wrote;
        let compared = &self.compared;
        let learned = (self.sessions > 0).then(|| {
            format!(
                "{} over {}: {}, {}, {updated} changed, {confirmed} confirmed",
                counted(self.sessions, "session"),
                counted(self.episodes, "episode"),
                counted(facts, "new fact"),
                counted(rules, "new rule"),
            )
        });
        let failed = |why: Option<&String>, what: String, given_up: i64| {
            let up = match given_up {
                0 => String::new(),
                n => format!(", {n} of them given up"),
            };
            why.map(|why| format!("{what} failed{up}: {why}"))
        };
        let one = (compared.sessions > 0).then(|| {
            let (sessions, pairs) = (counted(compared.sessions, "session"), counted(compared.pairs, "pair"));
            format!("{sessions} over {pairs} of facts: {} said the same", compared.merged)
        });
        let parts = [
            learned,
            self.skipped.told(),
            failed(self.failed.first(), counted(self.failed_episodes, "episode"), self.given_up),
            (self.waiting > 0).then(|| format!("{} for the next run", wait(self.waiting))),
            (self.passed_over > 0)
                .then(|| format!("{} for the next run, locked by another transaction", wait(self.passed_over))),
            one,
            failed(compared.failed.first(), counted(compared.failed.len(), "comparison"), compared.given_up),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join("; "))
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

/// Groups by tenant, by scope and by whether strangers' words are in it; those with which a try failed stand apart, so that one
/// bad episode takes no new ones along. Each group is cut to what a session can read. The first parts of all groups
/// come first.
fn parts(episodes: Vec<Episode>) -> Vec<Vec<Episode>> {
    type Group = (bool, String, String, bool);
    let mut groups: BTreeMap<Group, Vec<Vec<Episode>>> = BTreeMap::new();
    let mut room: BTreeMap<Group, usize> = BTreeMap::new();
    for episode in episodes {
        let (tenant, stranger) = (episode.tenant.as_str().to_owned(), episode.trust == Trust::Stranger);
        let key = (episode.tried, tenant, episode.scope.clone(), stranger);
        let (group, left) = (groups.entry(key.clone()).or_default(), room.entry(key).or_default());
        let needed = room_of(&episode);
        if group.is_empty() || needed > *left {
            group.push(Vec::new());
            *left = MAX_EPISODES;
        }
        *left = left.saturating_sub(needed);
        group.last_mut().expect("one was pushed").push(episode);
    }
    let most = groups.values().map(Vec::len).max().unwrap_or(0);
    let mut groups: Vec<_> = groups.into_values().map(Vec::into_iter).collect();
    (0..most).flat_map(|_| groups.iter_mut().filter_map(Iterator::next).collect::<Vec<_>>()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::TenantId;

    fn episode(tenant: &str, trust: Trust, tried: bool, bytes: usize) -> Episode {
        let tenant = TenantId::new(tenant).expect("a name");
        Episode { tenant, trust, tried, ..super::super::prompt::tests::episode(&"x".repeat(bytes)) }
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
        let brought = Episode { scope: "graphiti:main".into(), ..episode("owner", Trust::Owner, false, 10) };
        let all: Vec<Episode> = all.into_iter().chain([brought]).collect();
        let ids: Vec<Uuid> = all.iter().map(|e| e.id).collect();
        let of = |n: usize| ids[n];
        let cut: Vec<Vec<Uuid>> = parts(all).iter().map(|part| part.iter().map(|e| e.id).collect()).collect();
        assert_eq!(cut, [vec![of(2)], vec![of(5)], vec![of(0), of(3)], vec![of(1)], vec![of(6)], vec![of(4)]]);
        let many: Vec<Episode> = (0..30).map(|_| episode("owner", Trust::Owner, false, 100_000)).collect();
        let cut = parts(many.into_iter().chain([episode("owner", Trust::Stranger, false, 1)]).collect());
        assert_eq!(cut.iter().map(Vec::len).sum::<usize>(), 31);
        assert!(cut.iter().all(|part| part.iter().map(room_of).sum::<usize>() <= MAX_EPISODES));
        assert_eq!(cut[1].len(), 1, "the stranger's comes before the second of the others");
    }
}
