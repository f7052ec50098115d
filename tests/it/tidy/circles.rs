//! Files of a crate don't use each other in circles. A parent and its children may: they are one thing in several
//! files.

use std::collections::{BTreeMap, BTreeSet};

use super::baseline::{Finding, demand_no_more};
use super::crates::{crate_of, folder_of, is_test, module_of, prefix_of, sources};
use super::source::{Named, Source};

/// The modules of one crate, by their names from the crate's root.
struct Modules<'a> {
    prefix: Vec<String>,
    files: BTreeMap<Vec<String>, &'a Source>,
}

/// One file that uses another, and where.
struct Edge<'a> {
    from: &'a Source,
    to: &'a Source,
    line: usize,
}

impl<'a> Modules<'a> {
    /// The modules of each crate among the files.
    fn all(sources: &'a [Source]) -> Vec<Self> {
        let mut crates: BTreeMap<String, Self> = BTreeMap::new();
        for source in sources.iter().filter(|source| !is_test(&source.path)) {
            let modules = crates.entry(folder_of(&source.path));
            let modules = modules.or_insert_with(|| Self { prefix: prefix_of(&source.path), files: BTreeMap::new() });
            modules.files.insert(module_of(&source.path), source);
        }
        crates.into_values().collect()
    }

    /// A path from the crate's root, if it leads to the crate itself.
    fn absolute(&self, at: &[String], segments: &[String]) -> Option<Vec<String>> {
        let (first, rest) = segments.split_first()?;
        match first.as_str() {
            "crate" => rest.strip_prefix(self.prefix.as_slice()).map(<[String]>::to_vec),
            "self" => Some([at, rest].concat()),
            "super" => {
                let up = segments.iter().take_while(|s| *s == "super").count();
                Some([at.get(..at.len().checked_sub(up)?)?, &segments[up..]].concat())
            }
            _ => {
                let child = [at, std::slice::from_ref(first)].concat();
                self.files.contains_key(&child).then(|| [child.as_slice(), rest].concat())
            }
        }
    }

    /// The module in which stands what a path names; through what modules on the way hand on.
    fn home(&self, at: &[String], segments: &[String], steps: usize) -> Option<Vec<String>> {
        let path = self.absolute(at, segments)?;
        let known = (0..=path.len()).rev().find(|n| self.files.contains_key(&path[..*n]))?;
        let (module, rest) = path.split_at(known);
        let handed_on = |name: &String| {
            let paths = &self.files[module].paths;
            let named = paths.iter().find(|p| p.segments.last() == Some(name) && p.segments.len() > 1)?;
            self.home(module, &named.segments, steps.checked_sub(1)?)
        };
        rest.first().and_then(handed_on).or_else(|| Some(module.to_vec()))
    }

    /// Who uses whom, but for parents and their children, at any depth.
    fn edges(&self) -> Vec<Edge<'a>> {
        let mut found = Vec::new();
        for (at, from) in &self.files {
            let related = |to: &[String]| to.starts_with(at) || at.starts_with(to);
            let used = |named: &Named| {
                let to = self.home(at, &named.segments, 8)?;
                (!related(&to)).then(|| Edge { from, to: self.files[&to], line: named.line })
            };
            found.extend(from.paths.iter().filter_map(used));
        }
        found
    }
}

/// Every use that is part of a circle.
fn circles(sources: &[Source]) -> Vec<Finding> {
    let mut found = Vec::new();
    for modules in Modules::all(sources) {
        let edges = modules.edges();
        let mut users: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for edge in &edges {
            users.entry(&edge.from.path).or_default().insert(&edge.to.path);
        }
        let mut said = BTreeSet::new();
        for edge in edges {
            let (from, to) = (edge.from.path.as_str(), edge.to.path.as_str());
            if said.insert((from, to)) && leads(&users, to, from) {
                let text = format!("{from}:{}: uses {to}, which uses it, too, or by way of others", edge.line);
                found.push(Finding { counts_as: crate_of(from), text });
            }
        }
    }
    found
}

fn leads<'a>(users: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &'a str, to: &str) -> bool {
    let (mut open, mut seen) = (vec![from], BTreeSet::new());
    while let Some(at) = open.pop() {
        if at == to {
            return true;
        }
        if seen.insert(at) {
            open.extend(users.get(at).into_iter().flatten());
        }
    }
    false
}

#[test]
fn files_of_a_crate_use_each_other_in_no_circle() {
    demand_no_more("circles", &circles(sources()));
}

#[test]
fn circles_are_found_and_parents_are_none() {
    let files = [
        ("src/cellar/mod.rs", "mod wine; mod rack; mod cask; pub use rack::Rack; pub use wine::Wine;"),
        ("src/cellar/wine.rs", "use super::Rack;"),
        ("src/cellar/rack.rs", "use crate::cellar::cask::Cask; struct Rack;"),
        ("src/cellar/cask.rs", "fn f() -> super::wine::Wine { crate::store::x() }"),
        ("src/cellar/cask/hoop.rs", "use super::super::cask::Cask; use super::Stave;"),
        ("src/cellar/lamp.rs", "use super::wine::Wine;"),
    ];
    let sources: Vec<_> = files.iter().map(|(path, text)| Source::parse(path, text)).collect();
    let found: Vec<_> = circles(&sources).into_iter().map(|f| f.text).collect();
    let want = [
        "src/cellar/cask.rs:1: uses src/cellar/wine.rs, which uses it, too, or by way of others",
        "src/cellar/rack.rs:1: uses src/cellar/cask.rs, which uses it, too, or by way of others",
        "src/cellar/wine.rs:1: uses src/cellar/rack.rs, which uses it, too, or by way of others",
    ];
    assert_eq!(found, want);
}
