//! Whether the pages of the private server's files are as they were written.

use super::backups::how_to_restore;
use super::{Finding, postgres};
use config::Config;
use jiff::Timestamp;
use store::cluster::{ClusterError, PageCheck, check_pages};

const TOPIC: &str = "database pages";

/// Reads every page of a cluster that stands still. `None`: there is none.
pub(super) fn finding(config: &Config, now: Timestamp) -> Option<Finding> {
    let data_dir = &config.daemon.data_dir;
    // Which programs there are is told elsewhere.
    let binaries = postgres::binaries(config).ok()?;
    match check_pages(&binaries, data_dir) {
        Ok(check) => Some(told(&check, config, now)),
        Err(ClusterError::Files { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => None,
        Err(e) => Some(Finding::warning(TOPIC, format!("they can't be checked: {e}"))),
    }
}

fn told(check: &PageCheck, config: &Config, now: Timestamp) -> Finding {
    let cluster = config.daemon.data_dir.join("postgres");
    let cluster = cluster.display();
    match check {
        PageCheck::Whole => Finding::ok(TOPIC, "all pages are as they were written"),
        PageCheck::Damaged { pages, count } => {
            let more = count.saturating_sub(pages.len());
            let more = if more > 0 { format!("; and {more} more") } else { String::new() };
            let text = format!("{count} damaged: {}{more}", pages.join("; "));
            Finding::problem(TOPIC, text).so(format!(
                "Look at the disk itself (dmesg, smartctl). Start butlerd and make a backup (butlerd backup FILE): it tells which \
                 table can't be read whole. Where one can't, end butlerd, move {cluster} aside, and {}.",
                how_to_restore(config, now)
            ))
        }
        PageCheck::NoChecksums => {
            Finding::warning(TOPIC, "this cluster was made without checksums: damage is not noticed")
                .so(format!("While butlerd is stopped, as the database's user: pg_checksums --enable -D {cluster}."))
        }
        PageCheck::NotStopped => {
            Finding::ok(TOPIC, "not checked, for the database runs or was killed; each backup reads every row")
                .so("To check every page, stop butlerd in good order and run this again.")
        }
        PageCheck::Unknown(why) => Finding::ok(TOPIC, format!("not checked: {why}")),
    }
}
