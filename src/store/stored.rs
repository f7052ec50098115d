//! What code of a roster that stays in the database may hold: functions, and what tables compute.
//!
//! Such code runs under whichever role touches its table, and on connections that others get afterwards. So none of it
//! changes the session (settings, roles, locks), defines anything, or runs SQL whose text nobody has read. The rule is
//! checked on what the server has stored, after all of a roster's files: what a file's text shows or hides is no
//! matter.

use std::sync::OnceLock;

use sha2::{Digest, Sha256};
use tokio_postgres::GenericClient;

use super::error::MigrationError;
use super::lexer::{CHANGES_SESSION, Token, escaped_name, line_of, name, tokens};
use super::sql;

/// What begins a statement that no function of a roster may hold.
const STATEMENTS: [&str; 33] = [
    "set",
    "reset",
    "create",
    "alter",
    "drop",
    "grant",
    "revoke",
    "copy",
    "do",
    "listen",
    "unlisten",
    "prepare",
    "deallocate",
    "discard",
    "load",
    "lock",
    "commit",
    "rollback",
    "savepoint",
    "release",
    "start",
    "abort",
    "security",
    "comment",
    "reassign",
    "import",
    "vacuum",
    "analyze",
    "cluster",
    "reindex",
    "refresh",
    "checkpoint",
    "explain",
];

/// After what a statement may begin; at the beginning and after a semicolon one may, too.
const BEFORE_STATEMENTS: [&str; 8] = ["begin", "then", "else", "loop", "in", "for", "query", "atomic"];

/// What follows a text that is executed as it stands.
const AFTER_EXECUTED: [&str; 3] = ["using", "into", "loop"];

/// What a function of a roster may not do: the line in its body, and what stands there.
pub(super) fn forbidden_in_body(body: &str) -> Option<(usize, String)> {
    let list = tokens(body);
    // Without one, a text ends at the same quote whether or not it has escapes.
    let escapes =
        |(at, token): &(usize, Token<'_>)| matches!(token, Token::Word("e" | "E") if body[at + 1..].starts_with('\''));
    if let Some(at) = body.find("\\'").filter(|_| list.iter().any(escapes)) {
        return Some((line_of(body, at), "a backslash before a quote beside E''".to_owned()));
    }
    let found = (0..list.len()).find_map(|n| Some((n, forbidden_at(body, &list, n)?)));
    found.map(|(n, what)| (line_of(body, list[n].0), what))
}

fn forbidden_at(body: &str, list: &[(usize, Token<'_>)], n: usize) -> Option<String> {
    let (at, token) = &list[n];
    let called = name(token)?;
    if CHANGES_SESSION.contains(&called.as_str()) {
        return Some(called);
    }
    let Token::Word(_) = token else { return None };
    match called.as_str() {
        "u" if escaped_name(body, *at) => Some("a name with escapes".to_owned()),
        "execute" => executed(&list[n + 1..]),
        // A table's trigger can be made by whoever owns the table, out of functions that are there.
        "create" if is_word(list.get(n + 1), &["trigger"]) => None,
        word if STATEMENTS.contains(&word) && begins_statement(list, n) => Some(word.to_uppercase()),
        _ => None,
    }
}

fn is_word(spanned: Option<&(usize, Token<'_>)>, words: &[&str]) -> bool {
    matches!(spanned, Some((_, Token::Word(word))) if words.contains(&word.to_ascii_lowercase().as_str()))
}

fn begins_statement(list: &[(usize, Token<'_>)], n: usize) -> bool {
    match n.checked_sub(1).map(|before| &list[before].1) {
        // A label ends with `>>`.
        None | Some(Token::Semicolon | Token::Other(">")) => true,
        Some(_) => is_word(list.get(n - 1), &BEFORE_STATEMENTS),
    }
}

/// What is wrong with an EXECUTE, of which this is what follows. Its text must stand there: as it is, or as a format
/// whose places are names and literals.
fn executed(rest: &[(usize, Token<'_>)]) -> Option<String> {
    let unread = || Some("EXECUTE of a text that does not stand there".to_owned());
    let text = |n: usize| match rest.get(n) {
        Some((_, Token::Other(text))) => literal(text),
        _ => None,
    };
    // `EXECUTE FUNCTION` of a trigger that is defined.
    if is_word(rest.first(), &["function", "procedure"]) {
        return None;
    }
    let (sql, end) = if let Some(sql) = text(0) {
        (sql, 1)
    } else if is_word(rest.first(), &["format"]) && matches!(rest.get(1), Some((_, Token::Other("(")))) {
        let Some(form) = text(2).and_then(|form| filled(&form)) else { return unread() };
        let whole = matches!(rest.get(3), Some((_, Token::Other("," | ")"))));
        match closing(&rest[2..]) {
            Some(close) if whole => (form, close + 3),
            _ => return unread(),
        }
    } else {
        return unread();
    };
    let ended = matches!(rest.get(end), Some((_, Token::Semicolon))) || is_word(rest.get(end), &AFTER_EXECUTED);
    if !ended {
        return unread();
    }
    forbidden_in_body(&sql).map(|(_, what)| format!("{what} in an EXECUTE"))
}

/// The text of a literal.
fn literal(token: &str) -> Option<String> {
    if let Some(inner) = token.strip_prefix('\'').and_then(|t| t.strip_suffix('\'')) {
        return Some(inner.replace("''", "'"));
    }
    let tag = &token[..token.strip_prefix('$')?.find('$')? + 2];
    token.strip_prefix(tag)?.strip_suffix(tag).map(str::to_owned)
}

/// Where the parenthesis ends that is open at the beginning.
fn closing(list: &[(usize, Token<'_>)]) -> Option<usize> {
    let mut depth = 1;
    for (n, (_, token)) in list.iter().enumerate() {
        match token {
            Token::Other("(") => depth += 1,
            Token::Other(")") => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(n);
        }
    }
    None
}

/// A format with something harmless in each of its places; `None`, where a place takes more than a name or a literal,
/// or is a part of another name or a function's name.
fn filled(form: &str) -> Option<String> {
    let glues = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '"' | '\'' | '&' | '%') || !c.is_ascii();
    let mut out = String::new();
    let mut rest = form;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let spec = &rest[at + 1..];
        let spec = spec.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '$' | '-' | '*'));
        let kind = spec.chars().next()?;
        rest = &spec[kind.len_utf8()..];
        let alone = !out.chars().last().is_some_and(glues) && !rest.chars().next().is_some_and(glues);
        match kind {
            '%' => out.push('%'),
            'I' if alone && !rest.trim_start().starts_with('(') => out.push_str("\"_\""),
            'L' if alone => out.push_str("'_'"),
            _ => return None,
        }
    }
    out.push_str(rest);
    Some(out)
}

/// Looks at what a roster's files have made in a schema; `owner` is the role that owns it. The name of what may not
/// stay, and what is wrong with it.
pub(super) async fn problem(
    client: &impl GenericClient,
    schema: &str,
    owner: &str,
    taken: &[String],
) -> Result<Option<(String, String)>, tokio_postgres::Error> {
    let names = format!("\\m({})\\M", CHANGES_SESSION.join("|"));
    let rows = client.query(sql::STORED, &[&schema, &owner, &taken, &names]).await?;
    for row in rows {
        let (what, problem, body): (String, Option<String>, Option<String>) =
            (row.get("relation"), row.get("problem"), row.get("body"));
        if let Some(problem) = problem {
            return Ok(Some((what, problem)));
        }
        if let Some((line, held)) = body.as_deref().and_then(forbidden_in_body) {
            return Ok(Some((what, format!("has {held} (line {line} of its body), which no stored function may"))));
        }
    }
    Ok(None)
}

/// As [`problem`], but looks only if something has changed since the last look that found nothing.
pub(super) async fn problem_since(
    client: &impl GenericClient,
    schema: &str,
    owner: &str,
    taken: &[String],
) -> Result<Option<(String, String)>, tokio_postgres::Error> {
    let rules = format!("{} {owner} {}", rules(), taken.join(" "));
    let now = client.query_one(sql::CATALOG, &[&schema, &rules]).await?;
    if now.get("looked") {
        return Ok(None);
    }
    let found = problem(client, schema, owner, taken).await?;
    if found.is_none() {
        client.execute(sql::LOOKED, &[&schema, &now.get::<_, Vec<u8>>("digest")]).await?;
    }
    Ok(found)
}

/// The rules themselves, as a SHA-256: a daemon that knows better than the one before looks again.
fn rules() -> &'static str {
    static RULES: OnceLock<String> = OnceLock::new();
    RULES.get_or_init(|| {
        let digest =
            Sha256::digest(concat!(include_str!("stored.rs"), include_str!("lexer.rs"), include_str!("sql/stored.rs")));
        base::text::hex(&digest)
    })
}

/// As [`problem`], as an error: of `file`, if the schema is looked at after it.
pub(super) async fn refuse(
    client: &impl GenericClient,
    (schema, owner): (&str, &str),
    taken: &[String],
    file: &str,
) -> Result<(), MigrationError> {
    let failed = |source| MigrationError::History { schema: schema.to_owned(), source };
    match problem(client, schema, owner, taken).await.map_err(failed)? {
        None => Ok(()),
        Some((relation, problem)) => Err(MigrationError::Leak { file: file.to_owned(), relation, problem }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_reads_and_writes_rows() {
        for body in [
            "BEGIN UPDATE t SET a = 1; END",
            "BEGIN INSERT INTO t VALUES (1) ON CONFLICT (a) DO UPDATE SET a = 2; RETURN NEW; END",
            "SELECT CASE WHEN a THEN b ELSE c END FROM t",
            "BEGIN EXECUTE format('SELECT coalesce(a, ''-infinity'') FROM %I WHERE id = $1', x) INTO y USING z; END",
            "BEGIN FOR r IN EXECUTE format('UPDATE %1$I r SET %2$I = %L', a, b) USING c LOOP NULL; END LOOP; END",
            "BEGIN EXECUTE format('CREATE TRIGGER g BEFORE INSERT ON %I FOR EACH ROW EXECUTE FUNCTION h()', t); END",
            "SELECT replace(a, '\\', '\\\\')",
            "BEGIN RAISE EXCEPTION 'SET it; EXECUTE that' USING ERRCODE = '22023'; -- SET x = 1\nEND",
        ] {
            assert_eq!(forbidden_in_body(body), None, "{body}");
        }
    }

    #[test]
    fn what_changes_the_session_is_seen_however_it_is_written() {
        for body in [
            "BEGIN SET butlerd.trust = 'owner'; END",
            "BEGIN IF a THEN SET LOCAL x = 1; END IF; END",
            "BEGIN LOOP RESET ALL; END LOOP; END",
            "<<l>> SET x = 1",
            "BEGIN EXECUTE 'SET x = 1'; END",
            "BEGIN EXECUTE 'SE' || 'T x = 1'; END",
            "BEGIN EXECUTE x; END",
            "BEGIN EXECUTE format('%s', x); END",
            "BEGIN EXECUTE format('SELECT %I(1)', x); END",
            "BEGIN EXECUTE format('SELECT set_%I(1)', x); END",
            "BEGIN EXECUTE format('SELECT %I_config(1)', x); END",
            "BEGIN EXECUTE format('SELECT 1') || x; END",
            "BEGIN EXECUTE format('SELECT ' || x); END",
            "BEGIN EXECUTE $q$ALTER ROLE CURRENT_USER PASSWORD 'x'$q$; END",
            "BEGIN PERFORM set_config('a', 'b', false); END",
            "BEGIN PERFORM pg_catalog.\"set_config\"('a', 'b', false); END",
            "BEGIN PERFORM U&\"\\0073et_config\"('a', 'b', false); END",
            "BEGIN UPDATE pg_settings SET setting = 'owner'; END",
            "BEGIN PERFORM query_to_xml('SELECT 1', true, true, ''); END",
            "SELECT type_e'\\'; SET x = 1; --'",
            "BEGIN -- a comment\rSET x = 1; END",
            "BEGIN ALTER ROLE CURRENT_USER SET search_path = x; END",
            "BEGIN COPY t TO PROGRAM 'id'; END",
            "SELECT E'a'\n'\\'; SET x = 1; --'",
            "BEGIN COMMIT; END",
            "BEGIN DO $q$ BEGIN SET x = 1; END $q$; END",
            "BEGIN RETURN QUERY EXPLAIN ANALYZE SELECT 1; END",
            "BEGIN FOR r IN EXPLAIN ANALYZE SELECT 1 LOOP END LOOP; END",
        ] {
            assert!(forbidden_in_body(body).is_some(), "{body}");
        }
    }
}
