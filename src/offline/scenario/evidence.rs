//! Which tools have which evidence.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::file::{Act, Proves, Scenario, Step};
use butler::Butler;
use tools::{Definition, Effect};

/// A butler's own tools, and what is shown of each.
#[derive(Debug, Default)]
pub struct Coverage {
    shown: BTreeMap<String, BTreeSet<Proves>>,
    /// Those that ask a web service: they keep nothing that another tenant could find.
    asking: BTreeSet<String>,
}

impl Coverage {
    /// Of a butler among all those of its household: the tools of its own trade are those that its own module has, and
    /// those that the house gives to it and to no other butler.
    pub fn of(butler: &Butler, all: &[Butler]) -> Self {
        let name = butler.name().as_str();
        let own: Vec<_> = butler
            .tools()
            .definitions()
            .filter(|def| {
                !def.meta.internal
                    && match butler.tools().module(&def.name) {
                        Some(module) => *module == *name,
                        None => !all.iter().any(|other| other.name() != butler.name() && other.tools().has(&def.name)),
                    }
            })
            .collect();
        let asks = |def: &&Arc<Definition>| def.meta.sends_out && def.meta.reads_untrusted;
        Self {
            shown: own.iter().map(|def| (def.name.clone(), BTreeSet::new())).collect(),
            asking: own.iter().filter(asks).map(|def| def.name.clone()).collect(),
        }
    }

    /// Counts a scenario that passed.
    pub fn add(&mut self, scenario: &Scenario) {
        if let Some(proves) = scenario.proves {
            for tool in &scenario.tools {
                if let Some(shown) = self.shown.get_mut(tool) {
                    shown.insert(proves);
                }
            }
        }
    }

    pub fn tools(&self) -> usize {
        self.shown.len()
    }

    /// The tools with every kind of evidence.
    pub fn complete(&self) -> usize {
        self.shown.len() - self.lacking().len()
    }

    /// The tools that lack some, with what they lack.
    pub fn lacking(&self) -> Vec<(String, Vec<&'static str>)> {
        let lacking = self.shown.iter().map(|(tool, shown)| {
            let needed = |p: &Proves| *p != Proves::Tenant || !self.asking.contains(tool);
            let lacks = Proves::ALL.iter().copied().filter(|p| needed(p) && !shown.contains(p)).map(Proves::as_str);
            (tool.clone(), lacks.collect::<Vec<_>>())
        });
        lacking.filter(|(_, lacks)| !lacks.is_empty()).collect()
    }
}

/// Why a scenario is not the evidence that it says it is; `None`: it is.
pub fn unproven(scenario: &Scenario, butler: &Butler) -> Option<String> {
    let proves = scenario.proves?;
    let calls = |tool: &str| -> Vec<(usize, &Step)> {
        let of_tool = |step: &Step| matches!(&step.act, Act::Call { tool: called, .. } if called == tool);
        scenario.steps.iter().enumerate().filter(|(_, step)| of_tool(step)).collect()
    };
    let last_rows = scenario.steps.iter().rposition(|step| matches!(step.act, Act::Rows(_)));
    scenario.tools.iter().find_map(|tool| {
        let calls = calls(tool);
        let Some(def) = butler.tools().definition(tool) else {
            return Some(format!("{} has no tool `{tool}`", butler.name()));
        };
        // What a web service is asked to do leaves no rows here.
        let elsewhere = def.meta.sends_out && def.meta.reads_untrusted;
        match proves {
            _ if calls.is_empty() => Some(format!("it is evidence for `{tool}`, which it never calls")),
            Proves::Success => {
                let done = calls.iter().find(|(_, step)| step.refused.is_none() && step.tenant.is_none());
                match done {
                    None => Some(format!("`{tool}` never succeeds in it")),
                    Some((_, step)) if def.effect() == Effect::None || elsewhere => {
                        let told = step.expect.is_some() || step.nothing;
                        (!told && calls.iter().all(|(_, step)| step.expect.is_none()))
                            .then(|| format!("it compares nothing of what `{tool}` returns"))
                    }
                    Some((at, _)) => last_rows
                        .is_none_or(|rows| rows < *at)
                        .then(|| format!("it compares no rows after `{tool}`; add a step with `rows`")),
                }
            }
            Proves::Refusal => calls
                .iter()
                .all(|(_, step)| step.refused.is_none())
                .then(|| format!("no call of `{tool}` in it is refused")),
            Proves::Tenant => calls
                .iter()
                .all(|(_, step)| step.tenant.is_none())
                .then(|| format!("no other tenant calls `{tool}` in it (`as = \"other\"`)")),
        }
    })
}

/// Whether a call of this tool can be wrong only in ways that its schema tells: each argument is one of a few words, a
/// number between bounds, or a switch.
pub fn only_the_schema_refuses(def: &Definition) -> bool {
    let properties = def.schema.get("properties").and_then(Value::as_object);
    let closed = |arg: &Map<String, Value>| {
        arg.contains_key("enum") || matches!(arg.get("type").and_then(Value::as_str), Some("boolean" | "integer"))
    };
    properties.is_none_or(|all| all.values().all(|arg| arg.as_object().is_some_and(closed)))
}
