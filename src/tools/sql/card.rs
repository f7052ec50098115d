//! Cards: what of a page stands on its butler's page, and how it is drawn.

use serde::Serialize;
use serde_json::{Map, Value};
use tokio_postgres::types::{Kind, Type};

/// How the rows of a page are shown on the butler's page. Names of columns are those of the page's statement.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Card {
    pub title: String,
    #[serde(flatten)]
    pub shows: CardKind,
}

/// What a card draws, by `kind`.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum CardKind {
    /// One value of the first row; `note` is a column whose text stands beside it.
    Number { value: String, unit: Option<Unit>, note: Option<String> },
    /// Rows, of which these columns are shown.
    Table { columns: Vec<String> },
    /// Numbers over days, moments or numbers.
    Line { x: String, y: Vec<String>, unit: Option<Unit> },
    /// Numbers, a bar for each row and column.
    Bar { x: String, y: Vec<String>, unit: Option<Unit> },
    /// What happens when.
    Timeline { at: String, label: String },
}

/// What numbers are counted in.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(untagged)]
pub enum Unit {
    /// These words, such as `kg`.
    Text(String),
    /// What this column of a row says: a currency.
    Column { column: String },
}

/// The key of a card that is wrong (empty: the card itself), and what about it.
pub(super) type CardProblem = (&'static str, String);

/// What a column must hold.
#[derive(Clone, Copy)]
enum Holds {
    Anything,
    Numbers,
    /// What has a place on an axis.
    Places,
    Times,
}

const KINDS: &str = "number, table, line, bar and timeline";

/// The keys of a header's `card`, as they are taken out of it.
struct Keys(Map<String, Value>);

impl Keys {
    fn text(&mut self, key: &'static str, what: &str) -> Result<Option<String>, CardProblem> {
        match self.0.remove(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.trim().is_empty() => Err((key, format!("is empty; it is {what}"))),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err((key, format!("is {what}, not {other}"))),
        }
    }

    fn column(&mut self, key: &'static str) -> Result<String, CardProblem> {
        let missing = || (key, "missing; it is the name of a column".to_owned());
        self.text(key, "the name of a column")?.ok_or_else(missing)
    }

    /// One column or several.
    fn columns(&mut self, key: &'static str) -> Result<Vec<String>, CardProblem> {
        let wrong = |found: &str| Err((key, format!("{found}is the name of a column, or a list of names")));
        match self.0.remove(key) {
            None | Some(Value::Null) => wrong("missing; it "),
            Some(Value::String(one)) if !one.trim().is_empty() => Ok(vec![one]),
            Some(Value::Array(list)) if !list.is_empty() => {
                let names: Option<Vec<String>> = list.iter().map(|one| one.as_str().map(str::to_owned)).collect();
                names.map_or_else(|| wrong(""), Ok)
            }
            Some(_) => wrong(""),
        }
    }

    fn unit(&mut self) -> Result<Option<Unit>, CardProblem> {
        let what = "a word such as `kg`, or `{column: NAME}`";
        match self.0.remove("unit") {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if !text.trim().is_empty() => Ok(Some(Unit::Text(text))),
            Some(Value::Object(mut of)) if of.len() == 1 => match of.remove("column") {
                Some(Value::String(column)) => Ok(Some(Unit::Column { column })),
                _ => Err(("unit", format!("is {what}"))),
            },
            Some(_) => Err(("unit", format!("is {what}"))),
        }
    }
}

impl Card {
    /// Reads the `card` of a header.
    pub(super) fn parse(given: Map<String, Value>) -> Result<Self, CardProblem> {
        let mut keys = Keys(given);
        let Some(kind) = keys.text("kind", "one of those that there are")? else {
            return Err(("kind", format!("missing; it is one of {KINDS}")));
        };
        let title = keys.text("title", "the words above the card")?;
        let title = title.ok_or(("title", "missing; it is the words above the card".to_owned()))?;
        let shows = match kind.as_str() {
            "number" => CardKind::Number {
                value: keys.column("value")?,
                unit: keys.unit()?,
                note: keys.text("note", "the name of a column")?,
            },
            "table" => CardKind::Table { columns: keys.columns("columns")? },
            "line" => CardKind::Line { x: keys.column("x")?, y: keys.columns("y")?, unit: keys.unit()? },
            "bar" => CardKind::Bar { x: keys.column("x")?, y: keys.columns("y")?, unit: keys.unit()? },
            "timeline" => CardKind::Timeline { at: keys.column("at")?, label: keys.column("label")? },
            other => return Err(("kind", format!("found {other}; it is one of {KINDS}"))),
        };
        let Some(unknown) = keys.0.keys().next() else { return Ok(Self { title, shows }) };
        let has = match kind.as_str() {
            "number" => "value, unit and note",
            "table" => "columns",
            "timeline" => "at and label",
            _ => "x, y and unit",
        };
        let why = format!("a card of the kind {kind} has a title, {has}");
        // Keys of other kinds are the usual slip, and have a line of their own to point at.
        const KNOWN: [&str; 8] = ["value", "unit", "note", "columns", "x", "y", "at", "label"];
        match KNOWN.iter().find(|known| *known == unknown) {
            Some(known) => Err((known, why)),
            None => Err(("", format!("found `{unknown}`; {why}"))),
        }
    }

    /// Whether it shows one row alone.
    pub(super) fn is_of_one_row(&self) -> bool {
        matches!(self.shows, CardKind::Number { .. })
    }

    /// Looks for its columns among those of the statement.
    pub(super) fn check(&self, columns: &[(&str, &Type)]) -> Result<(), CardProblem> {
        for (key, name, holds) in self.columns() {
            let Some((_, ty)) = columns.iter().find(|(column, _)| *column == name) else {
                let there: Vec<&str> = columns.iter().map(|(column, _)| *column).collect();
                return Err((key, format!("there is no column {name}; the statement has {}", there.join(", "))));
            };
            if let Some(wanted) = holds.missed_by(ty) {
                return Err((key, format!("the column {name} is of the type {ty}, and here {wanted} are drawn")));
            }
        }
        Ok(())
    }

    /// The columns that it names, by key.
    fn columns(&self) -> Vec<(&'static str, &str, Holds)> {
        let mut named: Vec<(&'static str, &str, Holds)> = Vec::new();
        let of_unit = match &self.shows {
            CardKind::Number { value, unit, note } => {
                named.push(("value", value, Holds::Anything));
                named.extend(note.as_deref().map(|note| ("note", note, Holds::Anything)));
                unit
            }
            CardKind::Table { columns } => {
                named.extend(columns.iter().map(|column| ("columns", column.as_str(), Holds::Anything)));
                &None
            }
            CardKind::Line { x, y, unit } => {
                named.push(("x", x, Holds::Places));
                named.extend(y.iter().map(|column| ("y", column.as_str(), Holds::Numbers)));
                unit
            }
            CardKind::Bar { x, y, unit } => {
                named.push(("x", x, Holds::Anything));
                named.extend(y.iter().map(|column| ("y", column.as_str(), Holds::Numbers)));
                unit
            }
            CardKind::Timeline { at, label } => {
                named.extend([("at", at.as_str(), Holds::Times), ("label", label.as_str(), Holds::Anything)]);
                &None
            }
        };
        if let Some(Unit::Column { column }) = of_unit {
            named.push(("unit", column, Holds::Anything));
        }
        named
    }
}

impl Holds {
    /// What a column of this type lacks.
    fn missed_by(self, ty: &Type) -> Option<&'static str> {
        if let Kind::Domain(inner) = ty.kind() {
            return self.missed_by(inner);
        }
        const NUMBERS: [Type; 6] = [Type::INT2, Type::INT4, Type::INT8, Type::FLOAT4, Type::FLOAT8, Type::NUMERIC];
        const TIMES: [Type; 3] = [Type::DATE, Type::TIMESTAMP, Type::TIMESTAMPTZ];
        let (fits, wanted) = match self {
            Holds::Anything => return None,
            Holds::Numbers => (NUMBERS.contains(ty), "numbers"),
            Holds::Places => (NUMBERS.contains(ty) || TIMES.contains(ty), "days, moments or numbers"),
            Holds::Times => (TIMES.contains(ty), "days or moments"),
        };
        (!fits).then_some(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn card(given: Value) -> Result<Card, CardProblem> {
        Card::parse(given.as_object().cloned().unwrap())
    }

    #[test]
    fn a_card_is_shown_as_it_was_written() {
        let line = json!({"kind": "line", "title": "Weight", "x": "day", "y": ["kg"], "unit": "kg"});
        assert_eq!(serde_json::to_value(card(line.clone()).unwrap()).unwrap(), line);
        let bar = json!({"kind": "bar", "title": "Spent", "x": "month", "y": "spent", "unit": {"column": "currency"}});
        let shown = serde_json::to_value(card(bar).unwrap()).unwrap();
        assert_eq!((&shown["y"], &shown["unit"]), (&json!(["spent"]), &json!({"column": "currency"})));
        assert_eq!(card(json!({"kind": "line"})).unwrap_err().0, "title");
        assert_eq!(card(json!({"kind": "table", "title": "T", "columns": "a", "colour": 1})).unwrap_err().0, "");
    }

    #[test]
    fn its_columns_are_those_of_the_statement_and_can_be_drawn() {
        let columns = [("day", &Type::DATE), ("kg", &Type::NUMERIC), ("name", &Type::TEXT)];
        let checked = |given: Value| card(given).unwrap().check(&columns);
        let line = |x: &str, y: &str, unit: &str| {
            checked(json!({"kind": "line", "title": "T", "x": x, "y": [y], "unit": {"column": unit}}))
        };
        assert_eq!(line("day", "kg", "name"), Ok(()));
        for (found, key, word) in [
            (line("dai", "kg", "name"), "x", "there is no column dai; the statement has day, kg, name"),
            (line("name", "kg", "name"), "x", "days, moments or numbers"),
            (line("day", "name", "name"), "y", "numbers are drawn"),
            (line("day", "kg", "currency"), "unit", "no column currency"),
            (checked(json!({"kind": "number", "title": "T", "value": "kg", "note": "x"})), "note", "no column x"),
            (checked(json!({"kind": "timeline", "title": "T", "at": "kg", "label": "name"})), "at", "days or moments"),
        ] {
            let (at, problem) = found.unwrap_err();
            assert!(at == key && problem.contains(word), "{at}: {problem}");
        }
    }
}
