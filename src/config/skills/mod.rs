//! Skills: workflows that a model reads when it needs them.
//!
//! A skill is a directory with a `SKILL.md` (YAML between two `---` lines, then Markdown) and companion files that the
//! text refers to. A butler has those of `roster/<butler>/skills/`, and of `roster/shared/skills/` those that
//! `butler.shared_skills` names. Which skills there are is settled when the butler starts, as its tools are; their files
//! are read when they are used.
//!
//! A skill holds plain files and directories. A link could bring in what isn't the butler's, so there are none.

mod files;
mod head;
#[cfg(debug_assertions)]
#[doc(hidden)]
pub mod testing;
mod triggers;

use std::path::{Path, PathBuf};

pub use files::{Limits, SkillFile, SkillFileError};
pub use head::body;
pub(super) use head::is_name;

use super::SHARED_DIR;
use super::mistake::Mistake;
use files::kind;
use triggers::Triggers;

/// The file that makes a directory a skill.
pub const SKILL_FILE: &str = "SKILL.md";

/// Where a butler's skills are, below its directory; the shared ones, below that of what butlers share.
const SKILLS_DIR: &str = "skills";

/// Of one butler's skills together.
pub const SKILL_LIMITS: Limits = Limits { bytes: 16 << 20, files: 2000, depth: 16 };

/// How much of a prompt is held against trigger patterns, in bytes: what somebody wants stands at its begin.
const MATCHED_BYTES: usize = 16 << 10;

/// One skill of a butler.
#[derive(Debug, Clone)]
pub struct Skill {
    /// The name of its directory.
    pub name: String,
    /// What it is for and when to use it, on one line.
    pub description: String,
    /// As its author counts; `None` if they don't.
    pub version: Option<String>,
    /// Its directory, absolute.
    pub dir: PathBuf,
    /// Whether there are files beside its `SKILL.md`.
    pub has_companions: bool,
    /// Whether one of those may be executed.
    pub has_scripts: bool,
    triggers: Triggers,
}

impl Skill {
    /// How many of its trigger patterns occur in a prompt, of which the first 16 KiB are looked at. Linear in both.
    pub fn matches(&self, prompt: &str) -> usize {
        let mut end = prompt.len().min(MATCHED_BYTES);
        while !prompt.is_char_boundary(end) {
            end -= 1;
        }
        self.triggers.matches(&prompt[..end])
    }

    /// All its files and directories, `SKILL.md` among them, parents first and by name.
    pub fn files(&self) -> Result<Vec<SkillFile>, SkillFileError> {
        files::walk(&self.dir, &SKILL_LIMITS)
    }
}

/// The skills in the order in which a model should see them: those first that the most of their patterns call for,
/// those alike by name.
pub fn ordered(skills: &[Skill], prompt: &str) -> Vec<Skill> {
    let mut ranked: Vec<(usize, &Skill)> = skills.iter().map(|s| (s.matches(prompt), s)).collect();
    ranked.sort_by(|(a, x), (b, y)| b.cmp(a).then_with(|| x.name.cmp(&y.name)));
    ranked.into_iter().map(|(_, s)| s.clone()).collect()
}

/// A shared skill that a butler asks for, and where its file does so.
pub(super) struct SharedSkillRef {
    pub name: String,
    pub file: PathBuf,
    pub line: Option<usize>,
    pub key: String,
}

/// Reads all skills of the butler in `roster/<dir>`, sorted by name, and every mistake in them. `shown` is the roster's
/// path as mistakes tell it.
pub(super) fn load(roster: &Path, shown: &Path, dir: &str, wanted: &[SharedSkillRef]) -> (Vec<Skill>, Vec<Mistake>) {
    let mut loader = Loader { skills: Vec::new(), mistakes: Vec::new(), left: SKILL_LIMITS };
    let own = (roster.join(dir).join(SKILLS_DIR), shown.join(dir).join(SKILLS_DIR));
    let shared = (roster.join(SHARED_DIR).join(SKILLS_DIR), shown.join(SHARED_DIR).join(SKILLS_DIR));
    for name in loader.names(&own.0, &own.1) {
        loader.skill(&name, &own.0.join(&name), &own.1.join(&name));
    }
    for SharedSkillRef { name, file, line, key } in wanted {
        let refuse = |problem: String, expected: String| Mistake::at(file, *line, key, problem, expected);
        if !matches!(kind(&shared.0.join(name)), Ok(Some(meta)) if meta.is_dir()) {
            let known = loader.known(&shared.0);
            let expected = match known.is_empty() {
                true => format!("a skill of {}, which has none", shared.1.display()),
                false => format!("a skill of {}: {}", shared.1.display(), known.join(", ")),
            };
            loader.mistakes.push(refuse(format!("found \"{name}\", which is not there"), expected));
        } else if own.0.join(name).exists() {
            let found = format!("found \"{name}\", which {} has too", own.1.display());
            loader.mistakes.push(refuse(found, "each skill once".to_owned()));
        } else {
            loader.skill(name, &shared.0.join(name), &shared.1.join(name));
        }
    }
    loader.skills.sort_by(|a, b| a.name.cmp(&b.name));
    (loader.skills, loader.mistakes)
}

struct Loader {
    skills: Vec<Skill>,
    mistakes: Vec<Mistake>,
    /// What further skills may hold.
    left: Limits,
}

impl Loader {
    fn note(&mut self, file: &Path, problem: impl Into<String>, expected: &str) {
        self.mistakes.push(Mistake::at(file, None, "", problem, expected));
    }

    /// The names of the directories in `skills/`, sorted; hidden ones are left out, and anything else is a mistake.
    fn names(&mut self, dir: &Path, shown: &Path) -> Vec<String> {
        match kind(dir) {
            Ok(None) => return Vec::new(),
            Ok(Some(meta)) if meta.is_dir() => {}
            Ok(Some(_)) => {
                self.note(shown, "found something else", "a directory of skills");
                return Vec::new();
            }
            Err(e) => {
                self.note(shown, format!("can't be read: {e}"), "a directory of skills");
                return Vec::new();
            }
        }
        let mut names = Vec::new();
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let at = shown.join(&name);
            if name.starts_with('.') {
                continue;
            }
            match kind(&entry.path()) {
                Ok(Some(meta)) if meta.is_dir() => names.push(name),
                Ok(Some(meta)) if meta.is_symlink() => {
                    let expected = "a directory; a shared skill is named in butler.shared_skills";
                    self.note(&at, "found a link", expected);
                }
                _ => self.note(&at, "found no directory", "a skill, a directory with a SKILL.md"),
            }
        }
        names.sort();
        names
    }

    /// What could have been meant.
    fn known(&self, shared: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(shared).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter(|e| e.path().join(SKILL_FILE).is_file())
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    fn skill(&mut self, name: &str, dir: &Path, shown: &Path) {
        let file = shown.join(SKILL_FILE);
        let found = match files::walk(dir, &self.left) {
            Ok(found) => found,
            Err(e) => {
                let (at, problem, expected) = e.told(dir, shown);
                return self.note(&at, problem, &expected);
            }
        };
        self.left.bytes -= found.iter().map(|f| f.bytes).sum::<u64>();
        self.left.files -= u32::try_from(found.len()).unwrap_or(u32::MAX);
        let text = match std::fs::read(dir.join(SKILL_FILE)).map(String::from_utf8) {
            Ok(Ok(text)) => text,
            Ok(Err(_)) => return self.note(&file, "found bytes that are no UTF-8", "a text"),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return self.note(&file, "missing", "a file: the skill's head and text");
            }
            Err(e) => return self.note(&file, format!("can't be read: {e}"), "a readable file"),
        };
        match head::parse(&text, name, &file) {
            Ok(head) => self.skills.push(Skill {
                name: name.to_owned(),
                description: head.description,
                version: head.version,
                dir: dir.to_owned(),
                has_companions: found.iter().filter(|f| !f.is_dir).count() > 1,
                has_scripts: found.iter().any(|f| !f.is_dir && f.executable && f.path != Path::new(SKILL_FILE)),
                triggers: head.triggers,
            }),
            Err(mistakes) => self.mistakes.extend(mistakes),
        }
    }
}

#[cfg(test)]
mod tests;
