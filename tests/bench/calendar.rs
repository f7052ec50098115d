//! A year of five thousand events in five calendars of a CalDAV server: their first sync, beside the time that the server
//! itself takes for its answers, and then how soon a month is listed and a free hour found.

mod server;

use std::time::{Duration, Instant};

use serde_json::json;

use crate::daemon::Daemon;
use crate::household::{Household, MODEL};
use crate::memory::Caller;
use crate::table::{self, Verdict, median};
use crate::{Failed, Plan};
use server::Server;

const CALENDARS: usize = 5;
const EVENTS: usize = 5_000;
/// The first sync of all of them, without the server's own time.
const FIRST_S: f64 = 10.0;
/// A month's list, p50.
const MONTH_MS: f64 = 5.0;
/// Free time in all calendars, p50.
const FREE_MS: f64 = 10.0;
/// Until a household that does not sync is given up.
const PATIENCE: Duration = Duration::from_secs(600);

pub async fn measure(plan: &Plan) -> Result<(), Failed> {
    let today = jiff::Zoned::now().date();
    let server = Server::start(CALENDARS, EVENTS, today)?;
    let household = Household::new(0)?;
    let names: Vec<String> = (0..CALENDARS).map(|n| format!("\"cal{n}\"")).collect();
    let file = household.roster().join(MODEL).join("butler.toml");
    let before = std::fs::read_to_string(&file)?;
    // Its last section is the household's own calendar.
    let (before, _) = before.split_once("[modules.calendar]").ok_or("the butler has no calendar")?;
    let section = format!(
        "{before}[modules.calendar]\nprovider = \"caldav\"\nurl = \"{}\"\nuser = \"ada\"\ncalendars = [{list}]\nprivate = [{list}]\n",
        server.url,
        list = names.join(", ")
    );
    std::fs::write(&file, section)?;
    let begun = Instant::now();
    let daemon = Daemon::start(&household, &[]).await?;
    let caller = Caller::of(&household, daemon.ready.ports[MODEL], None)?;
    let at_start = server.own_time();
    let (first, own) = first_sync(&caller, &server, begun).await?;
    let times = if plan.is_quick() { 30 } else { 300 };
    let day = |n: i64| today.saturating_add(jiff::Span::new().days(n)).to_string();
    let (mut month, mut free, mut nothing) = (Vec::new(), Vec::new(), Vec::new());
    let mut listed = 0;
    for n in 0..times {
        // Another month each time.
        let from = i64::from(n) * 11 % 330 - 180;
        let window = json!({"start_at": day(from), "end_at": day(from + 30), "limit": 500});
        let (ms, answer) = caller.timed("calendar_list_events", window).await?;
        listed += answer["events"].as_array().map_or(0, Vec::len);
        month.push(ms);
        let ahead = i64::from(n) * 7 % 150;
        let search = json!({"duration_minutes": 60, "search_start": day(ahead), "search_end": day(ahead + 30)});
        let (ms, answer) = caller.timed("calendar_find_free_slots", search).await?;
        if answer["slots"].as_array().is_none_or(Vec::is_empty) {
            return Err(format!("there is no free hour: {answer}").into());
        }
        free.push(ms);
        nothing.push(caller.timed("calendar_list_calendars", json!({})).await?.0);
    }
    table::calendar_head(EVENTS, CALENDARS);
    let beside = first - own;
    table::note(&format!(
        "first sync: {first:.2} s from the start of the daemon, of which the server took {own:.2} s ({at_start:.2} s before the \
         household was up): {beside:.2} s   {}",
        Verdict::at_most("calendar.first_sync", beside, FIRST_S, "s beside the server's")
    ));
    table::note(&format!("{} events in a month's list on average, {times} of each in turns", listed / month.len()));
    let verdict = Verdict::at_most("calendar.month", median(&month), MONTH_MS, "ms, p50");
    table::calendar("a month's list", &month, Some(verdict));
    let verdict = Verdict::at_most("calendar.free", median(&free), FREE_MS, "ms, p50");
    table::calendar("a free hour in five calendars", &free, Some(verdict));
    table::calendar("the calendars' names", &nothing, None);
    daemon.stop().await
}

/// Waits until all calendars were synced once; the seconds since `begun`, and the server's own of them.
async fn first_sync(caller: &Caller, server: &Server, begun: Instant) -> Result<(f64, f64), Failed> {
    loop {
        let state = caller.call("calendar_sync_status", json!({})).await?;
        let all = state["calendars"].as_array().cloned().unwrap_or_default();
        if let Some(wrong) = all.iter().find(|one| one["state"] == "failed") {
            return Err(format!("it does not sync: {wrong}").into());
        }
        if all.len() == CALENDARS && all.iter().all(|one| one["state"] == "synced") {
            return Ok((begun.elapsed().as_secs_f64(), server.own_time()));
        }
        if begun.elapsed() > PATIENCE {
            return Err(format!("not all are synced: {state}").into());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
