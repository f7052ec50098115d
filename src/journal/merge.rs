//! A file that somebody edited, and a journal that went on meanwhile.

use base::Trust;

use crate::documents::Document;
use crate::section::{Section, split};

/// What came of a merge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Merged {
    pub document: Document,
    /// Where both had changed the same: what is kept of both, a sentence each.
    pub conflicts: Vec<String>,
}

/// A place where the edited file differs from what was last written: these sections became those.
struct Edit {
    from: std::ops::Range<usize>,
    to: std::ops::Range<usize>,
}

/// Puts the edits of a person, who made `edited` out of `written`, into the document as it is now. `written` is what the
/// file had when the program last wrote it. What both changed is kept from both. New sections are believed as `trust`.
pub fn merge(written: &str, edited: &str, now: &Document, trust: Trust) -> Merged {
    let (was, is) = (split(written), split(edited));
    let shown: Vec<String> = now.sections.iter().map(Section::shown).collect();
    let ours: Vec<&str> = shown.iter().map(String::as_str).collect();
    // Where each section that was written stands now.
    let place = common(&was, &ours);
    let mut sections: Vec<Option<Section>> = now.sections.iter().cloned().map(Some).collect();
    // What is put before the section of this number.
    let mut added: Vec<Vec<Section>> = vec![Vec::new(); now.sections.len() + 1];
    let mut conflicts = Vec::new();
    for edit in edits(&was, &is) {
        let new = is[edit.to.clone()].iter().map(|text| Section::edited(text, trust)).collect::<Vec<_>>();
        // A kill may have come between the rows that took this in and the note that says so: it is not taken in twice.
        let came = |text: &&str| ours.contains(text) && !was.contains(text);
        let is_taken = !edit.to.is_empty() && edit.from.clone().all(|at| place[at].is_none());
        if is_taken && is[edit.to.clone()].iter().all(came) {
            continue;
        }
        let lost: Vec<usize> = edit.from.clone().filter(|at| place[*at].is_none()).collect();
        for at in edit.from.clone().filter_map(|at| place[at]) {
            sections[at] = None;
        }
        if let Some(first) = lost.first() {
            let what = headline(was[*first]);
            conflicts.push(match new.is_empty() {
                true => format!("`{what}` was taken out of the file, but had changed meanwhile: its new text stays."),
                false => format!("`{what}` was changed in the file and in the journal: both are kept."),
            });
        }
        // After what stands before it now, else before what stands after it.
        let before = edit.from.end.min(was.len());
        let after_previous = (0..edit.from.start).rev().find_map(|at| place[at]).map(|at| at + 1);
        let at_itself = edit.from.clone().find_map(|at| place[at]);
        let before_next = (before..was.len()).find_map(|at| place[at]);
        let at = at_itself.or(match lost.is_empty() {
            true => after_previous.or(before_next),
            // The journal's own text first, the person's below it.
            false => before_next.or(Some(now.sections.len())),
        });
        added[at.unwrap_or(now.sections.len())].extend(new);
    }
    let mut document = Document::default();
    for (at, added) in added.into_iter().enumerate() {
        document.sections.extend(added);
        document.sections.extend(sections.get_mut(at).and_then(Option::take));
    }
    Merged { document, conflicts }
}

/// The first line of a section, for a sentence.
pub(crate) fn headline(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    line.trim_start_matches(['#', '>', ' ']).chars().take(60).collect()
}

/// What a person did, in the order of the file.
fn edits(was: &[&str], is: &[&str]) -> Vec<Edit> {
    let place = common(was, is);
    let mut edits = Vec::new();
    let (mut from, mut to) = (0, 0);
    let kept = (0..was.len()).filter_map(|at| place[at].map(|there| (at, there))).chain([(was.len(), is.len())]);
    for (at, there) in kept {
        if at > from || there > to {
            edits.push(Edit { from: from..at, to: to..there });
        }
        (from, to) = (at + 1, there + 1);
    }
    edits
}

/// For each of `one` where it stands in `other`, so that both orders hold: a longest common subsequence.
fn common(one: &[&str], other: &[&str]) -> Vec<Option<usize>> {
    let mut place = vec![None; one.len()];
    // What is alike at both ends needs no table, and mostly that is all.
    let head = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    let tail = one[head..].iter().rev().zip(other[head..].iter().rev()).take_while(|(a, b)| a == b).count();
    for (at, there) in place.iter_mut().enumerate().take(head) {
        *there = Some(at);
    }
    for back in 1..=tail {
        place[one.len() - back] = Some(other.len() - back);
    }
    let (a, b) = (&one[head..one.len() - tail], &other[head..other.len() - tail]);
    let width = b.len() + 1;
    let mut longest = vec![0_u32; (a.len() + 1) * width];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            longest[i * width + j] = match a[i] == b[j] {
                true => longest[(i + 1) * width + j + 1] + 1,
                false => longest[(i + 1) * width + j].max(longest[i * width + j + 1]),
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        if a[i] == b[j] {
            place[head + i] = Some(head + j);
            (i, j) = (i + 1, j + 1);
        } else if longest[(i + 1) * width + j] >= longest[i * width + j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    place
}

/// The lines that went, with `-`, and that came, with `+`, with where they are (`@@ line @@`).
pub fn diff(was: &str, is: &str) -> String {
    let old: Vec<&str> = was.split_inclusive('\n').collect();
    let new: Vec<&str> = is.split_inclusive('\n').collect();
    let mut text = String::new();
    for edit in edits(&old, &new) {
        text += &format!("@@ line {} @@\n", edit.to.start + 1);
        let lines = old[edit.from].iter().map(|line| ('-', line)).chain(new[edit.to].iter().map(|line| ('+', line)));
        for (sign, line) in lines {
            text += &format!("{sign}{}\n", line.trim_end_matches(['\n', '\r']));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "# P\n\n## Active\n\n### A\na\n\n### B\nb\n\n## Planned\n\n### C\nc\n";

    fn doc(text: &str) -> Document {
        Document::of(text, Trust::System)
    }

    #[test]
    fn an_edit_of_an_unchanged_journal_is_the_file() {
        for edited in [
            BASE.to_owned(),
            BASE.replace("a\n\n", "changed\n\n"),
            BASE.replace("### B\nb\n\n", ""),
            BASE.replace("### B\nb\n\n", "### New\nn\n\n### B\nb\n\n"),
            format!("{BASE}### D\nd\n"),
            "all new\n".to_owned(),
            String::new(),
            BASE.replace("### A\na\n\n### B\nb\n\n", "### B\nb\n\n### A\na\n\n"),
        ] {
            let merged = merge(BASE, &edited, &doc(BASE), Trust::Owner);
            assert_eq!(merged.document.text(), edited);
            assert_eq!(merged.conflicts, Vec::<String>::new());
            let own = merged.document.sections.iter().filter(|section| section.trust == Trust::Owner).count();
            assert!(own <= split(&edited).len());
        }
    }

    #[test]
    fn what_is_unchanged_keeps_its_author() {
        let mut now = doc(BASE);
        now.sections.push(Section::new("### S\nstranger\n", Trust::Stranger));
        let written = now.text();
        let edited = written.replace("### A\na\n", "### A\nmine\n");
        let merged = merge(&written, &edited, &now, Trust::Owner);
        assert_eq!(merged.document.text(), edited);
        let trusts: Vec<Trust> = merged.document.sections.iter().map(|section| section.trust).collect();
        assert_eq!(trusts.iter().filter(|trust| **trust == Trust::Owner).count(), 1);
        assert_eq!(trusts.last(), Some(&Trust::Stranger));
    }

    #[test]
    fn both_sides_changes_are_there() {
        let mut now = doc(BASE);
        now.sections[2] = Section::new("### A\nfrom a sync\n\n", Trust::System);
        now.sections.push(Section::new("### E\nnew in the journal\n", Trust::System));
        let edited = BASE.replace("### B\nb\n", "### B\nmine\n").replace("# P\n", "# Projects\n");
        let merged = merge(BASE, &edited, &now, Trust::Owner);
        let text = merged.document.text();
        for part in ["# Projects\n", "from a sync", "### B\nmine", "### E\nnew in the journal", "### C\nc\n"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!((text.matches("### A").count(), text.matches("### B").count()), (1, 1));
        assert_eq!(merged.conflicts, Vec::<String>::new());
    }

    #[test]
    fn a_conflict_keeps_both_and_says_so() {
        let mut now = doc(BASE);
        now.sections[2] = Section::new("### A\nfrom a sync\n\n", Trust::System);
        let edited = BASE.replace("### A\na\n", "### A\nmine\n");
        let merged = merge(BASE, &edited, &now, Trust::Owner);
        let text = merged.document.text();
        assert!(text.contains("from a sync") && text.contains("mine"), "{text}");
        assert_eq!(merged.conflicts, ["`A` was changed in the file and in the journal: both are kept."]);
        let merged = merge(BASE, &BASE.replace("### A\na\n\n", ""), &now, Trust::Owner);
        assert!(merged.document.text().contains("from a sync"));
        assert_eq!(merged.conflicts.len(), 1);
    }

    #[test]
    fn an_edit_that_is_in_already_is_not_taken_in_twice() {
        let mut now = doc(BASE);
        now.sections.push(Section::new("### E\nnew in the journal\n", Trust::System));
        let edited = BASE.replace("# P\n", "# Projects\n").replace("### B\nb\n\n", "") + "### D\nd\n";
        let once = merge(BASE, &edited, &now, Trust::Owner);
        assert_eq!(merge(BASE, &edited, &once.document, Trust::Owner).document.text(), once.document.text());
    }

    /// No line of either side is ever lost, whatever both did.
    #[test]
    fn nothing_is_lost_by_chance_edits() {
        let mut seed = 11_u64;
        let mut next = |most: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % most
        };
        for round in 0..2000 {
            let base: String = (0..next(8)).map(|n| format!("### {n}\nt{n}\n")).collect();
            let mut change = |who: &str, text: &str| {
                let mut parts: Vec<String> = split(text).into_iter().map(str::to_owned).collect();
                let mut fresh = Vec::new();
                for n in 0..next(4) {
                    let new = format!("### {who}{round}-{n}\nx\n");
                    let at = next(parts.len() as u64 + 1) as usize;
                    match next(3) {
                        0 => parts.insert(at, new.clone()),
                        1 if at < parts.len() => parts[at] = new.clone(),
                        _ if at < parts.len() => {
                            parts.remove(at);
                            continue;
                        }
                        _ => continue,
                    }
                    fresh.push(new);
                }
                fresh.retain(|new| parts.contains(new));
                (parts.concat(), fresh)
            };
            let (ours, our_new) = change("o", &base);
            let (theirs, their_new) = change("p", &base);
            let merged = merge(&base, &theirs, &doc(&ours), Trust::Owner).document.text();
            for new in our_new.iter().chain(&their_new) {
                assert_eq!(merged.matches(new.as_str()).count(), 1, "{base:?}\n{ours:?}\n{theirs:?}\n{merged:?}");
            }
            // What neither side touched is there once.
            for part in split(&base) {
                if ours.contains(part) && theirs.contains(part) {
                    assert_eq!(merged.matches(part).count(), 1, "{base:?}\n{ours:?}\n{theirs:?}\n{merged:?}");
                }
            }
        }
    }

    #[test]
    fn a_diff_shows_lines() {
        assert_eq!(diff("a\nb\nc\n", "a\nx\nc\nd\n"), "@@ line 2 @@\n-b\n+x\n@@ line 4 @@\n+d\n");
        assert_eq!(diff("a\n", "a\n"), "");
    }
}
