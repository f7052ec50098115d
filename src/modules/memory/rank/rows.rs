//! The columns of the index: what a row is, who its neighbours are, what filters look at.

use std::collections::HashMap;

use jiff::Timestamp;
use uuid::Uuid;

use base::Trust;

use super::abouts::Abouts;
use super::names::Names;
use super::types::{Entry, Filter, Kind};
use super::{add, time};

/// No row.
pub const NONE: u32 = u32::MAX;
/// Never, in minutes since 1970.
const NEVER: i32 = i32::MIN;

/// Says when something happens.
pub const DATED: u8 = 1;
/// Ends with a question mark.
pub const ASKS: u8 = 2;

/// Its validity has an end.
const ENDS: u8 = 4;

/// What is looked at of the rows that are candidates.
#[derive(Debug, Clone)]
pub struct Row {
    pub id: Uuid,
    pub seq: i64,
    pub importance: f32,
    pub confidence: f32,
    decay: f32,
    confirmed: i32,
    used: i32,
    /// Numbers of names: 0 is none.
    pub entity: u32,
    object: u32,
    predicate: u32,
}

/// What many rows have alike. A filter looks at each group once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    scope: u32,
    butler: u32,
    class: u32,
    pub kind: Kind,
    trust: Trust,
    sensitivity: u8,
}

/// All rows, column by column as they are read, and the names they share.
#[derive(Default)]
pub struct Rows {
    pub rows: Vec<Row>,
    /// Seconds since 1970.
    pub at: Vec<i64>,
    /// The number of the row's group; 0 is that of removed rows.
    pub group: Vec<u32>,
    pub thread: Vec<u32>,
    pub about: Vec<u32>,
    /// Before and after in the same thread.
    pub links: Vec<(u32, u32)>,
    pub form: Vec<u8>,
    /// Ends of validity, of those that have one.
    until: HashMap<Uuid, i64>,
    groups: Vec<Group>,
    pub abouts: Abouts,
    threads: Names<Uuid>,
    /// The first and last row of each thread.
    ends: Vec<(u32, u32)>,
    pub entities: Names<Uuid>,
    labels: Names<String>,
}

impl Rows {
    /// Adds the next row.
    pub fn push(&mut self, entry: &Entry) -> usize {
        let minutes = |at: Option<Timestamp>| at.map_or(NEVER, |at| (at.as_second() / 60) as i32);
        let facets = &entry.facets;
        let row = Row {
            id: entry.id,
            seq: entry.seq,
            importance: (entry.importance / 10.0).clamp(0.0, 1.0),
            confidence: entry.confidence.clamp(0.0, 1.0),
            decay: entry.decay.max(0.0),
            confirmed: minutes(entry.confirmed_at),
            used: minutes(entry.used_at),
            entity: facets.entity.map_or(0, |entity| self.entities.number(&entity)),
            object: facets.object.map_or(0, |object| self.entities.number(&object)),
            predicate: facets.predicate.map_or(0, |predicate| self.labels.number(predicate)),
        };
        let group = Group {
            scope: self.labels.number(facets.scope),
            butler: self.labels.number(facets.butler),
            class: self.labels.number(facets.class),
            kind: entry.kind,
            trust: facets.trust,
            sensitivity: facets.sensitivity,
        };
        let group = self.groups.iter().position(|g| *g == group).unwrap_or_else(|| {
            self.groups.push(group);
            self.groups.len() - 1
        });
        let ends = if facets.valid_to.is_some() { ENDS } else { 0 };
        if let Some(until) = facets.valid_to {
            self.until.insert(entry.id, until.as_second());
        }
        let thread = entry.thread.map_or(0, |thread| self.threads.number(&thread));
        let dated = if time::says_when(entry.text) { DATED } else { 0 };
        let asks = if entry.text.trim_end().ends_with('?') { ASKS } else { 0 };
        let about = entry.about.map_or(0, |about| self.abouts.number(about));
        self.add(row, entry.at.as_second(), group as u32 + 1, (thread, about), dated | asks | ends)
    }

    fn add(&mut self, row: Row, at: i64, group: u32, (thread, about): (u32, u32), form: u8) -> usize {
        let new = self.rows.len();
        let links = self.place((row.seq, row.id), thread);
        add(&mut self.rows, row);
        add(&mut self.at, at);
        add(&mut self.group, group);
        add(&mut self.thread, thread);
        add(&mut self.about, about);
        add(&mut self.links, links);
        add(&mut self.form, form);
        self.join(thread, links, (new as u32, new as u32));
        new
    }

    /// Between whom a row belongs in its thread: nearly always at the end.
    fn place(&mut self, order: (i64, Uuid), thread: u32) -> (u32, u32) {
        if thread == 0 {
            return (NONE, NONE);
        }
        self.ends.resize(self.threads.count(), (NONE, NONE));
        let of = |at: u32| (self.rows[at as usize].seq, self.rows[at as usize].id);
        let (mut before, mut after) = (self.ends[thread as usize].1, NONE);
        while before != NONE && of(before) > order {
            after = before;
            before = self.links[before as usize].0;
        }
        (before, after)
    }

    /// Makes `first` follow the row before, and `last` precede the row after.
    fn join(&mut self, thread: u32, (before, after): (u32, u32), (first, last): (u32, u32)) {
        if thread == 0 {
            return;
        }
        match before {
            NONE => self.ends[thread as usize].0 = first,
            before => self.links[before as usize].1 = first,
        }
        match after {
            NONE => self.ends[thread as usize].1 = last,
            after => self.links[after as usize].0 = last,
        }
    }

    /// Takes a row out and joins its neighbours.
    pub fn remove(&mut self, row: usize) {
        self.group[row] = 0;
        self.until.remove(&self.rows[row].id);
        let (before, after) = std::mem::replace(&mut self.links[row], (NONE, NONE));
        self.join(self.thread[row], (before, after), (after, before));
    }

    /// The same with only the given rows, in their order. Names are kept: they are few.
    pub fn packed(&mut self, kept: &[u32]) -> Self {
        let mut packed = Self {
            until: std::mem::take(&mut self.until),
            groups: std::mem::take(&mut self.groups),
            abouts: std::mem::take(&mut self.abouts),
            threads: std::mem::take(&mut self.threads),
            entities: std::mem::take(&mut self.entities),
            labels: std::mem::take(&mut self.labels),
            ..Self::default()
        };
        for row in kept.iter().map(|row| *row as usize) {
            let names = (self.thread[row], self.about[row]);
            packed.add(self.rows[row].clone(), self.at[row], self.group[row], names, self.form[row]);
        }
        packed
    }

    pub fn threads(&self) -> usize {
        self.threads.count()
    }

    pub fn kind(&self, row: usize) -> Kind {
        self.groups[self.group[row] as usize - 1].kind
    }

    /// Which rows are there and pass the filter.
    pub fn mask(&self, filter: &Filter) -> Vec<bool> {
        let labels = |names: &[&str]| names.iter().filter_map(|name| self.labels.find(*name)).collect::<Vec<_>>();
        let (scopes, butlers, classes) = (labels(filter.scopes), labels(filter.butlers), labels(filter.classes));
        let among = |asked: &[&str], found: &[u32], is: u32| asked.is_empty() || found.contains(&is);
        let lets = |group: &Group| {
            (filter.kinds.is_empty() || filter.kinds.contains(&group.kind))
                && among(filter.scopes, &scopes, group.scope)
                && among(filter.butlers, &butlers, group.butler)
                && among(filter.classes, &classes, group.class)
                && filter.max_sensitivity.is_none_or(|most| group.sensitivity <= most)
                && filter.least_trust.is_none_or(|least| group.trust >= least)
        };
        let groups: Vec<bool> = std::iter::once(false).chain(self.groups.iter().map(lets)).collect();
        let mut mask: Vec<bool> = self.group.iter().map(|group| groups[*group as usize]).collect();
        let from = filter.time_from.map_or(i64::MIN, Timestamp::as_second);
        let to = filter.time_to.map_or(i64::MAX, Timestamp::as_second);
        let to = filter.valid_at.map_or(to, |at| to.min(at.as_second()));
        if (from, to) != (i64::MIN, i64::MAX) {
            for (lets, at) in mask.iter_mut().zip(&self.at) {
                *lets &= (from..=to).contains(at);
            }
        }
        if let Some(at) = filter.valid_at.map(Timestamp::as_second)
            && !self.until.is_empty()
        {
            for (row, lets) in mask.iter_mut().enumerate().filter(|(row, lets)| **lets && self.form[*row] & ENDS > 0) {
                *lets = self.until.get(&self.rows[row].id).is_none_or(|until| at < *until);
            }
        }
        let mut demand = |wanted: Option<u32>, of: fn(&Row) -> u32| {
            for (lets, row) in mask.iter_mut().zip(&self.rows).filter(|(lets, _)| **lets) {
                *lets = wanted == Some(of(row));
            }
        };
        if let Some(name) = filter.predicate {
            demand(self.labels.find(name), |row| row.predicate);
        }
        if let Some(id) = filter.entity {
            demand(self.entities.find(&id), |row| row.entity);
        }
        if let Some(id) = filter.object {
            demand(self.entities.find(&id), |row| row.object);
        }
        mask
    }

    pub fn bytes(&self) -> usize {
        self.rows.capacity() * size_of::<Row>()
            + self.at.capacity() * 8
            + (self.group.capacity() + self.thread.capacity() + self.about.capacity()) * 4
            + (self.links.capacity() + self.ends.capacity()) * 8
            + self.form.capacity()
            + self.until.capacity() * 8 / 7 * 25
            + self.groups.capacity() * size_of::<Group>()
            + self.threads.bytes()
            + self.entities.bytes()
            + self.abouts.bytes()
            + self.labels.bytes()
    }
}

impl Row {
    /// Confidence, fallen since it was last confirmed.
    pub fn confidence_at(&self, minute: f64) -> f32 {
        match self.confirmed {
            _ if self.decay == 0.0 => self.confidence,
            NEVER => 0.0,
            confirmed => {
                let days = ((minute - f64::from(confirmed)) / 1440.0).max(0.0);
                self.confidence * (f64::from(-self.decay) * days).exp() as f32
            }
        }
    }

    /// 1 for a row used just now, half of it a week later; 0 if never used.
    pub fn recency_at(&self, minute: f64) -> f32 {
        if self.used == NEVER {
            return 0.0;
        }
        let weeks = ((minute - f64::from(self.used)) / (7.0 * 1440.0)).max(0.0);
        (-std::f64::consts::LN_2 * weeks).exp() as f32
    }
}
