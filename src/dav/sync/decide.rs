//! What becomes of an item when it is known what the server has: the table in [`super`], as a pure function.

use std::collections::BTreeSet;

use super::merge::{STAMPS, UNSAID, carries, merged};
use super::store::{Conflict, ConflictKind, Item, Write};
use crate::lines::{alike, same, statements, uid};

/// What the server has at an item's href.
pub(super) struct Theirs<'a> {
    pub href: &'a str,
    pub etag: Option<&'a str>,
    pub bytes: &'a [u8],
}

/// An item that only the server has yet.
pub(super) fn pulled(theirs: &Theirs) -> Write {
    let bytes = theirs.bytes.to_vec();
    let mut item = Item::new(uid(&bytes), bytes.clone());
    item.href = Some(theirs.href.to_owned());
    item.etag = theirs.etag.map(str::to_owned);
    item.base = Some(bytes);
    Write::Save { item, conflict: None }
}

/// The server has it, as `theirs` says.
pub(super) fn changed(mut item: Item, theirs: &Theirs, told: &dyn Fn(&[u8]) -> BTreeSet<String>) -> Write {
    arrived(&mut item, theirs);
    let bytes = theirs.bytes;
    let like = |one: &[u8]| same(one, bytes) || alike(one, bytes, &UNSAID);
    let known = |base: &Vec<u8>| like(base) || item.reread && item.etag.as_deref() == theirs.etag;
    let unchanged = item.base.as_ref().is_some_and(known);
    let own = item.reread && item.etag.is_some() && item.etag.as_deref() == theirs.etag;
    let spoiled = own && !item.base.as_ref().is_none_or(|sent| keeps(sent, bytes));
    let (base, ours) = (item.base.take(), item.ours.take());
    let record = |kind| {
        Some(Conflict {
            kind,
            uid: item.uid.clone(),
            base: base.clone(),
            ours: ours.clone(),
            theirs: Some(bytes.to_vec()),
        })
    };
    let (ours, conflict) = match (&base, &ours) {
        // Both made the same of it.
        (_, Some(ours)) if like(ours) => (Some(bytes.to_vec()), None),
        (Some(base), Some(ours)) if base == ours => (Some(bytes.to_vec()), None),
        (Some(_), ours) if unchanged => (ours.clone(), None),
        (Some(base), Some(ours)) => match merged(base, ours, bytes) {
            // All that was edited here is there as well.
            Some(merged) if same(&merged, bytes) => (Some(merged), None),
            // All whom it tells were told by each side: nobody learns what was written before they came to it.
            Some(merged) if told(&merged).is_subset(&(&told(ours) & &told(bytes))) => {
                (Some(merged), record(ConflictKind::Merged))
            }
            _ => (Some(bytes.to_vec()), record(ConflictKind::BothEdited)),
        },
        (None, Some(_)) => (Some(bytes.to_vec()), record(ConflictKind::BothCreated)),
        (Some(_), None) => (Some(bytes.to_vec()), record(ConflictKind::DeletedHere)),
        // Somebody else's: what was made here and deleted again never came so far.
        (None, None) => (Some(bytes.to_vec()), None),
    };
    let rewritten = Conflict {
        kind: ConflictKind::Rewritten,
        uid: item.uid.clone(),
        base: None,
        ours: base,
        theirs: Some(bytes.to_vec()),
    };
    let conflict = conflict.or(spoiled.then_some(rewritten));
    item.uid = uid(bytes).or(item.uid);
    item.href = Some(theirs.href.to_owned());
    item.etag = theirs.etag.map(str::to_owned);
    item.base = Some(bytes.to_vec());
    item.ours = ours;
    item.reread = false;
    Write::Save { item, conflict }
}

/// Whether a server that wrote an item otherwise than it was sent still says all that was said.
fn keeps(sent: &[u8], stored: &[u8]) -> bool {
    let stored = statements(stored);
    let stamp = |line: &String| STAMPS.iter().any(|name| line.starts_with(name));
    statements(sent).iter().all(|line| stamp(line) || stored.binary_search(line).is_ok())
}

/// Settles what was sent and never answered. What the server has says that it arrived if it says the same, though in the
/// server's own order; what was sent before that is no edit of anybody else's then. Where the server has all that was changed,
/// others edited what arrived, or made the same change. An href that was made for this item alone, and that the server is at,
/// proves it as well, whatever became of it since.
fn arrived(item: &mut Item, theirs: &Theirs) {
    let Some(sent) = item.sent.take() else { return };
    let made_for_it = item.base.is_none() && item.href.as_deref() == Some(theirs.href);
    if same(&sent, theirs.bytes) || alike(&sent, theirs.bytes, &UNSAID) {
        if item.ours.as_ref() == Some(&sent) {
            item.ours = Some(theirs.bytes.to_vec());
        }
        item.base = Some(theirs.bytes.to_vec());
    } else if made_for_it || item.base.as_ref().is_some_and(|base| carries(base, &sent, theirs.bytes)) {
        item.base = Some(sent);
    }
}

/// The server has had it and has it no more.
pub(super) fn gone(mut item: Item, told: &dyn Fn(&[u8]) -> BTreeSet<String>) -> Write {
    // A new item of which the server says that it is gone had arrived.
    let base = item.base.take().or(item.sent.take());
    let (id, revision) = (item.id, item.revision);
    match &item.ours {
        Some(ours) if base.as_ref() != Some(ours) => {
            let tells = !told(ours).is_empty() || base.as_ref().is_some_and(|base| !told(base).is_empty());
            let ours = item.ours.clone();
            let conflict =
                Conflict { kind: ConflictKind::DeletedThere, uid: item.uid.clone(), base, ours, theirs: None };
            if tells {
                return Write::Remove { id, revision, conflict: Some(conflict) };
            }
            unlink(&mut item);
            Write::Save { item, conflict: Some(conflict) }
        }
        _ => Write::Remove { id, revision, conflict: None },
    }
}

/// Makes an item new again.
fn unlink(item: &mut Item) {
    (item.href, item.etag, item.base, item.sent, item.reread) = (None, None, None, None, false);
}

/// The server took what was sent.
pub(super) fn taken(mut item: Item, sent: Vec<u8>, href: String, etag: Option<String>) -> Write {
    item.href = Some(href);
    item.etag = etag;
    item.base = Some(sent);
    item.sent = None;
    item.reread = true;
    Write::Save { item, conflict: None }
}

/// The server deleted it because we wanted so. If it was made anew here meanwhile, it is new for the server as well.
pub(super) fn deleted(mut item: Item) -> Write {
    if item.ours.is_none() {
        return Write::Remove { id: item.id, revision: item.revision, conflict: None };
    }
    unlink(&mut item);
    Write::Save { item, conflict: None }
}

/// Nothing of it is in doubt any more: it was not taken.
pub(super) fn unsent(mut item: Item) -> Write {
    item.sent = None;
    if item.base.is_none() {
        item.href = None;
    }
    Write::Save { item, conflict: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(tel: &str, note: &str) -> Vec<u8> {
        format!("BEGIN:VCARD\r\nUID:1\r\nTEL:{tel}\r\nNOTE:{note}\r\nEND:VCARD\r\n").into_bytes()
    }

    fn item(base: Option<&[u8]>, ours: Option<&[u8]>) -> Item {
        let linked = |text: &str| base.map(|_| text.to_owned());
        let mut item = Item::new(Some("1".into()), Vec::new());
        (item.href, item.etag) = (linked("/a"), linked("1"));
        (item.base, item.ours) = (base.map(<[u8]>::to_vec), ours.map(<[u8]>::to_vec));
        item
    }

    fn seen(item: Item, theirs: Option<&[u8]>) -> (Option<Item>, Option<ConflictKind>) {
        let write = match theirs {
            Some(bytes) => changed(item, &Theirs { href: "/a", etag: Some("2"), bytes }, &|_| BTreeSet::new()),
            None => gone(item, &|_| BTreeSet::new()),
        };
        match write {
            Write::Save { item, conflict } => (Some(item), conflict.map(|conflict| conflict.kind)),
            Write::Remove { conflict, .. } => (None, conflict.map(|conflict| conflict.kind)),
        }
    }

    #[test]
    fn the_table_is_complete() {
        use ConflictKind::{BothCreated, BothEdited, DeletedHere, DeletedThere, Merged};
        let (b, o, t, n) = (card("1", "x"), card("2", "x"), card("3", "x"), card("1", "y"));
        let both = card("2", "y");
        let (b, o, t, n) = (Some(b.as_slice()), Some(o.as_slice()), Some(t.as_slice()), Some(n.as_slice()));
        // base, ours, theirs; ours after it, conflict.
        for (base, ours, theirs, after, kind) in [
            (b, b, b, b, None),
            (b, b, t, t, None),
            (b, b, None, None, None),
            (b, o, b, o, None),
            (b, o, o, o, None),
            (b, o, t, t, Some(BothEdited)),
            (b, o, n, Some(both.as_slice()), Some(Merged)),
            (b, o, None, o, Some(DeletedThere)),
            (b, None, b, None, None),
            (b, None, t, t, Some(DeletedHere)),
            (b, None, None, None, None),
            (None, o, o, o, None),
            (None, o, t, t, Some(BothCreated)),
            (None, None, t, t, None),
        ] {
            let (item, conflict) = seen(item(base, ours), theirs);
            let got = item.as_ref().and_then(|item| item.ours.as_deref());
            assert_eq!((got, conflict), (after, kind), "{base:?} {ours:?} {theirs:?}");
            if let Some(item) = item {
                assert_eq!(item.base.as_deref(), theirs, "{base:?} {ours:?} {theirs:?}");
                assert_eq!(item.etag.as_deref(), theirs.map(|_| "2"));
                assert_eq!(item.is_pending(), item.ours.as_deref() != theirs);
            }
        }
    }

    #[test]
    fn a_lost_answer_is_recognised_by_bytes_or_by_the_href() {
        let (b, o, t) = (card("1", "x"), card("2", "x"), card("3", "x"));
        // An update that arrived, and one that was edited again meanwhile.
        let mut lost = item(Some(&b), Some(&o));
        lost.sent = Some(o.clone());
        let (after, conflict) = seen(lost.clone(), Some(&o));
        assert!(!after.unwrap().is_pending() && conflict.is_none());
        lost.ours = Some(t.clone());
        let (after, conflict) = seen(lost.clone(), Some(&o));
        let after = after.unwrap();
        assert_eq!((after.base, after.ours, after.sent, conflict), (Some(o.clone()), Some(t.clone()), None, None));
        // It was deleted here meanwhile: it stays deleted, because the server has nothing but our own edit.
        lost.ours = None;
        let (after, conflict) = seen(lost, Some(&o));
        assert_eq!((after.unwrap().ours, conflict), (None, None));
        // A new one, which somebody edited since.
        let mut lost = item(None, Some(&o));
        (lost.href, lost.sent) = (Some("/a".into()), Some(o.clone()));
        let (after, conflict) = seen(lost.clone(), Some(&t));
        assert_eq!((after.unwrap().ours, conflict), (Some(t.clone()), None));
        // At another href with other bytes it proves nothing.
        lost.href = Some("/b".into());
        assert_eq!(seen(lost.clone(), Some(&t)).1, Some(ConflictKind::BothCreated));
        // It arrived, and was deleted there.
        assert_eq!(seen(lost, None), (None, None));
    }

    #[test]
    fn a_lost_answer_is_recognised_whatever_stamps_the_server_has() {
        let (b, o) = (card("1", "x"), card("2", "x"));
        let mut lost = item(Some(&b), Some(&o));
        lost.sent = Some(o.clone());
        let text = String::from_utf8(o).unwrap().replace("TEL:2\r\nNOTE:x", "NOTE:x\r\nREV:5\r\nTEL:2");
        let (after, conflict) = seen(lost.clone(), Some(text.as_bytes()));
        assert_eq!((after.unwrap().ours.as_deref(), conflict), (Some(text.as_bytes()), None));
        // Somebody edited it since it arrived.
        let more = text.replace("REV:5", "TITLE:t").into_bytes();
        let (after, conflict) = seen(lost.clone(), Some(&more));
        assert_eq!((after.unwrap().ours.as_ref(), conflict), (Some(&more), None));
        // And so did the house, in the very property that was sent.
        lost.ours = Some(card("3", "x"));
        let (after, conflict) = seen(lost.clone(), Some(&more));
        let after = after.unwrap();
        let ours = String::from_utf8(after.ours.clone().unwrap()).unwrap();
        assert!(ours.contains("TEL:3") && ours.contains("TITLE:t") && conflict == Some(ConflictKind::Merged), "{ours}");
        // It did not arrive: somebody edited what was there before.
        let other = card("1", "y");
        let (after, conflict) = seen(lost, Some(&other));
        assert_eq!((after.unwrap().ours, conflict), (Some(card("3", "y")), Some(ConflictKind::Merged)));
    }

    #[test]
    fn a_lost_answer_is_recognised_by_what_it_changed() {
        let event = |more: &str| format!("BEGIN:VEVENT\r\nUID:1\r\n{more}END:VEVENT\r\n");
        let whole = |inner: String| format!("BEGIN:VCALENDAR\r\n{inner}END:VCALENDAR\r\n").into_bytes();
        let (monday, tuesday) = ("SUMMARY:a\r\n", "RECURRENCE-ID:5\r\nSUMMARY:b\r\n");
        let base = whole(event(monday) + &event(tuesday));
        // The two texts were exchanged: the same lines, and not the same event.
        let sent = whole(event(&monday.replace('a', "b")) + &event(&tuesday.replace('b', "a")));
        assert!(!carries(&base, &sent, &base) && carries(&base, &sent, &sent));
        // A line less is no proof where the line is there.
        let less = whole(event("") + &event(tuesday));
        let more = whole(event("SUMMARY:a\r\nLOCATION:l\r\n") + &event(tuesday));
        assert!(!carries(&base, &less, &base) && !carries(&base, &less, &more));
        assert!(carries(&base, &less, &whole(event("LOCATION:l\r\n") + &event(tuesday))));
        // A zone that the server writes out says nothing new, so the edit of meanwhile is the house's own.
        let zone = "BEGIN:VTIMEZONE\r\nTZID:z\r\nEND:VTIMEZONE\r\n";
        let mut lost = item(Some(&base), Some(&more));
        (lost.sent, lost.etag) = (Some(sent.clone()), Some("1".into()));
        let theirs = String::from_utf8(sent).unwrap().replacen("BEGIN:VEVENT", &format!("{zone}BEGIN:VEVENT"), 1);
        let (after, conflict) = seen(lost, Some(theirs.as_bytes()));
        assert_eq!((after.unwrap().ours, conflict), (Some(more), None));
        for bad in [&b"no"[..], b""] {
            assert!(!carries(bad, &base, &base) && !carries(&base, &base, bad));
        }
    }

    #[test]
    fn a_lost_answer_is_recognised_in_the_order_of_the_server() {
        let text = |lines: [&str; 4]| format!("BEGIN:VCARD\r\n{}\r\nEND:VCARD\r\n", lines.join("\r\n")).into_bytes();
        let b = text(["UID:1", "TEL:1", "NOTE:x", "REV:1"]);
        let o = text(["UID:1", "TEL:2", "NOTE:x", "REV:2"]);
        let t = text(["NOTE:x", "REV:3", "TEL:2", "UID:1"]);
        let mut lost = item(Some(&b), Some(&o));
        lost.sent = Some(o.clone());
        let (after, conflict) = seen(lost.clone(), Some(&t));
        let after = after.unwrap();
        assert!(!after.is_pending() && after.ours.as_ref() == Some(&t) && conflict.is_none());
        // Edited again meanwhile, in the same property: that edit is the newer one, and nobody's but the house's.
        let newer = text(["UID:1", "TEL:3", "NOTE:x", "REV:4"]);
        lost.ours = Some(newer.clone());
        let (after, conflict) = seen(lost.clone(), Some(&t));
        let after = after.unwrap();
        assert_eq!((after.base, after.ours, conflict), (Some(t.clone()), Some(newer), None));
        // Deleted here meanwhile.
        lost.ours = None;
        let (after, conflict) = seen(lost, Some(&t));
        assert_eq!((after.unwrap().ours, conflict), (None, None));
    }

    #[test]
    fn what_the_server_wrote_otherwise_is_no_edit() {
        let (o, t) = (card("2", "x"), card("+2", "x"));
        let Write::Save { item, .. } = taken(item(None, Some(&o)), o.clone(), "/a".into(), Some("2".into())) else {
            panic!("it is saved")
        };
        let (after, conflict) = seen(item.clone(), Some(&t));
        assert_eq!((after.unwrap().ours, conflict), (Some(t.clone()), Some(ConflictKind::Rewritten)));
        let more = String::from_utf8(o.clone()).unwrap().replace("UID:", "X-SERVER:1\r\nuid:").into_bytes();
        // More than was sent is no loss.
        assert_eq!(seen(item.clone(), Some(&more)).1, None);
        // Edited since: the edit stays, to be sent.
        let edited = Item { ours: Some(card("3", "x")), ..item };
        let (after, conflict) = seen(edited, Some(&t));
        assert_eq!((after.unwrap().ours, conflict), (Some(card("3", "x")), Some(ConflictKind::Rewritten)));
    }
}
