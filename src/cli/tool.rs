//! `butlerd tool`

use std::io::Read;

use clap::Subcommand;
use serde_json::{Map, Value};

use super::problem::{FAILED, Problem};
use super::text::{block, one_line};
use super::{Caller, Outcome};
use admin::api::WorkApiClient;

/// `tool`
#[derive(Debug, Subcommand)]
pub enum Tool {
    /// List a butler's tools
    List { butler: String },
    /// Call a butler's tool
    Call {
        butler: String,
        tool: String,
        /// The arguments as a JSON object; `-` reads it from standard input
        #[arg(default_value = "{}")]
        args: String,
    },
}

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
        Ok(_) => Err(wrong("are not a JSON object")),
        Err(e) => Err(wrong(&format!("are not valid JSON: {e}"))),
    }
}

fn wrong(what: &str) -> Problem {
    Problem::usage(
        format!("The tool's arguments {what}."),
        r#"Write them as in: butlerd tool call health state_get '{"key": "x"}'"#,
    )
}

pub async fn run(caller: Caller, request: Request) -> Outcome {
    match request {
        Request::List { butler } => caller.show(caller.quick()?.tool_list(butler).await, |out, tools| {
            out.table(tools)
                .column("TOOL", |t| &t.name)
                .column("EFFECT", |t| &t.effect)
                .column("DESCRIPTION", |t| one_line(&t.description, 100))
                .print("No tools");
        }),
        Request::Call { butler, tool, args } => {
            let answer = caller.got(caller.patient()?.tool_call(butler, tool, Some(args)).await)?;
            caller.out.answer(&answer, |out, answer| match &answer.result {
                Value::String(text) => out.line(&block(text)),
                result => out.value(result),
            })?;
            Ok(if answer.is_error || answer.result["status"] == "error" { FAILED } else { 0 })
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
