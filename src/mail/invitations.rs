//! Invitations to meetings, and answers to them, as calendar data says (RFC 5545): a few properties as they stand.

use serde_json::{Map, Value};

use super::clean;
use super::mime::{Leaf, Tree};

/// Events of one letter.
const MOST_EVENTS: usize = 10;
/// Characters of one value.
const LONGEST: usize = 500;
/// Bytes of calendar data that are looked at.
const MOST_BYTES: usize = 512 * 1024;

/// Each with the name that it has in what is read. `TZID` is told beside start and end.
const PROPERTIES: [(&str, &str); 9] = [
    ("UID", "uid"),
    ("SUMMARY", "summary"),
    ("DTSTART", "start"),
    ("DTEND", "end"),
    ("ORGANIZER", "organizer"),
    ("LOCATION", "location"),
    ("RRULE", "recurrence"),
    ("SEQUENCE", "sequence"),
    ("STATUS", "status"),
];

/// Names, in capitals, and values.
type Parameters = Vec<(String, String)>;

/// All events of all calendars in a letter; a calendar that comes in two forms is told once.
pub(crate) fn invitations(tree: &Tree<'_>) -> Vec<Value> {
    let mut found: Vec<Value> = Vec::new();
    let is_calendar = |leaf: &&Leaf<'_>| leaf.kind.is("text", "calendar") || leaf.kind.is("application", "ics");
    for leaf in tree.leaves().into_iter().filter(is_calendar) {
        for event in events(&leaf.text()) {
            if found.len() < MOST_EVENTS && !found.contains(&event) {
                found.push(event);
            }
        }
    }
    found
}

fn events(text: &str) -> Vec<Value> {
    let text = clean::cut(text, MOST_BYTES).replace("\r\n", "\n");
    // A line that begins with a blank goes on with the one before.
    let text = text.replace("\n ", "").replace("\n\t", "");
    let (mut method, mut open) = (None, Vec::new());
    let (mut events, mut event) = (Vec::<Map<String, Value>>::new(), Map::new());
    for line in text.lines() {
        let Some((name, parameters, value)) = property(line) else { continue };
        match name.as_str() {
            "BEGIN" if open.len() < 10 => open.push(value.trim().to_ascii_uppercase()),
            "BEGIN" => break,
            "END" => {
                let ended = open.pop().is_some_and(|kind| kind == "VEVENT");
                events.extend((ended && events.len() < MOST_EVENTS).then(|| std::mem::take(&mut event)));
            }
            "METHOD" if open.len() == 1 => method = Some(plain(value)),
            _ if open.last().is_some_and(|kind| kind == "VEVENT") => tell(&mut event, &name, &parameters, value),
            _ => {}
        }
    }
    let with_method = |mut event: Map<String, Value>| {
        if let Some(method) = &method {
            event.insert("method".to_owned(), Value::String(method.to_uppercase()));
        }
        Value::Object(event)
    };
    // A calendar may say what it is for behind its events.
    events.into_iter().filter(|event| !event.is_empty()).map(with_method).collect()
}

/// Takes in one property of an event; the first of a name counts.
fn tell(event: &mut Map<String, Value>, name: &str, parameters: &Parameters, value: &str) {
    let parameter = |name: &str| parameters.iter().find(|(known, _)| known == name).map(|(_, value)| plain(value));
    let mut say = |key: &str, value: String| {
        if !value.is_empty() && !event.contains_key(key) {
            event.insert(key.to_owned(), Value::String(value));
        }
    };
    if name == "ATTENDEE" {
        // Whose answer it is; of an invitation, the first who is invited.
        say("attendee", address(value));
        return say("answer", parameter("PARTSTAT").unwrap_or_default());
    }
    let Some((_, key)) = PROPERTIES.iter().find(|(known, _)| *known == name) else { return };
    match *key {
        "organizer" => {
            say("organizer", address(value));
            say("organizer_name", parameter("CN").unwrap_or_default());
        }
        key @ ("start" | "end") => {
            say(key, plain(value));
            say(&format!("{key}_tzid"), parameter("TZID").unwrap_or_default());
        }
        key => say(key, plain(value)),
    }
}

fn address(value: &str) -> String {
    let value = plain(value);
    let is_mail = value.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("mailto:"));
    if is_mail { value[7..].to_owned() } else { value }
}

/// A value without its escapes, on one line.
fn plain(value: &str) -> String {
    let mut out = String::new();
    let mut chars = clean::cut_chars(value, LONGEST * 4).chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n' | 'N') => out.push('\n'),
                Some(c) => out.push(c),
                None => {}
            },
            c => out.push(c),
        }
    }
    clean::line(&out, LONGEST)
}

/// `NAME;PARAMETER=value:value`
fn property(line: &str) -> Option<(String, Parameters, &str)> {
    let mut quoted = false;
    let colon = line.char_indices().find_map(|(at, c)| {
        quoted ^= c == '"';
        (c == ':' && !quoted).then_some(at)
    })?;
    let (head, value) = (&line[..colon], &line[colon + 1..]);
    let mut pieces = head.split(';');
    let name = pieces.next()?.trim().to_ascii_uppercase();
    let pair = |piece: &str| {
        let (name, value) = piece.split_once('=')?;
        Some((name.to_ascii_uppercase(), value.trim_matches('"').to_owned()))
    };
    Some((name, pieces.take(50).filter_map(pair).collect(), value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn events_are_read_as_they_stand() {
        let text = "BEGIN:VCALENDAR\r\nMETHOD:request\r\nBEGIN:VTIMEZONE\r\nTZID:Europe/Berlin\r\nEND:VTIMEZONE\r\n\
            BEGIN:VEVENT\r\nUID:1@x\r\nSUMMARY;LANGUAGE=de:Plan\\, kurz\\nund gut \r\n  so\r\n\
            DTSTART;TZID=\"Europe/Berlin\":20260303T100000\r\n\
            DTEND:20260303T110000Z\r\nORGANIZER;CN=\"Ada: L\":MAILTO:ada@example.org\r\nRRULE:FREQ=WEEKLY;COUNT=3\r\n\
            SEQUENCE:2\r\nSTATUS:CONFIRMED\r\nLOCATION:Room \u{202E}1\r\nBEGIN:VALARM\r\nSUMMARY:no\r\nEND:VALARM\r\n\
            END:VEVENT\r\nEND:VCALENDAR";
        let wanted = json!({"method": "REQUEST", "uid": "1@x",
            "summary": "Plan, kurz und gut so", "start": "20260303T100000",
            "start_tzid": "Europe/Berlin", "end": "20260303T110000Z", "organizer": "ada@example.org",
            "organizer_name": "Ada: L",
            "recurrence": "FREQ=WEEKLY;COUNT=3", "sequence": "2", "status": "CONFIRMED", "location": "Room 1"});
        assert_eq!(events(text), [wanted]);
    }

    #[test]
    fn broken_calendars_end() {
        assert_eq!(events(""), [] as [Value; 0]);
        assert_eq!(events("BEGIN:VEVENT\nUID:1"), [] as [Value; 0]);
        assert_eq!(events(&"BEGIN:VEVENT\n".repeat(9_000)), [] as [Value; 0]);
        assert_eq!(events(&"BEGIN:VEVENT\nUID:1\nEND:VEVENT\n".repeat(900)).len(), 10);
        let long = format!("BEGIN:VEVENT\nSUMMARY:{}\nEND:VEVENT", "ä".repeat(9_000));
        assert_eq!(events(&long)[0]["summary"].as_str().map(|s| s.chars().count()), Some(500));
    }
}
