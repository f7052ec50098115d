//! Which version of PostgreSQL a directory's programs are.

use std::path::Path;

use super::process::{self, Death};
use super::user::RunAs;

/// Asks the server program itself for its version, as the user that will run it.
pub(super) fn probe(dir: &Path, run_as: &RunAs) -> Result<(u32, u32), String> {
    if let Some(missing) = ["initdb", "postgres"].iter().find(|name| !dir.join(name).is_file()) {
        return Err(format!("there is no `{missing}` in it"));
    }
    let program = dir.join("postgres");
    let out = process::command(&program, run_as, Death::Kill)
        .arg("--version")
        .output()
        .map_err(|e| format!("`{} --version` does not run as {}: {e}", program.display(), run_as.name))?;
    let text = String::from_utf8_lossy(&out.stdout);
    parse_version(&text).ok_or_else(|| {
        let said = if text.trim().is_empty() { String::from_utf8_lossy(&out.stderr) } else { text };
        format!("`postgres --version` says: {}", base::text::truncate(said.trim(), 300))
    })
}

/// Reads `postgres (PostgreSQL) 15.18 (Debian …)`, `… 19beta2`, `… 18devel`.
fn parse_version(text: &str) -> Option<(u32, u32)> {
    let number = text.split_once("(PostgreSQL)")?.1.split_whitespace().next()?;
    let end = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
    let major = number[..end].parse().ok()?;
    let rest = number[end..].strip_prefix('.').unwrap_or("0");
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    Some((major, rest[..end].parse().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        for (text, version) in [
            ("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n", Some((15, 18))),
            ("postgres (PostgreSQL) 18.4\n", Some((18, 4))),
            ("postgres (PostgreSQL) 19beta2\n", Some((19, 0))),
            ("postgres (PostgreSQL) 20devel\n", Some((20, 0))),
            ("postgres (EnterpriseDB) 9\n", None),
            ("", None),
        ] {
            assert_eq!(parse_version(text), version, "{text}");
        }
    }
}
