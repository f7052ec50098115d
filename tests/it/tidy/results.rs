//! An error that others handle has a type: nothing public returns `Result<_, String>`.

use super::baseline::{Finding, demand_no_more};
use super::crates::{crate_of, is_test, sources};
use super::source::{Source, Token};

/// The lines of public items whose signature or fields hold a `Result` with `String` for its error.
fn untyped(source: &Source) -> Vec<usize> {
    let tokens = &source.tokens;
    let text = |n: usize| tokens.get(n).map_or("", |t: &Token| t.text.as_str());
    let mut found = Vec::new();
    for n in (0..tokens.len()).filter(|n| text(*n) == "pub" && text(n + 1) != "(") {
        let kind = (n + 1..n + 6).map(text).find(|t| ["fn", "struct", "enum", "trait", "type"].contains(t));
        // Of a function its signature, of the rest all of it; a trait's bodies hold no signatures.
        let whole = matches!(kind, Some("struct" | "enum" | "trait"));
        let end = match kind {
            Some(_) => end_of(tokens, n, whole),
            // A field.
            None => (n..tokens.len()).find(|at| [",", "}", ";"].contains(&text(*at))).unwrap_or(n),
        };
        found.extend(
            (n..end).filter(|at| text(*at) == "Result" && error_is_string(tokens, *at)).map(|at| tokens[at].line),
        );
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn end_of(tokens: &[Token], from: usize, whole: bool) -> usize {
    let mut depth = 0_usize;
    for (n, token) in tokens.iter().enumerate().skip(from) {
        match token.text.as_str() {
            "{" if !whole && depth == 0 => return n,
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => {
                depth = depth.saturating_sub(1);
                if depth == 0 && token.text == "}" {
                    return n;
                }
            }
            ";" if depth == 0 => return n,
            _ => {}
        }
    }
    tokens.len()
}

/// Whether the `Result` at `at` has two arguments of which the second is `String`.
fn error_is_string(tokens: &[Token], at: usize) -> bool {
    let text = |n: usize| tokens.get(n).map_or("", |t| t.text.as_str());
    if text(at + 1) != "<" {
        return false;
    }
    let (mut depth, mut comma) = (0_usize, None);
    for n in at + 1..tokens.len() {
        match text(n) {
            "<" | "(" | "[" => depth += 1,
            // The arrow of a function's type is no bracket.
            ">" if text(n - 1) == "-" => {}
            ">" | ")" | "]" => {
                depth -= 1;
                if depth == 0 {
                    return comma.is_some_and(|comma| n == comma + 2 && text(comma + 1) == "String");
                }
            }
            "," if depth == 1 => comma = Some(n),
            ";" | "{" => return false,
            _ => {}
        }
    }
    false
}

#[test]
fn public_results_have_typed_errors() {
    let mut found = Vec::new();
    for source in sources().iter().filter(|source| !is_test(&source.path)) {
        let say = |line| Finding {
            counts_as: crate_of(&source.path),
            text: format!("{}:{line}: give the error a type; `String` tells nobody what failed", source.path),
        };
        found.extend(untyped(source).into_iter().map(say));
    }
    demand_no_more("untyped-errors", &found);
}

#[test]
fn errors_of_text_are_found() {
    let text = "pub fn a() -> Result<Vec<(u8, String)>, String> { x }\npub(crate) fn b() -> Result<(), String> { y }
        pub trait T {\n fn c(&self) -> Result<(), String>;\n fn d() -> Result<String, Error>;\n }
        fn e() -> Result<(), String> { z }\npub type F = Box<dyn Fn(u8) -> Result<u8, String>>;\npub struct S { pub f: Result<(), String> }";
    assert_eq!(untyped(&Source::parse("src/a/b.rs", text)), [1, 4, 8, 9]);
}
