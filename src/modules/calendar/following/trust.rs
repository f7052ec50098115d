//! How far what comes from a server is believed. Who could have written it decides, and not what it says.

use base::Trust;
use calendar::{Event, Object};

/// Who is the owner there.
pub(in super::super) struct Writers {
    /// The owner's own addresses.
    pub own: Vec<String>,
    /// Whether nobody but the owner writes into this calendar.
    pub private: bool,
}

impl Writers {
    fn is_own(&self, address: &str) -> bool {
        let address = address.trim();
        let address =
            address.get(..7).filter(|start| start.eq_ignore_ascii_case("mailto:")).map_or(address, |_| &address[7..]);
        self.own.iter().any(|own| own.eq_ignore_ascii_case(address))
    }

    /// Whether somebody else invites to it: what is said in it are that one's words.
    fn invites(&self, event: &Event) -> bool {
        match &event.organizer {
            Some(organizer) => !self.is_own(organizer),
            None => event.attendees.iter().any(|one| self.is_own(&one.email)),
        }
    }

    /// How far this version of an event is believed. `had`: the version that the household had, whose label stays if nothing
    /// of it changed; `None` of the answer means that.
    pub fn trust(&self, has: &[u8], had: Option<&[u8]>) -> Option<Trust> {
        let Ok(object) = Object::read(has) else { return Some(Trust::Stranger) };
        // A server writes what it was sent in its own way, and that makes it nobody else's.
        if had.and_then(|had| Object::read(had).ok()).is_some_and(|had| had.events == object.events) {
            return None;
        }
        if is_message(has) || object.events.iter().any(|event| self.invites(event)) {
            return Some(Trust::Stranger);
        }
        Some(if self.private { Trust::Owner } else { Trust::Known })
    }
}

/// Whether it is an invitation as it was sent (RFC 5546): what a calendar keeps has no method.
fn is_message(bytes: &[u8]) -> bool {
    bytes
        .split(|byte| *byte == b'\n')
        .any(|line| line.get(..6).is_some_and(|start| start.eq_ignore_ascii_case(b"METHOD")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(more: &str) -> Vec<u8> {
        format!(
            "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//t//t//EN\r\nBEGIN:VEVENT\r\nUID:1\r\nDTSTAMP:20260101T000000Z\r\n\
             DTSTART:20260329T090000Z\r\nDTEND:20260329T100000Z\r\nSUMMARY:x\r\n{more}END:VEVENT\r\nEND:VCALENDAR\r\n"
        )
        .into_bytes()
    }

    #[test]
    fn what_others_wrote_is_believed_as_little_as_they_are() {
        let own = |private| Writers { own: vec!["Ada@example.org".into()], private };
        let trust = |private: bool, more: &str| own(private).trust(&event(more), None);
        assert_eq!(trust(true, ""), Some(Trust::Owner));
        assert_eq!(trust(false, ""), Some(Trust::Known));
        let hers = "ORGANIZER:mailto:ada@example.org\r\nATTENDEE:mailto:bea@example.org\r\n";
        assert_eq!(trust(true, hers), Some(Trust::Owner));
        for strangers in [
            "ORGANIZER:mailto:eve@example.net\r\n",
            "ORGANIZER;CN=ada@example.org:mailto:eve@example.net\r\nATTENDEE:mailto:ada@example.org\r\n",
            "ATTENDEE;PARTSTAT=NEEDS-ACTION:mailto:ada@example.org\r\n",
            "METHOD:REQUEST\r\n",
        ] {
            assert_eq!(trust(true, strangers), Some(Trust::Stranger), "{strangers}");
        }
        assert_eq!(own(true).trust(b"BEGIN:VCALENDAR\r\nEND:VCALENDAR\r\n", None), Some(Trust::Stranger));
    }

    #[test]
    fn what_a_server_only_wrote_otherwise_keeps_its_label() {
        let writers = Writers { own: Vec::new(), private: false };
        let again = String::from_utf8(event("")).unwrap().replace("PRODID:-//t//t//EN", "PRODID:-//server//EN");
        assert_eq!(writers.trust(again.as_bytes(), Some(&event(""))), None);
        assert_eq!(writers.trust(&event("LOCATION:y\r\n"), Some(&event(""))), Some(Trust::Known));
    }
}
