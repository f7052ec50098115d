//! The channel `webhook`: programs hand messages in, and deliveries go out to programs.
//!
//! The two are apart. `[modules.webhook.inbound.<name>]` stands in the switchboard's `butler.toml`, whose module takes
//! in; `[modules.webhook.endpoints.<name>]` in the messenger's, whose module sends. The messenger has the module also where
//! its file says nothing of it and something is taken in: an answer must come to an end.

mod hook;
mod inbound;
mod mapping;
mod out;
mod proof;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::contract::{Credential, Factory, Manifest, Module, ModuleContext, ModuleError, with_settings};
use crate::routes::Route;
use base::{ButlerName, Secret};
use config::{KeyMistake, Section};
use inbound::Inbound;
use inbox::SWITCHBOARD;
use out::{Endpoint, WebhookChannel};
use outbox::{Channel, MESSENGER, send_tool, send_tool_name};
use tools::Tool;

/// The module, and the channel as messages and deliveries name it.
const NAME: &str = "webhook";

pub(super) struct WebhookFactory;

/// `[modules.webhook]`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(transform = config::keys::<Self>)]
struct Settings {
    /// Where deliveries go, by a name of the owner's. In the messenger's file.
    #[serde(default)]
    endpoints: BTreeMap<String, Endpoint>,
    /// What hands messages in, by a name of the owner's. In the switchboard's file.
    #[serde(default)]
    #[schemars(extend("propertyNames" = {"format": "name"}))]
    inbound: BTreeMap<String, Inbound>,
}

/// The settings, or what is wrong with them.
fn read(config: &Value) -> Result<Settings, Vec<KeyMistake>> {
    Section::of::<Settings>().read_with(config, |settings: &Settings| {
        let expected = "at least one [modules.webhook.endpoints.<name>], or in the switchboard's file one \
                        [modules.webhook.inbound.<name>]";
        let none = config.get("endpoints").or_else(|| config.get("inbound")).is_none();
        let mut wrong: Vec<KeyMistake> =
            none.then(|| KeyMistake::new("endpoints", "found none", expected)).into_iter().collect();
        wrong.extend(inbound::mistakes(&settings.inbound));
        wrong
    })
}

/// What stands in another butler's file than it belongs into.
fn misplaced(settings: &Settings, butler: &str) -> Vec<KeyMistake> {
    let found = |key: &str, place: &str| {
        let expected = format!("it in {place}/butler.toml: {SWITCHBOARD} takes in, and {MESSENGER} sends");
        KeyMistake::new(key, format!("found in `{butler}`"), expected)
    };
    let takes_in = butler == SWITCHBOARD;
    let out = (takes_in && !settings.endpoints.is_empty()).then(|| found("endpoints", MESSENGER));
    let into = (!takes_in && !settings.inbound.is_empty()).then(|| found("inbound", SWITCHBOARD));
    out.into_iter().chain(into).collect()
}

impl Factory for WebhookFactory {
    with_settings!(NAME, Settings, read);
    fn check_for(&self, butler: &str, config: &Value) -> Vec<KeyMistake> {
        read(config).map_or_else(|wrong| wrong, |settings| misplaced(&settings, butler))
    }
    fn build(&self, config: &Value, butler: &ButlerName, _: &Path) -> Result<Box<dyn Module>, ModuleError> {
        let settings = read(config)?;
        let wrong = misplaced(&settings, butler.as_str());
        if wrong.is_empty() { Ok(Box::new(WebhookModule { settings })) } else { Err(wrong.into()) }
    }
}

struct WebhookModule {
    settings: Settings,
}

/// The credential that a part of the settings names.
fn credential(cx: &ModuleContext, name: &str) -> Result<Secret<String>, ModuleError> {
    let secret = cx.credentials.get(name).ok_or_else(|| format!("{name} is not set"))?;
    // With an empty key anybody signs.
    if secret.expose().trim().is_empty() { Err(format!("{name} is empty").into()) } else { Ok(secret.clone()) }
}

#[async_trait]
impl Module for WebhookModule {
    fn manifest(&self) -> Result<Manifest, ModuleError> {
        let Settings { endpoints, inbound } = &self.settings;
        Ok(Manifest {
            tools: if endpoints.is_empty() { Vec::new() } else { vec![send_tool_name(NAME)] },
            routes: inbound.iter().map(|(name, one)| one.route(name)).collect(),
            channels: if inbound.is_empty() { Vec::new() } else { vec![NAME.to_owned()] },
        })
    }
    fn credentials(&self) -> Vec<Credential> {
        let Settings { endpoints, inbound } = &self.settings;
        let of = |name: &str, token_env: &Option<String>| Credential {
            name: name.to_owned(),
            token_env: token_env.clone(),
            required: true,
        };
        let sends = endpoints.values().map(|end| of(&end.secret, &end.token_env));
        sends.chain(inbound.values().map(|one| of(&one.secret, &one.token_env))).collect()
    }
    async fn start(&self, cx: &ModuleContext) -> Result<(), ModuleError> {
        self.settings.inbound.values().try_for_each(|one| credential(cx, &one.secret).map(drop))
    }
    fn channels(&self, cx: &ModuleContext) -> Result<Vec<Arc<dyn Channel>>, ModuleError> {
        let mut channel = WebhookChannel::new(&cx.clock);
        for (name, endpoint) in &self.settings.endpoints {
            channel.add(name, endpoint, credential(cx, &endpoint.secret)?)?;
        }
        Ok(vec![Arc::new(channel)])
    }
    async fn tools(&self, cx: &ModuleContext) -> Result<Vec<Tool>, ModuleError> {
        match self.settings.endpoints.is_empty() {
            true => Ok(Vec::new()),
            false => Ok(vec![send_tool(&cx.outbox, NAME).map_err(ModuleError::new)?]),
        }
    }
    fn routes(&self, cx: &ModuleContext) -> Vec<Route> {
        // Those without a credential are not served: the module failed at its start.
        let route = |(name, one): (&String, &Inbound)| one.served(name, credential(cx, &one.secret).ok()?, cx);
        self.settings.inbound.iter().filter_map(route).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn settings_are_checked_each_with_its_key() {
        let good = json!({"endpoints": {"door": {"url": "https://a.example/x", "secret": "S", "timeout": "2s"}}});
        assert!(read(&good).is_ok());
        for (bad, key) in [
            (json!({}), "endpoints"),
            (json!({"endpoints": {"d": {"url": "ftp://a", "secret": "S"}}}), "endpoints.d.url"),
            (json!({"endpoints": {"d": {"url": "http://a", "secret": "a b"}}}), "endpoints.d.secret"),
            (json!({"endpoints": {"d": {"url": "http://a", "secret": "S", "per_minute": 0}}}), "per_minute"),
            (json!({"endpoints": {"d": {"url": "http://a", "secret": "S", "timeout": "1h"}}}), "timeout"),
            (json!({"endpoints": {"d": {"url": "http://a", "secret": "S", "key": 1}}}), "key"),
            (json!({"inbound": {"Git Hub": {"secret": "S", "text": "x"}}}), "inbound.Git Hub"),
            (json!({"inbound": {"g": {"text": "x"}}}), "inbound.g.secret"),
            (json!({"inbound": {"g": {"secret": "S"}}}), "inbound.g.text"),
            (json!({"inbound": {"g": {"secret": "S", "text": ""}}}), "inbound.g.text"),
            (json!({"inbound": {"g": {"secret": "S", "text": "{/a"}}}), "inbound.g.text"),
            (json!({"inbound": {"g": {"secret": "S", "text": "{/a~2}"}}}), "inbound.g.text"),
            (json!({"inbound": {"g": {"secret": "S", "text": "x", "path": "a/b"}}}), "inbound.g.path"),
            (json!({"inbound": {"g": {"secret": "S", "text": "x", "proof": "none"}}}), "inbound.g.proof"),
            (json!({"inbound": {"g": {"secret": "S", "text": "x", "header": "a b"}}}), "inbound.g.header"),
            (json!({"inbound": {"g": {"secret": "S", "text": "x", "timestamp_header": "é"}}}), "timestamp_header"),
            (json!({"inbound": {"g": {"secret": "S", "text": "x", "replay_window": "9d"}}}), "replay_window"),
            (json!({"inbound": {"g": {"secret": "S", "text": "x", "id": "number"}}}), "inbound.g.id"),
            (json!({"inbound": {"g": {"secret": "S", "text": "x", "id": "header:"}}}), "inbound.g.id"),
            (json!({"inbound": {"g": {"secret": "S", "text": "x", "sender": "/~"}}}), "inbound.g.sender"),
            (json!({"inbound": {"g": {"secret": "S", "text": "x", "thread": "x"}}}), "inbound.g.thread"),
            (json!({"inbound": {"g": {"secret": "S", "text": "x", "when": {"action": ["a"]}}}}), "inbound.g.when"),
            (json!({"inbound": {"g": {"secret": "S", "text": "x", "tier": "interactive"}}}), "inbound.g.tier"),
            (json!({"inbound": {"g": {"secret": "S", "text": "x", "butler": "No One"}}}), "inbound.g.butler"),
            (
                json!({"inbound": {"g": {"secret": "S", "text": "x", "proof": "bearer", "timestamp_header": "X-At"}}}),
                "inbound.g.timestamp_header",
            ),
            (
                json!({"inbound": {"a": {"secret": "S", "text": "x"}, "b": {"secret": "S", "text": "x", "path": "a"}}}),
                "inbound.b.path",
            ),
        ] {
            let wrong = read(&bad).unwrap_err();
            assert!(wrong.iter().any(|w| w.key.contains(key)), "{bad}: {wrong:?}");
        }
    }

    #[test]
    fn each_side_stands_in_its_butlers_file() {
        let into = json!({"inbound": {"github": {"secret": "S", "text": "{/a}"}}});
        let out = json!({"endpoints": {"door": {"url": "https://a.example/x", "secret": "S"}}});
        let wrong = |butler: &str, config: &Value| -> Vec<String> {
            WebhookFactory.check_for(butler, config).iter().map(ToString::to_string).collect()
        };
        assert_eq!((wrong("switchboard", &into), wrong("messenger", &out)), (Vec::new(), Vec::new()));
        let told = wrong("messenger", &into);
        assert!(told[0].starts_with("inbound: found in `messenger`, expected it in switchboard/"), "{told:?}");
        let told = wrong("switchboard", &out);
        assert!(told[0].starts_with("endpoints: found in `switchboard`, expected it in messenger/"), "{told:?}");
        let build = |butler: &str, config: &Value| {
            let module = WebhookFactory.build(config, &ButlerName::new(butler).unwrap(), Path::new(""));
            module.map(|module| module.manifest().unwrap())
        };
        assert!(build("switchboard", &out).is_err() && build("health", &into).is_err());
        let taking = build("switchboard", &into).unwrap();
        assert_eq!((taking.channels, taking.tools.len()), (vec![NAME.to_owned()], 0));
        assert_eq!(taking.routes[0].path, "/hooks/webhook/github");
        let sending = build("messenger", &out).unwrap();
        assert_eq!((sending.routes.len(), sending.channels.len(), sending.tools.len()), (0, 0, 1));
        // As the messenger has it where only the switchboard's file names the channel.
        assert_eq!(build("messenger", &json!({"endpoints": {}})).unwrap().tools.len(), 0);
    }
}
