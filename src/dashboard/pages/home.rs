//! The first page: how the household is, what waits for its owner, what happened and what it cost.

use admin::calls::{ApprovalsApiServer, ConversationsApiServer, DeliveriesApiServer, HouseApiServer, InboxApiServer};
use admin::calls::{NotesApiServer, SchedulesApiServer, SessionPagesApiServer};
use admin::{ConversationPage, Failure, RunRow, SchedulePage, SessionsBefore};
use approvals::Action;
use butler::{ButlerState, ButlerStatus, HouseholdStatus};
use inbox::messages;
use maud::{Markup, html};
use outbox::{DeliveryView, Note};
use sessions::SessionState;
use sessions::budget::{By, Costs, LimitLeft};

use super::answers::{not_now, or_not_now};
use super::{approvals as waiting, conversations, costs as spending, sessions as shown};
use crate::parts::{Tone, badge, count, empty, line, money, none_of, note, toned, unavailable};
use crate::reply::{Answer, View};
use crate::route::{Route, get};
use crate::visit::Visit;

pub(crate) const ROUTES: &[Route] = &[get("/", |visit| Box::pin(home(visit)))];

/// So many rows of each list; the rest is a click away.
const SHOWN: u32 = 8;
/// So many notes are looked at for those that nobody has seen.
const NOTES: u32 = 50;

/// A part that can't be read says why in its own place.
async fn home(visit: &Visit) -> Answer {
    let (calls, ext) = (&visit.calls, &visit.ext);
    let status = calls.status(ext).await?;
    // One more of each than is shown tells that there is more.
    let more = Some(SHOWN + 1);
    let (actions, bad, dead, notes, schedules, sessions, talks, costs, budgets) = tokio::join!(
        calls.approvals_list(ext, None, Some("pending".to_owned()), more),
        calls.deliveries_list(ext, None, Some("bad".to_owned()), more, None),
        calls.inbox_list(ext, Some("dead".to_owned()), more, None),
        calls.notes_list(ext, None, Some(NOTES)),
        calls.schedule_list(ext, None, None),
        calls.sessions_page(ext, None, None, Some(SHOWN)),
        calls.conversations_list(ext, None, Some(SHOWN)),
        calls.costs(ext, Some(1), By::Butler),
        calls.budgets(ext),
    );
    let body = html! {
        (sentence(&status))
        (troubles(&status))
        div.columns {
            section aria-labelledby="waits" { h2 #waits { "Waiting for you" } (waits(visit, &actions, &bad, &dead, &notes)) }
            section aria-labelledby="butlers" { h2 #butlers { "Butlers" } (butlers(&status, &sessions)) }
            section aria-labelledby="today" { h2 #today { "Today" } (or_not_now(&schedules, |page| today(visit, page))) }
            section aria-labelledby="cost" { h2 #cost { "Cost today" } (or_not_now(&costs, |costs| cost(costs, &budgets))) }
        }
        section aria-labelledby="talks" {
            h2 #talks { "Last conversations" }
            (or_not_now(&talks, |page| last_talks(visit, page)))
        }
        section aria-labelledby="last" {
            h2 #last { "Last sessions" }
            (or_not_now(&sessions, |page| shown::table(visit, &page.sessions, &page.unavailable)))
        }
    };
    Ok(View::new("Home", body).live("house").into())
}

/// How the household is, in a sentence.
fn sentence(status: &HouseholdStatus) -> Markup {
    let there: Vec<&ButlerStatus> = status.butlers.iter().filter(|b| !b.removed).collect();
    let up = there.iter().filter(|b| b.state == ButlerState::Up).count();
    let running: usize = there.iter().map(|b| b.sessions_running).sum();
    let queued: usize = there.iter().map(|b| b.sessions_queued).sum();
    let ill = there
        .iter()
        .flat_map(|b| b.modules.values())
        .filter(|m| m.enabled && m.health != modules::Health::Active)
        .count();
    let tone = match (status.ready, up == there.len() && ill == 0) {
        (false, _) => Tone::Bad,
        (true, false) => Tone::Warn,
        (true, true) => Tone::Good,
    };
    let working = match (running, queued) {
        (0, 0) => "no session is running".to_owned(),
        (1, 0) => "one session is running".to_owned(),
        (n, 0) => format!("{n} sessions are running"),
        (n, waiting) => format!("{n} sessions are running and {waiting} wait"),
    };
    let well = match tone {
        Tone::Good => "All is well",
        Tone::Warn => "The household works, but not all of it is well",
        _ => "The household is not ready",
    };
    let butlers = match (up, there.len()) {
        (_, 0) => "there is no butler yet".to_owned(),
        (1, 1) => "the one butler is up".to_owned(),
        (up, all) if up == all => format!("all {all} butlers are up"),
        (up, all) => format!("{up} of {all} butlers are up"),
    };
    note(tone, &html! { strong { (well) } ": " (butlers) ", " (working) "." })
}

fn troubles(status: &HouseholdStatus) -> Markup {
    let backup = status.backup.as_ref();
    html! {
        @for trouble in &status.troubles { (note(Tone::Bad, &html! { strong { (trouble.what) } ": " (trouble.why) "." })) }
        @if let Some(error) = &status.database.error { (note(Tone::Bad, &html! { strong { "Database" } ": " (error) })) }
        @if let Some(error) = backup.and_then(|b| b.error.as_ref()) {
            (note(Tone::Warn, &html! { strong { "Backup" } ": " (error) }))
        } @else if backup.is_some_and(|b| b.overdue) {
            (note(Tone::Warn, &html! { strong { "Backup" } ": the newest one is older than it should be." }))
        }
        @if status.log_lines_lost > 0 {
            (note(Tone::Warn, &html! { (count(i128::from(status.log_lines_lost))) " lines of the log could not be written." }))
        }
        @for (channel, waiting) in &status.without_channel {
            (note(Tone::Warn, &html! { (count(i128::from(*waiting))) " deliveries wait for the channel " strong { (channel) }
                ", which the household does not have." }))
        }
    }
}

fn waits(
    visit: &Visit,
    actions: &Result<Vec<Action>, Failure>,
    bad: &Result<Vec<DeliveryView>, Failure>,
    dead: &Result<Vec<messages::Entry>, Failure>,
    notes: &Result<Vec<Note>, Failure>,
) -> Markup {
    let unseen = notes.as_ref().map(|all| all.iter().filter(|n| n.seen_at.is_none()).collect::<Vec<_>>());
    let nothing = actions.as_ref().is_ok_and(Vec::is_empty)
        && bad.as_ref().is_ok_and(Vec::is_empty)
        && dead.as_ref().is_ok_and(Vec::is_empty)
        && unseen.as_ref().is_ok_and(Vec::is_empty);
    html! {
        @if nothing { (empty("Nothing waits for you.")) }
        (some(actions, "/approvals", |action| waiting::brief(visit, action)))
        (some(bad, "/deliveries?state=bad", |one: &DeliveryView| html! {
            (badge(&one.state)) " " a href={ "/deliveries/" (one.id) } { "Delivery to " (line(&one.target, 60)) }
            " over " (one.channel) " " span.dim { (visit.now.when(one.created_at)) }
        }))
        (some(dead, "/inbox?state=dead", |one: &messages::Entry| html! {
            (badge(&one.state)) " " a href={ "/inbox/" (one.request_id) } { (line(&one.body, 80)) }
            " " span.dim { "from " (line(&one.sender, 40)) " " (visit.now.when(one.received_at)) }
        }))
        (some(&unseen, "/notes", |one: &&Note| html! {
            (toned(Tone::Busy, "new")) " " a href={ "/notes#note-" (one.id) } { (line(one.subject.as_ref().unwrap_or(&one.message), 80)) }
            " " span.dim { "from " (line(&one.from, 40)) " " (visit.now.when(one.at)) }
        }))
    }
}

/// The first rows of a list, and where the rest is.
fn some<T, E: std::borrow::Borrow<Failure>>(
    found: &Result<Vec<T>, E>,
    rest: &str,
    row: impl Fn(&T) -> Markup,
) -> Markup {
    match found {
        Ok(all) => html! {
            ul.rows { @for one in all.iter().take(SHOWN as usize) { li { (row(one)) } } }
            @if all.len() > SHOWN as usize { p { a href=(rest) { "More of these" } } }
        },
        Err(why) => not_now(why.borrow()),
    }
}

fn last_talks(visit: &Visit, page: &ConversationPage) -> Markup {
    html! {
        @if page.entries.is_empty() { (empty("Nobody has said anything yet.")) }
        ul.rows { @for said in &page.entries { li { (conversations::row(visit, said)) } } }
        @if page.before.is_some() { p { a href="/conversations" { "All conversations" } } }
    }
}

fn butlers(status: &HouseholdStatus, sessions: &Result<SessionsBefore, Failure>) -> Markup {
    let last = sessions.as_ref().map_or(&[][..], |page| &page.sessions);
    html! {
        @if status.butlers.is_empty() { (empty("No butler yet. Make one with: butlerd new")) }
        ul.rows { @for butler in &status.butlers {
            @let ill: Vec<&str> = butler.modules.iter().filter(|(_, m)| m.enabled && m.health != modules::Health::Active).map(|(name, _)| name.as_str()).collect();
            @let works = last.iter().filter(|s| s.butler == butler.name && s.state == SessionState::Running);
            li {
                a href={ "/butlers/" (butler.name) } { strong { (butler.name) } } " " (badge(butler.state.as_str()))
                @if butler.sessions_running > 0 { " " (toned(Tone::Busy, &format!("{} at work", butler.sessions_running))) }
                @if butler.sessions_queued > 0 { " " (toned(Tone::Warn, &format!("{} wait", butler.sessions_queued))) }
                @for name in ill { " " (toned(Tone::Bad, &format!("module {name}"))) }
                @for session in works { div { a href={ "/sessions/" (session.id) } { (line(&session.prompt, 80)) } } }
                @if let Some(error) = &butler.error { div.dim { (line(error, 160)) } }
                @else if let Some(note) = &butler.note { div.dim { (line(note, 160)) } }
            }
        } }
    }
}

/// What is still to come today, and what went wrong.
fn today(visit: &Visit, page: &SchedulePage) -> Markup {
    let today = visit.now.zoned(visit.now.at).date();
    let due = |at: &jiff::Timestamp| visit.now.zoned(*at).date() == today;
    let mut coming: Vec<_> =
        page.schedules.iter().filter(|s| !s.paused).filter_map(|s| Some((s.next_run_at.filter(due)?, s))).collect();
    coming.sort_by_key(|(at, _)| *at);
    let went_wrong = |run: &&RunRow| due(&run.fire_at) && matches!(run.state.as_str(), "failed" | "skipped");
    let mut wrong: Vec<_> =
        page.schedules.iter().filter_map(|s| Some((s.last.as_ref().filter(went_wrong)?, s))).collect();
    wrong.sort_by_key(|(run, _)| run.fire_at);
    html! {
        (unavailable(&page.unavailable))
        ul.rows { @for (run, schedule) in wrong.iter().take(SHOWN as usize) {
            li { (badge(&run.state)) " " (visit.now.when(run.fire_at)) " " a href={ "/schedules/" (schedule.id) } { (schedule.name) } " "
                span.dim { (schedule.butler) } @if let Some(why) = &run.reason { div.dim { (line(why, 120)) } } }
        } }
        @if coming.is_empty() { (none_of(&page.unavailable, "Nothing more is due today.")) }
        ul.rows { @for (at, schedule) in coming.iter().take(SHOWN as usize) {
            li { (visit.now.when(*at)) " " a href={ "/schedules/" (schedule.id) } { (schedule.name) } " " span.dim { (schedule.butler) } }
        } }
        @if coming.len() > SHOWN as usize { p { a href="/schedules" { (coming.len() - SHOWN as usize) " more" } } }
    }
}

fn cost(costs: &Costs, budgets: &Result<Vec<LimitLeft>, Failure>) -> Markup {
    html! {
        p.big { @if costs.total.sessions == 0 { "nothing yet" } @else { (money(costs.total.usd)) } }
        p.dim { (crate::parts::sessions(costs.total.sessions)) ", " (count(i128::from(costs.total.tokens))) " tokens"
            @if costs.total.sessions_of_unknown_cost > 0 {
                "; the cost of " (costs.total.sessions_of_unknown_cost) " is not known"
            } "." }
        p { a href="/costs" { "This month" } ": " (money(costs.month.usd)) }
        (or_not_now(budgets, |all| spending::limits(all)))
    }
}
