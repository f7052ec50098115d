use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::testing::{read, skills_of};
use super::*;
use base::text::truncate;

struct Roster(tempfile::TempDir);

impl Roster {
    fn new(files: &[(&str, &str)]) -> Self {
        let roster = Self(tempfile::tempdir().unwrap());
        files.iter().for_each(|(path, text)| roster.write(path, text));
        roster
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn path(&self) -> PathBuf {
        self.0.path().to_owned()
    }

    /// The mistakes of a butler with one skill, `weigh`, with this `SKILL.md`.
    fn mistakes_in(text: &str) -> Vec<String> {
        let roster = Self::new(&[("health/skills/weigh/SKILL.md", text)]);
        read(&roster.path(), "health", &[]).1
    }
}

fn skill(name: &str, more: &str) -> String {
    format!("---\nname: {name}\ndescription: What it is for.\n{more}---\n# Text\n")
}

#[test]
fn a_head_is_read_with_all_its_keys() {
    let text = "\u{feff}---\r\nname: weigh\r\ndescription: >-\r\n  Weighing and\r\n  measuring.\r\nversion: 1.2.0\r\n\
                trigger_patterns:\r\n  - weight\r\nlicense: MIT\r\n---\r\n\r\n# Weigh\r\n---\r\nmore\r\n";
    let roster = Roster::new(&[("health/skills/weigh/SKILL.md", text), ("health/skills/weigh/scales/a.md", "a")]);
    let skills = skills_of(&roster.path(), "health", &[]);
    assert_eq!(skills.len(), 1);
    let skill = &skills[0];
    assert_eq!((skill.name.as_str(), skill.description.as_str()), ("weigh", "Weighing and measuring."));
    assert_eq!(skill.version.as_deref(), Some("1.2.0"));
    assert!(skill.has_companions);
    let files: Vec<String> = skill.files().unwrap().iter().map(|f| f.path.display().to_string()).collect();
    assert_eq!(files, ["", "SKILL.md", "scales", "scales/a.md"]);
    assert_eq!(body(text), "# Weigh\r\n---\r\nmore");
    assert_eq!(body("no head"), "no head");
}

#[test]
fn mistakes_name_file_line_and_key_and_what_was_expected() {
    let at = "roster/health/skills/weigh/SKILL.md";
    let long = "x".repeat(1025);
    let cases = [
        ("# Weigh\n".to_owned(), ":1: found no head, expected YAML between two lines of ---"),
        ("---\nname: weigh\n".to_owned(), ":1: found no head"),
        (skill("weight", ""), ":2: name: found \"weight\", expected the name of the directory, \"weigh\""),
        (skill("[a]", ""), ":2: name: found [\"a\"], expected the name"),
        ("---\ndescription: d\n---\nx".to_owned(), ":1: name: missing, expected the name of the directory"),
        ("---\nname: weigh\n---\nx".to_owned(), ":1: description: missing, expected what it is for"),
        ("---\nname: weigh\ndescription: ' '\n---\nx".to_owned(), ":3: description: found \" \", expected what"),
        (format!("---\nname: weigh\ndescription: {long}\n---\nx"), ":3: description: found 1025 characters"),
        (skill("weigh", "version: 1.0\n"), ":4: version: found 1.0, expected a version such as \"1.0.0\""),
        (skill("weigh", "version: one\n"), ":4: version: found \"one\", expected a version"),
        (skill("weigh", "colour: red\n"), ":4: colour: unknown key, expected one of `name`, `description`"),
        (skill("weigh", "allowed-tools: Bash\n"), ":4: allowed-tools: found in a skill, expected tools to be granted"),
        (skill("weigh", "trigger_patterns: weight\n"), ":4: trigger_patterns: found \"weight\", expected a list"),
        (skill("weigh", "trigger_patterns:\n  - a\n  - 5\n"), ":4: trigger_patterns[1]: found 5, expected words or"),
        (skill("weigh", "trigger_patterns: ['a(']\n"), ":4: trigger_patterns[0]: found \"a(\" (unclosed group)"),
        (skill("weigh", "trigger_patterns: ['.*']\n"), ":4: trigger_patterns[0]: found \".*\", which fits everything"),
        (
            skill("weigh", "trigger_patterns: ['(\\w{100}){100}']\n"),
            ":4: trigger_patterns[0]: found \"(\\w{100}){100}\" (",
        ),
        ("---\nname: weigh\nname: weigh\ndescription: d\n---\nx".to_owned(), ":3: no valid YAML: "),
        ("---\nname: weigh\ndescription: d: e\n---\nx".to_owned(), ":3: no valid YAML: "),
        ("---\n- a\n---\nx".to_owned(), ":2: no valid YAML: "),
        ("---\nname: weigh\ndescription: d\n---\n\n".to_owned(), ": found no text after the head"),
    ];
    for (text, wanted) in cases {
        let found = Roster::mistakes_in(&text);
        let wanted = format!("{at}{wanted}");
        assert!(
            found.iter().any(|m| m.starts_with(&wanted)),
            "{}\n found {found:#?}\nwanted {wanted}",
            truncate(&text, 200)
        );
    }
    // All at once.
    assert_eq!(Roster::mistakes_in("---\nversion: x\n---\nx").len(), 3);
}

#[test]
fn a_butler_has_its_own_skills_and_the_shared_ones_that_it_names() {
    let roster = Roster::new(&[
        ("health/skills/weigh/SKILL.md", &skill("weigh", "")),
        ("health/skills/.hidden/x", ""),
        ("travel/skills/pack/SKILL.md", &skill("pack", "")),
        ("shared/skills/notes/SKILL.md", &skill("notes", "")),
        ("shared/skills/plans/SKILL.md", &skill("plans", "")),
        ("shared/skills/broken/SKILL.md", ""),
    ]);
    let names = |butler: &str, shared: &[&str]| -> Vec<String> {
        skills_of(&roster.path(), butler, shared).into_iter().map(|s| s.name).collect()
    };
    assert_eq!(names("health", &["notes"]), ["notes", "weigh"]);
    assert_eq!(names("travel", &[]), ["pack"]);
    assert!(names("general", &[]).is_empty());
    let (_, mistakes) = read(&roster.path(), "health", &["pack"]);
    assert_eq!(
        mistakes,
        ["butler.toml:4: butler.shared_skills: found \"pack\", which is not there, expected a skill of \
          roster/shared/skills: broken, notes, plans"]
    );
    let (_, mistakes) = read(&roster.path(), "general", &["broken"]);
    assert!(mistakes[0].starts_with("roster/shared/skills/broken/SKILL.md:1: found no head"), "{mistakes:?}");
    roster.write("health/skills/notes/SKILL.md", &skill("notes", ""));
    let (_, mistakes) = read(&roster.path(), "health", &["notes"]);
    assert_eq!(mistakes.len(), 1);
    assert!(mistakes[0].contains("found \"notes\", which roster/health/skills has too"), "{mistakes:?}");
}

#[test]
fn nothing_comes_in_by_a_link() {
    let roster = Roster::new(&[
        ("health/skills/weigh/SKILL.md", &skill("weigh", "")),
        ("health/skills/notes.md", ""),
        ("travel/skills/pack/SKILL.md", &skill("pack", "")),
    ]);
    let at = |path: &str| roster.path().join(path);
    symlink("../../travel/skills/pack", at("health/skills/pack")).unwrap();
    symlink("../../../travel/skills/pack/SKILL.md", at("health/skills/weigh/other.md")).unwrap();
    let (skills, mistakes) = read(&roster.path(), "health", &[]);
    assert!(skills.is_empty());
    assert_eq!(
        mistakes,
        [
            "roster/health/skills/notes.md: found no directory, expected a skill, a directory with a SKILL.md",
            "roster/health/skills/pack: found a link, expected a directory; a shared skill is named in \
             butler.shared_skills",
            "roster/health/skills/weigh/other.md: found a link, expected a file or a directory",
        ]
    );
    std::fs::create_dir_all(at("general")).unwrap();
    symlink("../travel/skills", at("general/skills")).unwrap();
    let (skills, mistakes) = read(&roster.path(), "general", &[]);
    assert!(
        skills.is_empty() && mistakes[0].starts_with("roster/general/skills: found something else"),
        "{mistakes:?}"
    );
}

#[test]
fn skills_have_a_largest_size_together() {
    let roster =
        Roster::new(&[("health/skills/a/SKILL.md", &skill("a", "")), ("health/skills/b/SKILL.md", &skill("b", ""))]);
    let deep = format!("health/skills/b/{}x", "d/".repeat(20));
    roster.write(&deep, "");
    let (skills, mistakes) = read(&roster.path(), "health", &[]);
    assert_eq!(skills.len(), 1);
    assert!(mistakes[0].contains("found too much, expected all skills of a butler"), "{mistakes:?}");
    std::fs::remove_dir_all(roster.path().join("health/skills/b/d")).unwrap();
    let file = |skill: &str| roster.path().join(format!("health/skills/{skill}/big"));
    for skill in ["a", "b"] {
        std::fs::File::create(file(skill)).unwrap().set_len(10 << 20).unwrap();
    }
    let (skills, mistakes) = read(&roster.path(), "health", &[]);
    assert_eq!((skills.len(), mistakes.len()), (1, 1), "{mistakes:?}");
}

#[test]
fn those_that_a_prompt_calls_for_come_first() {
    let patterns = |list: &str| format!("trigger_patterns: [{list}]\n");
    let roster = Roster::new(&[
        ("h/skills/alpha/SKILL.md", &skill("alpha", "")),
        ("h/skills/diet/SKILL.md", &skill("diet", &patterns("'I ate', lunch"))),
        ("h/skills/weigh/SKILL.md", &skill("weigh", &patterns("weight, 'I weighed', '\\d+(\\.\\d+)? ?kg'"))),
    ]);
    let skills = skills_of(&roster.path(), "h", &[]);
    let order = |prompt: &str| -> Vec<String> { ordered(&skills, prompt).into_iter().map(|s| s.name).collect() };
    assert_eq!(order("hello"), ["alpha", "diet", "weigh"]);
    assert_eq!(order("i  WEIGHED 81.4 kg after lunch"), ["weigh", "diet", "alpha"]);
    assert_eq!(order("my lunch"), ["diet", "alpha", "weigh"]);
    // Words fit as whole words.
    assert_eq!(order("overweight, lunchbox"), ["alpha", "diet", "weigh"]);
    // Only the begin of a prompt is looked at, on whole characters.
    assert_eq!(order(&format!("{}lunch", "ä".repeat(10_000))), ["alpha", "diet", "weigh"]);
}
