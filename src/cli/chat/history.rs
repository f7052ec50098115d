//! What was typed before, kept in the data directory for its owner alone.

use std::fs::{OpenOptions, Permissions, set_permissions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// So many entries are kept.
pub const ENTRIES: usize = 1000;

/// The household's file; `None` where it can't be written, as when the daemon is another user's.
pub fn file(data_dir: &Path) -> Option<PathBuf> {
    let path = data_dir.join("chat_history");
    OpenOptions::new().append(true).create(true).mode(0o600).open(&path).ok()?;
    set_permissions(&path, Permissions::from_mode(0o600)).ok()?;
    Some(path)
}

/// Whether the text may be kept. Secrets have no place in a file; one is known by its form, as those who issue keys
/// give them one, and as chance does.
pub fn may_keep(text: &str) -> bool {
    let breaks = |c: char| c.is_whitespace() || "\"'`<>()[]{},;".contains(c);
    // As shells have it.
    !text.starts_with(' ') && !text.contains("PRIVATE KEY") && !text.split(breaks).any(is_secret)
}

fn is_secret(word: &str) -> bool {
    const ISSUED: [&str; 11] =
        ["sk-", "sk_", "rk_", "ghp_", "gho_", "github_pat_", "glpat-", "xoxb-", "xoxp-", "AKIA", "AIza"];
    // `password=…`, `https://name:secret@host`: the value is what counts.
    let login = word.split_once("://").is_some_and(|(_, rest)| {
        rest.split('/').next().is_some_and(|host| host.rsplit_once('@').is_some_and(|(user, _)| user.contains(':')))
    });
    let value = word.rsplit(['=', ':']).next().unwrap_or_default();
    let issued = ISSUED.iter().any(|form| value.starts_with(form) && value.len() >= form.len() + 8);
    let token = value.len() >= 20 && value.bytes().all(|b| b.is_ascii_alphanumeric() || b"+/_-.=".contains(&b));
    let (digits, letters) = (count(value, |b| b.is_ascii_digit()), count(value, |b| b.is_ascii_alphabetic()));
    // Names of files and pages have words; chance has few of the same kind in a row.
    let longest = value.split(|c: char| !c.is_ascii_lowercase()).map(str::len).max().unwrap_or_default();
    login || issued || token && digits >= 3 && letters >= 3 && longest <= 6 && !is_uuid(value)
}

fn is_uuid(word: &str) -> bool {
    word.len() == 36 && word.parse::<uuid::Uuid>().is_ok()
}

fn count(word: &str, is: impl Fn(&u8) -> bool) -> usize {
    word.bytes().filter(|b| is(b)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_kept() {
        for text in [
            "use sk-ant-api03-abcdefgh",
            "token=ghp_16C7e42F292c6912E7710c838347Ae178B4a",
            "here: 9f86d081884c7d659a2feaa0c55ad015",
            "AKIAIOSFODNN7EXAMPLE",
            "postgres://ada:hunter2@db.example/home",
            "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjE",
            " said in private",
        ] {
            assert!(!may_keep(text), "{text}");
        }
    }

    #[test]
    fn what_people_say_is_kept() {
        for text in [
            "I weigh 82 kg",
            "look at https://example.org/2026/annual-report-of-the-household.html",
            "what became of 0199a1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b?",
            "/home/ada/Documents/2026-11-24-invoice.pdf",
            "meet at 18:00, bring 3 chairs",
        ] {
            assert!(may_keep(text), "{text}");
        }
    }

    #[test]
    fn the_file_is_its_owners_alone() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("chat_history"), "").unwrap();
        let path = file(dir.path()).unwrap();
        assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(file(Path::new("/nowhere")), None);
    }
}
