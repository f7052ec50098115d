//! Lines of text: white space, paragraphs, lists, cells, quotes.

use base::text::visible::readable;

use super::tree::count;
use crate::clean::unnumbered;

/// Quotes in quotes that are marked.
const DEEPEST: usize = 12;
/// The most white space that begins a line.
const WIDEST: usize = 80;

/// Writes a text of at most so many bytes.
#[derive(Default)]
pub struct Page {
    pub text: String,
    most: usize,
    /// Nothing fits any more.
    full: bool,
    pub hidden: usize,
    /// Line ends before the next character.
    gap: usize,
    /// A space before it.
    space: bool,
    /// Spaces before it that are kept.
    spaces: usize,
    /// It begins a cell.
    bar: bool,
    /// It begins an item of a list.
    mark: Option<String>,
    /// How deep the next character is quoted, and the line that is being written.
    pub quotes: usize,
    line_quotes: usize,
}

impl Page {
    pub fn new(most: usize) -> Self {
        Self { most, ..Self::default() }
    }

    /// Begins a line behind so many line ends, two of which leave a line empty.
    pub fn block(&mut self, lines: usize) {
        if !self.bar {
            self.gap = self.gap.max(lines);
        }
    }

    /// Ends the line; ends one more if it is empty.
    pub fn line_end(&mut self) {
        self.bar = false;
        self.gap = (self.gap + 1).min(2);
    }

    /// Begins an item of a list.
    pub fn item(&mut self, mark: String) {
        self.block(1);
        self.mark = Some(mark);
    }

    /// The item is over.
    pub fn end_item(&mut self) {
        self.mark = None;
        self.block(1);
    }

    /// Begins a cell of a row whose text begins there; behind another cell it stands on the same line, if that has one.
    pub fn cell(&mut self, row: usize) {
        let before = self.text.get(row..).unwrap_or_default().trim();
        if before.is_empty() || before.contains('\n') {
            self.block(usize::from(!before.is_empty()));
        } else {
            self.gap = 0;
            self.bar = true;
        }
    }

    /// The row is over.
    pub fn end_row(&mut self) {
        self.bar = false;
        self.block(1);
    }

    /// What is hidden stays away, and is counted.
    pub fn write(&mut self, text: &str, keeps_space: bool) {
        let plain = text.bytes().all(|b| (0x20..0x7f).contains(&b) || b"\n\t".contains(&b));
        if plain {
            return text.chars().for_each(|c| self.character(c, keeps_space));
        }
        // What shows nothing is written as its number, which is taken out again here.
        let spaced = text.replace(['\r', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}', '\u{a0}'], " ");
        let (shown, hidden) = unnumbered(&readable(&spaced));
        self.hidden += hidden;
        shown.chars().for_each(|c| self.character(c, keeps_space));
    }

    /// Counts what is not seen.
    pub fn hide(&mut self, text: &str) {
        self.hidden += count(text);
    }

    fn character(&mut self, c: char, keeps_space: bool) {
        match c {
            '\n' if keeps_space => self.line_end(),
            '\n' | ' ' if !keeps_space => self.space = true,
            ' ' => self.spaces += 1,
            '\t' if keeps_space => self.spaces += 4,
            c if c.is_whitespace() => self.space = true,
            c => self.put(c),
        }
    }

    fn put(&mut self, c: char) {
        if self.full {
            return;
        }
        let start = self.text.len();
        if self.text.is_empty() || self.quotes.min(DEEPEST) != self.line_quotes || self.mark.is_some() {
            self.gap = self.gap.max(1);
        }
        if self.gap > 0 {
            self.begin_line();
        } else if self.bar {
            self.text.push_str(" | ");
        } else if self.space || self.spaces > 0 {
            let spaces = self.spaces.clamp(1, WIDEST);
            self.text.extend(std::iter::repeat_n(' ', spaces));
        }
        (self.gap, self.space, self.spaces, self.bar) = (0, false, 0, false);
        self.text.push(c);
        if self.text.len() > self.most {
            self.text.truncate(start);
            self.full = true;
        }
    }

    fn begin_line(&mut self) {
        let quotes = self.quotes.min(DEEPEST);
        if !self.text.is_empty() {
            self.text.push('\n');
            if self.gap > 1 {
                self.text.push_str("> ".repeat(quotes.min(self.line_quotes)).trim_end());
                self.text.push('\n');
            }
        }
        self.line_quotes = quotes;
        self.text.push_str(&"> ".repeat(quotes));
        if let Some(mark) = self.mark.take() {
            self.text.push_str(&mark);
        } else {
            self.text.extend(std::iter::repeat_n(' ', self.spaces.min(WIDEST)));
        }
    }

    /// Adds the address of a link whose text begins there, unless the text says it.
    pub fn address(&mut self, from: usize, address: &str) {
        let text = self.text.get(from..).unwrap_or_default().trim_start_matches(['>', '|', '\n', ' ']).trim();
        if text.is_empty() || plain(text) == plain(address) {
            return;
        }
        // It belongs to the line that ends here, whatever comes next.
        let (gap, quotes, mark) = (self.gap, self.quotes, self.mark.take());
        let (bar, spaces) = (self.bar, self.spaces);
        (self.gap, self.bar, self.spaces, self.space, self.quotes) = (0, false, 0, true, self.line_quotes);
        let shown = self.text.len();
        format!("({address})").chars().for_each(|c| self.put(c));
        if self.full {
            // Half an address is another one.
            self.text.truncate(shown);
        }
        (self.gap, self.quotes, self.mark) = (gap, quotes, mark);
        (self.bar, self.spaces) = (bar, spaces);
    }
}

/// An address as it is compared with what a link says.
fn plain(address: &str) -> String {
    let address = address.to_lowercase();
    let starts = ["https://", "http://", "mailto:"];
    let rest = starts.iter().find_map(|start| address.strip_prefix(start)).unwrap_or(&address);
    rest.trim_end_matches('/').to_owned()
}
