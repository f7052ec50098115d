//! A commit that was just made says what was done and why, in somebody's chosen words.

use serde_json::Value;

/// Marks memories that are messages of commits.
pub const TAG: &str = "commit";
/// A subject of fewer characters says nothing.
const SHORTEST: usize = 10;
/// Longer messages are cut.
const LONGEST: usize = 1000;
/// Subjects of what is not meant to stay, or says nothing of its own.
const PASSING: &[&str] = &["fixup!", "squash!", "amend!", "wip", "merge branch", "merge pull request", "merge remote"];
/// Lines that programs add.
const TRAILERS: &[&str] =
    &["co-authored-by:", "signed-off-by:", "change-id:", "reviewed-by:", "generated with", "\u{1f916} generated with"];

/// The message of the commit that this command made; nothing, where it made none.
pub fn message(command: &str, response: &Value) -> Option<String> {
    let arguments = arguments(command)?;
    let said = said(response);
    let written = written(arguments);
    let subject = said.lines().find_map(reported);
    let message = match (subject, written) {
        // What git says is what was committed; the rest of the message only the command knows.
        (Some(subject), Some(written)) if written.lines().next().is_some_and(|first| first.trim() == subject) => {
            written
        }
        (Some(subject), _) => subject.to_owned(),
        (None, Some(written)) if is_quiet(arguments) && !is_failure(&said) => written,
        (None, _) => return None,
    };
    let subject = message.lines().next().unwrap_or_default().trim().to_lowercase();
    if subject.chars().count() < SHORTEST || PASSING.iter().any(|passing| subject.starts_with(passing)) {
        return None;
    }
    let is_trailer = |line: &&str| TRAILERS.iter().any(|trailer| line.trim().to_lowercase().starts_with(trailer));
    let lines: Vec<&str> = message.lines().filter(|line| !is_trailer(line)).collect();
    Some(format!("Committed: {}", super::clean::cut(lines.join("\n").trim(), LONGEST)))
}

/// What stands behind `git commit`, if the command has one.
fn arguments(command: &str) -> Option<&str> {
    let starts = command.match_indices("git").map(|(at, _)| at);
    starts.filter(|at| begins_command(&command[..*at])).find_map(|at| {
        let mut rest = &command[at + "git".len()..];
        loop {
            let words = rest.strip_prefix([' ', '\t'])?.trim_start_matches([' ', '\t']);
            let end = words.find([' ', '\t', '\n', ';', '&', '|']).unwrap_or(words.len());
            match &words[..end] {
                "commit" => return Some(&words[end..]),
                // Options of git itself, of which some have a value.
                "-C" | "-c" => {
                    let value = words[end..].trim_start_matches([' ', '\t']);
                    rest = &value[value.find([' ', '\t'])?..];
                }
                option if option.starts_with('-') => rest = &words[end..],
                _ => return None,
            }
        }
    })
}

/// Whether a command may begin here: at the start, behind another command, or behind variables that are set for it.
fn begins_command(before: &str) -> bool {
    let line = before.trim_end_matches([' ', '\t']);
    if line.is_empty() || line.ends_with(['\n', ';', '&', '|', '(']) {
        return true;
    }
    let last = line.rsplit([' ', '\t', '\n', ';', '&', '|', '(']).next().unwrap_or_default();
    let is_variable = last
        .split_once('=')
        .is_some_and(|(name, _)| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
    line.len() < before.len() && is_variable && begins_command(&line[..line.len() - last.len()])
}

/// What the command printed.
fn said(response: &Value) -> String {
    match response {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(said).collect::<Vec<_>>().join("\n"),
        Value::Object(_) => {
            let parts = ["stdout", "stderr", "text", "output", "content"].map(|name| &response[name]);
            parts.into_iter().filter(|part| !part.is_null()).map(said).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// The subject in git's `[branch 1a2b3c4] subject`.
fn reported(line: &str) -> Option<&str> {
    let (inside, subject) = line.trim().strip_prefix('[')?.split_once("] ")?;
    let id = inside.rsplit(' ').next().filter(|id| id.len() < inside.len())?;
    (id.len() >= 7 && id.chars().all(|c| c.is_ascii_hexdigit())).then(|| subject.trim())
}

fn is_quiet(arguments: &str) -> bool {
    let own = arguments.split(['\n', ';', '&', '|']).next().unwrap_or_default();
    own.split_whitespace().any(|word| word == "-q" || word == "--quiet")
}

fn is_failure(said: &str) -> bool {
    let said = said.to_lowercase();
    ["nothing to commit", "nothing added to commit", "no changes added", "error:", "fatal:", "aborting", "failed"]
        .iter()
        .any(|failure| said.contains(failure))
}

/// The message that the command gives: each `-m` is a paragraph.
fn written(arguments: &str) -> Option<String> {
    let mut paragraphs = Vec::new();
    let mut rest = arguments;
    while let Some(word) = rest.trim_start_matches([' ', '\t', '\\']).split([' ', '\t', '\n', '=', '"', '\'']).next() {
        rest = &rest.trim_start_matches([' ', '\t', '\\'])[word.len()..];
        let is_message =
            word == "--message" || (word.starts_with('-') && !word.starts_with("--") && word.ends_with('m'));
        if is_message {
            let (value, after) = value(rest.trim_start_matches([' ', '\t', '=']))?;
            paragraphs.push(value.trim().to_owned());
            rest = after;
        } else {
            rest = rest.strip_prefix('=').unwrap_or(rest);
            if rest.starts_with(['"', '\'']) {
                rest = value(rest)?.1;
            }
        }
        if rest.is_empty() || rest.starts_with(['\n', ';', '&', '|', ')']) || word.starts_with([';', '&', '|', ')']) {
            break;
        }
    }
    (!paragraphs.is_empty()).then(|| paragraphs.join("\n\n"))
}

/// A word of the shell's, and what follows.
fn value(text: &str) -> Option<(String, &str)> {
    if let Some(document) = text.strip_prefix("\"$(cat <<").or_else(|| text.strip_prefix("$(cat <<")) {
        return here_document(document);
    }
    match text.chars().next()? {
        '\'' => text[1..].split_once('\'').map(|(value, rest)| (value.to_owned(), rest)),
        '"' => {
            let (mut value, mut escaped) = (String::new(), false);
            for (at, c) in text.char_indices().skip(1) {
                match c {
                    '"' if !escaped => return Some((value, &text[at + 1..])),
                    '\\' if !escaped => escaped = true,
                    c => {
                        value.push(c);
                        escaped = false;
                    }
                }
            }
            None
        }
        _ => {
            let end = text.find([' ', '\t', '\n', ';', '&', '|']).unwrap_or(text.len());
            Some((text[..end].to_owned(), &text[end..]))
        }
    }
}

fn here_document(text: &str) -> Option<(String, &str)> {
    let (first, body) = text.split_once('\n')?;
    let mark = first.trim_matches(|c: char| !c.is_alphanumeric() && c != '_');
    if mark.is_empty() {
        return None;
    }
    let mut at = 0;
    for line in body.split_inclusive('\n') {
        let end = at + line.len();
        if line.trim() == mark {
            let rest = body[end..].trim_start();
            let rest = rest.strip_prefix(')').unwrap_or(rest);
            return Some((body[..at].to_owned(), rest.strip_prefix('"').unwrap_or(rest)));
        }
        at = end;
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const DONE: &str = "[main 1a2b3c4] Give each tenant a pool of its own\n 2 files changed, 40 insertions(+)";

    #[test]
    fn the_message_of_a_commit_is_found() {
        let subject = "Committed: Give each tenant a pool of its own";
        let of = |command: &str| message(command, &json!({"stdout": DONE, "stderr": "", "interrupted": false}));
        for command in [
            "git commit -m 'Give each tenant a pool of its own'",
            "cd /srv/api && git add -A && git commit -am \"Give each tenant a pool of its own\"",
            "GIT_AUTHOR_NAME=x git -C /srv/api -c a.b=c commit --message='Give each tenant a pool of its own' && git push",
            "git commit -F message.txt",
            "git commit --amend --no-edit",
            "git commit -m 'something else'; echo done",
        ] {
            assert_eq!(of(command).as_deref(), Some(subject), "{command}");
        }
        let body = "git add a && git commit -m \"$(cat <<'EOF'\nGive each tenant a pool of its own\n\nOne \"busy\" tenant \
                    starved the others; it's fair now.\n\nCo-Authored-By: Somebody <a@b.c>\nEOF\n)\" && git status";
        let want = format!("{subject}\n\nOne \"busy\" tenant starved the others; it's fair now.");
        assert_eq!(of(body), Some(want.clone()));
        let two = "git commit -m \"Give each tenant a pool of its own\" -m \"One \\\"busy\\\" tenant starved the others; \
                   it's fair now.\"";
        assert_eq!(of(two), Some(want));
        assert_eq!(message("git commit -F m", &json!(DONE)).as_deref(), Some(subject));
    }

    #[test]
    fn a_quiet_commit_is_believed_unless_it_failed() {
        let command = "git commit -q -m 'Give each tenant a pool'";
        assert_eq!(message(command, &json!("")).as_deref(), Some("Committed: Give each tenant a pool"));
        assert_eq!(message(command, &json!("On branch main\nnothing to commit, working tree clean")), None);
        assert_eq!(message("git commit -m 'Give each tenant a pool'", &json!("")), None);
    }

    #[test]
    fn what_made_no_commit_has_no_message() {
        for (command, said) in [
            ("git log --grep commit", DONE),
            ("echo git commit -m x", DONE),
            ("git status", DONE),
            ("legit commit -m x", DONE),
            ("git commit -m 'Give each tenant a pool'", "husky: the hook failed"),
            ("git commit --dry-run", "On branch main"),
            ("git commit -m wip", "[main 1a2b3c4] wip"),
            ("git commit -m x", "[main 1a2b3c4] fixup! Give each tenant a pool"),
            ("git commit -m x", "[main 1a2b3c4] Merge branch 'a' into main"),
            ("git commit -m \"$(cat <<EOF", ""),
            ("git commit -q -m \"open", ""),
            ("git", ""),
            ("git -C", ""),
        ] {
            assert_eq!(message(command, &json!(said)), None, "{command}");
        }
        assert_eq!(message("git commit -m x", &Value::Null), None);
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        let long = "ü".repeat(3000);
        let message = message("git commit -F m", &json!(format!("[main 1a2b3c4] {long}"))).unwrap();
        assert_eq!(message.chars().count(), "Committed: ".len() + LONGEST);
    }
}
