//! The files of pages: what is wrong with them, as far as their text shows.

use std::collections::BTreeMap;
use std::path::Path;

use super::card::Card;
use super::header::{Returns, Use};
use super::tool::{SqlTool, load_dir};
use crate::ToolFileError;

/// Reads the pages of a directory. All mistakes are returned, not only the first.
pub fn load_pages(dir: &Path) -> Result<Vec<SqlTool>, Vec<ToolFileError>> {
    let pages = load_dir(dir, Use::Page)?;
    let wrong = mistakes(&pages);
    if wrong.is_empty() { Ok(pages) } else { Err(wrong) }
}

/// What is wrong with pages, each by itself and beside the others.
fn mistakes(pages: &[SqlTool]) -> Vec<ToolFileError> {
    let mut wrong = Vec::new();
    let mut taken: BTreeMap<&str, &SqlTool> = BTreeMap::new();
    for page in pages {
        if page.statement.writes {
            wrong.push(page.fail(page.header.begin(), "a page only reads; changes go through tools"));
        }
        let Some(head) = &page.header.page else { continue };
        if let Some(other) = taken.insert(&head.path, page) {
            let problem = format!("path: {} is the path of {}.sql already", head.path, other.name);
            wrong.push(page.fail(page.header.line_of("path"), problem));
        }
        let returns = page.header.returns;
        let one = head.card.as_ref().map(Card::is_of_one_row);
        if let Some(one) = one
            && one == (returns == Returns::Rows)
        {
            let wanted = if one { "one row: `returns: row`" } else { "rows: `returns: rows`" };
            wrong.push(page.fail(page.header.line_of("returns"), format!("returns: this card shows {wanted}")));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(files: &[(&str, &str)]) -> Vec<String> {
        let parse = |(name, text): &(&str, &str)| SqlTool::parse(Path::new(name), text, Use::Page).unwrap();
        let pages: Vec<SqlTool> = files.iter().map(parse).collect();
        mistakes(&pages).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_writes_and_what_stands_in_anothers_place_is_told() {
        let page = |path: &str, sql: &str| {
            format!("/*---\ndescription: d\nmethod: get\npath: {path}\nreturns: rows\n---*/\n{sql}")
        };
        let read = page("a", "SELECT 1 AS n");
        assert_eq!(problems(&[("a.sql", &read)]), Vec::<String>::new());
        for writes in [
            "INSERT INTO t VALUES (1) RETURNING a",
            "WITH x AS (UPDATE t SET a = 1 RETURNING a) SELECT a FROM x",
            "SELECT a FROM t FOR UPDATE",
        ] {
            let told = problems(&[("w.sql", &page("w", writes))]);
            assert_eq!(told, ["w.sql:7: a page only reads; changes go through tools"], "{writes}");
        }
        let twice = problems(&[("a.sql", &read), ("b.sql", &read)]);
        assert_eq!(twice, ["b.sql:4: path: a is the path of a.sql already"]);
        let card = read.replace("returns: rows", "returns: rows\ncard: {kind: number, title: T, value: n}");
        assert_eq!(problems(&[("c.sql", &card)]), ["c.sql:5: returns: this card shows one row: `returns: row`"]);
    }
}
