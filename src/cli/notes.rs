//! `butlerd notes`

use clap::Subcommand;
use serde_json::{Map, Value, json};

use super::out::{Table, Tone, one_line, text};
use super::problem::{FAILED, Problem};
use super::{Caller, Outcome};
use admin::ApiClient;

/// `notes`
#[derive(Debug, Subcommand)]
pub enum Notes {
    /// What butlers noted for their own sessions to come
    List {
        /// Only this butler's
        #[arg(long, value_name = "NAME")]
        butler: Option<String>,
        /// Those that were taken out
        #[arg(long)]
        dropped: bool,
    },
    /// Take one out
    Rm {
        #[arg(value_name = "BUTLER")]
        butler: String,
        /// Its number
        #[arg(value_name = "NOTE")]
        note: i64,
    },
}

async fn ask(caller: &Caller, butler: &str, tool: &str, args: Value) -> Result<Value, Problem> {
    let args: Option<Map<String, Value>> = args.as_object().cloned();
    let calls = caller.client.quick()?;
    let answer = calls.tool_call(butler.to_owned(), tool.to_owned(), args).await.map_err(caller.failed())?;
    match answer.is_error || answer.result["status"] == "error" {
        true => Err(Problem::new(FAILED, "notes", text(&answer.result, "error").to_owned(), "")),
        false => Ok(answer.result),
    }
}

pub async fn run(caller: Caller, what: Notes) -> Outcome {
    let out = caller.out;
    match what {
        Notes::Rm { butler, note } => {
            let done = ask(&caller, &butler, "note_drop", json!({"note_id": note})).await?;
            match out.json {
                true => out.value(&done),
                false => out.line(&format!("Taken out: {}", one_line(text(&done, "note"), 300))),
            }
        }
        Notes::List { butler, dropped } => {
            let butlers = match butler {
                Some(name) => vec![name],
                None => {
                    let house = caller.client.quick()?.status().await.map_err(caller.failed())?;
                    house.butlers.into_iter().filter(|b| b.port.is_some()).map(|b| b.name).collect()
                }
            };
            let mut all = Vec::new();
            for name in butlers {
                let notes = ask(&caller, &name, "notes_list", json!({"dropped": dropped})).await?;
                for mut note in notes.as_array().cloned().unwrap_or_default() {
                    note["butler"] = json!(name);
                    all.push(note);
                }
            }
            if out.json {
                out.value(&all);
            } else if all.is_empty() {
                out.line("There are no notes.");
            } else {
                let mut table = Table::new(&["BUTLER", "NOTE", "BY", "TOLD", "TEXT"]);
                for note in &all {
                    let told = if note["told_to_sessions"] == true { "yes" } else { "no" };
                    table.row(vec![
                        (Tone::Plain, text(note, "butler").to_owned()),
                        (Tone::Plain, note["note_id"].to_string()),
                        (Tone::Plain, text(note, "trust").to_owned()),
                        (Tone::Plain, told.to_owned()),
                        (Tone::Plain, one_line(text(note, "note"), 300)),
                    ]);
                }
                out.table(&table);
            }
        }
    }
    Ok(0)
}
