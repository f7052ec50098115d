//! Tools that prompts and skills speak of, and nobody has.
//!
//! A word between backquotes is taken for a tool where it looks like one (`trip_add`, `trip_add(…)`, or at the begin of
//! a point under a heading "Tools"), unless it is a word of the butler's own data: an argument, a column, a value.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{ButlerContents, Tools, files, finding};
use config::{Finding, Place, SHARED_DIR};
use schedule::CALENDAR_EVENT_TOOLS;
use store::lexer::{Token, name, tokens};
use tools::http;
use tools::sql::{Use, load_dir};

/// With these a tool's name begins or ends.
const VERBS: [&str; 26] = [
    "add", "archive", "cancel", "confirm", "create", "delete", "dismiss", "find", "get", "list", "log", "lookup",
    "mark", "merge", "record", "remove", "resolve", "restore", "schedule", "search", "send", "set", "store", "summary",
    "trend", "update",
];
/// With these a field's name ends, whatever it begins with.
const FIELDS: [&str; 24] = [
    "at", "by", "code", "count", "date", "day", "days", "from", "id", "ids", "key", "kind", "limit", "name", "on",
    "only", "reason", "ref", "status", "time", "to", "type", "until", "url",
];

pub(super) fn check(known: &ButlerContents<'_>) -> Vec<Finding> {
    let Some(tools) = &known.tools else { return Vec::new() };
    let butler = known.butler;
    let own = Judge {
        has: tools.all().map(str::to_owned).collect(),
        data: Some(vocabulary(known)),
        whose: format!("`{}`", butler.name),
        look: format!("`butlerd tool list {}` shows", butler.name),
    };
    let mut found = own.file(&butler.dir.join("AGENTS.md"));
    let (shared, mine): (Vec<_>, Vec<_>) = butler.skills.iter().partition(|s| butler.shared_skills.contains(&s.name));
    for file in mine.iter().flat_map(|skill| texts(skill)) {
        found.extend(own.file(&file));
    }
    let roster = butler.dir.parent().unwrap_or(&butler.dir);
    let anybody = Judge {
        has: everybodys(known, roster, tools),
        data: None,
        whose: "any butler".to_owned(),
        look: "`butlerd tool list BUTLER` shows".to_owned(),
    };
    found.extend(anybody.file(&roster.join(SHARED_DIR).join("AGENTS.md")));
    for file in shared.iter().flat_map(|skill| texts(skill)) {
        found.extend(anybody.file(&file));
    }
    found
}

/// The Markdown of a skill.
fn texts(skill: &config::Skill) -> Vec<PathBuf> {
    let files = skill.files().unwrap_or_default().into_iter().filter(|f| !f.is_dir);
    let paths = files.map(|f| skill.dir.join(f.path));
    paths.filter(|p| p.extension().is_some_and(|e| e == "md")).collect()
}

/// What some butler of the roster could have: what is shared is read by all.
fn everybodys(known: &ButlerContents<'_>, roster: &Path, tools: &Tools) -> BTreeSet<String> {
    let mut all: BTreeSet<String> = tools.all().map(str::to_owned).collect();
    for butler in files::names(roster) {
        all.extend((known.own_tools)(&butler).into_iter().map(str::to_owned));
        all.extend(files::tool_files(&roster.join(&butler)).into_iter().map(|(tool, _)| tool));
    }
    all.extend(super::super::catalog::Catalog::default().declared());
    all.extend(CALENDAR_EVENT_TOOLS.map(str::to_owned));
    all
}

/// Words of the butler's data, which prompts rightly set between backquotes: what its tools take and what its tables
/// hold.
fn vocabulary(known: &ButlerContents<'_>) -> BTreeSet<String> {
    let butler = known.butler;
    let mut words: BTreeSet<String> = butler.schedules.iter().map(|s| s.name.clone()).collect();
    words.extend(butler.modules.keys().cloned());
    words.extend(files::names(butler.dir.parent().unwrap_or(&butler.dir)));
    words.extend(files::stems(&butler.dir.join("jobs"), "sql"));
    for (dir, of) in [("tools", Use::Tool), ("jobs", Use::Job)] {
        for file in load_dir(&butler.dir.join(dir), of).unwrap_or_default() {
            of_schema(file.schema(), &mut words);
        }
    }
    for tool in http::load_dir(&butler.dir.join("tools")).unwrap_or_default() {
        of_schema(&tool.schema(), &mut words);
    }
    for dir in ["tools", "jobs", "migrations"] {
        let dir = butler.dir.join(dir);
        for stem in files::stems(&dir, "sql") {
            of_sql(&std::fs::read_to_string(dir.join(format!("{stem}.sql"))).unwrap_or_default(), &mut words);
        }
    }
    words
}

/// Names and values in a schema.
fn of_schema(schema: &Value, words: &mut BTreeSet<String>) {
    match schema {
        Value::Object(map) => {
            for (key, value) in map {
                words.insert(key.clone());
                of_schema(value, words);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| of_schema(value, words)),
        Value::String(text) if is_word(text) => drop(words.insert(text.clone())),
        _ => {}
    }
}

/// Names and values in SQL, but for functions: they are called like the tools that they work for.
fn of_sql(sql: &str, words: &mut BTreeSet<String>) {
    let list = tokens(sql);
    for (n, (_, token)) in list.iter().enumerate() {
        if let Token::Other(text) = token {
            let quoted = text.strip_prefix('\'').and_then(|t| t.strip_suffix('\''));
            words.extend(quoted.filter(|t| is_word(t)).map(str::to_owned));
            if let Some((_, body)) = text.strip_prefix('$').and_then(|t| t.split_once('$')) {
                of_sql(body, words);
            }
        }
        let calls = matches!(list.get(n + 1), Some((_, Token::Other("("))));
        words.extend(name(token).filter(|_| !calls));
        if let Token::Param(param) = token {
            words.insert((*param).to_owned());
        }
    }
}

/// `a`, `trip_add`, `module.states`
fn is_word(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.ends_with(plain)
        && text.chars().all(|c| plain(c) || c == '_' || c == '.')
}

/// Where a word stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    /// Alone between backquotes.
    Named,
    /// With arguments after it.
    Called,
    /// At the begin of a point under "Tools".
    Listed,
}

/// Says of words whether they name tools that are not there.
struct Judge {
    has: BTreeSet<String>,
    /// Words that are data. `None`: not known, so that only words with a verb are taken for tools.
    data: Option<BTreeSet<String>>,
    /// Who should have them.
    whose: String,
    look: String,
}

impl Judge {
    fn file(&self, file: &Path) -> Vec<Finding> {
        let text = super::prompts::text(file);
        let mut told: BTreeSet<&str> = BTreeSet::new();
        let mut found = Vec::new();
        for (line, word, how) in words(&text) {
            if self.is_missing(word, how) && told.insert(word) {
                let near = self.nearest(word);
                let expected = match near {
                    Some(near) => format!("a tool that is there, such as `{near}`"),
                    None => format!("one of those that {}", self.look),
                };
                let problem = format!("found `{word}`, which is not a tool of {}", self.whose);
                found.push(finding(Place::Line(file.to_owned(), line), problem, expected));
            }
        }
        found
    }

    fn is_missing(&self, word: &str, how: How) -> bool {
        if self.has.contains(word) || self.data.as_ref().is_some_and(|data| data.contains(word)) {
            return false;
        }
        let (first, last) = ends(word);
        if first == last {
            return how != How::Named && self.nearest(word).is_some();
        }
        if word.contains('.') {
            // Others are files and settings.
            return self.has.iter().any(|tool| tool.contains('.') && ends(tool).0 == first);
        }
        match how {
            How::Called | How::Listed => true,
            How::Named => {
                let akin = |tool: &String| tool.contains('_') && ends(tool).0 == first;
                let alike = || self.data.is_some() && self.has.iter().any(akin);
                !FIELDS.contains(&last) && (VERBS.contains(&last) || VERBS.contains(&first) || alike())
            }
        }
    }

    /// The tool whose name differs by a letter or two.
    fn nearest(&self, word: &str) -> Option<&str> {
        config::nearest(word, self.has.iter().map(String::as_str))
    }
}

/// The first and the last part of a name.
fn ends(word: &str) -> (&str, &str) {
    let parts: Vec<&str> = word.split(['_', '.']).collect();
    (parts.first().copied().unwrap_or(word), parts.last().copied().unwrap_or(word))
}

/// The words of a text that could be tools', with their lines.
fn words(text: &str) -> Vec<(usize, &str, How)> {
    let mut found = Vec::new();
    let (mut fenced, mut tools) = (false, false);
    for (n, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        if trimmed.starts_with("```") || trimmed.starts_with("~~~") {
            fenced = !fenced;
        } else if fenced {
            found.extend(called(line).into_iter().map(|word| (n + 1, word, How::Called)));
        } else {
            if trimmed.starts_with('#') {
                tools = trimmed.trim_start_matches('#').trim().eq_ignore_ascii_case("tools");
            }
            // As many as stand before anything else does.
            let mut head = tools && (trimmed.starts_with("- `") || trimmed.starts_with("* `"));
            for (i, part) in trimmed.split('`').enumerate() {
                if i % 2 == 0 {
                    head &= i == 0 || part.trim() == ",";
                    continue;
                }
                let how = if head { How::Listed } else { How::Named };
                match part.split_once('(') {
                    Some((word, rest)) if is_word(word) && rest.ends_with(')') => {
                        found.push((n + 1, word, How::Called));
                    }
                    None if is_word(part) => found.push((n + 1, part, how)),
                    _ => {}
                }
            }
        }
    }
    found
}

/// Names before an opening parenthesis.
fn called(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, _) in line.match_indices('(') {
        let begin = line[..at].rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.').map_or(0, |i| i + 1);
        let word = &line[begin..at];
        if is_word(word) && word.contains('_') {
            found.push(word);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_look_like_tools_and_are_none() {
        let judge = Judge {
            has: ["trip_add", "trip_list", "module.states", "notify", "bill_list"].map(str::to_owned).into(),
            data: Some(["trip_kind", "due_list"].map(str::to_owned).into()),
            whose: "`travel`".to_owned(),
            look: String::new(),
        };
        let text = "# Tools\n\n- `trip_add`, `trip_edit`: x `trip_away`\n- `notfy`: x\n- `weekend`: x\n\n# Else\n\
                    `trip_id` `due_list` `trip_kind` `butler.toml` `module.state` `weather(x)` `weather_ask(day=1)`\n\
                    ```\ntrip_plan(a) and trip_add(b)\n```\n`hotel_add` `late_checkout` `a b_c` `NOT_ME`\n";
        let missing: Vec<(usize, &str)> =
            words(text).into_iter().filter(|(_, w, how)| judge.is_missing(w, *how)).map(|(n, w, _)| (n, w)).collect();
        let wanted = [
            (3, "trip_edit"),
            (3, "trip_away"),
            (4, "notfy"),
            (8, "module.state"),
            (8, "weather_ask"),
            (10, "trip_plan"),
            (12, "hotel_add"),
        ];
        assert_eq!(missing, wanted);
    }
}
