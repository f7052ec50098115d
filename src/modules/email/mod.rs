//! Mail: mailboxes that people write to. The switchboard's module takes in what they write; the messenger's sends; butlers
//! that are named as readers search and read. All read `[modules.email]` of the switchboard's `butler.toml`.

mod account;
mod channel;
mod cursor;
mod incoming;
mod reading;
mod settings;
mod source;

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::join_all;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::background::{Background, BackgroundTask, TaskError, TaskKind};
use crate::connector::Connector;
use crate::contract::AccountTrial;
use crate::contract::{Credential, Factory, Manifest, Module, ModuleContext, ModuleError, with_settings};
use crate::replies::reply_tool;
use account::MailAccount;
pub use account::{MailTrial, try_account};
use base::ButlerName;
use channel::EmailChannel;
use inbox::SWITCHBOARD;
pub use mail::Login;
use outbox::{Channel, MESSENGER, send_tool, send_tool_name};
use settings::{Settings, read};
use source::MailSource;
use tools::Tool;

/// As messages and deliveries name it.
pub(crate) const CHANNEL: &str = "email";
/// Answers a letter in its thread.
const REPLY: &str = "email_reply_to_thread";

pub(super) struct EmailFactory;

impl Factory for EmailFactory {
    with_settings!(CHANNEL, Settings, read);
    fn build(&self, config: &Value, butler: &ButlerName, _: &Path) -> Result<Box<dyn Module>, ModuleError> {
        let part = match butler.as_str() {
            SWITCHBOARD => Part::TakesIn,
            MESSENGER => Part::Sends,
            _ => Part::Reads,
        };
        Ok(Box::new(EmailModule { settings: read(config)?, part }))
    }
}

/// What a butler's module does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    TakesIn,
    Sends,
    Reads,
}

struct EmailModule {
    settings: Settings,
    part: Part,
}

impl EmailModule {
    /// The accounts with what they prove themselves by.
    fn mailboxes(&self, cx: &ModuleContext) -> Result<Vec<MailAccount>, ModuleError> {
        self.settings.accounts.values().map(|account| MailAccount::new(account, cx)).collect()
    }
}

#[async_trait]
impl Module for EmailModule {
    fn manifest(&self) -> Result<Manifest, ModuleError> {
        Ok(match self.part {
            Part::TakesIn => Manifest { channels: vec![CHANNEL.to_owned()], ..Manifest::default() },
            Part::Sends => Manifest { tools: vec![send_tool_name(CHANNEL), REPLY.to_owned()], ..Manifest::default() },
            Part::Reads => Manifest { tools: reading::names(), ..Manifest::default() },
        })
    }
    fn credentials(&self) -> Vec<Credential> {
        let wanted = |account: &settings::AccountSection| Credential {
            name: account.password.clone(),
            token_env: account.token_env.clone(),
            required: true,
        };
        self.settings.accounts.values().map(wanted).collect()
    }
    async fn start(&self, cx: &ModuleContext) -> Result<(), ModuleError> {
        self.mailboxes(cx).map(drop)
    }
    fn channels(&self, cx: &ModuleContext) -> Result<Vec<Arc<dyn Channel>>, ModuleError> {
        match self.part {
            Part::Sends => Ok(vec![Arc::new(EmailChannel::new(self.mailboxes(cx)?, cx))]),
            Part::TakesIn | Part::Reads => Ok(Vec::new()),
        }
    }
    async fn tools(&self, cx: &ModuleContext) -> Result<Vec<Tool>, ModuleError> {
        match self.part {
            Part::TakesIn => Ok(Vec::new()),
            Part::Sends => {
                let send = send_tool(&cx.outbox, CHANNEL).map_err(ModuleError::new)?;
                Ok(vec![send, reply_tool(cx, CHANNEL, REPLY)?])
            }
            Part::Reads => reading::tools(self.mailboxes(cx)?),
        }
    }
    fn accounts(&self, cx: &ModuleContext) -> Vec<Arc<dyn AccountTrial>> {
        let own = |account: MailAccount| -> Arc<dyn AccountTrial> { Arc::new(account) };
        match self.part {
            Part::TakesIn => self.mailboxes(cx).unwrap_or_default().into_iter().map(own).collect(),
            Part::Sends | Part::Reads => Vec::new(),
        }
    }
    fn tasks(&self, cx: &ModuleContext) -> Vec<BackgroundTask> {
        let accounts = match self.part {
            Part::TakesIn => self.mailboxes(cx).unwrap_or_default(),
            Part::Sends | Part::Reads => Vec::new(),
        };
        if accounts.is_empty() {
            return Vec::new();
        }
        let serve = |account: MailAccount| Connector::new(cx, Arc::new(MailSource::new(account, cx)));
        let all = Mailboxes(accounts.into_iter().map(serve).collect());
        vec![BackgroundTask { name: "connector", kind: TaskKind::Loop, work: Arc::new(all) }]
    }
}

/// The connectors of all accounts, side by side.
struct Mailboxes(Vec<Connector<MailSource>>);

#[async_trait]
impl Background for Mailboxes {
    async fn run(&self, stop: CancellationToken) -> Result<(), TaskError> {
        join_all(self.0.iter().map(|one| one.run(stop.clone()))).await.into_iter().collect()
    }
}
