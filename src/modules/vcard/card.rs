//! Between a vCard's text and the object that the register knows.

use calcard::common::PartialDateTime;
use calcard::vcard::{VCard, VCardEntry, VCardParameter, VCardParameterName, VCardProperty, VCardValue, VCardVersion};
use calcard::{Entry, Parser};
use serde_json::{Map, Value, json};

/// Prefixes of the addresses of messengers, by the type that the register has for them.
const MESSENGERS: [(&str, &str); 5] =
    [("telegram", "tg:"), ("whatsapp", "whatsapp:"), ("signal", "sgnl:"), ("matrix", "matrix:"), ("other", "xmpp:")];

/// The cards in a text, and how many of its lines were not understood.
pub(super) fn read(text: &str) -> (Vec<Value>, usize) {
    let (mut cards, mut strange) = (Vec::new(), 0);
    let mut parser = Parser::new(text);
    loop {
        match parser.entry() {
            Entry::VCard(card) => cards.extend(object(&card)),
            Entry::Eof => return (cards, strange),
            Entry::InvalidLine(line) if line.trim().is_empty() => {}
            _ => strange += 1,
        }
    }
}

/// A value's text, the parts of one with several joined.
fn text(value: &VCardValue) -> Option<String> {
    let text = match value {
        VCardValue::Component(parts) => parts.join(" "),
        other => other.as_text()?.to_owned(),
    };
    Some(text.trim().to_owned()).filter(|t| !t.is_empty())
}

fn first(card: &VCard, property: &VCardProperty) -> Option<String> {
    card.properties(property).find_map(|entry| entry.values.iter().find_map(text))
}

/// The n-th part of a value that has parts.
fn nth(entry: &VCardEntry, n: usize) -> Option<String> {
    entry.values.get(n).and_then(text)
}

/// What kind it is, in words, and whether it is the preferred one.
fn label(entry: &VCardEntry) -> (Option<String>, bool) {
    let kinds: Vec<String> = entry
        .parameters(&VCardParameterName::Type)
        .filter_map(|p| p.as_text())
        .flat_map(|p| p.split(',').map(|p| p.trim().to_lowercase()).collect::<Vec<_>>())
        .collect();
    let preferred = kinds.iter().any(|k| k == "pref") || entry.parameters(&VCardParameterName::Pref).next().is_some();
    let said = kinds.iter().find(|k| !["pref", "voice", "internet", "x-internet"].contains(&k.as_str()));
    (said.cloned(), preferred)
}

fn object(card: &VCard) -> Option<Value> {
    let mut out = Map::new();
    let mut put = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            out.insert(key.to_owned(), json!(value));
        }
    };
    let name = card.property(&VCardProperty::N);
    let (last, given) = (name.and_then(|n| nth(n, 0)), name.and_then(|n| nth(n, 1)));
    let whole = [given.clone(), last.clone()].into_iter().flatten().collect::<Vec<_>>().join(" ");
    let called = first(card, &VCardProperty::Fn).or_else(|| Some(whole).filter(|w| !w.is_empty()))?;
    put("name", Some(called));
    put("first_name", given);
    put("last_name", last);
    put("nickname", first(card, &VCardProperty::Nickname));
    put("company", card.property(&VCardProperty::Org).and_then(|o| nth(o, 0)));
    put("job_title", first(card, &VCardProperty::Title));
    put("pronouns", first(card, &VCardProperty::Pronouns));
    let mut infos = Vec::new();
    for (property, of) in [
        (VCardProperty::Email, "email"),
        (VCardProperty::Tel, "phone"),
        (VCardProperty::Url, "website"),
        (VCardProperty::Impp, "other"),
    ] {
        for entry in card.properties(&property) {
            let Some(value) = entry.values.iter().find_map(text) else { continue };
            let (label, preferred) = label(entry);
            let (of, value) = match of {
                "phone" => (of, value.strip_prefix("tel:").unwrap_or(&value).to_owned()),
                "email" => (of, value.strip_prefix("mailto:").unwrap_or(&value).to_owned()),
                "other" => MESSENGERS
                    .iter()
                    .find_map(|(of, prefix)| value.strip_prefix(prefix).map(|rest| (*of, rest.to_owned())))
                    .unwrap_or((of, value)),
                _ => (of, value),
            };
            infos.push(json!({"type": of, "value": value, "label": label, "is_primary": preferred}));
        }
    }
    let addresses: Vec<Value> = card.properties(&VCardProperty::Adr).filter_map(address).collect();
    let mut dates = Vec::new();
    for (property, label) in [(VCardProperty::Bday, "birthday"), (VCardProperty::Anniversary, "anniversary")] {
        let entry = card.property(&property);
        if let Some((year, month, day)) = entry.and_then(|e| e.values.iter().find_map(date)) {
            dates.push(json!({"label": label, "month": month, "day": day, "year": year}));
        }
    }
    for (key, list) in [("infos", infos), ("addresses", addresses), ("dates", dates)] {
        if !list.is_empty() {
            out.insert(key.to_owned(), Value::Array(list));
        }
    }
    Some(Value::Object(out))
}

fn address(entry: &VCardEntry) -> Option<Value> {
    // Post office box, flat, street, town, region, postal code, country.
    let (box_, flat, street) = (nth(entry, 0), nth(entry, 1), nth(entry, 2));
    let line_1 = street.or(box_)?;
    let country = nth(entry, 6).filter(|c| c.len() == 2).map(|c| c.to_uppercase());
    // A country's whole name is no code; it stands with the region, where nothing is lost.
    let named = nth(entry, 6).filter(|c| c.len() != 2);
    let province = [nth(entry, 4), named].into_iter().flatten().collect::<Vec<_>>().join(", ");
    let label = label(entry).0.map_or_else(|| "Home".to_owned(), |label| base::text::capital(&label));
    Some(json!({"label": label, "line_1": line_1, "line_2": flat, "city": nth(entry, 3),
                "province": Some(province).filter(|p| !p.is_empty()), "postal_code": nth(entry, 5), "country": country}))
}

/// A day of the year, with its year where that is known. Address books that must have a year write 1604 for none.
fn date(value: &VCardValue) -> Option<(Option<u16>, u8, u8)> {
    if let Some(at) = value.as_partial_date_time() {
        return Some((at.year.filter(|y| *y > 1604), at.month?, at.day?));
    }
    // Text such as 1980-05-17.
    let digits: String = value.as_text()?.chars().filter(char::is_ascii_digit).take(8).collect();
    let (year, month, day) = (digits.get(..4)?, digits.get(4..6)?, digits.get(6..8)?);
    let year: u16 = year.parse().ok()?;
    Some((Some(year).filter(|y| *y > 1604), month.parse().ok()?, day.parse().ok()?))
}

/// A card's text.
pub(super) fn write(card: &Value) -> String {
    let get = |key: &str| card[key].as_str().map(str::to_owned);
    let mut entries = vec![VCardEntry::new(VCardProperty::Version).with_value("4.0".to_owned())];
    let mut add = |property: VCardProperty, value: Option<String>| {
        if let Some(value) = value {
            entries.push(VCardEntry::new(property).with_value(value));
        }
    };
    add(VCardProperty::Uid, get("uid").map(|id| format!("urn:uuid:{id}")));
    add(VCardProperty::Fn, get("name"));
    add(VCardProperty::Nickname, get("nickname"));
    add(VCardProperty::Org, get("company"));
    add(VCardProperty::Title, get("job_title"));
    add(VCardProperty::Pronouns, get("pronouns"));
    if card["first_name"].is_string() || card["last_name"].is_string() {
        let part = |value: Option<String>| VCardValue::Text(value.unwrap_or_default());
        let parts = vec![part(get("last_name")), part(get("first_name")), part(None), part(None), part(None)];
        entries.push(VCardEntry::new(VCardProperty::N).with_values(parts));
    }
    let list = |key: &str| card[key].as_array().cloned().unwrap_or_default();
    let kind = |label: Option<&str>| {
        let plain = label.filter(|l| !l.is_empty() && l.chars().all(|c| c.is_alphanumeric() || c == '-'));
        plain.map(|label| VCardParameter::new(VCardParameterName::Type, label.to_lowercase()))
    };
    for info in list("infos") {
        let value = info["value"].as_str().unwrap_or_default();
        let of = info["type"].as_str().unwrap_or_default();
        let (property, value) = match of {
            "email" => (VCardProperty::Email, value.to_owned()),
            "phone" => (VCardProperty::Tel, value.to_owned()),
            "website" | "linkedin" | "instagram" | "facebook" => (VCardProperty::Url, value.to_owned()),
            _ => {
                let prefix = MESSENGERS.iter().find(|(name, _)| *name == of).map_or("", |(_, prefix)| prefix);
                (VCardProperty::Impp, format!("{prefix}{value}"))
            }
        };
        let preferred = (info["is_primary"] == true).then(|| VCardParameter::new(VCardParameterName::Pref, 1u32));
        entries.push(
            VCardEntry::new(property)
                .with_value(value)
                .with_param_opt(kind(info["label"].as_str()))
                .with_param_opt(preferred),
        );
    }
    for address in list("addresses") {
        let part = |key: &str| VCardValue::Text(address[key].as_str().unwrap_or_default().to_owned());
        let none = VCardValue::Text(String::new());
        let parts = ["line_2", "line_1", "city", "province", "postal_code", "country"].map(part);
        let entry = VCardEntry::new(VCardProperty::Adr).with_values(std::iter::once(none).chain(parts).collect());
        entries.push(entry.with_param_opt(kind(address["label"].as_str())));
    }
    for date in list("dates") {
        let property = match date["label"].as_str() {
            Some("birthday") => VCardProperty::Bday,
            Some("anniversary") => VCardProperty::Anniversary,
            _ => continue,
        };
        let number = |key: &str| date[key].as_u64();
        let at = PartialDateTime {
            year: number("year").and_then(|n| u16::try_from(n).ok()),
            month: number("month").and_then(|n| u8::try_from(n).ok()),
            day: number("day").and_then(|n| u8::try_from(n).ok()),
            ..PartialDateTime::default()
        };
        entries.push(VCardEntry::new(property).with_value(VCardValue::PartialDateTime(at)));
    }
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = VCard { entries }.write_to(&mut out, VCardVersion::V4_0);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_comes_back_as_it_went() {
        let card = json!({"name": "Ada, Countess; of L.", "first_name": "Ada", "last_name": "Lovelace", "company": "Engines \\ Co",
            "infos": [{"type": "email", "value": "ada@example.org", "label": "work", "is_primary": true},
                      {"type": "phone", "value": "+41791234567", "label": null, "is_primary": false},
                      {"type": "telegram", "value": "ada", "label": null, "is_primary": false}],
            "addresses": [{"label": "Home", "line_1": "Marktgasse 1, 2. Stock", "line_2": null, "city": "Bern",
                           "province": null, "postal_code": "3011", "country": "CH"}],
            "dates": [{"label": "birthday", "month": 2, "day": 29, "year": null},
                      {"label": "anniversary", "month": 7, "day": 8, "year": 1835}]});
        let text = write(&card);
        assert!(text.starts_with("BEGIN:VCARD\r\nVERSION:4.0\r\n") && text.ends_with("END:VCARD\r\n"), "{text}");
        let (back, strange) = read(&text);
        assert_eq!((back.as_slice(), strange), ([card].as_slice(), 0), "{text}");
    }

    #[test]
    fn older_and_odd_cards_are_read() {
        let text = "BEGIN:VCARD\r\nVERSION:2.1\r\nN:Müller;Jörg\r\nTEL;CELL;PREF:+49 151 1\r\nBDAY:1604-05-17\r\n\
                    ADR;HOME:;;Weg 1;Ulm;;89073;Germany\r\nEND:VCARD\r\nnonsense\r\n\
                    BEGIN:VCARD\r\nVERSION:3.0\r\nEMAIL:x@example.org\r\nEND:VCARD\r\n";
        let (cards, strange) = read(text);
        assert_eq!((cards.len(), strange), (1, 1), "a card without a name is none: {cards:?}");
        let card = &cards[0];
        assert_eq!((&card["name"], &card["infos"][0]["is_primary"]), (&json!("Jörg Müller"), &json!(true)));
        assert_eq!(card["dates"][0], json!({"label": "birthday", "month": 5, "day": 17, "year": null}));
        assert_eq!(card["addresses"][0]["province"], "Germany");
        assert_eq!(read("").0.len(), 0);
    }
}
