//! All files of a journal, as sections, and what changed from one state to another.

use std::collections::BTreeMap;

use base::Trust;
use uuid::Uuid;

use crate::file::{FileName, Kind};
use crate::section::{Section, split};

/// A file's sections, in their order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Document {
    pub sections: Vec<Section>,
}

impl Document {
    /// Sections of a text, all of them believed as far.
    pub fn of(text: &str, trust: Trust) -> Self {
        Self { sections: split(text).into_iter().map(|part| Section::edited(part, trust)).collect() }
    }

    /// The file's text.
    pub fn text(&self) -> String {
        self.sections.iter().map(Section::shown).collect()
    }

    /// The text without what those say who are believed less, and how many sections that leaves out.
    pub fn text_for(&self, least: Trust) -> (String, usize) {
        let told = self.sections.iter().filter(|section| section.trust >= least);
        let text: String = told.clone().map(Section::shown).collect();
        (text, self.sections.len() - told.count())
    }

    /// `### ` headings.
    pub fn entries(&self) -> usize {
        self.sections.iter().filter(|section| section.text.starts_with("### ")).count()
    }

    /// The section of this title.
    pub fn find(&self, title: &str) -> Option<usize> {
        let same = |section: &Section| section.title().is_some_and(|own| own.eq_ignore_ascii_case(title));
        // A later one is what is so now.
        self.sections.iter().rposition(same)
    }
}

/// The journal of a butler and a tenant. Files without a section do not exist.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Documents(BTreeMap<FileName, Document>);

/// What becomes of a section.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// It is new.
    Put { file: FileName, place: i32, section: Section },
    /// It stands elsewhere, maybe in another file.
    Move { file: FileName, place: i32, id: Uuid },
    /// It is gone.
    End { id: Uuid },
}

impl Documents {
    pub fn new(files: impl IntoIterator<Item = (FileName, Document)>) -> Self {
        Self(files.into_iter().filter(|(_, document)| !document.sections.is_empty()).collect())
    }

    pub fn iter(&self) -> impl Iterator<Item = (&FileName, &Document)> {
        self.0.iter()
    }

    pub fn get(&self, file: &FileName) -> Option<&Document> {
        self.0.get(file)
    }

    /// A file's text; empty where there is none.
    pub fn text(&self, file: &FileName) -> String {
        self.get(file).map(Document::text).unwrap_or_default()
    }

    /// A file, which is there once something was put into it.
    pub fn open(&mut self, file: &FileName) -> &mut Document {
        self.0.entry(file.clone()).or_default()
    }

    pub fn set(&mut self, file: FileName, document: Document) {
        match document.sections.is_empty() {
            true => self.0.remove(&file),
            false => self.0.insert(file, document),
        };
    }

    pub fn take(&mut self, file: &FileName) -> Option<Document> {
        self.0.remove(file)
    }

    /// Whether a file of this name is there.
    pub fn has(&self, file: &FileName) -> bool {
        self.get(file).is_some_and(|document| !document.sections.is_empty())
    }

    pub fn count(&self, kind: Kind) -> usize {
        self.0.keys().filter(|file| file.kind() == kind).count()
    }

    /// Each section with where it stands.
    fn places(&self) -> BTreeMap<Uuid, (&FileName, i32, &Section)> {
        let mut places = BTreeMap::new();
        for (file, document) in &self.0 {
            for (place, section) in (0..).zip(&document.sections) {
                places.insert(section.id, (file, place, section));
            }
        }
        places
    }

    /// What makes this state out of `before`.
    pub fn since(&self, before: &Self) -> Vec<Change> {
        let (was, is) = (before.places(), self.places());
        let gone = was.keys().filter(|id| !is.contains_key(id)).map(|id| Change::End { id: *id });
        let kept = is.iter().filter_map(|(id, (file, place, section))| match was.get(id) {
            Some((old, at, _)) if (old, at) == (file, place) => None,
            Some(_) => Some(Change::Move { file: (*file).clone(), place: *place, id: *id }),
            None => Some(Change::Put { file: (*file).clone(), place: *place, section: (*section).clone() }),
        });
        gone.chain(kept).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(file: &FileName, text: &str) -> Documents {
        Documents::new([(file.clone(), Document::of(text, Trust::Owner))])
    }

    #[test]
    fn changes_are_told_section_by_section() {
        let file = FileName::reference("ideas");
        let before = one(&file, "# Ideas\n\n### A\nx\n\n### B\ny\n");
        assert_eq!(before.since(&before), []);
        let mut after = before.clone();
        let document = after.open(&file);
        let gone = document.sections.remove(1);
        document.sections.push(Section::new("### C\nz\n", Trust::Stranger));
        let (moved, put) = (document.sections[1].id, document.sections[2].clone());
        let changes = after.since(&before);
        assert!(changes.contains(&Change::End { id: gone.id }));
        assert!(changes.contains(&Change::Move { file: file.clone(), place: 1, id: moved }));
        assert!(changes.contains(&Change::Put { file, place: 2, section: put }));
        assert_eq!(changes.len(), 3);
    }

    #[test]
    fn others_words_are_left_out_where_the_owners_alone_are_told() {
        let file = FileName::reference("ideas");
        let mut journal = one(&file, "### A\nx\n");
        journal.open(&file).sections.push(Section::new("### B\ny\n", Trust::Stranger));
        let document = journal.get(&file).unwrap();
        assert_eq!(document.text_for(Trust::System), ("### A\nx\n".to_owned(), 1));
        assert!(document.text_for(Trust::Stranger).0.contains("> ### B"));
        assert_eq!((document.entries(), document.find("b")), (2, Some(1)));
    }
}
