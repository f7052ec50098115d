//! Command lines as a shell reads them: hooks are written so.

/// A word that a shell reads as this text.
pub(super) fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./-+:,@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A command with what is set in its environment, as a shell reads it.
pub(super) fn command_line<'a>(set: impl IntoIterator<Item = (&'a str, String)>, words: &[impl AsRef<str>]) -> String {
    let set = set.into_iter().map(|(name, value)| format!("{name}={}", quoted(&value)));
    set.chain(words.iter().map(|word| quoted(word.as_ref()))).collect::<Vec<_>>().join(" ")
}

/// The words of a simple command. `None`: a quotation does not end, so that no shell would run it.
pub(super) fn words(command: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = command.chars();
    while let Some(c) = rest.next() {
        match c {
            '\'' => loop {
                match rest.next()? {
                    '\'' => {
                        word.get_or_insert_default();
                        break;
                    }
                    c => word.get_or_insert_default().push(c),
                }
            },
            '"' => loop {
                match rest.next()? {
                    '"' => {
                        word.get_or_insert_default();
                        break;
                    }
                    '\\' => word.get_or_insert_default().push(rest.next()?),
                    c => word.get_or_insert_default().push(c),
                }
            },
            '\\' => word.get_or_insert_default().push(rest.next()?),
            c if c.is_whitespace() => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Some(words)
}

/// The words of a command without what only sets its environment: `env` and each `NAME=VALUE`, which are returned first.
pub(super) fn without_environment(words: &[String]) -> (Vec<(String, String)>, &[String]) {
    let mut rest = words;
    let mut set = Vec::new();
    while let Some((first, after)) = rest.split_first() {
        match assignment(first) {
            Some((name, value)) => set.push((name.to_owned(), value.to_owned())),
            None if first == "env" || first.ends_with("/env") => {}
            None => break,
        }
        rest = after;
    }
    (set, rest)
}

fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let first = name.chars().next()?;
    let is_name = !first.is_ascii_digit() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then_some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quoted_is_read_back() {
        for text in ["/usr/bin/butlerd", "/opt/my tools/butlerd", "it's", "a\"b$c`d\\e", "", "naïve", "x=y"] {
            assert_eq!(words(&quoted(text)), Some(vec![text.to_owned()]), "{text}");
        }
        assert_eq!(quoted("/usr/bin/butlerd"), "/usr/bin/butlerd");
        assert_eq!(words("a  \"b c\"'d' \\ e"), Some(vec!["a".into(), "b cd".into(), " e".into()]));
        assert_eq!(words("a 'b"), None);
    }

    #[test]
    fn what_sets_the_environment_is_told_from_the_command() {
        let all = words("/usr/bin/env A=1 B='x y' /a=b/butlerd mcp").unwrap();
        let (set, rest) = without_environment(&all);
        assert_eq!(set, [("A".into(), "1".into()), ("B".into(), "x y".into())]);
        assert_eq!(rest, ["/a=b/butlerd", "mcp"]);
    }
}
