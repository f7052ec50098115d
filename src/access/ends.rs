//! For which ends of which channels a token speaks.

use std::collections::BTreeSet;

/// What a token of a connector names: it hands in messages of these alone, and it is believed on who wrote them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ChannelEnds {
    /// None: messages of any channel, whose senders nobody has proven.
    pub channels: BTreeSet<String>,
    /// The household's own ends of these channels, such as a mailbox; none: each of them.
    pub endpoints: BTreeSet<String>,
}

impl ChannelEnds {
    /// Whether it names this end of a channel.
    pub fn name(&self, channel: &str, endpoint: &str) -> bool {
        self.channels.contains(channel) && (self.endpoints.is_empty() || self.endpoints.contains(endpoint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_named_by_its_channel_and_its_endpoint() {
        let set = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        let none = ChannelEnds::default();
        assert!(!none.name("email", "home"));
        let email = ChannelEnds { channels: set(&["email"]), endpoints: set(&[]) };
        assert!(email.name("email", "home") && !email.name("telegram", "home"));
        let home = ChannelEnds { endpoints: set(&["home"]), ..email };
        assert!(home.name("email", "home") && !home.name("email", "office") && !home.name("telegram", "home"));
    }
}
