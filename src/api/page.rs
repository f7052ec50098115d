//! The API for people: its table as a page, which needs no script and no style.

use std::sync::LazyLock;

use bytes::Bytes;
use maud::{DOCTYPE, Markup, html};
use serde_json::Value;

use super::document::takes;
use super::endpoint::Endpoint;
use super::input::Input;
use super::table::ALL;

/// The page.
pub(crate) static PAGE: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(page().into_string()));

fn page() -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "butlerd: API" }
            }
            body { main {
                h1 { "butlerd: the API, version 1" }
                p { "Each request needs a token, as " code { "Authorization: Bearer TOKEN" } ". Make one with: "
                    code { "butlerd token new --scope read" } }
                p { "A list answers " code { "{\"data\": […], \"next\": …}" } "; what " code { "next" } " has is " code { "cursor" }
                    " of the following page. What went wrong is a problem as RFC 9457 has it, with its name in " code { "code" } "." }
                p { a href="/api/v1/openapi.json" { "The same as an OpenAPI 3.1 document" } }
                nav aria-label="Groups" { ul { @for (n, (group, _)) in ALL.iter().enumerate() {
                    li { a href={ "#group-" (n) } { (group.name) } ": " (group.about) }
                } } }
                @for (n, (group, endpoints)) in ALL.iter().enumerate() {
                    h2 id={ "group-" (n) } { (group.name) }
                    @for endpoint in endpoints { (shown(endpoint)) }
                }
            } }
        }
    }
}

fn shown(endpoint: &Endpoint) -> Markup {
    html! {
        section id=(endpoint.id) aria-labelledby={ "name-" (endpoint.id) } {
            h3 id={ "name-" (endpoint.id) } { code { (endpoint.method) " /api/v1" (endpoint.path) } }
            p { (endpoint.summary) ". Scope " code { (endpoint.scope()) } "." }
            @if takes(&endpoint.params) { p { "Parameters:" } (inputs(&endpoint.params)) }
            @if let Some(body) = endpoint.body.as_ref().filter(|body| takes(body)) { p { "Body, as JSON:" } (inputs(body)) }
            p { "Answers " @for (n, status) in endpoint.statuses().iter().enumerate() {
                @if n > 0 { ", " } code { (status.as_str()) } } "." }
        }
    }
}

fn inputs(input: &Input) -> Markup {
    html! { ul { @for (name, schema) in input.properties() { li {
        code { (name) }
        @if !input.requires(name) { ", optional" }
        @if let Some(about) = schema["description"].as_str() { ": " (about) }
        @if let Some(values) = values(schema) { " One of " (values) "." }
    } } } }
}

/// The words that it may be, where those are few.
fn values(schema: &Value) -> Option<String> {
    let one = |schema: &Value| match (schema["enum"].as_array(), schema["const"].as_str()) {
        (Some(all), _) => all.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        (None, Some(word)) => vec![word.to_owned()],
        (None, None) => Vec::new(),
    };
    let mut words: Vec<String> = one(schema);
    let below = |schema: &Value, key: &str| schema[key].as_array().cloned().unwrap_or_default();
    for part in below(schema, "anyOf").iter().chain(&below(schema, "oneOf")) {
        words.extend(one(part));
        words.extend(below(part, "oneOf").iter().flat_map(one));
    }
    (!words.is_empty()).then(|| words.join(", "))
}
