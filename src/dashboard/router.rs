//! Finding the page of a path.

use http::Method;

use super::pages;
use super::route::Route;

/// What was found for a path.
pub(super) enum Found {
    Route(&'static Route, Vec<String>),
    /// The path is there, for another method.
    OtherMethod,
    Nothing,
}

/// What answers this.
pub(super) fn find(method: &Method, path: &str) -> Found {
    let looking = if method == Method::HEAD { &Method::GET } else { method };
    let mut there = false;
    for route in pages::ALL.iter().flat_map(|routes| routes.iter()) {
        if let Some(parts) = matched(route.pattern, path) {
            if route.method == *looking {
                return Found::Route(route, parts);
            }
            there = true;
        }
    }
    if there { Found::OtherMethod } else { Found::Nothing }
}

/// What a path has where its pattern has `*`.
fn matched(pattern: &str, path: &str) -> Option<Vec<String>> {
    let (mut wanted, mut given, mut parts) = (pattern.split('/'), path.split('/'), Vec::new());
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return Some(parts),
            (Some("*"), Some(part)) if !part.is_empty() => parts.push(plain(part)?),
            (Some(wanted), Some(part)) if wanted == part => {}
            _ => return None,
        }
    }
}

/// A part of a path without its escapes. `None`: it hides a separator or is no text.
fn plain(part: &str) -> Option<String> {
    let text = super::form::Form::parse(&format!("x={}", part.replace('+', "%2B")));
    let text = text.raw("x")?.to_owned();
    (!text.contains(['/', '\0', '\u{fffd}'])).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_matched_part_by_part() {
        let parts = |pattern, path| matched(pattern, path);
        assert_eq!(parts("/", "/"), Some(vec![]));
        assert_eq!(parts("/butlers/*", "/butlers/health"), Some(vec!["health".to_owned()]));
        assert_eq!(parts("/a/*/b/*", "/a/x%20y/b/1+1"), Some(vec!["x y".to_owned(), "1+1".to_owned()]));
        for (pattern, path) in [("/butlers/*", "/butlers/"), ("/butlers/*", "/butlers"), ("/", "//"), ("/a", "/a/")] {
            assert_eq!(parts(pattern, path), None, "{pattern} {path}");
        }
        assert_eq!(parts("/a/*", "/a/x%2Fy"), None);
        assert!(matches!(find(&Method::HEAD, "/"), Found::Route(..)));
        assert!(matches!(find(&Method::DELETE, "/"), Found::OtherMethod));
        assert!(matches!(find(&Method::GET, "/nowhere"), Found::Nothing));
    }

    #[test]
    fn all_that_is_looked_at_is_a_page_but_streams_and_files() {
        let all = pages::ALL.iter().flat_map(|r| r.iter()).filter(|r| r.method == Method::GET && !r.page);
        let others: Vec<_> =
            all.map(|r| r.pattern).filter(|p| !p.starts_with("/live/") && !p.contains("/files/")).collect();
        assert!(others.is_empty(), "{others:?}");
    }

    #[test]
    fn no_path_is_declared_twice() {
        let mut all: Vec<(String, &str)> =
            pages::ALL.iter().flat_map(|r| r.iter()).map(|r| (r.method.to_string(), r.pattern)).collect();
        let many = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), many);
    }
}
