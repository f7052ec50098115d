//! The order in which modules start: each after those that it needs.

use std::collections::BTreeMap;

/// Sorts names so that dependencies come first; among equals by name. `Err` holds the names that form a circle.
pub fn sort(needs: &BTreeMap<String, Vec<String>>) -> Result<Vec<String>, Vec<String>> {
    let mut left: BTreeMap<&String, Vec<&String>> =
        needs.iter().map(|(n, d)| (n, d.iter().filter(|d| needs.contains_key(*d)).collect())).collect();
    let mut sorted: Vec<String> = Vec::new();
    while !left.is_empty() {
        let ready: Vec<&String> =
            left.iter().filter(|(_, d)| d.iter().all(|d| sorted.contains(d))).map(|(n, _)| *n).collect();
        if ready.is_empty() {
            return Err(left.into_keys().cloned().collect());
        }
        for name in ready {
            left.remove(name);
            sorted.push(name.clone());
        }
    }
    Ok(sorted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(list: &[(&str, &[&str])]) -> BTreeMap<String, Vec<String>> {
        list.iter().map(|(n, d)| ((*n).to_owned(), d.iter().map(|d| (*d).to_owned()).collect())).collect()
    }

    #[test]
    fn dependencies_come_first() {
        let list = needs(&[("a", &["c"]), ("b", &[]), ("c", &["b", "absent"])]);
        assert_eq!(sort(&list).unwrap(), ["b", "c", "a"]);
    }

    #[test]
    fn a_circle_is_told() {
        let list = needs(&[("a", &["b"]), ("b", &["a"]), ("c", &[])]);
        assert_eq!(sort(&list).unwrap_err(), ["a", "b"]);
    }
}
