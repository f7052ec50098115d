//! The house's words: `forbidden.txt` lists names that were given up, each with what to say instead.
//!
//! A line is `OLD NEW…`. `OLD` is an identifier, or a file's name, that is written just so. With `*` before it, it is a
//! word that none has among its parts, whatever the case (`*desk` finds `RouteDesk` and `desk_of`); of several words in
//! a row (`*ask_again`), all of them. A line with `#` is a comment.

use super::baseline::{Finding, demand_no_more};
use super::crates::sources;
use super::root;
use super::source::Source;

struct Forbidden {
    /// The identifier as it is written, or its words in lower case.
    exact: Option<String>,
    words: Vec<String>,
    instead: String,
}

fn list(text: &str) -> Vec<Forbidden> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let read = |line: &str| {
        let (old, instead) = line.split_once(char::is_whitespace).unwrap_or((line, "another word"));
        let exact = (!old.starts_with('*')).then(|| old.to_owned());
        Forbidden { words: words(old), exact, instead: instead.trim().to_owned() }
    };
    lines.map(read).collect()
}

/// The words of an identifier in lower case: `route`, `desk` of `RouteDesk` and of `ROUTE_DESK`.
fn words(name: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut small = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || c.is_uppercase() && small {
            found.push(String::new());
        }
        small = c.is_lowercase() || c.is_numeric();
        if let Some(last) = found.last_mut().filter(|_| c.is_alphanumeric()) {
            last.extend(c.to_lowercase());
        }
    }
    found.retain(|word| !word.is_empty());
    found
}

fn refused<'a>(name: &str, forbidden: &'a [Forbidden]) -> Option<&'a Forbidden> {
    let own = words(name);
    forbidden.iter().find(|old| match &old.exact {
        Some(exact) => exact == name,
        None => own.windows(old.words.len()).any(|row| row == old.words),
    })
}

fn old_names(source: &Source, forbidden: &[Forbidden]) -> Vec<Finding> {
    let say = |place: String, name: &str| {
        refused(name, forbidden).map(|old| Finding {
            counts_as: old.exact.clone().unwrap_or_else(|| old.words.join("_")),
            text: format!("{place}: `{name}`: say {} instead", old.instead),
        })
    };
    let mut found = Vec::new();
    for part in source.path.trim_end_matches(".rs").split('/') {
        found.extend(say(source.path.clone(), part));
    }
    let names = source.tokens.iter().filter(|token| token.text.starts_with(|c: char| c.is_alphabetic() || c == '_'));
    found.extend(names.filter_map(|token| say(format!("{}:{}", source.path, token.line), &token.text)));
    found
}

#[test]
fn old_names_do_not_come_back() {
    let text =
        std::fs::read_to_string(root().join("tests/it/tidy/forbidden.txt")).expect("tests/it/tidy/forbidden.txt");
    let forbidden = list(&text);
    let found: Vec<_> = sources().iter().flat_map(|source| old_names(source, &forbidden)).collect();
    demand_no_more("old-names", &found);
}

#[test]
fn old_names_are_found_as_words_and_not_as_letters() {
    let forbidden = list("# why\n*desk the service's name\nNot an …Error\n*ask_again retry\n");
    let text = "struct RouteDesk; fn desktop() -> Not { not(); ask_again_later(); ASK; again } // desk";
    let found: Vec<_> = old_names(&Source::parse("src/x/desk.rs", text), &forbidden);
    let found: Vec<_> = found.iter().map(|f| f.text.split('`').nth(1).unwrap_or_default()).collect();
    assert_eq!(found, ["desk", "RouteDesk", "Not", "ask_again_later"]);
    assert_eq!(words("HTTPServer2Go_x"), ["httpserver2", "go", "x"]);
}
