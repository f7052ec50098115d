//! OpenTelemetry's protocol in its JSON form: ids in hex, times as decimal texts of nanoseconds.

use serde_json::{Value, json};
use uuid::Uuid;

use super::{Attribute, Record};

/// The body of one request.
pub(super) fn body(instance: Uuid, records: &[Record]) -> Value {
    let version = env!("CARGO_PKG_VERSION");
    let resource = [
        attribute("service.name", &"butlerd".into()),
        attribute("service.version", &version.into()),
        attribute("service.instance.id", &instance.to_string().into()),
    ];
    let spans: Vec<Value> = records.iter().map(span).collect();
    json!({"resourceSpans": [{
        "resource": {"attributes": resource},
        "scopeSpans": [{"scope": {"name": "butlerd", "version": version}, "spans": spans}],
    }]})
}

fn span(record: &Record) -> Value {
    let begin = record.started.as_nanosecond();
    let end = begin + i128::try_from(record.took.as_nanos()).unwrap_or(0);
    let attributes: Vec<Value> = record.attributes.iter().map(|(name, value)| attribute(name, value)).collect();
    let mut span = json!({
        "traceId": record.trace_id,
        "spanId": record.span_id,
        "name": record.name,
        "kind": record.kind as u8,
        "startTimeUnixNano": begin.to_string(),
        "endTimeUnixNano": end.to_string(),
        "attributes": attributes,
    });
    if let Some(parent) = &record.parent_span_id {
        span["parentSpanId"] = json!(parent);
    }
    if let Some(why) = &record.failed {
        span["status"] = json!({"code": 2, "message": why});
    }
    span
}

fn attribute(name: &str, value: &Attribute) -> Value {
    let value = match value {
        Attribute::Text(text) => json!({"stringValue": text}),
        // The protocol's JSON writes whole numbers of 64 bits as texts.
        Attribute::Number(number) => json!({"intValue": number.to_string()}),
        Attribute::Yes(yes) => json!({"boolValue": yes}),
    };
    json!({"key": name, "value": value})
}
