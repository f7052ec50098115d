//! One tool of a butler: what it does, a form made of its schema, what a call answered and what is on record of it.

use admin::calls::{LooksApiServer, WorkApiServer};
use admin::{ToolInfo, ToolTried};
use jiff::SignedDuration;
use maud::{Markup, html};
use serde_json::{Map, Value};

use super::arguments::{Kind, Wrong, arguments, is_required, kind_of};
use crate::form::{Form, encoded};
use crate::parts::{Tone, badge, crumbs, empty, json, note, pretty, said, toned};
use crate::reply::{Answer, PageError, View};
use crate::time::length;
use crate::visit::Visit;

pub(super) async fn show(visit: &Visit) -> Answer {
    let tool = find(visit).await?;
    let body = html! { (head(visit, &tool)) (form(visit, &tool, &visit.query, &Wrong::new())) };
    Ok(View::new(tool.name.clone(), body).into())
}

pub(super) async fn call(visit: &Visit) -> Answer {
    let tool = find(visit).await?;
    let args = match arguments(&tool.input_schema, &visit.form) {
        Ok(args) => args,
        Err(wrong) => {
            let body = html! {
                (head(visit, &tool))
                (note(Tone::Bad, &html! { "Nothing was called. See what is wrong below." }))
                (form(visit, &tool, &visit.form, &wrong))
            };
            return Ok(View::new(tool.name.clone(), body).into());
        }
    };
    let butler = visit.part(0).to_owned();
    let tried = Box::pin(visit.calls.tool_try(&visit.ext, butler, tool.name.clone(), Some(args))).await?;
    let body = html! {
        (head(visit, &tool))
        (answer(&tried))
        (record(visit, &tried))
        h2 { "Call it again" }
        (form(visit, &tool, &visit.form, &Wrong::new()))
    };
    Ok(View::new(tool.name.clone(), body).into())
}

async fn find(visit: &Visit) -> Result<ToolInfo, PageError> {
    let tools = visit.calls.tool_list(&visit.ext, visit.part(0).to_owned()).await?;
    tools.into_iter().find(|tool| tool.name == visit.part(1)).ok_or_else(PageError::nothing_here)
}

fn head(visit: &Visit, tool: &ToolInfo) -> Markup {
    let butler = visit.part(0);
    let effect = match tool.effect.as_str() {
        "none" => (Tone::Quiet, "only reads"),
        "idempotent" => (Tone::Warn, "changes something; twice is as once"),
        _ => (Tone::Warn, "does something each time"),
    };
    html! {
        (crumbs(&[("Home", "/"), (butler, &format!("/butlers/{butler}"))]))
        p { (toned(effect.0, effect.1)) }
        (said(&tool.description))
    }
}

/// A form with a field for each argument.
fn form(visit: &Visit, tool: &ToolInfo, typed: &Form, wrong: &Wrong) -> Markup {
    if !visit.may_work() {
        return note(Tone::Quiet, &html! { "You may look here, but not call tools." });
    }
    let none = Map::new();
    let properties = tool.input_schema["properties"].as_object().unwrap_or(&none);
    html! {
        form method="post" action={ "/butlers/" (visit.part(0)) "/tools/" (encoded(&tool.name)) } {
            (visit.proof())
            @if properties.is_empty() { (empty("It takes no arguments.")) }
            @for (n, (name, schema)) in properties.iter().enumerate() {
                (field(n, name, schema, is_required(&tool.input_schema, name), typed, wrong.get(name)))
            }
            button.main type="submit" { "Call it" }
        }
    }
}

fn field(n: usize, name: &str, schema: &Value, required: bool, typed: &Form, wrong: Option<&String>) -> Markup {
    let (kind, sent) = (kind_of(schema), format!("arg.{name}"));
    let value = typed.raw(&sent).map(str::to_owned).unwrap_or_else(|| initial(schema, &kind));
    let (hint, bad) = (format!("hint-{n}"), format!("wrong-{n}"));
    let said_by = match wrong {
        Some(_) => format!("{bad} {hint}"),
        None => hint.clone(),
    };
    let invalid = wrong.map(|_| "true");
    html! {
        div.field {
            label for={ "arg-" (n) } { strong { (name) } @if !required { " (optional)" } }
            @match &kind {
                Kind::Line => input #{ "arg-" (n) } type="text" name=(sent) value=(value) required[required]
                    aria-describedby=(said_by) aria-invalid=[invalid];,
                Kind::Integer => input #{ "arg-" (n) } type="text" inputmode="numeric" name=(sent) value=(value)
                    required[required] aria-describedby=(said_by) aria-invalid=[invalid];,
                Kind::Number => input #{ "arg-" (n) } type="text" inputmode="decimal" name=(sent) value=(value)
                    required[required] aria-describedby=(said_by) aria-invalid=[invalid];,
                Kind::Switch => (select(n, &sent, &["true".to_owned(), "false".to_owned()], &value, required, &said_by, invalid)),
                Kind::Choice(all) => (select(n, &sent, all, &value, required, &said_by, invalid)),
                Kind::Text | Kind::Json => textarea #{ "arg-" (n) } name=(sent) rows="4" required[required]
                    aria-describedby=(said_by) aria-invalid=[invalid] { "\n" (value) },
            }
            @if let Some(wrong) = wrong { p.wrong id=(bad) { (wrong) } }
            p.dim id=(hint) { (hint_of(schema, &kind)) }
        }
    }
}

fn select(
    n: usize,
    sent: &str,
    all: &[String],
    value: &str,
    required: bool,
    said_by: &str,
    invalid: Option<&str>,
) -> Markup {
    html! {
        select #{ "arg-" (n) } name=(sent) required[required] aria-describedby=(said_by) aria-invalid=[invalid] {
            option value="" { "–" }
            @for one in all { option value=(one) selected[one == value] { (one) } }
        }
    }
}

/// What stands in a field before anybody wrote into it.
fn initial(schema: &Value, kind: &Kind) -> String {
    match (&schema["default"], kind) {
        (Value::Null, _) => String::new(),
        (Value::String(text), kind) if *kind != Kind::Json => text.clone(),
        (value, Kind::Json) => pretty(value),
        (value, _) => value.to_string(),
    }
}

/// What an argument is for, and what it may be.
fn hint_of(schema: &Value, kind: &Kind) -> String {
    let mut parts: Vec<String> = schema["description"].as_str().map(str::to_owned).into_iter().collect();
    match kind {
        Kind::Integer => parts.push("a whole number".to_owned()),
        Kind::Number => parts.push("a number".to_owned()),
        Kind::Json => parts.push("written as JSON".to_owned()),
        _ => {}
    }
    for (key, word) in [
        ("minimum", "at least"),
        ("maximum", "at most"),
        ("minLength", "characters at least"),
        ("maxLength", "characters at most"),
        ("format", "as"),
        ("pattern", "of the form"),
    ] {
        match &schema[key] {
            Value::Null => {}
            Value::String(text) => parts.push(format!("{word} {text}")),
            value => parts.push(format!("{word} {value}")),
        }
    }
    if *kind == Kind::Json
        && let Some(items) = schema.get("items")
    {
        parts.push(format!("a list, each {items}"));
    }
    parts.join("; ")
}

/// What the call came to.
fn answer(tried: &ToolTried) -> Markup {
    let result = &tried.answer.result;
    let refused = tried.answer.is_error || result["status"] == "error";
    let waits = result["status"] == "pending_approval";
    html! {
        h2 { "Its answer" }
        @if refused {
            (note(Tone::Bad, &html! { strong { "It was not done" } ": " (result["error"].as_str().unwrap_or("the tool failed")) }))
        } @else if waits {
            (note(Tone::Warn, &html! { "The call waits for your approval. " a href="/approvals" { "See what waits" } }))
        }
        @match result {
            Value::Array(all) if all.is_empty() => (empty("An empty list.")),
            Value::Array(all) if all.iter().all(Value::is_object) => ul.cards { @for one in all { li { (json(one)) } } },
            other => (json(other)),
        }
        details { summary { "As JSON" } pre tabindex="0" { (pretty(result)) } }
    }
}

/// The line of the call that is on record.
fn record(visit: &Visit, tried: &ToolTried) -> Markup {
    html! {
        h2 { "On record" }
        @match &tried.call {
            Some(call) => dl.facts {
                dt { "When" } dd { (visit.now.when(call.called_at)) }
                dt { "Outcome" } dd { (badge(&call.outcome)) @if let Some(detail) = &call.detail { " " (detail) } }
                dt { "Took" } dd { (length(SignedDuration::from_micros(call.duration_us))) }
                @if let Some(caller) = &call.caller { dt { "By" } dd { (caller) } }
                @if let Some(request) = call.more.get("request_id").and_then(Value::as_str) { dt { "Request" } dd { code { (request) } } }
            },
            None => (note(Tone::Warn, &html! { "The call was made; its line can't be read just now." })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_schema_of_somebody_is_text() {
        let evil = "\"><script>alert(1)</script>";
        let of = json!({"type": "string", "description": evil, "default": evil, "enum": [evil]});
        let shown = field(0, evil, &of, true, &Form::default(), Some(&evil.to_owned())).0;
        assert!(!shown.contains("<script") && shown.contains("&lt;script"), "{shown}");
    }
}
