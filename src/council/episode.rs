//! Episodes as a Graphiti server takes them.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// By which a council's episodes are known. Today's servers know only text, message and JSON as a source, so it stands in
/// each episode's name, and as the group.
pub const MARKER: &str = "llm_council";

/// What the schema of the argument `uuid` of `add_memory` says with `true` if a server keeps what is sent under it, once:
/// butlerd's own does. The tool as a whole does not say that the same again changes nothing, for without a `uuid` it does.
pub const STORED_ONCE: &str = "x-stored-once";

/// Whether a server whose tool has these parameters stores once what is sent under an id.
pub fn stores_once(parameters: &Map<String, Value>) -> bool {
    parameters.get("uuid").is_some_and(|uuid| uuid[STORED_ONCE] == true)
}

/// Whose words an episode holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Speaker<'a> {
    /// The owner; in the group of others, whoever asked.
    User,
    /// A question of the house's own: another butler's, a schedule's.
    Household,
    Member(&'a str),
    Chairman(&'a str),
    Direct(&'a str),
    /// An answer that was given from memory.
    Memory,
}

impl Speaker<'_> {
    /// `user`, `house`, `council:<model>`, `chairman:<model>`, `direct:<model>`, `memory`.
    pub fn description(self) -> String {
        match self {
            Self::User => "user".to_owned(),
            Self::Household => "house".to_owned(),
            Self::Member(model) => format!("council:{model}"),
            Self::Chairman(model) => format!("chairman:{model}"),
            Self::Direct(model) => format!("direct:{model}"),
            Self::Memory => "memory".to_owned(),
        }
    }
}

/// An episode.
#[derive(Clone, PartialEq, Debug)]
pub struct Episode {
    pub id: Uuid,
    pub body: String,
    /// [`Speaker::description`]
    pub description: String,
    pub at: Timestamp,
    pub group: String,
}

impl Episode {
    /// Its name, by which it is known again where the server takes no id: with the moment and the end of its id.
    pub fn name(&self) -> String {
        let at = self.at.to_zoned(TimeZone::UTC).strftime("%Y%m%d_%H%M%S");
        let id = self.id.simple().to_string();
        format!("{MARKER}_{at}_{}", &id[id.len() - 12..])
    }

    /// The arguments of `add_memory`. `parameters`: those that the server's tool has; `takes_id`: whether one that is
    /// sent again under its id is the same to it. A server may know of none of the latter.
    pub fn arguments(&self, parameters: &Map<String, Value>, takes_id: bool) -> Map<String, Value> {
        let source = match parameters.get("source").and_then(|source| source.get("enum")).and_then(Value::as_array) {
            Some(known) if known.contains(&json!(MARKER)) => MARKER,
            _ => "text",
        };
        let all = [
            ("name", json!(self.name())),
            ("episode_body", json!(self.body)),
            ("source", json!(source)),
            ("source_description", json!(self.description)),
            ("reference_time", json!(self.at.to_string())),
            ("group_id", json!(self.group)),
            ("uuid", json!(self.id)),
            // The marker of a server that has a place for what it does not know.
            ("metadata", json!({"source": MARKER})),
        ];
        let taken = |(name, _): &(&str, Value)| parameters.contains_key(*name) && (*name != "uuid" || takes_id);
        all.into_iter().filter(taken).map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// What a server must take for episodes to be sent to it; the first that it does not.
pub fn missing(parameters: &Map<String, Value>) -> Option<&'static str> {
    ["name", "episode_body", "source_description", "group_id"].into_iter().find(|name| !parameters.contains_key(*name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn episode() -> Episode {
        Episode {
            id: Uuid::from_u128(0x1234_5678_9abc_def0),
            body: "Tea or coffee?".to_owned(),
            description: Speaker::Member("gpt-5").description(),
            at: "2026-05-04T10:11:12Z".parse().unwrap(),
            group: "llm_council".to_owned(),
        }
    }

    fn parameters(names: &[&str]) -> Map<String, Value> {
        names.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect()
    }

    #[test]
    fn a_server_gets_what_it_knows_of() {
        let names = ["name", "episode_body", "source", "source_description", "reference_time", "group_id", "uuid"];
        let arguments = episode().arguments(&parameters(&names), true);
        assert_eq!(
            Value::Object(arguments),
            json!({
            "name": "llm_council_20260504_101112_56789abcdef0", "episode_body": "Tea or coffee?", "source": "text",
            "source_description": "council:gpt-5", "reference_time": "2026-05-04T10:11:12Z",
            "group_id": "llm_council", "uuid": "00000000-0000-0000-1234-56789abcdef0"})
        );
        assert!(!episode().arguments(&parameters(&names), false).contains_key("uuid"));
        let few = episode().arguments(&parameters(&["name", "episode_body", "group_id"]), true);
        assert_eq!(few.len(), 3);
        assert_eq!(missing(&parameters(&names)), None);
        // The marker goes where a server has a place for it: as the source, or beside all that it knows.
        let mut marked = parameters(&["name", "episode_body", "source", "source_description", "group_id", "metadata"]);
        assert_eq!(episode().arguments(&marked, true)["metadata"], json!({"source": MARKER}));
        assert_eq!(episode().arguments(&marked, true)["source"], "text");
        marked.insert("source".to_owned(), json!({"enum": ["text", MARKER]}));
        assert_eq!(episode().arguments(&marked, true)["source"], MARKER);
        assert!(!stores_once(&parameters(&names)));
        let own = json!({"uuid": {"type": "string", STORED_ONCE: true}});
        assert!(stores_once(own.as_object().unwrap()));
        assert_eq!(missing(&parameters(&["name", "group_id"])), Some("episode_body"));
    }
}
