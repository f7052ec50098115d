//! Just enough of SQL's lexical rules to find parameters, keywords and statement ends outside of strings and comments.

/// One piece of a statement; offsets are bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token<'a> {
    /// An unquoted word.
    Word(&'a str),
    /// `:name`
    Param(&'a str),
    Semicolon,
    /// A string, a quoted name, a number, an operator: nothing that matters here.
    Other(&'a str),
}

/// A token and where it begins.
pub type Spanned<'a> = (usize, Token<'a>);

fn is_word_start(b: u8) -> bool {
    b.is_ascii_alphabetic() || b == b'_' || b >= 0x80
}

fn is_word(b: u8) -> bool {
    is_word_start(b) || b.is_ascii_digit() || b == b'$'
}

/// Splits `sql` into tokens; white space and comments are dropped.
pub fn tokens(sql: &str) -> Vec<Spanned<'_>> {
    let b = sql.as_bytes();
    let at = |i: usize| b.get(i).copied().unwrap_or(0);
    let mut out = Vec::new();
    let mut i = 0;
    while i < b.len() {
        let start = i;
        match b[i] {
            c if c.is_ascii_whitespace() => i += 1,
            b'-' if at(i + 1) == b'-' => i = sql[i..].find(['\n', '\r']).map_or(b.len(), |n| i + n),
            b'/' if at(i + 1) == b'*' => i = skip_comment(b, i),
            b'\'' => {
                // A word of its own, not the end of another.
                let escapes = matches!(out.last(), Some((at, Token::Word("e" | "E"))) if at + 1 == start);
                i = skip_quoted(b, i, b'\'', escapes);
                out.push((start, Token::Other(&sql[start..i])));
            }
            b'"' => {
                i = skip_quoted(b, i, b'"', false);
                out.push((start, Token::Other(&sql[start..i])));
            }
            b'$' if dollar_tag(sql, i).is_some() => {
                let tag = dollar_tag(sql, i).unwrap_or("$$");
                let body = i + tag.len();
                i = sql[body..].find(tag).map_or(b.len(), |n| body + n + tag.len());
                out.push((start, Token::Other(&sql[start..i])));
            }
            b':' if at(i + 1) == b':' => {
                i += 2;
                out.push((start, Token::Other("::")));
            }
            b':' if is_word_start(at(i + 1)) => {
                i += 1;
                while i < b.len() && is_word(b[i]) {
                    i += 1;
                }
                out.push((start, Token::Param(&sql[start + 1..i])));
            }
            b';' => {
                i += 1;
                out.push((start, Token::Semicolon));
            }
            c if is_word_start(c) => {
                while i < b.len() && is_word(b[i]) {
                    i += 1;
                }
                out.push((start, Token::Word(&sql[start..i])));
            }
            _ => {
                i += 1;
                while !sql.is_char_boundary(i) {
                    i += 1;
                }
                out.push((start, Token::Other(&sql[start..i])));
            }
        }
    }
    out
}

fn skip_comment(b: &[u8], mut i: usize) -> usize {
    let mut depth = 0;
    while i < b.len() {
        if b[i..].starts_with(b"/*") {
            depth += 1;
            i += 2;
        } else if b[i..].starts_with(b"*/") {
            depth -= 1;
            i += 2;
            if depth == 0 {
                return i;
            }
        } else {
            i += 1;
        }
    }
    b.len()
}

fn skip_quoted(b: &[u8], mut i: usize, quote: u8, escapes: bool) -> usize {
    i += 1;
    while i < b.len() {
        let escaped = escapes && b[i] == b'\\';
        if escaped || b[i] == quote && b.get(i + 1) == Some(&quote) {
            i += 2;
        } else if b[i] == quote {
            return i + 1;
        } else {
            i += 1;
        }
    }
    b.len()
}

/// `$tag$` at `i`, if one begins there.
fn dollar_tag(sql: &str, i: usize) -> Option<&str> {
    let rest = &sql[i + 1..];
    let end = rest.find('$')?;
    let tag = &rest[..end];
    let ok = tag.bytes().enumerate().all(|(n, c)| if n == 0 { is_word_start(c) } else { is_word(c) && c != b'$' });
    ok.then(|| &sql[i..i + end + 2])
}

/// Something that a roster's SQL must not use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forbidden {
    /// Line within the text, from 1.
    pub line: usize,
    pub word: String,
    pub instead: &'static str,
}

/// What of the server's own would change the settings or locks of a connection, run SQL out of a text, or end others'
/// connections.
pub(super) const CHANGES_SESSION: [&str; 17] = [
    "set_config",
    "pg_settings",
    "query_to_xml",
    "query_to_xmlschema",
    "query_to_xml_and_xmlschema",
    "cursor_to_xml",
    "cursor_to_xmlschema",
    "ts_stat",
    "ts_rewrite",
    "pg_advisory_lock",
    "pg_advisory_lock_shared",
    "pg_try_advisory_lock",
    "pg_try_advisory_lock_shared",
    "pg_advisory_unlock",
    "pg_advisory_unlock_all",
    "pg_terminate_backend",
    "pg_cancel_backend",
];

/// Whether the `U` at this place begins a name written with escapes (`U&"…"`), which no list of names knows.
pub(super) fn escaped_name(sql: &str, at: usize) -> bool {
    sql[at + 1..].starts_with("&\"")
}

/// The name that a token is, quoted or not; quoted names keep their case.
pub fn name(token: &Token<'_>) -> Option<String> {
    match token {
        Token::Word(word) => Some(word.to_ascii_lowercase()),
        Token::Other(text) => {
            let inner = text.strip_prefix('"')?.strip_suffix('"')?;
            Some(inner.replace("\"\"", "\""))
        }
        _ => None,
    }
}

/// Finds what would escape the household's clock or a connection's tenant. `bodies`: looks into dollar-quoted texts
/// too, which are the bodies of functions in a migration.
pub fn forbidden(sql: &str, bodies: bool) -> Vec<Forbidden> {
    let list = tokens(sql);
    let mut found = Vec::new();
    for (n, (at, token)) in list.iter().enumerate() {
        if bodies
            && let Token::Other(text) = token
            && let Some(tag) = dollar_tag(text, 0).filter(|_| text.starts_with('$'))
        {
            let inner = text.get(tag.len()..text.len().saturating_sub(tag.len())).unwrap_or_default();
            let before = line_of(sql, at + tag.len()) - 1;
            found.extend(forbidden(inner, true).into_iter().map(|f| Forbidden { line: f.line + before, ..f }));
            continue;
        }
        let Some(lower) = name(token) else { continue };
        let word = lower.as_str();
        let called = matches!(list.get(n + 1), Some((_, Token::Other("("))));
        let qualified = n > 0 && matches!(list[n - 1], (_, Token::Other(".")));
        let instead = match lower.as_str() {
            "now" | "clock_timestamp" | "statement_timestamp" | "transaction_timestamp" | "timeofday" if called => {
                "shared.clock()"
            }
            "current_timestamp" | "localtimestamp" | "current_time" | "localtime" if !qualified => "shared.clock()",
            "current_date" if !qualified => "shared.today()",
            "set_config" if called => "nothing: the tenant and the clock are set by butlerd",
            word if CHANGES_SESSION.contains(&word) => "nothing: it would change the connection for others",
            "u" if escaped_name(sql, *at) => "the name itself",
            _ => continue,
        };
        found.push(Forbidden { line: line_of(sql, *at), word: word.to_owned(), instead });
    }
    found
}

/// The line of a byte offset, from 1.
pub fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|b| **b == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(sql: &str) -> Vec<&str> {
        let names = tokens(sql).into_iter().filter_map(|(_, t)| if let Token::Param(p) = t { Some(p) } else { None });
        names.collect()
    }

    #[test]
    fn parameters_are_found_only_in_code() {
        let sql =
            "SELECT :a::text, ':b', E'it\\':c', \":d\", $x$ :e $x$, -- :f\n /* :g /* :h */ */ x[1:2], :i_1, 'q'':r'";
        assert_eq!(params(sql), ["a", "i_1"]);
    }

    #[test]
    fn forbidden_words_are_found_with_their_lines() {
        let found =
            forbidden("SELECT shared.clock(),\n now(), 'now()', current_date, x.now FROM t -- current_date", false);
        let names: Vec<(usize, &str)> = found.iter().map(|f| (f.line, f.word.as_str())).collect();
        assert_eq!(names, [(2, "now"), (2, "current_date")]);
        assert_eq!(forbidden("SELECT set_config('butlerd.tenant', 'x', false)", false).len(), 1);
        assert_eq!(forbidden("SELECT \"set_config\"('butlerd.tenant', 'x', false)", false).len(), 1);
        let body = "CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $$\nBEGIN\n PERFORM now();\nEND $$;";
        assert_eq!(forbidden(body, false), []);
        assert_eq!(forbidden(body, true)[0].line, 3);
    }

    #[test]
    fn unterminated_things_end_with_the_text() {
        for sql in ["'abc", "/* x", "$a$ x", "\"q", "E'\\"] {
            assert!(tokens(sql).len() <= 2, "{sql}");
        }
    }
}
