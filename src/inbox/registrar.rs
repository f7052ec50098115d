//! Keeping the butler registry: renewing the registrations of who is up here, and noting what all are worth.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::handle::Inbox;
use super::registry::{ButlerRegistration, Eligibility, Seen};
use super::sql::butlers::{self, RegistryRow, failed};
use base::TenantId;
use store::StoreError;

/// How often the clock is asked whether something is due; it may jump, as where a machine slept.
const LOOK: Duration = Duration::from_secs(2);

/// Renews the registrations of the butlers that are up here and notes what has become of all, while the switchboard is
/// up. A database that is away is asked again; no boot waits for this.
pub(super) async fn keep(inbox: Inbox, stop: CancellationToken) {
    let registry = &inbox.butlers().registry;
    loop {
        let now = inbox.clock().now();
        registry.looks(now);
        let adverts = inbox.butlers().adverts();
        let shortest = adverts.iter().map(|(_, a)| u64::try_from(a.liveness_ttl_s).unwrap_or(1)).min();
        let pause = shortest.map_or(LOOK, |ttl| Duration::from_millis(ttl * 1000 / 3).min(LOOK));
        let due = registry.due(adverts, now);
        if !due.is_empty()
            && let Err(e) = renew(&inbox, &due).await
        {
            tracing::warn!(error = %e, "the butler registry could not be written; trying again");
            // Not woken by more butlers that come up: the database is asked again after a while.
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(LOOK) => continue,
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
            () = registry.called() => {}
        }
    }
}

/// Writes the registrations of these butlers as of now, then looks at all.
async fn renew(inbox: &Inbox, due: &[(String, ButlerRegistration)]) -> Result<(), StoreError> {
    let (mut lease, schema) = (inbox.db().shared(&TenantId::owner()).await?, inbox.schema());
    let registry = &inbox.butlers().registry;
    let now = inbox.clock().now();
    let since = registry.since(now).unwrap_or(now);
    let mut tx = lease.begin().await.map_err(failed())?;
    for (name, registration) in due {
        butlers::register(&mut tx, schema, name, registration, now).await?;
    }
    let mut seen = BTreeMap::new();
    for row in butlers::all(&mut tx, schema).await? {
        let RegistryRow { name, description, liveness_ttl_s: ttl_s, last_seen_at, state: was, logged, .. } = row;
        let state = Eligibility::after(was.parse().ok(), last_seen_at, ttl_s, now, since);
        let anew = logged.as_deref().is_none_or(|last| last == butlers::REMOVED);
        if was != state.as_str() || anew {
            let (from, reason) = if anew { (logged, "registered") } else { (Some(was), state.reason()) };
            let (from, to) = (from.as_deref(), state.as_str());
            match anew {
                true => tracing::debug!(butler = name, from, to, reason, "a butler's eligibility"),
                false => tracing::info!(butler = name, from, to, reason, "a butler's eligibility"),
            }
            butlers::change(&mut tx, schema, &name, (from, to), reason).await?;
        }
        let contract = (row.route_contract_min, row.route_contract_max);
        seen.insert(name, Seen { description, contract, ttl_s, last_seen_at, state });
    }
    tx.commit().await.map_err(failed())?;
    registry.read(seen);
    Ok(())
}

impl Inbox {
    /// The household has the butler no more: its registration is struck out, and that is on record.
    pub async fn strike_out(&self, butler: &str) -> Result<(), StoreError> {
        let mut lease = self.db().shared(&TenantId::owner()).await?;
        butlers::strike_out(&mut lease, self.schema(), butler).await?;
        self.butlers().registry.expect(butler);
        Ok(())
    }
}
