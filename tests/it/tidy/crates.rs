//! Which crate a file belongs to, and where its modules are.
//!
//! A folder of `src/` with a `Cargo.toml` is a crate, `src/modules/<name>/` as well.

use std::sync::LazyLock;

use super::root;
use super::source::{Source, rust_files};

/// Every Rust file below `src/`, without what stands under `#[cfg(test)]`.
pub fn sources() -> &'static [Source] {
    static READ: LazyLock<Vec<Source>> = LazyLock::new(|| {
        let files = rust_files(&root().join("src"));
        assert!(!files.is_empty(), "no Rust files in {}", root().join("src").display());
        files.iter().map(|file| Source::read(root(), file).without_tests()).collect()
    });
    &READ
}

/// The folder of the crate that holds `path`, relative to the repository: `src/modules/memory` or `src/store`.
pub fn folder_of(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').collect();
    let mut folders = (2..parts.len()).rev().map(|n| parts[..n].join("/"));
    let with_manifest = folders.find(|folder| root().join(folder).join("Cargo.toml").is_file());
    with_manifest.unwrap_or_else(|| parts[..parts.len().min(2)].join("/"))
}

/// The name of the crate that holds `path`, or is to hold it: `memory`, `store`; `butlerd` for `src/main.rs`.
pub fn crate_of(path: &str) -> String {
    let family = MODULES.iter().find(|name| path.starts_with(&format!("src/modules/{name}/")));
    let folder = folder_of(path);
    let name = family.copied().or_else(|| folder.rsplit('/').next()).unwrap_or_default();
    let name = if name.ends_with(".rs") { "butlerd" } else { name };
    OLD_NAMES.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| new).to_owned()
}

/// Modules that are a crate of their own, whether or not their folder has its manifest yet.
const MODULES: &[&str] = &["memory", "approvals"];

/// What a folder was called before it was a crate.
const OLD_NAMES: &[(&str, &str)] = &[
    ("spawner", "sessions"),
    ("switchboard", "inbox"),
    ("messenger", "outbox"),
    ("scheduler", "schedule"),
    ("credentials", "access"),
];

/// Whether a whole file is tests: `tests.rs`, `due_tests.rs`, anything below `tests/`.
pub fn is_test(path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or_default();
    file == "tests.rs" || file.ends_with("_tests.rs") || path.contains("/tests/")
}

/// The names of the module that a file is, seen from its crate: `["child", "sandbox"]`; none for the crate's root.
pub fn module_of(path: &str) -> Vec<String> {
    let folder = folder_of(path);
    let rest = path.strip_prefix(&folder).unwrap_or(path).trim_start_matches('/');
    let mut names: Vec<String> = rest.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    let root_file = |name: &String| name == "mod" || name == "lib" || name == "main";
    if names.last().is_some_and(root_file) {
        names.pop();
    }
    names
}

/// What stands before a crate's own modules in a path that starts with `crate`: nothing, once the folder is a crate.
pub fn prefix_of(path: &str) -> Vec<String> {
    let folder = folder_of(path);
    if root().join(&folder).join("Cargo.toml").is_file() {
        return Vec::new();
    }
    folder.trim_start_matches("src/").split('/').map(str::to_owned).collect()
}
