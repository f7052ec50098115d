//! Between a vCard and a person with identities. An edit changes the lines that it is about, and no byte of any other: what
//! nobody here knows goes back as it came.

use base::text::plain_identity;

use crate::lines::{Line, charset_of, folded, is_encoding};

/// Schemes of messengers' addresses, by the channel that the house has for them.
pub const MESSENGERS: [(&str, &str); 4] =
    [("telegram", "tg:"), ("whatsapp", "whatsapp:"), ("signal", "sgnl:"), ("matrix", "matrix:")];

/// How somebody is reached, in the one form that equal identities have.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Identity {
    /// `email`, `phone`, or a messenger's name.
    pub channel: String,
    /// In lower case; of a number its digits, with a plus sign where it has one.
    pub identity: String,
}

/// What the house wants to know of a card.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Person {
    pub uid: Option<String>,
    /// As it is shown; of its parts where the card shows none.
    pub name: String,
    pub given: Option<String>,
    pub family: Option<String>,
    pub organization: Option<String>,
    /// `1815-12-10`, `--12-10` or whatever stands there.
    pub birthday: Option<String>,
    /// In the card's order, each once.
    pub identities: Vec<Identity>,
    /// A list of people rather than one of them.
    pub is_group: bool,
}

/// One change to a card.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Edit {
    /// Shown name, given and family name; other parts of the name stay.
    Name {
        shown: String,
        given: Option<String>,
        family: Option<String>,
    },
    Add(Identity),
    /// With its label, where it has one.
    Remove(Identity),
    /// In its place, with its labels and kinds.
    Replace {
        old: Identity,
        new: Identity,
    },
}

/// The first person in a text; `None` if it is no card, or has no name of any kind.
pub fn person(bytes: &[u8]) -> Option<Person> {
    let lines = Line::all(bytes);
    let card = card(&lines)?;
    let mut person = Person::default();
    let filled = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    for line in card {
        let whole = || filled(&unescaped(line.value()));
        match line.name.as_str() {
            "UID" => person.uid = filled(line.value()),
            "FN" if person.name.is_empty() => person.name = whole().unwrap_or_default(),
            "N" => {
                let parts: Vec<String> = split(line.value()).iter().map(|part| unescaped(part)).collect();
                person.family = parts.first().and_then(|part| filled(part));
                person.given = parts.get(1).and_then(|part| filled(part));
            }
            "ORG" => person.organization = split(line.value()).first().and_then(|part| filled(&unescaped(part))),
            "BDAY" => person.birthday = whole(),
            "KIND" | "X-ADDRESSBOOKSERVER-KIND" => person.is_group = line.value().trim().eq_ignore_ascii_case("group"),
            _ => {
                let found = identity(line).filter(|found| !person.identities.contains(found));
                person.identities.extend(found);
            }
        }
    }
    if person.name.is_empty() {
        let parts = [&person.given, &person.family];
        person.name = parts.iter().filter_map(|part| part.as_deref()).collect::<Vec<_>>().join(" ");
    }
    if person.name.is_empty() {
        person.name = person.organization.clone()?;
    }
    Some(person)
}

/// The card with these changes; `None` if it is no card. A change that is there already changes nothing.
pub fn edited(bytes: &[u8], edits: &[Edit]) -> Option<Vec<u8>> {
    edits.iter().try_fold(bytes.to_vec(), |bytes, edit| match edit {
        Edit::Name { shown, given, family } => {
            let bytes = with(&bytes, "FN", |_| escaped(shown))?;
            let parts = |old: &str| name(old, given.as_deref(), family.as_deref());
            with(&bytes, "N", parts)
        }
        Edit::Add(new) => added(&bytes, new),
        Edit::Remove(old) => changed(&bytes, old, None),
        Edit::Replace { old, new } => changed(&bytes, old, Some(new)),
    })
}

/// The lines of the first card, without BEGIN and END.
fn card<'l, 'a>(lines: &'l [Line<'a>]) -> Option<&'l [Line<'a>]> {
    let begin = lines.iter().position(|line| line.begins().as_deref() == Some("VCARD"))?;
    let length = lines[begin + 1..].iter().position(|line| line.ends().as_deref() == Some("VCARD"))?;
    Some(&lines[begin + 1..=begin + length])
}

/// Whom a line reaches.
fn identity(line: &Line) -> Option<Identity> {
    let value = unescaped(line.value());
    let lower = value.trim().to_lowercase();
    let (channel, identity) = match line.name.as_str() {
        "EMAIL" => ("email", plain_identity(lower.strip_prefix("mailto:").unwrap_or(&lower))),
        "TEL" => ("phone", number(lower.strip_prefix("tel:").unwrap_or(&lower))),
        "IMPP" => {
            let of = MESSENGERS.iter().find_map(|(name, scheme)| Some((*name, lower.strip_prefix(scheme)?)));
            let (name, rest) = of?;
            (name, rest.to_owned())
        }
        _ => return None,
    };
    (!identity.is_empty()).then(|| Identity { channel: channel.to_owned(), identity })
}

/// Digits, and the plus sign before them; what stands behind a semicolon (an extension) is no part of it.
fn number(text: &str) -> String {
    let text = text.split(';').next().unwrap_or_default().trim();
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    if text.starts_with('+') && !digits.is_empty() { format!("+{digits}") } else { digits }
}

/// Property and value that an identity has in a card; `None` for a channel that cards don't know.
fn property(identity: &Identity) -> Option<(&'static str, String)> {
    match identity.channel.as_str() {
        "email" => Some(("EMAIL", escaped(&identity.identity))),
        "phone" => Some(("TEL", escaped(&identity.identity))),
        other => {
            let (_, scheme) = MESSENGERS.iter().find(|(name, _)| *name == other)?;
            Some(("IMPP", format!("{scheme}{}", escaped(&identity.identity))))
        }
    }
}

/// The bytes with other ones in the places of some lines: `None` leaves a line as it is. `at_end` stands before END.
fn rewritten(bytes: &[u8], new: impl Fn(&Line) -> Option<Vec<u8>>, at_end: &[u8]) -> Option<Vec<u8>> {
    let lines = Line::all(bytes);
    let own = card(&lines)?;
    let (first, last) = (own.as_ptr(), own.len());
    let begin = lines.iter().position(|line| std::ptr::eq(line, first)).unwrap_or(lines.len() - 1);
    let mut out = Vec::with_capacity(bytes.len() + at_end.len() + 80);
    for (n, line) in lines.iter().enumerate() {
        if n == begin + last {
            out.extend_from_slice(at_end);
        }
        let inside = n >= begin && n < begin + last;
        match new(line).filter(|_| inside) {
            Some(bytes) => out.extend(bytes),
            None => out.extend_from_slice(line.raw),
        }
    }
    Some(out)
}

/// A line with another value, its group, name and parameters as they are.
fn revalued(line: &Line, value: &str) -> Vec<u8> {
    let head = line.text.strip_suffix(line.value()).and_then(|head| head.strip_suffix(':')).unwrap_or(&line.text);
    // What is written is plain text, whatever the old value was encoded in.
    folded(&format!("{}:{value}", plainly(head)))
}

/// A line's parameters for a value that is plain text: without an encoding, and in UTF-8 where it named a character set.
fn plainly(head: &str) -> String {
    let plain = |part: &&str| !is_encoding(part) && !part.to_ascii_uppercase().starts_with("ENCODING=");
    let utf_8 = |part| if charset_of(part).is_some() { "CHARSET=UTF-8" } else { part };
    split(head).into_iter().filter(plain).map(utf_8).collect::<Vec<_>>().join(";")
}

/// Sets the value of the first property of a name, or adds one.
fn with(bytes: &[u8], name: &str, value: impl Fn(&str) -> String) -> Option<Vec<u8>> {
    let lines = Line::all(bytes);
    let Some(old) = card(&lines)?.iter().find(|line| line.name == name) else {
        return rewritten(bytes, |_| None, &folded(&format!("{name}:{}", value(""))));
    };
    let new = value(old.value());
    if new == old.value() {
        return Some(bytes.to_vec());
    }
    rewritten(bytes, |line| std::ptr::eq(line.raw, old.raw).then(|| revalued(line, &new)), b"")
}

/// Family, given, additional, prefixes, suffixes.
fn name(old: &str, given: Option<&str>, family: Option<&str>) -> String {
    let mut parts: Vec<String> = split(old).into_iter().map(str::to_owned).collect();
    parts.resize(parts.len().max(5), String::new());
    let unchanged = |part: &str, new: Option<&str>| unescaped(part) == new.unwrap_or_default();
    for (n, new) in [(0, family), (1, given)] {
        if !unchanged(&parts[n], new) {
            parts[n] = escaped(new.unwrap_or_default());
        }
    }
    parts.join(";")
}

fn added(bytes: &[u8], new: &Identity) -> Option<Vec<u8>> {
    let lines = Line::all(bytes);
    let there = card(&lines)?.iter().filter_map(identity).any(|there| there == *new);
    match property(new).filter(|_| !there) {
        Some((name, value)) => rewritten(bytes, |_| None, &folded(&format!("{name}:{value}"))),
        None => Some(bytes.to_vec()),
    }
}

/// Replaces an identity where it stands, or removes it.
fn changed(bytes: &[u8], old: &Identity, new: Option<&Identity>) -> Option<Vec<u8>> {
    let lines = Line::all(bytes);
    let own = card(&lines)?;
    let is = |line: &Line| identity(line).as_ref() == Some(old);
    if let Some(new) = new.filter(|new| new.channel == old.channel) {
        let Some((_, value)) = property(new) else { return Some(bytes.to_vec()) };
        let with_scheme = |line: &Line| {
            let scheme =
                ["tel:", "mailto:"].iter().find(|scheme| line.value().to_ascii_lowercase().starts_with(**scheme));
            revalued(line, &format!("{}{value}", scheme.unwrap_or(&"")))
        };
        return rewritten(bytes, |line| is(line).then(|| with_scheme(line)), b"");
    }
    // A group of which only labels would be left goes as a whole.
    let left = |group: &str| own.iter().any(|line| line.group.as_deref() == Some(group) && !is(line) && !label(line));
    let goes = |line: &Line| {
        let of = || own.iter().any(|other| is(other) && other.group == line.group);
        is(line) || label(line) && line.group.as_deref().is_some_and(|group| of() && !left(group))
    };
    let removed = rewritten(bytes, |line| goes(line).then(Vec::new), b"")?;
    match new {
        Some(new) => added(&removed, new),
        None => Some(removed),
    }
}

/// A line that says something of its group only.
fn label(line: &Line) -> bool {
    line.name.starts_with("X-AB")
}

/// At semicolons that nothing escapes or quotes.
pub fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut escape, mut quoted) = (Vec::new(), 0, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escape => escape = false,
            '\\' => escape = true,
            '"' => quoted = !quoted,
            ';' if !quoted => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// A value as people read it.
pub fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, true) => match chars.next() {
                Some('n' | 'N') => out.push('\n'),
                Some(other) => out.push(other),
                None => {}
            },
            (c, false) => out.push(c),
        }
    }
    out
}

/// A text as a value: on one line, and one value.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            // Nothing else that could end a line, or is no text.
            c if c.is_control() => {}
            ',' | ';' | '\\' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const CARD: &str = "BEGIN:VCARD\r\nVERSION:3.0\r\nUID:u1\r\nFN:Ada\\, Countess\r\nN:Lovelace;Ada;King;Lady;\r\n\
        item1.EMAIL;TYPE=\"a;b\",HOME:Ada@Example.org\r\nitem1.X-ABLabel:old\r\nTEL;VALUE=uri:tel:+44-20-1\r\n\
        X-ODD;P=1:kept\r\n  as it is\r\nNOTE:EMAIL:no@example.org\r\nIMPP:tg:ada\r\nORG:Engines\\; Co;Sales\r\n\
        BDAY:--12-10\r\nEND:VCARD\r\n";

    fn of(channel: &str, identity: &str) -> Identity {
        Identity { channel: channel.into(), identity: identity.into() }
    }

    fn edit(edits: &[Edit]) -> String {
        String::from_utf8(edited(CARD.as_bytes(), edits).unwrap()).unwrap()
    }

    #[test]
    fn a_card_is_a_person() {
        let read = person(CARD.as_bytes()).unwrap();
        assert_eq!((read.name.as_str(), read.uid.as_deref()), ("Ada, Countess", Some("u1")));
        assert_eq!((read.given.as_deref(), read.family.as_deref()), (Some("Ada"), Some("Lovelace")));
        assert_eq!((read.organization.as_deref(), read.birthday.as_deref()), (Some("Engines; Co"), Some("--12-10")));
        assert_eq!(read.identities, [of("email", "ada@example.org"), of("phone", "+44201"), of("telegram", "ada")]);
        let group = person(b"BEGIN:VCARD\nKIND:group\nN:;;;;\nORG:All\nEND:VCARD\n").unwrap();
        assert!(group.is_group && group.name == "All" && group.identities.is_empty());
        for nobody in ["", "BEGIN:VCARD\nEND:VCARD", "BEGIN:VCARD\nFN:x\n", "FN:x"] {
            assert_eq!(person(nobody.as_bytes()), None, "{nobody}");
        }
    }

    #[test]
    fn an_edit_touches_its_own_line() {
        let new = Edit::Replace { old: of("email", "ada@example.org"), new: of("email", "a@new.example") };
        assert_eq!(edit(&[new]), CARD.replace(":Ada@Example.org", ":a@new.example"));
        let new = Edit::Replace { old: of("phone", "+44201"), new: of("phone", "+442077") };
        assert_eq!(edit(&[new]), CARD.replace("+44-20-1", "+442077"));
        let name = |given: &str| Edit::Name {
            shown: "Ada, Countess".into(),
            given: Some(given.into()),
            family: Some("Lovelace".into()),
        };
        assert_eq!(edit(&[name("Augusta; Ada")]), CARD.replace(";Ada;King", ";Augusta\\; Ada;King"));
        assert_eq!(edit(&[name("Ada")]), CARD);
        let nobody = of("email", "nobody@example.org");
        let new = Edit::Replace { old: nobody.clone(), new: of("email", "x@example.org") };
        assert_eq!(edit(&[new, Edit::Remove(nobody), Edit::Add(of("phone", "+44201"))]), CARD);
    }

    #[test]
    fn what_was_encoded_is_written_plainly() {
        let old = CARD.replace("FN:Ada\\, Countess", "FN;CHARSET=ISO-8859-1;ENCODING=QUOTED-PRINTABLE:Ad=E9=\r\nle");
        assert_eq!(person(old.as_bytes()).unwrap().name, "Ad\u{e9}le");
        let name = Edit::Name { shown: "Zo\u{eb}".into(), given: Some("Ada".into()), family: Some("Lovelace".into()) };
        let new = edited(old.as_bytes(), &[name]).unwrap();
        assert_eq!(String::from_utf8(new).unwrap(), CARD.replace("FN:Ada\\, Countess", "FN;CHARSET=UTF-8:Zo\u{eb}"));
    }

    #[test]
    fn what_is_added_stands_at_the_end_and_what_goes_takes_its_label() {
        let added = edit(&[Edit::Add(of("signal", "+49;1")), Edit::Add(of("pigeon", "x"))]);
        assert_eq!(added, CARD.replace("END:VCARD", "IMPP:sgnl:+49\\;1\r\nEND:VCARD"));
        let removed = edit(&[Edit::Remove(of("email", "ada@example.org"))]);
        let (head, rest) = CARD.split_once("item1.EMAIL").unwrap();
        assert_eq!(removed, format!("{head}TEL{}", rest.split_once("\r\nTEL").unwrap().1));
        // A value can't become lines of its own.
        let evil = Edit::Name { shown: "x\r\nEMAIL:evil@example.org".into(), given: None, family: None };
        let read = person(edit(&[evil]).as_bytes()).unwrap();
        assert_eq!(read.name, "x\nEMAIL:evil@example.org");
        assert_eq!(read.identities.len(), 3);
    }

    #[test]
    fn edits_undo_each_other_byte_for_byte() {
        let (old, new) = (of("phone", "+49301"), of("phone", "+49302"));
        let there = edit(&[Edit::Add(old.clone())]);
        let to = edited(there.as_bytes(), &[Edit::Replace { old: old.clone(), new: new.clone() }]).unwrap();
        let back = edited(&to, &[Edit::Replace { old: new, new: old.clone() }]).unwrap();
        assert_eq!(back, there.as_bytes());
        assert_eq!(edited(&back, &[Edit::Remove(old)]).unwrap(), CARD.as_bytes());
    }
}
