//! The memory check: what is remembered, by the house and by the knowledge graph, and whether it answers the question.

use council::episode::Speaker;
use council::gate::{self, Provenance, Remembered, Weighed};
use council::prompts::{self, Ask};
use memory_index::Kind;
use serde_json::json;
use store::StoreError;

use super::flow::{AskError, Trouble, Work};
use super::sql::NewStep;
use base::{Label, Trust};

const STAGE: &str = "confidence";

impl Work<'_> {
    /// The answer that is remembered, if one is good enough. Every doubt leaves it to the council.
    pub async fn answer_of_memory(&self) -> Result<Option<String>, Trouble> {
        let council = self.council;
        let (own, known) = tokio::join!(self.own(), self.graph());
        let mut remembered = own?;
        remembered.extend(known);
        remembered.truncate(gate::MOST);
        if remembered.is_empty() {
            return Ok(None);
        }
        let bounds = council.settings.memory.bounds();
        let about = prompts::Question { text: &self.text, came_with: None, remembered: None }.ask_about();
        let ask = Ask { context: Some(gate::shown(&remembered)), ..about };
        // What an earlier try was told is not asked for: memory is judged by what is remembered now.
        let judge = &council.confidence;
        let said = match self.hear(STAGE, judge, (prompts::CONFIDENCE, ask), 8).await {
            Ok(said) => Some(said),
            Err(AskError::NothingLeft) => None,
            Err(e) => return Err(e.trouble()),
        };
        let weighed = match &said {
            Some(Ok(said)) => {
                gate::weigh(&said.text, &remembered, council.clock.now(), bounds).map_err(|e| e.to_string())
            }
            Some(Err(out)) => Err(format!("the judge failed: {}", out.why)),
            None => Err("nothing is left to ask a judge with".to_owned()),
        };
        let (weighed, why): (Vec<Weighed>, Option<String>) = match weighed {
            Ok(weighed) => (weighed, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        let best = gate::answer(&weighed, bounds);
        let answer = best.map(|best| gate::with_sources(best, &remembered));
        let row = json!({"memories": remembered, "candidates": weighed, "threshold": bounds.threshold,
                         "max_age_days": bounds.max_age_days, "why": why, "answered": best.is_some()});
        // All of it at once: a try after a kill asks anew, or has its answer.
        let step = said.as_ref().map(|said| NewStep::of((STAGE, 0), judge, said));
        let episode = answer.as_ref().and_then(|answer| council.episode(self.session, Speaker::Memory, answer));
        let told = episode.as_ref().map(|episode| (episode, self.conversation.as_str()));
        let context = self.session.context();
        self.record.weighed(&context, (step.as_ref(), &row), answer.as_deref(), told).await?;
        council.wake.notify_one();
        if let Some(step) = &step {
            self.tell(step);
        }
        let shown = match best {
            Some(best) => format!("confidence {:.2}, above {}", best.confidence, bounds.threshold),
            None => match (weighed.first(), why) {
                (Some(best), _) => format!("confidence {:.2}, not above {}", best.confidence, bounds.threshold),
                (None, Some(why)) => format!("not weighed: {why}"),
                (None, None) => "no memory answers the question".to_owned(),
            },
        };
        self.session.tell("memory", None, shown);
        Ok(answer)
    }

    /// What the house's own memory told this session.
    async fn own(&self) -> Result<Vec<Remembered>, StoreError> {
        let (ids, now) = (&self.session.told_ids, self.council.clock.now());
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut lease = self.council.store.lease(&self.session.context()).await?;
        let mut shown = memory::sql::shown::of(&mut lease, ids, now).await?;
        let in_order = ids.iter().filter_map(|id| shown.remove(id)).map(|memory| {
            let provenance = match (memory.kind, Provenance::of(memory.trust)) {
                // What happened holds what the council itself said.
                (Kind::Episode, Provenance::Owner) => Provenance::Council,
                (_, provenance) => provenance,
            };
            let about = memory.about.map(|about| format!("{about}: ")).unwrap_or_default();
            let text = base::text::clean(&format!("{about}{}", memory.content));
            Remembered { place: "memory".to_owned(), id: memory.id.to_string(), text, at: Some(memory.at), provenance }
        });
        Ok(in_order.collect())
    }

    /// What the knowledge graph knows; nothing where it fails or is slow.
    async fn graph(&self) -> Vec<Remembered> {
        let Some(graphiti) = &self.council.graphiti else { return Vec::new() };
        let found = graphiti.search(&self.text, self.council.clock.now()).await;
        // Its words are of the council's making, and other people's servers may have changed them.
        if found.is_empty() {
            return found;
        }
        match self.session.shows(&Label::household(Trust::System)).await {
            Ok(()) => found,
            Err(e) => {
                tracing::warn!(session = %self.session.id, error = %e, "what the knowledge graph knows is left out");
                Vec::new()
            }
        }
    }
}
