//! A vCard as a person of Google's: all of a new one, and of an edited one what the house edits and nothing else.

use dav::Line;
use dav::card::{MESSENGERS, split, unescaped};
use serde_json::{Map, Value, json};

use super::card::{UID_KEY, card, line, shown_line};

/// What the house edits on cards, with the field that Google has for it. No other field is ever written to a person whom
/// Google has: what a card doesn't say of them (labels of one's own, further names) is in these fields or others, and stays.
const EDITED: [(&str, &str); 3] = [("EMAIL", "emailAddresses"), ("TEL", "phoneNumbers"), ("IMPP", "imClients")];
/// What a new person gets besides.
const OTHERS: [(&str, &str); 5] = [
    ("NICKNAME", "nicknames"),
    ("ORG", "organizations"),
    ("BDAY", "birthdays"),
    ("NOTE", "biographies"),
    ("URL", "urls"),
];
/// Fields of which a contact has one at the most.
const SINGLE: [&str; 2] = ["birthdays", "biographies"];

/// Labels that Google knows of its own.
fn kind(line: &Line<'_>) -> Option<String> {
    let parameters = line.parameters().to_ascii_lowercase();
    let kinds = parameters.split(';').filter_map(|part| part.strip_prefix("type="));
    let kinds = kinds.flat_map(|list| list.split(',').map(|kind| kind.trim_matches('"').to_owned()));
    let says_nothing = |kind: &String| ["internet", "pref", "voice", ""].contains(&kind.as_str());
    kinds.into_iter().find(|kind| !says_nothing(kind))
}

/// A line of a card as an entry of a field; `None` if it says nothing.
fn entry(field: &str, line: &Line<'_>) -> Option<Value> {
    let value = unescaped(line.value()).trim().to_owned();
    if value.is_empty() {
        return None;
    }
    let without = |scheme: &str| {
        let begins = value.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
        if begins { value[scheme.len()..].to_owned() } else { value.clone() }
    };
    let mut entry = match field {
        "emailAddresses" => json!({"value": without("mailto:")}),
        "phoneNumbers" => json!({"value": without("tel:")}),
        "imClients" => {
            let known = MESSENGERS.iter().find_map(|(name, scheme)| Some((*name, value.strip_prefix(scheme)?)));
            let (protocol, user) = known.or_else(|| value.split_once(':'))?;
            json!({"protocol": protocol, "username": user})
        }
        "organizations" => {
            let parts: Vec<String> = split(line.value()).into_iter().map(unescaped).collect();
            let mut organization = json!({"name": parts.first()?});
            if let Some(department) = parts.get(1).filter(|part| !part.is_empty()) {
                organization["department"] = json!(department);
            }
            return Some(organization);
        }
        "birthdays" => return Some(birthday(&value)),
        "biographies" => return Some(json!({"value": value, "contentType": "TEXT_PLAIN"})),
        _ => json!({"value": value}),
    };
    if let Some(kind) = kind(line).filter(|_| field != "nicknames" && field != "urls") {
        entry["type"] = json!(kind);
    }
    Some(entry)
}

fn birthday(value: &str) -> Value {
    let number = |text: &str| text.parse::<u16>().ok();
    let parts: Vec<&str> = match value.strip_prefix("--") {
        Some(rest) => std::iter::once("0").chain(rest.split('-')).collect(),
        None => value.split('-').collect(),
    };
    match parts.iter().map(|part| number(part)).collect::<Option<Vec<u16>>>().as_deref() {
        Some([year, month @ 1..=12, day @ 1..=31]) => json!({"date": {"year": year, "month": month, "day": day}}),
        _ => json!({"text": value}),
    }
}

/// The parts of a name; `None` if there are none.
fn name(lines: &[Line<'_>]) -> Option<Map<String, Value>> {
    let of = lines.iter().find(|line| line.name == "N");
    let parts: Vec<String> =
        of.map(|line| split(line.value()).into_iter().map(unescaped).collect()).unwrap_or_default();
    let keys = ["familyName", "givenName", "middleName", "honorificPrefix", "honorificSuffix"];
    let filled = keys.iter().zip(parts).filter(|(_, part)| !part.trim().is_empty());
    let mut name: Map<String, Value> = filled.map(|(key, part)| ((*key).to_owned(), json!(part.trim()))).collect();
    if name.is_empty() {
        let shown = lines.iter().find(|line| line.name == "FN").map(|line| unescaped(line.value()));
        name.insert("givenName".to_owned(), json!(shown.filter(|shown| !shown.trim().is_empty())?.trim()));
    }
    Some(name)
}

/// The body that makes a person of a card: with its UID, by which it is found again if the answer is lost.
pub(super) fn new_person(bytes: &[u8]) -> Value {
    let lines = Line::all(bytes);
    let mut person = Map::new();
    if let Some(name) = name(&lines) {
        person.insert("names".to_owned(), json!([name]));
    }
    for (property, field) in EDITED.iter().chain(&OTHERS) {
        let mut entries: Vec<Value> =
            lines.iter().filter(|line| line.name == *property).filter_map(|line| entry(field, line)).collect();
        if SINGLE.contains(field) {
            entries.truncate(1);
        }
        if !entries.is_empty() {
            person.insert((*field).to_owned(), json!(entries));
        }
    }
    if let Some(uid) = dav::uid(bytes) {
        person.insert("clientData".to_owned(), json!([{"key": UID_KEY, "value": uid}]));
    }
    Value::Object(person)
}

/// The texts of the lines of one property, whose order says nothing.
fn texts<'l>(lines: &'l [Line<'_>], property: &str) -> Vec<&'l str> {
    let own = lines.iter().filter(|line| line.name == property);
    let mut texts: Vec<&str> = own.map(|line| line.text.as_str()).collect();
    texts.sort_unstable();
    texts
}

/// What makes the person that Google has now the one of this card: the body, and which of its fields count. `None` if they
/// say the same.
pub(super) fn changed_person(now: &Value, bytes: &[u8]) -> Option<(Value, String)> {
    let card = card(now);
    let (before, after) = (Line::all(&card), Line::all(bytes));
    let (mut body, mut fields) = (Map::new(), Vec::new());
    if texts(&before, "N") != texts(&after, "N") || shown_line(now) != texts(&after, "FN").concat() {
        // Parts that no card has (how it is pronounced) stay; what Google makes of the parts it makes anew.
        let mut new = now["names"][0].as_object().cloned().unwrap_or_default();
        for key in [
            "familyName",
            "givenName",
            "middleName",
            "honorificPrefix",
            "honorificSuffix",
            "displayName",
            "displayNameLastFirst",
            "unstructuredName",
            "metadata",
        ] {
            new.remove(key);
        }
        new.extend(name(&after).unwrap_or_default());
        body.insert("names".to_owned(), json!([new]));
        fields.push("names");
    }
    for (property, field) in EDITED {
        if texts(&before, property) == texts(&after, property) {
            continue;
        }
        // An entry that stays is sent as it is, with all that no card says of it. So is one that has no line at all.
        let mut there: Vec<Value> = now[field].as_array().cloned().unwrap_or_default();
        let mut entries: Vec<Value> = there.extract_if(.., |entry| line(field, entry).is_none()).collect();
        for line_after in after.iter().filter(|line| line.name == property) {
            let same = there.iter().position(|entry| line(field, entry).as_deref() == Some(line_after.text.as_str()));
            match same {
                Some(at) => entries.push(there.remove(at)),
                None => entries.extend(entry(field, line_after)),
            }
        }
        body.insert(field.to_owned(), json!(entries));
        fields.push(field);
    }
    if fields.is_empty() {
        return None;
    }
    for entry in body.values_mut().filter_map(Value::as_array_mut).flatten() {
        settled(entry);
    }
    for key in ["resourceName", "etag"] {
        body.insert(key.to_owned(), now[key].clone());
    }
    // Under which Google takes it: as what the owner wrote was when it was read.
    let sources = now["metadata"]["sources"].as_array().into_iter().flatten();
    let own = sources.filter(|source| source["type"] == "CONTACT").map(|source| {
        let of = |key: &&str| Some(((*key).to_owned(), source.get(*key)?.clone()));
        ["type", "id", "etag"].iter().filter_map(of).collect::<Map<String, Value>>()
    });
    body.insert("metadata".to_owned(), json!({"sources": own.collect::<Vec<_>>()}));
    Some((Value::Object(body), fields.join(",")))
}

/// Without what Google alone says of an entry.
fn settled(entry: &mut Value) {
    if let Some(entry) = entry.as_object_mut() {
        entry.retain(|key, _| key != "metadata" && key != "canonicalForm" && !key.starts_with("formatted"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dav::card::{Edit, Identity, edited};

    fn ada() -> Value {
        json!({
            "resourceName": "people/c1", "etag": "%1", "metadata": {"sources": [
                {"type": "CONTACT", "id": "1", "etag": "#1", "updateTime": "2027-01-01T00:00:00Z"},
                {"type": "PROFILE", "id": "2"}]},
            "names": [{"displayName": "Ada King", "givenName": "Ada", "familyName": "King", "phoneticGivenName": "Eida",
                       "metadata": {"primary": true}}],
            "emailAddresses": [{"value": "ada@example.org", "type": "my own", "displayName": "A", "formattedType": "x"}],
            "phoneNumbers": [{"value": "+44 20 1", "canonicalForm": "+44201", "type": "mobile"}, {"type": "home"}],
            "addresses": [{"city": "London"}],
        })
    }

    fn id(channel: &str, identity: &str) -> Identity {
        Identity { channel: channel.into(), identity: identity.into() }
    }

    #[test]
    fn what_did_not_change_is_not_written() {
        assert_eq!(changed_person(&ada(), &card(&ada())), None);
        let more = edited(&card(&ada()), &[Edit::Add(id("email", "a@b.c"))]).unwrap();
        let (body, fields) = changed_person(&ada(), &more).unwrap();
        assert_eq!(fields, "emailAddresses");
        let entries = json!([{"value": "ada@example.org", "type": "my own", "displayName": "A"}, {"value": "a@b.c"}]);
        assert_eq!(body["emailAddresses"], entries);
        let sources = json!({"sources": [{"type": "CONTACT", "id": "1", "etag": "#1"}]});
        assert_eq!((&body["etag"], &body["metadata"]), (&ada()["etag"], &sources));
        assert!(body.get("addresses").is_none() && body.get("phoneNumbers").is_none(), "{body}");
    }

    #[test]
    fn an_edit_keeps_what_no_card_says() {
        let edits = [
            Edit::Name { shown: "Ada Lovelace".into(), given: Some("Ada".into()), family: Some("Lovelace".into()) },
            Edit::Replace { old: id("phone", "+44201"), new: id("phone", "+44202") },
            Edit::Remove(id("email", "ada@example.org")),
            Edit::Add(id("telegram", "ada")),
        ];
        let (body, fields) = changed_person(&ada(), &edited(&card(&ada()), &edits).unwrap()).unwrap();
        assert_eq!(fields, "names,emailAddresses,phoneNumbers,imClients");
        assert_eq!(body["names"], json!([{"givenName": "Ada", "familyName": "Lovelace", "phoneticGivenName": "Eida"}]));
        assert_eq!(body["emailAddresses"], json!([]));
        assert_eq!(body["phoneNumbers"], json!([{"type": "home"}, {"value": "+44202", "type": "mobile"}]));
        assert_eq!(body["imClients"], json!([{"protocol": "telegram", "username": "ada"}]));
    }

    #[test]
    fn a_new_person_says_what_its_card_says_and_comes_back_the_same() {
        let text = "BEGIN:VCARD\r\nVERSION:3.0\r\nPRODID:-//butlerd//contacts//EN\r\nUID:u-1\r\nFN:Bea King\r\n\
            N:King;Bea;;;\r\nEMAIL:bea@example.org\r\nTEL:+49301\r\nIMPP:sgnl:+49301\r\nORG:Engines;Sales\r\n\
            BDAY:1815-12-10\r\nNOTE:a\\nb\r\nURL:https://x.example\r\nEND:VCARD\r\n";
        let mut person = new_person(text.as_bytes());
        assert_eq!(super::super::card::own_uid(&person).as_deref(), Some("u-1"));
        assert_eq!(person["birthdays"], json!([{"date": {"year": 1815, "month": 12, "day": 10}}]));
        person["resourceName"] = json!("people/c9");
        assert_eq!(String::from_utf8(card(&person)).unwrap(), text);
        let odd = new_person(b"BEGIN:VCARD\nFN:Bea\nTEL;TYPE=\"voice,cell\":tel:+1\nBDAY:soon\nEND:VCARD\n");
        assert_eq!(odd["names"], json!([{"givenName": "Bea"}]));
        assert_eq!(odd["phoneNumbers"], json!([{"value": "+1", "type": "cell"}]));
        assert_eq!(odd["birthdays"], json!([{"text": "soon"}]));
        assert_eq!(new_person(b"nothing"), json!({}));
    }
}
