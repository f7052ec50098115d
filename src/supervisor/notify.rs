//! systemd: ready, status, watchdog. Without systemd all of this does nothing.

use std::time::Duration;

use sd_notify::NotifyState;

use super::tree::Supervisor;
use base::task;

fn send(states: &[NotifyState<'_>]) {
    if let Err(e) = sd_notify::notify(states) {
        tracing::debug!(error = %e, "systemd could not be notified");
    }
}

/// What happens now, for `systemctl status`.
pub(super) fn status(text: &str) {
    send(&[NotifyState::Status(text)]);
}

/// The service is up.
pub(super) fn ready(text: &str) {
    send(&[NotifyState::Ready, NotifyState::Status(text)]);
}

/// The service is going down.
pub(super) fn stopping() {
    send(&[NotifyState::Stopping, NotifyState::Status("draining sessions")]);
}

/// Keeps the watchdog quiet from a loop that only runs while the runtime is well, and keeps the status current.
pub(super) fn start_watchdog(supervisor: Supervisor) {
    let Some(limit) = sd_notify::watchdog_enabled() else { return };
    let every = (limit / 2).max(Duration::from_millis(50));
    task::spawn(task::Kind::Actor, "watchdog", async move {
        let mut tick = tokio::time::interval(every);
        loop {
            tick.tick().await;
            // A household that nobody watches does no work that could be relied on.
            if !supervisor.inner.health.is_watched() {
                continue;
            }
            let text = supervisor.summary();
            send(&[NotifyState::Watchdog, NotifyState::Status(&text)]);
        }
    });
}
