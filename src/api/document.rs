//! The OpenAPI document, made of the table.

use std::sync::LazyLock;

use bytes::Bytes;
use http::StatusCode;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::endpoint::Endpoint;
use super::input::Input;
use super::problem::{MEDIA_TYPE, Problem};
use super::table::ALL;

const ABOUT: &str = "What the household's pages show, and what they do, for other programs. Each request needs a token of \
    `butlerd token new` as `Authorization: Bearer TOKEN`. Lists are pages: `next` of one is `cursor` of the following; null is \
    the end. What went wrong is a problem as RFC 9457 has it, with a stable name in `code`. What is read has a strong ETag; \
    whoever sends it as If-None-Match gets 304 while nothing changed. HEAD answers wherever GET does.";

/// The document as JSON.
pub(crate) static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(document().to_string()));

fn document() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize().with(|s| {
        s.meta_schema = None;
        "/components/schemas".clone_into(s.definitions_path.to_mut());
    });
    let mut schemas = SchemaGenerator::new(settings);
    let problem = schemas.subschema_for::<Problem>();
    let mut paths = Map::new();
    for (group, endpoints) in ALL.iter() {
        for endpoint in endpoints {
            let path = paths.entry(endpoint.path).or_insert_with(|| json!({}));
            let method = endpoint.method.as_str().to_ascii_lowercase();
            path[method] = operation(endpoint, group.name, &mut schemas, problem.as_value());
        }
    }
    let tags: Vec<Value> =
        ALL.iter().map(|(group, _)| json!({"name": group.name, "description": group.about})).collect();
    json!({
        "openapi": "3.1.0",
        "info": {"title": "butlerd", "version": env!("CARGO_PKG_VERSION"), "description": ABOUT},
        "servers": [{"url": "/api/v1"}],
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": schemas.take_definitions(true),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    })
}

fn operation(endpoint: &Endpoint, tag: &str, schemas: &mut SchemaGenerator, problem: &Value) -> Value {
    let answer = (endpoint.answer)(schemas).to_value();
    let mut responses = Map::new();
    for status in endpoint.statuses() {
        responses.insert(status.as_u16().to_string(), response(endpoint, status, &answer, problem));
    }
    let mut shown = json!({
        "operationId": endpoint.id,
        "summary": endpoint.summary,
        "tags": [tag],
        "security": [{"token": [endpoint.scope()]}],
        "responses": responses,
    });
    let parameters = parameters(endpoint);
    if !parameters.is_empty() {
        shown["parameters"] = parameters.into();
    }
    if let Some(body) = endpoint.body.as_ref().filter(|body| body.properties().next().is_some()) {
        let content = json!({"application/json": {"schema": body.schema}});
        shown["requestBody"] = json!({"required": !body.optional(), "content": content});
    }
    shown
}

fn response(endpoint: &Endpoint, status: StatusCode, answer: &Value, problem: &Value) -> Value {
    let tag = json!({"description": "The hash of the answer.", "required": true, "schema": {"type": "string"}});
    let mut shown = json!({"description": status.canonical_reason().unwrap_or("Unknown")});
    let text = json!({"type": "string"});
    match status {
        StatusCode::NOT_MODIFIED => shown["headers"] = json!({"ETag": tag}),
        status if status == endpoint.success => {
            shown["content"] = json!({"application/json": {"schema": answer}});
            if endpoint.looks() {
                shown["headers"] = json!({"ETag": tag});
            }
        }
        status => {
            shown["content"] = json!({MEDIA_TYPE: {"schema": problem}});
            let header = match status {
                StatusCode::METHOD_NOT_ALLOWED => json!({"Allow": {"required": true, "schema": text}}),
                StatusCode::UNAUTHORIZED => json!({"WWW-Authenticate": {"required": true, "schema": text}}),
                StatusCode::SERVICE_UNAVAILABLE => {
                    json!({"Retry-After": {"required": true, "schema": {"type": "integer"}}})
                }
                _ => Value::Null,
            };
            if header.is_object() {
                shown["headers"] = header;
            }
        }
    }
    shown
}

fn parameters(endpoint: &Endpoint) -> Vec<Value> {
    let in_path: Vec<&str> = endpoint.in_path().collect();
    let shown = |(name, schema): (&String, &Value)| {
        let mut schema = without_null(schema);
        let about = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        let place = if in_path.contains(&name.as_str()) { "path" } else { "query" };
        let required = place == "path" || endpoint.params.requires(name);
        let mut one = json!({"name": name, "in": place, "required": required, "schema": schema});
        if let Some(about) = about {
            one["description"] = about;
        }
        one
    };
    endpoint.params.properties().map(shown).collect()
}

/// A schema of what stands in an address, where nothing is null: it is left out.
fn without_null(schema: &Value) -> Value {
    let mut schema = schema.clone();
    let Some(parts) = schema.as_object_mut() else { return schema };
    if let Some(kinds) = parts.get("type").and_then(Value::as_array) {
        let kinds: Vec<Value> = kinds.iter().filter(|kind| *kind != "null").cloned().collect();
        parts.insert("type".to_owned(), if let [one] = kinds.as_slice() { one.clone() } else { kinds.into() });
    }
    if let Some(Value::Array(values)) = parts.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(either) = parts.get("anyOf").and_then(Value::as_array) {
        let others: Vec<Value> = either.iter().filter(|one| one["type"] != "null").cloned().collect();
        if let [one] = others.as_slice() {
            let mut one = one.clone();
            if let (Some(about), Some(own)) = (parts.get("description"), one.as_object_mut()) {
                own.insert("description".to_owned(), about.clone());
            }
            return one;
        }
    }
    schema
}

/// Whether an input is any; the page says so in words.
pub(crate) fn takes(input: &Input) -> bool {
    input.properties().next().is_some()
}
