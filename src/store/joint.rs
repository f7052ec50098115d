//! Two statements as one: a call's own, and the row about it.

/// One statement that does what both do: `second` becomes a part of `first`'s WITH, which the server carries out
/// whether or not anybody reads it. A quarter of the messages of two statements between BEGIN and COMMIT.
///
/// `None` where `first` begins with none of the words after which that is possible. `params`: how many `first` has.
pub(super) fn also(first: &str, params: usize, second: &str) -> Option<String> {
    let start = first.trim_start();
    let word =
        |text: &str| text.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default().to_ascii_uppercase();
    let (head, rest) = match word(start).as_str() {
        "SELECT" | "INSERT" | "UPDATE" | "DELETE" => ("WITH ", start),
        "WITH" => {
            let rest = start["WITH".len()..].trim_start();
            // Not past a comment, and not past RECURSIVE, which would hold for both.
            if matches!(word(rest).as_str(), "" | "RECURSIVE") {
                return None;
            }
            ("WITH ", rest)
        }
        _ => return None,
    };
    let joint = if rest.len() == start.len() { " " } else { ", " };
    let mut sql = String::with_capacity(first.len() + second.len() + 64);
    sql.push_str(head);
    sql.push_str("butlerd_also AS (");
    let mut pieces = second.split('$');
    sql.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        let digits = piece.bytes().take_while(u8::is_ascii_digit).count();
        let number: usize = piece[..digits].parse().ok()?;
        sql.push('$');
        sql.push_str(&(number + params).to_string());
        sql.push_str(&piece[digits..]);
    }
    sql.push(')');
    sql.push_str(joint);
    sql.push_str(rest);
    Some(sql)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_statement_becomes_a_part_of_the_first() {
        let second = "INSERT INTO b VALUES ($1, $2, $10 + 1)";
        let with = |first| also(first, 2, second);
        assert_eq!(
            with("\n INSERT INTO a VALUES ($1, $2)").unwrap(),
            "WITH butlerd_also AS (INSERT INTO b VALUES ($3, $4, $12 + 1)) INSERT INTO a VALUES ($1, $2)"
        );
        assert_eq!(
            with("with x AS (SELECT $1) UPDATE a SET v = $2").unwrap(),
            "WITH butlerd_also AS (INSERT INTO b VALUES ($3, $4, $12 + 1)), x AS (SELECT $1) UPDATE a SET v = $2"
        );
        assert!(with("select f($1, $2)").is_some());
        for apart in
            ["(SELECT 1)", "MERGE INTO a", "-- why\nSELECT 1", "WITH RECURSIVE x AS (SELECT 1) SELECT 2", "WITH", ""]
        {
            assert_eq!(with(apart), None, "{apart}");
        }
    }
}
