//! One server: what is known of its tools, its connection, and its calls.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::link::{Link, Open};
use super::pins::{Change, Listing};
use super::start::{ServerParts, explained, start};
use super::tool::Lacking;
use super::{sql, tool, undo};
use base::text::visible::visible_line;
use base::{Audience, Label, Priority, TenantId, Trust, text};
use config::ResultTrust;
use mcp::ClientError;
use outbox::OwnerNote;
use store::StoreError;
use tools::{Effect, Tool, ToolCall, ToolError, handler};

/// A model is shown no more of a result than this, in bytes.
const MOST_SHOWN: usize = 48 << 10;

pub(super) struct Server {
    pub parts: ServerParts,
    known: Mutex<Known>,
    link: tokio::sync::Mutex<Link>,
    last_call: Mutex<Instant>,
    /// The keeper has something to look at.
    woken: Notify,
}

/// What is known of the server.
#[derive(Clone, Default)]
pub(super) struct Known {
    /// What the owner agreed to; `None`: it was never seen.
    pub pinned: Option<Listing>,
    /// What it shows instead.
    pub held: Option<Listing>,
    /// Why it can't be used.
    pub down: Option<String>,
    /// Whether its connection is open.
    pub open: bool,
}

impl Known {
    /// The tool as it may be offered: as it was agreed to, if the server still shows it so.
    fn agreed(&self, tool: &str) -> Option<&super::pins::ShownTool> {
        let pinned = self.pinned.as_ref()?.0.get(tool)?;
        let same = self.held.as_ref().is_none_or(|now| now.0.get(tool) == Some(pinned));
        same.then_some(pinned)
    }

    /// How what it shows differs from what was agreed to.
    pub fn changes(&self) -> BTreeMap<String, Change> {
        match (&self.pinned, &self.held) {
            (Some(pinned), Some(held)) => pinned.changes(held),
            _ => BTreeMap::new(),
        }
    }
}

impl Server {
    pub fn new(parts: ServerParts) -> Arc<Self> {
        Arc::new(Self {
            parts,
            known: Mutex::default(),
            link: tokio::sync::Mutex::default(),
            last_call: Mutex::new(Instant::now()),
            woken: Notify::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn known(&self) -> Known {
        self.lock().clone()
    }

    /// Reads what is on record of it.
    pub async fn remember(self: &Arc<Self>) -> Result<(), StoreError> {
        let mut lease = self.parts.store.tenant(&TenantId::owner()).await?;
        let (pinned, held) =
            sql::pinned(&mut lease, &self.parts.name).await?.map_or((None, None), |(p, held)| (Some(p), held));
        {
            let mut known = self.lock();
            (known.pinned, known.held) = (pinned, held);
        }
        self.tell();
        Ok(())
    }

    /// The tools that the butler has of it now.
    pub fn tools(self: &Arc<Self>) -> Vec<Tool> {
        self.made().into_iter().filter_map(|(_, made)| made.ok()).collect()
    }

    /// Each tool of the allow-list, or why the butler does not have it.
    pub fn made(self: &Arc<Self>) -> Vec<(String, Result<Tool, Lacking>)> {
        let known = self.known();
        let make = |name: &String| {
            let made = match (known.agreed(name), &known.pinned) {
                (Some(shown), _) => {
                    let (server, theirs) = (self.clone(), name.clone());
                    let run = handler(move |call| {
                        let (server, theirs) = (server.clone(), theirs.clone());
                        async move { server.call(call, &theirs).await }
                    });
                    let ServerParts { name: own, config, butler, .. } = &self.parts;
                    tool::make((butler, own.as_str(), config), name, shown, run)
                }
                (None, None) => Err(Lacking::Unreached),
                (None, Some(_)) if known.changes().contains_key(name) => Err(Lacking::Held),
                (None, Some(_)) => Err(Lacking::Absent),
            };
            (name.clone(), made)
        };
        self.parts.config.places().map(|(_, name)| make(name)).collect()
    }

    /// How it is, for `status`: nothing where all is well.
    fn tell(self: &Arc<Self>) {
        let known = self.known();
        let (butler, name) = (&self.parts.butler, &self.parts.name);
        let mut said = Vec::new();
        if let Some(why) = &known.down {
            said.push(format!("is down: {why}"));
        }
        if known.held.is_some() {
            said.push(format!(
                "shows other tools than those that you agreed to, and what differs is held back; see `butlerd mcp-servers \
                 show {butler}/{name}`"
            ));
        }
        if known.pinned.is_some() {
            let lacks = |(tool, made): (String, Result<Tool, Lacking>)| {
                made.err()
                    .filter(|why| *why != Lacking::Held)
                    .map(|why| format!("does not bring `{}`: {why}", visible_line(&tool)))
            };
            said.extend(self.made().into_iter().filter_map(lacks));
        }
        if let Some(pinned) = &known.pinned {
            let wrong =
                self.parts.config.undo.iter().filter_map(|(tool, by)| Some((tool, undo::problem(pinned, tool, by)?)));
            said.extend(wrong.map(|(tool, why)| format!("has no way to take `{}` back: {why}", visible_line(tool))));
        }
        self.parts.live.note((!said.is_empty()).then(|| said.join("; and ")));
    }

    /// Offers what there is now, and says how it is.
    fn offer(self: &Arc<Self>) {
        if let Err(e) = self.parts.live.offer(self.tools()) {
            tracing::error!(butler = %self.parts.butler, server = self.parts.name, "an MCP server's tools can't be offered: {e}");
        }
        self.tell();
    }

    /// Takes in what the server shows: pins it at first sight, holds it where it is something else.
    async fn compare(self: &Arc<Self>, shown: Listing) -> Result<(), StoreError> {
        let owner = TenantId::owner();
        let before = self.known();
        if before.pinned.is_none() {
            let mut lease = self.parts.store.tenant(&owner).await?;
            sql::pin(&mut lease, &self.parts.name, &shown).await?;
            // Another daemon may have been first.
            let (pinned, _) = sql::pinned(&mut lease, &self.parts.name).await?.unwrap_or_else(|| (shown.clone(), None));
            drop(lease);
            tracing::info!(butler = %self.parts.butler, server = self.parts.name, tools = shown.0.len(), "an MCP server's tools are pinned");
            self.lock().pinned = Some(pinned);
        }
        let pinned = self.known().pinned;
        let held = (pinned.as_ref() != Some(&shown)).then_some(shown);
        if held != before.held {
            let mut lease = self.parts.store.tenant(&owner).await?;
            sql::hold(&mut lease, &self.parts.name, held.as_ref()).await?;
            drop(lease);
            self.lock().held.clone_from(&held);
            if let Some(held) = &held {
                self.warn(held).await?;
            }
        }
        self.offer();
        Ok(())
    }

    /// Tells the owner that the server shows other tools. Once for each other list.
    async fn warn(&self, held: &Listing) -> Result<(), StoreError> {
        let (butler, name, tenant) = (&self.parts.butler, &self.parts.name, TenantId::owner());
        tracing::warn!(%butler, server = name, "an MCP server shows other tools than before; what differs is held back");
        let changes = self.known().changes();
        let named = |what: Change, word: &str| {
            let names: Vec<String> =
                changes.iter().filter(|(_, is)| **is == what).map(|(name, _)| visible_line(name)).collect();
            (!names.is_empty()).then(|| format!("{word}: {}", text::truncate(&names.join(", "), 500)))
        };
        let told = [(Change::Changed, "changed"), (Change::New, "new"), (Change::Gone, "gone")];
        let told: Vec<String> = told.into_iter().filter_map(|(what, word)| named(what, word)).collect();
        let text = format!(
            "The MCP server `{name}` of {butler} shows other tools than those that you agreed to. {}. What is new or changed is \
             held back until you agree. See: butlerd mcp-servers show {butler}/{name}",
            text::capital(&told.join("; "))
        );
        let key = format!("mcp:{butler}:{name}:{}", held.sha256());
        let note = OwnerNote {
            tenant: &tenant,
            origin: butler.as_str(),
            key: &key,
            subject: Some("An MCP server changed its tools"),
            text: &text,
            priority: Priority::Medium,
            // It names tools as the server does.
            trust: Trust::Stranger,
            notice: true,
            channel: None,
            asks: &[],
        };
        self.parts.outbox.tell_owner_all(&tenant, &[note]).await
    }

    /// The owner agreed to what is held, if that is what has this hash. Whether it was.
    pub async fn accept(self: &Arc<Self>, call: &ToolCall, seen: &str) -> Result<bool, ToolError> {
        // Nothing is compared meanwhile.
        let _link = self.link.lock().await;
        if !sql::accept(call, &self.parts.name, seen).await? {
            return Ok(false);
        }
        self.remember().await?;
        self.offer();
        Ok(true)
    }

    fn touch(&self) {
        *self.last_call.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// The connection; opens it where there is none and none failed a moment ago.
    async fn connected(self: &Arc<Self>) -> Result<Arc<Open>, String> {
        let mut link = self.link.lock().await;
        if let Some(open) = link.open.clone().filter(|open| open.connection().is_some_and(|c| !c.is_closed())) {
            return Ok(open);
        }
        if let Some(down) = link.down.as_ref().filter(|down| down.until > Instant::now()) {
            return Err(down.why.clone());
        }
        self.open(&mut link).await
    }

    async fn open(self: &Arc<Self>, link: &mut Link) -> Result<Arc<Open>, String> {
        link.open = None;
        let opened = match start(&self.parts).await {
            Ok(made) => {
                let (shown, open) = (Listing::of(made.0.tools()), Open::new(made));
                // Until its tools are known to be those that were agreed to, none is called.
                self.compare(shown).await.map(|()| open).map_err(|e| e.to_string())
            }
            Err(why) => Err(why),
        };
        match &opened {
            Ok(open) => {
                link.opened(open);
                self.touch();
                self.stands(None, true);
            }
            Err(why) => self.fails(link, why),
        }
        self.woken.notify_one();
        opened
    }

    fn fails(self: &Arc<Self>, link: &mut Link, why: &str) {
        tracing::warn!(butler = %self.parts.butler, server = self.parts.name, "an MCP server is down: {why}");
        link.failed(why.to_owned());
        self.stands(Some(why.to_owned()), false);
    }

    fn stands(self: &Arc<Self>, down: Option<String>, open: bool) {
        {
            let mut known = self.lock();
            (known.down, known.open) = (down, open);
        }
        self.tell();
    }

    /// A call found the connection of no more use.
    async fn broke(self: &Arc<Self>, open: &Arc<Open>, why: &str) {
        let mut link = self.link.lock().await;
        if link.open.as_ref().is_some_and(|now| Arc::ptr_eq(now, open)) {
            self.fails(&mut link, why);
            self.woken.notify_one();
        }
    }

    /// Ends the connection.
    pub async fn hang_up(self: &Arc<Self>) {
        self.link.lock().await.open = None;
        self.stands(None, false);
    }

    /// Opens the connection where the server was never seen or is down, ends it where nobody calls, and looks at the
    /// tools when the server says that they changed; until `stop`.
    pub async fn keep(self: &Arc<Self>, stop: &CancellationToken) {
        while stop.run_until_cancelled(self.watch()).await.is_some() {
            if stop.run_until_cancelled(self.tend()).await.is_none() {
                return;
            }
        }
    }

    /// Waits until there is something to do.
    async fn watch(&self) {
        let (open, down) = {
            let link = self.link.lock().await;
            (link.open.clone(), link.down.as_ref().map(|down| down.until))
        };
        let unseen = self.lock().pinned.is_none();
        let due = match (&open, down) {
            (Some(_), _) => Some(self.idle_at()),
            (None, Some(until)) => Some(until),
            (None, None) => unseen.then(Instant::now),
        };
        let at = async {
            match due {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        let changed = async {
            match open.as_ref().and_then(|open| open.connection()) {
                Some(connection) => connection.changed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.woken.notified() => {}
            () = at => {}
            () = changed => {}
        }
    }

    fn idle_at(&self) -> Instant {
        *self.last_call.lock().unwrap_or_else(PoisonError::into_inner) + self.parts.config.idle.0
    }

    async fn tend(self: &Arc<Self>) {
        let mut link = self.link.lock().await;
        let Some(open) = link.open.clone() else {
            let due =
                link.down.as_ref().map_or_else(|| self.lock().pinned.is_none(), |down| down.until <= Instant::now());
            if due {
                // Why it failed is told there.
                let _ = self.open(&mut link).await;
            }
            return;
        };
        let Some(connection) = open.connection() else { return };
        let over = self.idle_at() <= Instant::now();
        if over && Arc::strong_count(&open) > 2 {
            // A call is under way.
            self.touch();
        } else if over || connection.is_closed() {
            link.open = None;
            self.stands(None, false);
        } else {
            match connection.changed_tools().await {
                Ok(None) => {}
                Ok(Some(tools)) => {
                    if let Err(e) = self.compare(Listing::of(&tools)).await {
                        self.fails(&mut link, &e.to_string());
                    }
                }
                Err(e) => self.fails(&mut link, &e.to_string()),
            }
        }
    }

    /// What its results are.
    fn label(&self) -> Label {
        let trust = match self.parts.config.trust {
            ResultTrust::Stranger => Trust::Stranger,
            ResultTrust::Known => Trust::Known,
            ResultTrust::Owner => Trust::Owner,
        };
        let audience = if self.parts.config.reads_private { Audience::Household } else { Audience::Public };
        Label { trust, audience }
    }

    /// Calls a tool by the server's name.
    pub async fn call(self: &Arc<Self>, call: ToolCall, tool: &str) -> Result<Value, ToolError> {
        self.touch();
        let name = &self.parts.name;
        let open = self.connected().await.map_err(|why| {
            // It quotes the server.
            call.shows(&self.label());
            let why =
                format!("The MCP server `{name}` can't be used just now: {why}. Nothing was done; go on without it.");
            ToolError::refused("mcp_server_down", why)
        })?;
        if self.lock().agreed(tool).is_none() {
            let why = format!(
                "The MCP server `{name}` has changed this tool, and the owner has not agreed to that yet. Nothing was done."
            );
            return Err(ToolError::refused("mcp_tool_held", why));
        }
        let Some(connection) = open.connection() else {
            return Err(ToolError::Internal("a connection was ended in the middle of a call".to_owned()));
        };
        let effect = call.def.effect();
        let of = (self.parts.name.as_str(), &self.parts.config);
        let begun = if effect == Effect::None { None } else { undo::begin(&call, of, tool).await? };
        let answer = connection.call(tool, (*call.args).clone()).await;
        self.touch();
        call.shows(&self.label());
        if let Some(begun) = begun {
            let answered = answer.as_ref().map_err(|e| match e {
                ClientError::Refused { .. } | ClientError::NotLetIn { .. } => "the server refused the call",
                _ => "whether it was done is unknown: the server's answer never came",
            });
            undo::note(&call, begun, answered, &self.label()).await;
        }
        match answer {
            Ok(answer) => {
                self.link.lock().await.answered();
                let shown = text::truncate(&answer.text, MOST_SHOWN);
                if answer.is_error {
                    return Err(ToolError::refused("mcp_tool_failed", shown));
                }
                Ok(json!({"truncated": shown.len() < answer.text.len(), "result": shown}))
            }
            Err(ClientError::Refused { reason, .. }) => {
                Err(ToolError::refused("mcp_tool_failed", text::truncate(&reason, MOST_SHOWN)))
            }
            Err(e) => {
                let why = explained(&e, &self.parts.config);
                self.broke(&open, &why).await;
                let why = text::capital(&why);
                Err(match effect {
                    Effect::Once if !matches!(e, ClientError::NotLetIn { .. }) => {
                        let why = format!("{why}; whether it was done is unknown: look before you try again.");
                        ToolError::refused("outcome_unknown", why)
                    }
                    _ => ToolError::refused("mcp_server_down", format!("{why}.")),
                })
            }
        }
    }
}
