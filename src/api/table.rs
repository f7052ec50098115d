//! The table of all endpoints, and finding the one of a path.

use std::sync::LazyLock;

use http::Method;

use super::endpoint::{Endpoint, Group};
use super::places;

/// Where a path leads.
pub(crate) enum Found {
    /// With what stands in the braces of its path.
    Endpoint(&'static Endpoint, Vec<(String, String)>),
    /// The path is there, for these methods.
    Methods(String),
    Nothing,
}

/// All endpoints, in the order in which they are shown.
pub(crate) static ALL: LazyLock<Vec<(Group, Vec<Endpoint>)>> = LazyLock::new(places::all);

/// What answers this.
pub(crate) fn find(method: &Method, path: &str) -> Found {
    let looking = if method == Method::HEAD { &Method::GET } else { method };
    let all = || ALL.iter().flat_map(|(_, endpoints)| endpoints);
    // A path that stands in the table as it is goes before one with braces.
    let mut fitting: Vec<(&Endpoint, Vec<(String, String)>)> =
        all().filter_map(|endpoint| Some((endpoint, matched(endpoint.path, path)?))).collect();
    fitting.sort_by_key(|(_, words)| words.len());
    let fewest = fitting.first().map_or(0, |(_, words)| words.len());
    fitting.retain(|(_, words)| words.len() == fewest);
    if fitting.is_empty() {
        return Found::Nothing;
    }
    let mut methods: Vec<&str> = Vec::new();
    for (endpoint, words) in fitting {
        if endpoint.method == *looking {
            return Found::Endpoint(endpoint, words);
        }
        methods.push(endpoint.method.as_str());
    }
    if methods.contains(&"GET") {
        methods.push("HEAD");
    }
    Found::Methods(methods.join(", "))
}

/// What a path has where its template has braces.
fn matched(template: &str, path: &str) -> Option<Vec<(String, String)>> {
    let (mut wanted, mut given, mut words) = (template.split('/'), path.split('/'), Vec::new());
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return Some(words),
            (Some(part), Some(word)) => match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
                Some(name) if !word.is_empty() => words.push((name.to_owned(), decoded(word)?)),
                None if part == word => {}
                _ => return None,
            },
            _ => return None,
        }
    }
}

/// A part of a URL as the text that it stands for.
pub(crate) fn decoded(part: &str) -> Option<String> {
    let (bytes, mut out, mut at) = (part.as_bytes(), Vec::with_capacity(part.len()), 0);
    while at < bytes.len() {
        if bytes[at] == b'%' {
            let digits = part.get(at + 1..at + 3).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))?;
            out.push(u8::from_str_radix(digits, 16).ok()?);
            at += 3;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_endpoint_is_found_by_its_own_path_and_no_two_share_one() {
        let mut seen = std::collections::BTreeSet::new();
        for endpoint in ALL.iter().flat_map(|(_, endpoints)| endpoints) {
            assert!(seen.insert(endpoint.id), "{} twice", endpoint.id);
            let path: Vec<&str> =
                endpoint.path.split('/').map(|part| if part.starts_with('{') { "0" } else { part }).collect();
            match find(&endpoint.method, &path.join("/")) {
                Found::Endpoint(found, words) => {
                    assert_eq!(found.id, endpoint.id);
                    assert_eq!(words.len(), endpoint.in_path().count());
                }
                _ => panic!("{} is not found", endpoint.path),
            }
            for name in endpoint.in_path() {
                assert!(endpoint.params.requires(name), "{}: {name} is not required", endpoint.id);
            }
        }
        assert!(matches!(find(&Method::DELETE, "/sessions"), Found::Methods(m) if m == "GET, HEAD"));
        assert!(matches!(find(&Method::GET, "/sessions/"), Found::Nothing));
        assert!(matches!(find(&Method::GET, "/butlers/%zz"), Found::Nothing));
    }
}
