//! Entities: the people, organizations and places that facts speak of. All butlers of the house know the same.

use serde_json::{Value, json};
use uuid::Uuid;

use super::{With, define, id, id_of, in_tx, list, origin, strings, text};
use crate::ModuleError;
use memory::sql::entities;
use memory::write::{WriteError, merge_entities};
use tools::{Effect, EffectTx, Meta, Tool, ToolCall, ToolError, handler};

pub(super) const NAMES: &[&str] = &[
    "memory_entity_create",
    "memory_entity_get",
    "memory_entity_update",
    "memory_entity_merge",
    "entity_create",
    "entity_get",
    "entity_update",
    "entity_merge",
];

pub(super) const TYPES: [&str; 4] = ["person", "organization", "place", "other"];

pub(super) fn tools(with: &With) -> Result<Vec<Tool>, ModuleError> {
    let aliases = || strings(20, "Other names");
    let metadata = || json!({"type": "object", "description": "What else is to be noted; `roles` is a list of what people call it by, such as [\"owner\"]"});
    let mut all = Vec::new();
    // The older names stand beside.
    for prefix in ["memory_", ""] {
        let name = |rest: &str| format!("{prefix}{rest}");
        all.push(tool!(
            with,
            Meta::write(Effect::Idempotent),
            create as &name("entity_create"),
            "Note a person, an organization or a place. Look with memory_entity_resolve first whether it is there.",
            json!({"canonical_name": text(200, "Its name"),
                   "entity_type": {"type": "string", "enum": TYPES, "description": "What it is"},
                   "aliases": aliases(), "metadata": metadata()}),
            &["canonical_name", "entity_type"]
        ));
        all.push(tool!(
            with,
            Meta::read(),
            get as &name("entity_get"),
            "One entity; of one that was merged, the one that it was merged into. Null where there is none.",
            json!({"entity_id": id_of("entity")}),
            &["entity_id"]
        ));
        all.push(tool!(
            with,
            Meta::write(Effect::Idempotent),
            update as &name("entity_update"),
            "Change the name, the other names, or what is noted of an entity. What is not given stays.",
            json!({"entity_id": id_of("entity"), "canonical_name": text(200, "Its name"), "aliases": aliases(),
                   "metadata": metadata()}),
            &["entity_id"]
        ));
        all.push(tool!(
            with,
            Meta::write(Effect::Idempotent),
            merge as &name("entity_merge"),
            "Make two entities one: facts of the source become facts of the target. memory_undo takes it back.",
            json!({"source_entity_id": id_of("entity goes up in the other"),
                   "target_entity_id": id_of("entity stays")}),
            &["source_entity_id", "target_entity_id"]
        ));
    }
    Ok(all)
}

/// As rows have it.
pub(super) fn kind_of(given: &str) -> &str {
    if given == "organization" { "organisation" } else { given }
}

/// As tools have it.
pub(super) fn type_of(kind: &str) -> &str {
    if kind == "organisation" { "organization" } else { kind }
}

async fn create(call: ToolCall, with: With) -> Result<Value, ToolError> {
    let name = call.text("canonical_name").unwrap_or_default().trim().to_owned();
    let kind = kind_of(call.text("entity_type").unwrap_or("other"));
    let more = call.args.get("metadata").cloned().unwrap_or_else(|| json!({}));
    let aliases = list(&call, "aliases");
    let id = in_tx!(&call, &with, |tx| made(&mut tx, kind, &name, &aliases, &more));
    Ok(json!({"entity_id": id}))
}

async fn made(
    tx: &mut EffectTx<'_, '_>,
    kind: &str,
    name: &str,
    aliases: &[String],
    more: &Value,
) -> Result<Uuid, WriteError> {
    entities::create(tx, kind, name, aliases, more).await?.ok_or_else(|| {
        let why = format!("There is a {} named {name} already; find it with memory_entity_resolve.", type_of(kind));
        WriteError::Refused { code: "already_there", message: why }
    })
}

async fn get(call: ToolCall, _: With) -> Result<Value, ToolError> {
    let asked = id(&call, "entity_id")?;
    shown(&call, asked).await
}

/// An entity, or the one that it was merged into.
async fn shown(call: &ToolCall, asked: Uuid) -> Result<Value, ToolError> {
    let from = &mut &*call;
    let Some(now) = entities::standing_now(from, asked).await? else { return Ok(Value::Null) };
    let Some(entity) = entities::by_id(from, &[now]).await?.pop() else { return Ok(Value::Null) };
    let facts = entities::count_facts(from, &[now], "").await?;
    Ok(json!({
        "entity_id": now,
        "merged_from": (now != asked).then_some(asked),
        "entity_type": type_of(&entity.kind),
        "canonical_name": entity.name,
        "aliases": entity.aliases,
        "metadata": entity.details,
        "created_at": entity.created_at,
        "updated_at": entity.updated_at,
        "trust": entity.trust,
        "fact_count": facts.first().map_or(0, |count| count.facts),
    }))
}

async fn update(call: ToolCall, with: With) -> Result<Value, ToolError> {
    let asked = id(&call, "entity_id")?;
    let aliases = call.args.contains_key("aliases").then(|| list(&call, "aliases"));
    let (name, more) = (call.text("canonical_name").map(str::trim), call.args.get("metadata"));
    let now = in_tx!(&call, &with, |tx| changed(&mut tx, asked, name, aliases, more));
    shown(&call, now).await
}

async fn changed(
    tx: &mut EffectTx<'_, '_>,
    asked: Uuid,
    name: Option<&str>,
    aliases: Option<Vec<String>>,
    more: Option<&Value>,
) -> Result<Uuid, WriteError> {
    let none = || WriteError::Refused { code: "not_found", message: format!("There is no entity {asked}.") };
    let now = entities::standing_now(tx, asked).await?.ok_or_else(none)?;
    let done = entities::update(tx, now, name, aliases.as_deref(), more).await?;
    if done { Ok(now) } else { Err(none()) }
}

async fn merge(call: ToolCall, with: With) -> Result<Value, ToolError> {
    let (source, target) = (id(&call, "source_entity_id")?, id(&call, "target_entity_id")?);
    let origin = origin(&call, &with.memory).await?;
    Ok(in_tx!(&call, &with, |tx| merge_entities(&mut tx, &origin, source, target)))
}
