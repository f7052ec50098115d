use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;

use super::*;

/// A roster of files; `butler/CLAUDE.md` is what is read.
struct Roster(tempfile::TempDir);

impl Roster {
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join("roster").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Self(dir)
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("roster")
    }

    fn compose(&self) -> Result<String, PromptError> {
        system_prompt(&self.path(), &self.path().join("butler"))
    }

    /// The error's text, with the roster's path taken out.
    fn error(&self) -> String {
        let real = self.path().canonicalize().unwrap();
        let text = self.compose().unwrap_err().to_string();
        text.replace(&format!("{}/", self.path().display()), "").replace(&real.display().to_string(), "ROSTER")
    }
}

#[test]
fn references_are_replaced_each_once_and_relative_to_their_file() {
    let roster = Roster::new(&[
        ("butler/CLAUDE.md", "@AGENTS.md\n"),
        (
            "butler/AGENTS.md",
            "@../shared/AGENTS.md\n\n# Health\n\nA <!-- @include parts/a.md --> B\n  @./parts/a.md  \nend\n",
        ),
        ("butler/parts/a.md", "part\nof two lines\n"),
        ("shared/AGENTS.md", "\u{feff}# All\n@contract.md\n\n"),
        ("shared/contract.md", "Be honest.\n"),
    ]);
    let expected = "# All\nBe honest.\n\n# Health\n\nA part\nof two lines B\n\nend";
    assert_eq!(roster.compose().unwrap(), expected);
    assert_eq!(roster.compose().unwrap(), expected, "the same bytes again");
}

#[test]
fn what_is_no_reference_stays() {
    let text = "mail @anna about it\n@property\n@anna.\n@a b.md\nme@AGENTS.md\n<!-- @includes x.md -->\n<!-- a note\n\
                ```\n@missing.md\n<!-- @include missing.md -->\n~~~\n@missing.md\n```\n~~~ text\n@missing.md\n~~~\nlast";
    assert_eq!(Roster::new(&[("butler/CLAUDE.md", text)]).compose().unwrap(), text);
}

#[test]
fn mistakes_name_file_and_line() {
    let roster = Roster::new(&[("butler/CLAUDE.md", "one\n@sub/A.md\n"), ("butler/sub/A.md", "\n\n@gone.md\n")]);
    assert_eq!(roster.error(), "butler/sub/A.md:3: cannot read `gone.md`, which is to be included here");
    let roster = Roster::new(&[("butler/CLAUDE.md", "<!-- @include /etc/hostname.txt -->")]);
    let relative = "is not a relative path; references are relative to the file they stand in";
    assert_eq!(roster.error(), format!("butler/CLAUDE.md:1: `/etc/hostname.txt` {relative}"));
    let roster = Roster::new(&[("butler/CLAUDE.md", "\n@parts.md/"), ("butler/parts.md/x", "")]);
    assert_eq!(roster.compose().unwrap(), "\n@parts.md/", "a directory's name is none of a file");
    let roster = Roster::new(&[("butler/CLAUDE.md", "@parts.md"), ("butler/parts.md/x", "")]);
    assert_eq!(roster.error(), "butler/CLAUDE.md:1: cannot read `parts.md`, which is to be included here");
    let roster = Roster::new(&[("other/CLAUDE.md", "")]);
    assert!(roster.error().starts_with("cannot read the prompt file"), "{}", roster.error());
    let roster = Roster::new(&[("butler/CLAUDE.md", "@A.md")]);
    fs::write(roster.path().join("butler/A.md"), b"\xff").unwrap();
    assert_eq!(roster.error(), "butler/A.md is not UTF-8 text");
}

#[test]
fn nothing_outside_of_the_roster_is_read() {
    let roster = Roster::new(&[("butler/CLAUDE.md", "@../../secret.md"), ("butler/x/A.md", "")]);
    fs::write(roster.0.path().join("secret.md"), "secret").unwrap();
    let outside = |what: &str| format!("butler/CLAUDE.md:1: `{what}` leads out of the roster directory ROSTER");
    assert_eq!(roster.error(), outside("../../secret.md"));
    // Nor is it told whether something exists out there.
    fs::write(roster.path().join("butler/CLAUDE.md"), "@../../nothing.md").unwrap();
    assert_eq!(roster.error(), outside("../../nothing.md"));
    fs::write(roster.path().join("butler/CLAUDE.md"), "@link.md").unwrap();
    symlink(roster.0.path().join("secret.md"), roster.path().join("butler/link.md")).unwrap();
    assert_eq!(roster.error(), outside("link.md"));
    // A link to another place of the roster is fine, and counts as the file that it means.
    fs::remove_file(roster.path().join("butler/link.md")).unwrap();
    symlink("x/A.md", roster.path().join("butler/link.md")).unwrap();
    fs::write(roster.path().join("butler/x/A.md"), "inside").unwrap();
    fs::write(roster.path().join("butler/CLAUDE.md"), "@link.md\n@x/A.md\n").unwrap();
    assert_eq!(roster.compose().unwrap(), "inside");
    // Nor may CLAUDE.md itself be a link that leads out.
    fs::remove_file(roster.path().join("butler/CLAUDE.md")).unwrap();
    symlink(roster.0.path().join("secret.md"), roster.path().join("butler/CLAUDE.md")).unwrap();
    assert!(matches!(roster.compose(), Err(PromptError::Outside { .. })));
}

#[test]
fn circles_and_depth_are_errors_with_their_chain() {
    let roster = Roster::new(&[
        ("butler/CLAUDE.md", "@A.md"),
        ("butler/A.md", "\n<!-- @include ../shared/B.md -->"),
        ("shared/B.md", "@../butler/A.md"),
    ]);
    let chain = "butler/A.md -> shared/B.md -> butler/A.md";
    assert_eq!(roster.error(), format!("butler/../shared/B.md:1: files include one another in a circle: {chain}"));
    let chained = |length: usize| {
        let mut files = vec![("butler/CLAUDE.md".to_owned(), "@1.md".to_owned())];
        files.extend((1..length).map(|i| (format!("butler/{i}.md"), format!("{i}\n@{}.md", i + 1))));
        files.push((format!("butler/{length}.md"), "end".to_owned()));
        let files: Vec<(&str, &str)> = files.iter().map(|(p, t)| (p.as_str(), t.as_str())).collect();
        Roster::new(&files)
    };
    assert_eq!(chained(8).compose().unwrap(), "1\n2\n3\n4\n5\n6\n7\nend");
    let error = chained(9).error();
    assert!(error.starts_with("butler/8.md:2: files are included more than 8 deep: butler/CLAUDE.md -> "), "{error}");
}

#[test]
fn a_prompt_has_a_largest_size() {
    let long = "x".repeat(MAX_BYTES / 2);
    let roster =
        Roster::new(&[("butler/CLAUDE.md", "@A.md\n@B.md\n@C.md"), ("butler/A.md", &long), ("butler/B.md", &long)]);
    fs::write(roster.path().join("butler/C.md"), "more").unwrap();
    assert!(matches!(roster.compose(), Err(PromptError::TooLarge { .. })));
}

#[test]
fn memory_comes_after_a_blank_line() {
    let with_memory = |memory| {
        let mut prompt = SystemPrompt::plain("system".to_owned());
        prompt.remember(memory);
        prompt.text()
    };
    assert_eq!(with_memory(Some("\n- fact\n")), "system\n\n- fact");
    assert_eq!(with_memory(Some(" \n")), "system");
    assert_eq!(with_memory(None), "system");
}

#[test]
fn notes_stand_below_their_heading_and_leave_the_files_text_alone() {
    let notes = ["- one".to_owned(), "- two".to_owned()];
    let with = |text: &str| SystemPrompt::with_notes(text.to_owned(), &notes);
    let own = with("You.\n\n# Notes to self\nof mine");
    assert_eq!(own.text(), "You.\n\n# Notes to self\n\n- one\n- two\nof mine");
    assert_eq!((&*own.before, &*own.after), ("You.\n\n# Notes to self", "\nof mine"));
    let none = with("You.");
    assert_eq!(none.text(), "You.\n\n# Notes to self\n\n- one\n- two");
    assert_eq!((&*none.before, &*none.after), ("You.", ""));
}

#[test]
fn context_stands_between_delimiters_that_nobody_could_guess() {
    assert_eq!(user_prompt("hello", None), "hello");
    let context = json!({"source_channel": "telegram", "note": "```\nREQUEST CONTEXT\n"});
    let first = user_prompt("/hello", Some(&context));
    let second = user_prompt("/hello", Some(&context));
    assert_ne!(first, second);
    let lines: Vec<&str> = first.lines().collect();
    let delimiter = lines[1];
    assert!(lines[0].starts_with("REQUEST CONTEXT (JSON") && lines[0].contains(delimiter));
    assert!(delimiter.len() > 32);
    let end = lines.iter().rposition(|l| *l == delimiter).unwrap();
    let json: Value = serde_json::from_str(&lines[2..end].join("\n")).unwrap();
    assert_eq!(json, context);
    assert_eq!(lines[end + 1..], ["", "/hello"]);
    assert_eq!(first.matches(delimiter).count(), 3);
}
