//! Rules: what becomes of a message before any model is asked.

use maud::{Markup, html};
use serde_json::json;
use uuid::Uuid;

use super::answers::{act, look, or_not_now};
use super::conversations::to_choose;
use crate::parts::{Tone, empty, line, toned};
use crate::reply::{Answer, Did, PageError, Reply, View};
use crate::route::{Route, get, post};
use crate::visit::Visit;
use inbox::triage::{Kind, Rule};
use inbox::{Action, SWITCHBOARD};

pub(crate) const ROUTES: &[Route] = &[
    get("/rules", |visit| Box::pin(list(visit))),
    post("/rules", |visit| Box::pin(make(visit))),
    post("/rules/*/switch", |visit| Box::pin(switch(visit))),
    post("/rules/*/end", |visit| Box::pin(end(visit))),
];

async fn list(visit: &Visit) -> Answer {
    let found = look::<Vec<Rule>>(visit, SWITCHBOARD, "triage_rule_list", json!({})).await;
    let butlers = to_choose(visit).await;
    let body = html! {
        p { "The first rule that fits a message decides. What none fits, the switchboard reads." }
        (or_not_now(&found, |rules| table(visit, rules)))
        @if visit.may_act() && found.is_ok() { (form(visit, &butlers)) }
        p { "What lets butlers' calls through without asking stands under " a href="/approvals" { "Approvals" } "." }
    };
    Ok(View::new("Rules", body).into())
}

fn table(visit: &Visit, rules: &[Rule]) -> Markup {
    if rules.is_empty() {
        return empty("There is no rule yet. Make one below, or from a message in the inbox.");
    }
    html! { div.wide tabindex="0" { table {
        thead { tr { th.num { "Place" } th { "If" } th { "Then" } th { "State" } @if visit.may_act() { th { "Change" } } } }
        tbody { @for rule in rules { tr {
            td.num { (rule.position) }
            td.grow { (rule.kind.words()) " " code { (line(&rule.pattern, 200)) }
                @if let Some(note) = &rule.note { div.dim { (line(note, 200)) } } }
            td { (rule.action.words()) @if let Some(butler) = &rule.butler { " " (line(butler, 60)) } }
            td { @if rule.enabled { (toned(Tone::Good, "on")) } @else { (toned(Tone::Quiet, "off")) } }
            @if visit.may_act() { td {
                @let (name, on) = if rule.enabled { ("Switch off", "no") } else { ("Switch on", "yes") };
                (visit.button(&format!("/rules/{}/switch", rule.id), name, "", &[("on", on)]))
                (visit.button(&format!("/rules/{}/end", rule.id), "Remove", "danger", &[]))
            } }
        } } }
    } } }
}

fn form(visit: &Visit, butlers: &[String]) -> Markup {
    html! {
        section.card aria-labelledby="new" {
            h2 #new { "A new rule" }
            form method="post" action="/rules" {
                (visit.proof())
                label { "If" select name="kind" { @for kind in Kind::ALL { option value=(kind.as_str()) { (kind.words()) } } } }
                label { "This" input type="text" name="pattern" required maxlength="1000"; }
                label { "Then" select name="action" { @for action in Action::ALL { option value=(action.as_str()) { (action.words()) } } } }
                label { "Butler, where it goes to one" select name="butler" {
                    option value="" { "none" }
                    @for butler in butlers { option value=(butler) { (butler) } }
                } }
                label { "Place; lower ones are asked first, without one it comes last"
                    input type="number" name="position" min="0" max="1000000"; }
                label { "Why it is there" input type="text" name="note" maxlength="1000"; }
                button.main type="submit" { "Make the rule" }
            }
        }
    }
}

async fn make(visit: &Visit) -> Answer {
    let mut args = json!({});
    for name in ["kind", "pattern", "action", "butler", "note"] {
        // A butler that was left standing beside another action is not meant.
        let meant = name != "butler" || visit.form.get("action") == Some("route_to");
        if let Some(value) = visit.form.get(name).filter(|_| meant) {
            args[name] = value.into();
        }
    }
    if let Some(position) = visit.form.get("position") {
        let position: u32 =
            position.parse().map_err(|_| PageError::invalid("The place must be a whole number from 0."))?;
        args["position"] = position.into();
    }
    act(visit, SWITCHBOARD, "triage_rule_add", args).await?;
    Ok(Reply::Go { to: "/rules".to_owned(), did: Did::RuleAdded })
}

async fn switch(visit: &Visit) -> Answer {
    let id: Uuid = visit.parsed(0)?;
    act(visit, SWITCHBOARD, "triage_rule_update", json!({"id": id, "enabled": visit.form.get("on") == Some("yes")}))
        .await?;
    Ok(Reply::Go { to: "/rules".to_owned(), did: Did::Changed })
}

async fn end(visit: &Visit) -> Answer {
    let id: Uuid = visit.parsed(0)?;
    act(visit, SWITCHBOARD, "triage_rule_remove", json!({"id": id})).await?;
    Ok(Reply::Go { to: "/rules".to_owned(), did: Did::RuleEnded })
}
