//! What a server of others answered once, answered again: `--mcp-replay FILE` plays such a file of
//! tests/fixtures/recipes, and the tests play those of servers at an address.

use serde_json::{Value, json};

/// The recorded answer to a request; `Err`: the error of JSON-RPC. A call that was not recorded is one.
pub fn answer(recorded: &Value, method: &str, params: &Value) -> Result<Value, Value> {
    match method {
        "initialize" => Ok(recorded["initialize"].clone()),
        "ping" => Ok(json!({})),
        "tools/list" => Ok(json!({"tools": recorded["tools"]})),
        "tools/call" => {
            let calls = recorded["calls"].as_array().into_iter().flatten();
            let mut same = calls.filter(|call| {
                let given = params.get("arguments").cloned().unwrap_or_else(|| json!({}));
                call["name"] == params["name"] && call["arguments"] == given
            });
            let missing = || json!({"code": -32602, "message": format!("there is no recording of {params}")});
            same.next().map(|call| call["result"].clone()).ok_or_else(missing)
        }
        // As servers answer that know no newer protocol.
        _ => Err(json!({"code": -32601, "message": "Method not found"})),
    }
}
