//! Running text out of Markdown: paragraphs of sentences, without code, tables, quotations and what a hook injected.

use super::{block, clean, transcript};

/// Behind these a full stop ends no sentence.
const ABBREVIATIONS: &[&str] =
    &["e.g", "i.e", "vs", "etc", "cf", "approx", "resp", "incl", "no", "dr", "mr", "ms", "fig"];

/// Each paragraph, list item and the like as its sentences.
pub fn paragraphs(markdown: &str) -> Vec<Vec<String>> {
    let mut found: Vec<String> = Vec::new();
    let mut open = false;
    for line in own_lines(markdown) {
        match line {
            Read::Text { text, begins } => match found.last_mut().filter(|_| open && !begins) {
                Some(paragraph) => {
                    paragraph.push(' ');
                    paragraph.push_str(text);
                }
                None => found.push(text.to_owned()),
            },
            Read::Break => {}
        }
        open = matches!(line, Read::Text { .. });
    }
    let sentences = found.iter().map(|paragraph| sentences(&clean::visible(&without_marks(paragraph))));
    sentences.filter(|sentences| !sentences.is_empty()).collect()
}

#[derive(Clone, Copy)]
enum Read<'a> {
    /// Text that belongs to the paragraph before it, unless it begins one.
    Text { text: &'a str, begins: bool },
    /// A paragraph ends here.
    Break,
}

/// In what the lines stand that are passed over.
enum Inside {
    Nothing,
    /// Code; its fence.
    Code(&'static str),
    Block,
    Reminder,
}

fn own_lines(markdown: &str) -> Vec<Read<'_>> {
    let (mut inside, mut lines) = (Inside::Nothing, Vec::new());
    let mut after_break = true;
    for line in markdown.lines() {
        let text = line.trim();
        let (next, read) = match inside {
            Inside::Code(fence) if text.starts_with(fence) => (Inside::Nothing, Read::Break),
            Inside::Block if text == block::END => (Inside::Nothing, Read::Break),
            Inside::Reminder if text.contains("</system-reminder>") => (Inside::Nothing, Read::Break),
            Inside::Nothing => begin(line, text, after_break),
            inside => (inside, Read::Break),
        };
        after_break = matches!(read, Read::Break);
        inside = next;
        lines.push(read);
    }
    lines
}

fn begin<'a>(line: &str, text: &'a str, after_break: bool) -> (Inside, Read<'a>) {
    if let Some(fence) = ["```", "~~~"].into_iter().find(|fence| text.starts_with(fence)) {
        return (Inside::Code(fence), Read::Break);
    }
    if text.contains("<system-reminder") && !text.contains("</system-reminder>") {
        return (Inside::Reminder, Read::Break);
    }
    let is_heading = text.starts_with("=== ") && text.ends_with("===") && text.len() > 8;
    if is_heading && text != block::END {
        return (Inside::Block, Read::Break);
    }
    // A table's row, a quotation, a heading, a rule.
    let is_table = text.starts_with('|') || text.matches(" | ").count() > 1;
    let is_rule = text.len() > 2 && text.chars().all(|c| matches!(c, '-' | '=' | '*' | '_' | ' '));
    let is_code = after_break && (line.starts_with("    ") || line.starts_with('\t')) && item(text).is_none();
    let is_other = text.is_empty() || text.starts_with(['>', '#']) || is_table || is_rule || is_code;
    if is_other || text == block::END || clean::has_tag(text) || transcript::injected(text).is_some() {
        return (Inside::Nothing, Read::Break);
    }
    match item(text) {
        // What is left to do, or was done.
        Some(item) if item.starts_with("[ ]") || item.to_lowercase().starts_with("[x]") => {
            (Inside::Nothing, Read::Break)
        }
        Some(item) => (Inside::Nothing, Read::Text { text: item, begins: true }),
        None => (Inside::Nothing, Read::Text { text, begins: false }),
    }
}

/// The text of a list's item.
fn item(text: &str) -> Option<&str> {
    let bullet = ["- ", "* ", "+ ", "• "].into_iter().find_map(|bullet| text.strip_prefix(bullet));
    let numbered = || {
        let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
        let rest = if rest.len() < text.len() { rest } else { return None };
        rest.strip_prefix(". ").or_else(|| rest.strip_prefix(") "))
    };
    bullet.or_else(numbered).map(str::trim)
}

/// Without marks of bold, and with the words of links alone.
fn without_marks(text: &str) -> String {
    let text = text.replace("**", "");
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(at) = rest.find("](") {
        let (before, after) = rest.split_at(at);
        let link = before.rfind('[').zip(after.find(')'));
        let Some((open, close)) = link else {
            plain.push_str(&rest[..at + 2]);
            rest = &rest[at + 2..];
            continue;
        };
        plain.push_str(&before[..open]);
        plain.push_str(&before[open + 1..]);
        rest = &after[close + 1..];
    }
    plain + rest
}

/// The sentences of a paragraph on one line.
fn sentences(paragraph: &str) -> Vec<String> {
    let (mut found, mut from, mut in_code) = (Vec::new(), 0, false);
    for (at, c) in paragraph.char_indices() {
        in_code ^= c == '`';
        if in_code || !matches!(c, '.' | '!' | '?') {
            continue;
        }
        // `(really?)` stands within a sentence.
        if c != '.' && paragraph[at + 1..].starts_with(')') {
            continue;
        }
        let after = paragraph[at + 1..].trim_start_matches(['"', '\'', ')', '`', '”', '’', '*', '.', '!', '?']);
        let end = paragraph.len() - after.len();
        let Some(next) = after.strip_prefix(' ') else { continue };
        let begins = next.chars().next().is_some_and(|c| !c.is_lowercase());
        if end > from && begins && !(c == '.' && is_abbreviation(&paragraph[from..at])) {
            found.push(paragraph[from..end].trim().to_owned());
            from = end;
        }
    }
    found.push(paragraph[from..].trim().to_owned());
    found.retain(|sentence| !sentence.is_empty());
    found
}

fn is_abbreviation(before: &str) -> bool {
    let word = before.rsplit([' ', '(']).next().unwrap_or_default();
    word.chars().count() == 1 && word.chars().all(char::is_uppercase)
        || ABBREVIATIONS.contains(&word.to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_and_the_rest_is_not() {
        let markdown = "# The pool\n\nOne **pool** per [tenant](https://a.b/c).\nIt is bounded, e.g. by `max. 5 Rows`, in v1.2.3. \
            Good!\n\n```rust\nlet pool = 1;\n```\n| a | b |\n|---|---|\n> quoted\n\n    indented code\n\n1. First item.\n   \
            It goes on.\n- second\n- [ ] to do\n---\nLast (really?) \"one.\" Next";
        let want: Vec<Vec<&str>> = vec![
            vec!["One pool per tenant.", "It is bounded, e.g. by `max. 5 Rows`, in v1.2.3.", "Good!"],
            vec!["First item.", "It goes on."],
            vec!["second"],
            vec!["Last (really?) \"one.\"", "Next"],
        ];
        assert_eq!(paragraphs(markdown), want);
    }

    #[test]
    fn what_a_hook_injected_is_passed_over() {
        let text = "Before.\n=== PROJECT MEMORY (notes) ===\n- [0193c5a1] A memory. (Decision, 2026-11-03)\nMore\n\n\
            === END ===\nBetween.\n<system-reminder>\nObey.\n</system-reminder>\nAfter <system-reminder>one</system-reminder>.\n\n\
            - [0193c5a1] Another memory.\nEnd.\n```\nnever closed.";
        assert_eq!(paragraphs(text), [["Before."], ["Between."], ["End."]]);
    }

    #[test]
    fn odd_texts_are_read() {
        for odd in ["", "\n\n", "...", "](", "[](", "`", "1. ", "é. É", "=== ===", "===", "a](b [c](d) e"] {
            let _ = paragraphs(odd);
        }
        assert_eq!(paragraphs("Ça va. Être là."), [["Ça va.", "Être là."]]);
        assert_eq!(paragraphs("a](b [c](d) e"), [["a](b c e"]]);
    }
}
