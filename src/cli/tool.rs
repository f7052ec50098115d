//! `butlerd tool`

use std::io::Read;

use serde_json::{Map, Value};

use super::args::Tool;
use super::out::{Table, Tone, block, one_line};
use super::problem::{FAILED, Problem};
use super::{Caller, Outcome};
use admin::ApiClient;

/// What is asked of the daemon, once the arguments were read.
pub enum Request {
    List { butler: String },
    Call { butler: String, tool: String, args: Map<String, Value> },
}

/// Reads a call's arguments.
pub fn prepare(what: Tool) -> Result<Request, Problem> {
    match what {
        Tool::List { butler } => Ok(Request::List { butler }),
        Tool::Call { butler, tool, args } => {
            let args =
                if args == "-" { std::io::read_to_string(std::io::stdin().lock().take(64 << 20)) } else { Ok(args) };
            let args = args.map_err(|e| wrong(&format!("can't be read from standard input: {e}")))?;
            Ok(Request::Call { butler, tool, args: object(&args)? })
        }
    }
}

fn object(text: &str) -> Result<Map<String, Value>, Problem> {
    match serde_json::from_str(text) {
        Ok(Value::Object(args)) => Ok(args),
        Ok(_) => Err(wrong("are no JSON object")),
        Err(e) => Err(wrong(&format!("are no JSON: {e}"))),
    }
}

fn wrong(what: &str) -> Problem {
    Problem::usage(
        format!("The tool's arguments {what}."),
        r#"Write them as in: butlerd tool call health state_get '{"key": "x"}'"#,
    )
}

pub async fn run(caller: Caller, request: Request) -> Outcome {
    let out = caller.out;
    match request {
        Request::List { butler } => {
            let tools = caller.client.quick()?.tool_list(butler).await.map_err(caller.failed())?;
            if out.json {
                out.value(&tools);
            } else {
                let mut table = Table::new(&["TOOL", "EFFECT", "DESCRIPTION"]);
                for tool in &tools {
                    table.row(vec![
                        (Tone::Plain, tool.name.clone()),
                        (Tone::Plain, tool.effect.clone()),
                        (Tone::Plain, one_line(&tool.description, 100)),
                    ]);
                }
                out.table(&table);
            }
            Ok(0)
        }
        Request::Call { butler, tool, args } => {
            let calls = caller.client.patient()?;
            let answer = calls.tool_call(butler, tool, Some(args)).await.map_err(caller.failed())?;
            let refused = answer.is_error || answer.result["status"] == "error";
            match (&answer.result, out.json) {
                (_, true) => out.value(&answer),
                (Value::String(text), false) => out.line(&block(text)),
                (result, false) => out.value(result),
            }
            Ok(if refused { FAILED } else { 0 })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_an_object() {
        assert_eq!(object(r#"{"key": "x"}"#).unwrap()["key"], "x");
        assert!(object("{}").unwrap().is_empty());
        for bad in ["", "[]", "x", "{"] {
            assert_eq!(object(bad).unwrap_err().exit, 2, "{bad}");
        }
    }
}
