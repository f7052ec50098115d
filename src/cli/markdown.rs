//! Markdown as a terminal shows it: headings, emphasis, code, lists, quotes, links. Text that means nothing in Markdown
//! stays as it is. It goes line by line, so that a text can be shown while it is written.

use super::out::{Out, Tone};
use super::text::{block, one_line};

const BOLD: &str = "1";
const ITALIC: &str = "3";
const UNDERLINED: &str = "4";
const STRUCK: &str = "9";
const CODE: &str = "36";
const FAINT: &str = "2";

/// What somebody says, line by line, with their name before its first.
pub struct Speech {
    out: Out,
    /// What stands before the first line; `None` once that is shown.
    name: Option<String>,
    /// Empty lines that wait for a line behind them.
    gaps: usize,
    /// The fence that ends the code, where the text is in some.
    fence: Option<String>,
    /// The begin of a line whose end is not there yet.
    rest: String,
}

impl Speech {
    pub fn new(out: &Out, who: &str, tone: Tone) -> Self {
        let name = out.paint(tone, &format!("{}:", one_line(who, 40)));
        Self { out: out.clone(), name: Some(name), gaps: 0, fence: None, rest: String::new() }
    }

    /// Shows one whole text.
    pub fn say(out: &Out, who: &str, tone: Tone, text: &str) {
        let mut speech = Self::new(out, who, tone);
        if out.screen.is_none() {
            // Programs read it too: it is left as it is.
            let name = speech.name.take().unwrap_or_default();
            return out.line(&format!("{name} {}", block(text)));
        }
        speech.push(text);
        speech.end();
    }

    /// Goes on with this text: shows its whole lines, and keeps the begin of the next.
    pub fn push(&mut self, text: &str) {
        self.rest.push_str(&base::text::clean(text));
        while let Some(end) = self.rest.find('\n') {
            let line: String = self.rest.drain(..=end).collect();
            self.line(line.trim_end());
        }
    }

    /// The text has ended.
    pub fn end(&mut self) {
        let line = std::mem::take(&mut self.rest);
        self.line(line.trim_end());
        if let Some(name) = self.name.take() {
            self.out.line(&name);
        }
    }

    /// The begin of a line whose end is not there yet.
    pub fn unfinished(&self) -> &str {
        &self.rest
    }

    fn line(&mut self, line: &str) {
        if line.is_empty() && self.fence.is_none() {
            // None before the first line and behind the last.
            self.gaps += usize::from(self.name.is_none());
            return;
        }
        let shown = rendered(line, &mut self.fence, self.out.colour);
        (0..std::mem::take(&mut self.gaps)).for_each(|_| self.out.line(""));
        match self.name.take() {
            Some(name) => self.out.line(&format!("{name} {shown}")),
            None => self.out.line(&shown),
        }
    }
}

/// A line as the terminal shows it. Without colour only signs change.
fn rendered(line: &str, fence: &mut Option<String>, colour: bool) -> String {
    let paint = |style: &str, text: &str| if colour { format!("\x1b[{style}m{text}\x1b[0m") } else { text.to_owned() };
    let body = line.trim_start();
    let indent = &line[..line.len() - body.len()];
    let marks: String = body.chars().take_while(|c| *c == '`' || *c == '~').collect();
    let is_fence = marks.len() >= 3 && (marks.starts_with("```") || marks.starts_with("~~~"));
    match fence {
        Some(begun) if is_fence && marks.starts_with(begun.as_str()) && body == marks => {
            *fence = None;
            return paint(FAINT, line);
        }
        Some(_) => return paint(CODE, line),
        None if is_fence => {
            *fence = Some(marks);
            return paint(FAINT, line);
        }
        None => {}
    }
    let level = body.chars().take_while(|c| *c == '#').count();
    if (1..=6).contains(&level)
        && let Some(head) = body[level..].strip_prefix(' ')
    {
        let head = inline(head.trim().trim_end_matches('#').trim_end(), false);
        return paint(BOLD, &head);
    }
    let bare: String = body.chars().filter(|c| *c != ' ').collect();
    if bare.len() >= 3 && ["-", "*", "_"].iter().any(|c| bare.chars().all(|b| b.to_string() == **c)) {
        return paint(FAINT, "────────");
    }
    if let Some(quoted) = body.strip_prefix('>') {
        return format!("{indent}{} {}", paint(FAINT, "│"), inline(quoted.trim_start(), colour));
    }
    if let Some(item) = ["- ", "* ", "+ "].iter().find_map(|mark| body.strip_prefix(mark)) {
        return format!("{indent}• {}", inline(item, colour));
    }
    format!("{indent}{}", inline(body, colour))
}

/// What marks a piece of a line, and how that piece is shown. Longer marks come before those that begin them.
const MARKS: [(&str, &str); 6] =
    [("**", BOLD), ("__", BOLD), ("~~", STRUCK), ("*", ITALIC), ("_", ITALIC), ("`", CODE)];

/// The text of a line, with its pieces in their style.
fn inline(text: &str, colour: bool) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(next) = text[at..].chars().next() {
        let rest = &text[at..];
        if next == '\\' && rest[1..].starts_with(|c: char| c.is_ascii_punctuation()) {
            shown.push_str(&rest[1..2]);
            at += 2;
        } else if let Some((mark, style, inner)) = piece(text, at) {
            let nested = if style == CODE { inner.to_owned() } else { inline(inner, false) };
            shown.push_str(&if colour { format!("\x1b[{style}m{nested}\x1b[0m") } else { nested });
            at += inner.len() + 2 * mark.len();
        } else if let Some((label, address, length)) = link(rest) {
            let label = inline(label, false);
            let named = if colour { format!("\x1b[{UNDERLINED}m{label}\x1b[0m") } else { label.clone() };
            shown.push_str(&if label == address { named } else { format!("{named} ({address})") });
            at += length;
        } else {
            shown.push(next);
            at += next.len_utf8();
        }
    }
    shown
}

/// A marked piece that begins here: its mark, its style, and what stands between.
fn piece(text: &str, at: usize) -> Option<(&'static str, &'static str, &str)> {
    let rest = &text[at..];
    let (mark, style) = MARKS.iter().find(|(mark, _)| rest.starts_with(mark))?;
    let inside = &rest[mark.len()..];
    let word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    // `snake_case` and `2 * 3` are marked by nothing.
    if mark.starts_with('_') && word(text[..at].chars().next_back()) || inside.starts_with(char::is_whitespace) {
        return None;
    }
    let end = inside.match_indices(mark).map(|(end, _)| end).find(|end| {
        let (inner, behind) = (&inside[..*end], &inside[end + mark.len()..]);
        let other = mark.len() == 1 && *style != CODE && (behind.starts_with(mark) || inner.ends_with(mark));
        let in_word = mark.starts_with('_') && word(behind.chars().next());
        !(inner.is_empty() || inner.ends_with(char::is_whitespace) || other || in_word)
    })?;
    Some((mark, style, &inside[..end]))
}

/// `[label](address)`: label, address, and how long it is.
fn link(text: &str) -> Option<(&str, &str, usize)> {
    let (label, rest) = text.strip_prefix('[')?.split_once("](")?;
    let (address, _) = rest.split_once(')')?;
    let plain = !label.contains(['[', ']']) && !label.is_empty() && !address.contains(char::is_whitespace);
    plain.then_some((label, address, label.len() + address.len() + 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str, colour: bool) -> String {
        let mut fence = None;
        text.lines().map(|line| rendered(line, &mut fence, colour)).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn pieces_have_their_style() {
        for (text, shown) in [
            ("# Today", "\x1b[1mToday\x1b[0m"),
            ("a **bold** word", "a \x1b[1mbold\x1b[0m word"),
            ("*so* and _so_", "\x1b[3mso\x1b[0m and \x1b[3mso\x1b[0m"),
            ("run `a * b`", "run \x1b[36ma * b\x1b[0m"),
            ("[here](https://a.example/x)", "\x1b[4mhere\x1b[0m (https://a.example/x)"),
            ("> quoted", "\x1b[2m│\x1b[0m quoted"),
            ("```sh\nls *x*\n```", "\x1b[2m```sh\x1b[0m\n\x1b[36mls *x*\x1b[0m\n\x1b[2m```\x1b[0m"),
        ] {
            assert_eq!(lines(text, true), shown, "{text}");
        }
    }

    #[test]
    fn without_colour_only_signs_change() {
        let text = "## Plan\n- one **thing**\n  * two\n1. three\n---\n`code` [x](y)";
        assert_eq!(lines(text, false), "Plan\n• one thing\n  • two\n1. three\n────────\ncode x (y)");
    }

    #[test]
    fn what_marks_nothing_stays() {
        for text in
            ["2 * 3 * 4", "snake_case_name", "a * b", "**", "5 > 3", "[x] done", "#hash", "\u{1F600} *", "[a](b"]
        {
            assert_eq!(lines(text, true), text, "{text}");
        }
        assert_eq!(lines("\\*no\\*", true), "*no*");
    }

    #[test]
    fn names_stand_before_the_first_line_and_controls_go() {
        let mut speech = Speech::new(&crate::out::tests::plain(), "health", Tone::Head);
        speech.rest = "begun".to_owned();
        speech.push(" \x1b[2Jhere");
        assert_eq!(speech.unfinished(), "begun [2Jhere");
    }
}
