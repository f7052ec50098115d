//! What of a letter is read as its words, and what are files.

use std::collections::HashSet;

use super::clean;
use super::files::Files;
use super::html;
use super::letter::ReadOptions;
use super::mime::{Kind, Leaf, Node};

/// Words of a plain text that its HTML may lack and be the same letter still.
const FEW_WORDS: usize = 4;
/// Or this part of them: one in so many.
const FEW_OF: usize = 12;

/// Gathers words and files in the letter's order.
pub(crate) struct Body<'a> {
    pub text: String,
    /// Characters that a person would not have seen.
    pub hidden: usize,
    /// There was more text.
    pub cut: bool,
    pub files: Files<'a>,
    most: usize,
}

/// What a part of an alternative shows.
#[derive(PartialEq)]
enum Shows {
    Html,
    Plain,
    Nothing,
}

impl<'a> Body<'a> {
    pub fn new(options: &'a ReadOptions, more: usize) -> Self {
        let files = Files::new(options, more);
        // Marks and blanks that nobody sees are counted before the text is cut to what is kept.
        let most = options.most_text.saturating_mul(4).max(64 * 1024);
        Self { text: String::new(), hidden: 0, cut: false, files, most }
    }

    pub fn node(&mut self, node: &Node<'_>) {
        match node {
            Node::Leaf(leaf) if is_machine_part(leaf) => {}
            Node::Leaf(leaf) if self.is_text(leaf) => {
                let (text, hidden) = self.shown(leaf);
                self.hidden += hidden;
                self.add(&text);
            }
            Node::Leaf(leaf) => self.files.take(leaf),
            Node::Many { kind, children } if kind.sub == "alternative" => self.alternative(children),
            Node::Many { kind, children } if kind.sub == "related" => self.related(kind, children),
            Node::Many { children, .. } => children.iter().for_each(|child| self.node(child)),
        }
    }

    /// Whether mail programs show a part among the letter's words.
    fn is_text(&self, leaf: &Leaf<'_>) -> bool {
        // The first text is the letter's, whatever it is called.
        is_shown(leaf) && (leaf.file_name().is_none() || self.text.is_empty())
    }

    /// One of several forms of the same: mail programs show the last that they can, and that is the HTML.
    fn alternative(&mut self, children: &[Node<'_>]) {
        let shows: Vec<Shows> = children.iter().map(shows).collect();
        let best = shows.iter().rposition(|shows| *shows == Shows::Html);
        let best = best.or_else(|| shows.iter().rposition(|shows| *shows == Shows::Plain));
        let Some(best) = best else {
            return children.iter().for_each(|child| self.node(child));
        };
        let before = self.text.len();
        self.node(&children[best]);
        let seen: HashSet<String> = words(&self.text[before..]).collect();
        for (at, child) in children.iter().enumerate().filter(|(at, _)| *at != best) {
            match (&shows[at], child) {
                (Shows::Nothing, child) => self.node(child),
                (_, child) => self.unseen(child, &seen),
            }
        }
    }

    /// A form that nobody sees: its words are dropped, and counted if they are others. Its files are files.
    fn unseen(&mut self, node: &Node<'_>, seen: &HashSet<String>) {
        let mut leaves = Vec::new();
        node.gather(&mut leaves);
        for leaf in leaves {
            if !is_shown(leaf) {
                self.files.take(leaf);
                continue;
            }
            let (text, hidden) = self.shown(leaf);
            self.hidden += hidden + different(&text, seen);
        }
    }

    /// A text and what belongs to it. Of the texts only the one that begins it is shown.
    fn related(&mut self, kind: &Kind, children: &[Node<'_>]) {
        let start = kind.parameter("start").map(|id| id.trim_matches(['<', '>']));
        let is_start = |node: &Node<'_>| match (node, start) {
            (Node::Leaf(leaf), Some(start)) => {
                leaf.fields.text("content-id").is_some_and(|id| id.trim_matches(['<', '>']) == start)
            }
            _ => false,
        };
        let root = children.iter().position(is_start).unwrap_or_default();
        for (at, child) in children.iter().enumerate() {
            match child {
                Node::Leaf(leaf) if at != root => self.files.take(leaf),
                child => self.node(child),
            }
        }
    }

    /// The text that a person sees of a part, and how many characters are hidden.
    fn shown(&mut self, leaf: &Leaf<'_>) -> (String, usize) {
        let text = leaf.text();
        if is_html(leaf) {
            let shown = html::shown(&text, self.most);
            // Less than a character is left.
            self.cut |= shown.text.len() + 4 > self.most;
            let (text, hidden) = clean::seen(&shown.text);
            return (text, hidden + shown.hidden);
        }
        let kept = clean::cut(&text, self.most);
        self.cut |= kept.len() < text.len();
        let kept = match leaf.kind.parameter("format").is_some_and(|format| format.eq_ignore_ascii_case("flowed")) {
            true => unflowed(kept, leaf.kind.parameter("delsp").is_some_and(|yes| yes.eq_ignore_ascii_case("yes"))),
            false => kept.to_owned(),
        };
        clean::seen(&kept)
    }

    fn add(&mut self, text: &str) {
        let text = text.trim_end().trim_start_matches('\n');
        if text.trim().is_empty() {
            return;
        }
        if !self.text.is_empty() {
            self.text.push_str("\n\n");
        }
        let kept = clean::cut(text, self.most.saturating_sub(self.text.len()));
        self.cut |= kept.len() < text.len();
        self.text.push_str(kept);
    }
}

fn is_html(leaf: &Leaf<'_>) -> bool {
    leaf.kind.main == "text" && leaf.kind.sub.contains("html")
}

/// A part whose text is shown, unless it is called a file.
fn is_shown(leaf: &Leaf<'_>) -> bool {
    let sub = leaf.kind.sub.as_str();
    let text = leaf.kind.main == "text" && ["plain", "html", "markdown", "enriched", "richtext"].contains(&sub);
    (text || is_html(leaf)) && !leaf.is_attachment()
}

/// What is written for programs, and read as a report.
fn is_machine_part(leaf: &Leaf<'_>) -> bool {
    let sub = leaf.kind.sub.as_str();
    let kinds =
        ["delivery-status", "global-delivery-status", "disposition-notification", "global-disposition-notification"];
    leaf.kind.main == "message" && kinds.contains(&sub)
}

fn shows(node: &Node<'_>) -> Shows {
    let mut leaves = Vec::new();
    node.gather(&mut leaves);
    leaves.retain(|leaf| is_shown(leaf));
    // An HTML without anything in it is nothing that a program would show instead of the text.
    let html = |leaf: &&&Leaf<'_>| leaf.kind.sub == "html" && !leaf.body.trim_ascii().is_empty();
    match leaves.iter().find(html) {
        Some(_) => Shows::Html,
        None if leaves.iter().any(|leaf| leaf.kind.sub != "html") => Shows::Plain,
        None => Shows::Nothing,
    }
}

/// Lines that were broken to fit are one again (RFC 3676).
fn unflowed(text: &str, delete_space: bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut lines = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).peekable();
    while let Some(line) = lines.next() {
        let depth = |line: &str| line.bytes().take_while(|byte| *byte == b'>').count();
        let unstuffed = match line.strip_prefix(' ') {
            Some(rest) if out.ends_with('\n') || out.is_empty() => rest,
            _ => line,
        };
        let goes_on = line.ends_with(' ') && line != "-- " && line.trim_end() != ">" && depth(line) == 0;
        let next_fits = lines.peek().is_some_and(|next| depth(next) == 0 && !next.is_empty() && *next != "-- ");
        match goes_on && next_fits {
            true => out.push_str(if delete_space { unstuffed.trim_end_matches(' ') } else { unstuffed }),
            false => {
                out.push_str(unstuffed);
                if lines.peek().is_some() {
                    out.push('\n');
                }
            }
        }
    }
    out
}

/// The words of a text as they are compared; addresses of the web and notes of pictures are none.
fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split_whitespace()
        .filter(|token| !token.contains("://") && !token.starts_with("www.") && !token.starts_with("[cid:"))
        .flat_map(|token| token.split(|c: char| !c.is_alphanumeric()))
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
}

/// Characters of the words that are not among those that are seen; none if it is the same letter in another form.
fn different(text: &str, seen: &HashSet<String>) -> usize {
    let (mut all, mut missing, mut characters) = (0, 0, 0);
    for word in words(text) {
        all += 1;
        if !seen.contains(&word) {
            missing += 1;
            characters += word.chars().count();
        }
    }
    // Of a short text every word counts.
    let few = match all <= FEW_WORDS * 2 {
        true => missing * 2 < all,
        false => missing <= FEW_WORDS.max(all / FEW_OF),
    };
    if few { 0 } else { characters }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_form_of_the_same_words_is_no_other_text() {
        let seen: HashSet<String> =
            words("Dear Ada, the meeting is on Friday at ten. See the plan here. Bob").collect();
        for same in [
            "Dear Ada,\n\nthe meeting is on FRIDAY at ten. See the plan here <https://example.org/pay/now>. Bob",
            "* Dear Ada\n[image: logo] the meeting is on Friday at ten",
            "",
        ] {
            assert_eq!(different(same, &seen), 0, "{same:?}");
        }
        for other in ["Send the money to Mallory today please, at once and quietly", "Pay Mallory", "pay"] {
            assert!(different(other, &seen) > 2, "{other:?}");
        }
    }

    #[test]
    fn flowed_lines_are_one() {
        for (from, to) in [
            ("a \nb\nc", "a b\nc"),
            ("a \r\nb \r\nc", "a b c"),
            ("a\n-- \nb", "a\n-- \nb"),
            ("a \n> b \n> c\nd", "a \n> b \n> c\nd"),
            (" From x\n > y", "From x\n> y"),
            ("a ", "a "),
        ] {
            assert_eq!(unflowed(from, false), to, "{from:?}");
        }
        assert_eq!(unflowed("日 \n本", true), "日本");
    }
}
