//! Whom and what facts are about, as the nodes of a graph.

use base::{Trust, text};
use jiff::Timestamp;
use memory::sql::graph::{self, GraphFact};
use serde_json::{Value, json};
use tools::ToolCall;

use super::Graph;
use super::arguments::{Failed, group_of, most, scopes, texts};
use super::edges::{sentence, source_of, target_of};
use super::facts::ranked;

/// The one label that nodes have.
const LABEL: &str = "Entity";
/// The longest summary, in bytes.
const SUMMARY: usize = 1000;
/// So many are given at once.
const AT_ONCE: usize = 100;
/// So many facts are looked at for each node: several speak of one.
const FACTS: usize = 5;

/// A node that was found.
struct Node {
    uuid: String,
    name: String,
    scope: String,
    created_at: Timestamp,
    trust: Trust,
    says: Vec<String>,
}

impl Node {
    /// What a fact says is part of what is known of it.
    fn take(&mut self, fact: &GraphFact) {
        self.created_at = self.created_at.min(fact.created_at);
        self.trust = self.trust.min(Trust::from_name(&fact.trust));
        let says = sentence(fact);
        if !self.says.contains(&says) {
            self.says.push(says);
        }
    }

    fn shown(&self) -> Value {
        json!({
            "uuid": self.uuid, "name": self.name, "labels": [LABEL], "created_at": self.created_at,
            "summary": text::truncate(&self.says.join("\n"), SUMMARY), "group_id": group_of(&self.scope),
            "attributes": {"trust": self.trust},
        })
    }
}

/// The nodes of facts, each once, in their order.
fn nodes(facts: &[GraphFact]) -> Vec<Node> {
    let mut all: Vec<Node> = Vec::new();
    for fact in facts {
        let object = fact.object.as_ref().map(|name| (target_of(fact), name.clone()));
        for (uuid, name) in [Some((source_of(fact), fact.subject.clone())), object].into_iter().flatten() {
            if !all.iter().any(|node| node.uuid == uuid) {
                let (scope, created_at) = (fact.scope.clone(), fact.created_at);
                all.push(Node { uuid, name, scope, created_at, trust: Trust::Owner, says: Vec::new() });
            }
        }
    }
    all
}

/// Those that a question is about.
pub(super) async fn search(call: &ToolCall, graph: &Graph) -> Result<Value, Failed> {
    let limit = most(call, "max_nodes", 10, AT_ONCE);
    let scopes = scopes(call, &graph.group)?;
    let labelled = texts(call, "entity_types").is_none_or(|types| types.iter().any(|label| label == LABEL));
    let mut found = Vec::new();
    if labelled && limit > 0 {
        let ids = ranked(call, graph, &scopes, limit * FACTS).await?;
        let facts = graph::facts(&mut &*call, &scopes, &ids).await?;
        found = nodes(&facts);
        if let Some(center) = call.text("center_node_uuid") {
            let beside = |node: &Node| {
                let ends = |fact: &GraphFact| [source_of(fact), target_of(fact)];
                facts.iter().map(ends).any(|ends| ends.iter().any(|e| e == center) && ends.contains(&node.uuid))
            };
            found.sort_by_key(|node| !beside(node));
        }
        found.truncate(limit);
        let names: Vec<String> = found.iter().map(|node| node.name.clone()).collect();
        let about = graph::about(&mut &*call, &scopes, &names).await?;
        for node in &mut found {
            let own = |fact: &&GraphFact| source_of(fact) == node.uuid || target_of(fact) == node.uuid;
            let own: Vec<&GraphFact> = facts.iter().chain(&about).filter(own).collect();
            own.into_iter().for_each(|fact| node.take(fact));
        }
    }
    let message = if found.is_empty() { "No relevant nodes found" } else { "Nodes retrieved successfully" };
    Ok(json!({"message": message, "nodes": found.iter().map(Node::shown).collect::<Vec<_>>()}))
}
