//! What `sql/` held as it was first shipped stays as it was: the history of the repository says so.

use std::collections::HashSet;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use what_was_left_out::left_out;

/// Its commit is the first whose migrations are for good.
const MARKER: &str = "sql/INITIAL";
/// What may change there: the list grows with each migration that is added.
const GROWS: &str = "sql/CHECKSUMS";

/// What git says, in `root`; its complaint where it fails.
fn git(root: &Path, args: &[&str], input: &str) -> Result<String, String> {
    let mut command = Command::new("git");
    command.args(["-c", "safe.directory=*", "-C"]).arg(root).args(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|e| format!("git does not run: {e}"))?;
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_owned();
    let writing = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().map_err(|e| e.to_string())?;
    // One that has heard enough closes its end.
    let _ = writing.join();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// What the history of `root` did to migrations after they had been shipped, a line each; `Err`: it can't be seen here.
///
/// Looked at is each commit that stands on the marker's, beside those of its parents that do so too: work that was
/// begun before the marker and merged after it may have changed what was there before, and its merge may not.
fn changed(root: &Path) -> Result<Vec<String>, String> {
    if git(root, &["rev-parse", "--is-shallow-repository"], "")? != "false" {
        return Err("this clone is shallow; `git fetch --unshallow` brings its history".to_owned());
    }
    let added = git(root, &["log", "--diff-filter=A", "--format=%H", "--", MARKER], "")?;
    let Some(marker) = added.lines().last() else { return Err(format!("no commit added {MARKER}")) };
    let range = format!("{marker}..HEAD");
    let after = git(root, &["rev-list", "--ancestry-path", "--parents", &range], "")?;
    let on_it: HashSet<&str> = after.lines().filter_map(|l| l.split(' ').next()).chain([marker]).collect();
    let mut found = Vec::new();
    for line in after.lines() {
        let (commit, parents) = line.split_once(' ').unwrap_or((line, ""));
        for parent in parents.split(' ').filter(|parent| on_it.contains(parent)) {
            let args =
                ["diff-tree", "-r", "--no-renames", "--name-status", "--diff-filter=a", parent, commit, "--", "sql"];
            let changes = git(root, &args, "")?;
            let changes = changes.lines().filter(|line| !line.is_empty() && !line.ends_with(GROWS));
            found.extend(changes.map(|change| format!("{}: {}", &commit[..12], change.replace('\t', " "))));
        }
    }
    Ok(found)
}

#[test]
fn no_commit_changes_or_deletes_a_shipped_migration() {
    let root = super::root();
    // What is no clone of its own, but a copy without history or within some other repository, can't be judged.
    if !root.join(".git").exists() {
        left_out("no_commit_changes_or_deletes_a_shipped_migration", "this copy has no history (.git)");
        return;
    }
    match changed(root) {
        Ok(found) => {
            assert!(found.is_empty(), "a shipped migration stays as it is; add another:\n{}", found.join("\n"))
        }
        Err(why) => panic!("the history of sql/ can't be seen: {why}"),
    }
}

/// A repository in which things happen to migrations.
struct Repository(tempfile::TempDir);

impl Repository {
    fn new() -> Self {
        let new = Self(tempfile::tempdir().expect("a directory"));
        new.git(&["init", "--quiet", "--initial-branch=main"]);
        new
    }

    fn git(&self, args: &[&str]) -> String {
        let who = ["-c", "user.name=Test", "-c", "user.email=test@example.org"];
        git(self.0.path(), &[&who[..], args].concat(), "").unwrap_or_else(|e| panic!("git {args:?}: {e}"))
    }

    fn write(&self, file: &str, text: &str) -> &Self {
        let path = self.0.path().join(file);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("directories");
        std::fs::write(path, text).expect("a file");
        self
    }

    fn commit(&self, subject: &str) -> &Self {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", subject]);
        self
    }

    fn changed(&self) -> Vec<String> {
        let found = changed(self.0.path()).expect("the history");
        found.into_iter().map(|line| line.split_once(": ").expect("a commit").1.to_owned()).collect()
    }
}

#[test]
fn changes_of_shipped_migrations_are_found_wherever_they_hide() {
    let repository = Repository::new();
    repository.write("sql/core/001_a.sql", "draft").commit("draft");
    assert_eq!(changed(repository.0.path()), Err(format!("no commit added {MARKER}")));
    repository.git(&["branch", "before"]);
    repository.write("sql/core/001_a.sql", "one").write(MARKER, "first").write(GROWS, "a").commit("ship");
    repository.write("sql/core/002_b.sql", "two").write(GROWS, "a b").write("README", "x").commit("add one");
    assert_eq!(repository.changed(), [""; 0], "what is added is not a change");

    // Work that was begun before and knows nothing of it.
    repository.git(&["checkout", "--quiet", "before"]);
    repository.write("src/x", "x").commit("work");
    repository.git(&["checkout", "--quiet", "main"]);
    repository.git(&["merge", "--quiet", "--no-ff", "--message", "merge", "before"]);
    assert_eq!(repository.changed(), [""; 0]);

    // A later change is found even if it was taken back, on a branch too, and in a merge alone.
    repository.write("sql/core/002_b.sql", "TWO").commit("edit");
    repository.write("sql/core/002_b.sql", "two").commit("take back");
    assert_eq!(repository.changed(), ["M sql/core/002_b.sql"; 2]);
    repository.git(&["checkout", "--quiet", "-b", "branch"]);
    repository.git(&["mv", "sql/core/001_a.sql", "sql/core/003_a.sql"]);
    repository.commit("rename");
    repository.git(&["checkout", "--quiet", "main"]);
    repository.write("src/y", "y").commit("other work");
    repository.git(&["merge", "--quiet", "--no-ff", "--no-commit", "branch"]);
    repository.write(MARKER, "second").commit("merge");
    let found: HashSet<String> = repository.changed().into_iter().collect();
    for change in ["D sql/core/001_a.sql", "M sql/core/002_b.sql", "M sql/INITIAL"] {
        assert!(found.contains(change), "{change} is not in {found:?}");
    }

    let shallow = tempfile::tempdir().expect("a directory");
    let from = format!("file://{}", repository.0.path().display());
    let into = shallow.path().join("clone");
    repository.git(&["clone", "--quiet", "--depth", "1", &from, into.to_str().expect("a path")]);
    assert!(changed(&into).expect_err("a shallow clone").contains("shallow"));
}
