//! A model of the council at its place: how it is asked, and how it is left out.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use base::{SessionId, text};
use config::RuntimeKind;
use council::anonymous::says_nothing;
use council::prompts::Ask;
use sessions::budget::Limits;
use sessions::{Conducted, ModelServer, SessionState, TriggerError};
use tokio::sync::Notify;

use super::settings::Model;
use crate::own_sessions::{Cause, ModuleSessions, SessionRequest};

/// A model at its place.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    /// How people read of it.
    pub name: String,
    /// Its model, as rows and episodes name it.
    pub model: String,
    runtime: Option<RuntimeKind>,
    /// `None`: the butler's own.
    named: Option<String>,
    server: Option<ModelServer>,
    tools: BTreeSet<String>,
}

/// What a model said.
pub(super) struct Said {
    pub session: SessionId,
    pub text: String,
    pub usd: Option<String>,
    /// Of all kinds together, what came from a cache as well; `None`: nobody knows.
    pub tokens: Option<u64>,
}

impl LeftOut {
    /// Nothing was at the model's fault: the daemon stops, or the machine or its database fails.
    pub fn is_of_the_house(&self) -> bool {
        self.session.is_none() && matches!(self.class.as_deref(), Some("stopping" | "unavailable"))
    }
}

/// Why a model said nothing, and what it used all the same.
pub(super) struct LeftOut {
    pub session: Option<SessionId>,
    /// `it took longer than 3m`
    pub why: String,
    /// Its session's error class.
    pub class: Option<String>,
    pub usd: Option<String>,
    /// `None`: nobody knows.
    pub tokens: Option<u64>,
}

impl Seat {
    /// `own`: the model of the butler itself.
    pub fn of(model: &Model, place: &str, own: Option<&str>) -> Self {
        Self {
            name: model.name.clone().unwrap_or_else(|| place.to_owned()),
            model: model.model.as_deref().or(own).unwrap_or("default").to_owned(),
            runtime: model.runtime,
            named: model.model.clone(),
            server: model.server(),
            tools: model.tools.clone(),
        }
    }

    /// The same model in another part, for which it has no tools.
    pub fn as_part(&self, name: &str) -> Self {
        Self { name: name.to_owned(), tools: BTreeSet::new(), ..self.clone() }
    }

    /// All that its model could be known by.
    pub fn known_as(&self) -> impl Iterator<Item = &str> {
        let program = self.runtime.map(<&'static str>::from);
        [self.model.as_str()].into_iter().chain(program)
    }

    /// Asks it, in a session of its own under the one that is conducted.
    pub async fn ask(
        &self,
        sessions: &ModuleSessions,
        session: &Conducted,
        (system_prompt, ask): (&'static str, Ask),
        (limits, within): (Limits, Duration),
        attachments: &[String],
    ) -> Result<Said, LeftOut> {
        let unstarted = |e: TriggerError| LeftOut {
            session: None,
            why: e.to_string(),
            class: Some(e.code().to_owned()),
            usd: Some("0".to_owned()),
            tokens: Some(0),
        };
        // Its own time ends it alone, and begins once it waits for no slot.
        let (own, has_slot) = (session.part(), Arc::new(Notify::new()));
        let request = SessionRequest {
            context: ask.context,
            runtime: self.runtime,
            model: self.named.clone(),
            server: self.server.clone(),
            system_prompt: Some(system_prompt),
            tools: Some(self.tools.clone()),
            limits,
            attachments: attachments.to_vec(),
            apart_from_memory: true,
            has_slot: Some(has_slot.clone()),
            ..SessionRequest::new(ask.prompt, Cause::Conducted(&own))
        };
        let running = sessions.run(request);
        tokio::pin!(running);
        let its_time = async {
            has_slot.notified().await;
            tokio::time::sleep(within).await;
        };
        let mut late = false;
        let ended = tokio::select! {
            ended = &mut running => ended,
            () = its_time => {
                late = true;
                own.stop.cancel();
                running.await
            }
        };
        let end = ended.map_err(unstarted)?;
        let tokens = end.all_tokens;
        let text = end.output.as_deref().map(|said| text::clean(said).trim().to_owned());
        let why = match (&end.state, text.filter(|text| !says_nothing(text))) {
            (SessionState::Succeeded, Some(text)) => {
                return Ok(Said { session: end.session_id, text, usd: end.cost_usd, tokens });
            }
            (SessionState::Succeeded, None) => "it said nothing".to_owned(),
            _ if late => format!("it took longer than {}", base::HumanDuration(within)),
            (state, _) => end.error.map_or_else(|| format!("it ended as {}", state.as_str()), |why| text::clean(&why)),
        };
        Err(LeftOut { session: Some(end.session_id), why, class: end.error_class, usd: end.cost_usd, tokens })
    }
}
