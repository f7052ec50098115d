//! Memories that look as if they held a secret. They never leave the machine: a branch is read by many and forgets
//! nothing.

use base::redact::secret_in;

use crate::record::Record;

/// Whether a memory looks as if it held a secret, in its text or in what stands beside it.
pub fn is_in(record: &Record) -> bool {
    let looks_secret = |text: &str| secret_in(text).is_some();
    looks_secret(&record.content)
        || record.tags.iter().any(|tag| looks_secret(tag))
        || record.metadata.iter().any(|(name, value)| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            looks_secret(&value) || looks_secret(&format!("{name}={value}"))
        })
        || record.entities.iter().any(|entity| looks_secret(&entity.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_and_metadata_are_looked_at() {
        let record = |tag: &str, name: &str, value: &str| Record {
            content: "fine".to_owned(),
            tags: vec![tag.to_owned()],
            metadata: [(name.to_owned(), serde_json::json!(value))].into(),
            ..Record::default()
        };
        assert!(!is_in(&record("db", "source", "README")));
        assert!(is_in(&record("password=swordfish", "source", "README")));
        assert!(is_in(&record("db", "password", "swordfish")));
    }
}
