//! Directories of real repositories, and what is said of them.

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use uuid::Uuid;

use super::{PlaceError, ProjectPlace};
use crate::git::Git;

fn git(at: &Path, arguments: &[&str]) -> String {
    let own = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false"];
    let more = ["-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main"];
    Git::at(at).text(&[&own[..], &more[..], arguments].concat()).unwrap()
}

/// A repository with a commit whose id depends on `what`.
fn repository(at: &Path, what: &str) -> String {
    fs::create_dir_all(at).unwrap();
    git(at, &["init", "-q"]);
    git(at, &["commit", "-q", "--allow-empty", "-m", what]);
    git(at, &["rev-parse", "HEAD"])
}

fn of(directory: &Path) -> ProjectPlace {
    ProjectPlace::of(directory, None).unwrap()
}

fn scratch() -> (TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap();
    (dir, path)
}

#[test]
fn a_repository_is_known_by_its_first_commit_and_origin() {
    let (_dir, path) = scratch();
    let api = path.join("api");
    let root = repository(&api, "one");
    git(&api, &["remote", "add", "origin", "git@github.com:Acme/api.git"]);
    git(&api, &["checkout", "-q", "-b", "feature/x"]);
    git(&api, &["commit", "-q", "--allow-empty", "-m", "two"]);
    fs::create_dir_all(api.join("src/deep")).unwrap();
    let place = of(&api.join("src/deep"));
    assert_eq!(place.top, api);
    assert_eq!(place.common_dir, Some(api.join(".git")));
    assert_eq!(place.branch.as_deref(), Some("feature/x"));
    assert_eq!(place.identity.name, "api");
    assert_eq!(place.identity.root_commit, Some(root));
    assert_eq!(place.identity.origin.as_deref(), Some("github.com/acme/api"));
    assert_eq!(place.identity.directory.as_deref(), api.join(".git").to_str());
    assert_eq!(place.identity.id, None);
    git(&api, &["checkout", "-q", "--detach"]);
    assert_eq!(of(&api).branch, None);
}

#[test]
fn namesakes_differ_and_worktrees_are_one() {
    let (_dir, path) = scratch();
    let (one, two) = (path.join("one/api"), path.join("two/api"));
    repository(&one, "one");
    repository(&two, "two");
    assert_ne!(of(&one).identity, of(&two).identity);
    assert_eq!(of(&one).identity.name, of(&two).identity.name);
    for n in ["a", "b"] {
        let tree = path.join(n);
        git(&one, &["worktree", "add", "-q", "-b", n, tree.to_str().unwrap()]);
        let place = of(&tree);
        assert_eq!(place.identity, of(&one).identity, "{n}");
        assert_eq!((place.top, place.branch.as_deref()), (tree, Some(n)));
    }
    let broken = path.join("c");
    fs::create_dir(&broken).unwrap();
    fs::write(broken.join(".git"), "gitdir: ../nowhere\n").unwrap();
    let error = ProjectPlace::of(&broken, None).unwrap_err();
    assert!(matches!(error, PlaceError::NoRepository { .. }), "{error}");
}

#[test]
fn worktrees_of_a_bare_repository_are_called_like_it() {
    let (_dir, path) = scratch();
    repository(&path.join("origin"), "one");
    git(&path, &["clone", "-q", "--bare", "origin", "api.git"]);
    git(&path, &["clone", "-q", "--bare", "origin", "web/.bare"]);
    for (bare, tree) in [("api.git", "x"), ("web/.bare", "web/x")] {
        let (bare, tree) = (path.join(bare), path.join(tree).display().to_string());
        Git::at(&path).on(&bare).text(&["worktree", "add", "-q", "-b", "x", &tree]).unwrap();
    }
    fs::write(path.join("web/.git"), "gitdir: ./.bare\n").unwrap();
    let name = |at: &str| of(&path.join(at)).identity.name;
    assert_eq!((name("x"), name("api.git"), name("api.git/objects")), ("api".into(), "api".into(), "api".into()));
    assert_eq!((name("web"), name("web/x"), name("web/.bare")), ("web".into(), "web".into(), "web".into()));
    assert_eq!(of(&path.join("web")).identity, of(&path.join("web/x")).identity);
    assert_eq!(name("origin/.git"), "origin");
}

/// What was fetched can't make git run a program by looking like a repository with settings of its own.
#[test]
fn a_directory_that_only_looks_like_a_repository_is_none() {
    let (_dir, path) = scratch();
    let app = path.join("app");
    let root = repository(&app, "app");
    let docs = app.join("docs");
    git(&path, &["init", "-q", "--bare", &docs.display().to_string()]);
    let ran = path.join("ran");
    fs::write(
        docs.join("config"),
        format!("[core]\n\tbare = false\n\tworktree = ..\n\tfsmonitor = \"touch {};\"\n", ran.display()),
    )
    .unwrap();
    assert_eq!((of(&docs).identity, of(&docs).top), (of(&app).identity, app));
    assert_eq!(of(&docs).identity.root_commit, Some(root));
    assert!(Git::at(&docs).text(&["status"]).is_err() && !ran.exists());
}

#[test]
fn a_submodule_is_a_project_of_its_own() {
    let (_dir, path) = scratch();
    let (library, app) = (path.join("library"), path.join("app"));
    let root = repository(&library, "library");
    repository(&app, "app");
    git(&app, &["submodule", "add", "-q", library.to_str().unwrap(), "vendor/lib"]);
    let place = of(&app.join("vendor/lib"));
    assert_eq!(place.identity.name, "lib");
    assert_eq!(place.identity.root_commit, Some(root));
    assert_eq!(place.identity.origin, None, "a path says nothing");
    assert_eq!(place.common_dir, Some(app.join(".git/modules/vendor/lib")));
    assert_ne!(place.identity.root_commit, of(&app).identity.root_commit);
}

#[test]
fn without_commits_or_with_cut_history_there_is_no_first_commit() {
    let (_dir, path) = scratch();
    let empty = path.join("empty");
    fs::create_dir(&empty).unwrap();
    git(&empty, &["init", "-q", "-b", "trunk"]);
    let place = of(&empty);
    assert_eq!((place.identity.root_commit, place.branch.as_deref()), (None, Some("trunk")));
    git(&empty, &["commit", "-q", "--allow-empty", "-m", "now"]);
    assert!(of(&empty).identity.root_commit.is_some());
    git(&empty, &["commit", "-q", "--allow-empty", "-m", "then"]);
    let url = format!("file://{}", empty.display());
    git(&path, &["clone", "-q", "--depth=1", &url, "cut"]);
    assert_eq!(of(&path.join("cut")).identity.root_commit, None);
    git(&path.join("cut"), &["fetch", "-q", "--unshallow"]);
    assert_eq!(of(&path.join("cut")).identity.root_commit, of(&empty).identity.root_commit);
}

#[test]
fn of_several_first_commits_it_is_the_smallest() {
    let (_dir, path) = scratch();
    let first = repository(&path, "one");
    git(&path, &["checkout", "-q", "--orphan", "other"]);
    git(&path, &["commit", "-q", "--allow-empty", "-m", "two"]);
    let second = git(&path, &["rev-parse", "HEAD"]);
    git(&path, &["merge", "-q", "--allow-unrelated-histories", "-m", "both", &first]);
    assert_eq!(of(&path).identity.root_commit, Some(first.min(second)));
}

#[test]
fn what_the_daemon_said_outlives_a_rewritten_history_and_a_new_origin() {
    let (_dir, path) = scratch();
    let root = repository(&path, "one");
    git(&path, &["remote", "add", "origin", "https://example.org/a"]);
    let project = Uuid::now_v7();
    of(&path).keep(project).unwrap();
    assert_eq!(of(&path).identity.id, Some(project));
    git(&path, &["commit", "-q", "--amend", "--allow-empty", "-m", "another"]);
    let place = of(&path);
    assert_eq!((place.identity.id, &place.identity.root_commit), (Some(project), &Some(root)), "it is not looked at");
    let cache = path.join(".git/butlerd/project.json");
    let old = fs::File::options().append(true).open(&cache).unwrap();
    old.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    place.keep(project).unwrap();
    let rewritten = git(&path, &["rev-parse", "HEAD"]);
    assert_eq!(of(&path).identity.root_commit, Some(rewritten));
    git(&path, &["remote", "set-url", "origin", "https://example.org/b"]);
    let place = of(&path);
    assert_eq!((place.identity.id, place.identity.origin.as_deref()), (Some(project), Some("example.org/b")));
    // Another history from elsewhere is another project.
    git(&path, &["commit", "-q", "--amend", "--allow-empty", "-m", "third"]);
    git(&path, &["remote", "set-url", "origin", "https://example.org/c"]);
    assert_eq!(of(&path).identity.id, None);
    fs::write(&cache, "{").unwrap();
    assert!(of(&path).identity.root_commit.is_some());
}

#[test]
fn outside_of_git_all_is_one_and_a_name_is_a_project() {
    let (_dir, path) = scratch();
    let place = of(&path);
    assert_eq!((place.identity.name.as_str(), place.common_dir, place.branch), ("_global", None, None));
    assert_eq!(place.identity.directory, None);
    repository(&path.join("api"), "one");
    let place = ProjectPlace::of(&path.join("api"), Some("other")).unwrap();
    assert_eq!(place.identity, crate::wire::Identity { name: "other".into(), ..Default::default() });
    assert!(place.branch.is_some() && place.is_named());
    place.keep(Uuid::now_v7()).unwrap();
    assert!(!path.join("api/.git/butlerd").exists());
    assert!(ProjectPlace::of(&path.join("missing"), None).is_err());
}

#[test]
fn an_origin_in_an_included_file_and_branches_outside_of_files_are_asked_of_git() {
    let (_dir, path) = scratch();
    repository(&path, "one");
    fs::write(path.join(".git/more"), "[remote \"origin\"]\n\turl = https://example.org/a\n").unwrap();
    git(&path, &["config", "include.path", "more"]);
    assert_eq!(of(&path).identity.origin.as_deref(), Some("example.org/a"));
    let tables = path.join("tables");
    fs::create_dir(&tables).unwrap();
    if Git::at(&tables).text(&["init", "-q", "-b", "trunk", "--ref-format=reftable"]).is_ok() {
        git(&tables, &["commit", "-q", "--allow-empty", "-m", "one"]);
        let place = of(&tables);
        assert_eq!(place.branch.as_deref(), Some("trunk"));
        assert!(place.identity.root_commit.is_some());
    }
}
