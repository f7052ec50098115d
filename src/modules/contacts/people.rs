//! What a card and a contact say of one person, and what each learns of the other: pure.
//!
//! Both are compared with what they said the last time ([`Seen`]), so that an edit on one side is known from one on the
//! other. An identity that both sides changed is where the last of them left it: adding goes before removing.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use base::text::{plain, plain_identity};
use dav::card::{Edit, Identity, Person};

/// Letters of a name, identities of a card: more than that is no person.
const LONGEST_NAME: usize = 200;
const MOST_IDENTITIES: usize = 50;
const LONGEST_IDENTITY: usize = 300;

/// How somebody is reached, as rows and proposals have it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(super) struct Id {
    pub channel: String,
    pub identity: String,
}

impl Id {
    /// In the one form that equal identities have: of a number its digits.
    pub fn new(channel: &str, identity: &str) -> Self {
        let plain = plain_identity(identity);
        let identity = match channel {
            "phone" => plain.chars().filter(|c| c.is_ascii_digit() || *c == '+').collect(),
            _ => plain,
        };
        Self { channel: channel.to_owned(), identity }
    }

    fn of_card(self) -> Identity {
        Identity { channel: self.channel, identity: self.identity }
    }
}

/// A person as a card names them, cleaned of what no name or identity has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Said {
    pub name: String,
    pub ids: Vec<Id>,
}

impl Said {
    /// `None`: the card is a list of people, or nobody's.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let Person { name, identities, is_group, .. } = dav::card::person(bytes)?;
        let name = clean(&name);
        if is_group || name.is_empty() {
            return None;
        }
        let mut ids: Vec<Id> = Vec::new();
        for Identity { channel, identity } in identities {
            let id = Id::new(&channel, &identity);
            let fits = !id.identity.is_empty() && id.identity.len() <= LONGEST_IDENTITY;
            let plain = id.identity.chars().all(|c| !c.is_control() && !c.is_whitespace());
            if fits && plain && !ids.contains(&id) && ids.len() < MOST_IDENTITIES {
                ids.push(id);
            }
        }
        Some(Self { name, ids })
    }
}

/// On one line, without what a terminal would obey or what shows other characters elsewhere.
fn clean(name: &str) -> String {
    let shown = plain(&name.replace(['\n', '\t'], " "), usize::MAX);
    let one_line = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    one_line.chars().take(LONGEST_NAME).collect()
}

/// A contact as the house has it.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Contact {
    /// As it is compared and kept.
    pub raw: Value,
    pub name: String,
    pub ids: Vec<Id>,
}

impl Contact {
    pub fn new(raw: Value) -> Self {
        let name = raw["name"].as_str().unwrap_or_default().to_owned();
        let ids = raw["identities"].as_array().map(Vec::as_slice).unwrap_or_default().iter();
        let id = |one: &Value| Some(Id::new(one["channel"].as_str()?, one["identity"].as_str()?));
        Self { ids: ids.filter_map(id).collect(), name, raw }
    }
}

/// What both sides said when they were last compared.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Seen {
    pub contact: Uuid,
    pub name: String,
    pub card: Vec<Id>,
    pub house: Value,
    /// Of the card's, what the house put there: it goes when the card turns out to be somebody else's.
    #[serde(default)]
    pub taught: Vec<Id>,
}

impl Seen {
    /// What takes back what the house put on the card.
    pub fn untaught(&self) -> Vec<Edit> {
        self.taught.iter().map(|id| Edit::Remove(id.clone().of_card())).collect()
    }
}

/// What the contact learns of its card.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Learned {
    pub added: Vec<Id>,
    pub gone: Vec<Id>,
    pub name: Option<String>,
}

/// What the card says that it did not say before. `leads`: the contact's name follows this card.
pub(super) fn learned(said: &Said, seen: Option<&Seen>, house: &Contact, leads: bool) -> Learned {
    let before = seen.map(|seen| seen.card.as_slice()).unwrap_or_default();
    let renamed = seen.is_some_and(|seen| seen.name != said.name) && leads && said.name != house.name;
    Learned {
        added: said.ids.iter().filter(|id| !before.contains(id)).cloned().collect(),
        gone: before.iter().filter(|id| !said.ids.contains(id)).cloned().collect(),
        name: renamed.then(|| said.name.clone()),
    }
}

/// What the card learns of the contact. `elsewhere`: what the contact's other cards say; `gone`: what was just taken from the
/// contact on this card's word.
pub(super) fn taught(
    said: &Said,
    seen: Option<&Seen>,
    (house, before): (&Contact, &Contact),
    leads: bool,
    elsewhere: &[Id],
) -> Vec<Edit> {
    let old = seen.map(|seen| Contact::new(seen.house.clone()));
    let old_ids = old.as_ref().map(|old| old.ids.as_slice()).unwrap_or_default();
    let mut edits = Vec::new();
    if leads {
        let new =
            house.ids.iter().filter(|id| !old_ids.contains(id) && !said.ids.contains(id) && !elsewhere.contains(id));
        edits.extend(new.map(|id| Edit::Add(id.clone().of_card())));
        if let Some(old) = old.as_ref().filter(|old| old.name != before.name && house.name == before.name)
            && said.name != house.name
            && seen.is_some_and(|seen| seen.name == said.name)
        {
            debug_assert_ne!(old.name, house.name);
            edits.push(renamed(&house.name));
        }
    }
    let forgotten = old_ids.iter().filter(|id| !house.ids.contains(id) && said.ids.contains(id));
    edits.extend(forgotten.map(|id| Edit::Remove(id.clone().of_card())));
    edits
}

/// The last word of a name is the family's.
fn renamed(name: &str) -> Edit {
    let (given, family) = match name.rsplit_once(' ') {
        Some((given, family)) => (Some(given.to_owned()), Some(family.to_owned())),
        None => (Some(name.to_owned()), None),
    };
    Edit::Name { shown: name.to_owned(), given, family }
}

/// The card of a person whom the house alone knows. Its UID is the contact's, so that it is the same however often it is made.
pub(super) fn new_card(contact: Uuid, house: &Contact) -> Option<Vec<u8>> {
    let blank = format!(
        "BEGIN:VCARD\r\nVERSION:3.0\r\nPRODID:-//butlerd//contacts//EN\r\nUID:{contact}\r\nFN:-\r\nN:;;;;\r\nEND:VCARD\r\n"
    );
    let adds = house.ids.iter().map(|id| Edit::Add(id.clone().of_card()));
    let edits: Vec<Edit> = std::iter::once(renamed(&house.name)).chain(adds).collect();
    dav::card::edited(blank.as_bytes(), &edits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn contact(name: &str, ids: &[(&str, &str)]) -> Contact {
        let ids: Vec<Value> = ids.iter().map(|(c, i)| json!({"channel": c, "identity": i})).collect();
        Contact::new(json!({"name": name, "identities": ids}))
    }

    fn said(name: &str, ids: &[(&str, &str)]) -> Said {
        Said { name: name.into(), ids: ids.iter().map(|(c, i)| Id::new(c, i)).collect() }
    }

    fn seen(card: &Said, house: &Contact) -> Seen {
        Seen {
            contact: Uuid::nil(),
            name: card.name.clone(),
            card: card.ids.clone(),
            house: house.raw.clone(),
            taught: Vec::new(),
        }
    }

    #[test]
    fn each_side_learns_what_the_other_changed() {
        let card = said("Ada", &[("email", "a@x"), ("phone", "+49 30")]);
        let house = contact("Ada", &[("email", "a@x"), ("phone", "+4930")]);
        let before = seen(&card, &house);
        // Nothing changed, however a number is written.
        assert_eq!(learned(&card, Some(&before), &house, true), Learned::default());
        assert_eq!(taught(&card, Some(&before), (&house, &house), true, &[]), []);
        // The card: another address, another name.
        let new = said("Ada King", &[("email", "b@x"), ("phone", "+4930")]);
        let got = learned(&new, Some(&before), &house, true);
        assert_eq!((got.added, got.gone), (vec![Id::new("email", "b@x")], vec![Id::new("email", "a@x")]));
        assert_eq!(got.name.as_deref(), Some("Ada King"));
        assert_eq!(learned(&new, Some(&before), &house, false).name, None);
        // The house: a number less, a name and a messenger more.
        let now = contact("Ada Lovelace", &[("email", "a@x"), ("telegram", "7")]);
        let edits = taught(&card, Some(&before), (&now, &now), true, &[]);
        assert_eq!(edits.len(), 3, "{edits:?}");
        // What another card says already, and what follows another card, is left to that.
        let edits = taught(&card, Some(&before), (&now, &now), false, &[]);
        assert_eq!(edits, [Edit::Remove(Id::new("phone", "+4930").of_card())]);
        // At first nobody is renamed.
        assert_eq!(learned(&new, None, &house, true).name, None);
        assert_eq!(taught(&said("Other", &[("email", "a@x")]), None, (&house, &house), true, &[]).len(), 1);
    }

    #[test]
    fn a_name_is_one_plain_line() {
        assert_eq!(clean(" Ada\n\u{202e}\u{1b}[1m  King "), "Ada [1m King");
        assert_eq!(clean(&"x".repeat(1000)).len(), LONGEST_NAME);
        let group = b"BEGIN:VCARD\nKIND:group\nFN:All\nEND:VCARD\n";
        assert_eq!((Said::of(group), Said::of(b"nothing")), (None, None));
    }

    #[test]
    fn a_new_card_says_what_the_house_knows() {
        let bytes =
            new_card(Uuid::nil(), &contact("Ada King", &[("email", "a@x"), ("telegram", "7"), ("pigeon", "p")]));
        let bytes = bytes.unwrap();
        let back = Said::of(&bytes).unwrap();
        assert_eq!(
            back,
            said("Ada King", &[("email", "a@x"), ("telegram", "7")]),
            "{}",
            String::from_utf8_lossy(&bytes)
        );
    }
}
