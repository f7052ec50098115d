//! `butlerd undo`

use clap::Args;

use super::common::{Id, Newest};
use super::problem::Problem;
use super::text::count;
use super::{Caller, Outcome};
use admin::IdKind;
use admin::api::UndoApiClient;

/// `undo`
#[derive(Debug, Args)]
pub struct Undo {
    /// A call, such as `health/123`, or a session's id
    #[arg(value_name = "CALL|SESSION")]
    pub which: Option<String>,
    /// Of the list: only this butler's
    #[arg(long, value_name = "NAME", conflicts_with = "which")]
    pub butler: Option<String>,
    #[command(flatten)]
    pub newest: Newest,
}

/// What is asked of the daemon.
pub enum Request {
    List { butler: Option<String>, limit: u32 },
    Call { butler: String, call: i64 },
    Session(Id),
}

/// Reads what shall be taken back.
pub fn prepare(args: Undo) -> Result<Request, Problem> {
    let Some(which) = args.which else {
        return Ok(Request::List { butler: args.butler, limit: args.newest.limit });
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
    let calls = caller.patient()?;
    let undone = match request {
        Request::List { butler, limit } => {
            return caller.list(calls.undo_list(butler, Some(limit)).await, |out, calls| {
                out.table(calls)
                    .column("CALL", |c| &c.call)
                    .column("TOOL", |c| &c.tool)
                    .column("WHEN", |c| out.moment(c.called_at))
                    .column("ROWS", |c| c.rows)
                    .ids("SESSION", |c| c.session_id)
                    .print("Nothing can be taken back");
            });
        }
        Request::Call { butler, call } => calls.undo_call(butler, call).await,
        Request::Session(id) => calls.undo_session(caller.id(IdKind::Session, &id).await?).await,
    };
    caller.show(undone, |out, undone| {
        for call in &undone.calls {
            let rows = count(usize::try_from(call.rows).unwrap_or(0), "row");
            out.line(&format!("{} ({}): {rows} as before.", call.call, call.tool));
        }
        if !undone.left.is_empty() {
            out.line(&format!("Not taken back, because none of its rows are kept: {}.", undone.left.join(", ")));
        }
        out.line(&format!("To take this back again: butlerd undo {}", undone.undo));
    })
}
