//! A statement with named parameters, rewritten for the server, and what it does.

use store::lexer::{Token, line_of, name, tokens};

/// One statement, its parameters numbered.
#[derive(Debug, PartialEq, Eq)]
pub struct Statement {
    /// With `$1`, `$2`, … in place of `:name`.
    pub sql: String,
    /// The names behind the numbers.
    pub params: Vec<String>,
    /// Whether it writes by itself (INSERT, UPDATE, DELETE, MERGE, or a locking SELECT).
    pub writes: bool,
    /// Functions that it calls; one of them may write.
    pub functions: Vec<String>,
}

const WRITING: [&str; 9] = ["insert", "update", "delete", "merge", "truncate", "call", "do", "nextval", "pg_notify"];
/// What can't be a tool: definitions, sessions, transactions.
const REFUSED: [&str; 21] = [
    "do", "create", "alter", "drop", "grant", "revoke", "set", "reset", "begin", "commit", "rollback", "copy",
    "listen", "notify", "vacuum", "lock", "prepare", "execute", "truncate", "discard", "load",
];

impl Statement {
    /// Rewrites one statement. The error is a line (from 1, within `sql`) and a sentence.
    pub fn parse(sql: &str) -> Result<Self, (usize, String)> {
        let list = tokens(sql);
        let Some((first_at, first)) = list.first() else {
            return Err((1, "there is no statement after the header".to_owned()));
        };
        if let Token::Word(word) = first
            && REFUSED.contains(&word.to_ascii_lowercase().as_str())
        {
            let line = line_of(sql, *first_at);
            return Err((line, format!("{} can't be a tool; tools read and write rows", word.to_uppercase())));
        }
        let mut out = String::with_capacity(sql.len());
        let mut params: Vec<String> = Vec::new();
        let (mut writes, mut functions) = (false, Vec::new());
        let mut copied = 0;
        for (n, (at, token)) in list.iter().enumerate() {
            match token {
                Token::Param(name) => {
                    out.push_str(&sql[copied..*at]);
                    let known = params.iter().position(|p| p == name);
                    let number = known.unwrap_or_else(|| {
                        params.push((*name).to_owned());
                        params.len() - 1
                    });
                    out.push_str(&format!("${}", number + 1));
                    copied = at + 1 + name.len();
                }
                Token::Semicolon => {
                    if let Some((extra, _)) = list[n + 1..].iter().find(|(_, t)| *t != Token::Semicolon) {
                        return Err((line_of(sql, *extra), "one statement a file; here begins a second".to_owned()));
                    }
                    out.push_str(&sql[copied..*at]);
                    copied = sql.len();
                    break;
                }
                Token::Word(word) if word.eq_ignore_ascii_case("into") => {
                    let before = n.checked_sub(1).and_then(|n| name(&list[n].1)).unwrap_or_default();
                    if before != "insert" && before != "merge" {
                        return Err((
                            line_of(sql, *at),
                            "SELECT … INTO makes a table; tools read and write rows".into(),
                        ));
                    }
                }
                Token::Word(word) => {
                    let lower = word.to_ascii_lowercase();
                    let qualifies = matches!(list.get(n + 1), Some((_, Token::Other("."))));
                    if WRITING.contains(&lower.as_str()) && !qualifies {
                        writes = true;
                    }
                    if matches!(list.get(n + 1), Some((_, Token::Other("(")))) {
                        functions.push(lower);
                    }
                }
                Token::Other(_) => {
                    if matches!(list.get(n + 1), Some((_, Token::Other("(")))) {
                        functions.extend(name(token));
                    }
                }
            }
        }
        out.push_str(&sql[copied..]);
        functions.sort();
        functions.dedup();
        Ok(Self { sql: out, params, writes, functions })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_numbered_by_name() {
        let s = Statement::parse("SELECT :a::text, :b, :a, ':c' FROM x;\n-- end\n").unwrap();
        assert_eq!(s.sql, "SELECT $1::text, $2, $1, ':c' FROM x");
        assert_eq!(s.params, ["a", "b"]);
        assert!(!s.writes);
    }

    #[test]
    fn writing_is_seen_through_ctes() {
        for sql in [
            "INSERT INTO t VALUES (1)",
            "WITH x AS (UPDATE t SET a = 1 RETURNING a) SELECT * FROM x",
            "SELECT 1 FROM t FOR UPDATE",
        ] {
            assert!(Statement::parse(sql).unwrap().writes, "{sql}");
        }
        let read = Statement::parse("SELECT coalesce(a, 'delete') AS \"update\" FROM t").unwrap();
        assert!(!read.writes);
        assert_eq!(read.functions, ["coalesce"]);
        assert_eq!(Statement::parse("SELECT \"Rv\"(1)").unwrap().functions, ["Rv"]);
    }

    #[test]
    fn what_is_no_tool_is_refused() {
        for (sql, line) in [
            ("", 1),
            ("SELECT 1;\nSELECT 2", 2),
            ("DROP TABLE x", 1),
            ("\nSET x = 1", 2),
            ("DO $$ $$", 1),
            ("SELECT 1\nINTO t", 2),
        ] {
            assert_eq!(Statement::parse(sql).unwrap_err().0, line, "{sql}");
        }
    }
}
