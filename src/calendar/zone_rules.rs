//! Zones whose rules stand in the calendar itself, under a name that nobody else knows (RFC 5545, 3.6.5).

use jiff::tz::{Offset, TimeZone};

use crate::text::Component;

const DAYS: [&str; 7] = ["SU", "MO", "TU", "WE", "TH", "FR", "SA"];

/// The zone of a `VTIMEZONE`, by the rules of it that go on: winter and summer change each year, or one offset holds.
/// `None`: it changes by rules that no other zone has, or by a list of days.
pub(crate) fn zone_of(timezone: &Component) -> Option<TimeZone> {
    let newest = |name| timezone.components(name).filter(|part| !has_ended(part)).max_by_key(|part| begin(part));
    let parts = [newest("STANDARD"), newest("DAYLIGHT")];
    if parts.iter().flatten().any(|part| part.line("RDATE").is_some()) {
        return None;
    }
    match parts {
        [Some(winter), Some(summer)] if offset(winter)? != offset(summer)? => {
            let names = [name("S", offset(winter)?), name("D", offset(summer)?)].concat();
            TimeZone::posix(&format!("{names},{},{}", change(summer)?, change(winter)?)).ok()
        }
        [Some(only), _] | [_, Some(only)] => Some(TimeZone::fixed(offset(only)?)),
        [None, None] => None,
    }
}

fn begin(part: &Component) -> String {
    part.line("DTSTART").map(|line| line.value.clone()).unwrap_or_default()
}

fn part_of<'r>(rule: &'r str, name: &str) -> Option<&'r str> {
    rule.split(';').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
}

fn has_ended(part: &Component) -> bool {
    part.line("RRULE").is_some_and(|line| part_of(&line.value, "UNTIL").is_some())
}

/// `+0130`
fn offset(part: &Component) -> Option<Offset> {
    let value = part.line("TZOFFSETTO")?.value.trim();
    let (sign, digits) = (if value.starts_with('-') { -1 } else { 1 }, value.trim_start_matches(['+', '-']));
    let number = |from: usize| digits.get(from..from + 2).map_or(Some(0), |two| two.parse::<i32>().ok());
    (matches!(digits.len(), 4 | 6) && digits.bytes().all(|b| b.is_ascii_digit())).then_some(())?;
    Offset::from_seconds(sign * (number(0)? * 3_600 + number(2)? * 60 + number(4)?)).ok()
}

/// A name with its offset as POSIX writes it, which counts westwards.
fn name(letter: &str, offset: Offset) -> String {
    let (west, seconds) = (if offset.seconds() > 0 { "-" } else { "" }, offset.seconds().abs());
    let name = letter.repeat(3);
    format!("{name}{west}{}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

/// When a part of the year begins, as POSIX writes it: month, week, day, and the time on the clock until then.
fn change(part: &Component) -> Option<String> {
    let (rule, begin) = (&part.line("RRULE")?.value.to_ascii_uppercase(), begin(part));
    let month: u8 = part_of(rule, "BYMONTH")?.parse().ok()?;
    let (week, day) = part_of(rule, "BYDAY")?.split_at_checked(part_of(rule, "BYDAY")?.len().checked_sub(2)?)?;
    let day = DAYS.iter().position(|name| *name == day)?;
    let week = match week.trim_start_matches('+') {
        "-1" => 5,
        week => week.parse::<u8>().ok().filter(|week| (1..=4).contains(week))?,
    };
    let known = ["FREQ=YEARLY", "INTERVAL=1"];
    let other = |part: &str| !part.starts_with("BYMONTH=") && !part.starts_with("BYDAY=") && !part.starts_with("WKST=");
    if rule.split(';').any(|part| other(part) && !known.contains(&part)) {
        return None;
    }
    let time = |from: usize| begin.get(from..from + 2)?.parse::<u8>().ok();
    Some(format!("M{month}.{week}.{day}/{}:{:02}:{:02}", time(9)?, time(11)?, time(13)?))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use crate::Object;

    fn start(zone: &str, at: &str) -> (Option<String>, Timestamp) {
        let text = format!(
            "BEGIN:VCALENDAR\r\nBEGIN:VTIMEZONE\r\nTZID:Our own time\r\n{zone}END:VTIMEZONE\r\nBEGIN:VEVENT\r\nUID:a\r\n\
             DTSTART;TZID=Our own time:{at}\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
        );
        let object = Object::read(text.as_bytes()).expect("an event");
        let home = jiff::tz::TimeZone::get("Asia/Tokyo").expect("a zone");
        let event = object.main();
        (event.unknown_zone.clone(), event.start.instant(&home).expect("a time"))
    }

    const CHANGES: &str = "BEGIN:STANDARD\r\nDTSTART:16010101T030000\r\nTZOFFSETFROM:+0200\r\nTZOFFSETTO:+0100\r\n\
        RRULE:FREQ=YEARLY;INTERVAL=1;BYDAY=-1SU;BYMONTH=10\r\nEND:STANDARD\r\nBEGIN:DAYLIGHT\r\nDTSTART:16010101T020000\r\n\
        TZOFFSETFROM:+0100\r\nTZOFFSETTO:+0200\r\nRRULE:FREQ=YEARLY;INTERVAL=1;BYDAY=-1SU;BYMONTH=3\r\nEND:DAYLIGHT\r\n";

    #[test]
    fn a_zone_of_the_calendars_own_has_its_rules() {
        let berlin = |at: &str| format!("{at}[Europe/Berlin]").parse::<jiff::Zoned>().expect("a time").timestamp();
        for (given, at) in [
            ("20270327T090000", "2027-03-27T09:00:00"),
            ("20270328T030000", "2027-03-28T03:00:00"),
            ("20270701T090000", "2027-07-01T09:00:00"),
            ("20271031T040000", "2027-10-31T04:00:00"),
        ] {
            assert_eq!(start(CHANGES, given), (None, berlin(at)), "{given}");
        }
        // Elsewhere summer is in January, and offsets are no whole hours.
        let south = CHANGES.replace("=10", "=x").replace("BYMONTH=3", "BYMONTH=10").replace("=x", "=4");
        let south =
            south.replace("BYDAY=-1SU", "BYDAY=1SU").replace("TO:+0100", "TO:+1030").replace("TO:+0200", "TO:+1100");
        let at = |text: &str| text.parse::<Timestamp>().expect("a time");
        assert_eq!(start(&south, "20270115T120000"), (None, at("2027-01-15T01:00:00Z")));
        assert_eq!(start(&south, "20270715T120000"), (None, at("2027-07-15T01:30:00Z")));
    }

    #[test]
    fn one_offset_holds_where_nothing_changes_any_more() {
        let fixed =
            "BEGIN:STANDARD\r\nDTSTART:19700101T000000\r\nTZOFFSETFROM:-0330\r\nTZOFFSETTO:-0330\r\nEND:STANDARD\r\n";
        let at = "2027-07-01T12:30:00Z".parse::<Timestamp>().expect("a time");
        assert_eq!(start(fixed, "20270701T090000"), (None, at));
        // Some programs write a rule by which nothing changes.
        let yearly = fixed.replace("TZOFFSETTO", "RRULE:FREQ=YEARLY;BYMONTH=1\r\nTZOFFSETTO");
        assert_eq!(start(&yearly, "20270701T090000"), (None, at));
        // Summer time was given up.
        let ended = CHANGES
            .replace("BYMONTH=3", "BYMONTH=3;UNTIL=20150329T010000Z")
            .replace("RRULE:FREQ=YEARLY;INTERVAL=1;BYDAY=-1SU;BYMONTH=10\r\n", "");
        assert_eq!(start(&ended, "20270701T090000"), (None, "2027-07-01T08:00:00Z".parse().expect("a time")));
    }

    #[test]
    fn a_zone_that_nobody_knows_is_named() {
        let tokyo = "2027-07-01T00:00:00Z".parse::<Timestamp>().expect("a time");
        let odd = CHANGES.replace("BYDAY=-1SU", "BYMONTHDAY=8");
        let listed = CHANGES.replace("RRULE:FREQ=YEARLY;INTERVAL=1;BYDAY=-1SU;BYMONTH=3", "RDATE:20270328T020000");
        for zone in ["", odd.as_str(), listed.as_str()] {
            assert_eq!(start(zone, "20270701T090000"), (Some("Our own time".to_owned()), tokyo), "{zone}");
        }
    }
}
