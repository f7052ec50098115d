//! An MCP server that misbehaves: `--mcp-server FILE`. The file says, as JSON, how it begins (`start`: `exit`, `silent`,
//! `junk`), what it says of its tool `say` (`about`), and which tools it has besides (`more`: names, or tools as a list
//! has them); it is read again for each list.
//!
//! Its tools: `say TEXT`; `fail`, whose result is an error; `large`, 200 KB; `variables`, its environment; `chatty`, which
//! writes to standard output before it answers; `change`, which tells that the tools changed; `die`; `hang`; and
//! `flood_line`, `flood_junk`, which write 100 MB. Of others, `look PATH` tries to read a file or directory. Where `more` names
//! them, `make NAME` notes something in the file `made` beside that file and answers with its number, or without it (`bare`),
//! and `unmake ID` takes it out again, or dies before it does (`unmake`: `die`).

use std::io::{BufRead, Write};

use serde_json::{Value, json};

use super::replay;

const TOOLS: [&str; 10] =
    ["say", "fail", "large", "variables", "chatty", "change", "die", "hang", "flood_line", "flood_junk"];

/// Serves until its input ends.
pub fn serve(file: &str) {
    let control =
        || -> Value { serde_json::from_str(&std::fs::read_to_string(file).unwrap_or_default()).unwrap_or_default() };
    match control()["start"].as_str() {
        Some("exit") => {
            eprintln!("there is no cheese today");
            std::process::exit(3);
        }
        Some("silent") => wait(),
        Some("junk") => write("Welcome! This server is ready."),
        _ => {}
    }
    talk(|method, params| match method {
        "initialize" => Ok(json!({"protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {"listChanged": true}}, "serverInfo": {"name": "fake", "version": "0"}})),
        "ping" => Ok(json!({})),
        "tools/list" => Ok(json!({"tools": tools(&control())})),
        "tools/call" => Ok(shelf(file, &control(), params).unwrap_or_else(|| call(params))),
        other => Err(json!({"code": -32601, "message": format!("there is no {other}")})),
    });
}

/// Plays what was recorded of another server, until its input ends.
pub fn replay(file: &str) {
    let text = std::fs::read_to_string(file).unwrap_or_else(|e| {
        eprintln!("{file} can't be read: {e}");
        std::process::exit(66);
    });
    let recorded: Value = serde_json::from_str(&text).unwrap_or_default();
    talk(|method, params| replay::answer(&recorded, method, params));
}

/// Answers each request of standard input.
fn talk(mut answer: impl FnMut(&str, &Value) -> Result<Value, Value>) {
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        let id = message["id"].clone();
        if id.is_null() {
            continue;
        }
        let answer = answer(message["method"].as_str().unwrap_or_default(), &message["params"]);
        let mut said = json!({"jsonrpc": "2.0", "id": id});
        match answer {
            Ok(result) => said["result"] = result,
            Err(error) => said["error"] = error,
        }
        write(&said.to_string());
    }
}

fn tools(control: &Value) -> Vec<Value> {
    let about = control["about"].as_str().unwrap_or("Says it back.");
    let more = control["more"].as_array().cloned().unwrap_or_default();
    let named = TOOLS.iter().map(|name| json!(name)).chain(more);
    let tool = |name: Value| match name.as_str() {
        None => name,
        Some("say") => {
            json!({"name": name, "description": about, "inputSchema": {"type": "object", "required": ["text"],
                    "properties": {"text": {"type": "string", "description": "What to say"}}}})
        }
        Some("make") => json!({"name": name, "description": "Makes something.", "inputSchema": {"type": "object",
                    "required": ["name"], "properties": {"name": {"type": "string"}}}}),
        Some("unmake") => json!({"name": name, "description": "Takes it away again.", "inputSchema": {"type": "object",
                    "required": ["id"], "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}}),
        Some(other) => {
            json!({"name": name, "description": format!("Does {other}."), "inputSchema": {"type": "object"}})
        }
    };
    named.map(tool).collect()
}

/// The tools `make` and `unmake`; `None`: another one is called.
fn shelf(control_file: &str, control: &Value, params: &Value) -> Option<Value> {
    let file = std::path::Path::new(control_file).with_file_name("made");
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let mut made: serde_json::Map<String, Value> = serde_json::from_str(&text).unwrap_or_default();
    let given = &params["arguments"];
    let failed = |why: String| json!({"content": [{"type": "text", "text": why}], "isError": true});
    let answer = match params["name"].as_str()? {
        "make" => {
            let id = made.keys().filter_map(|key| key.parse::<i64>().ok()).max().unwrap_or_default() + 1;
            made.insert(id.to_string(), given["name"].clone());
            match control["bare"].as_bool() {
                Some(true) => json!({"content": [{"type": "text", "text": "made it"}]}),
                _ => json!({"content": [{"type": "text", "text": "made it"}], "structuredContent": {"id": id}}),
            }
        }
        "unmake" if control["unmake"] == "die" => std::process::exit(9),
        "unmake" => match made.remove(&given["id"].to_string()) {
            Some(name) if name == given["name"] => json!({"content": [{"type": "text", "text": "took it away"}]}),
            _ => return Some(failed(format!("there is no {} of this name", given["id"]))),
        },
        _ => return None,
    };
    // Each start may have another user, who replaces what the one before wrote.
    let new = file.with_extension("new");
    let open = |()| std::fs::set_permissions(&new, std::os::unix::fs::PermissionsExt::from_mode(0o644));
    match std::fs::write(&new, Value::Object(made).to_string())
        .and_then(open)
        .and_then(|()| std::fs::rename(&new, file))
    {
        Ok(()) => Some(answer),
        Err(e) => Some(failed(e.to_string())),
    }
}

fn call(params: &Value) -> Value {
    let text = |text: String| json!({"content": [{"type": "text", "text": text}]});
    match params["name"].as_str().unwrap_or_default() {
        "say" => text(params["arguments"]["text"].as_str().unwrap_or_default().to_owned()),
        "fail" => json!({"content": [{"type": "text", "text": "no cheese"}], "isError": true}),
        "large" => text("cheese ".repeat(30_000)),
        "variables" => text(std::env::vars().map(|(name, value)| format!("{name}={value}\n")).collect()),
        "chatty" => {
            (0..20).for_each(|n| write(&format!("step {n} of 20")));
            text("done".to_owned())
        }
        "change" => {
            write(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}).to_string());
            text("told".to_owned())
        }
        "die" => {
            eprintln!("the cheese is out");
            std::process::exit(9);
        }
        "look" => {
            let path = params["arguments"]["path"].as_str().unwrap_or_default();
            let listed = |e: std::io::Error| match std::fs::read_dir(path) {
                Ok(entries) => entries.flatten().map(|entry| format!("{:?}\n", entry.path())).collect(),
                Err(_) => format!("no: {:?}", e.kind()),
            };
            text(std::fs::read_to_string(path).unwrap_or_else(listed))
        }
        "hang" => {
            wait();
            Value::Null
        }
        "flood_line" => {
            flood(&"x".repeat(1 << 20), 100);
            text("flooded".to_owned())
        }
        "flood_junk" => {
            flood(&"cheese\n".repeat(150_000), 100);
            text("flooded".to_owned())
        }
        other => json!({"content": [{"type": "text", "text": format!("did {other}")}]}),
    }
}

fn flood(part: &str, times: usize) {
    let mut out = std::io::stdout().lock();
    for _ in 0..times {
        if out.write_all(part.as_bytes()).is_err() {
            std::process::exit(1);
        }
    }
    let _ = out.write_all(b"\n");
}

fn write(line: &str) {
    let mut out = std::io::stdout().lock();
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        std::process::exit(1);
    }
}

fn wait() {
    loop {
        std::thread::park();
    }
}
