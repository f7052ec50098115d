//! An origin in one way of writing.

/// An origin in one way of writing: `git@github.com:Acme/api.git` and `https://github.com/Acme/api` are
/// `github.com/acme/api`. `None`: a path or nothing, which says nothing of where a project comes from.
pub fn normal_origin(url: &str) -> Option<String> {
    let url = url.trim();
    let (host, path) = match url.split_once("://") {
        Some((scheme, rest)) => of_url(scheme, rest)?,
        None => of_ssh(url)?,
    };
    let (host, path) = (host.trim_end_matches('.').to_lowercase(), normal_path(path));
    (!host.is_empty() && !path.is_empty()).then(|| format!("{host}/{path}"))
}

/// Host (with its port, unless that is the usual one) and path of what stands behind `scheme://`.
fn of_url<'a>(scheme: &str, rest: &'a str) -> Option<(&'a str, &'a str)> {
    if scheme.eq_ignore_ascii_case("file") {
        return None;
    }
    let (authority, path) = rest.split_once('/')?;
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let usual = match scheme.to_ascii_lowercase().as_str() {
        "https" => ":443",
        "http" => ":80",
        "git" => ":9418",
        _ => ":22",
    };
    let bare = host.strip_suffix(usual).or_else(|| host.strip_suffix(":22")).or_else(|| host.strip_suffix(':'));
    // `[::22]` ends with no port.
    Some((bare.unwrap_or(host), path))
}

/// Host and path of `user@host:path`, as ssh has them.
fn of_ssh(url: &str) -> Option<(&str, &str)> {
    let login = url.find(['/', '@']).filter(|at| url[*at..].starts_with('@')).map_or(0, |at| at + 1);
    let rest = &url[login..];
    // The colons of an address stand in brackets.
    let colon = match rest.strip_prefix('[').and_then(|inner| inner.find(']')) {
        Some(end) => end + 2,
        None => rest.find(':')?,
    };
    let (host, path) = (rest.get(..colon)?, rest.get(colon..)?.strip_prefix(':')?);
    // `./a:b` is a path, and so is `c:\b`.
    let is_path = host.contains('/') || host.starts_with(['.', '~']) || (host.len() < 2 && login == 0);
    if is_path || path.starts_with(':') {
        return None;
    }
    // `[host:22]:path` names the port.
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host = inner.filter(|inner| inner.matches(':').count() < 2).unwrap_or(host);
    // A path below the home of one of several users; hosts of many repositories have one user, who is called so.
    let user = url[..login].trim_end_matches('@');
    if !user.is_empty() && user != "git" && inner.is_none() && !path.starts_with('/') {
        return Some((&url[..login + colon], path));
    }
    Some((host.strip_suffix(":22").unwrap_or(host), path))
}

fn normal_path(path: &str) -> String {
    let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let lower = |part: &str| part.to_lowercase();
    if let Some(last) = parts.last_mut() {
        // Not the name `.git` itself, which would leave nothing.
        *last = last.strip_suffix(".git").unwrap_or(last);
    }
    parts.into_iter().filter(|part| !part.is_empty()).map(lower).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::normal_origin;

    #[test]
    fn ways_of_writing_the_same_are_the_same() {
        for url in [
            "git@github.com:Acme/api.git",
            "github.com:acme/api",
            "https://github.com/Acme/api",
            "https://github.com/Acme/api/",
            "https://github.com/Acme/api.git/",
            "https://ada:secret@GitHub.com/Acme//api.git",
            "https://github.com:443/acme/api.git",
            "ssh://git@github.com/acme/api.git",
            "ssh://git@github.com:22/acme/api.git",
            "git@[github.com:22]:acme/api",
            "git+ssh://git@github.com/acme/api",
            "git://github.com:9418/acme/api.git",
            " https://github.com./acme/api.git\n",
        ] {
            assert_eq!(normal_origin(url).as_deref(), Some("github.com/acme/api"), "{url}");
        }
    }

    #[test]
    fn other_ports_and_addresses_stay() {
        let normal = |url| normal_origin(url).unwrap();
        assert_eq!(normal("ssh://git@host:2222/a/b.git"), "host:2222/a/b");
        assert_eq!(normal("https://host:8443/a"), "host:8443/a");
        assert_eq!(normal("ssh://git@[fe80::1]:22/a"), "[fe80::1]/a");
        assert_eq!(normal("git@[fe80::1]:a/b"), "[fe80::1]/a/b");
        assert_eq!(normal("git@h:~ada/b"), "h/~ada/b");
        assert_eq!(normal("git@host:/srv/api.git"), "host/srv/api");
    }

    #[test]
    fn paths_say_nothing() {
        for url in [
            "",
            " ",
            "/srv/api.git",
            "../api",
            "./a:b",
            "api",
            "file:///srv/api.git",
            "FILE://host/a",
            "~/api",
            "c:/api",
            "c:\\api",
            "https://github.com",
            "https://github.com/",
            "https:///a",
            "git@host:",
            "a/b:c",
            "helper::x",
        ] {
            assert_eq!(normal_origin(url), None, "{url}");
        }
    }
}
