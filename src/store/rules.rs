//! What a roster's migration must keep, as far as its text shows: `butlerd check` tells all of it with its line. When a
//! migration is applied the database is asked (`migrate.rs`), which no text deceives.

use std::path::{Path, PathBuf};

use super::error::MigrationError;
use super::lexer::{Token, forbidden, line_of, name, tokens};
use super::migrate::Chain;

/// A rule that a file breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    pub file: PathBuf,
    pub line: usize,
    pub problem: String,
    pub expected: String,
}

/// Everything that is wrong with the migrations of a directory; a missing one has none.
pub fn broken(dir: &Path) -> Vec<Broken> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|e| e == "sql")).collect();
    files.sort();
    let mut found = Vec::new();
    let mut texts = Vec::new();
    for file in files {
        match std::fs::read_to_string(&file) {
            Ok(text) => texts.push((file, text)),
            Err(e) => {
                found.push(Broken { file, line: 1, problem: format!("can't be read: {e}"), expected: String::new() })
            }
        }
    }
    for (file, text) in &texts {
        let clock = forbidden(text, true).into_iter();
        let told = clock.map(|f| (f.line, format!("found {}, which can't be used here", f.word), f.instead.to_owned()));
        let told = told.chain(owners_rights(text));
        found.extend(told.map(|(line, problem, expected)| Broken { file: file.clone(), line, problem, expected }));
    }
    let guarded: Vec<String> = texts.iter().flat_map(|(_, text)| guarded(text)).collect();
    for (file, text) in &texts {
        for (line, table) in tables(text).into_iter().filter(|(_, table)| !guarded.contains(table)) {
            let (file, problem) = (file.clone(), format!("table {table} has no tenant"));
            let expected = format!("`SELECT shared.tenant_table('{table}');` after its definition");
            found.push(Broken { file, line, problem, expected });
        }
    }
    if let Err(MigrationError::BadName { file }) = Chain::from_dir("", dir) {
        let (problem, expected) =
            ("found a name out of order", "NNN_name.sql, with NNN counting from 001 without a gap");
        found.push(Broken { file: file.into(), line: 1, problem: problem.to_owned(), expected: expected.to_owned() });
    }
    found
}

/// The word at a place of the list, in small letters; empty where there is something else.
fn word(list: &[(usize, Token<'_>)], at: usize) -> String {
    match list.get(at) {
        Some((_, Token::Word(word))) => word.to_ascii_lowercase(),
        _ => String::new(),
    }
}

/// What would run with the owner's rights or keep rows that no policy guards.
fn owners_rights(sql: &str) -> Vec<(usize, String, String)> {
    let list = tokens(sql);
    let mut found = Vec::new();
    for (n, (at, _)) in list.iter().enumerate() {
        let line = line_of(sql, *at);
        let told = match (word(&list, n).as_str(), word(&list, n + 1).as_str()) {
            ("security", "definer") => {
                ("found SECURITY DEFINER, which would run with the owner's rights", "a function without it")
            }
            ("materialized", "view") if word(&list, n.wrapping_sub(1)) == "create" => {
                ("found a copy of rows that no policy guards", "a table or a view")
            }
            ("create" | "replace", "view") if !invoker(&list[n..]) => {
                ("found a view with its owner's rights", "WITH (security_invoker = true) after its name")
            }
            _ => continue,
        };
        found.push((line, told.0.to_owned(), told.1.to_owned()));
    }
    found
}

/// Whether a statement, up to its end, says `security_invoker`.
fn invoker(list: &[(usize, Token<'_>)]) -> bool {
    let statement = list.iter().take_while(|(_, token)| *token != Token::Semicolon);
    statement.into_iter().any(|(_, token)| name(token).is_some_and(|word| word == "security_invoker"))
}

/// The tables that a text makes, with their lines; those of a session and parts of others are left out.
fn tables(sql: &str) -> Vec<(usize, String)> {
    let list = tokens(sql);
    let mut found = Vec::new();
    for n in 0..list.len() {
        let kind = word(&list, n + 1);
        let mut at = match (word(&list, n).as_str(), kind.as_str()) {
            ("create", "table") => n + 2,
            ("create", "unlogged") if word(&list, n + 2) == "table" => n + 3,
            _ => continue,
        };
        if word(&list, at) == "if" {
            at += 3;
        }
        // A qualified name ends with the table's own.
        if matches!(list.get(at + 1), Some((_, Token::Other(".")))) {
            at += 2;
        }
        if word(&list, at + 1) == "partition" {
            continue;
        }
        if let Some((place, token)) = list.get(at)
            && let Some(table) = name(token)
        {
            found.push((line_of(sql, *place), table));
        }
    }
    found
}

/// The tables that a text gives a tenant. Where it says so of each in a list, the list's words count.
fn guarded(sql: &str) -> Vec<String> {
    let list = tokens(sql);
    let literal = |token: &Token<'_>| match token {
        Token::Other(text) => text.strip_prefix('\'').and_then(|t| t.strip_suffix('\'')).map(str::to_owned),
        _ => None,
    };
    let calls: Vec<usize> = (0..list.len()).filter(|n| word(&list, *n) == "tenant_table").collect();
    let named: Vec<Option<String>> =
        calls.iter().map(|n| list.get(n + 2).and_then(|(_, token)| literal(token))).collect();
    let mut found: Vec<String> = named.iter().flatten().cloned().collect();
    // Of a list, or in the body of a DO.
    if named.iter().any(Option::is_none) {
        found.extend(list.iter().filter_map(|(_, token)| literal(token)));
    }
    for (_, token) in &list {
        if let Token::Other(text) = token
            && let Some((_, body)) = text.strip_prefix('$').and_then(|t| t.split_once('$'))
        {
            found.extend(guarded(body));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_who_guards_them() {
        let sql = "-- CREATE TABLE no (id int);\nCREATE TABLE a (id int);\nCREATE TABLE IF NOT EXISTS \"B\" AS SELECT 1;\n\
                   CREATE UNLOGGED TABLE health.c (x text DEFAULT 'CREATE TABLE d');\nCREATE TEMP TABLE e (id int);\n\
                   CREATE TABLE f PARTITION OF a FOR VALUES IN (1);\n";
        assert_eq!(tables(sql), [(2, "a".to_owned()), (3, "B".to_owned()), (4, "c".to_owned())]);
        assert_eq!(guarded("SELECT shared.tenant_table('a'), x('b')"), ["a"]);
        let list =
            "DO $$ BEGIN FOREACH t IN ARRAY ARRAY['a', 'b'] LOOP PERFORM shared.tenant_table(t); END LOOP; END $$;";
        assert_eq!(guarded(list), ["a", "b"]);
    }

    #[test]
    fn rights_of_the_owner_are_seen() {
        let sql = "CREATE VIEW a AS SELECT 1;\nCREATE OR REPLACE VIEW b WITH (security_invoker = true) AS SELECT 1;\n\
                   CREATE MATERIALIZED VIEW c AS SELECT 1;\nCREATE FUNCTION f() RETURNS int LANGUAGE sql\n\
                   SECURITY DEFINER AS $$ SELECT 1 $$;\n";
        let lines: Vec<usize> = owners_rights(sql).into_iter().map(|(line, ..)| line).collect();
        assert_eq!(lines, [1, 3, 5]);
    }
}
