//! The log: text for people on a terminal, JSON elsewhere when asked for; systemd's journal adds the time itself. No
//! line of it holds a secret that butlerd handed out.

use std::io::{IsTerminal, Write};
use std::sync::LazyLock;
use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

use base::redact::household;
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
}

/// Starts the log on standard error, for the whole process.
pub fn start_log(config: &TelemetryConfig) -> Result<(), LogError> {
    let filter = filter(&config.log)?;
    let terminal = std::io::stderr().is_terminal();
    let journal = std::env::var_os("JOURNAL_STREAM").is_some();
    let base = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // It would be written where nothing can be written just now, which ends the task that logs.
        .log_internal_errors(false)
        .with_writer(BoxMakeWriter::new(|| Clean(std::io::stderr())));
    let started = match config.format {
        LogFormat::Json => base.json().flatten_event(true).try_init(),
        _ if journal => base.without_time().with_ansi(false).try_init(),
        _ => base.with_ansi(terminal).with_target(false).try_init(),
    };
    started.map_err(|_| LogError::Twice)
}

/// Lines that could not be written.
pub(crate) static LOST: LazyLock<Counter<u64, AtomicU64>> = LazyLock::new(Counter::default);

/// How many lines of the log could not be written since the process began.
pub fn lost_lines() -> u64 {
    LOST.get()
}

/// Takes secrets out of what is written. The log writes each line as a whole, so none can hide between two writes. A line
/// that can't be written (its disk is full, its terminal or reader is gone) is counted, and whoever logs it goes on.
struct Clean<W>(W);

impl<W: Write> Write for Clean<W> {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let written = match household().cleaned(line) {
            Some(clean) => self.0.write_all(&clean),
            None => self.0.write_all(line),
        };
        if written.is_err() {
            LOST.inc();
        }
        Ok(line.len())
    }

    /// Each line was written through: what is left to flush was counted as it was lost.
    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush().or(Ok(()))
    }
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
    fn a_line_is_written_without_secrets() {
        use tracing_subscriber::layer::SubscriberExt;
        let secret = base::Secret::new("log\"secret-1".to_owned());
        let _hidden = household().hide_while(&secret);
        let lines = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        #[derive(Clone)]
        struct Kept(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);
        impl Write for Kept {
            fn write(&mut self, part: &[u8]) -> std::io::Result<usize> {
                self.0.lock().unwrap().write(part)
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let to = lines.clone();
        let writer = move || Clean(Kept(to.clone()));
        let layers = tracing_subscriber::registry()
            .with(tracing_subscriber::fmt::layer().with_ansi(false).with_writer(writer.clone()))
            .with(tracing_subscriber::fmt::layer().json().with_writer(writer));
        tracing::subscriber::with_default(layers, || {
            tracing::warn!(field = secret.expose(), shown = %secret.expose(), "words {}", secret.expose());
        });
        let text = String::from_utf8(lines.lock().unwrap().clone()).unwrap();
        assert_eq!(text.matches("[hidden]").count(), 6, "{text}");
        assert!(!text.contains("secret-1"), "{text}");
    }

    #[test]
    fn a_line_that_cannot_be_written_stops_nobody() {
        struct Gone;
        impl Write for Gone {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Err(std::io::ErrorKind::StorageFull.into())
            }
        }
        let (mut log, before) = (Clean(Gone), lost_lines());
        assert_eq!(log.write(b"a line\n").ok(), Some(7));
        assert!(log.flush().is_ok());
        assert_eq!(lost_lines(), before + 1);
    }

    #[test]
    fn the_protocol_library_is_quiet_unless_named() {
        assert!(filter("info").unwrap().to_string().contains("rmcp=warn"));
        let named = filter("info,rmcp=debug").unwrap().to_string();
        assert!(named.contains("rmcp=debug") && !named.contains("rmcp=warn"), "{named}");
    }
}
