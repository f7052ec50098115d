//! The choice of the tools that a session is told of, within what `tool_budget` gives for their schemas.

use std::collections::BTreeSet;

use super::shown::Shown;
use super::state::Inner;
use super::types::Trigger;
use base::RequestContext;
use config::RuntimeKind;
use config::skills::SKILL_FILE;
use tools::{OfferedTools, ShownTool, TOOL_CALL, TOOL_FIND, Wanted};

/// So many skills that the prompt calls for have their tools shown.
const SKILLS: usize = 2;
/// So much of a prompt is looked at, in bytes.
const ASKED: usize = 8 << 10;

/// The tools of one session.
pub(super) struct SessionTools {
    /// What it may call.
    pub offered: BTreeSet<String>,
    /// What it is told of; `None`: of all that it may call.
    pub shown: Option<Vec<ShownTool>>,
    /// What the schemas that it is told of cost, in tokens, about.
    pub tokens: u32,
}

impl SessionTools {
    /// How many it may call without having been told of them.
    pub fn more(&self) -> usize {
        self.shown.as_ref().map_or(0, |shown| self.offered.len() - shown.len())
    }
}

impl Inner {
    /// What a session of this trigger may call and is told of. `needless`: tools that it is not offered.
    pub(super) fn session_tools(&self, trigger: &Trigger, needless: &[&str]) -> SessionTools {
        let tools = self.parts.tools.now();
        let named = trigger.options.tools.as_deref();
        let may = |name: &str| {
            named.is_none_or(|named| named.iter().any(|n| n == name))
                && !needless.contains(&name)
                && (!trigger.options.reads_only || tools.readers.contains(name) || name == TOOL_CALL)
        };
        let shown = match named {
            // Few, and each of them meant.
            Some(_) => None,
            None => self.choose(&tools, trigger, &may),
        };
        // Where all are shown, nothing is to be found.
        let finds = |name: &str| shown.is_none() && named.is_none() && matches!(name, TOOL_FIND | TOOL_CALL);
        let offered: BTreeSet<String> = tools.names.iter().filter(|name| may(name) && !finds(name)).cloned().collect();
        let tokens = match &shown {
            Some(shown) => shown.iter().map(|tool| tool.tokens).sum(),
            None => tools.finder.cost(offered.iter().map(String::as_str)),
        };
        SessionTools { offered, shown, tokens }
    }

    /// The conversation of this trigger was shown these tools: its next session is shown them, too.
    pub(super) fn has_shown(&self, trigger: &Trigger, shown: Option<Shown>) {
        if let (Some(conversation), Some(shown)) = (conversation(&trigger.request), shown) {
            self.shown.keep(conversation, shown);
        }
    }

    fn choose(&self, tools: &OfferedTools, trigger: &Trigger, may: &dyn Fn(&str) -> bool) -> Option<Vec<ShownTool>> {
        let config = &self.parts.config;
        let household = self.parts.settings.tool_budget;
        let budget = config.runtime.tool_budget.unwrap_or(match config.runtime.kind {
            // Its models are often small, and run where each token is waited for.
            RuntimeKind::Native => household - household / 12,
            _ => household,
        });
        if budget == 0 {
            return None;
        }
        let skills: Vec<String> = config::skills::ordered(&config.skills, &trigger.prompt)
            .iter()
            .take_while(|skill| skill.matches(&trigger.prompt) > 0)
            .take(SKILLS)
            .filter_map(|skill| std::fs::read_to_string(skill.dir.join(SKILL_FILE)).ok())
            .collect();
        let before = conversation(&trigger.request).and_then(|conversation| self.shown.of(&conversation));
        let prompt = base::text::truncate(&trigger.prompt, ASKED);
        let wanted = Wanted { prompt: &prompt, skills: &skills, before: before.as_ref() };
        match tools.finder.choose(may, budget, wanted) {
            Ok(shown) => shown,
            Err(e) => {
                tracing::error!(butler = %config.name, error = %e, "no tools can be chosen; a session is told of all");
                None
            }
        }
    }
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
