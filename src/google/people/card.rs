//! A person as Google has them, as a vCard: the same bytes for the same person, whenever it is made.

use dav::card::{MESSENGERS, escaped};
use dav::folded;
use serde_json::Value;

/// The key of a person's client data under which the house's own UID stands.
pub(super) const UID_KEY: &str = "butlerd";

/// Under which a person's fields are listed, without whatever is null.
fn list<'p>(person: &'p Value, field: &str) -> impl Iterator<Item = &'p Value> {
    person[field].as_array().into_iter().flatten()
}

fn text<'p>(entry: &'p Value, key: &str) -> &'p str {
    entry[key].as_str().map(str::trim).unwrap_or_default()
}

/// The UID that the house gave the person, if it did.
pub(super) fn own_uid(person: &Value) -> Option<String> {
    let own = list(person, "clientData").find(|data| text(data, "key") == UID_KEY)?;
    Some(text(own, "value").to_owned()).filter(|uid| !uid.is_empty())
}

/// A label as the parameter `TYPE`; empty where it is none that a parameter can hold.
fn kind(entry: &Value) -> String {
    let kind = text(entry, "type");
    let plain = !kind.is_empty() && kind.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    if plain { format!(";TYPE={}", kind.to_ascii_uppercase()) } else { String::new() }
}

/// One entry of a field as a line of the card; `None` if it says nothing.
pub(super) fn line(field: &str, entry: &Value) -> Option<String> {
    let value = |name: &str, key: &str| {
        let value = text(entry, key);
        (!value.is_empty()).then(|| format!("{name}{}:{}", kind(entry), escaped(value)))
    };
    let plain = |name: &str, key: &str| {
        let value = text(entry, key);
        (!value.is_empty()).then(|| format!("{name}:{}", escaped(value)))
    };
    match field {
        "names" => {
            let part = |key: &str| escaped(text(entry, key));
            let keys = ["familyName", "givenName", "middleName", "honorificPrefix", "honorificSuffix"];
            Some(format!("N:{}", keys.map(part).join(";")))
        }
        "emailAddresses" => value("EMAIL", "value"),
        "phoneNumbers" => value("TEL", "value"),
        "imClients" => {
            let (user, protocol) = (text(entry, "username"), text(entry, "protocol").to_ascii_lowercase());
            let known = MESSENGERS.iter().find(|(name, _)| *name == protocol);
            let scheme = known.map_or_else(|| format!("{protocol}:"), |(_, scheme)| (*scheme).to_owned());
            let right = scheme.len() > 1 && scheme.trim_end_matches(':').chars().all(|c| c.is_ascii_alphanumeric());
            (right && !user.is_empty()).then(|| format!("IMPP{}:{scheme}{}", kind(entry), escaped(user)))
        }
        "nicknames" => plain("NICKNAME", "value"),
        "biographies" => plain("NOTE", "value"),
        "organizations" => {
            let (name, department) = (text(entry, "name"), text(entry, "department"));
            let department = if department.is_empty() { String::new() } else { format!(";{}", escaped(department)) };
            (!name.is_empty()).then(|| format!("ORG:{}{department}", escaped(name)))
        }
        "birthdays" => birthday(entry).map(|day| format!("BDAY:{day}")),
        "urls" => web(text(entry, "value")).map(|url| format!("URL:{url}")),
        // The silhouette that Google makes of nobody's picture is none.
        "photos" if entry["default"] != true => web(text(entry, "url")).map(|url| format!("PHOTO;VALUE=uri:{url}")),
        _ => None,
    }
}

/// As vCards have it: a day, a day of any year, or whatever words stand there.
fn birthday(entry: &Value) -> Option<String> {
    let part = |key: &str| entry["date"][key].as_u64().filter(|part| *part > 0);
    match (part("year"), part("month"), part("day")) {
        (Some(year), Some(month), Some(day)) => Some(format!("{year:04}-{month:02}-{day:02}")),
        (None, Some(month), Some(day)) => Some(format!("--{month:02}-{day:02}")),
        (Some(year), Some(month), None) => Some(format!("{year:04}-{month:02}")),
        (Some(year), None, _) => Some(format!("{year:04}")),
        _ => Some(escaped(text(entry, "text"))).filter(|text| !text.is_empty()),
    }
}

/// An address of the web that is one value on one line.
fn web(url: &str) -> Option<&str> {
    let plain = url.chars().all(|c| !c.is_control() && !c.is_whitespace());
    (plain && (url.starts_with("https://") || url.starts_with("http://"))).then_some(url)
}

/// As people see the person: by name, else by whatever stands first.
fn shown(person: &Value) -> Option<String> {
    let first = |field: &str, key: &str| {
        let found = list(person, field).map(|entry| text(entry, key)).find(|text| !text.is_empty());
        found.map(str::to_owned)
    };
    let parts = || {
        let name = list(person, "names").next()?;
        let parts = ["honorificPrefix", "givenName", "middleName", "familyName", "honorificSuffix"];
        let parts: Vec<&str> = parts.iter().map(|part| text(name, part)).filter(|part| !part.is_empty()).collect();
        (!parts.is_empty()).then(|| parts.join(" "))
    };
    first("names", "displayName")
        .or_else(parts)
        .or_else(|| first("organizations", "name"))
        .or_else(|| first("nicknames", "value"))
        .or_else(|| first("emailAddresses", "value"))
        .or_else(|| first("phoneNumbers", "value"))
}

/// The line that shows the person's name.
pub(super) fn shown_line(person: &Value) -> String {
    format!("FN:{}", escaped(&shown(person).unwrap_or_default()))
}

/// The fields of a card, in the order in which they stand there.
const FIELDS: [&str; 9] = [
    "emailAddresses",
    "phoneNumbers",
    "imClients",
    "nicknames",
    "organizations",
    "birthdays",
    "biographies",
    "urls",
    "photos",
];

/// The person's vCard. What has no property here (addresses, groups, whatever a person added) is not on it, and is left alone
/// by whoever writes the card back.
pub(super) fn card(person: &Value) -> Vec<u8> {
    let name = text(person, "resourceName");
    let uid = own_uid(person).unwrap_or_else(|| name.to_owned());
    let mut lines = vec![
        "BEGIN:VCARD".to_owned(),
        "VERSION:3.0".to_owned(),
        "PRODID:-//butlerd//contacts//EN".to_owned(),
        format!("UID:{}", escaped(&uid)),
        shown_line(person),
    ];
    let of_name = list(person, "names").next().and_then(|name| line("names", name));
    lines.push(of_name.unwrap_or_else(|| "N:;;;;".to_owned()));
    for field in FIELDS {
        lines.extend(list(person, field).filter_map(|entry| line(field, entry)));
    }
    lines.push("END:VCARD".to_owned());
    lines.iter().flat_map(|line| folded(line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(person: &Value) -> String {
        String::from_utf8(card(person)).unwrap()
    }

    #[test]
    fn a_person_is_a_card() {
        let person = json!({
            "resourceName": "people/c1", "etag": "%x",
            "names": [{"displayName": "Ada, Countess", "givenName": "Ada", "familyName": "Lovelace; L.", "middleName": "K"}],
            "emailAddresses": [{"value": "Ada@example.org", "type": "home"}, {"value": "a@b.c", "type": "my own"}, {}],
            "phoneNumbers": [{"value": "+44 20 1", "canonicalForm": "+44201", "type": "mobile"}],
            "imClients": [{"username": "ada", "protocol": "telegram"}, {"username": "a", "protocol": "x y"}],
            "organizations": [{"name": "Engines", "department": "Sales"}],
            "birthdays": [{"date": {"month": 12, "day": 10}}],
            "biographies": [{"value": "one\ntwo\r\nEMAIL:evil@example.org"}],
            "urls": [{"value": "javascript:alert(1)"}, {"value": "https://x.example"}],
            "photos": [{"url": "https://p.example/1"}, {"url": "https://p.example/2", "default": true}],
            "addresses": [{"city": "London"}],
        });
        let said = of(&person);
        let meant = "BEGIN:VCARD\r\nVERSION:3.0\r\nPRODID:-//butlerd//contacts//EN\r\nUID:people/c1\r\n\
            FN:Ada\\, Countess\r\nN:Lovelace\\; L.;Ada;K;;\r\nEMAIL;TYPE=HOME:Ada@example.org\r\nEMAIL:a@b.c\r\n\
            TEL;TYPE=MOBILE:+44 20 1\r\nIMPP:tg:ada\r\nORG:Engines;Sales\r\nBDAY:--12-10\r\n\
            NOTE:one\\ntwo\\nEMAIL:evil@example.org\r\nURL:https://x.example\r\n\
            PHOTO;VALUE=uri:https://p.example/1\r\nEND:VCARD\r\n";
        assert_eq!(said, meant);
        let read = dav::card::person(said.as_bytes()).unwrap();
        assert_eq!((read.name.as_str(), read.identities.len()), ("Ada, Countess", 4));
    }

    #[test]
    fn who_has_no_name_is_called_by_what_there_is() {
        let person = json!({"resourceName": "people/c2", "emailAddresses": [{"value": "a@b.c"}],
                            "clientData": [{"key": "other", "value": "x"}, {"key": "butlerd", "value": "u-1"}]});
        let said = of(&person);
        assert!(said.contains("FN:a@b.c\r\nN:;;;;\r\n") && said.contains("UID:u-1\r\n"), "{said}");
        let nobody = of(&json!({"resourceName": "people/c3"}));
        assert!(dav::card::person(nobody.as_bytes()).is_none(), "{nobody}");
    }
}
