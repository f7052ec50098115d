//! `butlerd approvals` at a terminal: what waits, one call after the other, each page by page, and a key for each decision.
//!
//! What never happens here: a call let through of which a page was not shown.

use std::collections::BTreeMap;

use jsonrpsee_http_client::HttpClient;

use super::keys::{Key, Keys};
use super::out::{Out, Tone};
use super::problem::{FAILED, Problem};
use super::text::{block, count};
use super::{Caller, Outcome};
use admin::ActionPage;
use admin::api::ApprovalsApiClient;
use approvals::{Action, Status};

/// A call, and what of it was shown.
struct Reading {
    action: Action,
    /// The page in view, from 1.
    page: u32,
    /// By number.
    shown: BTreeMap<u32, ActionPage>,
}

/// Where a key leads.
enum Step {
    Stay,
    To(usize),
    /// It is decided.
    Gone,
    Leave,
}

impl Reading {
    fn of(&self) -> u32 {
        self.shown.values().next().and_then(|page| u32::try_from(page.of).ok()).unwrap_or(1)
    }

    fn is_whole(&self) -> bool {
        self.shown.len() == self.of() as usize
    }

    /// Asks for the page in view, which notes that it was shown, and shows it.
    async fn show(&mut self, caller: &Caller, calls: &HttpClient) -> Result<(), Problem> {
        if !self.shown.contains_key(&self.page) {
            let page = caller.got(calls.approvals_show(self.action.id, Some(self.page)).await)?;
            // What is approved is what was shown: a call that changed meanwhile is read from its beginning.
            self.shown.retain(|_, before| before.seen == page.seen);
            self.shown.insert(self.page, page);
        }
        if let Some(page) = self.shown.get(&self.page) {
            page.pages.iter().for_each(|text| caller.out.line(&block(text)));
        }
        Ok(())
    }

    fn seen(&self) -> Option<String> {
        self.shown.values().next().map(|page| page.seen.clone())
    }
}

pub async fn walk(caller: &Caller) -> Outcome {
    const MOST: u32 = 200;
    let (out, calls) = (&caller.out, caller.quick()?);
    let pending = Some(Status::Pending.as_str().to_owned());
    let waiting = caller.got(calls.approvals_list(None, pending, Some(MOST)).await)?;
    let reading = |action| Reading { action, page: 1, shown: BTreeMap::new() };
    // Who waits longest comes first.
    let mut waiting: Vec<Reading> = waiting.into_iter().rev().map(reading).collect();
    if waiting.is_empty() {
        out.line("Nothing waits for your decision");
        return Ok(0);
    }
    let keys = Keys::open();
    let mut keys =
        keys.map_err(|e| Problem::new(FAILED, "terminal", format!("The terminal can't be read: {e}."), ""))?;
    let mut at = 0;
    while !waiting.is_empty() {
        let of = waiting.len();
        let Some(call) = waiting.get_mut(at) else {
            at = of - 1;
            continue;
        };
        let part = if call.page > 1 { format!(", part {}", call.page) } else { String::new() };
        out.heading(&format!("Call {} of {of}{part}: {} of {}", at + 1, call.action.tool_name, call.action.butler));
        let step = match call.show(caller, &calls).await {
            Ok(()) => {
                out.toned(Tone::Faint, &help(call, of));
                decide(caller, &calls, &mut keys, call, (at, of)).await?
            }
            // Somebody else has decided, or its time is over.
            Err(problem) => {
                problem.tell(out);
                Step::Gone
            }
        };
        match step {
            Step::Stay => {}
            Step::To(other) => at = other,
            Step::Gone => {
                waiting.remove(at);
            }
            Step::Leave => break,
        }
    }
    out.line(&match waiting.len() {
        0 => "Nothing waits for your decision any more".to_owned(),
        n => format!(
            "{} still for your decision.",
            if n == 1 { "1 call waits".to_owned() } else { format!("{n} calls wait") }
        ),
    });
    Ok(0)
}

/// Which keys do what now.
fn help(call: &Reading, of: usize) -> String {
    let pages = if call.of() > 1 { format!("part {} of {}; ", call.page, call.of()) } else { String::new() };
    let on = if call.page < call.of() || of > 1 { "→ on, ← back, " } else { "" };
    let yes = if call.is_whole() { "y let it through" } else { "y once all parts were shown" };
    format!("[{pages}{on}{yes}, n turn it down, q leave]")
}

/// Waits for a key that leads somewhere. `place`: which call it is, and of how many.
async fn decide(
    caller: &Caller,
    calls: &HttpClient,
    keys: &mut Keys,
    call: &mut Reading,
    (at, of): (usize, usize),
) -> Result<Step, Problem> {
    let out = &caller.out;
    loop {
        match keys.next().await {
            Key::On | Key::Char(' ') if call.page < call.of() => {
                call.page += 1;
                return Ok(Step::Stay);
            }
            Key::On | Key::Char(' ') if at + 1 < of => return Ok(Step::To(at + 1)),
            Key::Back if call.page > 1 => {
                call.page -= 1;
                return Ok(Step::Stay);
            }
            Key::Back if at > 0 => return Ok(Step::To(at - 1)),
            Key::Char('y' | 'Y') if !call.is_whole() => unseen(out, call),
            Key::Char('y' | 'Y') => {
                let answer = caller.got(calls.approvals_approve(call.action.id, call.seen()).await);
                return Ok(told(out, answer));
            }
            Key::Char('n' | 'N') => {
                let question = "Turn it down; what is its butler told? (Enter: nothing, Ctrl-C: back) ";
                let Some(reason) = keys.line(question).await else { return Ok(Step::Stay) };
                let reason = Some(reason).filter(|reason| !reason.is_empty());
                let answer = caller.got(calls.approvals_reject(call.action.id, reason).await);
                return Ok(told(out, answer));
            }
            Key::Char('q' | 'Q') | Key::End => return Ok(Step::Leave),
            _ => {}
        }
    }
}

fn unseen(out: &Out, call: &Reading) {
    let left = call.of() as usize - call.shown.len();
    let (parts, were) = (count(left, "part"), if left == 1 { "was" } else { "were" });
    out.toned(Tone::Warn, &format!("Not yet: {parts} of it {were} not shown. The arrow → shows the next."));
}

/// Tells what a decision makes happen.
pub(super) fn decided(out: &Out, action: &Action) {
    out.line(&match action.status {
        Status::Approved => format!("{} is let through; {} makes the call now.", action.id, action.butler),
        _ => format!("{} is turned down; {} is told.", action.id, action.butler),
    });
}

/// Tells what came of a decision. A refusal says why, and the call is shown no more: what it is now its list tells.
fn told(out: &Out, answer: Result<Action, Problem>) -> Step {
    match answer {
        Ok(action) => decided(out, &action),
        Err(problem) => problem.tell(out),
    }
    Step::Gone
}
