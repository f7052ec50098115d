//! What a machine has to say, and how files of memories compare.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::exchange::Exchange;
use super::{Daemon, SyncError, SyncReport, secret};
use crate::record::{Export, Record};

/// A file of more memories than this is not replaced by one of less than half as many.
const FEW: usize = 20;

/// This machine's memories as they are pushed.
pub struct Outgoing {
    pub export: Export,
    /// The ids of memories that stay because they look like secrets.
    pub withheld: BTreeSet<String>,
    pub fingerprint: String,
}

impl Outgoing {
    pub fn ask(exchange: &Exchange, daemon: &mut dyn Daemon) -> Result<Self, SyncError> {
        const OP: &str = "export_memories";
        let answer = daemon.ask(OP, json!({}))?;
        let export: Result<Export, _> = serde_json::from_value(answer);
        let mut export = export.map_err(|error| SyncError::Answer { op: OP, why: error.to_string() })?;
        let (withheld, mut records): (Vec<_>, Vec<_>) = export.records.into_iter().partition(secret::is_in);
        records.sort_by(|a, b| a.id.cmp(&b.id));
        export.deleted.sort_unstable();
        export.deleted.dedup();
        export.merged.sort_unstable();
        export.count = records.len();
        export.records = records;
        let fingerprint = fingerprint(&export, exchange);
        Ok(Self { export, withheld: withheld.into_iter().map(|record| record.id).collect(), fingerprint })
    }

    pub fn is_empty(&self) -> bool {
        self.export.records.is_empty() && self.export.deleted.is_empty()
    }

    /// Says which memories stay, if any.
    pub fn tell(&self, report: &mut SyncReport) {
        let ids: Vec<&str> = self.withheld.iter().map(String::as_str).collect();
        match ids.as_slice() {
            [] => {}
            [one] => report.tell(format!("1 memory looks like a secret and stays on this machine: {one}")),
            all => {
                let (count, ids) = (all.len(), all.join(", "));
                report.tell(format!("{count} memories look like secrets and stay on this machine: {ids}"));
            }
        }
    }

    /// Whether a file has what is neither here nor was forgotten here on purpose.
    pub fn lacks_some_of(&self, there: &Export) -> bool {
        let mut known: BTreeSet<&str> = self.export.records.iter().flat_map(names_of).collect();
        known.extend(self.export.deleted.iter().map(String::as_str));
        known.extend(self.withheld.iter().chain(&self.export.merged).map(String::as_str));
        let unknown = |record: &Record| names_of(record).all(|name| !known.contains(name));
        there.records.iter().any(unknown) || there.deleted.iter().any(|id| !self.export.deleted.contains(id))
    }

    /// Whether so few of a file's memories are left that it can't be meant. What was forgotten on purpose, or stays
    /// here because of what it says, does not count.
    pub fn shrinks(&self, there: &Export) -> bool {
        let mut gone: BTreeSet<&str> = self.withheld.iter().map(String::as_str).collect();
        gone.extend(self.export.deleted.iter().chain(&self.export.merged).map(String::as_str));
        let gone = |name: &str| gone.contains(name);
        let left = there.records.iter().filter(|record| !names_of(record).any(gone)).count();
        there.records.len() > FEW && self.export.records.len() * 2 < left
    }
}

/// Under which ids a memory is known: its own, and the one that it had where it came from.
pub fn names_of(record: &Record) -> impl Iterator<Item = &str> {
    let original = record.metadata.get("original_id").and_then(Value::as_str);
    std::iter::once(record.id.as_str()).chain(original)
}

/// A hash of what a file says and of whose it is where. Times and counts, which change with each look, are left out.
pub fn fingerprint(export: &Export, exchange: &Exchange) -> String {
    let mut records: Vec<&Record> = export.records.iter().collect();
    records.sort_by(|a, b| a.id.cmp(&b.id));
    let said = |record: &&Record| {
        let mut tags = record.tags.clone();
        tags.sort_unstable();
        let Record { id, content, experience_type, metadata, .. } = record;
        json!({"id": id, "content": content, "experience_type": experience_type, "tags": tags, "metadata": metadata})
    };
    let said: Vec<Value> = records.iter().map(said).collect();
    let deleted: BTreeSet<&String> = export.deleted.iter().collect();
    let all = json!({"origin": exchange.origin, "file": exchange.file(), "records": said, "deleted": deleted});
    base::text::hex(&Sha256::digest(all.to_string().as_bytes()))
}

/// Gives a file's memories to the daemon and counts what came of it.
pub fn import(daemon: &mut dyn Daemon, export: Export) -> Result<SyncReport, SyncError> {
    const OP: &str = "import_memories";
    let mut report = SyncReport::default();
    for part in export.parts() {
        let answer = daemon.ask(OP, json!({"export": part}))?;
        let count = |name: &str| answer[name].as_u64().or(answer[name].as_array().map(|all| all.len() as u64));
        let Some(imported) = count("imported") else {
            return Err(SyncError::Answer { op: OP, why: "it does not say how many were imported".to_owned() });
        };
        report.imported += imported;
        report.skipped += count("skipped").unwrap_or(0);
        report.deleted += count("deleted").unwrap_or(0);
        if let Some(errors) = count("errors").filter(|errors| *errors > 0) {
            report.tell(format!("{errors} could not be taken in"));
        }
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn export(ids: &[&str], deleted: &[&str]) -> Export {
        let record = |id: &&str| Record { id: (*id).to_owned(), content: "x".repeat(100), ..Record::default() };
        Export {
            count: ids.len(),
            records: ids.iter().map(record).collect(),
            deleted: deleted.iter().map(|id| (*id).to_owned()).collect(),
            ..Export::default()
        }
    }

    #[test]
    fn a_file_shrinks_unless_that_was_meant() {
        let ids: Vec<String> = (0..30).map(|n| n.to_string()).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let there = export(&ids, &[]);
        let here = |ids: &[&str], deleted: &[&str], withheld: &[&str]| Outgoing {
            export: export(ids, deleted),
            withheld: withheld.iter().map(|id| (*id).to_owned()).collect(),
            fingerprint: String::new(),
        };
        assert!(here(&ids[..14], &[], &[]).shrinks(&there));
        assert!(!here(&ids[..15], &[], &[]).shrinks(&there));
        assert!(!here(&ids[..2], &ids[2..], &[]).shrinks(&there));
        assert!(!here(&ids[..2], &ids[2..20], &ids[20..]).shrinks(&there));
        assert!(!here(&[], &[], &[]).shrinks(&export(&ids[..20], &[])), "few are no matter");
        assert!(here(&[], &[], &[]).shrinks(&export(&ids[..21], &[])));
        let mut united = here(&ids[..10], &[], &[]);
        united.export.merged = ids[10..].iter().map(|id| (*id).to_owned()).collect();
        assert!(!united.shrinks(&there) && !united.lacks_some_of(&there), "what became one is not lost");
        assert!(here(&ids[..14], &[], &[]).lacks_some_of(&there));
        assert!(!here(&ids[..14], &ids[14..20], &ids[20..]).lacks_some_of(&there));
        assert!(here(&ids, &[], &[]).lacks_some_of(&export(&[], &["gone"])));
    }
}
