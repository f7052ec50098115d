//! The pages of the repository, as far as the tests read Markdown: blocks of code, prose, links, headings.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A page of Markdown.
pub struct Page {
    /// From the repository's root on.
    pub path: PathBuf,
    pub blocks: Vec<Block>,
    /// All that is no block of code; such lines are empty here, so that line numbers hold.
    prose: Vec<String>,
}

/// A block of code.
pub struct Block {
    /// The number of its first line.
    pub line: usize,
    /// What stands behind the fence; `None`: it is indented.
    pub language: Option<String>,
    pub lines: Vec<String>,
}

/// README and its neighbours, and all of docs/.
pub fn pages() -> Vec<Page> {
    let mut paths: Vec<PathBuf> =
        ["README", "ARCHITECTURE", "CONTRIBUTING", "CHANGELOG"].map(|name| PathBuf::from(format!("{name}.md"))).into();
    for dir in ["docs", "docs/reference"] {
        let entries = std::fs::read_dir(root().join(dir)).unwrap_or_else(|e| panic!("{dir}: {e}"));
        let names = entries.flatten().map(|entry| Path::new(dir).join(entry.file_name()));
        paths.extend(names.filter(|path| path.extension().is_some_and(|e| e == "md")));
    }
    paths.sort();
    paths.into_iter().map(Page::read).collect()
}

impl Page {
    fn read(path: PathBuf) -> Self {
        let text = std::fs::read_to_string(root().join(&path)).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let (mut blocks, mut prose): (Vec<Block>, Vec<String>) = (Vec::new(), Vec::new());
        let (mut fenced, mut indented) = (false, false);
        for (number, line) in text.lines().enumerate() {
            let mut kept = String::new();
            let gap = prose.last().is_none_or(String::is_empty);
            if let Some(language) = line.strip_prefix("```") {
                fenced = !fenced;
                indented = false;
                if fenced {
                    blocks.push(Block { line: number + 2, language: Some(language.to_owned()), lines: Vec::new() });
                }
            } else if fenced {
                blocks.last_mut().expect("a block").lines.push(line.to_owned());
            } else if let Some(code) = line.strip_prefix("    ").filter(|_| indented || gap) {
                if !indented {
                    blocks.push(Block { line: number + 1, language: None, lines: Vec::new() });
                }
                indented = true;
                blocks.last_mut().expect("a block").lines.push(code.to_owned());
            } else {
                indented = indented && line.is_empty();
                kept = line.to_owned();
            }
            prose.push(kept);
        }
        Self { path, blocks, prose }
    }

    /// Each link's target, with the number of its line. What stands in code is none.
    pub fn links(&self) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        for (number, line) in self.prose.iter().enumerate() {
            let plain: String = line.split('`').step_by(2).collect();
            let targets = plain.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
            found.extend(targets.map(|(target, _)| (number + 1, target.to_owned())));
        }
        found
    }

    /// What stands in backticks in the prose, with the number of its line.
    pub fn code(&self) -> Vec<(usize, String)> {
        let text = self.prose.join("\n");
        let (mut found, mut line) = (Vec::new(), 1);
        for (n, part) in text.split('`').enumerate() {
            if n % 2 == 1 {
                found.push((line, part.split_whitespace().collect::<Vec<_>>().join(" ")));
            }
            line += part.matches('\n').count();
        }
        found
    }

    /// Its headings as they stand, without their marks.
    pub fn headings(&self) -> impl Iterator<Item = &str> {
        let lines = self.prose.iter().filter(|line| line.starts_with('#'));
        lines.map(|line| line.trim_start_matches('#').trim())
    }

    /// The names under which links reach its headings.
    pub fn anchors(&self) -> Vec<String> {
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        let mut found = Vec::new();
        for heading in self.headings() {
            let kept = heading.to_lowercase();
            let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            let slug: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
            let times = seen.entry(slug.clone()).or_default();
            found.push(if *times == 0 { slug } else { format!("{slug}-{times}") });
            *times += 1;
        }
        found
    }
}
