//! What somebody who is invited answers: the one thing of another's event that is theirs.

use std::collections::BTreeSet;

use jiff::tz::TimeZone;

use crate::edit::exception_of;
use crate::text::{Component, Line, Node, escape};
use crate::{CalendarError, Event, Object, When};

/// An answer to an invitation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    Accepted,
    Declined,
    Tentative,
}

impl Answer {
    /// As calls and lists name it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Declined => "declined",
            Self::Tentative => "tentative",
        }
    }
}

impl std::str::FromStr for Answer {
    type Err = CalendarError;

    fn from_str(word: &str) -> Result<Self, CalendarError> {
        [Self::Accepted, Self::Declined, Self::Tentative]
            .into_iter()
            .find(|answer| answer.word() == word)
            .ok_or_else(|| CalendarError::invalid("PARTSTAT", word, "say accepted, declined or tentative"))
    }
}

/// An address without what names its kind.
pub fn plain_address(address: &str) -> &str {
    let address = address.trim();
    let scheme = address.get(..7).filter(|start| start.eq_ignore_ascii_case("mailto:"));
    scheme.map_or(address, |_| address[7..].trim())
}

/// Whether one of these addresses is meant.
pub fn is_one_of(addresses: &[String], address: &str) -> bool {
    addresses.iter().any(|own| plain_address(own).eq_ignore_ascii_case(plain_address(address)))
}

impl Event {
    /// What the person with one of these addresses answered, as `needs-action`. `None`: nobody asked them to come.
    pub fn answer_of(&self, addresses: &[String]) -> Option<&str> {
        let own = self.attendees.iter().find(|one| is_one_of(addresses, &one.email))?;
        Some(own.answer.as_deref().unwrap_or("needs-action"))
    }
}

/// The addresses of all who learn of an event besides the person with these: who is asked to come, and whoever invites.
pub fn others(object: &Object, addresses: &[String]) -> BTreeSet<String> {
    let asked = object.events.iter().flat_map(|event| &event.attendees).map(|one| &one.email);
    let all = asked.chain(object.events.iter().filter_map(|event| event.organizer.as_ref()));
    all.filter(|one| !is_one_of(addresses, one)).map(|one| plain_address(one).to_ascii_lowercase()).collect()
}

/// Answers for the person with these addresses: the event with their `PARTSTAT` and, where one is given, their comment.
/// Not a byte else changes. `instance`: of that instance alone, which becomes an exception; without it the series is
/// answered, and those of its exceptions for which no answer of their own was given.
///
/// # Errors
/// Nobody asked them to come, or there is no such instance.
pub fn respond(
    object: &Object,
    addresses: &[String],
    instance: Option<&When>,
    (answer, comment): (Answer, Option<&str>),
    home: &TimeZone,
) -> Result<Object, CalendarError> {
    let mut whole = object.clone();
    let answered = match instance {
        Some(instance) => {
            let at = exception_of(&mut whole, instance, home)?;
            vec![at]
        }
        None => {
            let before = object.main().answer_of(addresses);
            let same = |event: &Event| {
                let own = event.answer_of(addresses);
                own.is_some() && (before.is_none() || own == before)
            };
            object.events.iter().enumerate().filter(|(_, event)| same(event)).map(|(at, _)| at).collect()
        }
    };
    let mut done = false;
    for at in answered {
        if let Some(component) = whole.component_mut(at) {
            done |= write(component, addresses, answer, comment);
        }
    }
    if !done {
        return Err(CalendarError::NotInvited);
    }
    Object::of(whole.root)
}

/// `false`: nobody of these addresses is asked to come to it.
fn write(event: &mut Component, addresses: &[String], answer: Answer, comment: Option<&str>) -> bool {
    let mut done = false;
    for node in &mut event.nodes {
        if let Node::Line(line) = node
            && line.name == "ATTENDEE"
            && is_one_of(addresses, &line.value)
        {
            *line = answered(line, answer);
            done = true;
        }
    }
    // One comment is the attendee's own; those of others stay.
    if let Some(comment) = comment.filter(|_| done) {
        let own = |node: &Node| matches!(node, Node::Line(line) if line.name == "COMMENT" && line.param("X-BUTLERD").is_some());
        event.nodes.retain(|node| !own(node));
        if !comment.trim().is_empty() {
            let place = event.nodes.iter().position(|node| matches!(node, Node::Component(_)));
            let line = Line::new("COMMENT;X-BUTLERD=1", &escape(comment.trim()));
            event.nodes.insert(place.unwrap_or(event.nodes.len()), Node::Line(line));
        }
    }
    done
}

/// The line with another `PARTSTAT`, and its other parameters as they are.
fn answered(line: &Line, answer: Answer) -> Line {
    let params = line.params_but("PARTSTAT");
    Line::new(&format!("ATTENDEE{params};PARTSTAT={}", answer.word().to_ascii_uppercase()), &line.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADA: &str = "ATTENDEE;CN=\"Ada; King\";PARTSTAT=NEEDS-ACTION;RSVP=TRUE:mailto:Ada@example.org\r\n";
    const BEA: &str = "ATTENDEE;PARTSTAT=ACCEPTED:mailto:bea@example.org\r\n";

    fn object(more: &str) -> Object {
        let text = format!(
            "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\nUID:1\r\nDTSTAMP:20260101T000000Z\r\nSEQUENCE:3\r\n\
             DTSTART:20260302T090000Z\r\nDTEND:20260302T100000Z\r\nSUMMARY:x\r\n\
             ORGANIZER:mailto:eve@example.net\r\n{more}END:VEVENT\r\nEND:VCALENDAR\r\n"
        );
        Object::read(text.as_bytes()).unwrap()
    }

    fn own() -> Vec<String> {
        vec!["ada@example.org".into()]
    }

    fn said(object: &Object, instance: Option<&When>, answer: Answer, comment: Option<&str>) -> String {
        let done = respond(object, &own(), instance, (answer, comment), &TimeZone::UTC).unwrap();
        String::from_utf8(done.write()).unwrap()
    }

    #[test]
    fn nothing_but_the_own_answer_changes() {
        let before = object(&format!(
            "{BEA}{ADA}X-ODD;P=1:kept\r\nBEGIN:VALARM\r\nACTION:DISPLAY\r\nTRIGGER:-PT5M\r\nEND:VALARM\r\n"
        ));
        let text = String::from_utf8(before.write()).unwrap();
        let after = said(&before, None, Answer::Declined, None);
        let changed: Vec<&str> = after.lines().filter(|line| !text.lines().any(|old| old == *line)).collect();
        assert_eq!(
            changed.concat().replace(' ', ""),
            "ATTENDEE;CN=\"Ada;King\";RSVP=TRUE;PARTSTAT=DECLINED:mailto:Ada@example.org"
        );
        assert_eq!(Object::read(after.as_bytes()).unwrap().main().answer_of(&own()), Some("declined"));
        // A comment is one text, whatever stands in it; a second answer's takes its place.
        let once = said(&before, None, Answer::Tentative, Some("Late\r\nATTENDEE:mailto:x@y;"));
        assert!(once.contains("COMMENT;X-BUTLERD=1:Late\\nATTENDEE:mailto:x@y\\;\r\nBEGIN:VALARM"), "{once}");
        let twice = said(&Object::read(once.as_bytes()).unwrap(), None, Answer::Accepted, Some("Yes"));
        assert_eq!(twice.matches("COMMENT").count(), 1, "{twice}");
        assert_eq!(twice.matches("SEQUENCE:3\r\n").count(), 1, "{twice}");
    }

    #[test]
    fn who_is_not_asked_has_no_answer() {
        for uninvited in ["", BEA, "ATTENDEE;CN=ada@example.org:mailto:eve@example.net\r\n"] {
            let done = respond(&object(uninvited), &own(), None, (Answer::Accepted, None), &TimeZone::UTC);
            assert!(matches!(done, Err(CalendarError::NotInvited)), "{done:?}");
        }
        assert!("maybe".parse::<Answer>().is_err());
    }

    #[test]
    fn one_instance_is_answered_by_itself() {
        let series = object(&format!("RRULE:FREQ=DAILY;COUNT=5\r\n{BEA}{ADA}"));
        let third = When::Utc("2026-03-04T09:00:00".parse().unwrap());
        let text = said(&series, Some(&third), Answer::Declined, None);
        let after = Object::read(text.as_bytes()).unwrap();
        assert_eq!(after.events.len(), 2);
        assert_eq!(after.events[0].answer_of(&own()), Some("needs-action"));
        assert_eq!((after.events[1].answer_of(&own()), after.events[1].rule.is_none()), (Some("declined"), true));
        assert_eq!(text.matches("SEQUENCE:3\r\n").count(), 2, "{text}");
        // The series' answer leaves that one as it is.
        let all = said(&after, None, Answer::Accepted, None);
        let all = Object::read(all.as_bytes()).unwrap();
        let answers: Vec<_> = all.events.iter().map(|event| event.answer_of(&own())).collect();
        assert_eq!(answers, [Some("accepted"), Some("declined")]);
        let none = When::Utc("2026-03-14T09:00:00".parse().unwrap());
        assert!(respond(&series, &own(), Some(&none), (Answer::Accepted, None), &TimeZone::UTC).is_err());
    }
}
