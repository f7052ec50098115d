//! To whom a delivery goes, and whether that is the owner: decided in one place, before anything is written.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use uuid::Uuid;

use super::household::{CHAT, Owner};
use base::text::plain_identity;
use tools::ToolError;

/// Where a delivery goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recipient {
    pub channel: String,
    /// The identity there: an address, a number, an endpoint's name.
    pub target: String,
    pub thread: Option<String>,
    /// What people call whoever gets it.
    pub name: String,
    pub contact: Option<Uuid>,
    /// It reaches the owner alone: one of their own identities, or a channel that does not leave the house. Anything
    /// else is outward.
    pub own: bool,
}

/// Why there is nobody that it could go to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RecipientError {
    /// The person is known, or not even that, but not under which identity they are reached on this channel.
    MissingIdentifier {
        recipient: String,
        channel: String,
        contact: Option<Uuid>,
    },
    Ambiguous {
        recipient: String,
        channels: Vec<String>,
    },
    NoChannel {
        channel: String,
        known: Vec<String>,
    },
}

impl RecipientError {
    /// What a butler is told.
    pub fn sentence(&self) -> String {
        match self {
            RecipientError::MissingIdentifier { recipient, channel, contact: Some(_) } => format!(
                "Nothing was sent: {recipient} is known, but not under which identity on {channel}. Ask the owner for \
                 it; they note it with: butlerd contacts add \"{recipient}\" {channel} IDENTITY"
            ),
            RecipientError::MissingIdentifier { recipient, channel, contact: None } if recipient == OWNER => format!(
                "Nothing was sent: [owner] identities in butlerd.toml does not say who the owner is on {channel}."
            ),
            RecipientError::MissingIdentifier { recipient, channel, .. } => format!(
                "Nothing was sent: nobody is known as {recipient} on {channel}. Never guess an address; ask the owner, \
                 who notes it with: butlerd contacts add NAME {channel} IDENTITY"
            ),
            RecipientError::Ambiguous { recipient, channels } if channels.is_empty() => {
                format!("Nothing was sent: more than one person is called {recipient}; give the identity instead.")
            }
            RecipientError::Ambiguous { recipient, channels } => {
                let channels = channels.join(", ");
                format!("Nothing was sent: {recipient} is reached on {channels}; say which channel.")
            }
            RecipientError::NoChannel { channel, known } => {
                format!("Nothing was sent: there is no channel {channel}; there are: {}.", known.join(", "))
            }
        }
    }

    /// As the answer to `notify`: whom to ask for, or a refusal.
    pub fn answer(&self) -> Result<Value, ToolError> {
        match self {
            RecipientError::MissingIdentifier { recipient, channel, contact } => Ok(json!({
                "status": "pending_missing_identifier", "recipient": recipient, "channel": channel,
                "contact_id": contact, "error": self.sentence()})),
            RecipientError::Ambiguous { .. } => Err(ToolError::refused("ambiguous_recipient", self.sentence())),
            RecipientError::NoChannel { .. } => Err(ToolError::refused("unknown_channel", self.sentence())),
        }
    }
}

/// As the recipient that means the person of the household.
const OWNER: &str = "owner";

/// What is known of a channel.
#[derive(Clone, Debug, Default)]
pub(super) struct ChannelInfo {
    pub at_home: bool,
    pub targets: Vec<String>,
}

store::row! {
    /// Somebody who has the wanted name, or the wanted identity.
    #[derive(Clone, Debug)]
    pub(super) struct ContactMatch {
        pub contact: Uuid = |row| row.get("id"),
        pub name: String,
        /// Null: they are known by name alone.
        pub at: Option<(String, String)> = |row| row.get::<_, Option<String>>("channel").zip(row.get("identity")),
    }
}

/// Decides. `owner` is `None` for a tenant whom the settings do not know: then the owner is reached in the chat.
#[allow(clippy::too_many_lines, reason = "one decision, case by case in the order that counts")]
pub(super) fn decide(
    channel: Option<&str>,
    recipient: Option<&str>,
    owner: Option<&Owner>,
    ways: &BTreeMap<String, ChannelInfo>,
    people: &[ContactMatch],
) -> Result<Recipient, RecipientError> {
    let recipient = recipient.map(str::trim).filter(|r| !r.is_empty());
    let called = |r: &str| {
        r.eq_ignore_ascii_case(OWNER)
            || owner.and_then(|o| o.name.as_deref()).is_some_and(|n| plain_identity(n) == plain_identity(r))
    };
    let identity = |channel: &str| match channel {
        CHAT => Some(OWNER.to_owned()),
        _ => owner.and_then(|o| o.identities.get(channel).cloned()),
    };
    if let Some(channel) = channel.filter(|channel| !ways.contains_key(*channel)) {
        return Err(RecipientError::NoChannel { channel: channel.to_owned(), known: ways.keys().cloned().collect() });
    }
    let to_owner = |channel: &str| {
        let way = ways.get(channel).cloned().unwrap_or_default();
        let target = identity(channel).or_else(|| way.targets.first().filter(|_| way.at_home).cloned());
        target.map(|target| Recipient {
            channel: channel.to_owned(),
            target,
            thread: None,
            name: OWNER.to_owned(),
            contact: None,
            own: true,
        })
    };
    let Some(recipient) = recipient.filter(|r| !called(r)) else {
        let wanted = channel.map(str::to_owned).unwrap_or_else(|| {
            let wished = owner.and_then(|o| o.notice_channel.clone());
            wished.filter(|c| ways.contains_key(c) && to_owner(c).is_some()).unwrap_or_else(|| CHAT.to_owned())
        });
        // A channel with configured ends and no identity of the owner: whom it reaches, the settings do not say.
        let first = || {
            let way = ways.get(&wanted)?;
            let target = way.targets.first().filter(|_| way.targets.len() == 1)?.clone();
            let name = target.clone();
            Some(Recipient { channel: wanted.clone(), target, thread: None, name, contact: None, own: way.at_home })
        };
        return to_owner(&wanted).or_else(first).ok_or_else(|| RecipientError::MissingIdentifier {
            recipient: OWNER.to_owned(),
            channel: wanted.clone(),
            contact: None,
        });
    };
    let on = |wanted: &str| channel.is_none_or(|channel| channel == wanted);
    // One of the owner's own identities.
    if let Some((channel, _)) = owner.and_then(|owner| {
        owner
            .identities
            .iter()
            .find(|(c, own)| on(c) && ways.contains_key(*c) && plain_identity(own) == plain_identity(recipient))
    }) && let Some(recipient) = to_owner(channel)
    {
        return Ok(recipient);
    }
    // An end that is configured.
    let ends = |(name, way): (&String, &ChannelInfo)| {
        let target = way.targets.iter().find(|target| on(name) && target.as_str() == recipient)?;
        let (channel, target, name) = (name.clone(), target.clone(), target.clone());
        Some(Recipient { channel, target, thread: None, name, contact: None, own: way.at_home })
    };
    if let Some(recipient) = ways.iter().find_map(ends) {
        return Ok(recipient);
    }
    let mut contacts: Vec<Uuid> = people.iter().map(|known| known.contact).collect();
    contacts.sort_unstable();
    contacts.dedup();
    let missing = |contact| RecipientError::MissingIdentifier {
        recipient: recipient.to_owned(),
        channel: channel.unwrap_or("any channel").to_owned(),
        contact,
    };
    let usable: Vec<(&ContactMatch, &(String, String))> = people
        .iter()
        .filter_map(|k| Some((k, k.at.as_ref()?)))
        .filter(|(_, (c, _))| on(c) && ways.contains_key(c))
        .collect();
    // Who has this very identity is meant, whoever else is called so.
    let exact = usable.iter().find(|(_, (_, identity))| plain_identity(identity) == plain_identity(recipient));
    let (known, (channel, target)) = match (exact, contacts.as_slice(), usable.as_slice()) {
        (Some(found), ..) => *found,
        (None, [], _) => return Err(missing(None)),
        (None, [contact], []) => return Err(missing(Some(*contact))),
        (None, [_], [one]) => *one,
        (None, [_], several) => {
            let mut channels: Vec<String> = several.iter().map(|(_, (c, _))| c.clone()).collect();
            channels.dedup();
            if channels.len() == 1 {
                several[0]
            } else {
                return Err(RecipientError::Ambiguous { recipient: recipient.to_owned(), channels });
            }
        }
        (None, _, _) => {
            return Err(RecipientError::Ambiguous { recipient: recipient.to_owned(), channels: Vec::new() });
        }
    };
    Ok(Recipient {
        channel: channel.clone(),
        target: target.clone(),
        thread: None,
        name: known.name.clone(),
        contact: Some(known.contact),
        // A contact can be the owner under an identity of their own.
        own: owner
            .and_then(|o| o.identities.get(channel))
            .is_some_and(|own| plain_identity(own) == plain_identity(target)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner() -> Owner {
        let identities = [("telegram", "123"), ("email", "Ada@example.org")];
        Owner {
            name: Some("Ada".into()),
            identities: identities.map(|(c, i)| (c.to_owned(), i.to_owned())).into(),
            notice_channel: Some("telegram".into()),
            ..Owner::default()
        }
    }

    fn ways(names: &[&str]) -> BTreeMap<String, ChannelInfo> {
        let way = |name: &str| match name {
            "webhook" => ChannelInfo { at_home: false, targets: vec!["door".into(), "lamp".into()] },
            "file" => ChannelInfo { at_home: true, targets: vec!["notes".into()] },
            _ => ChannelInfo { at_home: name == CHAT, targets: Vec::new() },
        };
        names.iter().map(|name| ((*name).to_owned(), way(name))).collect()
    }

    fn bob(at: &[(&str, &str)]) -> Vec<ContactMatch> {
        let contact = Uuid::from_u128(1);
        let known = |at| ContactMatch { contact, name: "Bob".into(), at };
        match at {
            [] => vec![known(None)],
            at => at.iter().map(|(c, i)| known(Some(((*c).into(), (*i).into())))).collect(),
        }
    }

    #[test]
    fn without_a_recipient_it_is_the_owner() {
        let (ada, all) = (owner(), ways(&["chat", "telegram", "email", "webhook", "file"]));
        let decided = |channel, recipient| decide(channel, recipient, Some(&ada), &all, &[]).unwrap();
        for recipient in [None, Some("owner"), Some(" ada "), Some("")] {
            let found = decided(None, recipient);
            assert_eq!((found.channel.as_str(), found.target.as_str(), found.own), ("telegram", "123", true));
        }
        assert_eq!(decided(Some("email"), None).target, "Ada@example.org");
        assert!(decided(Some("email"), Some("ada <ADA@example.org>")).own);
        assert!(decided(None, Some("123")).own && decided(Some("file"), None).own);
        let door = decided(Some("webhook"), Some("door"));
        assert!(!door.own && door.target == "door");
        assert!(matches!(
            decide(Some("webhook"), None, Some(&ada), &all, &[]),
            Err(RecipientError::MissingIdentifier { .. })
        ));
        // Its channel is not there: the chat is.
        let few = ways(&["chat"]);
        assert_eq!(decide(None, None, Some(&ada), &few, &[]).unwrap().channel, CHAT);
        assert_eq!(decide(None, None, None, &few, &[]).unwrap().target, OWNER);
        assert!(matches!(decide(Some("email"), None, Some(&ada), &few, &[]), Err(RecipientError::NoChannel { .. })));
    }

    #[test]
    fn a_contact_is_reached_where_they_are_known_and_nowhere_else() {
        let (ada, all) = (owner(), ways(&["chat", "telegram", "email"]));
        let decided =
            |channel, recipient, people: &[ContactMatch]| decide(channel, Some(recipient), Some(&ada), &all, people);
        let found = decided(None, "bob", &bob(&[("email", "bob@example.org")])).unwrap();
        assert_eq!((found.target.as_str(), found.own), ("bob@example.org", false));
        let both = bob(&[("email", "bob@example.org"), ("telegram", "7")]);
        assert!(matches!(decided(None, "bob", &both), Err(RecipientError::Ambiguous { .. })));
        assert_eq!(decided(Some("telegram"), "bob", &both).unwrap().target, "7");
        assert_eq!(decided(None, "bob@example.org", &both).unwrap().channel, "email");
        for people in [bob(&[]), bob(&[("sms", "5")]), Vec::new()] {
            let refused = decided(Some("email"), "bob", &people).unwrap_err();
            assert_eq!(refused.answer().unwrap()["status"], "pending_missing_identifier", "{refused:?}");
        }
        // An address that nobody is known by is nobody's, however well it looks.
        assert!(decided(Some("email"), "evil@example.org", &[]).is_err());
        let mut two = bob(&[("email", "bob@example.org")]);
        two.push(ContactMatch {
            contact: Uuid::from_u128(2),
            name: "Bob".into(),
            at: Some(("email".into(), "b2@e.org".into())),
        });
        assert!(matches!(decided(Some("email"), "bob", &two), Err(RecipientError::Ambiguous { .. })));
    }
}
