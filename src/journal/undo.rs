//! Taking a step back: what it made goes, what it ended begins again, and what it moved stands where it stood.

use std::collections::BTreeMap;

use uuid::Uuid;

use crate::documents::Documents;
use crate::file::FileName;
use crate::merge::{diff, headline};
use crate::section::Section;
use crate::wire::FileDiff;

/// What a step did, as the history has it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StepTaken {
    pub made: Vec<Made>,
    /// What it ended, each with a new id, and where it stood.
    pub ended: Vec<(FileName, i32, Section)>,
    pub moved: Vec<Moved>,
}

/// A section that a step made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Made {
    /// `None`: a later step ended it.
    pub id: Option<Uuid>,
    pub file: FileName,
    pub text: String,
    /// Which step ended it, in words.
    pub ended_by: Option<String>,
}

/// A section that a step put into another file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Moved {
    /// `None`: a later step ended it.
    pub id: Option<Uuid>,
    pub from: FileName,
    /// Where it stood there.
    pub place: i32,
    pub to: FileName,
    pub text: String,
}

/// Takes a step back as far as nothing was built on it. Returns what stays because a later step changed it, a sentence
/// each; only where there is none the journal is as if the step had not been made.
pub fn take_back(journal: &mut Documents, step: &StepTaken) -> Vec<String> {
    let mut stays = Vec::new();
    let mut back: BTreeMap<FileName, Vec<(i32, Section)>> = BTreeMap::new();
    for moved in &step.moved {
        let there = moved.id.and_then(|id| find(journal, id)).filter(|(file, _)| *file == moved.to);
        match there.and_then(|(file, at)| remove(journal, &file, at)) {
            Some(section) => back.entry(moved.from.clone()).or_default().push((moved.place, section)),
            None => stays.push(format!("`{}` is not in {} any more.", headline(&moved.text), moved.to)),
        }
    }
    for made in &step.made {
        let there = made.id.and_then(|id| find(journal, id));
        if there.and_then(|(file, at)| remove(journal, &file, at)).is_none() {
            let by = made.ended_by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
            stays.push(format!("`{}` in {} was changed since{by}.", headline(&made.text), made.file));
        }
    }
    for (file, place, section) in &step.ended {
        back.entry(file.clone()).or_default().push((*place, section.clone()));
    }
    for (file, mut sections) in back {
        // From the first on, so that each place is what it was.
        sections.sort_by_key(|(place, _)| *place);
        let document = &mut journal.open(&file).sections;
        for (place, section) in sections {
            let at = usize::try_from(place).unwrap_or_default().min(document.len());
            document.insert(at, section);
        }
    }
    stays
}

/// What is different in each file.
pub fn differences(was: &Documents, is: &Documents) -> Vec<FileDiff> {
    let mut files: Vec<&FileName> = was.iter().chain(is.iter()).map(|(file, _)| file).collect();
    files.sort();
    files.dedup();
    let one = |file: &FileName| {
        let (before, after) = (was.text(file), is.text(file));
        (before != after).then(|| FileDiff { file: file.to_string(), diff: diff(&before, &after) })
    };
    files.into_iter().filter_map(one).collect()
}

fn find(journal: &Documents, id: Uuid) -> Option<(FileName, usize)> {
    journal.iter().find_map(|(file, document)| {
        let at = document.sections.iter().position(|section| section.id == id)?;
        Some((file.clone(), at))
    })
}

fn remove(journal: &mut Documents, file: &FileName, at: usize) -> Option<Section> {
    let mut document = journal.take(file)?;
    let section = document.sections.remove(at);
    journal.set(file.clone(), document);
    Some(section)
}
