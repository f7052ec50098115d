//! The annotated default file, made of the tables that the checker uses.

use super::check::joined;
use super::daemon::Config;
use super::key::{Default, Key, Kind, Table};

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
    table(&Config::TABLE, "", &mut out);
    out
}

fn table(schema: &Table, path: &str, out: &mut String) {
    let (tables, values): (Vec<&Key>, Vec<&Key>) =
        schema.keys.iter().partition(|key| matches!(key.kind, Kind::Table(_)));
    for key in values {
        out.push('\n');
        comment(key.doc, out);
        let (shown, example) = match key.default {
            Default::Is(text) => (text, false),
            Default::Unset(text) => (text, true),
            Default::Required | Default::Inner => continue,
        };
        let status = if example { " Unset by default; this is an example:" } else { "" };
        comment(&format!("Form: {}.{status}", key.kind.expected()), out);
        out.push_str(&format!("#{} = {shown}\n", key.name));
    }
    for key in tables {
        if let Kind::Table(inner) = &key.kind {
            let full = joined(path, key.name);
            out.push('\n');
            comment(inner.doc, out);
            out.push_str(&format!("[{full}]\n"));
            table(inner, &full, out);
        }
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
