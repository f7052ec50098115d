//! Backups that the daemon makes by itself: whether there is a new one, and what to do with it where files are damaged.

use jiff::{SignedDuration, Timestamp};

use super::Finding;
use config::Config;
use supervisor::newest_backup;

const TOPIC: &str = "backups";

pub(super) fn findings(config: &Config, now: Timestamp) -> Vec<Finding> {
    let every = config.backup.every;
    if every.0.is_zero() {
        return vec![
            Finding::warning(TOPIC, "the daemon makes none: [backup] every is 0s")
                .so("Make them otherwise: butlerd backup FILE."),
        ];
    }
    let late = SignedDuration::try_from(every.0 + every.0 / 2).unwrap_or(SignedDuration::MAX);
    match newest_backup(config, now) {
        Some((at, file)) => {
            let text = format!("the newest is {}, of {}", file.display(), at.strftime("%Y-%m-%d %H:%M UTC"));
            let old = now.duration_since(at) > late;
            vec![if old {
                Finding::warning(TOPIC, format!("{text}, and one is made every {every}"))
                    .so("`butlerd status` says why.")
            } else {
                Finding::ok(TOPIC, text)
            }]
        }
        // A household that was never started has nothing to lose.
        None if !config.daemon.data_dir.join("master.key").exists() => Vec::new(),
        None => vec![Finding::ok(TOPIC, format!("none yet; the daemon makes one every {every}"))],
    }
}

/// How to go back to the newest backup, and what that costs.
pub(super) fn how_to_restore(config: &Config, now: Timestamp) -> String {
    match newest_backup(config, now) {
        Some((at, file)) => format!(
            "restore the newest backup: butlerd restore {} (of {}). What came after that moment is lost",
            file.display(),
            at.strftime("%Y-%m-%d %H:%M:%S UTC")
        ),
        None => "restore the newest backup that you have: butlerd restore FILE. The daemon has made none itself, and what came \
                 after that backup is lost"
            .to_owned(),
    }
}
