//! `butlerd undo`

use clap::Args;
use uuid::Uuid;

use super::out::{Table, Tone, count};
use super::problem::Problem;
use super::{Caller, Outcome};
use admin::ApiClient;

/// `undo`
#[derive(Debug, Args)]
pub struct Undo {
    /// A call, such as `health/123`, or a session's id
    #[arg(value_name = "CALL|SESSION")]
    pub which: Option<String>,
    /// Of the list: only this butler's
    #[arg(long, value_name = "NAME", conflicts_with = "which")]
    pub butler: Option<String>,
    /// Of the list: how many
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=200))]
    pub limit: u32,
}

/// What is asked of the daemon.
pub enum Request {
    List { butler: Option<String>, limit: u32 },
    Call { butler: String, call: i64 },
    Session(Uuid),
}

/// Reads what shall be taken back.
pub fn prepare(args: Undo) -> Result<Request, Problem> {
    let Some(which) = args.which else {
        return Ok(Request::List { butler: args.butler, limit: args.limit });
    };
    if let Ok(id) = which.parse() {
        return Ok(Request::Session(id));
    }
    let call = which.split_once('/').and_then(|(butler, call)| Some((butler.to_owned(), call.parse().ok()?)));
    match call {
        Some((butler, call)) => Ok(Request::Call { butler, call }),
        None => Err(Problem::usage(
            format!("`{which}` is neither a call nor a session."),
            "A call is written like health/123; `butlerd undo` lists them, `butlerd sessions list` the sessions.",
        )),
    }
}

pub async fn run(caller: Caller, request: Request) -> Outcome {
    let out = caller.out;
    let client = caller.client.patient()?;
    let undone = match request {
        Request::List { butler, limit } => {
            let calls = client.undo_list(butler, Some(limit)).await.map_err(caller.failed())?;
            if out.json {
                out.value(&calls);
            } else if calls.is_empty() {
                out.line("There is no call whose rows could be put back.");
            } else {
                let mut table = Table::new(&["CALL", "TOOL", "WHEN", "ROWS", "SESSION"]);
                for call in &calls {
                    table.row(vec![
                        (Tone::Plain, call.call.clone()),
                        (Tone::Plain, call.tool.clone()),
                        (Tone::Plain, caller.moment(call.called_at)),
                        (Tone::Plain, call.rows.to_string()),
                        (Tone::Faint, call.session_id.map(|id| id.to_string()).unwrap_or_default()),
                    ]);
                }
                out.table(&table);
            }
            return Ok(0);
        }
        Request::Call { butler, call } => client.undo_call(butler, call).await,
        Request::Session(id) => client.undo_session(id).await,
    };
    let undone = undone.map_err(caller.failed())?;
    if out.json {
        out.value(&undone);
        return Ok(0);
    }
    for call in &undone.calls {
        let rows = count(usize::try_from(call.rows).unwrap_or(0), "row");
        out.line(&format!("{} ({}): {rows} as before.", call.call, call.tool));
    }
    if !undone.left.is_empty() {
        out.line(&format!("Not taken back, because no rows are kept of it: {}.", undone.left.join(", ")));
    }
    out.line(&format!("To take this back again: butlerd undo {}", undone.undo));
    Ok(0)
}
