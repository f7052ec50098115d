//! A question's way: memory, then a router, then one model alone or the council in its three stages.
//!
//! Each step's row is committed, with the episode that tells of it, before the next one begins. A try after a kill reads
//! what is there and goes on behind it, so nobody is asked twice and nothing is told twice.

use std::sync::Arc;

use async_trait::async_trait;
use base::{Audience, Clock, Seen, Trust};
use conversation::Lane;
use council::anonymous::{Labelled, Names, labels_for};
use council::episode::{Episode, Speaker};
use council::gate;
use council::prompts::{self, Ask, Earlier, Judged, Question};
use council::ranking::{self, Place};
use futures_util::future::{BoxFuture, join_all};
use serde_json::Value;
use sessions::adapters::{ErrorClass, Failure};
use sessions::budget::Limits;
use sessions::{Conducted, Conductor, Remedy};
use store::{Store, StoreError};
use tokio::sync::{Notify, Semaphore};
use uuid::Uuid;

use super::budget::QuestionBudget;
use super::graphiti::Graphiti;
use super::seat::{LeftOut, Said, Seat};
use super::settings::Settings;
use super::sql::{self, Begun, End, NewStep, Record};
use crate::own_sessions::ModuleSessions;

/// A member that is left out is named with so much of the reason, in bytes.
const WHY: usize = 160;
/// The letters of the chairman are drawn as those of a judge in this place, which no member has.
const CHAIRMAN: usize = usize::MAX;

/// The stages in which a model is shown the pictures that came with the question: where it answers, or says whose answer is
/// the best.
const SEE_FILES: [&str; 4] = ["answer", "direct", "judge", "chairman"];

/// The council of a butler.
pub(super) struct Council {
    pub settings: Settings,
    pub members: Vec<Seat>,
    pub chairman: Seat,
    pub router: Option<Seat>,
    pub confidence: Seat,
    pub title: Option<Seat>,
    /// By what members could be known.
    pub known_as: Vec<String>,
    pub sessions: ModuleSessions,
    pub store: Store,
    pub clock: Clock,
    pub places: Semaphore,
    pub graphiti: Option<Arc<Graphiti>>,
    /// Rung when an episode waits.
    pub wake: Arc<Notify>,
}

/// Why a question has no answer.
pub(super) enum Trouble {
    Store(StoreError),
    Failed(Failure),
    /// The daemon or its machine stops: the next try goes on with what is on record.
    Stopped,
}

impl From<StoreError> for Trouble {
    fn from(e: StoreError) -> Self {
        Self::Store(e)
    }
}

#[async_trait]
impl Conductor for Council {
    async fn conduct(&self, session: Conducted) -> Result<String, Failure> {
        let stopped = || Failure::new(ErrorClass::Cancelled, "the session was ended before the council had answered");
        let Some(Ok(_place)) = session.stop.run_until_cancelled(self.places.acquire()).await else {
            return Err(stopped());
        };
        // Boxed, as each part of it: a thread's stack would not hold all of them.
        match Box::pin(self.work(&session)).await {
            Ok(answer) => Ok(answer),
            Err(_) if session.stop.is_cancelled() => Err(stopped()),
            Err(Trouble::Failed(failure)) => Err(failure),
            Err(Trouble::Stopped) => Err(Failure::new(ErrorClass::Crashed, "the session was ended before its time")),
            Err(Trouble::Store(e)) => {
                tracing::warn!(session = %session.id, error = %e, "the council's rows can't be written");
                Err(Failure::new(ErrorClass::Crashed, "the council's rows could not be written just now"))
            }
        }
    }
}

/// One question under way.
pub(super) struct Work<'a> {
    pub council: &'a Council,
    pub session: &'a Conducted,
    pub record: Record,
    pub conversation: String,
    pub text: String,
    /// What came with it: what was said before, who asks, which files.
    came_with: Option<Value>,
    names: Names,
    pub budget: QuestionBudget,
    begun: Begun,
}

impl Council {
    async fn work(&self, session: &Conducted) -> Result<String, Trouble> {
        let request = &session.trigger.request;
        let id = session.trigger.options.route.unwrap_or(request.request_id.0);
        let record = Record {
            store: self.store.clone(),
            id,
            names: self.members.iter().map(|seat| seat.name.clone()).collect(),
        };
        let conversation = Lane::of_request(request).0;
        let (text, again) = self.meant(session, &conversation, id).await?;
        let seed = Uuid::new_v4().as_u64_pair().1.cast_signed();
        let named = (session.id, conversation.as_str(), text.as_str(), seed);
        let by = if request.trust == Trust::System { Speaker::Household } else { Speaker::User };
        let asked = self.episode(session, by, &text);
        let told = asked.as_ref().map(|episode| (episode, conversation.as_str()));
        let seen = Arc::new(Seen::default());
        let begun = record.begin(&session.context(), named, told, &seen).await?;
        session.shows(&seen.label()).await?;
        self.wake.notify_one();
        if let Some(answer) = begun.answer {
            return Ok(answer);
        }
        let budget = QuestionBudget::new(self.settings.max_usd, self.settings.max_tokens);
        for step in &begun.steps {
            budget.pay(step.usd.as_deref(), step.tokens, Limits::default());
        }
        let text = begun.question.clone();
        let names = Names::of(self.known_as.iter().map(String::as_str), &text);
        let names = names.map_err(|e| Trouble::Failed(Failure::new(ErrorClass::InvalidRequest, e.to_string())))?;
        let came_with = came_with(session);
        let work = Work { council: self, session, record, conversation, text, came_with, names, budget, begun };
        let answer = Box::pin(work.answer(again)).await;
        if let Err(Trouble::Failed(failure)) = &answer
            && !session.stop.is_cancelled()
        {
            work.end(&End { way: None, answer: Err(&failure.message), ranking: &[] }).await?;
        }
        answer
    }

    /// What is asked, and whether memory must not answer it. The owner alone has the council asked again.
    async fn meant(&self, session: &Conducted, conversation: &str, id: Uuid) -> Result<(String, bool), StoreError> {
        let prompt = &session.trigger.prompt;
        let again = gate::asks_again(prompt).filter(|_| session.label().trust == Trust::Owner);
        Ok(match again {
            Some("") => {
                let last = sql::last_question(&self.store, &session.context(), conversation, id).await?;
                let Some((question, label)) = last else { return Ok((prompt.clone(), true)) };
                session.shows(&label).await?;
                (question, true)
            }
            Some(question) => (question.to_owned(), true),
            None => (prompt.clone(), false),
        })
    }

    /// The episode that tells of somebody's words, if they are told to anybody. What others than the owner had a part in
    /// goes into a group that answers nothing.
    pub fn episode(&self, session: &Conducted, speaker: Speaker<'_>, body: &str) -> Option<Episode> {
        let settings = &self.settings.graphiti;
        self.graphiti.as_ref()?;
        let told = match speaker {
            Speaker::User | Speaker::Household => settings.record_user,
            Speaker::Member(_) => settings.record_council,
            Speaker::Chairman(_) | Speaker::Direct(_) | Speaker::Memory => settings.record_chairman,
        };
        let own = session.label().trust >= Trust::System;
        let group = if own { settings.group_id.clone() } else { format!("{}_others", settings.group_id) };
        told.then(|| Episode {
            id: Uuid::now_v7(),
            body: body.to_owned(),
            description: speaker.description(),
            at: self.clock.now(),
            group,
        })
    }
}

impl Work<'_> {
    fn question(&self) -> Question<'_> {
        Question { text: &self.text, came_with: self.came_with.as_ref(), remembered: self.session.told.as_deref() }
    }

    /// Whether what the household remembers may be said here.
    pub fn is_of_the_household(&self) -> bool {
        let label = self.session.label();
        label.audience == Audience::Household && label.trust >= Trust::System
    }

    async fn answer(&self, again: bool) -> Result<String, Trouble> {
        if !again
            && self.council.settings.memory.enabled
            && self.is_of_the_household()
            && let Some(answer) = Box::pin(self.answer_of_memory()).await?
        {
            return Ok(answer);
        }
        if self.needs_one_alone().await
            && let Some(answer) = self.alone().await?
        {
            self.end(&End { way: Some("direct"), answer: Ok(&answer), ranking: &[] }).await?;
            return Ok(answer);
        }
        Box::pin(self.deliberate()).await
    }

    /// Asks a model and puts on record what it did, unless an earlier try has it.
    pub fn ask<'s>(
        &'s self,
        (stage, round): (&'static str, u32),
        seat: &'s Seat,
        (told, ask): (&'static str, Ask),
        parts: usize,
        judged: Option<&'s [Labelled]>,
    ) -> BoxFuture<'s, Result<String, AskError>> {
        Box::pin(async move {
            let done = |step: &&sql::Done| step.stage == stage && step.round == round && step.member == seat.name;
            let done = self.begun.steps.iter().filter(done).find_map(|step| step.said.clone());
            if let Some(said) = done {
                return Ok(said);
            }
            let said = self.hear(stage, seat, (told, ask), parts).await?;
            let order = match (&said, judged) {
                (Ok(said), Some(labels)) => ranking::read(&said.text, labels),
                _ => Vec::new(),
            };
            let step = NewStep::of((stage, round), seat, &said);
            let (words, judged) = (step.said, judged.map(|labels| (labels, &*order)));
            let step = NewStep { judged, ..step };
            let speaker = match stage {
                "answer" => Some(Speaker::Member(&seat.model)),
                "chairman" => Some(Speaker::Chairman(&seat.model)),
                "direct" => Some(Speaker::Direct(&seat.model)),
                _ => None,
            };
            let episode = words.ok().zip(speaker).and_then(|(said, by)| self.council.episode(self.session, by, said));
            let told = episode.as_ref().map(|episode| (episode, self.conversation.as_str()));
            self.record.step(&self.session.context(), &step, told).await.map_err(AskError::Store)?;
            self.council.wake.notify_one();
            self.tell(&step);
            said.map(|said| said.text).map_err(AskError::LeftOut)
        })
    }

    /// Asks a model, within what is left for the question. What it says is for the caller to put on record.
    pub async fn hear(
        &self,
        stage: &str,
        seat: &Seat,
        ask: (&'static str, Ask),
        parts: usize,
    ) -> Result<Result<Said, LeftOut>, AskError> {
        let limits = self.budget.share(parts).ok_or(AskError::NothingLeft)?;
        let within = self.council.settings.member_timeout.0;
        let files: &[String] = if SEE_FILES.contains(&stage) { &self.session.trigger.options.attachments } else { &[] };
        let asking = seat.ask(&self.council.sessions, self.session, ask, (limits, within), files);
        let said = Box::pin(asking).await;
        let used = match &said {
            Ok(said) => (said.usd.as_deref(), said.tokens),
            Err(out) => (out.usd.as_deref(), out.tokens),
        };
        self.budget.pay(used.0, used.1, limits);
        if self.session.stop.is_cancelled() || said.as_ref().is_err_and(LeftOut::is_of_the_house) {
            return Err(AskError::Stopped);
        }
        Ok(said)
    }

    /// Tells whoever watches what a model said.
    pub fn tell(&self, step: &NewStep<'_>) {
        let shown = match step.said {
            Ok(said) => base::text::truncate(said, 2000),
            Err(why) => format!("left out: {why}"),
        };
        self.session.tell(step.stage, Some(&step.seat.name), shown);
    }

    async fn end(&self, end: &End<'_>) -> Result<(), StoreError> {
        self.record.end(&self.session.context(), end).await
    }

    /// Waits for `work`, and has the question given a title meanwhile. Nobody waits for the title.
    async fn beside_title<T>(&self, work: impl Future<Output = T>) -> T {
        // On the heap: all that one question waits for is more than a thread's stack should hold.
        let (mut title, mut work) = (Box::pin(self.title()), Box::pin(work));
        tokio::select! {
            done = &mut work => done,
            () = &mut title => work.await,
        }
    }

    async fn title(&self) {
        let Some(seat) = &self.council.title else { return };
        let ask = (prompts::TITLE, self.question().ask_about());
        let parts = self.council.members.len() + 1;
        let Ok(title) = self.ask(("title", 0), seat, ask, parts, None).await else { return };
        let title = base::text::truncate(title.lines().next().unwrap_or_default().trim(), 120);
        if let Err(e) = self.record.title(&self.session.context(), &title).await {
            tracing::warn!(session = %self.session.id, error = %e, "a question's title can't be written");
        }
    }

    /// All but a clear word calls for the council.
    async fn needs_one_alone(&self) -> bool {
        let Some(seat) = &self.council.router else { return false };
        let said = self.ask(("router", 0), seat, (prompts::ROUTER, self.question().ask_about()), 8, None).await;
        said.is_ok_and(|said| prompts::is_direct(&said))
    }

    /// `None`: it said nothing, so the council is asked.
    async fn alone(&self) -> Result<Option<String>, Trouble> {
        let ask = (prompts::DIRECT, self.question().ask());
        match self.beside_title(self.ask(("direct", 0), &self.council.chairman, ask, 2, None)).await {
            Ok(answer) => Ok(Some(answer)),
            Err(AskError::LeftOut(_) | AskError::NothingLeft) => Ok(None),
            Err(e) => Err(e.trouble()),
        }
    }

    async fn deliberate(&self) -> Result<String, Trouble> {
        let members = &self.council.members;
        // With the title.
        let parts = members.len() + usize::from(self.council.title.is_some());
        let asked = members
            .iter()
            .map(|seat| self.ask(("answer", 0), seat, (prompts::MEMBER, self.question().ask()), parts, None));
        let (mut answers, mut left_out) = (Vec::new(), Vec::new());
        let said = self.beside_title(join_all(asked)).await;
        for (seat, said) in members.iter().zip(said) {
            match said {
                Ok(said) => answers.push(Some(said)),
                Err(AskError::LeftOut(out)) => {
                    left_out.push((seat.name.clone(), out));
                    answers.push(None);
                }
                Err(e) => return Err(e.trouble()),
            }
        }
        let answered: Vec<usize> = (0..members.len()).filter(|at| answers[*at].is_some()).collect();
        if answered.is_empty() {
            return Err(Trouble::Failed(nobody(&left_out)));
        }
        let (places, judgements) = Box::pin(self.judge(&answers, &answered)).await?;
        let answer = Box::pin(self.conclude(&answers, &places, &judgements)).await? + &named(&left_out);
        self.end(&End { way: Some("council"), answer: Ok(&answer), ranking: &places }).await?;
        Ok(answer)
    }

    /// Has those who answered judge the others, until two rounds come to the same order. Gives the joined ranking, and
    /// what each judge said last.
    async fn judge(
        &self,
        answers: &[Option<String>],
        answered: &[usize],
    ) -> Result<(Vec<Place>, Vec<(String, Vec<Labelled>)>), Trouble> {
        let council = self.council;
        let mut places = ranking::join(&[], answered);
        let mut last: Vec<Option<(String, Vec<Labelled>)>> = vec![None; answers.len()];
        // Two have one answer each to judge, which is no order.
        let rounds = if answered.len() < 2 { 0 } else { council.settings.rounds.min(answered.len() as u32 - 1) };
        for round in 1..=rounds {
            let judges = answered.iter().map(|judge| {
                // Drawn over all members, so that they are the same whoever answers in another try.
                let all: Vec<usize> = (0..answers.len()).collect();
                let mut labels = labels_for(self.begun.seed.cast_unsigned(), *judge, &all);
                labels.retain(|labelled| answered.contains(&labelled.member));
                let earlier = last[*judge].as_ref().map(|(said, _)| Earlier { places: &places, said });
                let ask = prompts::judge(self.question(), answers, &labels, &self.names, earlier.as_ref());
                async move {
                    // Whatever a member may call, a judge has no way to look who wrote what.
                    let seat = &council.members[*judge].as_part(&council.members[*judge].name);
                    let said =
                        self.ask(("judge", round), seat, (prompts::JUDGE, ask), answered.len(), Some(&labels)).await;
                    (*judge, labels, said)
                }
            });
            let (mut rankings, mut over) = (Vec::new(), false);
            for (judge, labels, said) in join_all(judges).await {
                match said {
                    Ok(said) => {
                        rankings.push(ranking::read(&said, &labels));
                        last[judge] = Some((said, labels));
                    }
                    Err(AskError::LeftOut(_)) => {}
                    Err(AskError::NothingLeft) => over = true,
                    Err(e) => return Err(e.trouble()),
                }
            }
            let joined = ranking::join(&rankings, answered);
            let stable = round > 1 && ranking::is_stable(&places, &joined);
            if rankings.iter().any(|ranking| !ranking.is_empty()) {
                places = joined;
            }
            if stable || over {
                break;
            }
        }
        Ok((places, last.into_iter().flatten().collect()))
    }

    /// The chairman's answer; where he has none, the one that was ranked first, and why it is that.
    async fn conclude(
        &self,
        answers: &[Option<String>],
        places: &[Place],
        said: &[(String, Vec<Labelled>)],
    ) -> Result<String, Trouble> {
        let council = self.council;
        let answered: Vec<usize> = (0..answers.len()).filter(|at| answers[*at].is_some()).collect();
        let labels = labels_for(self.begun.seed.cast_unsigned(), CHAIRMAN, &answered);
        let judged = Judged { labels: &labels, places, said };
        let ask = prompts::chairman(self.question(), answers, &judged);
        let why = match self.ask(("chairman", 0), &council.chairman, (prompts::CHAIRMAN, ask), 1, None).await {
            Ok(answer) => return Ok(answer),
            Err(AskError::LeftOut(out)) => {
                format!("{} did not write the council's answer ({})", council.chairman.name, short(&out.why))
            }
            Err(AskError::NothingLeft) => "What this question may cost is used up".to_owned(),
            Err(e) => return Err(e.trouble()),
        };
        let first = places.iter().find_map(|place| answers.get(place.member)?.clone());
        let first = first.unwrap_or_default();
        let ranked = if said.is_empty() { "one member's answer" } else { "the answer that the members ranked first" };
        Ok(format!("{first}\n\n({why}, so this is {ranked}.)"))
    }
}

/// Why a model's words are not there.
pub(super) enum AskError {
    LeftOut(LeftOut),
    /// The question has used up what it may.
    NothingLeft,
    Stopped,
    Store(StoreError),
}

impl AskError {
    pub fn trouble(self) -> Trouble {
        match self {
            Self::LeftOut(out) => Trouble::Failed(Failure::new(ErrorClass::Refused, out.why)),
            Self::NothingLeft => {
                let why = "the council may use no more for this question; [modules.council] max_usd and max_tokens allow more";
                Trouble::Failed(Failure::new(ErrorClass::Budget, why))
            }
            Self::Stopped => Trouble::Stopped,
            Self::Store(e) => Trouble::Store(e),
        }
    }
}

/// What came with a question, but for the program's own words on how a session answers.
fn came_with(session: &Conducted) -> Option<Value> {
    let mut given = session.trigger.context.as_ref()?.as_object()?.clone();
    for own in ["how_to_answer", "interactive"] {
        given.remove(own);
    }
    given.retain(|_, value| !value.is_null() && value.as_array().is_none_or(|items| !items.is_empty()));
    (!given.is_empty()).then_some(Value::Object(given))
}

fn short(why: &str) -> String {
    base::text::truncate(why.lines().next().unwrap_or_default(), WHY)
}

/// The line that names who was left out; empty where nobody was.
fn named(left_out: &[(String, LeftOut)]) -> String {
    if left_out.is_empty() {
        return String::new();
    }
    let each: Vec<String> = left_out.iter().map(|(name, out)| format!("{name}: {}", short(&out.why))).collect();
    format!("\n\n(Left out: {}.)", each.join("; "))
}

/// Nobody answered. It is tried again where that is all the models' side.
fn nobody(left_out: &[(String, LeftOut)]) -> Failure {
    let waits = left_out.iter().all(|(_, out)| Remedy::of(out.class.as_deref()) == Remedy::Wait);
    let class = if waits { ErrorClass::ModelUnreachable } else { ErrorClass::Refused };
    let each: Vec<String> = left_out.iter().map(|(name, out)| format!("{name}: {}", short(&out.why))).collect();
    Failure::new(class, format!("no member of the council answered ({})", each.join("; ")))
}
