//! What a fact is as the edge of a graph: what it ties, and what it says.
//!
//! A node is an entity of the household, or else a name in a group: facts that say the same name speak of the same node. A
//! fact that points to no entity ends where it begins.

use memory::sql::graph::GraphFact;
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// The id of a name in a scope.
fn named(scope: &str, name: &str) -> Uuid {
    let digest = Sha256::digest(format!("node\n{scope}\n{}", name.trim().to_lowercase()).as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    Uuid::from_bytes(bytes)
}

/// The id of what a fact is about.
pub(super) fn source_of(fact: &GraphFact) -> String {
    fact.entity_id.unwrap_or_else(|| named(&fact.scope, &fact.subject)).to_string()
}

/// The id of what a fact points to.
pub(super) fn target_of(fact: &GraphFact) -> String {
    fact.object_entity_id.map_or_else(|| source_of(fact), |id| id.to_string())
}

/// What a fact says, as a sentence that is understood by itself.
pub(super) fn sentence(fact: &GraphFact) -> String {
    let (subject, content) = (fact.subject.trim(), fact.content.trim());
    if content.to_lowercase().contains(&subject.to_lowercase()) {
        return content.to_owned();
    }
    format!("{subject} {} {content}", fact.predicate.replace('_', " "))
}
