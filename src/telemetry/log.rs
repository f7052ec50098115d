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
    let filter = filter(&config.log)?;
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
