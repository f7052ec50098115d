//! The annotated default file, made of the tables that the checker uses.

use serde_json::Value as Json;

use super::check::joined;
use super::daemon::CONFIG;
use super::schema::{Key, Kind, Table};

const HEAD: &str = "\
# butlerd.toml: the household's settings.
#
# Every key stands here with its default, commented out; a key without a default has an example. What is set here
# gives way to the environment (BUTLERD_<SECTION>__<KEY>, such as BUTLERD_DATABASE__URL) and to the command line.
# Durations are texts such as \"30s\" or \"10m\"; with `_s` after the key's name, whole seconds are meant. Sizes are
# texts such as \"16 MiB\". `butlerd check` tells every mistake with its line.
";

/// The text of the annotated `butlerd.toml`. Read as it is, it changes nothing.
pub fn annotated_default() -> String {
    let mut out = HEAD.to_owned();
    table(&CONFIG, "", &mut out);
    out
}

fn table(schema: &Table, path: &str, out: &mut String) {
    let (tables, values): (Vec<&Key>, Vec<&Key>) =
        schema.keys.iter().partition(|key| matches!(key.kind, Kind::Table(_)));
    for key in values {
        out.push('\n');
        comment(&key.doc, out);
        let status = if key.example.is_some() { " Unset by default; this is an example:" } else { "" };
        let Some(shown) = key.example.as_ref().or(key.default.as_ref()) else { continue };
        comment(&format!("Form: {}.{status}", key.kind.expected()), out);
        out.push_str(&format!("#{} = {}\n", key.name, toml(shown)));
    }
    for key in tables {
        if let Kind::Table(inner) = &key.kind {
            let full = joined(path, &key.name);
            out.push('\n');
            comment(&key.doc, out);
            out.push_str(&format!("[{full}]\n"));
            table(inner, &full, out);
        }
    }
}

/// A value as it stands in a file.
pub(super) fn toml(value: &Json) -> String {
    match value {
        Json::Array(items) => format!("[{}]", items.iter().map(toml).collect::<Vec<_>>().join(", ")),
        Json::Object(map) => {
            let entries: Vec<String> = map.iter().map(|(key, value)| format!("{key} = {}", toml(value))).collect();
            format!("{{ {} }}", entries.join(", "))
        }
        plain => plain.to_string(),
    }
}

/// A paragraph as comment lines of at most 118 characters.
fn comment(text: &str, out: &mut String) {
    let mut width = 0;
    for word in text.split_whitespace() {
        let more = word.chars().count() + 1;
        if width == 0 {
            out.push('#');
            width = 1;
        } else if width + more > 118 {
            out.push_str("\n#");
            width = 1;
        }
        out.push(' ');
        out.push_str(word);
        width += more;
    }
    out.push('\n');
}
