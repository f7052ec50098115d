//! The log: text for people on a terminal, JSON elsewhere when asked for; systemd's journal adds the time itself.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

use crate::config::{LogFormat, TelemetryConfig};

/// A log that can't be started.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("telemetry.log: `{filter}` is no log filter: {source}")]
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
    let filter =
        EnvFilter::try_new(&config.log).map_err(|source| LogError::Filter { filter: config.log.clone(), source })?;
    // The pool's library only says that a connection ended, without a reason; the store says the rest.
    let filter = match "deadpool_postgres=off".parse() {
        Ok(directive) => filter.add_directive(directive),
        Err(_) => filter,
    };
    let terminal = std::io::stderr().is_terminal();
    let journal = std::env::var_os("JOURNAL_STREAM").is_some();
    let base = tracing_subscriber::fmt().with_env_filter(filter).with_writer(BoxMakeWriter::new(std::io::stderr));
    let started = match config.format {
        LogFormat::Json => base.json().flatten_event(true).try_init(),
        _ if journal => base.without_time().with_ansi(false).try_init(),
        _ => base.with_ansi(terminal).with_target(false).try_init(),
    };
    started.map_err(|_| LogError::Twice)
}
