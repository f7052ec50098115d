//! `memory_purge`: forgetting for good.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::super::tools::{With, id, kind, origin, settled, stepped};
use super::owners;
use memory::sql::facts::wordings;
use memory::sql::{Rows, purge_one, take_lock};
use memory::write::{Kind, Origin, WriteError};
use tools::{ToolCall, ToolError};

/// Writers that stand in each other's way: the purge tries so often.
const TRIES: usize = 5;

pub(super) async fn memory_purge(call: ToolCall, with: With) -> Result<Value, ToolError> {
    let (kind, which) = (kind(&call), id(&call, "memory_id")?);
    let origin = origin(&call, &with.memory).await?;
    for attempt in 1.. {
        let mut lease = call.lease().await?;
        let mut tx = call.begin(&mut lease).await?;
        let done = purge(&mut tx, &origin, kind, which).await;
        if let Ok((ids, _)) = &done
            && let Err(e) = ids.iter().try_for_each(|id| with.ledger.add(&call.context().tenant_id, kind, *id))
        {
            let _ = tx.rollback().await;
            return Err(ToolError::Internal(format!("the purge can't be written down in the data directory: {e}")));
        }
        if let Err(WriteError::Store(e)) = &done
            && e.is_deadlock()
            && attempt < TRIES
        {
            let _ = tx.rollback().await;
            continue;
        }
        let (_, told) = settled(tx, done).await?;
        drop(lease);
        stepped(&call, &with.memory).await;
        return Ok(answer(kind, which, &told));
    }
    Err(ToolError::Internal("no try to purge".into()))
}

/// Purges a memory, and of a fact its other wordings before it. Returns the ids of all, and what is told of it.
async fn purge(tx: &mut dyn Rows, origin: &Origin, kind: Kind, which: Uuid) -> Result<(Vec<Uuid>, Value), WriteError> {
    let by = json!({"actor": origin.actor, "session_id": origin.session, "request_id": origin.request});
    take_lock(tx).await?;
    let mut ids = if kind == Kind::Fact { wordings(tx, which, true).await? } else { Vec::new() };
    ids.push(which);
    let mut told = Vec::new();
    for id in &ids {
        let one = purge_one(tx, kind, *id, &by).await.map_err(owners)?;
        told.push(one.ok_or_else(|| WriteError::unknown(kind, which))?);
    }
    Ok((ids.clone(), together(told, &ids)))
}

/// What was told of each, as of one.
fn together(each: Vec<Value>, ids: &[Uuid]) -> Value {
    let mut all = each.last().cloned().unwrap_or_default();
    for name in ["cleaned", "kept"] {
        let mut places = Map::new();
        for (place, n) in each.iter().flat_map(|one| one[name].as_object().into_iter().flatten()) {
            let before = places.get(place).and_then(Value::as_u64).unwrap_or_default();
            places.insert(place.clone(), n.as_u64().map_or_else(|| n.clone(), |n| json!(before + n)));
        }
        all[name] = Value::Object(places);
    }
    for name in ["sources", "derived"] {
        let mut others: Vec<&Value> = Vec::new();
        for other in each.iter().flat_map(|one| one[name].as_array().into_iter().flatten()) {
            if !others.contains(&other) && !ids.iter().any(|id| other["memory_id"] == json!(id)) {
                others.push(other);
            }
        }
        all[name] = json!(others);
    }
    let flag = |name: &str| each.iter().map(|one| one[name] == true).collect::<Vec<bool>>();
    all["looked_for"] = json!(flag("looked_for").iter().all(|is| *is));
    all["whole_values_only"] = json!(flag("whole_values_only").iter().any(|is| *is));
    all
}

fn answer(kind: Kind, which: Uuid, told: &Value) -> Value {
    let mut notes = Vec::new();
    if told["before"] == "purged" {
        notes.push("It was purged before: its own words are not known any more, so nothing was looked for.".to_owned());
    } else if told["looked_for"] == false {
        notes.push(
            "What it said is one short word, a number or a name of the house's own, which stands for itself elsewhere: it was \
             taken out of the memory alone."
                .to_owned(),
        );
    } else if told["whole_values_only"] == true {
        notes.push(
            "Some of what it said is under 12 characters: that was taken out only where it is a whole value, never inside other \
             words."
                .to_owned(),
        );
    }
    let some = |name: &str| told[name].as_object().is_some_and(|o| !o.is_empty());
    if some("kept") {
        notes.push(
            "It stands still where `kept` says: as somebody's name or address, or in a row that can't be changed."
                .into(),
        );
    }
    if told["running"].as_i64() > Some(0) {
        notes.push(
            "Sessions are running now; what they were told before they may still write down. Purge what comes of it."
                .into(),
        );
    }
    for (name, what) in [("sources", "Where it came from"), ("derived", "What was made of it")] {
        if told[name].as_array().is_some_and(|l| !l.is_empty()) {
            notes.push(format!("{what} may still tell of it in other words: see `{name}`."));
        }
    }
    notes.push(
        "Backups and exports that were made before still have it; a backup that is restored into this data directory is purged \
         of it at the next start."
            .into(),
    );
    json!({"purged": true, "memory_type": kind.as_str(), "id": which, "event": told["event"], "cleaned": told["cleaned"],
           "kept": told["kept"], "sources": told["sources"], "derived": told["derived"], "running": told["running"],
           "notes": notes})
}
