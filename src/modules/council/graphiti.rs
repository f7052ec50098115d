//! A server of Graphiti's tools: connected when it is there, done without when it is not.

use std::sync::Arc;
use std::time::Duration;

use base::{Backoff, Secret};
use council::episode::{self, Episode};
use council::gate::{self, Provenance, Remembered};
use jiff::Timestamp;
use mcp::{ClientError, RemoteConnection, RemoteServer, RemoteTool};
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::provenance::Speakers;
use super::settings::GraphitiSettings;
use crate::live::Live;

const ADD: &str = "add_memory";
const FACTS: &str = "search_memory_facts";
const NODES: &str = "search_nodes";
const EPISODES: &str = "get_episodes";
/// So many facts, and so many nodes, are asked for.
const FOUND: u32 = 10;
/// So many episodes of a group are looked through for one that may have arrived. The server does not sort them by age.
const LOOKED_THROUGH: u32 = 5000;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// What became of sending an episode.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Yes,
    /// The server is not there.
    Down(String),
    /// It was there, and failed: of this one's own or not, nobody knows.
    Failed(String),
}

/// Why the server can't be asked.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Away(String);

/// The server.
pub(super) struct Graphiti {
    url: String,
    settings: GraphitiSettings,
    token: Option<Secret<String>>,
    live: Live,
    link: Mutex<Link>,
    speakers: Speakers,
}

struct Link {
    open: Option<Arc<RemoteConnection>>,
    /// Why there is none, and until when it is not tried again.
    down: Option<(String, Instant)>,
    backoff: Backoff,
}

impl Graphiti {
    pub fn new(url: &str, settings: &GraphitiSettings, token: Option<Secret<String>>, live: &Live) -> Self {
        let link = Link { open: None, down: None, backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE) };
        let (url, settings, live) = (url.to_owned(), settings.clone(), live.clone());
        Self { url, settings, token, live, link: Mutex::new(link), speakers: Speakers::default() }
    }

    /// How long it is left alone from now on; `None`: it may be asked.
    pub async fn rests_for(&self) -> Option<Duration> {
        let link = self.link.lock().await;
        let (_, until) = link.down.as_ref()?;
        until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }

    /// The connection. One at a time tries to make it; while the server rests all others hear why at once.
    pub async fn connection(&self) -> Result<Arc<RemoteConnection>, Away> {
        let mut link = self.link.lock().await;
        if let Some(open) = link.open.as_ref().filter(|open| !open.is_closed()) {
            return Ok(open.clone());
        }
        if let Some((why, until)) = &link.down
            && *until > Instant::now()
        {
            return Err(Away(why.clone()));
        }
        let server = RemoteServer {
            name: "graphiti".to_owned(),
            url: self.url.clone(),
            token: self.token.clone(),
            headers: Vec::new(),
            call_within: self.settings.call_timeout.0,
        };
        let made = RemoteConnection::open(server).await.map_err(|e| e.to_string()).and_then(|open| {
            let parameters =
                tool(open.tools(), ADD).map(parameters_of).ok_or_else(|| format!("it has no tool {ADD}"))?;
            match episode::missing(&parameters) {
                Some(name) => Err(format!("its tool {ADD} takes no {name}")),
                None => Ok(open),
            }
        });
        match made {
            Ok(open) => {
                if link.down.take().is_some() {
                    tracing::info!("the knowledge graph at {} is there again", self.url);
                }
                self.live.note(None);
                let open = Arc::new(open);
                link.open = Some(open.clone());
                Ok(open)
            }
            Err(why) => {
                self.fell(&mut link, why.clone());
                Err(Away(why))
            }
        }
    }

    fn fell(&self, link: &mut Link, why: String) {
        if link.down.is_none() {
            // Once, until it is there again.
            tracing::warn!("the council goes on without the knowledge graph at {}: {why}", self.url);
        }
        self.live.note(Some(format!("works without its knowledge graph: {why}")));
        link.open = None;
        link.down = Some((why, Instant::now() + link.backoff.next_delay()));
    }

    /// A call failed in a way that says something of the server.
    async fn lost(&self, e: &ClientError) {
        if !matches!(e, ClientError::Refused { .. }) {
            self.fell(&mut *self.link.lock().await, e.to_string());
        }
    }

    /// Sends an episode. `doubtful`: it may have arrived, so it is looked for first where the server would take it twice.
    /// `look_only`: if it is not found it is not sent either, for the server may still be working on it.
    pub async fn send(&self, episode: &Episode, doubtful: bool, look_only: bool) -> Sent {
        let connection = match self.connection().await {
            Ok(connection) => connection,
            Err(Away(why)) => return Sent::Down(why),
        };
        let Some(add) = tool(connection.tools(), ADD) else { return Sent::Down(format!("it has no tool {ADD}")) };
        // Only a server that says that the same again is the same keeps what is sent under an id of the sender's: Graphiti's
        // own takes one for an episode that it has to read anew, answers well, and loses it.
        let takes_id = add.idempotent || episode::stores_once(&parameters_of(add));
        if doubtful && !takes_id {
            match self.has(&connection, episode).await {
                Ok(true) => return Sent::Yes,
                Ok(false) if look_only => return Sent::Failed("it may still be at work on this episode".to_owned()),
                Err(why) if look_only => return Sent::Failed(why),
                // One that can't say what it has is told again rather than never.
                Ok(false) | Err(_) => {}
            }
        }
        let arguments = episode.arguments(&parameters_of(add), takes_id);
        match self.call(&connection, ADD, arguments).await {
            Ok(_) => Sent::Yes,
            Err(Failed::Tool(why) | Failed::Server(why)) => Sent::Failed(why),
        }
    }

    async fn has(&self, connection: &RemoteConnection, episode: &Episode) -> Result<bool, String> {
        let name = episode.name();
        Ok(self.listed(connection, &episode.group).await?.iter().any(|one| one["name"] == name.as_str()))
    }

    /// The episodes of a group.
    async fn listed(&self, connection: &RemoteConnection, group: &str) -> Result<Vec<Value>, String> {
        let arguments = json!({"group_ids": [group], "max_episodes": LOOKED_THROUGH});
        let Value::Object(arguments) = arguments else { return Ok(Vec::new()) };
        let found = self.call(connection, EPISODES, arguments).await.map_err(Failed::into_words)?;
        let listed = found.as_array().or_else(|| found.get("episodes")?.as_array());
        listed.cloned().ok_or_else(|| format!("what {EPISODES} says can't be read"))
    }

    /// What the graph knows of a question at this moment: facts that still hold, and what it says of things and people.
    /// Nothing where it fails or takes too long. What strangers had a part in is not even shown to whoever weighs the rest.
    pub async fn search(&self, question: &str, now: Timestamp) -> Vec<Remembered> {
        let until = Instant::now() + self.settings.search_within.0;
        let searching = async {
            let connection = self.connection().await.ok()?;
            let group = [&self.settings.group_id];
            let facts = json!({"query": question, "group_ids": group, "max_facts": FOUND});
            let nodes = json!({"query": question, "group_ids": group, "max_nodes": FOUND});
            let ask = |name, arguments: Value| {
                let connection = connection.clone();
                async move { self.call(&connection, name, arguments.as_object().cloned().unwrap_or_default()).await }
            };
            let (facts, nodes) = tokio::join!(ask(FACTS, facts), ask(NODES, nodes));
            let mut found = Vec::new();
            for (answer, what) in [(facts, "facts"), (nodes, "nodes")] {
                match answer {
                    Ok(answer) => found.extend_from_slice(list(&answer, what)),
                    Err(e) => tracing::warn!("the knowledge graph found no {what}: {}", e.into_words()),
                }
            }
            Some((connection, found))
        };
        let Some((connection, found)) = tokio::time::timeout_at(until, searching).await.ok().flatten() else {
            return Vec::new();
        };
        if found.iter().any(|fact| !self.speakers.know(fact)) {
            // Where that fails or takes too long, they are the council's own as far as anybody knows.
            let _ = tokio::time::timeout_at(until, self.meet_speakers(&connection)).await;
        }
        let of = |one: &Value| remembered(one, self.speakers.of(one, &self.settings.group_id), now);
        found.iter().filter_map(of).filter(|one| one.provenance != Provenance::Stranger).collect()
    }

    /// Looks whose words the episodes of the own group are.
    async fn meet_speakers(&self, connection: &RemoteConnection) {
        match self.listed(connection, &self.settings.group_id).await {
            Ok(episodes) => self.speakers.learn(&episodes),
            Err(why) => tracing::debug!("the knowledge graph does not say whose words its episodes are: {why}"),
        }
    }

    async fn call(
        &self,
        connection: &RemoteConnection,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<Value, Failed> {
        let answer = match connection.call(name, arguments).await {
            Ok(answer) => answer,
            Err(e) => {
                self.lost(&e).await;
                return Err(match e {
                    ClientError::Refused { .. } => Failed::Tool(e.to_string()),
                    e => Failed::Server(e.to_string()),
                });
            }
        };
        // Its next failure is the first. One that only takes connections is left alone longer each time.
        self.link.lock().await.backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let body = answer.structured.or_else(|| serde_json::from_str(&answer.text).ok()).unwrap_or(Value::Null);
        let inner = body.get("result").filter(|inner| inner.is_object() || inner.is_array()).cloned().unwrap_or(body);
        match inner.get("error").and_then(Value::as_str) {
            Some(error) => Err(Failed::Tool(base::text::truncate(error, 500))),
            None if answer.is_error => Err(Failed::Tool(base::text::truncate(&answer.text, 500))),
            None => Ok(inner),
        }
    }
}

enum Failed {
    /// The tool's own word.
    Tool(String),
    Server(String),
}

impl Failed {
    fn into_words(self) -> String {
        match self {
            Self::Tool(why) | Self::Server(why) => why,
        }
    }
}

fn tool<'a>(tools: &'a [RemoteTool], name: &str) -> Option<&'a RemoteTool> {
    tools.iter().find(|tool| tool.name == name)
}

fn parameters_of(tool: &RemoteTool) -> Map<String, Value> {
    tool.schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default()
}

fn list<'a>(answer: &'a Value, name: &str) -> &'a [Value] {
    answer.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// A fact or a node as something that is remembered; none where it holds no longer.
fn remembered(one: &Value, provenance: Provenance, now: Timestamp) -> Option<Remembered> {
    let moment = |name: &str| {
        let text = one.get(name)?.as_str()?;
        text.parse::<Timestamp>().ok().or_else(|| {
            // A moment without a zone is meant as UTC.
            text.parse::<jiff::civil::DateTime>().ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|at| at.timestamp())
        })
    };
    let over = |name: &str| one.get(name).is_some_and(|at| !at.is_null());
    if over("invalid_at") || over("expired_at") {
        return None;
    }
    let text = |name: &str| one.get(name).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty());
    let said = match (text("fact"), text("name"), text("summary")) {
        (Some(fact), ..) => fact.to_owned(),
        (None, Some(name), Some(summary)) => format!("{name}: {summary}"),
        _ => return None,
    };
    Some(Remembered {
        place: "graphiti".to_owned(),
        id: text("uuid").unwrap_or_default().to_owned(),
        text: base::text::truncate(&base::text::clean(&said), 1000),
        at: gate::since([moment("valid_at"), moment("created_at")], now),
        provenance,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(one: &Value) -> Option<Remembered> {
        remembered(one, Provenance::Council, "2026-06-01T00:00:00Z".parse().unwrap())
    }

    #[test]
    fn absurd_dates_make_nothing_younger_than_it_is() {
        let fact =
            |valid: Value, created: Value| json!({"fact": "x", "valid_at": valid, "created_at": created, "score": 99});
        let learned = "2026-01-02T03:04:05Z";
        for ahead in ["2126-01-01T00:00:00Z", "9999-12-30T00:00:00", "2026-06-02T00:00:00+00:00"] {
            assert_eq!(read(&fact(json!(ahead), json!(learned))).unwrap().at, learned.parse().ok(), "{ahead}");
            assert_eq!(read(&fact(json!(ahead), json!(ahead))).unwrap().at, None, "{ahead}");
        }
        for no_date in [json!(""), json!("soon"), json!(4_102_444_800_u64), json!({"at": 1}), Value::Null] {
            assert_eq!(read(&fact(no_date.clone(), Value::Null)).unwrap().at, None, "{no_date}");
        }
    }

    #[test]
    fn what_holds_no_longer_is_not_remembered() {
        let fact = json!({"uuid": "u", "fact": "The boiler is a Vaillant.", "created_at": "2026-01-02T03:04:05+00:00",
                          "valid_at": "2026-01-01T00:00:00", "invalid_at": null, "expired_at": null});
        let known = read(&fact).unwrap();
        assert_eq!(known.text, "The boiler is a Vaillant.");
        assert_eq!(known.at, "2026-01-01T00:00:00Z".parse().ok());
        let ended = json!({"fact": "x", "invalid_at": "2026-02-01T00:00:00Z"});
        assert_eq!(read(&ended), None);
        let node =
            json!({"uuid": "n", "name": "Boiler", "summary": "A Vaillant.", "created_at": "2026-01-02T03:04:05Z"});
        assert_eq!(read(&node).unwrap().text, "Boiler: A Vaillant.");
        assert_eq!(read(&json!({"name": "Boiler", "summary": ""})), None);
    }
}
