//! What waits for a decision, one after the other: each is shown, and the person decides.
//!
//! What never happens here: a call let through of which a page was not shown.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::Caller;
use super::approvals_shown::{approve, reject, shown, together};
use super::common::Id;
use super::keys::{Key, Keys};
use super::out::{Out, Tone};
use super::problem::Problem;
use super::text::{block, count};
use admin::api::ApprovalsApiClient;
use admin::{ActionPage, IdKind};
use approvals::{Action, Status};

/// What a person makes of what is shown.
pub enum Step {
    To(usize),
    /// With the hash of what was seen.
    Approve(String),
    /// With what its butler is told.
    Reject(Option<String>),
    Later,
    Leave,
}

/// A call or a proposal that waits, and what of a call was shown page by page.
pub struct Waiting {
    id: Uuid,
    /// The page in view, from 1.
    page: u32,
    /// By number.
    shown: BTreeMap<u32, ActionPage>,
}

/// How a person is shown what waits, and decides on it.
pub trait Answers {
    /// The ids of what is decided on, in turn. `actions`: all calls that wait, the newest first.
    fn ids(&self, actions: &[Action]) -> Vec<Uuid>;
    /// Shows one and asks what becomes of it. `place`: which one it is, and of how many.
    async fn decide(&mut self, caller: &Caller, call: &mut Waiting, place: (usize, usize)) -> Result<Step, Problem>;
    /// Tells at the end how many wait still.
    fn end(&self, _: &Out, _: usize) {}
}

/// Goes through all that waits, or this one, and does what is decided.
pub async fn walk(caller: &Caller, id: Option<&Id>, mut answers: impl Answers) -> Result<(), Problem> {
    const MOST: u32 = 200;
    let out = &caller.out;
    let ids = match id {
        Some(id) => vec![caller.id(IdKind::Approval, id).await?],
        None => {
            let pending = Some(Status::Pending.as_str().to_owned());
            answers.ids(&caller.got(caller.quick()?.approvals_list(None, pending, Some(MOST)).await)?)
        }
    };
    if ids.is_empty() {
        out.line("Nothing waits for your decision.");
        return Ok(());
    }
    let new = |id| Waiting { id, page: 1, shown: BTreeMap::new() };
    let (mut waiting, mut at): (Vec<Waiting>, usize) = (ids.into_iter().map(new).collect(), 0);
    while !waiting.is_empty() {
        let of = waiting.len();
        at = at.min(of - 1);
        let call = &mut waiting[at];
        let decided = match answers.decide(caller, call, (at, of)).await {
            Ok(Step::To(other)) => {
                at = other;
                continue;
            }
            Ok(Step::Approve(seen)) => approve(caller, call.id, Some(seen)).await,
            Ok(Step::Reject(reason)) => reject(caller, call.id, reason).await,
            Ok(Step::Later) => Ok(0),
            Ok(Step::Leave) => break,
            Err(problem) => Err(problem),
        };
        // Somebody else has decided, or its time is over: what it is now its list tells.
        decided.map_or_else(|problem| problem.tell(out), drop);
        waiting.remove(at);
    }
    answers.end(out, waiting.len());
    Ok(())
}

/// Shows each whole, all calls of a proposal as one. It asks for a line, and counts what it has asked.
pub struct Whole<F>(pub F, pub usize);

impl<F: AsyncFnMut(&str) -> Option<String>> Answers for Whole<F> {
    fn ids(&self, actions: &[Action]) -> Vec<Uuid> {
        let mut ids: Vec<Uuid> = together(actions).iter().map(|a| a.proposal.unwrap_or(a.id)).collect();
        ids.dedup();
        ids
    }

    async fn decide(&mut self, caller: &Caller, call: &mut Waiting, place: (usize, usize)) -> Result<Step, Problem> {
        let Self(ask, asked) = self;
        let of = *asked + place.1;
        *asked += 1;
        let seen = shown(caller, call.id, None).await?.print(&caller.out);
        let which = if of > 1 { format!(" ({asked} of {of})") } else { String::new() };
        let answer = ask(&format!("Approve it{which}? [y: yes, n: turn it down, Enter: later]")).await;
        let (step, said) = match answer.as_deref() {
            Some("y" | "yes") => return Ok(Step::Approve(seen)),
            Some("n" | "no") => return Ok(Step::Reject(None)),
            Some(_) => (Step::Later, "It waits."),
            None => (Step::Leave, "Nothing more was decided."),
        };
        caller.out.line(said);
        Ok(step)
    }
}

/// Shows each call page by page, who waits longest first. A key decides.
impl Answers for Keys {
    fn ids(&self, actions: &[Action]) -> Vec<Uuid> {
        actions.iter().rev().map(|a| a.id).collect()
    }

    async fn decide(&mut self, caller: &Caller, call: &mut Waiting, place: (usize, usize)) -> Result<Step, Problem> {
        let ((at, of), out) = (place, &caller.out);
        call.show(caller, place).await?;
        out.toned(Tone::Faint, &call.help(of));
        loop {
            match self.next().await {
                Key::On | Key::Char(' ') if call.page < call.of() => {
                    call.page += 1;
                    return Ok(Step::To(at));
                }
                Key::On | Key::Char(' ') if at + 1 < of => return Ok(Step::To(at + 1)),
                Key::Back if call.page > 1 => {
                    call.page -= 1;
                    return Ok(Step::To(at));
                }
                Key::Back if at > 0 => return Ok(Step::To(at - 1)),
                Key::Char('y' | 'Y') => match call.seen() {
                    Some(seen) => return Ok(Step::Approve(seen)),
                    None => call.unseen(out),
                },
                Key::Char('n' | 'N') => {
                    let question = "Turn it down; what is its butler told? (Enter: nothing, Ctrl-C: back) ";
                    let Some(reason) = self.line(question).await else { return Ok(Step::To(at)) };
                    return Ok(Step::Reject(Some(reason).filter(|reason| !reason.is_empty())));
                }
                Key::Char('q' | 'Q') | Key::End => return Ok(Step::Leave),
                _ => {}
            }
        }
    }

    fn end(&self, out: &Out, left: usize) {
        out.line(&match left {
            0 => "Nothing waits for your decision any more".to_owned(),
            1 => "1 call waits still for your decision.".to_owned(),
            n => format!("{n} calls wait still for your decision."),
        });
    }
}

impl Waiting {
    fn of(&self) -> u32 {
        self.shown.values().next().and_then(|page| u32::try_from(page.of).ok()).unwrap_or(1)
    }

    /// The hash of the call, once all of it was shown.
    fn seen(&self) -> Option<String> {
        let whole = self.shown.len() == self.of() as usize;
        self.shown.values().next().filter(|_| whole).map(|page| page.seen.clone())
    }

    /// Asks for the page in view, which notes that it was shown, and shows it.
    async fn show(&mut self, caller: &Caller, (at, of): (usize, usize)) -> Result<(), Problem> {
        if !self.shown.contains_key(&self.page) {
            let page = caller.got(caller.quick()?.approvals_show(self.id, Some(self.page)).await)?;
            // What is approved is what was shown: a call that changed meanwhile is read from its beginning.
            self.shown.retain(|_, before| before.seen == page.seen);
            self.shown.insert(self.page, page);
        }
        if let Some(ActionPage { action, pages, .. }) = self.shown.get(&self.page) {
            let part = if self.page > 1 { format!(", part {}", self.page) } else { String::new() };
            let what = format!("{} of {}", action.tool_name, action.butler);
            caller.out.heading(&format!("Call {} of {of}{part}: {what}", at + 1));
            pages.iter().for_each(|text| caller.out.line(&block(text)));
        }
        Ok(())
    }

    /// Which keys do what now.
    fn help(&self, of: usize) -> String {
        let pages = if self.of() > 1 { format!("part {} of {}; ", self.page, self.of()) } else { String::new() };
        let on = if self.page < self.of() || of > 1 { "→ on, ← back, " } else { "" };
        let yes = if self.seen().is_some() { "y let it through" } else { "y once all parts were shown" };
        format!("[{pages}{on}{yes}, n turn it down, q leave]")
    }

    fn unseen(&self, out: &Out) {
        let left = self.of() as usize - self.shown.len();
        let (parts, were) = (count(left, "part"), if left == 1 { "was" } else { "were" });
        out.toned(Tone::Warn, &format!("Not yet: {parts} of it {were} not shown. The arrow → shows the next."));
    }
}
