//! Just enough of Rust's grammar to see which paths a file names: comments, strings and `use` trees.
//!
//! Not a parser: what it can't read it passes over, and a path made by a macro is not seen.

use std::path::{Path, PathBuf};

/// One Rust file of the repository.
pub struct Source {
    /// Relative to the repository, with `/`.
    pub path: String,
    pub lines: usize,
    /// Code and strings without comments, line by line.
    pub spoken: Vec<String>,
    pub tokens: Vec<Token>,
    /// Every string, as it is written between its quotes.
    pub literals: Vec<Literal>,
    /// Every path of two segments or more, and every imported name, in full.
    pub paths: Vec<Named>,
}

/// A path and where it stands: `use a::{b, c::d}` on line 3 is `a::b` and `a::c::d`, both on line 3.
#[derive(Debug, PartialEq, Eq)]
pub struct Named {
    pub line: usize,
    pub segments: Vec<String>,
}

/// A string and the line on which it starts.
#[derive(Debug, PartialEq, Eq)]
pub struct Literal {
    pub line: usize,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub line: usize,
    pub text: String,
}

impl Named {
    pub fn ends_with(&self, tail: &[&str]) -> bool {
        self.segments.len() >= tail.len() && self.segments[self.segments.len() - tail.len()..] == *tail
    }

    pub fn is(&self, whole: &[&str]) -> bool {
        self.segments == whole
    }
}

impl Source {
    pub fn read(root: &Path, file: &Path) -> Self {
        let text = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let path = file.strip_prefix(root).unwrap_or(file).to_string_lossy().replace('\\', "/");
        Self::parse(&path, &text)
    }

    pub fn parse(path: &str, text: &str) -> Self {
        let (spoken, code) = strip(text);
        let tokens = tokens(&code);
        let paths = paths(&tokens);
        Self {
            path: path.to_owned(),
            lines: text.lines().count(),
            spoken: spoken.lines().map(str::to_owned).collect(),
            tokens,
            literals: literals(text),
            paths,
        }
    }

    /// The same file without what stands under `#[cfg(test)]`.
    pub fn without_tests(mut self) -> Self {
        let tested = tested(&self.tokens);
        let shipped = |line: usize| !tested.iter().any(|lines| lines.contains(&line));
        self.tokens.retain(|token| shipped(token.line));
        self.literals.retain(|literal| shipped(literal.line));
        self.paths.retain(|named| shipped(named.line));
        self
    }

    /// The tokens in a row, wherever they stand: their lines.
    pub fn find(&self, row: &[&str]) -> Vec<usize> {
        let here = |w: &[Token]| w.iter().map(|t| t.text.as_str()).eq(row.iter().copied());
        self.tokens.windows(row.len()).filter(|w| here(w)).map(|w| w[0].line).collect()
    }
}

/// All `.rs` files below `dir`, in order.
pub fn rust_files(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.expect("the directory can be read").path();
        if path.is_dir() {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The text without comments, and without comments and strings. Lines stay where they are.
fn strip(text: &str) -> (String, String) {
    let chars: Vec<char> = text.chars().collect();
    let (mut spoken, mut code) = (String::new(), String::new());
    let mut at = 0;
    while at < chars.len() {
        let end = piece(&chars, at);
        let piece = &chars[at..end];
        let comment = piece.starts_with(&['/', '/']) || piece.starts_with(&['/', '*']);
        let string = !comment && piece.len() > 1 && (piece.contains(&'"') || piece[0] == '\'');
        for &c in piece {
            let blank = if c == '\n' { '\n' } else { ' ' };
            spoken.push(if comment { blank } else { c });
            code.push(if comment || string { blank } else { c });
        }
        at = end;
    }
    (spoken, code)
}

/// The strings of a text, and where each begins.
fn literals(text: &str) -> Vec<Literal> {
    let chars: Vec<char> = text.chars().collect();
    let (mut at, mut line, mut found) = (0, 1, Vec::new());
    while at < chars.len() {
        let end = piece(&chars, at);
        let piece = &chars[at..end];
        if matches!(piece[0], '"' | 'r') && piece.len() > 1 {
            let text: String = piece.iter().collect();
            let text = text.trim_start_matches('r').trim_matches('#');
            let text = text.strip_prefix('"').and_then(|t| t.strip_suffix('"')).unwrap_or(text);
            found.push(Literal { line, text: text.to_owned() });
        }
        line += piece.iter().filter(|c| **c == '\n').count();
        at = end;
    }
    found
}

/// The lines of each item under `#[cfg(test)]`: to its last brace, or its semicolon.
fn tested(tokens: &[Token]) -> Vec<std::ops::RangeInclusive<usize>> {
    let row = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut found = Vec::new();
    for start in 0..tokens.len().saturating_sub(row.len()) {
        if !tokens[start..start + row.len()].iter().map(|t| t.text.as_str()).eq(row) {
            continue;
        }
        let mut depth = 0_usize;
        for token in &tokens[start + row.len()..] {
            match token.text.as_str() {
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 && matches!(token.text.as_str(), "}" | ";" | ",") {
                found.push(tokens[start].line..=token.line);
                break;
            }
        }
    }
    found
}

/// Where the comment, the string, the character or the single letter that starts at `at` ends.
fn piece(chars: &[char], at: usize) -> usize {
    let peek = |n: usize| chars.get(at + n).copied().unwrap_or('\0');
    let until =
        |from: usize, stop: &dyn Fn(usize) -> bool| (from..chars.len()).find(|&i| stop(i)).unwrap_or(chars.len());
    match (peek(0), peek(1)) {
        ('/', '/') => until(at, &|i| chars[i] == '\n'),
        ('/', '*') => {
            let (mut depth, mut i) = (0, at);
            while i < chars.len() {
                match (chars[i], chars.get(i + 1)) {
                    ('/', Some('*')) => (depth, i) = (depth + 1, i + 2),
                    ('*', Some('/')) => (depth, i) = (depth - 1, i + 2),
                    _ => i += 1,
                }
                if depth == 0 {
                    return i;
                }
            }
            chars.len()
        }
        ('"', _) => {
            let mut i = at + 1;
            while i < chars.len() && chars[i] != '"' {
                i += if chars[i] == '\\' { 2 } else { 1 };
            }
            (i + 1).min(chars.len())
        }
        ('r', '"' | '#') if at == 0 || !is_word(chars[at - 1]) || chars[at - 1] == 'b' => {
            let open = until(at + 1, &|i| chars[i] != '#');
            if chars.get(open) != Some(&'"') {
                return at + 1; // r#type: a name, not a string
            }
            let hashes = open - at - 1;
            let closes = |i: usize| chars[i] == '"' && (1..=hashes).all(|n| chars.get(i + n) == Some(&'#'));
            (until(open + 1, &closes) + 1 + hashes).min(chars.len())
        }
        ('\'', '\\') => until(at + 3, &|i| chars[i] == '\'') + 1,
        ('\'', _) if peek(2) == '\'' => at + 3,
        _ => at + 1,
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Names, `::`, and every other sign by itself.
fn tokens(code: &str) -> Vec<Token> {
    let mut found = Vec::new();
    for (number, line) in code.lines().enumerate() {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let length = match first {
                c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
                ':' if rest.starts_with("::") => 2,
                c => c.len_utf8(),
            };
            found.push(Token { line: number + 1, text: rest[..length].to_owned() });
            rest = rest[length..].trim_start();
        }
    }
    found
}

fn paths(tokens: &[Token]) -> Vec<Named> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let name = tokens[at].text.starts_with(is_word);
        if tokens[at].text == "use" {
            at = use_tree(tokens, at + 1, &[], &mut found);
        } else if name && tokens.get(at + 1).is_some_and(|t| t.text == "::") {
            let mut segments = vec![tokens[at].text.clone()];
            let line = tokens[at].line;
            at += 1;
            while tokens.get(at).is_some_and(|t| t.text == "::") {
                let Some(next) = tokens.get(at + 1).filter(|t| t.text.starts_with(is_word)) else { break };
                segments.push(next.text.clone());
                at += 2;
            }
            found.push(Named { line, segments });
        } else {
            at += 1;
        }
    }
    found
}

/// Reads one tree from `at`; returns where it ends.
fn use_tree(tokens: &[Token], mut at: usize, prefix: &[String], found: &mut Vec<Named>) -> usize {
    let mut segments = prefix.to_vec();
    while let Some(token) = tokens.get(at) {
        match token.text.as_str() {
            "::" => at += 1,
            "as" => at += 2,
            "{" => {
                at += 1;
                while tokens.get(at).is_some_and(|t| t.text != "}") {
                    // At least one further, so that a sign which no tree has can't keep us on the spot.
                    at = if tokens[at].text == "," {
                        at + 1
                    } else {
                        use_tree(tokens, at, &segments, found).max(at + 1)
                    };
                }
                return at + 1;
            }
            text if text.starts_with(is_word) || text == "*" => {
                if text != "self" || segments.is_empty() {
                    segments.push(token.text.clone());
                }
                at += 1;
            }
            _ => break,
        }
    }
    if !segments.is_empty() {
        found.push(Named { line: tokens[at - 1].line, segments });
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> Vec<String> {
        Source::parse("x.rs", text).paths.iter().map(|p| format!("{}:{}", p.line, p.segments.join("::"))).collect()
    }

    #[test]
    fn use_trees_are_spelt_out() {
        let text = "use crate::{\n    base::{Clock, task},\n    store::Store as S,\n    self,\n};\npub use a::b::*;\nfn f() {}";
        assert_eq!(
            named(text),
            ["2:crate::base::Clock", "2:crate::base::task", "3:crate::store::Store", "4:crate", "6:a::b::*"]
        );
        assert_eq!(named("use tokio::task::{self, JoinHandle};"), ["1:tokio::task", "1:tokio::task::JoinHandle"]);
    }

    #[test]
    fn paths_in_expressions_are_seen_and_words_in_strings_and_comments_are_not() {
        let text = r##"
            // crate::cli::a
            /* crate::cli::b /* crate::cli::c */ crate::cli::d */
            let s = "crate::cli::e \" crate::cli::f";
            let r = r#"crate::cli::g " crate::cli::h"#;
            let c = ['"', '\'', 'x'];
            fn g<'a>(x: &'a str) -> crate::base::Secret<'a> { crate :: store :: open ( x ) }
        "##;
        assert_eq!(named(text), ["7:crate::base::Secret", "7:crate::store::open"]);
    }

    #[test]
    fn strings_stay_among_the_spoken_words() {
        let source = Source::parse("x.rs", "let a = \"claude\"; // gemini\n");
        assert!(source.spoken[0].contains("claude") && !source.spoken[0].contains("gemini"), "{:?}", source.spoken);
    }
}
