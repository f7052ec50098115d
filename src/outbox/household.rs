//! Who the owner is, and the channel that every household has.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;

use config::QuietHours;

/// The household's own channel, which is always there.
pub const CHAT: &str = "chat";

/// Who the owner is and how they want to be reached.
#[derive(Clone, Debug)]
pub struct Owner {
    pub name: Option<String>,
    pub identities: BTreeMap<String, String>,
    pub notice_channel: Option<String>,
    pub quiet_hours: Option<QuietHours>,
    pub zone: TimeZone,
}

impl Default for Owner {
    fn default() -> Self {
        Self { name: None, identities: BTreeMap::new(), notice_channel: None, quiet_hours: None, zone: TimeZone::UTC }
    }
}
