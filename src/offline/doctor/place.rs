//! The data directory: reachable by those who need it, closed to others, with a master key and room to grow.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::{Uid, User};

use super::{Finding, Level};
use access::credentials::MasterKey;
use base::DiskSpace;
use config::Config;
use process::ChildUsers;
use store::cluster::RunAs;
use supervisor::backup_dir;

const MIB: u64 = 1 << 20;
/// Below this PostgreSQL may refuse to write.
const LITTLE: u64 = 200 * MIB;
const TIGHT: u64 = 1024 * MIB;
/// Each session and each table needs files of its own.
const FEW_INODES: u64 = 1000;

pub(super) fn findings(config: &Config) -> Vec<Finding> {
    let data_dir = &config.daemon.data_dir;
    let mut found = users(config);
    found.push(directory(data_dir));
    found.push(master_key(data_dir));
    let backups = backup_dir(config, data_dir);
    let mut disks = Vec::new();
    for dir in [data_dir, &backups, &config.daemon.roster] {
        // One file system is told once.
        let disk = nearest(dir).and_then(|dir| Some(std::fs::metadata(dir).ok()?.dev()));
        if !disks.contains(&disk) {
            disks.push(disk);
            found.extend(space(dir));
        }
    }
    found
}

fn name_of(uid: u32) -> String {
    User::from_uid(Uid::from_raw(uid)).ok().flatten().map_or_else(|| format!("user {uid}"), |u| u.name)
}

/// Programs of any kind run as this one, each of them free to look at the others.
const SHARED_USER: &str = "nobody";

/// Who runs what; as root, whether the others reach their parts.
fn users(config: &Config) -> Vec<Finding> {
    const TOPIC: &str = "users";
    let me = Uid::effective();
    if !me.is_root() {
        let text = format!("butlerd, the database and sessions' children all run as {}", name_of(me.as_raw()));
        let advice =
            "Started by root, each gets a user of its own, so that the children can't read the daemon's files.";
        return vec![Finding::ok(TOPIC, text).so(advice)];
    }
    let data_dir = &config.daemon.data_dir;
    let mut found = Vec::new();
    let embedded = config.database.url.is_none();
    let owner = std::fs::metadata(data_dir.join("postgres")).ok().map(|m| m.uid());
    let database = match embedded.then(|| RunAs::choose(owner)) {
        None => None,
        Some(Ok(run_as)) => Some(run_as),
        Some(Err(e)) => {
            found.push(Finding::problem(TOPIC, e.to_string()).so("Create a user for it: useradd --system butlerd"));
            None
        }
    };
    if database.as_ref().is_some_and(|d| d.name == SHARED_USER) {
        let text = format!("the database runs as {SHARED_USER}, and so may other programs, who can read all of it");
        found.push(
            Finding::warning(TOPIC, text).so("Before the first start, make a user for it: useradd --system butlerd"),
        );
    }
    let configured = config.spawner.child_user.as_deref();
    let children = match ChildUsers::choose(configured, database.as_ref().map(|d| d.uid)) {
        Ok(users) => Some(users),
        Err(e) => {
            found.push(Finding::problem(TOPIC, e.to_string()));
            None
        }
    };
    if configured == Some(SHARED_USER) {
        let text = format!("sessions' children run as {SHARED_USER}, and other programs that do can read their tokens");
        found.push(
            Finding::warning(TOPIC, text).so("Leave spawner.child_user out: each session gets a user of its own."),
        );
    }
    let mut parts = vec!["butlerd runs as root".to_owned()];
    parts.extend(database.as_ref().map(|d| format!("the database as {}", d.name)));
    parts.extend(children.as_ref().map(|c| format!("sessions' children as {}", c.shown())));
    found.insert(0, Finding::ok(TOPIC, parts.join(", ")));
    let children = children.and_then(|users| users.next()).map(|c| (c.uid, c.gid, "sessions' children"));
    let database = database.map(|d| (d.uid, d.gid, "the database"));
    for (uid, gid, what) in [database, children].into_iter().flatten() {
        if let Some(blocker) = blocked(data_dir, uid, gid) {
            let who = name_of(uid);
            let text = format!("{who}, who runs {what}, can't pass through {}", blocker.display());
            let advice = format!("Run: chmod o+x {}, or choose another daemon.data_dir.", blocker.display());
            found.push(Finding::problem(TOPIC, text).so(advice));
        }
    }
    found
}

/// The first directory on the way to `path` whose mode keeps this user out. The data directory itself is opened by the
/// daemon at its start.
fn blocked(path: &Path, uid: u32, gid: u32) -> Option<PathBuf> {
    let mut ways: Vec<&Path> = path.ancestors().skip(1).collect();
    ways.reverse();
    let shut = |dir: &&Path| {
        let Ok(meta) = std::fs::metadata(dir) else { return false };
        let pass = match () {
            () if meta.uid() == uid => 0o100,
            () if meta.gid() == gid => 0o010,
            () => 0o001,
        };
        meta.is_dir() && meta.mode() & pass == 0
    };
    ways.into_iter().find(shut).map(Path::to_path_buf)
}

/// The directory, or the nearest one above it that is there.
fn nearest(path: &Path) -> Option<&Path> {
    path.ancestors().find(|p| p.is_dir())
}

fn writable(dir: &Path) -> bool {
    nix::unistd::access(dir, nix::unistd::AccessFlags::W_OK | nix::unistd::AccessFlags::X_OK).is_ok()
}

fn directory(data_dir: &Path) -> Finding {
    const TOPIC: &str = "data directory";
    let shown = data_dir.display();
    let meta = match std::fs::metadata(data_dir) {
        Ok(meta) => meta,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return match nearest(data_dir) {
                Some(parent) if writable(parent) => {
                    Finding::ok(TOPIC, format!("{shown} is not there yet; the first start makes it"))
                }
                parent => {
                    let parent = parent.unwrap_or(Path::new("/")).display();
                    Finding::problem(TOPIC, format!("{shown} is not there, and {parent} can't be written to"))
                        .so("Make it for this user, or choose another place with --data-dir or daemon.data_dir.")
                }
            };
        }
        Err(e) => return Finding::problem(TOPIC, format!("{shown} can't be looked at: {e}")),
    };
    if !meta.is_dir() {
        return Finding::problem(TOPIC, format!("{shown} is not a directory")).so("Choose another daemon.data_dir.");
    }
    let me = Uid::effective().as_raw();
    let owner = meta.uid();
    if owner != me {
        let (theirs, own) = (name_of(owner), name_of(me));
        return Finding::problem(TOPIC, format!("{shown} belongs to {theirs}, and this is {own}"))
            .so(format!("Run butlerd as {theirs}, or choose another --data-dir."));
    }
    let mode = meta.mode() & 0o777;
    // Others may pass through where root keeps parts for other users in it; nobody else may list or write.
    let open = mode & if me == 0 { 0o066 } else { 0o077 };
    if open != 0 {
        let level = if mode & 0o022 != 0 { Level::Problem } else { Level::Warning };
        let good = if me == 0 { "711" } else { "700" };
        return Finding { level, ..Finding::ok(TOPIC, format!("{shown} is open to other users (mode {mode:o})")) }
            .so(format!("Run: chmod {good} {shown}; the next start does so, too."));
    }
    Finding::ok(TOPIC, format!("{shown} (mode {mode:o})"))
}

fn master_key(data_dir: &Path) -> Finding {
    const TOPIC: &str = "master key";
    let given = std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from).filter(|d| d.join("master.key").exists());
    let own = data_dir.join("master.key");
    match own.try_exists() {
        _ if given.is_some() => {}
        Ok(true) => {}
        Ok(false) => {
            return Finding::ok(TOPIC, "none yet; the first start makes it")
                .so("Keep a backup of it apart from this machine then: without it no stored secret can be read.");
        }
        Err(e) => return Finding::warning(TOPIC, format!("{} can't be looked at: {e}", own.display())),
    }
    match MasterKey::load(given.as_deref(), data_dir) {
        Ok(key) => Finding::ok(TOPIC, format!("{} is whole and private", key.path().display()))
            .so("Keep a backup of it apart from this machine: without it no stored secret can be read."),
        Err(e) => Finding::problem(TOPIC, e.to_string()),
    }
}

fn space(data_dir: &Path) -> Option<Finding> {
    const TOPIC: &str = "disk space";
    let dir = nearest(data_dir)?;
    let space = match DiskSpace::of(dir) {
        Ok(space) => space,
        Err(e) => return Some(Finding::warning(TOPIC, format!("{} can't be measured: {e}", dir.display()))),
    };
    let free = space.free;
    let few = space.free_files.filter(|n| *n < FEW_INODES);
    let files = few.map(|n| format!(", and room for {n} files")).unwrap_or_default();
    let text = format!("{} MiB free under {}{files}", free / MIB, dir.display());
    let level = room(free).max(if few.is_some() { Level::Problem } else { Level::Ok });
    let finding = Finding { level, ..Finding::ok(TOPIC, text) };
    Some(if level == Level::Ok { finding } else { finding.so("Make room; a full disk stops the database.") })
}

fn room(free: u64) -> Level {
    match free {
        ..LITTLE => Level::Problem,
        LITTLE..TIGHT => Level::Warning,
        _ => Level::Ok,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_shut_door_on_the_way_is_named() {
        let top = tempfile::tempdir().unwrap();
        mode(top.path(), 0o711);
        let middle = top.path().join("middle");
        let data = middle.join("data");
        std::fs::create_dir_all(&data).unwrap();
        mode(&middle, 0o700);
        let stranger = 65_530;
        assert_eq!(blocked(&data, stranger, stranger), Some(middle.clone()));
        mode(&middle, 0o711);
        assert_eq!(blocked(&data, stranger, stranger), None);
    }

    #[test]
    fn the_directory_is_judged_by_its_owner_and_mode() {
        let top = tempfile::tempdir().unwrap();
        mode(top.path(), 0o700);
        assert_eq!(directory(top.path()).level, Level::Ok);
        mode(top.path(), 0o755);
        assert_eq!(directory(top.path()).level, Level::Warning);
        mode(top.path(), 0o777);
        let open = directory(top.path());
        assert_eq!(open.level, Level::Problem);
        assert!(open.advice.unwrap().contains("chmod 7"));
        mode(top.path(), 0o700);
        assert!(directory(&top.path().join("later/on")).text.contains("first start makes it"));
        let file = top.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert_eq!(directory(&file).level, Level::Problem);
    }

    #[test]
    fn looking_for_the_master_key_makes_none() {
        let top = tempfile::tempdir().unwrap();
        assert!(master_key(top.path()).text.contains("none yet"));
        assert!(!top.path().join("master.key").exists());
        MasterKey::load(None, top.path()).unwrap();
        let there = master_key(top.path());
        assert_eq!(there.level, Level::Ok);
        assert!(there.advice.unwrap().contains("backup"));
        mode(&top.path().join("master.key"), 0o644);
        assert_eq!(master_key(top.path()).level, Level::Problem);
    }

    #[test]
    fn room_is_judged_in_time() {
        assert_eq!(room(0), Level::Problem);
        assert_eq!(room(500 * MIB), Level::Warning);
        assert_eq!(room(5000 * MIB), Level::Ok);
        assert!(space(Path::new("/nonexistent/deep/down")).unwrap().text.contains("MiB free under /"));
    }
}
