//! What a trigger would do, without doing it: nothing is started, and no row is written.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Spawner;
use super::budget::{LimitLeft, PriceBound};
use super::compose;
use super::model::is_local;
use super::state::{Attempt, Inner, check_trigger};
use super::types::{Trigger, TriggerError};
use base::{HumanDuration, Secret, SessionId};
use tools::ShownTool;

/// Why a trigger would come to nothing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Refusal {
    /// As a refused trigger has it.
    pub code: String,
    pub message: String,
}

/// What would run. What can't be told, because something before it is wrong, is `null` or empty.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Preview {
    pub butler: String,
    /// Why it would not run, if so.
    pub refusal: Option<Refusal>,
    pub runtime: String,
    /// `None` is the program's own default.
    pub model: Option<String>,
    /// The program that would be started.
    pub program: Option<PathBuf>,
    pub system_prompt: Option<String>,
    /// What the model is asked, with the context of the request. The delimiter in it is another one each time.
    pub user_prompt: String,
    /// The butler's tools that the session is told of.
    pub tools: Vec<String>,
    /// Why each of them, and what it costs.
    pub chosen_tools: Vec<ShownTool>,
    /// How many it may find and call besides.
    pub more_tools: usize,
    /// What their schemas cost the model, in tokens, about.
    pub tool_tokens: u32,
    /// Built-in tools of the program that the butler's configuration grants.
    pub built_in_tools: Vec<String>,
    /// Names of the child's variables, never their values.
    pub environment: Vec<String>,
    pub max_turns: u32,
    pub max_tool_calls: u32,
    /// `10m`
    pub session_timeout: HumanDuration,
    /// The limits of money and tokens that there are, and what is left of each.
    pub limits: Vec<LimitLeft>,
    pub price_bound: PriceBound,
}

impl Spawner {
    /// Shows what this trigger would do now. `Err`: the database can't be read.
    pub async fn preview(&self, trigger: &Trigger) -> Result<Preview, TriggerError> {
        self.inner().preview(trigger).await
    }
}

impl Inner {
    async fn preview(&self, trigger: &Trigger) -> Result<Preview, TriggerError> {
        let config = &self.parts.config;
        let ready = self.first_ready(self.runtimes(trigger), &trigger.options).await;
        let kind = ready.as_ref().map_or(config.runtime.kind, |(at, _)| self.candidates.at(*at).kind);
        let local = is_local(config, kind, &self.parts.settings, &trigger.options);
        let account = self
            .parts
            .budgets
            .account(config, &trigger.request, trigger.is_strangers(), local)
            .await?
            .within(trigger.options.limits);
        let model = config.sessions.model.clone();
        let mut shown = Preview {
            butler: config.name.to_string(),
            refusal: None,
            runtime: config.runtime.kind.into_str().to_owned(),
            price_bound: account.price_bound(model.as_deref()),
            model,
            program: None,
            system_prompt: None,
            user_prompt: compose::user_prompt(trigger),
            tools: Vec::new(),
            chosen_tools: Vec::new(),
            more_tools: 0,
            tool_tokens: 0,
            built_in_tools: config.runtime.tools.clone(),
            environment: Vec::new(),
            max_turns: trigger.options.limits.turns.unwrap_or(u32::MAX).min(config.sessions.max_turns),
            max_tool_calls: config.sessions.max_tool_calls,
            session_timeout: config.sessions.session_timeout,
            limits: account.limits_left(),
        };
        if let Err(e) = check_trigger(trigger) {
            shown.refuse(e.code(), e.to_string());
        }
        match ready {
            Ok((at, access)) => {
                shown.model.clone_from(&access.model);
                shown.price_bound = account.price_bound(access.model.as_deref());
                let notes = self.notes(trigger).await;
                let attempt = Attempt { id: SessionId::new(), at, access };
                match compose::declared_env(self).await {
                    Ok(declared) => self.command(trigger, attempt, &notes, declared, &mut shown).await,
                    Err(e) => shown.refuse("invalid_request", format!("the variables of [butler.env]: {e}")),
                }
            }
            Err(e) => shown.refuse("no_model", e.to_string()),
        }
        if let Err(over) = account.check(shown.model.as_deref()) {
            shown.refuse("budget", over.message);
        }
        Ok(shown)
    }

    /// Composes prompt and command of the child, and starts nothing.
    async fn command(
        &self,
        trigger: &Trigger,
        attempt: Attempt,
        notes: &[String],
        declared: Vec<(String, Secret<String>)>,
        shown: &mut Preview,
    ) {
        let kind = self.candidate(&attempt).kind;
        shown.runtime = kind.into_str().to_owned();
        let told = match compose::instructions(self, trigger, &attempt, notes) {
            Ok(told) => told,
            Err(e) => return shown.refuse("invalid_request", format!("the system prompt: {e}")),
        };
        shown.system_prompt = Some(told.system_prompt.text());
        let tools = self.session_tools(trigger, kind, told.skills.needless_tools()).await;
        (shown.more_tools, shown.tool_tokens) = (tools.more(), tools.tokens());
        shown.tools = tools.shown.iter().map(|tool| tool.name.clone()).collect();
        shown.chosen_tools = tools.shown;
        match compose::composed(self, trigger, attempt, &told, declared) {
            Ok(composed) => {
                shown.program = Some(composed.program);
                shown.environment = composed.env.into_iter().map(|(name, _)| name).collect();
            }
            Err(e) => shown.refuse("invalid_request", format!("the command: {e}")),
        }
    }
}

impl Preview {
    /// The first reason stays: it is what a trigger would say.
    fn refuse(&mut self, code: &str, message: String) {
        self.refusal.get_or_insert_with(|| Refusal { code: code.to_owned(), message });
    }
}
