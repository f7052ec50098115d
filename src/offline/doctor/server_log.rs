//! What the private server said last, in its own log: why it does not start, and whether its files are damaged.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::Finding;
use super::backups::how_to_restore;
use base::text::truncate;
use config::Config;

const TOPIC: &str = "PostgreSQL log";
/// So much of the log's end is read: some hundred lines.
const END: u64 = 64 << 10;

/// What speaks of damaged files, wherever it stands.
const DAMAGE: [&str; 4] =
    ["invalid page in block", "page verification failed", "could not read block", "unexpected zero page"];
/// What a server that is being started or stopped says to whoever comes too early or too late.
const PASSING: [&str; 3] = ["is starting up", "is shutting down", "terminating connection"];

pub(super) fn findings(config: &Config, now: Timestamp) -> Vec<Finding> {
    let data_dir = &config.daemon.data_dir;
    let log = data_dir.join("postgres.log");
    let text = match end_of(&log) {
        Ok(text) => text,
        // No cluster was ever started here.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
        Err(e) => return vec![Finding::warning(TOPIC, format!("{} can't be read: {e}", log.display()))],
    };
    let cluster = data_dir.join("postgres");
    let mut found = Vec::new();
    if let Some(why) = no_start(&text) {
        let aside = format!("{}.broken", cluster.display());
        let advice = format!(
            "If memory, disk or rights are at fault, mend that and start again. If its files are damaged, end butlerd, run: mv {} \
             {aside}, then {}, but for what can be read out of {aside}.",
            cluster.display(),
            how_to_restore(config, now)
        );
        found.push(Finding::problem(TOPIC, format!("the last start of the database failed: {why}")).so(advice));
    }
    let made = std::fs::metadata(cluster.join("PG_VERSION")).and_then(|meta| meta.modified()).ok();
    let made = made.and_then(|at| Timestamp::try_from(at).ok()).unwrap_or(Timestamp::MIN);
    let damage = |line: &&str| DAMAGE.iter().any(|words| line.contains(words)) && !is_before(line, made);
    if let Some(line) = text.lines().rev().find(damage) {
        let text = format!("a file of the database is damaged: {}", said(line));
        let advice = format!(
            "Look at the disk itself (dmesg, smartctl). Make a backup now (butlerd backup FILE): it tells which table can't be \
             read whole. Where one can't, end butlerd, move {} aside, and {}.",
            cluster.display(),
            how_to_restore(config, now)
        );
        found.push(Finding::problem(TOPIC, text).so(advice));
    }
    if found.is_empty() {
        found.push(Finding::ok(TOPIC, format!("{} tells of no damage", log.display())));
    }
    found
}

/// Whether a line is of a cluster that was here before this one was made.
fn is_before(line: &str, made: Timestamp) -> bool {
    let time = line.get(.."2026-11-23 17:59:34.455".len());
    let at = time.and_then(|time| time.parse::<DateTime>().ok()).and_then(|at| at.to_zoned(TimeZone::UTC).ok());
    line.contains(" UTC ") && at.is_some_and(|at| at.timestamp() < made)
}

/// The end of a file, as text.
fn end_of(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let long = file.metadata()?.len();
    file.seek(SeekFrom::Start(long.saturating_sub(END)))?;
    let mut bytes = Vec::new();
    file.take(END).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Why the last start came to nothing, if it did. A start that is not among these lines was long enough ago to have
/// gone well: the next one would begin another try.
fn no_start(text: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let start = lines.iter().rposition(|line| line.contains("starting PostgreSQL"))?;
    let last = &lines[start..];
    if last.iter().any(|line| line.contains("is ready to accept connections")) {
        return None;
    }
    let bad =
        |line: &&&str| ["PANIC:", "FATAL:", "could not find the database system"].iter().any(|w| line.contains(w));
    let line = last.iter().filter(bad).find(|line| PASSING.iter().all(|words| !line.contains(words)))?;
    Some(said(line))
}

/// A line without its time, bounded.
fn said(line: &str) -> String {
    let words = ["PANIC:", "FATAL:", "ERROR:", "WARNING:", "LOG:"];
    let at = words.iter().filter_map(|word| line.find(word).map(|at| at + word.len())).min().unwrap_or_default();
    truncate(line[at..].trim(), 300)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STARTED: &str = "2026-11-23 17:59:34.455 UTC [1] LOG:  starting PostgreSQL 15.18\n";

    #[test]
    fn damage_of_an_earlier_cluster_is_past() {
        let line = "2026-11-23 17:59:34.455 UTC [7] ERROR:  invalid page in block 3 of relation base/5/16400";
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        assert!(is_before(line, at("2026-11-23T18:00:00Z")));
        assert!(!is_before(line, at("2026-11-23T17:00:00Z")));
        assert!(!is_before("ERROR:  invalid page in block 3", at("2026-11-23T18:00:00Z")), "nobody knows when");
    }

    #[test]
    fn the_last_start_is_what_counts() {
        let broken = format!(
            "{STARTED}2026 UTC [2] FATAL:  the database system is starting up\n2026 UTC [3] PANIC:  could not locate a valid \
             checkpoint record\n"
        );
        assert_eq!(no_start(&broken).as_deref(), Some("could not locate a valid checkpoint record"));
        let mended = format!("{broken}{STARTED}2026 UTC [4] LOG:  database system is ready to accept connections\n");
        assert_eq!(no_start(&mended), None);
        assert_eq!(no_start(STARTED), None, "nothing is known yet");
        let busy = "2026 UTC [5] FATAL:  sorry, too many clients already\n";
        assert_eq!(no_start(busy), None, "its start is further back");
        assert_eq!(no_start(&format!("{mended}{busy}")), None);
    }
}
