//! Whether every page of a cluster that stands still is as it was written.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use base::text;

use super::ClusterError;
use super::binaries::Binaries;
use super::process::{self, Death};
use super::user::RunAs;

/// Most files that are named.
const NAMED: usize = 5;

/// What the sums of a cluster's pages say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageCheck {
    /// All of them are right.
    Whole,
    /// These pages are not: the first ones, as PostgreSQL names them, and how many there are.
    Damaged { pages: Vec<String>, count: usize },
    /// The cluster was made without sums.
    NoChecksums,
    /// It runs, or was not stopped in good order: then its files are not what counts.
    NotStopped,
    /// They can't be looked at, with the reason.
    Unknown(String),
}

/// Reads every page of the cluster in `data_dir` and compares it with its sum. Changes nothing.
///
/// # Errors
///
/// There is no cluster, or it can't be said as whom it runs.
pub fn check_pages(binaries: &Binaries, data_dir: &Path) -> Result<PageCheck, ClusterError> {
    let cluster = data_dir.join("postgres");
    let owner = std::fs::metadata(&cluster).map_err(ClusterError::files("look at", &cluster))?.uid();
    let run_as = RunAs::choose(Some(owner))?;
    let program = binaries.dir.join("pg_checksums");
    if !program.is_file() {
        return Ok(PageCheck::Unknown(format!("{} is not installed", program.display())));
    }
    let mut command = process::command(&program, &run_as, Death::Kill);
    command.arg("--check").arg("-D").arg(&cluster);
    let out = command.output().map_err(|source| ClusterError::Spawn { program, source })?;
    Ok(read(out.status.success(), &String::from_utf8_lossy(&out.stderr)))
}

/// What the program's words on standard error mean.
fn read(well: bool, said: &str) -> PageCheck {
    if well {
        return PageCheck::Whole;
    }
    let bad = |line: &str| {
        let words = ["checksum verification failed in file", "could not read block", "unexpected zero page"];
        words.iter().any(|words| line.contains(words)).then(|| {
            let line =
                line.split_once("error: ").or_else(|| line.split_once("warning: ")).map_or(line, |(_, said)| said);
            text::truncate(&text::clean(line), 200)
        })
    };
    let pages: Vec<String> = said.lines().filter_map(bad).collect();
    if !pages.is_empty() {
        return PageCheck::Damaged { count: pages.len(), pages: pages.into_iter().take(NAMED).collect() };
    }
    if said.contains("checksums are not enabled") {
        return PageCheck::NoChecksums;
    }
    if said.contains("must be shut down") {
        return PageCheck::NotStopped;
    }
    let said: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    PageCheck::Unknown(text::truncate(&text::clean(&said.join("; ")), 300))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_postgresql_says_of_its_pages_is_understood() {
        assert_eq!(read(true, ""), PageCheck::Whole);
        let bad = "pg_checksums: error: checksum verification failed in file \"base/5/1249\", block 3: calculated checksum 1 but block contains 2\n";
        let PageCheck::Damaged { pages, count } = read(false, &bad.repeat(9)) else { panic!("they are damaged") };
        assert_eq!((pages.len(), count), (NAMED, 9));
        assert!(pages[0].starts_with("checksum verification failed in file \"base/5/1249\", block 3"), "{pages:?}");
        assert_eq!(
            read(false, "pg_checksums: error: data checksums are not enabled in cluster"),
            PageCheck::NoChecksums
        );
        assert_eq!(read(false, "pg_checksums: error: cluster must be shut down"), PageCheck::NotStopped);
        assert_eq!(read(false, " x\n\ny \n"), PageCheck::Unknown("x; y".to_owned()));
    }
}
