//! From whom a fact of a knowledge graph is: by the episodes that it was made of, as far as they are known.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use base::Trust;
use council::episode::Speaker;
use council::gate::Provenance;
use serde_json::Value;

/// So many episodes are kept in mind; then it begins anew.
const MOST: usize = 50_000;

/// Whose words episodes are, by their uuid. What an episode says of that never changes.
#[derive(Default)]
pub(super) struct Speakers(Mutex<HashMap<String, Provenance>>);

impl Speakers {
    /// Takes in what a server lists. What is not described as a council describes its episodes was told by somebody who may
    /// write into its group, and is believed as the council is.
    pub fn learn(&self, episodes: &[Value]) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() + episodes.len() > MOST {
            known.clear();
        }
        for episode in episodes {
            let text = |name: &str| episode.get(name).and_then(Value::as_str);
            if let (Some(uuid), Some(description)) = (text("uuid"), text("source_description")) {
                let own = description == Speaker::User.description();
                known.insert(uuid.to_owned(), if own { Provenance::Owner } else { Provenance::Council });
            }
        }
    }

    /// Whether all episodes of this fact are known.
    pub fn know(&self, fact: &Value) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        episodes_of(fact).all(|uuid| known.contains_key(uuid))
    }

    /// From whom a fact or a node is, whose group should be this one: the least believed of those who say it. Nobody knows
    /// of one of another group. A server may know better than the words that came with an episode, as butlerd's own does.
    pub fn of(&self, fact: &Value, group: &str) -> Provenance {
        let text = |of: &Value, name: &str| of.get(name).and_then(Value::as_str).map(str::to_owned);
        let trust = fact.get("attributes").and_then(|known| text(known, "trust"));
        // Any other word there is of a meaning that nobody knows.
        let strangers = matches!(trust.as_deref().map(str::parse), Some(Ok(Trust::Known | Trust::Stranger)));
        if strangers || text(fact, "group_id").is_some_and(|its| its != group) {
            return Provenance::Stranger;
        }
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let says = |uuid: &str| known.get(uuid).copied().unwrap_or(Provenance::Council);
        let least = episodes_of(fact).map(says).min_by(|a, b| a.weight().total_cmp(&b.weight()));
        least.unwrap_or(Provenance::Council)
    }
}

fn episodes_of(fact: &Value) -> impl Iterator<Item = &str> {
    fact.get("episodes").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_fact_is_believed_as_the_least_believed_of_its_episodes() {
        let speakers = Speakers::default();
        let fact = |episodes: &[&str]| json!({"fact": "x", "group_id": "g", "episodes": episodes});
        assert!(!speakers.know(&fact(&["u"])) && speakers.know(&fact(&[])));
        speakers.learn(&[
            json!({"uuid": "u", "source_description": "user"}),
            json!({"uuid": "c", "source_description": "council:gpt-5"}),
            json!({"uuid": "x", "source_description": "an import"}),
        ]);
        assert!(speakers.know(&fact(&["u", "c"])));
        for (episodes, from) in [
            (&["u"][..], Provenance::Owner),
            (&["u", "c"], Provenance::Council),
            (&["x"], Provenance::Council),
            (&["u", "unknown"], Provenance::Council),
            (&[], Provenance::Council),
        ] {
            assert_eq!(speakers.of(&fact(episodes), "g"), from, "{episodes:?}");
        }
        assert_eq!(speakers.of(&fact(&["u"]), "another"), Provenance::Stranger);
        for (trust, from) in [
            ("owner", Provenance::Owner),
            ("system", Provenance::Owner),
            ("known", Provenance::Stranger),
            ("stranger", Provenance::Stranger),
            ("high", Provenance::Owner),
        ] {
            let mut told = fact(&["u"]);
            told["attributes"] = json!({"trust": trust});
            assert_eq!(speakers.of(&told, "g"), from, "{trust}");
        }
    }
}
