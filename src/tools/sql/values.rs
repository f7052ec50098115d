//! Between JSON and PostgreSQL: arguments go in as text of any type, rows come out as JSON.

use bytes::BytesMut;
use jiff::tz::TimeZone;
use serde_json::{Map, Number, Value};
use tokio_postgres::Row;
use tokio_postgres::types::{Format, FromSql, IsNull, Kind, ToSql, Type, to_sql_checked};

type Fault = Box<dyn std::error::Error + Sync + Send>;

/// A parameter in PostgreSQL's text form, which the server reads as the type that it inferred.
#[derive(Debug)]
pub struct TextParam(Option<String>);

impl TextParam {
    /// The text of a JSON value for a parameter of type `ty`.
    pub fn new(value: Option<&Value>, ty: &Type) -> Self {
        Self(value.and_then(|v| text_of(v, ty)))
    }
}

fn text_of(value: &Value, ty: &Type) -> Option<String> {
    if *ty == Type::JSON || *ty == Type::JSONB {
        return Some(value.to_string().replace("\\u0000", ""));
    }
    match value {
        Value::Null => None,
        Value::String(s) => Some(s.replace('\0', "")),
        Value::Bool(b) => Some(b.to_string()),
        Value::Number(n) => Some(n.to_string()),
        Value::Array(items) if matches!(ty.kind(), Kind::Array(_)) => Some(array_literal(items, ty)),
        other => Some(other.to_string()),
    }
}

/// `{"a","b"}`, every element quoted.
fn array_literal(items: &[Value], ty: &Type) -> String {
    let inner = match ty.kind() {
        Kind::Array(inner) => inner.clone(),
        _ => Type::TEXT,
    };
    let quoted = items.iter().map(|item| match text_of(item, &inner) {
        None => "NULL".to_owned(),
        Some(text) => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
    });
    format!("{{{}}}", quoted.collect::<Vec<_>>().join(","))
}

impl ToSql for TextParam {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Fault> {
        match &self.0 {
            None => Ok(IsNull::Yes),
            Some(text) => {
                out.extend_from_slice(text.as_bytes());
                Ok(IsNull::No)
            }
        }
    }
    fn accepts(_: &Type) -> bool {
        true
    }
    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }
    to_sql_checked!();
}

/// A cell of any type that this room can show.
struct Cell(Value);

impl<'a> FromSql<'a> for Cell {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Fault> {
        cell(ty, raw).map(Cell)
    }
    fn from_sql_null(_: &Type) -> Result<Self, Fault> {
        Ok(Cell(Value::Null))
    }
    fn accepts(ty: &Type) -> bool {
        shows(ty)
    }
}

/// Whether results of this type can be shown as JSON.
pub fn shows(ty: &Type) -> bool {
    match ty.kind() {
        Kind::Array(inner) => shows(inner),
        Kind::Domain(inner) => shows(inner),
        Kind::Enum(_) => true,
        _ => [
            Type::BOOL,
            Type::INT2,
            Type::INT4,
            Type::INT8,
            Type::FLOAT4,
            Type::FLOAT8,
            Type::NUMERIC,
            Type::TEXT,
            Type::VARCHAR,
            Type::BPCHAR,
            Type::NAME,
            Type::UNKNOWN,
            Type::UUID,
            Type::DATE,
            Type::TIME,
            Type::TIMESTAMP,
            Type::TIMESTAMPTZ,
            Type::JSON,
            Type::JSONB,
            Type::VOID,
        ]
        .contains(ty),
    }
}

fn cell(ty: &Type, raw: &[u8]) -> Result<Value, Fault> {
    if let Kind::Domain(inner) = ty.kind() {
        return cell(inner, raw);
    }
    if let Kind::Array(_) = ty.kind() {
        let items = Vec::<Cell>::from_sql(ty, raw)?;
        return Ok(Value::Array(items.into_iter().map(|c| c.0).collect()));
    }
    if let Kind::Enum(_) = ty.kind() {
        return Ok(Value::String(std::str::from_utf8(raw)?.to_owned()));
    }
    Ok(match *ty {
        Type::VOID => Value::Null,
        Type::BOOL => bool::from_sql(ty, raw)?.into(),
        Type::INT2 => i16::from_sql(ty, raw)?.into(),
        Type::INT4 => i32::from_sql(ty, raw)?.into(),
        Type::INT8 => i64::from_sql(ty, raw)?.into(),
        Type::FLOAT4 => float(f32::from_sql(ty, raw)?.to_string()),
        Type::FLOAT8 => float(f64::from_sql(ty, raw)?.to_string()),
        Type::NUMERIC => exact(numeric_text(raw)?),
        Type::UUID => uuid::Uuid::from_sql(ty, raw)?.to_string().into(),
        Type::DATE => match jiff::civil::Date::from_sql(ty, raw) {
            Ok(date) => date.to_string().into(),
            Err(_) => beyond(i32::from_sql(&Type::INT4, raw)? > 0),
        },
        Type::TIME => jiff::civil::Time::from_sql(ty, raw)?.to_string().into(),
        Type::TIMESTAMP => match jiff::civil::DateTime::from_sql(ty, raw) {
            Ok(moment) => moment.to_string().into(),
            Err(_) => beyond(i64::from_sql(&Type::INT8, raw)? > 0),
        },
        Type::TIMESTAMPTZ => match jiff::Timestamp::from_sql(ty, raw) {
            Ok(moment) => moment.to_string().into(),
            Err(_) => beyond(i64::from_sql(&Type::INT8, raw)? > 0),
        },
        Type::JSON | Type::JSONB => Value::from_sql(ty, raw)?,
        _ => String::from_sql(ty, raw)?.into(),
    })
}

/// A time that no calendar here reaches, `infinity` among them.
fn beyond(after: bool) -> Value {
    if after { "infinity".into() } else { "-infinity".into() }
}

/// JSON has no number for NaN and the infinities; they are told by their names.
fn float(text: String) -> Value {
    text.parse::<f64>().ok().and_then(Number::from_f64).map_or(Value::String(text), Value::Number)
}

/// An exact decimal as a JSON number when a reader's floating point shows the same digits, else as a string.
fn exact(text: String) -> Value {
    if let Ok(n) = text.parse::<i64>() {
        return n.into();
    }
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    match text.parse::<f64>().ok().and_then(Number::from_f64) {
        Some(n) if digits <= 15 => Value::Number(n),
        _ => Value::String(text),
    }
}

/// PostgreSQL's binary `numeric` as decimal text without trailing zeros: digits to the base 10,000, whatever their number.
fn numeric_text(raw: &[u8]) -> Result<String, Fault> {
    let word = |i: usize| -> Result<u16, Fault> {
        let bytes = raw.get(i * 2..i * 2 + 2).ok_or("a numeric value is cut short")?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    };
    let count = usize::from(word(0)?);
    let weight = i32::from(word(1)? as i16);
    let sign = match word(2)? {
        0x0000 => "",
        0x4000 => "-",
        0xC000 => return Ok("NaN".to_owned()),
        0xD000 => return Ok("Infinity".to_owned()),
        0xF000 => return Ok("-Infinity".to_owned()),
        other => return Err(format!("a numeric value has the sign {other:x}").into()),
    };
    let digits = (0..count).map(|i| word(4 + i)).collect::<Result<Vec<u16>, Fault>>()?;
    let group = |at: i32| usize::try_from(at).ok().and_then(|at| digits.get(at)).copied().unwrap_or(0);
    let mut whole: String =
        (0..=weight.max(0)).map(|i| format!("{:04}", if weight < 0 { 0 } else { group(i) })).collect();
    whole = whole.trim_start_matches('0').to_owned();
    if whole.is_empty() {
        whole.push('0');
    }
    let last = i32::try_from(count).unwrap_or(i32::MAX);
    let fraction: String = ((weight + 1)..last.max(weight + 1)).map(|i| format!("{:04}", group(i))).collect();
    // Groups between the point and the first stored digit.
    let lead: String = (weight + 1..0).map(|_| "0000".to_owned()).collect();
    let fraction = if weight < -1 {
        format!("{lead}{}", (0..last).map(|i| format!("{:04}", group(i))).collect::<String>())
    } else {
        fraction
    };
    let fraction = fraction.trim_end_matches('0');
    Ok(if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") })
}

/// One column of a row. A moment is shown with the owner's offset, so that a reader gets the day right.
fn column(row: &Row, i: usize, zone: &TimeZone) -> Result<Value, tokio_postgres::Error> {
    if *row.columns()[i].type_() == Type::TIMESTAMPTZ
        && let Ok(moment) = row.try_get::<_, Option<jiff::Timestamp>>(i)
    {
        return Ok(moment.map_or(Value::Null, |t| t.display_with_offset(zone.to_offset(t)).to_string().into()));
    }
    Ok(row.try_get::<_, Cell>(i)?.0)
}

/// A row as an object of its columns.
pub fn row_object(row: &Row, zone: &TimeZone) -> Result<Value, tokio_postgres::Error> {
    let mut object = Map::new();
    for (i, c) in row.columns().iter().enumerate() {
        object.insert(c.name().to_owned(), column(row, i, zone)?);
    }
    Ok(Value::Object(object))
}

/// The first column of a row.
pub fn row_value(row: &Row, zone: &TimeZone) -> Result<Value, tokio_postgres::Error> {
    column(row, 0, zone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn arguments_become_text_of_their_type() {
        let text = |v: Value, ty: &Type| TextParam::new(Some(&v), ty).0;
        assert_eq!(text(json!("a\0b"), &Type::TEXT).as_deref(), Some("ab"));
        assert_eq!(text(json!({"kg": 81.4}), &Type::JSONB).as_deref(), Some("{\"kg\":81.4}"));
        assert_eq!(
            text(json!(["a\"b", null, "c\\"]), &Type::TEXT_ARRAY).as_deref(),
            Some("{\"a\\\"b\",NULL,\"c\\\\\"}")
        );
        assert_eq!(text(json!([1, 2]), &Type::INT4_ARRAY).as_deref(), Some("{\"1\",\"2\"}"));
        assert_eq!(text(Value::Null, &Type::TEXT), None);
    }

    /// PostgreSQL's form of a numeric: groups of four digits.
    fn numeric(weight: i16, negative: bool, groups: &[u16]) -> String {
        let mut raw = Vec::new();
        for word in [groups.len() as u16, weight as u16, if negative { 0x4000 } else { 0 }, 0] {
            raw.extend(word.to_be_bytes());
        }
        groups.iter().for_each(|g| raw.extend(g.to_be_bytes()));
        numeric_text(&raw).unwrap()
    }

    #[test]
    fn decimals_stay_exact() {
        assert_eq!(numeric(0, false, &[81, 4000]), "81.4");
        assert_eq!(numeric(0, true, &[12]), "-12");
        assert_eq!(numeric(-1, false, &[1000]), "0.1");
        assert_eq!(numeric(-2, false, &[5]), "0.00000005");
        assert_eq!(numeric(1, false, &[1]), "10000");
        assert_eq!(numeric(10, false, &[1]), format!("1{}", "0".repeat(40)));
        assert_eq!(numeric(0, false, &[]), "0");
        for (text, want) in [
            ("81.4", json!(81.4)),
            ("12", json!(12)),
            ("0.1", json!(0.1)),
            ("1234567890123456.78", json!("1234567890123456.78")),
            ("NaN", json!("NaN")),
        ] {
            assert_eq!(exact(text.to_owned()), want, "{text}");
        }
    }
}
