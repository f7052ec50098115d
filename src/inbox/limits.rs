//! How much a stranger may send: so many messages within an hour and within a day, whoever else sends what. And how much
//! comes within a minute from an end of a channel that a module serves.
//!
//! What counts are the rows, so that no restart forgets a limit and several daemons share it. Two that take messages at
//! the same moment may let a few more through; nobody's session is the cheaper for it, for that budgets are there.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};

use super::sql::limits::{self, Recent};
use super::types::{AcceptError, Source};
use base::text::plain_identity;
use store::{Lease, StoreError};

const MINUTE: SignedDuration = SignedDuration::from_secs(60);
const HOUR: SignedDuration = SignedDuration::from_hours(1);
const DAY: SignedDuration = SignedDuration::from_hours(24);

/// How many messages of one stranger are taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct SenderLimits {
    pub per_hour: u32,
    pub per_day: u32,
}

/// A channel, and who writes there as identities are compared.
type SenderKey = (String, String);

/// What strangers have sent lately.
pub(super) struct Sent {
    limits: SenderLimits,
    now: Timestamp,
    recent: HashMap<SenderKey, Recent>,
}

fn key(channel: &str, identity: &str) -> SenderKey {
    (channel.to_owned(), plain_identity(identity))
}

impl Sent {
    /// Reads what these strangers, each a channel and an identity, have sent within a day.
    pub async fn read(
        lease: &mut Lease,
        limits: SenderLimits,
        now: Timestamp,
        strangers: impl Iterator<Item = (&str, &str)>,
    ) -> Result<Self, StoreError> {
        let mut keys: Vec<SenderKey> = strangers.map(|(channel, identity)| key(channel, identity)).collect();
        keys.sort_unstable();
        keys.dedup();
        let rows = match keys.is_empty() {
            true => Vec::new(),
            false => {
                let most = i64::from(limits.per_hour.max(limits.per_day));
                limits::recent(lease, &keys, (now - HOUR, now - DAY), most).await?
            }
        };
        let recent = rows.into_iter().map(|row| ((row.channel.clone(), row.sender.clone()), row)).collect();
        Ok(Self { limits, now, recent })
    }

    /// Whether this stranger may send one more; then it counts.
    pub fn one_more(&mut self, channel: &str, identity: &str) -> Result<(), AcceptError> {
        let Self { limits, now, recent } = self;
        let (channel, sender) = key(channel, identity);
        let new = || Recent { channel: channel.clone(), sender: sender.clone(), ..Recent::default() };
        let sent = recent.entry((channel.clone(), sender.clone())).or_insert_with(new);
        let over = |count: i64, most: u32, first: Option<Timestamp>, within: SignedDuration, setting, called| {
            (count >= i64::from(most)).then(|| {
                let free = first.unwrap_or(*now) + within;
                let wait = free.duration_since(*now).as_secs().max(1);
                let retry_after = u32::try_from(wait).unwrap_or(u32::MAX);
                let count = u64::try_from(count).unwrap_or_default();
                AcceptError::TooMany { sender: identity.to_owned(), sent: count, within: called, setting, retry_after }
            })
        };
        let of_hour = over(sent.of_hour, limits.per_hour, sent.first_of_hour, HOUR, "stranger_per_hour", "an hour");
        let of_day = over(sent.of_day, limits.per_day, sent.first_of_day, DAY, "stranger_per_day", "a day");
        // Whichever keeps him out longer.
        if let Some(refusal) = of_day.or(of_hour) {
            return Err(refusal);
        }
        sent.of_hour += 1;
        sent.of_day += 1;
        sent.first_of_hour.get_or_insert(*now);
        sent.first_of_day.get_or_insert(*now);
        Ok(())
    }
}

/// Why an end of a channel may not hand in one more message now, of `most` a minute; `None`: it may.
pub(super) async fn too_fast(
    lease: &mut Lease,
    source: &Source,
    most: u32,
    now: Timestamp,
) -> Result<Option<AcceptError>, StoreError> {
    let Source { channel, endpoint_identity: endpoint, .. } = source;
    let full_since = limits::newest_of_end(lease, (channel, endpoint), now - MINUTE, most).await?;
    Ok(full_since.map(|at| {
        let wait = (at + MINUTE).duration_since(now).as_secs().max(1);
        let retry_after = u32::try_from(wait).unwrap_or(u32::MAX);
        AcceptError::TooFast { channel: channel.clone(), endpoint: endpoint.clone(), most, retry_after }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stranger_is_told_when_to_come_again() {
        let now: Timestamp = "2026-11-01T12:00:00Z".parse().unwrap();
        let before = |minutes: i64| Some(now - SignedDuration::from_mins(minutes));
        let eve = Recent {
            channel: "email".into(),
            sender: "eve@x".into(),
            of_hour: 1,
            of_day: 3,
            first_of_hour: before(20),
            first_of_day: before(23 * 60),
        };
        let recent = HashMap::from([(("email".to_owned(), "eve@x".to_owned()), eve)]);
        let mut sent = Sent { limits: SenderLimits { per_hour: 2, per_day: 5 }, now, recent };
        assert!(sent.one_more("email", "EVE@x").is_ok());
        let refused = sent.one_more("email", "Eve <eve@X>").unwrap_err();
        assert_eq!((refused.code(), refused.retry_after()), ("sender_limit", Some(40 * 60)), "{refused}");
        assert!(refused.to_string().contains("2 messages within an hour"), "{refused}");
        assert!(sent.one_more("telegram", "eve@x").is_ok() && sent.one_more("email", "bob@x").is_ok());
        sent.limits = SenderLimits { per_hour: 100, per_day: 4 };
        let refused = sent.one_more("email", "eve@x").unwrap_err();
        assert_eq!(refused.retry_after(), Some(60 * 60), "{refused}");
    }
}
