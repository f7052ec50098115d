//! `memory_export` and `memory_import`: all that is remembered, as lines.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::super::tools::{With, in_tx};
use super::{PAGE, owners};
use memory::sql::upkeep;
use memory::write::{Vector, WriteError};
use memory_index::rank::fact_text;
use memory_index::rank::spoken;
use tools::{EffectTx, ToolCall, ToolError};

/// What the first line says that it is.
const HEAD: &str = "butlerd memory";
const VERSION: u64 = 1;

pub(super) async fn memory_export(call: ToolCall, with: With) -> Result<Value, ToolError> {
    let limit = call.args.get("limit").and_then(Value::as_i64).unwrap_or(PAGE);
    let (after, most) = (call.text("after"), i32::try_from(limit).unwrap_or(i32::MAX));
    let mut lease = call.lease().await?;
    let rows = upkeep::export(&mut lease, after, most).await.map_err(owners)?;
    let mut lines = Vec::new();
    if after.is_none() {
        lines.push(json!({"type": HEAD, "row": {"version": VERSION, "butler": with.memory.butler.as_str()}}));
    }
    lines.extend(rows.iter().map(|r| json!({"type": r.kind, "row": r.row})));
    let whole = i64::try_from(rows.len()).is_ok_and(|n| n < limit);
    let next = rows.last().filter(|_| !whole).map(|r| &r.place);
    Ok(json!({"lines": lines, "next": next}))
}

/// A line that can't be brought in, by its place among those given.
fn bad(at: usize, why: &str) -> WriteError {
    WriteError::Refused { code: "bad_line", message: format!("line {}: {why}", at + 1) }
}

pub(super) async fn memory_import(call: ToolCall, with: With) -> Result<Value, ToolError> {
    let given = call.args.get("lines").and_then(Value::as_array);
    let given: Vec<&str> = given.into_iter().flatten().filter_map(Value::as_str).collect();
    let mut rows = Vec::with_capacity(given.len());
    for (at, line) in given.iter().enumerate() {
        if let Some(row) = read(line).map_err(|why| ToolError::from(bad(at, &why)))? {
            rows.push((at, row));
        }
    }
    embed(&with, &mut rows).await;
    let done = in_tx!(&call, &with, |tx| bring_in(&mut tx, &rows));
    Ok(json!({"lines": given.len(), "outcomes": done}))
}

struct Line {
    kind: String,
    row: Map<String, Value>,
}

/// A line's row; none where it has none (the head, an empty line).
fn read(line: &str) -> Result<Option<Line>, String> {
    if line.trim().is_empty() {
        return Ok(None);
    }
    let wrong = "it is not a line of an export: {\"type\": …, \"row\": {…}}";
    let Ok(Value::Object(mut line)) = serde_json::from_str(line) else { return Err(wrong.to_owned()) };
    let (Some(Value::String(kind)), Some(Value::Object(mut row))) = (line.remove("type"), line.remove("row")) else {
        return Err(wrong.to_owned());
    };
    if kind == HEAD {
        return match row.get("version").and_then(Value::as_u64) {
            Some(VERSION) => Ok(None),
            other => Err(format!("it is of version {other:?} of exports; this butlerd reads version {VERSION}")),
        };
    }
    row.values_mut().for_each(base::text::strip_nul);
    // Vectors are made here.
    row.remove("embedding");
    row.remove("embedding_model");
    Ok(Some(Line { kind, row }))
}

/// Gives memories their vectors. Without, they are found by their words until there are some.
async fn embed(with: &With, lines: &mut [(usize, Line)]) {
    let text =
        |row: &Map<String, Value>, name: &str| row.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (mut at, mut texts) = (Vec::new(), Vec::new());
    for (place, (_, line)) in lines.iter().enumerate() {
        let content = text(&line.row, "content");
        let said = match line.kind.as_str() {
            _ if content.is_empty() => continue,
            "fact" => spoken(Some(&text(&line.row, "subject")), &fact_text(&text(&line.row, "predicate"), &content)),
            "rule" => spoken(None, &content),
            "episode" => spoken(line.row.get("speaker").and_then(Value::as_str), &content),
            _ => continue,
        };
        at.push(place);
        texts.push(said);
    }
    if texts.is_empty() {
        return;
    }
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let embedder = &with.memory.embedder;
    match embedder.embed(&texts).await {
        Ok(vectors) => {
            for (place, numbers) in at.into_iter().zip(vectors) {
                let vector = Vector { model: embedder.model().to_owned(), numbers };
                let mut columns = json!({});
                Vector::put(Some(&vector), &mut columns);
                lines[place].1.row.extend(columns.as_object().cloned().unwrap_or_default());
            }
        }
        Err(e) => tracing::warn!(butler = %with.memory.butler, error = %e, "memories are stored without vectors"),
    }
}

/// How many of each kind were added, were there, were forgotten here, or have another value here.
type Outcomes = BTreeMap<String, BTreeMap<String, u64>>;

async fn bring_in(tx: &mut EffectTx<'_, '_>, lines: &[(usize, Line)]) -> Result<Outcomes, WriteError> {
    let mut outcomes = Outcomes::new();
    for (at, Line { kind, row }) in lines {
        let done = upkeep::import(tx, kind, &Value::Object(row.clone())).await;
        let outcome = done.map_err(|e| match e.db() {
            // Its content is at fault; what is said of it is the database's own words, without values.
            Some(db) if ["22", "23", "42"].iter().any(|class| db.code().code().starts_with(class)) => {
                bad(*at, db.message())
            }
            _ => owners(e),
        })?;
        *outcomes.entry(kind.clone()).or_default().entry(outcome).or_default() += 1;
    }
    Ok(outcomes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_an_object_with_a_type_and_a_row() {
        assert!(read("").unwrap().is_none());
        assert!(read(r#"{"type": "butlerd memory", "row": {"version": 1}}"#).unwrap().is_none());
        assert!(read(r#"{"type": "butlerd memory", "row": {"version": 2}}"#).is_err());
        let line = read(r#"{"type": "fact", "row": {"id": "x", "embedding": "y"}}"#).unwrap().unwrap();
        assert_eq!((line.kind.as_str(), line.row.len()), ("fact", 1));
        for wrong in ["x", "[]", r#"{"type": "fact"}"#, r#"{"row": {}}"#] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
