//! The log: text for people on a terminal, JSON elsewhere when asked for; systemd's journal adds the time itself. No
//! line of it holds a secret that butlerd handed out.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::IsTerminal;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::repeats::{Limit, REPEATS};
use super::writer::{self, LINES, LOST, ToLines};
use config::{LogFormat, TelemetryConfig};

/// A log that can't be started.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("telemetry.log: `{filter}` is not a log filter: {source}")]
    Filter {
        filter: String,
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    #[error("the log was started before")]
    Twice,
    #[error("the log can't be written: {0}")]
    Writer(#[source] std::io::Error),
}

/// Starts the log on standard error, for the whole process. From here on panics are lines of it, too.
pub fn start_log(config: &TelemetryConfig) -> Result<(), LogError> {
    let filter = filter(&config.log)?;
    let terminal = std::io::stderr().is_terminal();
    let journal = is_journal();
    let base = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // It would be written where nothing can be written just now, which ends the task that logs.
        .log_internal_errors(false)
        .with_writer(ToLines { lines: LINES.clone(), journal });
    let started = match config.format {
        LogFormat::Json => base.json().flatten_event(true).finish().with(Limit).try_init(),
        _ if journal => base.without_time().with_ansi(false).finish().with(Limit).try_init(),
        _ => base.with_ansi(terminal).with_target(false).finish().with(Limit).try_init(),
    };
    started.map_err(|_| LogError::Twice)?;
    writer::start(|| REPEATS.tell(false)).map_err(LogError::Writer)?;
    std::panic::set_hook(Box::new(|panic| {
        let trace = Backtrace::capture();
        let trace = if trace.status() == BacktraceStatus::Captured { format!("\n{trace}") } else { String::new() };
        tracing::error!("{panic}{trace}");
        // What follows may be the end of the process.
        LINES.flush(LAST_WORDS);
    }));
    Ok(())
}

/// A panic waits so long for its line.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// Writes what the log still holds, before the process ends; at most so long, because its reader may stand still.
pub fn flush_log(within: Duration) {
    REPEATS.tell(true);
    LINES.flush(within);
}

/// Whether standard error is the journal's, by the device and inode that systemd names.
fn is_journal() -> bool {
    let Ok(named) = std::env::var("JOURNAL_STREAM") else { return false };
    std::fs::metadata("/proc/self/fd/2").is_ok_and(|fd| named == format!("{}:{}", fd.dev(), fd.ino()))
}

/// How many lines of the log could not be written since the process began.
pub fn lost_lines() -> u64 {
    LOST.get()
}

/// What is logged, as asked for, but for bodies of calls: they carry secrets, and a library below us would write them
/// out at level `trace`.
fn filter(wanted: &str) -> Result<EnvFilter, LogError> {
    let fail = |source| LogError::Filter { filter: wanted.to_owned(), source };
    let bodies = "jsonrpsee-http=off".parse().map_err(fail)?;
    // The pool's library says only that a connection ended, without a reason; the store says the rest.
    let pool = "deadpool.postgres=off".parse().map_err(fail)?;
    // The protocol library tells of the begin and end of every single request; whoever wants that names it.
    let wanted = format!("rmcp=warn,{wanted}");
    Ok(EnvFilter::try_new(wanted).map_err(fail)?.add_directive(bodies).add_directive(pool))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_of_calls_are_never_logged() {
        for wanted in ["trace", "info", "jsonrpsee-http=trace", "warn,jsonrpsee=trace"] {
            let filter = filter(wanted).unwrap().to_string();
            assert!(filter.contains("jsonrpsee-http=off") && !filter.contains("jsonrpsee-http=trace"), "{filter}");
        }
        assert!(filter("a=b=c").is_err());
    }

    #[test]
    fn the_protocol_library_is_quiet_unless_named() {
        assert!(filter("info").unwrap().to_string().contains("rmcp=warn"));
        let named = filter("info,rmcp=debug").unwrap().to_string();
        assert!(named.contains("rmcp=debug") && !named.contains("rmcp=warn"), "{named}");
    }
}
