//! The MCP server in Codex's configuration. Codex has one list for all projects, so the server finds its project by the
//! directory that it is started in.

use std::path::Path;

use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, Value};

use super::error::InitError;
use super::servers::{LEGACY, NAME, Server};

/// The file, below Codex's home.
pub(super) const FILE: &str = "config.toml";

const LIST: &str = "mcp_servers";
/// Codex gives a server a few variables only. By these it finds the daemon's socket.
const PASSED_ON: [&str; 2] = ["XDG_RUNTIME_DIR", crate::connection::SOCKET_VARIABLE];

/// The configuration with the server, and without the legacy one. What the developer set beside it stays.
pub(super) fn with(path: &Path, text: Option<&str>, server: &Server) -> Result<String, InitError> {
    let text = text.unwrap_or_default();
    let mut file = open(path, text)?;
    let mut old = take_out(&mut file, LEGACY);
    if !matches(&file, server) {
        if !registered(&file, NAME).is_some_and(|found| found.is_ours(server)) {
            let replaced = take_out(&mut file, NAME);
            // The new one stands where an old one stood.
            let other = if replaced.is_some() { std::mem::replace(&mut old, replaced) } else { None };
            keep_comments(&mut file, other);
        }
        if entry(&file, NAME).is_none() {
            add(&mut file, old.take());
        }
        fill(&mut file, server);
    }
    keep_comments(&mut file, old);
    Ok(file.to_string())
}

/// The configuration without the server, if it is ours. `None`: it held nothing else.
pub(super) fn without(path: &Path, text: &str, server: &Server) -> Result<Option<String>, InitError> {
    let mut file = open(path, text)?;
    if !registered(&file, NAME).is_some_and(|found| found.is_ours(server)) {
        return Ok(Some(text.to_owned()));
    }
    let gone = take_out(&mut file, NAME);
    keep_comments(&mut file, gone);
    let left = file.to_string();
    Ok((!left.trim().is_empty()).then_some(left))
}

/// Whether the server is there as it is to be.
pub(super) fn is_registered(path: &Path, text: &str, server: &Server) -> bool {
    open(path, text).is_ok_and(|file| matches(&file, server))
}

fn open(path: &Path, text: &str) -> Result<DocumentMut, InitError> {
    let file: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        InitError::Syntax { path: path.to_owned(), line, format: "TOML", what: error.message().replace('\n', ", ") }
    })?;
    let shape = |at: String| InitError::Shape { path: path.to_owned(), at, expected: "a table" };
    let Some(list) = file.get(LIST) else { return Ok(file) };
    let Some(list) = list.as_table_like() else { return Err(shape(LIST.into())) };
    for name in [NAME, LEGACY] {
        if list.get(name).is_some_and(|entry| !entry.is_table_like()) {
            return Err(shape(format!("{LIST}.{name}")));
        }
    }
    Ok(file)
}

fn entry<'a>(file: &'a DocumentMut, name: &str) -> Option<&'a dyn TableLike> {
    file.get(LIST)?.as_table_like()?.get(name)?.as_table_like()
}

fn strings(item: Option<&Item>) -> Vec<String> {
    let items = item.and_then(Item::as_array).into_iter().flatten();
    items.filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

fn registered(file: &DocumentMut, name: &str) -> Option<Server> {
    let entry = entry(file, name)?;
    let set = entry.get("env").and_then(Item::as_table_like);
    let env = set.into_iter().flat_map(|set| set.iter());
    Some(Server {
        program: entry.get("command")?.as_str()?.to_owned(),
        args: strings(entry.get("args")),
        env: env.filter_map(|(name, value)| Some((name.to_owned(), value.as_str()?.to_owned()))).collect(),
    })
}

fn matches(file: &DocumentMut, server: &Server) -> bool {
    let passed_on = entry(file, NAME).map(|entry| strings(entry.get("env_vars"))).unwrap_or_default();
    // A developer may have added variables.
    registered(file, NAME).is_some_and(|found| {
        found.program == server.program
            && found.args == server.args
            && server.env.iter().all(|(name, value)| found.env.get(name) == Some(value))
            && wanted(server).iter().all(|name| passed_on.iter().any(|found| found == name))
            && !(server.env.is_empty() && found.env.contains_key(crate::connection::SOCKET_VARIABLE))
    })
}

/// The variables that are passed on: none where the socket is named.
fn wanted(server: &Server) -> &'static [&'static str] {
    if server.env.is_empty() { &PASSED_ON } else { &[] }
}

/// Adds an empty table for the server, in the place of an `old` one or behind the others.
fn add(file: &mut DocumentMut, old: Option<Table>) {
    let first = file.as_table().is_empty();
    let list = file.entry(LIST).or_insert_with(|| {
        let mut list = Table::new();
        list.set_implicit(true);
        Item::Table(list)
    });
    let mut table = Table::new();
    let prefix = match old.as_ref().map(comments).unwrap_or_default() {
        comments if !comments.is_empty() => comments,
        _ if first => String::new(),
        _ => "\n".to_owned(),
    };
    table.decor_mut().set_prefix(prefix);
    if let Some(position) = old.and_then(|old| old.position()) {
        table.set_position(position);
    }
    let new =
        if list.is_inline_table() { Item::Value(Value::InlineTable(InlineTable::new())) } else { Item::Table(table) };
    if let Some(list) = list.as_table_like_mut() {
        list.insert(NAME, new);
    }
}

/// Sets what starts the server.
fn fill(file: &mut DocumentMut, server: &Server) {
    let list = file.get_mut(LIST).and_then(Item::as_table_like_mut);
    let Some(entry) = list.and_then(|list| list.get_mut(NAME)).and_then(Item::as_table_like_mut) else { return };
    entry.insert("command", toml_edit::value(&server.program));
    entry.insert("args", toml_edit::value(server.args.iter().collect::<Array>()));
    if server.env.is_empty() {
        if let Some(env) = entry.get_mut("env").and_then(Item::as_table_like_mut) {
            env.remove(crate::connection::SOCKET_VARIABLE);
        }
        let mut names = strings(entry.get("env_vars"));
        let missing = wanted(server).iter().filter(|name| !names.iter().any(|found| found == *name));
        let missing: Vec<String> = missing.map(|name| (*name).to_owned()).collect();
        names.extend(missing);
        entry.insert("env_vars", toml_edit::value(names.iter().collect::<Array>()));
        return;
    }
    match entry.get_mut("env").and_then(Item::as_table_like_mut) {
        Some(env) => {
            for (name, value) in &server.env {
                env.insert(name, toml_edit::value(value));
            }
        }
        None => {
            let env: InlineTable = server.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            entry.insert("env", toml_edit::value(env));
        }
    }
}

/// Takes a server out, and returns its table if it had a header of its own.
fn take_out(file: &mut DocumentMut, name: &str) -> Option<Table> {
    let list = file.get_mut(LIST).and_then(Item::as_table_like_mut)?;
    let gone = list.remove(name)?;
    if list.is_empty() && file.get(LIST).and_then(Item::as_table).is_none_or(Table::is_implicit) {
        file.remove(LIST);
    }
    gone.into_table().ok().filter(|table| table.position().is_some())
}

/// What stands before a table's header, if that says anything.
fn comments(table: &Table) -> String {
    let prefix = table.decor().prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default();
    if prefix.trim().is_empty() { String::new() } else { prefix.to_owned() }
}

/// Comments that stood before a table that is gone stay: they may belong to what is above.
fn keep_comments(file: &mut DocumentMut, gone: Option<Table>) {
    let Some(gone) = gone else { return };
    let kept = comments(&gone);
    let after = gone.position().unwrap_or(usize::MAX);
    match positions(file.as_table()).into_iter().filter(|position| *position > after).min() {
        _ if kept.is_empty() => {}
        Some(next) => prepend(file.as_table_mut(), next, &kept),
        None => {
            let trailing = file.trailing().as_str().unwrap_or_default().to_owned();
            file.set_trailing(format!("{kept}{trailing}"));
        }
    }
}

/// Where the headers of all tables below this one stand.
fn positions(table: &Table) -> Vec<usize> {
    let mut found = Vec::new();
    for (_, item) in table.iter() {
        let tables: Vec<&Table> = match item {
            Item::Table(table) => vec![table],
            Item::ArrayOfTables(tables) => tables.iter().collect(),
            _ => Vec::new(),
        };
        for table in tables {
            found.extend(table.position().filter(|_| !table.is_implicit()));
            found.extend(positions(table));
        }
    }
    found
}

/// Puts a text before the header that stands at this position.
fn prepend(table: &mut Table, position: usize, text: &str) {
    for (_, item) in table.iter_mut() {
        let tables: Vec<&mut Table> = match item {
            Item::Table(table) => vec![table],
            Item::ArrayOfTables(tables) => tables.iter_mut().collect(),
            _ => Vec::new(),
        };
        for table in tables {
            if table.position() == Some(position) && !table.is_implicit() {
                let own = table.decor().prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default();
                let both = format!("{text}{own}");
                table.decor_mut().set_prefix(both);
            }
            prepend(table, position, text);
        }
    }
}
