//! Whether a result is what a scenario expects.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Values that were kept on the way, by name.
pub type Kept = BTreeMap<String, Value>;

/// Puts kept values where `$name` stands. The error names what was not kept.
pub fn fill(value: &Value, kept: &Kept) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => match text.strip_prefix('$') {
            Some(name) if is_name(name) => {
                kept.get(name).cloned().ok_or_else(|| format!("nothing was kept as `{name}`"))?
            }
            _ => value.clone(),
        },
        Value::Array(items) => Value::Array(items.iter().map(|v| fill(v, kept)).collect::<Result<_, _>>()?),
        Value::Object(map) => Value::Object(fill_map(map, kept)?),
        _ => value.clone(),
    })
}

/// The same for the members of an object.
pub fn fill_map(map: &Map<String, Value>, kept: &Kept) -> Result<Map<String, Value>, String> {
    map.iter().map(|(k, v)| Ok((k.clone(), fill(v, kept)?))).collect()
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// The part of a value at a dotted path, `0.id`.
pub fn part<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |at, step| match at {
        Value::Array(items) => step.parse::<usize>().ok().and_then(|n| items.get(n)),
        Value::Object(map) => map.get(step),
        _ => None,
    })
}

/// Where `got` is not what is expected, and how; `None`: it is.
pub fn differs(expected: &Value, got: &Value) -> Option<String> {
    differs_at(expected, got, "")
}

fn differs_at(expected: &Value, got: &Value, path: &str) -> Option<String> {
    let here = || if path.is_empty() { "the result".to_owned() } else { path.to_owned() };
    let other = |what: &str| Some(format!("{} is {}, not {what}", here(), short(got)));
    match (expected, got) {
        (Value::String(text), _) if text == "*" => got.is_null().then(|| format!("{} is null", here())),
        (Value::String(text), _) if text == "null" => {
            (!got.is_null() && got != expected).then(|| format!("{} is {}, not null", here(), short(got)))
        }
        (Value::Object(wanted), Value::Object(map)) => wanted.iter().find_map(|(key, value)| {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            match map.get(key) {
                Some(got) => differs_at(value, got, &path),
                None if value == "null" => None,
                None => Some(format!("{path} is missing; there are {}", keys(map))),
            }
        }),
        (Value::Array(wanted), Value::Array(items)) => {
            if wanted.len() != items.len() {
                return Some(format!("{} has {} items, not {}: {}", here(), items.len(), wanted.len(), short(got)));
            }
            wanted.iter().zip(items).enumerate().find_map(|(n, (wanted, got))| {
                let path = if path.is_empty() { n.to_string() } else { format!("{path}.{n}") };
                differs_at(wanted, got, &path)
            })
        }
        (Value::Number(_), Value::Number(_)) | (Value::Number(_), Value::String(_)) => {
            let same = matches!((number(expected), number(got)), (Some(a), Some(b)) if a == b);
            if same { None } else { other(&short(expected)) }
        }
        (a, b) if a == b => None,
        _ => other(&short(expected)),
    }
}

/// A decimal's digits without what says nothing: `19.90` and `19.9` are the same number, whatever a float would make of
/// them.
fn number(value: &Value) -> Option<String> {
    let text = match value {
        Value::Number(n) => n.to_string(),
        Value::String(text) => text.clone(),
        _ => return None,
    };
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.as_str()),
    };
    if digits.contains(['e', 'E']) {
        return text.parse::<f64>().ok().map(|n| n.to_string());
    }
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let plain = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !plain(whole) || !plain(fraction) {
        return None;
    }
    let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
    let sign = if whole.is_empty() && fraction.is_empty() { "" } else { sign };
    Some(format!("{sign}{whole}.{fraction}"))
}

fn keys(map: &Map<String, Value>) -> String {
    map.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
}

fn short(value: &Value) -> String {
    base::text::truncate(&value.to_string(), 400)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_object_has_at_least_what_is_expected() {
        for (expected, got, fits) in [
            (json!({"a": 1}), json!({"a": 1, "b": 2}), true),
            (json!({"a": {"b": [1, "*"]}}), json!({"a": {"b": [1, 5], "c": 0}}), true),
            (json!([1]), json!([1, 2]), false),
            (json!(19.9), json!("19.90"), true),
            (json!(100), json!(100.0), true),
            (json!(100), json!("10.0"), false),
            (json!("null"), json!(null), true),
            (json!({"a": "null"}), json!({}), true),
            (json!("*"), json!(null), false),
            (json!({"a": 1}), json!({}), false),
            (json!([]), json!([]), true),
            (json!(true), json!(false), false),
        ] {
            assert_eq!(differs(&expected, &got).is_none(), fits, "{expected} {got}");
        }
    }

    #[test]
    fn kept_values_stand_for_their_names() {
        let kept: Kept = [("id".to_owned(), json!(7))].into();
        assert_eq!(fill(&json!({"a": ["$id", "$if"]}), &kept).unwrap_err(), "nothing was kept as `if`");
        assert_eq!(fill(&json!({"a": ["$id", "$", "$5"]}), &kept).unwrap(), json!({"a": [7, "$", "$5"]}));
        assert_eq!(part(&json!([{"id": 3}]), "0.id"), Some(&json!(3)));
        assert_eq!(part(&json!([]), "0.id"), None);
    }
}
