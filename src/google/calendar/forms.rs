//! For tests: an event's forms, without a server between them.

use serde_json::Value;

use super::fields::{Fields, Item};
use super::parts::Parts;
use super::unfit::Unfit;
use super::{text, times};

/// What Google has, as the household has it.
pub fn shown(main: &Value, instances: &[Value]) -> Result<String, Unfit> {
    let bytes = text::written(&Parts::new(main.clone(), instances.to_vec()))?;
    Ok(String::from_utf8(bytes).unwrap())
}

/// What is written to Google, which has this event, when the household has that text.
pub fn changed(event: &Value, wanted: &str) -> Result<Value, Unfit> {
    let wanted = Item::read(wanted.as_bytes())?;
    let start = times::read(&event["start"]).unwrap();
    let had = Fields::alone(&text::event(event, "it", &start, None)?)?;
    Ok(Value::Object(wanted.main.patch(&had, event, None)))
}
