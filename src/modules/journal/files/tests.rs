use super::*;

fn files() -> (tempfile::TempDir, JournalFiles, FileName) {
    let dir = tempfile::tempdir().unwrap();
    let files = JournalFiles::new(dir.path().join("journal"), None, Vec::new());
    files.prepare().unwrap();
    (dir, files, FileName::reference("decisions"))
}

impl JournalFiles {
    fn path(&self, file: &FileName) -> PathBuf {
        self.root.join(file.as_str())
    }

    /// What was last written, and what was about to be.
    fn noted(&self, file: &FileName) -> [PathBuf; 2] {
        let name = file.as_str().replace('/', "~");
        [name.clone(), format!("{name}.next")].map(|name| self.root.join(WRITTEN).join(name))
    }
}

#[test]
fn what_somebody_edited_is_never_overwritten() {
    let (_dir, files, file) = files();
    assert_eq!(files.look(&file), OnDisk::Missing);
    assert!(files.write(&file, Some("one\n")).unwrap());
    assert!(files.write(&file, Some("two\n")).unwrap());
    assert_eq!(files.look(&file), OnDisk::Written);
    fs::write(files.path(&file), "mine\n").unwrap();
    assert!(!files.write(&file, Some("three\n")).unwrap());
    assert!(!files.write(&file, None).unwrap());
    let edited = OnDisk::Edited { written: "two\n".to_owned(), text: "mine\n".to_owned() };
    assert_eq!(files.look(&file), edited);
    files.accept(&file, "mine\n").unwrap();
    assert_eq!(files.look(&file), OnDisk::Written);
    assert!(files.write(&file, Some("three\n")).unwrap());
    assert_eq!(fs::read_to_string(files.path(&file)).unwrap(), "three\n");
    assert!(files.write(&file, None).unwrap());
    assert_eq!(files.look(&file), OnDisk::Missing);
    assert_eq!(files.names(), [FileName::core()]);
}

#[test]
fn a_kill_between_note_and_file_leaves_no_edit() {
    let (_dir, files, file) = files();
    files.write(&file, Some("one\n")).unwrap();
    let [written, next] = files.noted(&file);
    // Killed before the swap, and after it.
    fs::write(&next, "two\n").unwrap();
    assert_eq!(files.look(&file), OnDisk::Written);
    fs::write(files.path(&file), "two\n").unwrap();
    assert_eq!(files.look(&file), OnDisk::Written);
    assert!(files.write(&file, Some("three\n")).unwrap());
    assert_eq!(files.look(&file), OnDisk::Written);
    assert!(files.write(&file, Some("two\n")).unwrap());
    assert!(!next.exists() && fs::read_to_string(written).unwrap() == "two\n");
}

/// With a group that is not the daemon's own where the test may give it, and as one of its members where it may be one.
#[test]
fn members_of_the_group_come_to_the_files_and_see_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o711)).unwrap();
    let is_root = nix::unistd::geteuid().is_root();
    let group = if is_root { Gid::from_raw(54321) } else { nix::unistd::getegid() };
    let top = dir.path().join("journals");
    let tenant = top.join("home");
    let files = JournalFiles::new(tenant.join("general"), Some(group), vec![top.clone(), tenant.clone()]);
    files.prepare().unwrap();
    let file = FileName::reference("ideas");
    files.write(&file, Some("a pond\n")).unwrap();
    let about = |path: &Path| fs::metadata(path).map(|about| (about.mode() & 0o7777, about.gid())).unwrap();
    let of = group.as_raw();
    assert_eq!((about(&top), about(&tenant)), ((0o710, of), (0o710, of)));
    assert_eq!((about(files.root()), about(&files.path(&file))), ((0o2770, of), (0o660, of)));
    assert_eq!(about(&files.root().join(WRITTEN)).0 & 0o777, 0o700);
    // Above it may be closed where the test runs, but nothing of its own is.
    let closed = files.closed();
    assert!(closed.as_ref().is_none_or(|path| !path.starts_with(dir.path())), "{closed:?}");
    // What is closed is named, and what another group may do stays.
    fs::set_permissions(&tenant, Permissions::from_mode(0o700)).unwrap();
    if closed.is_none() {
        assert_eq!(files.closed().as_deref(), Some(tenant.canonicalize().unwrap().as_path()));
    }
    files.prepare().unwrap();
    assert_eq!(about(&tenant).0, 0o710);
    let other = JournalFiles::new(tenant.join("general"), None, vec![top.clone()]);
    assert_eq!(other.closed(), None);
}

#[test]
fn what_a_link_points_to_is_left_alone() {
    let (dir, files, file) = files();
    let own = dir.path().join("own");
    fs::create_dir(&own).unwrap();
    fs::set_permissions(&own, Permissions::from_mode(0o755)).unwrap();
    let target = own.join("key");
    fs::write(&target, "secret\n").unwrap();
    let link = |at: PathBuf, to: &Path| std::os::unix::fs::symlink(to, at).unwrap();
    link(files.noted(&file)[0].with_extension("md.draft"), &target);
    link(files.noted(&file)[1].with_extension("new"), &target);
    link(files.noted(&file)[0].with_extension("new"), &target);
    assert!(files.write(&file, Some("one\n")).unwrap());
    assert_eq!(fs::read_to_string(&target).unwrap(), "secret\n");
    assert_eq!(fs::read_to_string(files.path(&file)).unwrap(), "one\n");
    fs::remove_dir_all(files.root().join("users")).unwrap();
    link(files.root().join("users"), &own);
    assert!(files.prepare().unwrap_err().to_string().contains("users is no directory"));
    assert_eq!(fs::metadata(&own).unwrap().permissions().mode() & 0o777, 0o755);
}

/// Who may write in the journal's directory can put a link in the place of a directory in it, or of the notes.
#[test]
fn no_directory_leads_elsewhere() {
    let (dir, files, file) = files();
    assert!(files.write(&file, Some("one\n")).unwrap());
    let own = dir.path().join("own");
    fs::create_dir(&own).unwrap();
    fs::write(own.join("decisions.md"), "secret\n").unwrap();
    fs::write(own.join("reference~ideas.md"), "secret\n").unwrap();
    let instead = |name: &str| {
        let at = files.root().join(name);
        fs::rename(&at, dir.path().join("away")).unwrap();
        std::os::unix::fs::symlink(&own, &at).unwrap();
    };
    let back = |name: &str| {
        fs::remove_file(files.root().join(name)).unwrap();
        fs::rename(dir.path().join("away"), files.root().join(name)).unwrap();
    };
    let is_refused = |name: &str| {
        let strange = files.strange_directories();
        assert!(strange.len() == 1 && strange[0].contains(&format!("{name} is no directory")), "{strange:?}");
        assert!(matches!(files.look(&file), OnDisk::Strange(why) if why.contains("is no directory")));
        assert!(files.write(&file, Some("two\n")).is_err() && files.accept(&file, "two\n").is_err());
    };
    instead("reference");
    is_refused("reference");
    assert_eq!(files.names(), [FileName::core()], "nobody lists what is there");
    assert!(files.foreign().is_empty());
    // All others are written on.
    assert!(files.prepare().is_err() && files.write(&FileName::core(), Some("core\n")).unwrap());
    back("reference");
    instead(WRITTEN);
    is_refused(WRITTEN);
    back(WRITTEN);
    if nix::unistd::geteuid().is_root() {
        let owned_by = |uid: u32| {
            let uid = nix::unistd::Uid::from_raw(uid);
            nix::unistd::chown(&files.root().join(WRITTEN), Some(uid), None).unwrap();
        };
        owned_by(54321);
        assert!(files.strange_directories()[0].contains("is not the daemon's own"));
        assert!(files.write(&file, Some("two\n")).is_err());
        owned_by(0);
    }
    assert!(files.strange_directories().is_empty() && files.prepare().is_ok());
    assert_eq!(files.look(&file), OnDisk::Written);
    let mut there: Vec<_> = fs::read_dir(&own).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    there.sort();
    assert_eq!(there, ["decisions.md", "reference~ideas.md"]);
    assert_eq!(fs::read_to_string(own.join("decisions.md")).unwrap(), "secret\n");
}

/// A difference shows what was written: a note that is a link must not show another file.
#[test]
fn no_note_is_read_through_a_link_or_waited_for() {
    let (dir, files, file) = files();
    files.write(&file, Some("one\n")).unwrap();
    let secret = dir.path().join("key");
    fs::write(&secret, "secret\n").unwrap();
    fs::write(files.path(&file), "mine\n").unwrap();
    for note in files.noted(&file) {
        forget(&note).unwrap();
        std::os::unix::fs::symlink(&secret, note).unwrap();
    }
    let edited = OnDisk::Edited { written: String::new(), text: "mine\n".to_owned() };
    assert_eq!(files.look(&file), edited);
    for note in files.noted(&file) {
        forget(&note).unwrap();
        nix::unistd::mkfifo(&note, nix::sys::stat::Mode::S_IRWXU).unwrap();
    }
    assert_eq!(files.look(&file), edited);
    assert!(files.write(&file, Some("mine\n")).unwrap());
    assert_eq!(files.look(&file), OnDisk::Written);
    assert_eq!(fs::read_to_string(&secret).unwrap(), "secret\n");
}

#[test]
fn what_is_no_text_is_left_alone() {
    let (_dir, files, file) = files();
    fs::write(files.path(&file), [0xff, 0, 1]).unwrap();
    assert!(matches!(files.look(&file), OnDisk::Strange(why) if why.ends_with("is no text")));
    fs::remove_file(files.path(&file)).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", files.path(&file)).unwrap();
    assert!(matches!(files.look(&file), OnDisk::Strange(_)));
    assert!(!files.write(&file, Some("x")).unwrap());
}
