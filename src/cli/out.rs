//! Where output goes: text with tables for people, JSON for programs.

use std::io::{IsTerminal, Write};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;
use serde_json::Value;

/// How a piece of text stands out, on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Tone {
    #[default]
    Plain,
    Head,
    Good,
    Warn,
    Bad,
    Faint,
}

impl Tone {
    fn code(self) -> &'static str {
        match self {
            Tone::Plain => "",
            Tone::Head => "1",
            Tone::Good => "32",
            Tone::Warn => "33",
            Tone::Bad => "31",
            Tone::Faint => "2",
        }
    }
}

/// A command's output.
#[derive(Clone, Copy, Debug)]
pub struct Out {
    /// Whether programs read it.
    pub json: bool,
    colour: bool,
}

/// Colour is for terminals whose owner did not say no (`NO_COLOR`, `TERM=dumb`).
fn wants_colour(terminal: bool, no_color: Option<&str>, term: Option<&str>) -> bool {
    terminal && no_color.is_none_or(str::is_empty) && term != Some("dumb")
}

impl Out {
    /// The output of this process.
    pub fn new(json: bool) -> Self {
        let variable = |name: &str| std::env::var(name).ok();
        let colour =
            wants_colour(std::io::stdout().is_terminal(), variable("NO_COLOR").as_deref(), variable("TERM").as_deref());
        Self { json, colour: colour && !json }
    }

    /// The text in this tone.
    pub fn paint(self, tone: Tone, text: &str) -> String {
        if self.colour && tone != Tone::Plain { format!("\x1b[{}m{text}\x1b[0m", tone.code()) } else { text.to_owned() }
    }

    /// Prints a line.
    pub fn line(self, text: &str) {
        write_or_leave(&mut std::io::stdout().lock(), &format!("{text}\n"));
    }

    /// Prints a line beside the output proper, on standard error; nothing where programs read.
    pub fn aside(self, text: &str) {
        if !self.json {
            write_or_leave(&mut std::io::stderr().lock(), &format!("{text}\n"));
        }
    }

    /// Asks for a line: text on standard error that the answer is typed behind; nothing where programs read.
    pub fn ask(self, text: &str) {
        if !self.json {
            write_or_leave(&mut std::io::stderr().lock(), text);
        }
    }

    /// Prints a value as JSON, over several lines.
    pub fn value(self, value: &impl Serialize) {
        match serde_json::to_string_pretty(value) {
            Ok(text) => self.line(&text),
            // Only maps with keys that are no texts can't be written, and none of ours has them.
            Err(e) => self.aside(&format!("the answer can't be written as JSON: {e}")),
        }
    }

    /// Prints a value as one line of JSON: one of a stream.
    pub fn record(self, value: &impl Serialize) {
        match serde_json::to_string(value) {
            Ok(text) => self.line(&text),
            Err(e) => self.aside(&format!("an event can't be written as JSON: {e}")),
        }
    }

    /// Prints a table.
    pub fn table(self, table: &Table) {
        for line in table.lines(self) {
            self.line(&line);
        }
    }
}

/// Whoever read us may be gone (`butlerd status | head -1`): then there is nothing left to say, and no fault.
fn write_or_leave(to: &mut impl Write, text: &str) {
    if to.write_all(text.as_bytes()).and_then(|()| to.flush()).is_err() {
        std::process::exit(1);
    }
}

/// Rows under heads, each column as wide as it must be.
#[derive(Debug, Default)]
pub struct Table {
    heads: Vec<&'static str>,
    rows: Vec<Vec<(Tone, String)>>,
}

impl Table {
    pub fn new(heads: &[&'static str]) -> Self {
        Self { heads: heads.to_vec(), rows: Vec::new() }
    }

    /// Adds a row; an empty cell is shown as a dash.
    pub fn row(&mut self, cells: Vec<(Tone, String)>) {
        let shown = |(tone, text): (Tone, String)| {
            if text.is_empty() { (Tone::Faint, "-".to_owned()) } else { (tone, one_line(&text, 200)) }
        };
        self.rows.push(cells.into_iter().map(shown).collect());
    }

    fn lines(&self, out: Out) -> Vec<String> {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|r| r.get(column)).map(|(_, t)| t.chars().count());
            cells.chain([self.heads[column].len()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.heads.len()).map(width).collect();
        let line = |cells: Vec<(Tone, String)>| {
            let last = cells.len().saturating_sub(1);
            let mut text = String::new();
            for (i, (tone, cell)) in cells.iter().enumerate() {
                text.push_str(&out.paint(*tone, cell));
                if i < last {
                    let gap = widths[i].saturating_sub(cell.chars().count()) + 2;
                    text.extend(std::iter::repeat_n(' ', gap));
                }
            }
            text.trim_end().to_owned()
        };
        let heads = self.heads.iter().map(|h| (Tone::Head, (*h).to_owned())).collect();
        std::iter::once(heads).chain(self.rows.iter().cloned()).map(line).collect()
    }
}

/// Foreign text on one line and of bounded length. What a terminal would obey is taken out.
pub fn one_line(text: &str, most: usize) -> String {
    let words: Vec<String> = text.split_whitespace().map(base::text::clean).collect();
    let line = words.join(" ");
    match line.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

/// Foreign text over several lines, without what a terminal would obey.
pub fn block(text: &str) -> String {
    base::text::clean(text).trim_end().to_owned()
}

/// A JSON value on one line, for people.
pub fn brief(value: &Value, most: usize) -> String {
    match value {
        Value::String(text) => one_line(text, most),
        other => one_line(&other.to_string(), most),
    }
}

/// A span as people say it: `850 ms`, `12.3 s`, `2 min 5 s`, `3 h 4 min`, `2 d 3 h`.
pub fn span(milliseconds: i64) -> String {
    let seconds = milliseconds / 1000;
    match seconds {
        ..1 => format!("{milliseconds} ms"),
        1..60 => format!("{:.1} s", milliseconds as f64 / 1000.0),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// `1 butler`, `2 butlers`.
pub fn count(n: usize, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}

/// A moment as people read it.
pub fn moment(at: Timestamp, zone: &TimeZone) -> String {
    at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// A text of a row; empty where there is none.
pub fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key].as_str().unwrap_or_default()
}

/// A moment of a row, as people read it; empty where there is none.
pub fn moment_of(row: &Value, key: &str, zone: &TimeZone) -> String {
    row[key].as_str().and_then(|t| t.parse().ok()).map(|at| moment(at, zone)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Out = Out { json: false, colour: false };
    const COLOURED: Out = Out { json: false, colour: true };

    #[test]
    fn colour_needs_a_terminal_and_no_objection() {
        assert!(wants_colour(true, None, Some("xterm")));
        assert!(wants_colour(true, Some(""), None));
        assert!(!wants_colour(false, None, Some("xterm")));
        assert!(!wants_colour(true, Some("1"), Some("xterm")));
        assert!(!wants_colour(true, None, Some("dumb")));
    }

    #[test]
    fn columns_line_up_with_and_without_colour() {
        let mut table = Table::new(&["NAME", "STATE", "WHY"]);
        table.row(vec![(Tone::Plain, "health".into()), (Tone::Good, "up".into()), (Tone::Plain, String::new())]);
        table.row(vec![(Tone::Plain, "ä".into()), (Tone::Bad, "parked".into()), (Tone::Plain, "port\nin use".into())]);
        let lines = table.lines(PLAIN);
        assert_eq!(lines, ["NAME    STATE   WHY", "health  up      -", "ä       parked  port in use"]);
        let coloured = table.lines(COLOURED)[1].clone();
        assert_eq!(coloured, "health  \x1b[32mup\x1b[0m      \x1b[2m-\x1b[0m");
    }

    #[test]
    fn foreign_text_cannot_command_the_terminal() {
        assert_eq!(one_line("a\x1b]0;owned\x07\n b\tc", 80), "a]0;owned b c");
        assert_eq!(block("x\x1b[2J\ny\n\n"), "x[2J\ny");
        assert_eq!(one_line("äöüß", 2), "äö…");
    }

    #[test]
    fn spans_read_well() {
        for (ms, text) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (12_345, "12.3 s"),
            (125_000, "2 min 5 s"),
            (11_040_000, "3 h 4 min"),
            (183_600_000, "2 d 3 h"),
        ] {
            assert_eq!(span(ms), text);
        }
        assert_eq!((count(1, "butler"), count(0, "butler")), ("1 butler".into(), "0 butlers".into()));
    }
}
