//! One item out of two that grew from the same: the three-way merge of properties that [`super`] describes.

use std::collections::{BTreeMap, BTreeSet};

use crate::lines::Line;

/// Deeper components are nobody's.
const DEEPEST: usize = 6;
/// Properties that say when something is: one change to one of them is a change to all.
const WHEN: [&str; 7] = ["DTSTART", "DTEND", "DUE", "DURATION", "RRULE", "RDATE", "EXDATE"];
/// Properties that programs count and stamp; the server's stand, and none is a conflict.
pub(super) const STAMPS: [&str; 5] = ["DTSTAMP", "LAST-MODIFIED", "REV", "PRODID", "CREATED"];
/// What no edit is known by: stamps, and what names of zones say already.
pub(super) const UNSAID: [&str; 6] = ["DTSTAMP", "LAST-MODIFIED", "REV", "PRODID", "CREATED", "VTIMEZONE"];
/// Properties of which an item has several, each for itself: what both sides only added is all there.
const LISTS: [&str; 9] = ["EMAIL", "TEL", "ADR", "URL", "IMPP", "CATEGORIES", "ATTENDEE", "ATTACH", "COMMENT"];

/// A component with its bytes: a vCard, an event within a calendar.
struct Component<'a> {
    name: String,
    entries: Vec<Entry<'a>>,
    /// Of each line its bytes, from BEGIN to END.
    raw: Vec<&'a [u8]>,
}

enum Entry<'a> {
    Line(String, Line<'a>),
    Inner(String, Component<'a>),
}

impl Entry<'_> {
    fn unit(&self) -> &str {
        match self {
            Self::Line(unit, _) | Self::Inner(unit, _) => unit,
        }
    }
}

/// Ours and theirs in one, where they changed different properties of `base`; `None` where they don't, or where one of the
/// three can't be read.
pub(super) fn merged(base: &[u8], ours: &[u8], theirs: &[u8]) -> Option<Vec<u8>> {
    let (base, ours, theirs) = (read(base)?, read(ours)?, read(theirs)?);
    let mut out = Vec::new();
    component(&base, &ours, &theirs, &mut out)?;
    Some(out)
}

/// Whether all that was changed from `base` to `sent` is so in `theirs`, whatever else is different there. `sent` is as good
/// as `base` then, as what both sides have in common.
pub(super) fn carries(base: &[u8], sent: &[u8], theirs: &[u8]) -> bool {
    let said = |bytes| {
        let mut said = BTreeMap::new();
        said_in(&read(bytes)?, "", &mut said);
        Some(said)
    };
    let (Some(base), Some(sent), Some(theirs)) = (said(base), said(sent), said(theirs)) else { return false };
    base.keys().chain(sent.keys()).all(|what| base.get(what) == sent.get(what) || theirs.get(what) == sent.get(what))
}

/// How often each line is in which component.
fn said_in(component: &Component, place: &str, said: &mut BTreeMap<String, usize>) {
    for entry in &component.entries {
        match entry {
            Entry::Line(_, line) if UNSAID.contains(&line.name.as_str()) || line.name == "SEQUENCE" => {}
            Entry::Line(_, line) => *said.entry(format!("{place}\n{}", line.statement())).or_default() += 1,
            Entry::Inner(_, inner) if UNSAID.contains(&inner.name.as_str()) => {}
            Entry::Inner(unit, inner) => said_in(inner, &format!("{place}\n{unit}"), said),
        }
    }
}

/// A text that is one component and nothing else.
fn read(bytes: &[u8]) -> Option<Component<'_>> {
    let lines = Line::all(bytes);
    let mut lines = lines.into_iter().filter(|line| !line.text.is_empty());
    let begin = lines.next()?;
    let component = inner(begin, &mut lines, 0)?;
    lines.next().is_none().then_some(component)
}

fn inner<'a>(begin: Line<'a>, lines: &mut impl Iterator<Item = Line<'a>>, depth: usize) -> Option<Component<'a>> {
    let name = begin.begins().filter(|_| depth < DEEPEST)?;
    let mut raw = vec![begin.raw];
    let mut found = Vec::new();
    loop {
        let line = lines.next()?;
        if let Some(end) = line.ends() {
            raw.push(line.raw);
            let entries = named(&name, found);
            return (end == name).then_some(Component { name, entries, raw });
        }
        if line.begins().is_some() {
            let component = inner(line, lines, depth + 1)?;
            raw.extend(&component.raw);
            found.push(Err(component));
        } else if line.name.is_empty() {
            return None;
        } else {
            raw.push(line.raw);
            found.push(Ok(line));
        }
    }
}

/// Gives each entry the name of what is merged as one.
fn named<'a>(component: &str, found: Vec<Result<Line<'a>, Component<'a>>>) -> Vec<Entry<'a>> {
    // A label belongs to what it labels: a group goes by its first property that is no extension.
    let mut groups: BTreeMap<String, String> = BTreeMap::new();
    for line in found.iter().flatten().filter(|line| !line.name.starts_with("X-")) {
        if let Some(group) = &line.group {
            groups.entry(group.clone()).or_insert_with(|| line.name.clone());
        }
    }
    let unit = |line: &Line| {
        let name = line.group.as_ref().and_then(|group| groups.get(group)).unwrap_or(&line.name);
        match name.as_str() {
            name if component != "VCARD" && WHEN.contains(&name) => "(when)".to_owned(),
            "N" | "FN" => "(name)".to_owned(),
            name => name.to_owned(),
        }
    };
    let entry = |found: Result<Line<'a>, Component<'a>>| match found {
        Ok(line) => Entry::Line(unit(&line), line),
        Err(component) => Entry::Inner(key(&component), component),
    };
    found.into_iter().map(entry).collect()
}

/// Which of its siblings an inner component is.
fn key(component: &Component) -> String {
    let of = |name: &str| {
        let lines = component.entries.iter().filter_map(|entry| match entry {
            Entry::Line(_, line) if line.name == name => Some(line.text.as_str()),
            _ => None,
        });
        lines.collect::<String>()
    };
    match component.name.as_str() {
        // Alarms and the rest of an event are one unit each kind: they have no name of their own that all programs keep.
        "VEVENT" | "VTODO" | "VJOURNAL" => format!("({}) {} {}", component.name, of("UID"), of("RECURRENCE-ID")),
        "VTIMEZONE" => format!("(VTIMEZONE) {}", of("TZID")),
        name => format!("({name})"),
    }
}

/// The texts of a unit, to compare.
fn texts(component: &Component, unit: &str) -> Vec<String> {
    let of = component.entries.iter().filter(|entry| entry.unit() == unit);
    of.flat_map(|entry| match entry {
        Entry::Line(_, line) => vec![line.text.clone()],
        Entry::Inner(_, inner) => {
            inner.raw.iter().map(|raw| Line::all(raw).iter().map(|l| l.text.as_str()).collect()).collect()
        }
    })
    .collect()
}

/// Which side a unit of the result is of.
enum Choice {
    Ours,
    Theirs,
    /// Theirs, and behind it these lines of ours.
    Both(BTreeSet<String>),
    /// Components that both have and that are merged within.
    Within,
}

fn component(base: &Component, ours: &Component, theirs: &Component, out: &mut Vec<u8>) -> Option<()> {
    if base.name != ours.name || base.name != theirs.name {
        return None;
    }
    let choices = choices(base, ours, theirs)?;
    let find = |component: &Component<'_>, unit: &str| component.entries.iter().position(|entry| entry.unit() == unit);
    let emit = |component: &Component<'_>, unit: &str, out: &mut Vec<u8>, only: Option<&BTreeSet<String>>| {
        for entry in component.entries.iter().filter(|entry| entry.unit() == unit) {
            match entry {
                Entry::Line(_, line) if only.is_none_or(|only| only.contains(&line.text)) => {
                    out.extend_from_slice(line.raw)
                }
                Entry::Line(..) => {}
                Entry::Inner(_, inner) => inner.raw.iter().for_each(|raw| out.extend_from_slice(raw)),
            }
        }
    };
    out.extend_from_slice(theirs.raw.first()?);
    // What only we have stands behind the properties, components behind the components.
    let added: Vec<&str> = {
        let mut seen = BTreeSet::new();
        let units = ours.entries.iter().map(Entry::unit).filter(|unit| find(theirs, unit).is_none());
        units.filter(|unit| matches!(choices.get(*unit), Some(Choice::Ours)) && seen.insert(unit.to_owned())).collect()
    };
    let lines_first = |out: &mut Vec<u8>| {
        let lines = |unit: &&&str| find(ours, unit).is_some_and(|n| matches!(ours.entries[n], Entry::Line(..)));
        added.iter().filter(lines).for_each(|unit| emit(ours, unit, out, None));
    };
    let (mut done, mut properties) = (BTreeSet::new(), true);
    for entry in &theirs.entries {
        if properties && matches!(entry, Entry::Inner(..)) {
            properties = false;
            lines_first(out);
        }
        let unit = entry.unit();
        let first = done.insert(unit.to_owned());
        match (choices.get(unit)?, entry) {
            (Choice::Ours, _) if first => emit(ours, unit, out, None),
            (Choice::Both(only), Entry::Line(_, line)) => {
                out.extend_from_slice(line.raw);
                let last = theirs.entries.iter().rposition(|other| other.unit() == unit);
                if last.is_some_and(|last| std::ptr::eq(&theirs.entries[last], entry)) {
                    emit(ours, unit, out, Some(only));
                }
            }
            (Choice::Within, Entry::Inner(_, inner)) => {
                let within = |component: &'_ Component<'_>| find(component, unit);
                let (b, o) = (within(base)?, within(ours)?);
                let (Entry::Inner(_, b), Entry::Inner(_, o)) = (&base.entries[b], &ours.entries[o]) else {
                    return None;
                };
                self::component(b, o, inner, out)?;
            }
            (Choice::Theirs, Entry::Line(_, line)) => out.extend_from_slice(line.raw),
            (Choice::Theirs, Entry::Inner(_, inner)) => inner.raw.iter().for_each(|raw| out.extend_from_slice(raw)),
            _ => {}
        }
    }
    if properties {
        lines_first(out);
    }
    let inner = |unit: &&&str| find(ours, unit).is_some_and(|n| matches!(ours.entries[n], Entry::Inner(..)));
    added.iter().filter(inner).for_each(|unit| emit(ours, unit, out, None));
    out.extend_from_slice(theirs.raw.last()?);
    Some(())
}

fn choices(base: &Component, ours: &Component, theirs: &Component) -> Option<BTreeMap<String, Choice>> {
    let all = [base, ours, theirs];
    let units: BTreeSet<&str> = all.iter().flat_map(|c| c.entries.iter().map(Entry::unit)).collect();
    let mut choices = BTreeMap::new();
    // What each side did to a series, and to single times of it.
    let (mut series, mut single) = ([false; 2], [false; 2]);
    for unit in units {
        let [b, o, t] = all.map(|component| texts(component, unit));
        let event = ["(VEVENT)", "(VTODO)", "(VJOURNAL)"].iter().any(|name| unit.starts_with(name));
        if event {
            for (n, side) in [&o, &t].into_iter().enumerate() {
                let exception = unit.contains("RECURRENCE-ID");
                single[n] |= exception && *side != b;
                series[n] |= !exception && when(side) != when(&b);
            }
        }
        let choice = if o == t || o == b {
            Choice::Theirs
        } else if t == b {
            Choice::Ours
        } else if STAMPS.contains(&unit) {
            if t.is_empty() { Choice::Ours } else { Choice::Theirs }
        } else if unit == "SEQUENCE" {
            if number(&o) > number(&t) { Choice::Ours } else { Choice::Theirs }
        } else if event && all.iter().all(|c| c.entries.iter().filter(|entry| entry.unit() == unit).count() == 1) {
            Choice::Within
        } else if LISTS.contains(&unit) && b.iter().all(|line| o.contains(line) && t.contains(line)) {
            let added: BTreeSet<String> = o.iter().filter(|line| !t.contains(line)).cloned().collect();
            if t.is_empty() || grouped(&added) && grouped(&t) {
                return None;
            }
            Choice::Both(added)
        } else {
            return None;
        };
        choices.insert(unit.to_owned(), choice);
    }
    // An exception of a series that moved away is an exception of nothing.
    let torn = series[0] && single[1] || series[1] && single[0];
    (!torn).then_some(choices)
}

/// The lines that say when an event of these lines is.
fn when(texts: &[String]) -> Vec<&String> {
    texts.iter().filter(|text| WHEN.iter().any(|name| text.to_ascii_uppercase().starts_with(name))).collect()
}

fn number(texts: &[String]) -> u64 {
    texts.iter().filter_map(|text| text.rsplit(':').next()?.trim().parse().ok()).max().unwrap_or(0)
}

/// Whether lines are of groups, whose names two sides may both have chosen.
fn grouped<'t>(texts: impl IntoIterator<Item = &'t String>) -> bool {
    let dotted = |text: &String| text.find(['.', ':', ';']).is_some_and(|at| text.as_bytes()[at] == b'.');
    texts.into_iter().any(dotted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(base: &str, ours: &str, theirs: &str) -> Option<String> {
        let [b, o, t] = [base, ours, theirs].map(|text| text.replace('|', "\r\n"));
        merged(b.as_bytes(), o.as_bytes(), t.as_bytes()).map(|m| String::from_utf8(m).unwrap().replace("\r\n", "|"))
    }

    fn card(lines: &str) -> String {
        format!("BEGIN:VCARD|VERSION:3.0|UID:1|{lines}END:VCARD|")
    }

    fn event(lines: &str, more: &str) -> String {
        format!("BEGIN:VCALENDAR|PRODID:x|BEGIN:VEVENT|UID:1|{lines}END:VEVENT|{more}END:VCALENDAR|")
    }

    #[test]
    fn changes_to_different_properties_are_both_there() {
        let cards = |base: &str, ours: &str, theirs: &str| of(&card(base), &card(ours), &card(theirs));
        let merged = cards("FN:A|TEL:1|X-W: a|", "FN:A|TEL:2|X-W: a|", "FN:A|TEL:1|X-W: a|NOTE:n|");
        assert_eq!(merged, Some(card("FN:A|TEL:2|X-W: a|NOTE:n|")));
        // Folds of what nobody touched stay, and an added property stands with the others.
        let merged = cards("FN:A|NOTE:a| b|", "FN:A|NOTE:a| b|TITLE:t|", "FN:B|NOTE:a| b|");
        assert_eq!(merged, Some(card("FN:B|NOTE:a| b|TITLE:t|")));
        // Removed here, changed elsewhere.
        assert_eq!(cards("FN:A|TEL:1|NOTE:n|", "FN:A|TEL:1|", "FN:A|TEL:2|NOTE:n|"), Some(card("FN:A|TEL:2|")));
        // A label goes with its number.
        let merged =
            cards("FN:A|i1.TEL:1|i1.X-ABLABEL:a|", "FN:A|i1.TEL:1|i1.X-ABLABEL:b|", "FN:B|i1.TEL:1|i1.X-ABLABEL:a|");
        assert_eq!(merged, Some(card("FN:B|i1.TEL:1|i1.X-ABLABEL:b|")));
        assert_eq!(cards("i1.TEL:1|i1.X-ABLABEL:a|", "i1.TEL:1|i1.X-ABLABEL:b|", "i1.TEL:2|i1.X-ABLABEL:a|"), None);
    }

    #[test]
    fn changes_to_one_property_are_a_conflict_unless_both_only_added() {
        let cards = |base: &str, ours: &str, theirs: &str| of(&card(base), &card(ours), &card(theirs));
        assert_eq!(cards("TEL:1|", "TEL:2|", "TEL:3|"), None);
        assert_eq!(cards("N:a;b|FN:b a|", "N:a;c|FN:b a|", "N:a;b|FN:c a|"), None);
        assert_eq!(cards("NOTE:a|", "NOTE:b|", ""), None);
        assert_eq!(cards("TEL:1|", "TEL:1|TEL:2|", "TEL:1|TEL:3|FN:x|"), Some(card("TEL:1|TEL:3|TEL:2|FN:x|")));
        assert_eq!(cards("TEL:1|", "TEL:1|i1.TEL:2|", "TEL:1|i1.TEL:3|"), None);
        assert_eq!(cards("REV:1|TEL:1|", "REV:3|TEL:2|", "REV:2|TEL:1|FN:x|"), Some(card("REV:2|TEL:2|FN:x|")));
    }

    #[test]
    fn when_an_event_is_is_one_property() {
        let events = |b: &str, o: &str, t: &str| of(&event(b, ""), &event(o, ""), &event(t, ""));
        assert_eq!(events("DTSTART:1|DTEND:2|", "DTSTART:0|DTEND:2|", "DTSTART:1|DTEND:3|"), None);
        let merged = events(
            "SEQUENCE:1|DTSTART:1|SUMMARY:a|",
            "SEQUENCE:3|DTSTART:2|SUMMARY:a|",
            "SEQUENCE:2|DTSTART:1|SUMMARY:b|",
        );
        assert_eq!(merged, Some(event("SEQUENCE:3|DTSTART:2|SUMMARY:b|", "")));
        // An alarm here, a place there.
        let alarm = "BEGIN:VALARM|TRIGGER:-PT5M|END:VALARM|";
        let merged = events("DTSTART:1|", &format!("DTSTART:1|{alarm}"), "DTSTART:1|LOCATION:l|");
        assert_eq!(merged, Some(event(&format!("DTSTART:1|LOCATION:l|{alarm}"), "")));
    }

    #[test]
    fn a_series_and_its_exceptions_move_together() {
        let exception = |what: &str| format!("BEGIN:VEVENT|UID:1|RECURRENCE-ID:5|SUMMARY:{what}|END:VEVENT|");
        let base = event("DTSTART:1|RRULE:r|SUMMARY:a|", "");
        let with = |lines: &str, more: &str| event(lines, more);
        // Another summary here, an exception there.
        let ours = with("DTSTART:1|RRULE:r|SUMMARY:b|", "");
        let theirs = with("DTSTART:1|RRULE:r|SUMMARY:a|", &exception("x"));
        assert_eq!(of(&base, &ours, &theirs), Some(with("DTSTART:1|RRULE:r|SUMMARY:b|", &exception("x"))));
        assert_eq!(of(&base, &theirs, &ours), Some(with("DTSTART:1|RRULE:r|SUMMARY:b|", &exception("x"))));
        // Another start here, an exception there.
        let ours = with("DTSTART:2|RRULE:r|SUMMARY:a|", "");
        assert_eq!((of(&base, &ours, &theirs), of(&base, &theirs, &ours)), (None, None));
        // Different exceptions of one time.
        let other = with("DTSTART:1|RRULE:r|SUMMARY:a|", &exception("y"));
        assert_eq!(of(&base, &other, &theirs), None);
    }

    #[test]
    fn what_is_not_one_component_is_not_merged() {
        let good = card("TEL:1|");
        for bad in ["", "no", "BEGIN:VCARD|TEL:1|", "BEGIN:VCARD|TEL:1|END:VEVENT|", &format!("{good}{good}")] {
            assert_eq!(of(&good, &good, bad), None, "{bad}");
            assert_eq!(of(bad, &good, &good), None, "{bad}");
        }
        let deep = format!("{}{}", "BEGIN:X|".repeat(50_000), "END:X|".repeat(50_000));
        assert_eq!(of(&deep, &deep, &deep), None);
    }
}
