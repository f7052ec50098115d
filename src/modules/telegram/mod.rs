//! Telegram: a bot that people write to. The switchboard's module takes in what they write; the messenger's sends. Both
//! read `[modules.telegram]` of the switchboard's `butler.toml`.
//!
//! The user client that the specification knows (`telegram.user`) is not offered: it logs in as a person, sees all of
//! their chats and can be blocked with their account, and no Rust library for it is kept that could be trusted with that.

mod api;
mod buttons;
mod channel;
mod connect;
mod drafts;
mod format;
mod greeter;
mod hook;
mod incoming;
mod reactions;
mod source;
mod types;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::background::{BackgroundTask, TaskKind};
use crate::connector::Connector;
use crate::contract::AccountTrial;
use crate::contract::{Credential, Factory, Manifest, Module, ModuleContext, ModuleError, with_settings};
use crate::replies::reply_tool;
use crate::routes::Route;
use api::Api;
use base::{ButlerName, ByteSize};
use buttons::Buttons;
use channel::TelegramChannel;
use config::{KeyMistake, Section};
pub use connect::{TelegramAccount, TelegramBot};
use drafts::Drafts;
use greeter::Greeter;
use hook::Hook;
use inbox::SWITCHBOARD;
use incoming::Reader;
use outbox::{Channel, MESSENGER, send_tool, send_tool_name};
use reactions::Reactions;
use source::TelegramSource;
use tools::Tool;

/// As messages and deliveries name it.
pub(crate) const CHANNEL: &str = "telegram";
/// Answers a message in its chat.
const REPLY: &str = "telegram_reply_to_message";

pub(super) struct TelegramFactory;

/// `[modules.telegram]`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(transform = config::keys::<Self>)]
struct Settings {
    /// The bot that people write to.
    bot: BotSection,
    /// A person's own account, as the specification has it. It is not offered.
    user: Option<UserSection>,
    /// Numbers of the chats whose messages are taken in; empty: all. A group's number is negative.
    #[schemars(extend("items" = {"type": "integer", "minimum": -9_007_199_254_740_991_i64}, "default" = []))]
    allowed_chats: Vec<i64>,
    /// Which messages of a group are for the household: those that speak to the bot, or all that Telegram tells it of.
    #[schemars(extend("default" = "addressed"))]
    groups: GroupAnswers,
    /// The Bot API server.
    #[schemars(extend("format" = "url", "default" = "https://api.telegram.org"))]
    api_url: String,
    /// Whether a reaction shows what becomes of a message: 👀 seen, ✍ in work, 👍 done, 👎 failed.
    #[schemars(extend("default" = true))]
    reactions: bool,
    /// Whether the owner sees an answer in their own chat as it is written.
    #[schemars(extend("default" = true))]
    streaming: bool,
    /// The largest file that is taken in with its message; of a larger one only its name is.
    #[schemars(extend("default" = "10 MiB"))]
    largest_file: ByteSize,
}

/// `[modules.telegram.bot]`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(transform = config::keys::<Self>)]
struct BotSection {
    /// Whether the bot is served.
    #[schemars(extend("default" = true))]
    enabled: bool,
    /// The credential that holds its token.
    #[schemars(extend("format" = "credential", "default" = "BUTLER_TELEGRAM_TOKEN"))]
    token: String,
    /// The environment variable that is asked where no such secret is stored; if not set, the one of the same name.
    #[schemars(extend("format" = "credential"))]
    token_env: Option<String>,
}

/// `[modules.telegram.user]`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(transform = config::keys::<Self>)]
struct UserSection {
    /// It can only be off.
    #[schemars(extend("default" = false))]
    enabled: bool,
}

/// Which messages of a group are for the household.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum GroupAnswers {
    Addressed,
    Always,
}

/// The settings, or what is wrong with them.
fn read(config: &Value) -> Result<Settings, Vec<KeyMistake>> {
    Section::of::<Settings>().read_with(config, |settings: &Settings| {
        let user = settings.user.as_ref().is_some_and(|user| user.enabled);
        let expected = "false: a person's own account is not offered, because no kept library could be trusted with it";
        user.then(|| KeyMistake::new("user.enabled", "found true", expected)).into_iter().collect()
    })
}

impl Factory for TelegramFactory {
    with_settings!(CHANNEL, Settings, read);
    fn build(&self, config: &Value, butler: &ButlerName, _: &Path) -> Result<Box<dyn Module>, ModuleError> {
        let settings = read(config)?;
        let part = match butler.as_str() {
            SWITCHBOARD => Part::TakesIn,
            MESSENGER => Part::Sends,
            // Whoever only wants to know what it would bring.
            "nobody" => Part::Sends,
            other => {
                let why =
                    format!("it belongs into the butler.toml of {SWITCHBOARD}, not of {other}: {MESSENGER} sends");
                return Err(why.into());
            }
        };
        Ok(Box::new(TelegramModule { settings, part, parts: OnceLock::new() }))
    }
}

/// What a butler's module does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    TakesIn,
    Sends,
}

struct TelegramModule {
    settings: Settings,
    part: Part,
    /// Of the one that takes in.
    parts: OnceLock<Parts>,
}

/// What takes messages in.
#[derive(Clone)]
struct Parts {
    source: Arc<TelegramSource>,
    reactions: Arc<Reactions>,
}

impl TelegramModule {
    fn api(&self, cx: &ModuleContext) -> Result<Api, ModuleError> {
        let bot = &self.settings.bot;
        let token = cx.credentials.get(&bot.token).ok_or_else(|| format!("{} is not set", bot.token))?;
        Api::new(&self.settings.api_url, token, &bot.token)
    }

    /// What takes messages in; `None`: this module does not.
    fn parts(&self, cx: &ModuleContext) -> Option<Parts> {
        if !self.settings.bot.enabled || self.part != Part::TakesIn {
            return None;
        }
        let api = self.api(cx).ok()?;
        Some(self.parts.get_or_init(|| self.make_parts(api, cx)).clone())
    }

    fn make_parts(&self, api: Api, cx: &ModuleContext) -> Parts {
        let reactions = Arc::new(Reactions::new(&api, cx, self.settings.reactions));
        let reader = Reader {
            endpoint: endpoint(api.bot_id()),
            bot: api.bot_id(),
            username: None,
            groups: self.settings.groups,
            allowed_chats: self.settings.allowed_chats.clone(),
        };
        let shows = (reactions.clone(), Drafts::new(&api, cx, self.settings.streaming));
        let does = (Buttons::new(&api, cx), Greeter::new(&api, cx));
        let source = TelegramSource::new(api, reader, shows, does, self.settings.largest_file.0, cx.public_url.clone());
        Parts { source: Arc::new(source), reactions }
    }
}

/// The household's own end, by which a bot's messages and deliveries belong together.
fn endpoint(bot: i64) -> String {
    format!("bot:{bot}")
}

#[async_trait]
impl Module for TelegramModule {
    fn manifest(&self) -> Result<Manifest, ModuleError> {
        Ok(match self.part {
            Part::TakesIn => {
                Manifest { channels: vec![CHANNEL.to_owned()], routes: vec![hook::spec()], ..Manifest::default() }
            }
            Part::Sends => Manifest { tools: vec![send_tool_name(CHANNEL), REPLY.to_owned()], ..Manifest::default() },
        })
    }
    fn credentials(&self) -> Vec<Credential> {
        let BotSection { enabled, token, token_env } = &self.settings.bot;
        vec![Credential { name: token.clone(), token_env: token_env.clone(), required: *enabled }]
    }
    async fn start(&self, cx: &ModuleContext) -> Result<(), ModuleError> {
        // A token that is none is told before anything waits for it.
        if self.settings.bot.enabled { self.api(cx).map(drop) } else { Ok(()) }
    }
    fn channels(&self, cx: &ModuleContext) -> Result<Vec<Arc<dyn Channel>>, ModuleError> {
        if !self.settings.bot.enabled || self.part != Part::Sends {
            return Ok(Vec::new());
        }
        Ok(vec![Arc::new(TelegramChannel::new(self.api(cx)?, cx))])
    }
    async fn tools(&self, cx: &ModuleContext) -> Result<Vec<Tool>, ModuleError> {
        match self.part {
            Part::TakesIn => Ok(Vec::new()),
            Part::Sends => {
                let send = send_tool(&cx.outbox, CHANNEL).map_err(ModuleError::new)?;
                Ok(vec![send, reply_tool(cx, CHANNEL, REPLY)?])
            }
        }
    }
    fn routes(&self, cx: &ModuleContext) -> Vec<Route> {
        let parts = self.parts(cx).filter(|_| cx.public_url.is_some());
        let route = |parts: Parts| Route {
            spec: hook::spec(),
            handler: Arc::new(Hook { source: parts.source, cx: cx.clone() }),
        };
        parts.map(route).into_iter().collect()
    }
    fn accounts(&self, cx: &ModuleContext) -> Vec<Arc<dyn AccountTrial>> {
        let parts = self.parts(cx).map(|parts| -> Arc<dyn AccountTrial> { parts.source });
        parts.into_iter().collect()
    }
    fn tasks(&self, cx: &ModuleContext) -> Vec<BackgroundTask> {
        let Some(Parts { source, reactions }) = self.parts(cx) else { return Vec::new() };
        vec![
            BackgroundTask { name: "connector", kind: TaskKind::Loop, work: Arc::new(Connector::new(cx, source)) },
            BackgroundTask { name: "reactions", kind: TaskKind::Loop, work: reactions },
        ]
    }
}
