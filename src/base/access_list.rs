//! Access lists of files (acl(5)): one more user beside owner, group and others.
//!
//! The kernel takes and gives a list as an extended attribute: a version, and an entry of eight bytes for each
//! (`linux/posix_acl_xattr.h`). What the mode shows as the group's rights is then the mask, which bounds all entries but
//! the owner's.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{XattrFlags, fgetxattr, fsetxattr, fstat};
use rustix::io::Errno;

/// May come through a directory whose names it knows.
pub const THROUGH: u16 = 0o1;
/// May read and write.
pub const READ_WRITE: u16 = 0o6;
/// All of it in a directory.
pub const ALL: u16 = 0o7;

const OF_FILE: &str = "system.posix_acl_access";
const OF_NEW_FILES: &str = "system.posix_acl_default";
const VERSION: u32 = 2;
const OWNER: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP: u16 = 0x04;
const MASK: u16 = 0x10;
const OTHERS: u16 = 0x20;
/// The id of an entry that names nobody.
const NOBODY: u32 = u32::MAX;
/// The longest list that is read: some thousand entries.
const LONGEST: usize = 64 << 10;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    kind: u16,
    rights: u16,
    id: u32,
}

/// Whether a file's list names a user.
pub fn names_a_user(file: impl AsFd) -> bool {
    read(file, OF_FILE).is_ok_and(|list| list.iter().any(|entry| entry.kind == USER))
}

/// Gives a user these rights on a file, and takes nothing from anybody.
///
/// # Errors
/// The file is somebody else's, or its file system has no access lists.
pub fn give(file: impl AsFd, user: u32, rights: u16) -> io::Result<()> {
    let mut list = read(&file, OF_FILE)?;
    if list.is_empty() {
        let mode = fstat(&file)?.st_mode;
        let of = |kind, shift: u32| Entry {
            kind,
            rights: u16::try_from(mode >> shift & 0o7).unwrap_or_default(),
            id: NOBODY,
        };
        list = vec![of(OWNER, 6), of(GROUP, 3), of(OTHERS, 0)];
    }
    write(file, OF_FILE, with(list, &[user], rights))
}

/// Gives these users all rights on what is made in a directory from now on, as far as its mode lets the group.
///
/// # Errors
/// As of [`give`].
pub fn give_what_comes(directory: impl AsFd, users: &[u32]) -> io::Result<()> {
    let of = |kind, rights| Entry { kind, rights, id: NOBODY };
    let list = vec![of(OWNER, ALL), of(GROUP, 0), of(OTHERS, 0)];
    write(directory, OF_NEW_FILES, with(list, users, ALL))
}

/// The list with these users, in the order that the kernel demands.
fn with(mut list: Vec<Entry>, users: &[u32], rights: u16) -> Vec<Entry> {
    list.retain(|entry| entry.kind != MASK && !(entry.kind == USER && users.contains(&entry.id)));
    list.extend(users.iter().map(|id| Entry { kind: USER, rights, id: *id }));
    let bounded = list.iter().filter(|entry| !matches!(entry.kind, OWNER | OTHERS));
    let mask = bounded.fold(0, |all, entry| all | entry.rights);
    list.push(Entry { kind: MASK, rights: mask, id: NOBODY });
    list.sort_by_key(|entry| (entry.kind, entry.id));
    list.dedup();
    list
}

fn read(file: impl AsFd, name: &str) -> io::Result<Vec<Entry>> {
    let mut bytes = vec![0; LONGEST];
    let length = match fgetxattr(file, name, &mut bytes[..]) {
        Ok(length) => length,
        Err(Errno::NODATA) => return Ok(Vec::new()),
        Err(e) => return Err(e.into()),
    };
    let entries = bytes.get(4..length).unwrap_or_default();
    let entry = |of: &[u8; 8]| Entry {
        kind: u16::from_le_bytes([of[0], of[1]]),
        rights: u16::from_le_bytes([of[2], of[3]]),
        id: u32::from_le_bytes([of[4], of[5], of[6], of[7]]),
    };
    Ok(entries.as_chunks().0.iter().map(entry).collect())
}

fn write(file: impl AsFd, name: &str, list: Vec<Entry>) -> io::Result<()> {
    let mut bytes = VERSION.to_le_bytes().to_vec();
    for Entry { kind, rights, id } in list {
        bytes.extend(kind.to_le_bytes());
        bytes.extend(rights.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    Ok(fsetxattr(file, name, &bytes, XattrFlags::empty())?)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_user_is_named_beside_those_whom_the_mode_knows() {
        let top = crate::Scratch::new("access").unwrap();
        fs::set_permissions(top.path(), Permissions::from_mode(0o701)).unwrap();
        let opened = File::open(top.path()).unwrap();
        let mode = || opened.metadata().unwrap().permissions().mode() & 0o777;
        if let Err(e) = give(&opened, 54321, THROUGH) {
            assert_eq!(e.raw_os_error(), Some(Errno::OPNOTSUPP.raw_os_error()), "{e}");
            return;
        }
        assert!(names_a_user(&opened) && mode() == 0o711);
        give(&opened, 54321, ALL).unwrap();
        give(&opened, 54322, THROUGH).unwrap();
        let users: Vec<_> = read(&opened, OF_FILE).unwrap().into_iter().filter(|entry| entry.kind == USER).collect();
        let of = |id, rights| Entry { kind: USER, rights, id };
        assert_eq!((users, mode()), (vec![of(54321, ALL), of(54322, THROUGH)], 0o771));
        // What is made below has the list, as far as its own mode goes.
        give_what_comes(&opened, &[54321]).unwrap();
        let made = File::create(top.path().join("made")).unwrap();
        made.set_permissions(Permissions::from_mode(0o660)).unwrap();
        assert!(names_a_user(&made));
        let closed = File::open(std::env::temp_dir()).unwrap();
        assert!(!names_a_user(&closed));
    }
}
