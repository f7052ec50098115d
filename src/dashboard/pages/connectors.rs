//! Connectors: what hands messages in, how each is, how far it has read, and what it fetches of the past.

use admin::calls::HouseApiServer;
use admin::{Backfill, Connector};
use jiff::Timestamp;
use maud::{Markup, html};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::answers::{act, look, not_now, or_not_now};
use super::mcp_servers;
use crate::parts::{Tone, badge, count, empty, line, pretty, toned};
use crate::reply::{Answer, Did, PageError, Reply, View};
use crate::route::{Route, get, post};
use crate::visit::Visit;
use inbox::SWITCHBOARD;

pub(crate) const ROUTES: &[Route] = &[
    get("/connectors", |visit| Box::pin(list(visit))),
    post("/connectors/disconnect", |visit| Box::pin(disconnect(visit))),
    post("/connectors/backfills/*", |visit| Box::pin(change(visit))),
];

async fn list(visit: &Visit) -> Answer {
    let (status, connectors, jobs) = tokio::join!(
        visit.calls.status(&visit.ext),
        look::<Vec<Connector>>(visit, SWITCHBOARD, "connector_list", json!({})),
        look::<Vec<Backfill>>(visit, SWITCHBOARD, "backfill_list", json!({}))
    );
    let body = html! {
        (or_not_now(&connectors, |connectors| table(visit, connectors)))
        h2 { "Messages of the past" }
        @match &jobs {
            Ok(jobs) => (backfills(visit, jobs)),
            // What the first list says of the switchboard need not be said again.
            Err(_) if connectors.is_err() => (empty("This can't be seen just now either.")),
            Err(why) => (not_now(why)),
        }
        @match &status {
            Ok(status) => (mcp_servers::section(visit, &status.butlers).await),
            Err(why) => (not_now(why)),
        }
    };
    Ok(View::new("Connectors", body).live("house").into())
}

fn alive(liveness: &str) -> Markup {
    let tone = match liveness {
        "online" => Tone::Good,
        "stale" => Tone::Warn,
        "offline" => Tone::Bad,
        _ => Tone::Quiet,
    };
    toned(tone, liveness)
}

fn table(visit: &Visit, connectors: &[Connector]) -> Markup {
    if connectors.is_empty() {
        return empty("No connector has been heard of. Set one up with: butlerd connect");
    }
    html! { ul.cards { @for one in connectors { li {
        h2 { (line(&one.connector_type, 40)) " " span.dim { (line(&one.endpoint_identity, 100)) } }
        dl.facts {
            dt { "Alive" } dd { (alive(&one.liveness)) " heard of " (visit.now.when(one.last_seen_at)) }
            dt { "Health" } dd { (badge(&one.state)) @if let Some(error) = &one.error_message { " " (line(error, 400)) } }
            dt { "Has read up to" } dd { (checkpoint(visit, one.more.get("checkpoint"))) }
            dt { "Messages" } dd { (counted(&one.more, "messages_ingested")) " taken in, " (counted(&one.more, "messages_failed")) " failed" }
            @if let Some(all) = one.more.get("refused_in_all").and_then(Value::as_i64).filter(|all| *all > 0) {
                dt { "Never taken in" } dd { (count(all)) (refusals(one.more.get("refused"))) }
            }
            @if let Some(version) = &one.version { dt { "Version" } dd { (line(version, 60)) } }
        }
        @if one.liveness != "disconnected" {
            (visit.button("/connectors/disconnect", "Disconnect", "danger",
                &[("connector_type", &one.connector_type), ("endpoint_identity", &one.endpoint_identity)]))
        }
    } } } }
}

fn counted(more: &Map<String, Value>, name: &str) -> String {
    let counted = more.get("counters").and_then(|counters| counters[name].as_i64());
    counted.map_or_else(|| "unknown".to_owned(), count)
}

/// How far it has read, and when that was noted: what came since then is what it lags behind.
fn checkpoint(visit: &Visit, checkpoint: Option<&Value>) -> Markup {
    let Some(checkpoint) = checkpoint.filter(|checkpoint| !checkpoint.is_null()) else {
        return html! { span.dim { "unknown" } };
    };
    let noted: Option<Timestamp> = checkpoint["updated_at"].as_str().and_then(|at| at.parse().ok());
    let cursor = checkpoint.get("cursor").unwrap_or(checkpoint);
    html! {
        @if let Some(at) = noted { (visit.now.when(at)) ", " (visit.now.ago(at)) } @else { span.dim { "at an unknown time" } }
        details { summary { "Its own mark" } pre tabindex="0" { (base::text::truncate(&pretty(cursor), 2000)) } }
    }
}

/// The newest messages that it did not take in.
fn refusals(refused: Option<&Value>) -> Markup {
    let of = |message: &Value, name: &str, most| line(message[name].as_str().unwrap_or_default(), most);
    html! { details { summary { "The newest" } ul {
        @for message in refused.and_then(Value::as_array).into_iter().flatten() {
            li { (of(message, "id", 100)) ": " (of(message, "why", 300)) }
        }
    } } }
}

fn backfills(visit: &Visit, jobs: &[Backfill]) -> Markup {
    if jobs.is_empty() {
        return empty("No old messages are being brought in.");
    }
    html! { div.wide tabindex="0" { table {
        thead { tr { th { "Connector" } th { "Days" } th { "State" } th.num { "Done" } th.num { "Skipped" } th { "Changed" }
            @if visit.may_act() { th { "Do" } } } }
        tbody { @for job in jobs { tr {
            td { (line(&job.connector_type, 40)) div.dim { (line(&job.endpoint_identity, 60)) } }
            td { (line(&job.date_from, 12)) " – " (line(&job.date_to, 12)) }
            td { (badge(&job.status)) @if let Some(error) = &job.error { div.dim { (line(error, 200)) } } }
            td.num { (count(job.rows_processed)) }
            td.num { (count(job.rows_skipped)) }
            td { (visit.now.when(job.updated_at)) }
            @if visit.may_act() { td { (work(visit, job)) } }
        } } }
    } } }
}

fn work(visit: &Visit, job: &Backfill) -> Markup {
    let at = format!("/connectors/backfills/{}", job.job_id);
    html! { @match job.status.as_str() {
        "pending" | "active" | "cost_capped" => {
            (visit.button(&at, "Pause", "", &[("do", "pause")]))
            (visit.button(&at, "End", "danger", &[("do", "cancel")]))
        }
        "paused" => {
            (visit.button(&at, "Resume", "", &[("do", "resume")]))
            (visit.button(&at, "End", "danger", &[("do", "cancel")]))
        }
        _ => span.dim { "–" },
    } }
}

async fn disconnect(visit: &Visit) -> Answer {
    let field = |name: &str| {
        visit.form.get(name).ok_or_else(|| PageError::invalid("The form does not say which connector is meant."))
    };
    let args = json!({"connector_type": field("connector_type")?, "endpoint_identity": field("endpoint_identity")?});
    act(visit, SWITCHBOARD, "connector_disconnect", args).await?;
    Ok(Reply::Go { to: "/connectors".to_owned(), did: Did::Changed })
}

async fn change(visit: &Visit) -> Answer {
    let job: Uuid = visit.parsed(0)?;
    let (tool, did) = match visit.form.get("do") {
        Some("pause") => ("backfill_pause", Did::Paused),
        Some("resume") => ("backfill_resume", Did::Resumed),
        Some("cancel") => ("backfill_cancel", Did::Cancelled),
        _ => return Err(PageError::invalid("The form does not say what to do with the job.")),
    };
    act(visit, SWITCHBOARD, tool, json!({"job_id": job})).await?;
    Ok(Reply::Go { to: "/connectors".to_owned(), did })
}
