//! Skills of a roster by themselves, for the tests of this crate and of those that use skills.

use std::path::Path;

use super::{SharedSkillRef, Skill, load};

/// The skills of a butler in a roster without mistakes.
pub fn skills_of(roster: &Path, butler: &str, shared: &[&str]) -> Vec<Skill> {
    let (skills, mistakes) = read(roster, butler, shared);
    assert!(mistakes.is_empty(), "{mistakes:#?}");
    skills
}

/// Skills and mistakes, the roster shown as `roster`.
pub(super) fn read(roster: &Path, butler: &str, shared: &[&str]) -> (Vec<Skill>, Vec<String>) {
    let wanted: Vec<SharedSkillRef> = shared
        .iter()
        .map(|name| SharedSkillRef {
            name: (*name).to_owned(),
            file: "butler.toml".into(),
            line: Some(4),
            key: "butler.shared_skills".to_owned(),
        })
        .collect();
    let (skills, mistakes) = load(roster, Path::new("roster"), butler, &wanted);
    (skills, mistakes.iter().map(ToString::to_string).collect())
}
