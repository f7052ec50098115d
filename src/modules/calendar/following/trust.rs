//! How far what comes from a server is believed. Who could have written it decides, and not what it says.
//!
//! Into a calendar that nobody but the owner writes a server may still put what others send: a scheduling server delivers
//! invitations by itself (RFC 6638), and one that takes them from mail believes whatever organizer stands in them. What it
//! delivers always asks the owner to come: that is why it is delivered. So an event is a stranger's
//! - if somebody else invites to it;
//! - if it asks the owner to come and the household has never had it, even where it says that the owner invites;
//! - if it is an invitation as it was mailed.
//!
//! A provider that says by itself who invites ([`CalendarProvider::vouches`](super::super::provider::CalendarProvider)) leaves
//! the second out, unless it says as well that those who come may change the event. Neither `SCHEDULE-STATUS` nor a tag nor any other property decides, because who forges an organizer forges these as well.
//! What the household had before, and the owner invites to, stays as it was believed while nothing but answers is new: servers
//! add the owner to those who come, and a label never rises again. Whoever was asked may mail more in the owner's name. A meeting
//! that the owner made or changed in another program, and that asks the owner to come, can't be told from a forged one.

use base::Trust;
use calendar::{Attendee, Event, GUESTS_WRITE, Object, is_one_of};

/// What somebody who is asked may answer (RFC 5545, 3.2.12).
const ANSWERS: [&str; 5] = ["needs-action", "accepted", "declined", "tentative", "delegated"];

/// Who is the owner there.
pub(in super::super) struct Writers {
    /// The owner's own addresses.
    pub own: Vec<String>,
    /// Whether nobody but the owner writes into this calendar.
    pub private: bool,
    /// Whether the provider says by itself who invites, so that nobody can forge it.
    pub vouched: bool,
}

impl Writers {
    /// Whether somebody else may have invited to it: what is said in it are that one's words. `had`: what the household has of
    /// it already. `open`: those who come may change it.
    fn invites(&self, event: &Event, had: Option<&Object>, open: bool) -> bool {
        let asked = event.answer_of(&self.own).is_some();
        match &event.organizer {
            Some(organizer) if !is_one_of(&self.own, organizer) => true,
            Some(_) => {
                let others = open || asked && !self.vouched;
                others && !had.is_some_and(|had| had.events.iter().any(|old| self.says(old, event)))
            }
            None => asked,
        }
    }

    /// Whether nothing of it is new but the owner's place among those who come, and answers. Names are text, too.
    fn says(&self, had: &Event, has: &Event) -> bool {
        let mut rest = has.clone();
        (rest.organizer, rest.attendees, rest.sequence) = (had.organizer.clone(), had.attendees.clone(), had.sequence);
        let known = |one: &Attendee| {
            let said = |old: &&Attendee| one.name.is_none() || old.name == one.name;
            let mut all = had.attendees.iter().filter(said).map(|old| &old.email);
            let own = one.name.is_none() && is_one_of(&self.own, &one.email);
            (own || all.any(|old| old.eq_ignore_ascii_case(&one.email)))
                && one.answer.as_deref().is_none_or(|answer| ANSWERS.contains(&answer))
        };
        rest == *had && has.attendees.iter().all(known)
    }

    /// How far this version of an event is believed. `had`: the version that the household had, whose label stays if nothing
    /// of it changed; `None` of the answer means that.
    pub fn trust(&self, has: &[u8], had: Option<&[u8]>) -> Option<Trust> {
        let Ok(object) = Object::read(has) else { return Some(Trust::Stranger) };
        // A server writes what it was sent in its own way, and that makes it nobody else's.
        let had = had.and_then(|had| Object::read(had).ok());
        if had.as_ref().is_some_and(|had| had.events == object.events) {
            return None;
        }
        // Who takes an exception of a series away says something by that.
        let had = had.filter(|had| had.events.len() == object.events.len());
        let open = has_line(has, GUESTS_WRITE);
        // An invitation as it was sent (RFC 5546): what a calendar keeps has no method.
        if has_line(has, "METHOD") || object.events.iter().any(|event| self.invites(event, had.as_ref(), open)) {
            return Some(Trust::Stranger);
        }
        Some(if self.private { Trust::Owner } else { Trust::Known })
    }
}

/// Whether it has such a property anywhere.
fn has_line(bytes: &[u8], name: &str) -> bool {
    bytes
        .split(|byte| *byte == b'\n')
        .any(|line| line.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name.as_bytes())))
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
        let own = |private| Writers { own: vec!["Ada@example.org".into()], private, vouched: false };
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
            // A forged organizer, with all that a server would have added.
            "ORGANIZER;SCHEDULE-STATUS=1.1:mailto:ada@example.org\r\nATTENDEE;PARTSTAT=ACCEPTED;ROLE=CHAIR:MAILTO:Ada@example.org\r\n",
        ] {
            assert_eq!(trust(true, strangers), Some(Trust::Stranger), "{strangers}");
        }
        assert_eq!(own(true).trust(b"BEGIN:VCALENDAR\r\nEND:VCALENDAR\r\n", None), Some(Trust::Stranger));
    }

    #[test]
    fn what_the_household_made_stays_the_owners_when_a_server_lists_the_owner() {
        let writers = Writers { own: vec!["ada@example.org".into()], private: true, vouched: false };
        let made = event("ATTENDEE:mailto:bea@example.org\r\n");
        let back = "ORGANIZER:mailto:ada@example.org\r\nATTENDEE:mailto:bea@example.org\r\nATTENDEE:mailto:ada@example.org\r\n";
        assert_eq!(writers.trust(&event(back), Some(&made)), Some(Trust::Owner));
        assert_eq!(writers.trust(&event(back), None), Some(Trust::Stranger));
        let vouched = Writers { vouched: true, ..writers };
        assert_eq!(vouched.trust(&event(back), None), Some(Trust::Owner));
        // Where those who come may change it, whatever is new may be theirs.
        let open = format!("{back}{GUESTS_WRITE}:TRUE\r\n");
        assert_eq!(vouched.trust(&event(&open), None), Some(Trust::Stranger));
        assert_eq!(vouched.trust(&event(&open), Some(&made)), Some(Trust::Owner));
        assert_eq!(vouched.trust(&event(&format!("{open}LOCATION:y\r\n")), Some(&event(&open))), Some(Trust::Stranger));
        let writers = Writers { vouched: false, ..vouched };
        // Whoever knows its UID says something else in the owner's name.
        for new in ["LOCATION:y", "RRULE:FREQ=DAILY", "ATTENDEE;CN=y:mailto:bea@example.org", "ATTENDEE:mailto:y@e.e"] {
            let forged = event(&format!("{new}\r\n{back}"));
            assert_eq!(writers.trust(&forged, Some(&event(back))), Some(Trust::Stranger), "{new}");
        }
        for (answer, trust) in [("ACCEPTED", Trust::Owner), ("X-OBEY", Trust::Stranger)] {
            let answered = event(&back.replace("ATTENDEE:", &format!("ATTENDEE;PARTSTAT={answer}:")));
            assert_eq!(writers.trust(&answered, Some(&event(back))), Some(trust), "{answer}");
        }
        // Somebody else took it over.
        let taken = back.replace("ORGANIZER:mailto:ada", "ORGANIZER:mailto:eve");
        assert_eq!(writers.trust(&event(&taken), Some(&made)), Some(Trust::Stranger));
    }

    #[test]
    fn what_a_server_only_wrote_otherwise_keeps_its_label() {
        let writers = Writers { own: Vec::new(), private: false, vouched: false };
        let again = String::from_utf8(event("")).unwrap().replace("PRODID:-//t//t//EN", "PRODID:-//server//EN");
        assert_eq!(writers.trust(again.as_bytes(), Some(&event(""))), None);
        assert_eq!(writers.trust(&event("LOCATION:y\r\n"), Some(&event(""))), Some(Trust::Known));
    }
}
