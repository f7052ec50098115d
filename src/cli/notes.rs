//! `butlerd notes`

use clap::Subcommand;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::text::one_line;
use super::{Caller, Outcome};
use admin::api::HouseApiClient;

/// `notes`
#[derive(Debug, Subcommand)]
pub enum Notes {
    /// List what butlers noted for their own later sessions
    List {
        /// Only this butler's
        #[arg(long, value_name = "NAME")]
        butler: Option<String>,
        /// List removed notes instead
        #[arg(long)]
        dropped: bool,
    },
    /// Remove a note
    Rm {
        #[arg(value_name = "BUTLER")]
        butler: String,
        /// Its number
        #[arg(value_name = "NOTE")]
        note: i64,
    },
}

/// A note, as the tool `notes_list` shows it.
#[derive(Deserialize, Serialize)]
struct Note {
    #[serde(default)]
    butler: String,
    note_id: i64,
    note: String,
    trust: String,
    told_to_sessions: bool,
    /// What else its row has.
    #[serde(flatten)]
    more: Map<String, Value>,
}

pub async fn run(caller: Caller, what: Notes) -> Outcome {
    match what {
        Notes::Rm { butler, note } => {
            let done: Value = caller.tool(&butler, "note_drop", json!({ "note_id": note })).await?;
            caller.out.answer(&done, |out, done| {
                out.line(&format!("Removed: {}", one_line(done["note"].as_str().unwrap_or_default(), 300)));
            })
        }
        Notes::List { butler, dropped } => {
            let butlers = match butler {
                Some(name) => vec![name],
                None => {
                    let house = caller.got(caller.quick()?.status().await)?;
                    house.butlers.into_iter().filter(|b| b.port.is_some()).map(|b| b.name).collect()
                }
            };
            let mut all = Vec::new();
            for butler in butlers {
                let notes: Vec<Note> = caller.tool(&butler, "notes_list", json!({ "dropped": dropped })).await?;
                all.extend(notes.into_iter().map(|note| Note { butler: butler.clone(), ..note }));
            }
            caller.out.list(&all, &[], |out, notes| {
                out.table(notes)
                    .column("BUTLER", |n| &n.butler)
                    .column("NOTE", |n| n.note_id)
                    .column("BY", |n| &n.trust)
                    .column("TOLD", |n| if n.told_to_sessions { "yes" } else { "no" })
                    .column("TEXT", |n| &n.note)
                    .print("No notes");
            })
        }
    }
}
