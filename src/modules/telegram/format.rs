//! A model's Markdown as Telegram shows it: plain text, and marks over parts of it. Pure.
//!
//! Telegram takes formatting as MarkdownV2 or as a list of entities beside the text. Entities it is: nothing in the text
//! has to be escaped, so no text can be refused because of its formatting, and parts can be cut anywhere.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use serde_json::{Value, json};

/// The longest text of one message, in UTF-16 units.
pub const LONGEST: usize = 4096;
/// Telegram takes no more marks than this in one message.
const MOST_MARKS: usize = 100;

/// A text with its marks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Formatted {
    pub text: String,
    marks: Vec<Mark>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Mark {
    kind: &'static str,
    /// In UTF-16 units of the text.
    start: usize,
    end: usize,
    /// Of a link.
    url: Option<String>,
    /// Of code.
    language: Option<String>,
}

fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

impl Formatted {
    /// Without marks.
    pub fn plain(text: &str) -> Self {
        Self { text: text.to_owned(), marks: Vec::new() }
    }

    /// What Markdown means.
    pub fn of_markdown(markdown: &str) -> Self {
        let options = Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TABLES | Options::ENABLE_TASKLISTS;
        let mut writer = Writer::default();
        for event in Parser::new_ext(markdown, options) {
            writer.take(event);
        }
        let mut done = Self { text: writer.text, marks: writer.marks };
        done.trim();
        done
    }

    /// Without white space around it, which Telegram takes away.
    fn trim(&mut self) {
        let begin = self.text.len() - self.text.trim_start().len();
        let gone = units(&self.text[..begin]);
        self.text = self.text.trim().to_owned();
        let end = units(&self.text);
        for mark in &mut self.marks {
            mark.start = mark.start.saturating_sub(gone).min(end);
            mark.end = mark.end.saturating_sub(gone).min(end);
        }
        self.marks.retain(|mark| mark.start < mark.end);
    }

    /// In parts of at most so many UTF-16 units, cut between paragraphs, lines or words where that can be done.
    pub fn parts(mut self, most: usize) -> Vec<Self> {
        let mut parts = Vec::new();
        while units(&self.text) > most {
            let at = cut(&self.text, most);
            let edge = units(&self.text[..at]);
            let rest = self.text.split_off(at);
            let behind = self.marks.iter().filter(|mark| mark.end > edge).map(|mark| Mark {
                start: mark.start.saturating_sub(edge),
                end: mark.end - edge,
                ..mark.clone()
            });
            let behind = behind.collect();
            self.marks.retain(|mark| mark.start < edge);
            self.marks.iter_mut().for_each(|mark| mark.end = mark.end.min(edge));
            self.trim();
            parts.push(self);
            self = Self { text: rest, marks: behind };
            self.trim();
        }
        if !self.text.is_empty() || parts.is_empty() {
            parts.push(self);
        }
        parts.retain(|part| !part.text.is_empty());
        parts
    }

    /// The marks as the Bot API has them.
    pub fn entities(&self) -> Vec<Value> {
        let entity = |mark: &Mark| {
            let mut entity = json!({"type": mark.kind, "offset": mark.start, "length": mark.end - mark.start});
            if let Some(url) = &mark.url {
                entity["url"] = json!(url);
            }
            if let Some(language) = &mark.language {
                entity["language"] = json!(language);
            }
            entity
        };
        self.marks.iter().take(MOST_MARKS).map(entity).collect()
    }
}

/// Where to cut a text that is too long: a byte offset behind which the rest begins.
fn cut(text: &str, most: usize) -> usize {
    let mut room = most;
    let fits = text.char_indices().find(|(_, c)| {
        let fits = c.len_utf16() <= room;
        room = room.saturating_sub(c.len_utf16());
        !fits
    });
    let end = fits.map_or(text.len(), |(at, _)| at).max(text.chars().next().map_or(0, char::len_utf8));
    let window = &text[..end];
    // A part that is almost empty helps nobody.
    let early = end / 4;
    for gap in ["\n\n", "\n", " "] {
        if let Some(at) = window.rfind(gap).filter(|at| *at > early) {
            return at + gap.len();
        }
    }
    end
}

/// Writes text and marks as Markdown's events come.
#[derive(Default)]
struct Writer {
    text: String,
    length: usize,
    marks: Vec<Mark>,
    open: Vec<Mark>,
    /// The next number of each list that is open; `None`: it has none.
    lists: Vec<Option<u64>>,
    cells: usize,
    quotes: usize,
}

impl Writer {
    fn write(&mut self, text: &str) {
        self.text.push_str(text);
        self.length += units(text);
    }

    /// Begins a line, behind so many line ends.
    fn gap(&mut self, lines: usize) {
        if self.text.is_empty() {
            return;
        }
        let there = self.text.len() - self.text.trim_end_matches('\n').len();
        for _ in there..lines {
            self.write("\n");
        }
    }

    fn begin(&mut self, kind: &'static str) {
        self.open.push(Mark { kind, start: self.length, end: self.length, url: None, language: None });
    }

    fn end(&mut self) {
        if let Some(mark) = self.open.pop() {
            let end = self.length - units(&self.text[self.text.trim_end().len()..]);
            if end > mark.start {
                self.marks.push(Mark { end, ..mark });
            }
        }
    }

    fn marked(&mut self, kind: &'static str, text: &str) {
        self.begin(kind);
        self.write(text);
        self.end();
    }

    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.close(tag),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.write(&text),
            Event::Code(code) => self.marked("code", &code),
            Event::InlineMath(text) | Event::DisplayMath(text) => self.marked("code", &text),
            Event::FootnoteReference(name) => self.write(&format!("[{name}]")),
            Event::SoftBreak | Event::HardBreak => self.write("\n"),
            Event::Rule => {
                self.gap(2);
                self.write("⸻");
            }
            Event::TaskListMarker(done) => self.write(if done { "☑ " } else { "☐ " }),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph if self.lists.is_empty() => self.gap(2),
            Tag::Heading { .. } => {
                self.gap(2);
                self.begin("bold");
            }
            Tag::BlockQuote(_) => {
                self.gap(2);
                self.quotes += 1;
                if self.quotes == 1 {
                    self.begin("blockquote");
                }
            }
            Tag::CodeBlock(kind) => {
                self.gap(2);
                self.begin("pre");
                if let (CodeBlockKind::Fenced(language), Some(mark)) = (kind, self.open.last_mut()) {
                    mark.language = Some(language.to_string()).filter(|language| !language.is_empty());
                }
            }
            Tag::List(first) => {
                self.gap(if self.lists.is_empty() { 2 } else { 1 });
                self.lists.push(first);
            }
            Tag::Item => {
                self.gap(1);
                let deep = self.lists.len().saturating_sub(1);
                let mark = match self.lists.last_mut() {
                    Some(Some(n)) => {
                        *n += 1;
                        format!("{}. ", *n - 1)
                    }
                    _ => "• ".to_owned(),
                };
                self.write(&format!("{}{mark}", "   ".repeat(deep)));
            }
            Tag::Emphasis => self.begin("italic"),
            Tag::Strong => self.begin("bold"),
            Tag::Strikethrough => self.begin("strikethrough"),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.begin("text_link");
                if let Some(mark) = self.open.last_mut() {
                    mark.url = Some(dest_url.to_string());
                }
            }
            Tag::Table(_) => self.gap(2),
            Tag::TableHead => {
                self.cells = 0;
                self.begin("bold");
            }
            Tag::TableRow => {
                self.gap(1);
                self.cells = 0;
            }
            Tag::TableCell => {
                if self.cells > 0 {
                    self.write(" | ");
                }
                self.cells += 1;
            }
            _ => {}
        }
    }

    fn close(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::Item => self.gap(1),
            TagEnd::Heading(_) | TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough | TagEnd::TableHead => {
                self.end();
            }
            TagEnd::CodeBlock => {
                self.end();
                self.gap(1);
            }
            TagEnd::BlockQuote(_) => {
                self.quotes -= 1;
                if self.quotes == 0 {
                    self.end();
                }
                self.gap(1);
            }
            TagEnd::List(_) => drop(self.lists.pop()),
            TagEnd::Link | TagEnd::Image => self.link(),
            _ => {}
        }
    }

    /// Ends a link. One that leads nowhere on the web, or says its own address, is text.
    fn link(&mut self) {
        let Some(mark) = self.open.last() else { return };
        let url = mark.url.clone().unwrap_or_default();
        let start = mark.start;
        let web = url.starts_with("https://") || url.starts_with("http://");
        let shown: Vec<u16> = self.text.encode_utf16().skip(start).collect();
        let shown = String::from_utf16_lossy(&shown);
        if web && shown != url {
            if shown.trim().is_empty() {
                self.write(&url);
            }
            return self.end();
        }
        self.open.pop();
        if !web && shown != url && !url.is_empty() {
            self.write(&format!(" ({url})"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text with each mark as `<kind>…</>` around what it marks.
    fn shown(markdown: &str) -> String {
        let formatted = Formatted::of_markdown(markdown);
        let units: Vec<u16> = formatted.text.encode_utf16().collect();
        let marked = |mark: &Mark| String::from_utf16(&units[mark.start..mark.end]).unwrap();
        let marks: Vec<String> = formatted.marks.iter().map(|m| format!("<{}>{}", m.kind, marked(m))).collect();
        format!("{} {}", formatted.text, marks.join(" ")).trim_end().to_owned()
    }

    #[test]
    fn markdown_becomes_text_with_marks() {
        assert_eq!(shown("Hello *you* and **me**."), "Hello you and me. <italic>you <bold>me");
        assert_eq!(shown("# Weight\n82 kg"), "Weight\n\n82 kg <bold>Weight");
        assert_eq!(shown("- a\n- b\n  1. c\n"), "• a\n• b\n   1. c");
        assert_eq!(shown("```rust\nlet x = 1;\n```"), "let x = 1; <pre>let x = 1;");
        assert_eq!(shown("see [this](https://a.example/x)"), "see this <text_link>this");
        assert_eq!(shown("see <https://a.example/x>"), "see https://a.example/x");
        assert_eq!(shown("[x](javascript:alert)"), "x (javascript:alert)");
        assert_eq!(shown("> said\n> so"), "said\nso <blockquote>said\nso");
        assert_eq!(shown("| a | b |\n|---|---|\n| 1 | 2 |"), "a | b\n1 | 2 <bold>a | b");
        assert_eq!(shown("🙂 **ü**"), "🙂 ü <bold>ü");
        assert_eq!(shown("a_b*c 1.5 - (x) [y] ~z `"), "a_b*c 1.5 - (x) [y] ~z `");
    }

    #[test]
    fn long_texts_are_cut_between_paragraphs_and_keep_their_marks() {
        let paragraph = format!("**{}** end.", "word ".repeat(60).trim());
        let text = vec![paragraph; 20].join("\n\n");
        let parts = Formatted::of_markdown(&text).parts(1000);
        assert!(parts.len() >= 6, "{}", parts.len());
        for part in &parts {
            assert!(units(&part.text) <= 1000 && part.text.ends_with("end."), "{}", part.text);
            let units: Vec<u16> = part.text.encode_utf16().collect();
            for mark in &part.marks {
                let marked = String::from_utf16(&units[mark.start..mark.end]).unwrap();
                assert!(marked.starts_with("word") && marked.ends_with("word"), "{marked}");
            }
        }
        let wall = "🙂".repeat(5000);
        let parts = Formatted::plain(&wall).parts(LONGEST);
        assert_eq!(parts.iter().map(|part| part.text.as_str()).collect::<String>(), wall);
        assert!(parts.iter().all(|part| units(&part.text) <= LONGEST));
    }

    #[test]
    fn no_text_is_lost_or_refused_whatever_it_holds() {
        // A small generator: any mixture of what Markdown gives a meaning to.
        let bits = [
            "*",
            "**",
            "_",
            "`",
            "```\n",
            "[",
            "](",
            ")",
            "<",
            ">",
            "|",
            "\n",
            "\n\n",
            "- ",
            "1. ",
            "# ",
            "🙂",
            "ü",
            "x y",
            "\\",
            "~~",
            "&amp;",
            "http://a.b",
        ];
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..2000 {
            let mut text = String::new();
            for _ in 0..40 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                text.push_str(bits[(state >> 33) as usize % bits.len()]);
            }
            let formatted = Formatted::of_markdown(&text);
            for part in formatted.parts(30) {
                let end = units(&part.text);
                assert!(end <= 30 && !part.text.is_empty());
                assert!(part.marks.iter().all(|mark| mark.start < mark.end && mark.end <= end), "{text:?} {part:?}");
            }
        }
    }
}
