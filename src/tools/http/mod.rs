//! Tools that ask somebody else's API, declared by a file: `tools/<tool>.http`. The daemon asks; a session's child sees
//! neither the secrets nor the network.
//!
//! What such a tool answers is a stranger's words, with the audience of the call that asked: numbers alone, under names
//! that the file gives them, say nothing else and are believed. What it asks leaves the household, so that a call whose
//! session was shown what others may not learn waits for the owner.

mod answer;
mod file;
mod guard;
mod plan;
mod recorded;
mod send;
mod template;

#[cfg(test)]
mod ssrf_tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use reqwest::{Client, ClientBuilder, Url};
use serde_json::{Map, Value};

use crate::call::{ToolCall, ToolError};
use crate::definition::Effect;
use crate::egress::{EgressRecipient, EgressTarget};
use crate::tool::{Tool, handler};
use base::{Audience, Label, Principal, Secret, Trust, http_client, innermost, is_local_network};
use guard::{Guard, GuardedResolver, Lookup, system_lookup};
use plan::Plan;
use recorded::{Recordings, source};
use send::{Answer, Prepared, SendError};
use template::{FillError, Values};

pub use file::{HttpTool, load_dir};
pub use guard::NotAllowed;
pub use recorded::{Source, answer_from};
pub use template::HeaderTemplate;

/// The directory in a butler's `tests` with what HTTP tools are answered with in scenarios.
pub const RECORDINGS: &str = "http";
/// The channel under which a host is known to approvals and standing rules.
const CHANNEL: &str = "http";
/// So many answers of a tool are kept.
const CACHED: usize = 200;

/// What a stranger wrote, and anybody may learn.
const THEIRS: Label = Label { trust: Trust::Stranger, audience: Audience::Public };

impl HttpTool {
    /// The names of the secrets that it puts into requests.
    pub fn secrets(&self) -> &[String] {
        &self.plan.secrets
    }

    /// The JSON Schema of its arguments.
    pub fn schema(&self) -> Value {
        Value::Object((*self.definition.schema).clone())
    }

    /// The tool, with those of its secrets that are set.
    pub fn into_tool(self, secrets: &BTreeMap<String, Secret<String>>) -> Tool {
        let secrets =
            self.plan.secrets.iter().filter_map(|name| Some((name.clone(), secrets.get(name)?.clone()))).collect();
        let host = self.plan.host.clone();
        let runner = Runner {
            plan: self.plan,
            secrets,
            recordings: (source() != Source::Network).then_some(self.recordings),
            client: OnceLock::new(),
            kept: Mutex::default(),
        };
        let runner = Arc::new(runner);
        let target = EgressTarget {
            outward: true,
            to: format!("the web service {host}"),
            those: Some(vec![Principal::person(CHANNEL, &host)]),
            recipient: Some(EgressRecipient { name: None, channel: CHANNEL.to_owned(), address: host }),
        };
        let run = handler(move |call| {
            let runner = runner.clone();
            async move { runner.run(call).await }
        });
        Tool::new(&Arc::new(self.definition), run).with_egress_target(Arc::new(move |_| {
            let target = target.clone();
            Box::pin(async move { Ok(Some(target)) })
        }))
    }
}

/// Why nothing can be asked of an address.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    #[error("{0}")]
    Url(String),
    #[error(transparent)]
    Guard(#[from] NotAllowed),
}

/// A client for an address that the owner names. In the household's own network it is reached as it stands; of any other
/// name no address inside is connected to.
///
/// # Errors
/// It is no address.
pub fn client_for(url: &str) -> Result<ClientBuilder, AddressError> {
    if is_local_network(url) {
        return Ok(http_client(url));
    }
    let guard = Guard::new(&Url::parse(url).map_err(|e| AddressError::Url(e.to_string()))?, &[])?;
    Ok(guarded(http_client(url), guard, system_lookup()))
}

/// A client that connects to nothing but what the guard admits.
fn guarded(builder: ClientBuilder, guard: Guard, lookup: Lookup) -> ClientBuilder {
    // A proxy would look the names up itself.
    builder.no_proxy().dns_resolver(Arc::new(GuardedResolver { guard: Arc::new(guard), lookup }))
}

/// Runs one tool's calls.
struct Runner {
    plan: Plan,
    secrets: BTreeMap<String, Secret<String>>,
    /// What answers in the network's place.
    recordings: Option<Recordings>,
    /// Made at the first call.
    client: OnceLock<Client>,
    kept: Mutex<HashMap<String, Kept>>,
}

/// An answer that may be given again.
struct Kept {
    shown: Value,
    wordless: bool,
    until: Instant,
}

impl Runner {
    async fn run(&self, call: ToolCall) -> Result<Value, ToolError> {
        let request = match source() {
            // It needs none.
            Source::Recordings => self.prepare(&call.args, &self.names())?,
            _ => self.prepare(&call.args, &self.secrets)?,
        };
        let key = self.plan.cache.map(|_| key(&call, &request));
        if let Some(key) = &key
            && let Some((shown, wordless)) = self.kept(key)
        {
            return Ok(shows(&call, shown, wordless));
        }
        let effect = call.def.effect();
        if effect != Effect::None {
            // On record before it is done: what was cut off here is not begun again as if it had not been.
            call.effect("SELECT 1", &[]).await?;
        }
        let answer = match self.ask(&call.args, &request, effect != Effect::Once).await? {
            Ok(answer) => answer,
            Err(e) => {
                // It quotes the other side.
                call.shows(&THEIRS);
                let code = if matches!(e, SendError::Unknown(_)) { "outcome_unknown" } else { "http_failed" };
                return Err(ToolError::refused(code, e.to_string()));
            }
        };
        let shape = &self.plan.returns;
        let (shown, wordless) = shape.of(&answer.body, &answer.content_type).map_err(|why| {
            call.shows(&THEIRS);
            let done = if effect == Effect::None { "" } else { "; what was asked for was taken all the same" };
            ToolError::refused("http_answer", format!("{}: {why}{done}", self.plan.host))
        })?;
        if let (Some(key), Some(keeps)) = (key, self.plan.cache) {
            self.keep(key, Kept { shown: shown.clone(), wordless, until: Instant::now() + keeps });
        }
        Ok(shows(&call, shown, wordless))
    }

    async fn ask(
        &self,
        args: &Map<String, Value>,
        request: &Prepared,
        again: bool,
    ) -> Result<Result<Answer, SendError>, ToolError> {
        let sent = self.plan.send(self.client()?, request, again);
        Ok(match &self.recordings {
            None => sent.await,
            Some(recordings) => recordings.answer(&self.plan, &self.prepare(args, &self.names())?, sent).await,
        })
    }

    /// The secrets by their names, for what is written down.
    fn names(&self) -> BTreeMap<String, Secret<String>> {
        self.plan.secrets.iter().map(|name| (name.clone(), Secret::new(format!("secret.{name}")))).collect()
    }

    fn prepare(
        &self,
        args: &Map<String, Value>,
        secrets: &BTreeMap<String, Secret<String>>,
    ) -> Result<Prepared, ToolError> {
        let mut arguments = args.clone();
        for (name, default) in &self.plan.defaults {
            arguments.entry(name.clone()).or_insert_with(|| default.clone());
        }
        let values = Values { arguments: &arguments, secrets };
        let refused = |e: FillError| {
            let code = if matches!(e, FillError::NoSecret(_)) { "not_set_up" } else { "invalid_arguments" };
            ToolError::refused(code, format!("{e}."))
        };
        let wrong =
            |why: String| ToolError::refused("invalid_arguments", format!("No request can be made of this: {why}."));
        let url = Url::parse(&values.url(&self.plan.url).map_err(refused)?).map_err(|e| wrong(e.to_string()))?;
        self.plan.guard.admits(&url, None).map_err(|e| wrong(e.to_string()))?;
        let mut headers = Vec::new();
        for (name, template) in &self.plan.headers {
            if let Some(value) = values.header(template).map_err(refused)? {
                let mut value = http::HeaderValue::try_from(value).map_err(|_| wrong(format!("the header {name}")))?;
                value.set_sensitive(true);
                headers.push((name.clone(), value));
            }
        }
        let body = self.plan.body.as_ref().map(|body| values.body(body)).transpose().map_err(refused)?.flatten();
        Ok(Prepared { url, headers, body })
    }

    fn client(&self) -> Result<&Client, ToolError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        // Certificates are loaded for a file that says http, too: many a service redirects to https.
        let made = client(http_client("https:"), &self.plan, system_lookup());
        let made = made.map_err(|e| ToolError::Internal(format!("no HTTP client can be made: {}", innermost(&e))))?;
        Ok(self.client.get_or_init(|| made))
    }

    fn kept(&self, key: &str) -> Option<(Value, bool)> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(key).filter(|kept| kept.until > Instant::now()).map(|kept| (kept.shown.clone(), kept.wordless))
    }

    fn keep(&self, key: String, answer: Kept) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= CACHED {
            let now = Instant::now();
            kept.retain(|_, kept| kept.until > now);
            if kept.len() >= CACHED {
                kept.clear();
            }
        }
        kept.insert(key, answer);
    }
}

/// A client that connects to nothing but what the file names.
fn client(builder: ClientBuilder, plan: &Plan, lookup: Lookup) -> reqwest::Result<Client> {
    let builder = guarded(builder, plan.guard.clone(), lookup);
    builder.user_agent(concat!("butlerd/", env!("CARGO_PKG_VERSION"))).build()
}

/// What two calls must have alike for one answer. Their label too: that an answer was there at once tells of who asked.
fn key(call: &ToolCall, request: &Prepared) -> String {
    let headers: Vec<_> = request.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    let label = call.caller.taint().map(|taint| taint.label());
    format!("{} {label:?} {} {headers:?}", call.context().tenant_id.as_str(), request.url)
}

fn shows(call: &ToolCall, shown: Value, wordless: bool) -> Value {
    if !wordless {
        call.shows(&THEIRS);
    }
    shown
}
