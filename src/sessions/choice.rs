//! The choice of the tools that a session is told of, within what `tool_budget` gives for their schemas.

use std::collections::BTreeSet;

use serde_json::Value;

use super::model::is_local;
use super::shown::Shown;
use super::state::Inner;
use super::types::Trigger;
use base::RequestContext;
use config::skills::{SKILL_FILE, Skill};
use config::{ModelTier, RuntimeKind};
use tools::{OfferedTools, ShownTool, TOOL_CALL, TOOL_FIND, Wanted};

/// So many skills that the prompt calls for have their tools shown.
const SKILLS: usize = 2;
/// So much of a prompt is looked at, in bytes.
const ASKED: usize = 8 << 10;

/// The tools of one session.
pub(super) struct SessionTools {
    /// What it may call.
    pub offered: BTreeSet<String>,
    /// What it is told of.
    pub shown: Vec<ShownTool>,
    /// Whether that is less than it may call.
    pub chosen: bool,
}

impl SessionTools {
    /// How many it may call without having been told of them.
    pub fn more(&self) -> usize {
        self.offered.len() - self.shown.len()
    }

    /// What the schemas that it is told of cost, in tokens, about.
    pub fn tokens(&self) -> u32 {
        self.shown.iter().map(|tool| tool.tokens).sum()
    }
}

/// What schemas of tools may cost a session where its butler does not say so itself, in tokens. 0: whatever they cost.
/// `local`: the model is on the owner's own network. `small`: its butler asks for a small one.
fn share(household: u32, kind: RuntimeKind, local: bool, small: bool) -> u32 {
    // Models on machines of one's own are small, have little room, and each token is waited for.
    if small || local && kind == RuntimeKind::Native { household.div_ceil(2) } else { household }
}

impl Inner {
    /// What a session of this trigger in this runtime may call and is told of. `needless`: tools that it is not offered.
    pub(super) async fn session_tools(&self, trigger: &Trigger, kind: RuntimeKind, needless: &[&str]) -> SessionTools {
        let tools = self.parts.tools.now();
        let named = trigger.options.tools.as_deref();
        let may = |name: &str| {
            named.is_none_or(|named| named.iter().any(|n| n == name))
                && !needless.contains(&name)
                && (!trigger.options.reads_only || tools.readers.contains(name) || name == TOOL_CALL)
        };
        let (config, settings) = (&self.parts.config, &self.parts.settings);
        let small = kind == config.runtime.kind && config.sessions.tier == Some(ModelTier::Small);
        let share = || {
            let local = is_local(config, kind, settings, &trigger.options);
            share(settings.tool_budget, kind, local, small)
        };
        let budget = config.runtime.tool_budget.unwrap_or_else(share);
        let chosen = match named {
            // Few, and each of them meant.
            Some(_) => None,
            None if budget == 0 => None,
            None => self.choose(&tools, trigger, &may, (budget, self.shown_before(&trigger.request).await)),
        };
        // Where all are shown, nothing is to be found.
        let finds = |name: &str| chosen.is_none() && named.is_none() && matches!(name, TOOL_FIND | TOOL_CALL);
        let offered: BTreeSet<String> = tools.names.iter().filter(|name| may(name) && !finds(name)).cloned().collect();
        let is_chosen = chosen.is_some();
        let shown = chosen.unwrap_or_else(|| tools.finder.all(&offered));
        SessionTools { offered, shown, chosen: is_chosen }
    }

    /// The conversation of this trigger was shown these tools: its next session is shown them, too.
    pub(super) fn has_shown(&self, trigger: &Trigger, shown: Option<Shown>) {
        if let (Some(conversation), Some(shown)) = (conversation(&trigger.request), shown) {
            self.shown.keep(conversation, shown);
        }
    }

    /// What the conversation of this request was shown before; after a restart, what is on record of its last session.
    async fn shown_before(&self, request: &RequestContext) -> Option<Shown> {
        if let Some(shown) = self.shown.of(&conversation(request)?) {
            return Some(shown);
        }
        let on_record = self.log.shown_before(request).await;
        on_record.unwrap_or_else(|e| {
            tracing::warn!(butler = %self.parts.config.name, error = %e, "a session starts without its conversation's tools");
            None
        })
    }

    fn choose(
        &self,
        tools: &OfferedTools,
        trigger: &Trigger,
        may: &(dyn Fn(&str) -> bool + Sync),
        (budget, before): (u32, Option<Shown>),
    ) -> Option<Vec<ShownTool>> {
        let config = &self.parts.config;
        let mut skills = config::skills::ordered(&config.skills, &trigger.prompt);
        let named = |skill: &Skill| trigger.prompt.contains(&skill.name);
        skills.retain(|skill| named(skill) || skill.matches(&trigger.prompt) > 0);
        // "Run the weekly-summary workflow" means that one.
        skills.sort_by_key(|skill| !named(skill));
        let skills: Vec<String> = skills
            .iter()
            .take(SKILLS)
            .filter_map(|skill| std::fs::read_to_string(skill.dir.join(SKILL_FILE)).ok())
            .collect();
        let prompt = base::text::truncate(&trigger.prompt, ASKED);
        let last = said_last(trigger.context.as_ref()).map(|last| base::text::truncate(last, ASKED));
        let wanted = Wanted { prompt: &prompt, last: last.as_deref(), skills: &skills, before: before.as_deref() };
        match tools.finder.choose(may, budget, wanted) {
            Ok(shown) => shown,
            Err(e) => {
                tracing::error!(butler = %config.name, error = %e, "no tools can be chosen; a session is told of all");
                None
            }
        }
    }
}

/// What somebody said last in the conversation before this.
fn said_last(context: Option<&Value>) -> Option<&str> {
    let before = context?["conversation_before"].as_array()?;
    before.iter().rev().find(|one| one["by_butler"] != true)?["text"].as_str()
}

/// What a request belongs to, if more of it may come.
fn conversation(request: &RequestContext) -> Option<String> {
    let thread = request.source_thread_identity.as_deref();
    (thread.is_some() || !matches!(request.source_channel.as_str(), "mcp" | "schedule")).then(|| {
        let parts = [
            request.tenant_id.as_str(),
            &request.source_channel,
            &request.source_endpoint_identity,
            &request.source_sender_identity,
            thread.unwrap_or_default(),
        ];
        parts.join("\u{1f}")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use strum::VariantNames;

    use super::*;

    #[test]
    fn small_models_are_told_less() {
        let kinds = RuntimeKind::VARIANTS.iter().map(|name| name.parse::<RuntimeKind>().unwrap());
        let programs = kinds.filter(|kind| *kind != RuntimeKind::Native);
        programs
            .for_each(|kind| assert_eq!(share(6000, kind, true, false), 6000, "{kind}, behind a server of one's own"));
        let native = |household, local| share(household, RuntimeKind::Native, local, false);
        assert_eq!((native(6000, false), native(6000, true)), (6000, 3000));
        assert_eq!(share(6000, RuntimeKind::Native, false, true), 3000);
        assert_eq!((native(0, true), native(1, true)), (0, 1), "0 is no limit");
    }

    #[test]
    fn what_a_person_said_last_is_found() {
        let said = json!({"conversation_before": [
            {"from": "Ada", "text": "How long did I sleep?"}, {"from": "health", "by_butler": true, "text": "7 hours"}]});
        assert_eq!(said_last(Some(&said)), Some("How long did I sleep?"));
        assert_eq!(said_last(Some(&json!({"conversation_before": []}))), None);
        assert_eq!(said_last(Some(&json!({"x": 1}))).or(said_last(None)), None);
    }
}
