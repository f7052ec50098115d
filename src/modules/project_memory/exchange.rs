//! Taking all memories of a project out, and bringing an export in.

use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;
use memory::sql::Rows;
use memory::sql::experiences::{self, Which};
use memory::write::{Brought, NewFact, Outcome, WriteError, forget_facts, store_fact};
use project::record::{ExperienceType, Export, FORMAT, Record, VERSION};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::arguments::{tags_of, wrong};
use super::records;
use super::remember::{new_fact, plain};
use super::request::ProjectRequest;
use super::sql;

/// The metadata's key for the id that a memory had elsewhere.
const ORIGINAL: &str = "original_id";

pub(super) async fn export(request: &ProjectRequest<'_>, rows: &mut dyn Rows) -> Result<Value, WriteError> {
    let scope = &request.project.scope;
    let mut facts = experiences::list(rows, scope, &Which::default()).await?;
    facts.reverse();
    let mut gone = experiences::gone(rows, scope).await?;
    gone.extend(sql::tombstones(rows, request.project.id).await?);
    let merged = experiences::merged(rows, scope).await?;
    let export = Export {
        version: VERSION,
        format: FORMAT.to_owned(),
        project: request.project.name.clone(),
        exported_at: request.house.clock.now().to_string(),
        count: facts.len(),
        records: facts.iter().map(records::record).collect(),
        deleted: gone.iter().map(Uuid::to_string).collect(),
        merged: merged.iter().map(Uuid::to_string).collect(),
    };
    serde_json::to_value(export).map_err(|e| wrong(format!("The memories can't be written as JSON: {e}.")))
}

/// How the exchange stands, machine by machine.
pub(super) async fn exchanges(request: &ProjectRequest<'_>, rows: &mut dyn Rows) -> Result<Value, WriteError> {
    let all = sql::exchanges(rows, request.project.id).await?;
    serde_json::to_value(all).map_err(|e| wrong(format!("The exchanges can't be written as JSON: {e}.")))
}

/// How an exchange over the project's repository ended, as whoever made it says.
pub(super) async fn exchanged(request: &ProjectRequest<'_>, rows: &mut dyn Rows) -> Result<Value, WriteError> {
    let args = &request.args.0;
    let identity = args["identity"].as_str().filter(|identity| (1..=200).contains(&identity.chars().count()));
    let identity = identity.ok_or_else(|| wrong("`identity` is to be `<user>/<machine>`.".to_owned()))?;
    let moment = |name: &str| match &args[name] {
        Value::Null => Ok(None),
        value => {
            let at = value.as_str().and_then(|at| at.parse::<Timestamp>().ok());
            at.map(Some).ok_or_else(|| wrong(format!("`{name}` is no moment: {value}.")))
        }
    };
    let times = (moment("pushed_at")?, moment("pulled_at")?);
    sql::note_exchange(rows, request.project.id, identity, times, args["error"].as_str()).await?;
    Ok(json!({"noted": true}))
}

pub(super) async fn import(request: &ProjectRequest<'_>, rows: &mut dyn Rows) -> Result<Value, WriteError> {
    let text = match &request.args.0["export"] {
        Value::String(text) => text.clone(),
        object => object.to_string(),
    };
    let export = Export::read(&text).map_err(|e| wrong(format!("This is no export: {e}.")))?;
    let scope = &request.project.scope;
    let mut gone: HashSet<Uuid> = export.deleted.iter().map(|id| id_of(id)).collect();
    let told_of: Vec<Uuid> = gone.iter().copied().collect();
    gone.extend(sql::tombstones(rows, request.project.id).await?);
    let asked: Vec<Uuid> = export.records.iter().map(|record| id_of(&record.id)).collect();
    let taken: HashSet<Uuid> = experiences::taken(rows, scope, &asked).await?.into_iter().collect();
    let here = |record: &Record| match id_of(&record.id) {
        id if taken.contains(&id) => id_of(&format!("{id} in {scope}")),
        id => id,
    };
    let asked: Vec<Uuid> = export.records.iter().map(here).collect();
    // Only an id says that something is known: what a file says besides of where a record came from may be anything.
    let mut known: HashSet<Uuid> = experiences::known(rows, scope, &asked).await?.into_iter().collect();
    let is_known =
        |record: &Record, known: &HashSet<Uuid>| gone.contains(&id_of(&record.id)) || known.contains(&here(record));
    if request.args.flag("dry_run") {
        let skipped = export.records.iter().filter(|record| is_known(record, &known)).count();
        let would_delete = experiences::of(rows, scope, &told_of).await?.len();
        return Ok(json!({"would_import": export.records.len() - skipped, "would_skip": skipped,
            "would_delete": would_delete, "dry_run": true}));
    }
    let (mut imported, mut skipped, mut errors) = (0, 0, Vec::new());
    for record in &export.records {
        if is_known(record, &known) {
            skipped += 1;
            continue;
        }
        match take_in(request, rows, record, here(record)).await {
            Ok(Outcome::Stored) => imported += 1,
            // The same words are here under another id.
            Ok(_) | Err(WriteError::Refused { code: "forgotten", .. }) => skipped += 1,
            Err(WriteError::Refused { message, .. }) => errors.push(json!({"id": record.id, "error": message})),
            Err(e) => return Err(e),
        }
        known.insert(here(record));
    }
    let met: HashSet<Uuid> = experiences::known(rows, scope, &told_of).await?.into_iter().collect();
    let unmet: Vec<Uuid> = told_of.iter().copied().filter(|id| !met.contains(id)).collect();
    sql::add_tombstones(rows, request.project.id, &unmet).await?;
    let here = experiences::of(rows, scope, &told_of).await?;
    let ids: Vec<Uuid> = here.iter().map(|fact| fact.id).collect();
    let forgotten = forget_facts(rows, &request.origin, "forgotten", &ids, json!({"scope": scope})).await?;
    Ok(json!({"imported": imported, "skipped": skipped, "errors": errors.len(), "refused": errors,
        "deleted": forgotten.map_or(0, |(_, count)| count)}))
}

/// Takes in a record under this id: its own, unless another project of this household has that.
async fn take_in(
    request: &ProjectRequest<'_>,
    rows: &mut dyn Rows,
    record: &Record,
    id: Uuid,
) -> Result<Outcome, WriteError> {
    // Types that only other programs have are context.
    let kind = ExperienceType::read(&record.experience_type).map_or(ExperienceType::Context, |(kind, _)| kind);
    let created_at: Timestamp = record.created_at.parse().unwrap_or_else(|_| request.house.clock.now());
    let mut given: BTreeMap<String, String> =
        record.metadata.iter().map(|(name, value)| (name.clone(), plain(value))).collect();
    if id != id_of(&record.id) {
        given.entry(ORIGINAL.to_owned()).or_insert_with(|| record.id.clone());
    }
    let fact = NewFact {
        importance: (record.importance * 10.0).clamp(0.0, 10.0),
        tags: tags_of(&json!(record.tags))?,
        metadata: records::metadata(given, record.is_failure, record.is_anomaly),
        brought: Some(Brought {
            id,
            created_at: created_at.min(request.house.clock.now()),
            reference_count: i32::try_from(record.access_count.max(0)).unwrap_or(i32::MAX),
        }),
        ..new_fact(request, kind, &record.content).await
    };
    Ok(store_fact(rows, &request.origin, &fact).await?.status)
}

/// An id as it is kept: an id that is none of ours becomes one, always the same.
fn id_of(given: &str) -> Uuid {
    given.trim().parse().unwrap_or_else(|_| {
        let digest = Sha256::digest(given.as_bytes());
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        uuid::Builder::from_custom_bytes(bytes).into_uuid()
    })
}
