//! Where output goes: text for people, JSON for programs.

use std::io::IsTerminal;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::Outcome;
use super::screen::{Screen, write_or_leave};
use super::text::{block, moment, one_line};
use admin::Unavailable;

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

/// What programs get of every list.
#[derive(Serialize)]
pub struct List<'a, T> {
    pub items: &'a [T],
    /// What names the next page; of a list without pages, and on the last one, null.
    pub next: Option<serde_json::Value>,
    /// Butlers that could not be asked.
    pub unavailable: &'a [Unavailable],
}

/// A command's output.
#[derive(Clone, Debug)]
pub struct Out {
    /// Whether programs read it.
    pub json: bool,
    pub(crate) colour: bool,
    /// The time zone in which people read.
    pub zone: TimeZone,
    /// Where somebody types beside what is printed.
    pub screen: Option<Screen>,
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
        Self { json, colour: colour && !json, zone: TimeZone::UTC, screen: None }
    }

    /// Prints an answer: as JSON, or the way that `people` prints it.
    pub fn answer<T: Serialize>(&self, answer: &T, people: impl FnOnce(&Self, &T)) -> Outcome {
        match self.json {
            true => self.value(answer),
            false => people(self, answer),
        }
        Ok(0)
    }

    /// Prints a list: as JSON of the one shape that lists have, or the way that `people` prints it.
    pub fn list<T: Serialize>(
        &self,
        items: &[T],
        unavailable: &[Unavailable],
        people: impl FnOnce(&Self, &[T]),
    ) -> Outcome {
        match self.json {
            true => self.value(&List { items, next: None, unavailable }),
            false => {
                people(self, items);
                self.left_out(unavailable);
            }
        }
        Ok(0)
    }

    /// The text in this tone.
    pub fn paint(&self, tone: Tone, text: &str) -> String {
        if self.colour && tone != Tone::Plain { format!("\x1b[{}m{text}\x1b[0m", tone.code()) } else { text.to_owned() }
    }

    /// A moment as people read it.
    pub fn moment(&self, at: Timestamp) -> String {
        moment(at, &self.zone)
    }

    /// Prints a line.
    pub fn line(&self, text: &str) {
        let line = format!("{text}\n");
        match &self.screen {
            Some(screen) => screen.print(&line),
            None => write_or_leave(&mut std::io::stdout().lock(), &line),
        }
    }

    /// Prints a line in this tone.
    pub fn toned(&self, tone: Tone, text: &str) {
        self.line(&self.paint(tone, text));
    }

    /// Prints a heading and text below it; nothing where there is no text.
    pub fn section(&self, head: &str, body: &str) {
        if !body.is_empty() {
            self.heading(head);
            self.line(&block(body));
        }
    }

    /// Prints a heading, with an empty line above it.
    pub fn heading(&self, head: &str) {
        self.line(&format!("\n{}", self.paint(Tone::Head, head)));
    }

    /// Prints a line beside the output proper, on standard error; nothing where programs read.
    pub fn aside(&self, text: &str) {
        self.ask(&format!("{text}\n"));
    }

    /// Asks for a line: text on standard error that the answer is typed behind; nothing where programs read.
    pub fn ask(&self, text: &str) {
        match &self.screen {
            Some(screen) => screen.print(text),
            None if self.json => {}
            None => write_or_leave(&mut std::io::stderr().lock(), text),
        }
    }

    /// Tells which butlers an answer leaves out.
    pub fn left_out(&self, butlers: &[Unavailable]) {
        for missing in butlers {
            self.aside(&format!("Without {}: {}", missing.butler, one_line(&missing.reason, 500)));
        }
    }

    /// Prints a value as JSON, over several lines.
    pub fn value(&self, value: &impl Serialize) {
        match serde_json::to_string_pretty(value) {
            Ok(text) => self.line(&text),
            // Only maps whose keys are not texts can't be written, and none of ours has them.
            Err(e) => self.aside(&format!("The answer can't be written as JSON: {e}")),
        }
    }

    /// Prints a value as one line of JSON: one of a stream.
    pub fn record(&self, value: &impl Serialize) {
        match serde_json::to_string(value) {
            Ok(text) => self.line(&text),
            Err(e) => self.aside(&format!("An event can't be written as JSON: {e}")),
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Output without and with colour.
    pub fn plain() -> Out {
        Out { json: false, colour: false, zone: TimeZone::UTC, screen: None }
    }

    pub fn coloured() -> Out {
        Out { colour: true, ..plain() }
    }

    /// What is printed where somebody types.
    pub fn printed(print: impl FnOnce(&Out)) -> String {
        let (above, lines) = std::sync::mpsc::channel();
        let screen = Screen::new(above);
        screen.typing(true);
        print(&Out { screen: Some(screen), ..plain() });
        lines.try_iter().collect()
    }

    #[test]
    fn colour_needs_a_terminal_and_no_objection() {
        assert!(wants_colour(true, None, Some("xterm")));
        assert!(wants_colour(true, Some(""), None));
        assert!(!wants_colour(false, None, Some("xterm")));
        assert!(!wants_colour(true, Some("1"), Some("xterm")));
        assert!(!wants_colour(true, None, Some("dumb")));
    }
}
