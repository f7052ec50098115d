//! Addresses: which may be asked at all, and what a server's href means.

use reqwest::Url;

use crate::error::DavError;

/// A longer href is nobody's.
const LONGEST_HREF: usize = 2048;

/// Whether credentials may go to this URL: by https, or by http to this machine itself.
///
/// # Errors
///
/// [`DavError::Address`] says what is wrong with it.
pub(crate) fn check(text: &str) -> Result<Url, DavError> {
    let bad = |why| DavError::Address { url: Url::parse(text).ok().and_then(|url| speakable(&url)), why };
    let mut url = base::url_for_secrets(text).map_err(bad)?;
    if url.fragment().is_some() || url.query().is_some() {
        return Err(bad("has a query or a fragment"));
    }
    let path = canonical(url.path()).ok_or_else(|| bad("has a path that can't be read"))?;
    url.set_path(&path);
    Ok(url)
}

/// What of an address from settings may stand in a sentence. It may hold a password in any of its parts, and a password
/// with a slash, a `#` or an `@` moves what is taken for the host: behind the last `@` alone there is none.
fn speakable(url: &Url) -> Option<String> {
    let behind = [Some(url.path()), url.query(), url.fragment()];
    let sure = url.origin().is_tuple() && !behind.into_iter().flatten().any(|part| part.contains('@'));
    sure.then(|| origin(url))
}

/// Scheme, host and port.
pub(crate) fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

pub(crate) fn host(url: &Url) -> String {
    url.host_str().unwrap_or("the server").to_owned()
}

/// The path that an href means, seen from `at`: absolute, each character written in one way only, so that equal paths are
/// equal texts.
///
/// # Errors
///
/// [`DavError::Elsewhere`] if it leads to another origin, [`DavError::Protocol`] if it can't be read.
pub(crate) fn resolve(at: &Url, href: &str) -> Result<String, DavError> {
    let unread = || DavError::Protocol {
        host: host(at),
        path: at.path().to_owned(),
        why: format!("it names an address that can't be read ({})", crate::error::plain(href)),
    };
    let href = href.trim();
    if href.is_empty() || href.len() > LONGEST_HREF {
        return Err(unread());
    }
    let url = at.join(href).map_err(|_| unread())?;
    if url.origin() != at.origin() || !url.username().is_empty() || url.password().is_some() {
        return Err(DavError::Elsewhere { host: host(at), to: crate::error::plain(&origin(&url)) });
    }
    canonical(url.path()).ok_or_else(unread)
}

/// A path with each segment decoded and encoded again; `None` if it is not UTF-8 or would climb.
fn canonical(path: &str) -> Option<String> {
    let mut out = String::with_capacity(path.len());
    for (n, segment) in path.split('/').enumerate() {
        if n > 0 {
            out.push('/');
        }
        let decoded = decode(segment)?;
        if decoded == "." || decoded == ".." {
            return None;
        }
        for byte in decoded.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~@:!$&'()*+,;=".contains(&byte) {
                out.push(byte as char);
            } else {
                out.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    Some(out)
}

fn decode(segment: &str) -> Option<String> {
    let bytes = segment.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        let hex = segment.get(at + 1..at + 3).filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
        match (bytes[at], hex.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 3;
            }
            (byte, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_go_by_tls_or_stay_on_this_machine() {
        for good in ["https://dav.example", "https://dav.example:8443/a/", "http://127.0.0.1:5232/", "http://[::1]:1/"]
        {
            assert!(check(good).is_ok(), "{good}");
        }
        for bad in [
            "http://dav.example/",
            "http://127.0.0.1.dav.example/",
            "https://ada:pw@dav.example/",
            "https://dav.example/?a=b",
            "https://dav.example/#x",
            "ftp://127.0.0.1/",
            "file:///etc/passwd",
            "dav.example",
            "",
        ] {
            let error = check(bad).unwrap_err();
            assert!(!error.to_string().contains("pw"), "{error}");
        }
    }

    #[test]
    fn a_mistyped_address_keeps_its_password() {
        for bad in [
            "https://ada:p/w@dav.example",
            "https://ada:12/w@dav.example?x",
            "https://ada:pa#ss@dav.example",
            "https://ada:12#ss@dav.example",
            "https://ada:p?w@dav.example",
            "https://ada:p@ss/w@dav.example",
            "ada:pw@dav.example",
            "//ada:pw@dav.example/",
            "ada:pw",
            "pw",
            "https://dav.example:pw/",
            "http://dav.example/pw/",
            "https://dav.example/?token=pw",
            "https://dav.example/#pw",
        ] {
            let said = check(bad).unwrap_err().to_string();
            for part in ["ada", "pw", "p/w", "12", "pa", "ss/", "ss@", "token"] {
                let words = said.replace("address", "").replace("password", "");
                assert!(!words.contains(part), "{bad}: {said}");
            }
        }
        let said = |text| check(text).unwrap_err().to_string();
        assert!(
            said("http://dav.example/a/").starts_with("the address http://dav.example does not begin with https://")
        );
        assert!(said("https://ada:pw@dav.example/").starts_with("the address https://dav.example holds a login"));
        assert!(said("dav.example").starts_with("the address in the settings is not a URL; set `url`"));
    }

    #[test]
    fn an_href_stays_at_its_origin_and_is_written_in_one_way() {
        let at = check("https://dav.example/cal/ada/").unwrap();
        for (href, path) in [
            ("/cal/ada/x.ics", "/cal/ada/x.ics"),
            ("x.ics", "/cal/ada/x.ics"),
            ("https://dav.example/cal/ada/x.ics", "/cal/ada/x.ics"),
            ("https://DAV.example:443/a%40b/%c3%a4", "/a@b/%C3%A4"),
            ("/a@b/ä", "/a@b/%C3%A4"),
            ("/a%2Fb/%25", "/a%2Fb/%25"),
            ("/100%", "/100%25"),
        ] {
            assert_eq!(resolve(&at, href).unwrap(), path, "{href}");
        }
        for href in ["https://evil.example/x", "//evil.example/x", "http://dav.example/x", "https://a@dav.example/x"] {
            assert!(matches!(resolve(&at, href), Err(DavError::Elsewhere { .. })), "{href}");
        }
        for href in ["", "/%ff", &"x".repeat(3000)] {
            assert!(matches!(resolve(&at, href), Err(DavError::Protocol { .. })), "{href}");
        }
        // Dots are resolved before anybody looks at the path.
        assert_eq!(resolve(&at, "../../../etc/%2e%2e/x").unwrap(), "/x");
    }
}
