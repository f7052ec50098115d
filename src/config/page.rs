//! All settings as one page of Markdown, made of the tables that the checker uses.

use std::fmt::Write as _;

use super::annotate::toml;
use super::butler::BUTLER;
use super::check::joined;
use super::daemon::CONFIG;
use super::schema::{Key, Kind, Table};
use super::section::Section;

/// The page `docs/reference/settings.md`, with the sections of these modules.
pub fn settings_page<'a>(modules: impl Iterator<Item = (&'a str, Section)>) -> String {
    let mut page = "\
# Settings

Made from the code by `just docs`. `butlerd config` prints the first part as a file to edit, and
`butlerd config --schema butlerd.toml` as a JSON Schema for editors. `butlerd check` names every mistake with its line.

Durations are texts such as `\"30s\"` or `\"10m\"`; with `_s` after the key's name, whole seconds are meant. Sizes are texts such
as `\"16 MiB\"`.

## butlerd.toml

The household's settings. The environment goes before the file (`BUTLERD_<SECTION>__<KEY>`, such as `BUTLERD_DATABASE__URL`),
and the command line before both. The daemon reads them when it starts.
"
    .to_owned();
    table(&CONFIG, "", &mut page);
    page.push_str(
        "
## butler.toml

The settings of one butler, in `roster/<butler>/butler.toml`. `butlerd reload` takes up changes.
",
    );
    table(&BUTLER, "", &mut page);
    for (name, section) in modules {
        let path = joined("modules", name);
        heading(&format!("[{path}]"), "", &mut page);
        if section.table().keys.is_empty() {
            page.push_str("\nIt has no settings.\n");
        }
        table(section.table(), &path, &mut page);
    }
    page
}

fn heading(title: &str, doc: &str, page: &mut String) {
    let gap = if doc.is_empty() { "" } else { "\n" };
    // Writing into a text can't fail.
    let _ = writeln!(page, "\n### `{title}`\n{gap}{doc}{gap}");
    while page.ends_with("\n\n") {
        page.pop();
    }
}

fn table(of: &Table, path: &str, page: &mut String) {
    let values: Vec<&Key> = of.keys.iter().filter(|key| inner(key).is_none()).collect();
    if !values.is_empty() {
        page.push_str("\n| key | form | default | meaning |\n|---|---|---|---|\n");
    }
    for key in values {
        let default = match (&key.default, &key.example) {
            // An example says that the key is not set by itself.
            (_, Some(example)) => format!("–, e.g. `{}`", toml(example)),
            (Some(default), None) => format!("`{}`", toml(default)),
            (None, None) if key.required => "needed".to_owned(),
            (None, None) => "–".to_owned(),
        };
        let cells = [format!("`{}`", key.name), key.kind.expected(), default, key.doc.clone()];
        let cells = cells.map(|cell| cell.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|"));
        let _ = writeln!(page, "| {} |", cells.join(" | "));
    }
    for key in &of.keys {
        let Some((inner, title)) = inner(key) else { continue };
        let full = joined(path, &key.name);
        heading(&title(&full), &key.doc, page);
        let inside = if matches!(key.kind, Kind::Map(..)) { joined(&full, "<name>") } else { full };
        table(inner, &inside, page);
    }
}

/// How the head of a table is written whose path is this.
type Head = fn(&str) -> String;

/// The table that a key holds, and how its head is written.
fn inner(key: &Key) -> Option<(&Table, Head)> {
    match &key.kind {
        Kind::Table(inner) => Some((inner, |full| format!("[{full}]"))),
        Kind::List(list) => match &**list {
            Kind::Table(inner) => Some((inner, |full| format!("[[{full}]]"))),
            _ => None,
        },
        Kind::Map(_, map) => match &**map {
            Kind::Table(inner) => Some((inner, |full| format!("[{full}.<name>]"))),
            _ => None,
        },
        _ => None,
    }
}
