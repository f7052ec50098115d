//! `butlerd undo`

use clap::Args;

use super::common::{Id, Newest};
use super::problem::{FAILED, Problem};
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
                    .column("ROWS", |c| c.by.is_none().then_some(c.rows))
                    .column("TAKEN BACK BY", |c| c.by.as_deref())
                    .column("BEGUN", |c| c.begun_at.map(|at| out.moment(at)))
                    .ids("SESSION", |c| c.session_id)
                    .print("Nothing can be taken back");
            });
        }
        Request::Call { butler, call } => calls.undo_call(butler, call).await,
        Request::Session(id) => calls.undo_session(caller.id(IdKind::Session, &id).await?).await,
    };
    let stopped = undone.as_ref().is_ok_and(|undone| undone.stopped.is_some());
    let code = caller.show(undone, |out, undone| {
        for call in &undone.calls {
            let how = match &call.by {
                Some(tool) => format!("taken back by {tool}"),
                None => format!("{} as before", count(usize::try_from(call.rows).unwrap_or(0), "row")),
            };
            out.line(&format!("{} ({}): {how}.", call.call, call.tool));
        }
        if !undone.left.is_empty() {
            out.line(&format!("Not taken back, because no way back is known: {}.", undone.left.join(", ")));
        }
        if let Some(why) = &undone.stopped {
            out.line(why);
        }
        if let Some(undo) = &undone.undo {
            out.line(&format!("To take this back again: butlerd undo {undo}"));
        }
    })?;
    Ok(if stopped { FAILED } else { code })
}
