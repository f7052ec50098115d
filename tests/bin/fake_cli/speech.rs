//! Its words: Claude Code's lines of JSON on one side, MCP over HTTP on the other.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Tried, print_now};

/// How long somebody who never answers is waited for.
const PATIENCE: Duration = Duration::from_secs(600);

/// Who it is and whom it speaks to.
pub struct Speech {
    /// `host:port`, path with query, and the value of the header `Authorization`; empty without a server.
    address: String,
    path: String,
    bearer: String,
    calls: u64,
    texts: u64,
}

impl Speech {
    /// As its command line says.
    pub fn of_process() -> Self {
        let args: Vec<String> = std::env::args().collect();
        let file = args.iter().position(|a| a == "--mcp-config").and_then(|at| args.get(at + 1));
        let config: Value = file
            .and_then(|f| std::fs::read_to_string(f).ok())
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default();
        let server = &config["mcpServers"]["butler"];
        let (address, path) = split(server["url"].as_str().unwrap_or_default());
        let bearer = server["headers"]["Authorization"].as_str().unwrap_or_default().to_owned();
        Self { address, path, bearer, calls: 0, texts: 0 }
    }

    /// The first event. With `connect` it shakes hands and lists the tools first.
    pub fn start(&mut self, connect: bool) {
        let tools = if connect { self.tools() } else { None };
        let status = if tools.is_some() { "connected" } else { "failed" };
        line(&json!({
            "type": "system", "subtype": "init", "session_id": "fake", "tools": tools.unwrap_or_default(),
            "mcp_servers": [{"name": "butler", "status": status}], "model": "fake",
        }));
    }

    fn tools(&self) -> Option<Vec<String>> {
        let about = json!({"protocolVersion": "2025-06-18", "capabilities": {},
                           "clientInfo": {"name": "fake", "version": "0.0.0"}});
        self.ask("initialize", about).ok()?;
        let listed = self.ask("tools/list", json!({})).ok()?;
        let names = listed["tools"].as_array()?.iter().filter_map(|t| t["name"].as_str());
        Some(names.map(|name| format!("mcp__butler__{name}")).collect())
    }

    /// Its token.
    pub fn token(&self) -> &str {
        self.bearer.trim_start_matches("Bearer ")
    }

    /// Words of the model.
    pub fn say(&mut self, text: &str) {
        self.texts += 1;
        line(&self.message(json!({"type": "text", "text": text})));
    }

    fn message(&self, block: Value) -> Value {
        let id = format!("msg_{}_{}", self.texts, self.calls);
        json!({"type": "assistant", "session_id": "fake",
               "message": {"id": id, "model": "fake", "content": [block], "usage": {"output_tokens": 1}}})
    }

    /// A tool call, told before and after.
    pub fn call(&mut self, tool: &str, arguments: &str) -> Tried {
        self.calls += 1;
        let id = format!("toolu_{}", self.calls);
        let arguments: Value = serde_json::from_str(arguments).map_err(|e| format!("arguments: {e}"))?;
        let name = format!("mcp__butler__{}", tool.replace('.', "_"));
        line(&self.message(json!({"type": "tool_use", "id": id, "name": name, "input": arguments})));
        let answer = self.ask("tools/call", json!({"name": tool, "arguments": arguments}));
        let (text, is_error) = match &answer {
            Ok(result) => {
                (result["content"][0]["text"].as_str().unwrap_or_default().to_owned(), result["isError"] == true)
            }
            Err(e) => (e.clone(), true),
        };
        line(&json!({"type": "user", "message": {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": id, "content": text, "is_error": is_error}]}}));
        match answer {
            Ok(_) if is_error => Err(text),
            Ok(_) => Ok(Value::String(text)),
            Err(e) => Err(e),
        }
    }

    /// `ADDRESS TOKEN TOOL`: a call to another server, or with another token.
    pub fn elsewhere(&self, rest: &str) -> Tried {
        let mut words = rest.split(' ');
        let mut next = || words.next().unwrap_or_default();
        let (address, token, tool) = (next(), next(), next());
        let address = if address == "own" { &self.address } else { address };
        // A token that lives is hidden wherever it is read whole, in a prompt too: it comes in parts.
        let bearer = if token == "own" { self.bearer.clone() } else { format!("Bearer {}", token.replace('+', "")) };
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                          "params": {"name": tool, "arguments": {}}});
        let (status, body) = post(address, "/mcp", &[("authorization", &bearer)], &body)?;
        if status == 200 { Ok(body) } else { Err(format!("HTTP {status}")) }
    }

    /// One small request to the model's API, with the key that it was given.
    pub fn model(&self) -> Tried {
        let var = |name: &str| std::env::var(name).unwrap_or_default();
        let (address, path) = split(&format!("{}/v1/messages", var("ANTHROPIC_BASE_URL")));
        let body = json!({"model": "claude-sonnet-4-5", "max_tokens": 16,
                          "messages": [{"role": "user", "content": "hello"}]});
        let key = var("ANTHROPIC_API_KEY");
        let headers = [("x-api-key", key.as_str()), ("anthropic-version", "2023-06-01")];
        let (status, body) = post(&address, &path, &headers, &body)?;
        if status == 200 { Ok(body) } else { Err(format!("HTTP {status} {body}")) }
    }

    /// The final event.
    pub fn finish(&mut self, text: &str) {
        let turns = self.calls + 1;
        let usage = json!({"input_tokens": 100 * turns, "output_tokens": 10 * turns});
        line(&json!({
            "type": "result", "subtype": "success", "is_error": false, "result": text, "num_turns": turns,
            "session_id": "fake", "stop_reason": "end_turn", "terminal_reason": "completed", "usage": usage,
            "permission_denials": [],
        }));
    }

    fn ask(&self, method: &str, params: Value) -> Tried {
        let body = json!({"jsonrpc": "2.0", "id": self.calls, "method": method, "params": params});
        let (status, body) = post(&self.address, &self.path, &[("authorization", &self.bearer)], &body)?;
        match (status, &body["error"]) {
            (200, Value::Null) => Ok(body["result"].clone()),
            (200, error) => Err(error["message"].as_str().unwrap_or("an error").to_owned()),
            _ => Err(format!("HTTP {status}")),
        }
    }
}

fn line(event: &Value) {
    print_now(&format!("{event}\n"));
}

/// Address and path of an `http://` URL.
fn split(url: &str) -> (String, String) {
    let rest = url.strip_prefix("http://").unwrap_or_default();
    let at = rest.find('/').unwrap_or(rest.len());
    (rest[..at].to_owned(), rest[at..].to_owned())
}

/// Status and body: JSON where it is some, else text. HTTP 1.0, which knows no chunks.
fn post(address: &str, path: &str, headers: &[(&str, &str)], body: &Value) -> Result<(u16, Value), String> {
    let body = body.to_string();
    let mut head = format!(
        "POST {path} HTTP/1.0\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         accept: application/json, text/event-stream\r\nmcp-protocol-version: 2025-06-18\r\n",
        body.len()
    );
    for (name, value) in headers.iter().filter(|(_, value)| !value.is_empty()) {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let exchange = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(format!("{head}\r\n{body}").as_bytes())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    let answer = exchange().map_err(|e| super::attempts::name(&e))?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("no HTTP")?;
    let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).ok_or("no HTTP status")?;
    Ok((status, serde_json::from_str(body).unwrap_or_else(|_| Value::String(body.to_owned()))))
}
