//! `butlerd tool`

use clap::Subcommand;
use serde_json::{Map, Value};

use super::out::Out;
use super::problem::{FAILED, Problem};
use super::text::{block, one_line};
use super::tool_args::{Typed, by_schema, typed};
use super::{Caller, Outcome};
use admin::ToolInfo;
use admin::api::WorkApiClient;

/// `tool`
#[derive(Debug, Subcommand)]
pub enum Tool {
    /// List a butler's tools
    List { butler: String },
    /// Show what a tool does and which arguments it takes
    Show { butler: String, tool: String },
    /// Call a butler's tool
    Call {
        butler: String,
        tool: String,
        /// `--NAME VALUE` for each argument, or all as one JSON object; `-` reads the object from standard input
        #[arg(value_name = "ARGUMENTS", allow_hyphen_values = true)]
        first: Option<String>,
        #[arg(hide = true, allow_hyphen_values = true, trailing_var_arg = true)]
        more: Vec<String>,
    },
}

/// What is asked of the daemon, once the arguments were read.
pub enum Request {
    List { butler: String },
    Show { butler: String, tool: String },
    Call { butler: String, tool: String, args: Typed },
}

/// Reads a call's arguments.
pub fn prepare(what: Tool) -> Result<Request, Problem> {
    match what {
        Tool::List { butler } => Ok(Request::List { butler }),
        Tool::Show { butler, tool } => Ok(Request::Show { butler, tool }),
        Tool::Call { butler, tool, first, more } => {
            let words = first.into_iter().chain(more).collect();
            Ok(Request::Call { butler, tool, args: typed(words)? })
        }
    }
}

pub async fn run(caller: Caller, request: Request) -> Outcome {
    match request {
        Request::List { butler } => caller.list(caller.quick()?.tool_list(butler).await, |out, tools| {
            out.table(tools)
                .column("TOOL", |t| &t.name)
                .column("EFFECT", |t| &t.effect)
                .column("DESCRIPTION", |t| one_line(&t.description, 100))
                .print("No tools");
        }),
        Request::Show { butler, tool } => {
            let tool = find(&caller, &butler, &tool).await?;
            caller.out.answer(&tool, show)
        }
        Request::Call { butler, tool, args } => {
            let args: Map<String, Value> = match args {
                Typed::Object(args) => args,
                Typed::Words(words) => {
                    let schema = find(&caller, &butler, &tool).await?.input_schema;
                    by_schema(&words, &schema).map_err(|why| {
                        Problem::usage(format!("{why}."), format!("See: butlerd tool show {butler} {tool}"))
                    })?
                }
            };
            let answer = caller.got(caller.patient()?.tool_call(butler, tool, Some(args)).await)?;
            caller.out.answer(&answer, |out, answer| match &answer.result {
                Value::String(text) => out.line(&block(text)),
                result => out.value(result),
            })?;
            Ok(if answer.is_error || answer.result["status"] == "error" { FAILED } else { 0 })
        }
    }
}

async fn find(caller: &Caller, butler: &str, name: &str) -> Result<ToolInfo, Problem> {
    let tools = caller.got(caller.quick()?.tool_list(butler.to_owned()).await)?;
    let near = config::nearest(name, tools.iter().map(|t| t.name.as_str()));
    let near = near.map(|near| format!(" Did you mean {near}?")).unwrap_or_default();
    let found = tools.iter().find(|tool| tool.name == name).cloned();
    found.ok_or_else(|| {
        let see = format!("See: butlerd tool list {butler}");
        Problem::new(FAILED, "not_found", format!("{butler} has no tool {name}.{near}"), see)
    })
}

/// A tool's arguments: name, type, whether it is needed, meaning.
fn show(out: &Out, tool: &ToolInfo) {
    out.line(&block(&tool.description));
    out.line(&format!("Effect: {}", tool.effect));
    let needed = |name: &str| tool.input_schema["required"].as_array().is_some_and(|all| all.iter().any(|n| n == name));
    let arguments: Vec<(&String, &Value)> = tool.input_schema["properties"].as_object().into_iter().flatten().collect();
    out.table(&arguments)
        .column("ARGUMENT", |(name, _)| format!("--{name}"))
        .column("TYPE", |(_, schema)| kind(schema))
        .column("NEEDED", |(name, _)| if needed(name) { "yes" } else { "no" })
        .column("MEANING", |(_, schema)| one_line(schema["description"].as_str().unwrap_or_default(), 100))
        .print("It takes no arguments.");
}

/// A schema's type in a few words: `string`, `integer or null`, `one of high, low`.
fn kind(schema: &Value) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let list = |values: &[Value], and: &str| values.iter().map(text).collect::<Vec<_>>().join(and);
    if let Some(values) = schema["enum"].as_array() {
        return format!("one of {}", list(values, ", "));
    }
    match &schema["type"] {
        Value::String(one) if one == "array" => format!("list of {}", kind(&schema["items"])),
        Value::String(one) => one.clone(),
        Value::Array(all) => list(all, " or "),
        _ => "any".to_owned(),
    }
}
