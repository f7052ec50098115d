//! A stand-in of Telegram's Bot API that behaves as the real one does: updates are kept until the next poll confirms
//! them, a second poller ends the first, floods are put off, and what the types don't know is refused at the end.
//!
//! The tests set it upon the household (tests/it/support/bot_api.rs), and the bench looks at when it is asked what.

#![allow(dead_code, reason = "each program that takes this file in uses a part of it")]

mod request;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};

pub use request::read;

pub const BOT: i64 = 7_000_001;
pub const TOKEN: &str = "7000001:AA-secret_token_of_the_bot";
/// The owner's account.
pub const ADA: i64 = 42;

/// What the next call of a method comes to instead.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// It is put off for so many seconds.
    Flood(u64),
    /// It is done, and the answer is lost.
    Lost,
    /// Nothing is done, and 500 is answered.
    Broken,
    Forbidden,
    /// The chat has this number by now.
    Moved(i64),
    /// Its formatting is refused.
    BadEntities,
}

/// A call that reached the bot.
#[derive(Clone, Debug)]
pub struct Called {
    pub method: String,
    pub arguments: Value,
    /// When all of it was here.
    pub at: SystemTime,
}

#[derive(Default)]
struct State {
    updates: BTreeMap<i64, Value>,
    next_update: i64,
    next_message: i64,
    calls: Vec<Called>,
    /// What is in the chats: all messages that the bot sent.
    sent: Vec<Value>,
    faults: HashMap<String, VecDeque<Fault>>,
    files: HashMap<String, Vec<u8>>,
    /// Files that the bot sent, by name.
    uploads: HashMap<String, String>,
    /// Whose poll it is: an older one ends.
    poller: u64,
    token: String,
    webhook: String,
    said: Vec<Value>,
    /// When a message was first in a poll's answer, by its number.
    handed_out: HashMap<i64, SystemTime>,
}

/// The server. Listens until it is dropped.
pub struct BotApi {
    pub addr: SocketAddr,
    state: Arc<Mutex<State>>,
    news: Arc<Notify>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for BotApi {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Clone)]
struct Server {
    state: Arc<Mutex<State>>,
    news: Arc<Notify>,
    polls: watch::Sender<u64>,
}

impl BotApi {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let addr = listener.local_addr().expect("its address");
        let state = State { next_update: 1000, next_message: 1, token: TOKEN.to_owned(), ..State::default() };
        let (state, news) = (Arc::new(Mutex::new(state)), Arc::new(Notify::new()));
        let server = Server { state: state.clone(), news: news.clone(), polls: watch::Sender::new(0) };
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = server.clone();
                tokio::spawn(async move {
                    // A client that was killed in its middle is no request.
                    let _ = server.serve(stream).await;
                });
            }
        });
        Self { addr, state, news, task }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// A message from this account in a private chat. Its number.
    pub fn writes(&self, from: i64, text: &str) -> i64 {
        self.message(
            from,
            json!({"chat": {"id": from, "type": "private", "first_name": format!("P{from}")}, "text": text}),
        )
    }

    /// A message with these fields, from this account. Its number.
    pub fn message(&self, from: i64, fields: Value) -> i64 {
        let mut state = self.state.lock().expect("the state");
        let number = state.next_message;
        state.next_message += 1;
        let mut message = json!({"message_id": number, "date": jiff::Timestamp::now().as_second(),
                                 "from": {"id": from, "is_bot": false, "first_name": format!("P{from}")}});
        message.as_object_mut().expect("an object").extend(fields.as_object().cloned().expect("fields"));
        let kind = if message.get("edit_date").is_some() { "edited_message" } else { "message" };
        state.push(json!({kind: message}));
        drop(state);
        self.news.notify_waiters();
        number
    }

    /// A press on a button of the newest message that has it.
    pub fn press(&self, from: i64, words: &str) {
        let mut state = self.state.lock().expect("the state");
        let button = |message: &Value| {
            let rows = message["reply_markup"]["inline_keyboard"].as_array()?;
            let mut buttons = rows.iter().filter_map(Value::as_array).flatten();
            buttons.find(|button| button["text"] == words).map(|button| button["callback_data"].clone())
        };
        let found = state.sent.iter().rev().find_map(|message| Some((message.clone(), button(message)?)));
        let (mut message, data) = found.unwrap_or_else(|| panic!("no button {words} in {:#?}", state.sent));
        message.as_object_mut().expect("an object").remove("reply_parameters");
        let id = state.next_update.to_string();
        state.push(json!({"callback_query": {"id": id, "chat_instance": "1", "data": data, "message": message,
                                             "from": {"id": from, "is_bot": false, "first_name": "P"}}}));
        drop(state);
        self.news.notify_waiters();
    }

    /// What the next calls of a method come to.
    pub fn fault(&self, method: &str, fault: Fault) {
        self.state.lock().expect("the state").faults.entry(method.to_owned()).or_default().push_back(fault);
    }

    /// The bot has another token from now on.
    pub fn revoke(&self) {
        self.state.lock().expect("the state").token = format!("{BOT}:another");
    }

    pub fn file(&self, id: &str, content: &[u8]) {
        self.state.lock().expect("the state").files.insert(id.to_owned(), content.to_vec());
    }

    /// A file that the bot sent.
    pub fn uploaded(&self, name: &str) -> Option<String> {
        self.state.lock().expect("the state").uploads.get(name).cloned()
    }

    /// Calls of a method, in their order.
    pub fn calls(&self, method: &str) -> Vec<Called> {
        let state = self.state.lock().expect("the state");
        state.calls.iter().filter(|call| call.method == method).cloned().collect()
    }

    /// All messages that the bot sent.
    pub fn sent(&self) -> Vec<Value> {
        self.state.lock().expect("the state").sent.clone()
    }

    /// The texts that the bot sent into a chat.
    pub fn said_to(&self, chat: i64) -> Vec<String> {
        let to = |message: &Value| message["chat"]["id"] == chat;
        self.sent().iter().filter(|message| to(message)).filter_map(|m| Some(m["text"].as_str()?.to_owned())).collect()
    }

    /// The reactions on a message, in their order.
    pub fn reactions(&self, message: i64) -> Vec<String> {
        let set = self.calls("setMessageReaction").into_iter().filter(|call| call.arguments["message_id"] == message);
        set.filter_map(|call| Some(call.arguments["reaction"][0]["emoji"].as_str()?.to_owned())).collect()
    }

    /// When the answer to a poll was written that had this message for the first time.
    pub fn handed_out(&self, message: i64) -> Option<SystemTime> {
        self.state.lock().expect("the state").handed_out.get(&message).copied()
    }

    /// Updates that no poll has confirmed.
    pub fn waiting(&self) -> usize {
        self.state.lock().expect("the state").updates.len()
    }

    /// All calls, updates and answers as lines of JSON, for whoever judges them.
    pub fn all_said(&self) -> String {
        let state = self.state.lock().expect("the state");
        let calls = state.calls.iter().map(|call| json!({"method": call.method, "arguments": call.arguments}));
        calls.chain(state.said.iter().cloned()).map(|said| format!("{said}\n")).collect()
    }

    /// The section of the switchboard's `butler.toml` for the bot of this server. `more`: lines of `[modules.telegram]`.
    pub fn settings(&self, more: &str) -> String {
        format!("\n[modules.telegram]\napi_url = \"{}\"\n{more}\n[modules.telegram.bot]\n", self.url())
    }
}

impl State {
    fn push(&mut self, mut update: Value) {
        let number = self.next_update;
        self.next_update += 1;
        update["update_id"] = json!(number);
        self.said.push(json!({"update": update}));
        self.updates.insert(number, update);
    }

    /// Notes that these are written to whoever polls now.
    fn hand_out(&mut self, updates: &[Value]) {
        let now = SystemTime::now();
        for number in updates.iter().filter_map(|update| update["message"]["message_id"].as_i64()) {
            self.handed_out.entry(number).or_insert(now);
        }
    }

    /// Carries a method out.
    fn carry_out(&mut self, method: &str, arguments: &Value) -> Result<Value, (u16, String)> {
        let refused = |why: &str| Err((400, format!("Bad Request: {why}")));
        match method {
            "getMe" => Ok(json!({"id": BOT, "is_bot": true, "first_name": "Home", "username": "home_bot"})),
            "sendMessage" => {
                let text = arguments["text"].as_str().unwrap_or_default();
                let units = text.encode_utf16().count();
                if text.trim().is_empty() {
                    return refused("message text is empty");
                }
                if units > 4096 {
                    return refused("message is too long");
                }
                for entity in arguments["entities"].as_array().into_iter().flatten() {
                    let end = entity["offset"].as_u64().unwrap_or(0) + entity["length"].as_u64().unwrap_or(0);
                    if end > units as u64 || entity["length"] == 0 {
                        return refused("can't parse entities");
                    }
                }
                let number = self.next_message;
                self.next_message += 1;
                let chat = arguments["chat_id"].as_i64().unwrap_or_default();
                let kind = if chat < 0 { "supergroup" } else { "private" };
                let mut message = json!({"message_id": number, "date": jiff::Timestamp::now().as_second(),
                    "chat": {"id": chat, "type": kind}, "text": text,
                    "from": {"id": BOT, "is_bot": true, "first_name": "Home"}});
                for field in ["entities", "reply_markup", "message_thread_id"] {
                    if let Some(value) = arguments.get(field) {
                        message[field] = value.clone();
                    }
                }
                self.said.push(json!({"message": message}));
                // What the types of a message don't have, for tests.
                let mut kept = message.clone();
                kept["reply_parameters"] = arguments["reply_parameters"].clone();
                self.sent.push(kept);
                Ok(message)
            }
            "sendDocument" => {
                let (number, name) = (self.next_message, arguments["document"].as_str().unwrap_or_default());
                if name.ends_with(".exe") {
                    return refused("file type is not allowed");
                }
                self.next_message += 1;
                let chat = arguments["chat_id"].as_i64().unwrap_or_default();
                let kind = if chat < 0 { "supergroup" } else { "private" };
                let message = json!({"message_id": number, "date": jiff::Timestamp::now().as_second(),
                    "chat": {"id": chat, "type": kind}, "from": {"id": BOT, "is_bot": true, "first_name": "Home"},
                    "document": {"file_id": name, "file_unique_id": name, "file_name": name}});
                self.said.push(json!({"message": message}));
                self.sent.push(message.clone());
                Ok(message)
            }
            "sendMessageDraft" => {
                let text = arguments["text"].as_str().unwrap_or_default();
                let private = arguments["chat_id"].as_i64().unwrap_or_default() > 0;
                match private && arguments["draft_id"] != 0 && text.encode_utf16().count() <= 4096 {
                    true => Ok(json!(true)),
                    false => refused("DRAFT_INVALID"),
                }
            }
            "editMessageReplyMarkup" => {
                let number = &arguments["message_id"];
                let Some(message) = self.sent.iter_mut().find(|message| message["message_id"] == *number) else {
                    return refused("message to edit not found");
                };
                message["reply_markup"] = arguments["reply_markup"].clone();
                Ok(json!(true))
            }
            "setMessageReaction" => {
                // Some of those that the Bot API lists.
                let known = ["👀", "✍", "👍", "👎", "❤", "🔥", "🎉"];
                let emoji = arguments["reaction"][0]["emoji"].as_str().unwrap_or_default();
                if known.contains(&emoji) { Ok(json!(true)) } else { refused("REACTION_INVALID") }
            }
            "getFile" => {
                let id = arguments["file_id"].as_str().unwrap_or_default();
                match self.files.get(id) {
                    Some(content) => Ok(json!({"file_id": id, "file_unique_id": id, "file_size": content.len(),
                                               "file_path": format!("documents/{id}")})),
                    None => refused("invalid file_id"),
                }
            }
            "getWebhookInfo" => {
                Ok(json!({"url": self.webhook, "has_custom_certificate": false, "pending_update_count": 0}))
            }
            "setWebhook" => {
                self.webhook = arguments["url"].as_str().unwrap_or_default().to_owned();
                Ok(json!(true))
            }
            "deleteWebhook" | "setMyCommands" | "sendChatAction" | "answerCallbackQuery" => Ok(json!(true)),
            other => Err((404, format!("Not Found: method {other} not found"))),
        }
    }
}

impl Server {
    async fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        while let Some((path, raw)) = request(&mut stream).await {
            let (status, body) = self.answer(&path, &raw, &mut stream).await;
            let Some(status) = status else { return stream.set_zero_linger() };
            let mut answer = format!(
                "HTTP/1.1 {status} Said\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                body.len()
            )
            .into_bytes();
            answer.extend_from_slice(&body);
            // At once: of two small writes the kernel keeps the second until the first was acknowledged.
            stream.write_all(&answer).await?;
        }
        Ok(())
    }

    /// Status and body; no status: the answer is lost.
    async fn answer(&self, path: &str, raw: &str, stream: &mut TcpStream) -> (Option<u16>, Vec<u8>) {
        let arguments = match raw.starts_with("--") {
            true => self.form(raw),
            false => serde_json::from_str(raw).unwrap_or(Value::Null),
        };
        if let Some(answered) = self.at_once(path, &arguments) {
            return answered;
        }
        match self.poll(&arguments, stream).await {
            Ok(updates) => {
                let body = json!({"ok": true, "result": updates}).to_string().into_bytes();
                self.state.lock().expect("the state").hand_out(&updates);
                (Some(200), body)
            }
            Err(Some(why)) => failed(409, &why, json!({})),
            Err(None) => (None, Vec::new()),
        }
    }

    /// A form's fields; a file is kept, and its name stands for it.
    fn form(&self, raw: &str) -> Value {
        let border = raw.lines().next().unwrap_or_default();
        let mut fields = serde_json::Map::new();
        for part in raw.split(border).filter_map(|part| part.strip_prefix("\r\n")) {
            let Some((head, content)) = part.split_once("\r\n\r\n") else { continue };
            let content = content.strip_suffix("\r\n").unwrap_or(content);
            let named = |what: &str| {
                let begin = head.find(&format!("{what}=\""))? + what.len() + 2;
                Some(head[begin..].split('"').next()?.to_owned())
            };
            let name = named("; name").unwrap_or_default();
            let value = match named("filename") {
                Some(file) => {
                    let mut state = self.state.lock().expect("the state");
                    state.uploads.insert(file.clone(), content.to_owned());
                    json!(file)
                }
                None => serde_json::from_str(content).unwrap_or_else(|_| json!(content)),
            };
            fields.insert(name, value);
        }
        Value::Object(fields)
    }

    /// The answer to all but a poll that is to be carried out.
    fn at_once(&self, path: &str, arguments: &Value) -> Option<(Option<u16>, Vec<u8>)> {
        let (file, rest) = match path.strip_prefix("/file/bot") {
            Some(rest) => (true, rest),
            None => (false, path.strip_prefix("/bot").unwrap_or_default()),
        };
        let (token, method) = rest.split_once('/').unwrap_or((rest, ""));
        let mut state = self.state.lock().expect("the state");
        if token != state.token {
            return Some(failed(401, "Unauthorized", json!({})));
        }
        if file {
            let id = method.rsplit('/').next().unwrap_or_default();
            return Some((Some(200), state.files.get(id).cloned().unwrap_or_default()));
        }
        let fault = state.faults.get_mut(method).and_then(VecDeque::pop_front);
        state.calls.push(Called { method: method.to_owned(), arguments: arguments.clone(), at: SystemTime::now() });
        Some(match fault {
            Some(Fault::Flood(s)) => {
                failed(429, &format!("Too Many Requests: retry after {s}"), json!({"retry_after": s}))
            }
            Some(Fault::Broken) => failed(500, "Internal Server Error", json!({})),
            Some(Fault::Forbidden) => failed(403, "Forbidden: bot was blocked by the user", json!({})),
            Some(Fault::Moved(chat)) => {
                failed(400, "Bad Request: group chat was upgraded", json!({"migrate_to_chat_id": chat}))
            }
            Some(Fault::BadEntities) => failed(400, "Bad Request: can't parse entities", json!({})),
            None if method == "getUpdates" => return None,
            Some(Fault::Lost) | None => match state.carry_out(method, arguments) {
                Ok(_) if fault.is_some() => (None, Vec::new()),
                Ok(result) => (Some(200), json!({"ok": true, "result": result}).to_string().into_bytes()),
                Err((status, why)) => failed(status, &why, json!({})),
            },
        })
    }

    /// Waits for updates behind the offset, which confirms those before it. `Err`: another poll began, or nobody waits.
    async fn poll(&self, arguments: &Value, stream: &mut TcpStream) -> Result<Vec<Value>, Option<String>> {
        let mine = {
            let mut state = self.state.lock().expect("the state");
            state.poller += 1;
            if let Some(offset) = arguments["offset"].as_i64() {
                state.updates = state.updates.split_off(&offset);
            }
            state.poller
        };
        self.polls.send_replace(mine);
        let mut polls = self.polls.subscribe();
        let until = tokio::time::Instant::now() + Duration::from_secs(arguments["timeout"].as_u64().unwrap_or(0));
        loop {
            let news = self.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            let waiting: Vec<Value> = {
                let state = self.state.lock().expect("the state");
                let most = arguments["limit"].as_u64().unwrap_or(100) as usize;
                state.updates.values().take(most).cloned().collect()
            };
            if !waiting.is_empty() {
                return Ok(waiting);
            }
            let mut byte = [0];
            tokio::select! {
                () = &mut news => {}
                () = tokio::time::sleep_until(until) => return Ok(Vec::new()),
                _ = polls.wait_for(|newest| *newest > mine) => {
                    return Err(Some("Conflict: terminated by other getUpdates request".to_owned()));
                }
                read = stream.read(&mut byte) => if matches!(read, Ok(0) | Err(_)) { return Err(None) },
            }
        }
    }
}

fn failed(status: u16, why: &str, parameters: Value) -> (Option<u16>, Vec<u8>) {
    let answer = json!({"ok": false, "error_code": status, "description": why, "parameters": parameters});
    (Some(status), answer.to_string().into_bytes())
}

/// The next request on a connection that is kept.
async fn request(stream: &mut TcpStream) -> Option<(String, String)> {
    let (headers, raw) = read(stream).await?;
    Some((headers[":path"].clone(), raw))
}
