//! Just enough of SQL's grammar to see which tables a statement reads and which it writes.
//!
//! Keywords count in upper case only, as the house writes them, so that prose is no statement. A table whose name is
//! put in by `format!` is not seen.

/// What a statement does to a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    Write,
    Read,
}

/// A table that a text names, and how many lines below the text's first.
#[derive(Debug, PartialEq, Eq)]
pub struct Use {
    pub line: usize,
    pub access: Access,
    pub table: String,
}

struct Word {
    line: usize,
    text: String,
}

/// Whether the text is a statement by itself, rather than a piece of one or prose.
pub fn is_statement(text: &str) -> bool {
    let words = words(text);
    let first = words.iter().map(|w| w.text.as_str()).find(|w| *w != "(").unwrap_or_default();
    let second = words.get(1).map_or("", |w| w.text.as_str());
    match first {
        "SELECT" => words.len() > 2,
        "UPDATE" => words.iter().any(|w| w.text == "SET"),
        "INSERT" | "MERGE" => second == "INTO",
        "DELETE" => second == "FROM",
        "WITH" => words.iter().any(|w| w.text == "AS"),
        _ => false,
    }
}

/// Every table that the text reads or writes, in order. Names of its own `WITH` queries are no tables.
pub fn uses(text: &str) -> Vec<Use> {
    let words = words(text);
    let at = |n: usize| words.get(n).map_or("", |w| w.text.as_str());
    let own: Vec<&str> = (0..words.len())
        .filter(|n| at(n + 1) == "AS" && (at(n + 2) == "(" || at(n + 3) == "(" && at(n + 2).ends_with("MATERIALIZED")))
        .map(at)
        .collect();
    let mut found = Vec::new();
    for n in 0..words.len() {
        let before = if n == 0 { "" } else { at(n - 1) };
        let (access, first) = match at(n) {
            "INTO" if before == "INSERT" || before == "MERGE" => (Access::Write, n + 1),
            "UPDATE" if !["FOR", "DO", "KEY", "OR", "ON", "BEFORE", "AFTER", "OF"].contains(&before) => {
                (Access::Write, n + 1)
            }
            "FROM" if before == "DELETE" => (Access::Write, n + 1),
            "TRUNCATE" => (Access::Write, n + 1),
            "FROM" if before != "DISTINCT" => (Access::Read, n + 1),
            "JOIN" | "USING" => (Access::Read, n + 1),
            _ => continue,
        };
        tables(&words, first, |word, table| {
            if !own.contains(&table) {
                found.push(Use { line: word.line, access, table: table.to_owned() });
            }
        });
    }
    found
}

/// The tables of a list such as `a AS x, LATERAL f(y), (SELECT …) AS z, shared.b`, which starts at `at`.
fn tables(words: &[Word], mut at: usize, mut found: impl FnMut(&Word, &str)) {
    let text = |n: usize| words.get(n).map_or("", |w| w.text.as_str());
    loop {
        while ["ONLY", "LATERAL", "TABLE"].contains(&text(at)) {
            at += 1;
        }
        if text(at) == "(" {
            at = past_group(words, at);
        } else if text(at).starts_with(is_word) {
            while text(at + 1) == "." {
                at += 2;
            }
            if text(at + 1) == "(" && !inserted(words, at) {
                at = past_group(words, at + 1);
            } else if let Some(word) = words.get(at) {
                found(word, &word.text);
                at += 1;
            }
        } else {
            return;
        }
        // An alias, with names of its columns or without.
        if text(at) == "AS" {
            at += 1;
        }
        if text(at).starts_with(is_word) && !text(at).chars().all(|c| c.is_uppercase()) {
            at += 1;
            if text(at) == "(" {
                at = past_group(words, at);
            }
        }
        if text(at) != "," {
            return;
        }
        at += 1;
    }
}

/// Whether the name at `at` is what an `INSERT INTO` names, where a list of columns may follow.
fn inserted(words: &[Word], at: usize) -> bool {
    let mut at = at;
    while at >= 2 && words[at - 1].text == "." {
        at -= 2;
    }
    at >= 1 && words[at - 1].text == "INTO"
}

fn past_group(words: &[Word], open: usize) -> usize {
    let mut depth = 0_usize;
    for (n, word) in words.iter().enumerate().skip(open) {
        match word.text.as_str() {
            "(" => depth += 1,
            ")" if depth <= 1 => return n + 1,
            ")" => depth -= 1,
            _ => {}
        }
    }
    words.len()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '{'
}

/// Names without their quotes, `{…}` as one name, and every other sign by itself; no comments, no SQL strings.
fn words(text: &str) -> Vec<Word> {
    let chars: Vec<char> = text.chars().collect();
    let (mut at, mut line, mut found) = (0, 0, Vec::new());
    while at < chars.len() {
        let next = chars.get(at + 1).copied().unwrap_or_default();
        let end_of = |stop: char| (at + 1..chars.len()).find(|&i| chars[i] == stop).unwrap_or(chars.len());
        let end = match (chars[at], next) {
            // What Rust's strings write: an escaped sign, or a line that goes on.
            ('\\', '"' | '\n') => at + 1,
            ('\\', _) => at + 2,
            ('-', '-') => end_of('\n'),
            ('/', '*') => {
                (at + 2..chars.len()).find(|&i| chars[i - 1] == '*' && chars[i] == '/').map_or(chars.len(), |i| i + 1)
            }
            ('\'', _) => end_of('\'') + 1,
            ('{', _) => end_of('}') + 1,
            (c, _) if is_word(c) => {
                (at..chars.len()).find(|&i| !is_word(chars[i]) || chars[i] == '{').unwrap_or(chars.len())
            }
            _ => at + 1,
        };
        let end = end.min(chars.len());
        let piece: String = chars[at..end].iter().collect();
        let first = chars[at];
        let spoken = !first.is_whitespace()
            && !matches!(first, '\\' | '\'' | '"')
            && !piece.starts_with("--")
            && !piece.starts_with("/*");
        if spoken {
            found.push(Word { line, text: piece.clone() });
        }
        line += piece.matches('\n').count();
        at = end;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(text: &str) -> Vec<String> {
        uses(text).into_iter().map(|u| format!("{}{:?} {}", u.line, u.access, u.table)).collect()
    }

    #[test]
    fn reads_and_writes_are_told_apart() {
        assert_eq!(
            seen("SELECT 1 FROM sessions s, shared.tokens AS t\nJOIN only_one ON true"),
            ["0Read sessions", "0Read tokens", "1Read only_one"]
        );
        assert_eq!(seen("INSERT INTO shared.outbox (a, b)\nSELECT a FROM state"), ["0Write outbox", "1Read state"]);
        assert_eq!(seen("UPDATE ONLY x SET a = 1 FROM y WHERE z IS DISTINCT FROM q"), ["0Write x", "0Read y"]);
        assert_eq!(seen("DELETE FROM a USING b"), ["0Write a", "0Read b"]);
        assert_eq!(seen("MERGE INTO a USING (SELECT 1 FROM b) AS c ON true"), ["0Write a", "0Read b"]);
    }

    #[test]
    fn functions_locks_with_queries_strings_and_prose_are_no_tables() {
        assert_eq!(seen("WITH c AS (SELECT 1), d AS MATERIALIZED (SELECT 2) SELECT * FROM c, d"), [] as [&str; 0]);
        assert_eq!(seen("SELECT * FROM shared.claim(1) AS x(id), y FOR UPDATE OF y"), ["0Read y"]);
        assert_eq!(
            seen("SELECT 'FROM x' -- FROM z\n FROM \\\"{schema}\\\".y ON CONFLICT DO UPDATE SET a = 1"),
            ["1Read y"]
        );
        assert_eq!(seen("take it from sessions, or Update tokens"), [] as [&str; 0]);
        assert!(is_statement("SELECT a FROM b") && is_statement("WITH a AS (SELECT 1) SELECT 2"));
        assert!(!is_statement("FROM b") && !is_statement("UPDATE") && !is_statement("WITH care"));
    }
}
