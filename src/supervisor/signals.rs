//! SIGTERM and SIGINT, heard by a thread of their own: the process ends whatever hangs in it.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use tokio_util::sync::CancellationToken;

use base::HumanDuration;

/// What follows `shutdown_timeout`: the last requests, the database.
const LAST_STEPS: Duration = Duration::from_secs(15);
/// So many seconds the household may be without its watch.
const HUNG: u32 = 30;
/// The log's last lines.
const LAST_LINES: Duration = Duration::from_millis(200);

/// The first signal cancels `stop`. What has not ended by itself `within` that and [`LAST_STEPS`], or at a second
/// signal, is ended at once, with exit code 1: children and the embedded database go with the process, and the next
/// start makes it right.
pub(super) fn listen(stop: CancellationToken, within: Duration) -> io::Result<()> {
    // Handled, so that a write past the limit of a file's size fails and does not end the process. Not ignored, because
    // a child's program begins with the default of what its parent handled.
    signal_hook::flag::register(SIGXFSZ, Arc::default())?;
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    let heard = move || {
        for (n, signal) in signals.forever().enumerate() {
            let name = if signal == SIGTERM { "SIGTERM" } else { "SIGINT" };
            if n > 0 {
                tracing::warn!(signal = name, "a second signal: ending at once");
                end();
            }
            tracing::info!(signal = name, "stopping");
            stop.cancel();
            let last = within + LAST_STEPS;
            let deadline = thread::Builder::new().name("deadline".to_owned()).spawn(move || {
                thread::sleep(last);
                tracing::error!("not everything stopped within {}: ending at once", HumanDuration(last));
                end();
            });
            if let Err(e) = deadline {
                tracing::warn!(error = %e, "nothing ends the process if its stop hangs, but a second signal does");
            }
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(heard).map(drop)
}

/// Ends the process when `is_watched` has denied it for [`HUNG`]: its runtime hangs or its watch has ended, so nobody
/// else would. A process that was stopped for a while is not taken for one that hangs.
pub(super) fn end_when_hung(is_watched: Box<dyn Fn() -> bool + Send>) -> io::Result<()> {
    let look = move || {
        let mut missed = 0;
        loop {
            thread::sleep(Duration::from_secs(1));
            missed = if is_watched() { 0 } else { missed + 1 };
            if missed > HUNG {
                tracing::error!("the daemon hangs and is ended; a service manager starts it again");
                end();
            }
        }
    };
    thread::Builder::new().name("watchdog".to_owned()).spawn(look).map(drop)
}

fn end() -> ! {
    telemetry::flush_log(LAST_LINES);
    signal_hook::low_level::exit(1)
}
