//! What the pages of a search have shown. Ranks are computed anew for each page and move when what is searched changes, so
//! that a place among them would skip and repeat; who has been shown is known all the same.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use uuid::Uuid;

/// As many of the best are shown by all pages of a search together.
pub(crate) const DEPTH: usize = 100;

/// An id is known again by its last bytes, which are random in every kind of id that rows have here: so few that a cursor of
/// [`DEPTH`] stays short, and enough that among so many no two are alike.
const MARK: usize = 5;

/// The hits of all pages so far, by their marks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Seen(Vec<[u8; MARK]>);

fn mark(id: Uuid) -> [u8; MARK] {
    let bytes = id.into_bytes();
    std::array::from_fn(|n| bytes[bytes.len() - MARK + n])
}

impl Seen {
    /// Cuts what was found, the best first and all of it, to the next page of so many; what the page after it begins with, if
    /// there is one.
    pub fn page<T>(mut self, found: &mut Vec<T>, limit: usize, id: impl Fn(&T) -> Uuid) -> Option<Self> {
        found.retain(|hit| !self.0.contains(&mark(id(hit))));
        found.truncate(DEPTH.saturating_sub(self.0.len()));
        let more = found.len() > limit;
        found.truncate(limit);
        self.0.extend(found.iter().map(|hit| mark(id(hit))));
        more.then_some(self)
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0.concat()))
    }
}

impl FromStr for Seen {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(drop)?;
        let marks = bytes.chunks(MARK).map(|mark| mark.try_into().map_err(drop)).collect::<Result<Vec<_>, ()>>()?;
        if marks.len() <= DEPTH { Ok(Self(marks)) } else { Err(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(of: impl Iterator<Item = u128>) -> Vec<Uuid> {
        of.map(Uuid::from_u128).collect()
    }

    #[test]
    fn pages_show_each_hit_once_and_end() {
        let (mut seen, mut all, mut pages) = (Some(Seen::default()), Vec::new(), 0);
        while let Some(before) = seen {
            // The order is another each time.
            let mut found = ids((0..DEPTH as u128).map(|n| (n + 31 * pages) % DEPTH as u128));
            seen = before.page(&mut found, 7, |id| *id);
            if let Some(seen) = &seen {
                let text = seen.to_string();
                assert_eq!(text.parse().as_ref(), Ok(seen));
                let sealed = crate::cursor::seal("searchMemory {}", &text);
                assert!(sealed.len() <= 1000, "longer than `cursor` may be: {}", sealed.len());
            }
            (all, pages) = ([all, found].concat(), pages + 1);
        }
        assert_eq!((all.len(), pages), (DEPTH, 15));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), DEPTH);
    }

    #[test]
    fn hits_that_come_between_push_the_end_out() {
        let mut found = ids(0..100);
        let seen = Seen::default().page(&mut found, 60, |id| *id).unwrap();
        let mut found = ids(50..150);
        assert_eq!(seen.page(&mut found, 60, |id| *id), None);
        assert_eq!(found, ids(60..100));
        assert_eq!("AAAA".parse::<Seen>(), Err(()), "no whole mark");
        assert_eq!("not base64!".parse::<Seen>(), Err(()));
    }
}
