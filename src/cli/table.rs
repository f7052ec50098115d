//! The one printer of tables and of fields. Foreign text in a cell can't command the terminal.

use std::borrow::Cow;
use std::collections::BTreeSet;

use uuid::Uuid;

use super::out::{Out, Tone};
use super::text::one_line;
use base::Money;

/// The longest text of a cell, and of a field.
const CELL: usize = 200;
const FIELD: usize = 2000;

/// A value in a table or a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    tone: Tone,
    text: String,
    /// Numbers stand at the right of their column.
    right: bool,
}

macro_rules! texts {
    ($($text:ty),*) => {$(
        impl From<$text> for Cell {
            fn from(text: $text) -> Self {
                Self { text: text.into(), ..Self::default() }
            }
        }
    )*};
}
texts!(&str, String, &String, Uuid);

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl From<$number> for Cell {
            fn from(number: $number) -> Self {
                Self { text: number.to_string(), right: true, ..Self::default() }
            }
        }
    )*};
}
numbers!(i16, i32, i64, u16, u32, u64, usize, Money);

/// Nothing is an empty cell.
impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map(Into::into).unwrap_or_default()
    }
}

impl From<&Option<String>> for Cell {
    fn from(value: &Option<String>) -> Self {
        value.as_deref().into()
    }
}

impl<T: Into<Cell>> From<(Tone, T)> for Cell {
    fn from((tone, value): (Tone, T)) -> Self {
        Self { tone, ..value.into() }
    }
}

impl Out {
    /// A table of these rows.
    pub fn table<'a, T>(&'a self, rows: &'a [T]) -> Table<'a, T> {
        Table { out: self, rows, columns: Vec::new() }
    }

    /// Names with values, one on each line.
    pub fn fields(&self) -> Fields<'_> {
        Fields { out: self, fields: Vec::new() }
    }
}

/// How much of these ids, as they are written, tells each of them from the others. At least the time of their making,
/// to the millisecond, so that an id which is made later seldom begins like one that was listed.
fn short(ids: impl Iterator<Item = Uuid>) -> usize {
    const TIME: usize = 13;
    let ids: BTreeSet<String> = ids.map(|id| id.to_string()).collect();
    let shared = |(a, b): (&String, &String)| a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count() + 1;
    ids.iter().zip(ids.iter().skip(1)).map(shared).fold(TIME, usize::max)
}

/// Rows under heads, each column as wide as it must be.
pub struct Table<'a, T> {
    out: &'a Out,
    rows: &'a [T],
    columns: Vec<(&'static str, Vec<Cell>)>,
}

impl<'a, T> Table<'a, T> {
    /// Adds a column; an empty cell is shown as a dash.
    #[must_use]
    pub fn column<C: Into<Cell>>(mut self, head: &'static str, cell: impl Fn(&'a T) -> C) -> Self {
        let shown = |row| match cell(row).into() {
            Cell { text, .. } if text.is_empty() => Cell { tone: Tone::Faint, text: "-".to_owned(), right: false },
            cell => Cell { text: one_line(&cell.text, CELL), ..cell },
        };
        self.columns.push((head, self.rows.iter().map(shown).collect()));
        self
    }

    /// Adds a column of ids, each so short that it names one row, as commands take them.
    #[must_use]
    pub fn ids<I: Into<Option<Uuid>>>(self, head: &'static str, id: impl Fn(&'a T) -> I) -> Self {
        let ids: Vec<Option<Uuid>> = self.rows.iter().map(|row| id(row).into()).collect();
        let short = short(ids.iter().flatten().copied());
        let cells = ids.into_iter().map(|id| match id {
            Some(id) => Cell::from(id.to_string()[..short].to_owned()),
            None => Cell { tone: Tone::Faint, ..Cell::from("-") },
        });
        let cells = cells.collect();
        let mut table = self;
        table.columns.push((head, cells));
        table
    }

    /// Prints it; without rows, what is said instead.
    pub fn print(self, none: &str) {
        match self.rows {
            [] => self.out.line(none),
            _ => self.lines().iter().for_each(|line| self.out.line(line)),
        }
    }

    /// The lines, the heads first.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![String::new(); self.rows.len() + 1];
        for (head, cells) in &self.columns {
            let right = cells.iter().any(|cell| cell.right);
            let width = cells.iter().map(|cell| cell.text.chars().count()).chain([head.len()]).max().unwrap_or(0);
            let head = Cell { tone: Tone::Head, text: (*head).to_owned(), right };
            for (line, cell) in lines.iter_mut().zip([&head].into_iter().chain(cells)) {
                let gap = " ".repeat(width - cell.text.chars().count());
                let shown = self.out.paint(cell.tone, &cell.text);
                let (before, after) = if right { (gap.as_str(), "") } else { ("", gap.as_str()) };
                line.push_str(&format!("{before}{shown}{after}  "));
            }
        }
        lines.iter().map(|line| line.trim_end().to_owned()).collect()
    }
}

/// Names with values, one on each line; those without a value are left out.
pub struct Fields<'a> {
    out: &'a Out,
    fields: Vec<(Cow<'static, str>, Cell)>,
}

impl Fields<'_> {
    /// Adds a field.
    #[must_use]
    pub fn field(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Cell>) -> Self {
        let value = value.into();
        if !value.text.is_empty() {
            self.fields.push((name.into(), value));
        }
        self
    }

    /// Prints them, the values below each other.
    pub fn print(self) {
        let width = self.fields.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        for (name, value) in &self.fields {
            let shown = self.out.paint(value.tone, &one_line(&value.text, FIELD));
            self.out.line(&format!("{}  {shown}", self.out.paint(Tone::Head, &format!("{name:<width$}"))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::out::tests::{coloured, plain};
    use super::*;

    const ROWS: [(&str, Tone, &str, u16); 2] = [("health", Tone::Good, "up", 7), ("ä", Tone::Bad, "parked", 40100)];

    fn lines(out: &Out) -> Vec<String> {
        let table = out.table(&ROWS).column("NAME", |r| r.0).column("STATE", |r| (r.1, r.2)).column("PORT", |r| r.3);
        table.column("WHY", |r| (r.1 == Tone::Bad).then_some("port\nin use\x1b[2J")).lines()
    }

    #[test]
    fn ids_are_as_short_as_they_may_be() {
        let ids = |all: &[&str]| short(all.iter().map(|id| id.parse().unwrap()));
        let (one, two) = ("0190f3a2-7c41-7000-8000-00000000000a", "0190f3a2-7c41-7001-8000-00000000000a");
        assert_eq!((ids(&[]), ids(&[one]), ids(&[one, one])), (13, 13, 13));
        assert_eq!(ids(&[two, one]), "0190f3a2-7c41-7001".len());
    }

    #[test]
    fn columns_line_up_with_and_without_colour() {
        assert_eq!(
            lines(&plain()),
            ["NAME    STATE    PORT  WHY", "health  up          7  -", "ä       parked  40100  port in use[2J"]
        );
        assert_eq!(lines(&coloured())[1], "health  \x1b[32mup\x1b[0m          7  \x1b[2m-\x1b[0m");
    }
}
