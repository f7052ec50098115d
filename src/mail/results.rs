//! Who put `Authentication-Results` on a letter: asked when a mailbox is connected, so that its owner can say whom they
//! believe. It proves nothing yet.

/// The name that the server gives itself in the topmost field; `None`: there is none.
pub fn results_server(raw: &[u8]) -> Option<String> {
    let head = raw.split(|b| *b == b'\n').take(500).take_while(|line| !line.trim_ascii().is_empty());
    let mut lines = head.map(|line| String::from_utf8_lossy(line).into_owned());
    let field = lines.find(|line| line.to_ascii_lowercase().starts_with("authentication-results:"))?;
    let value = field.split_once(':')?.1.trim().to_owned();
    let value = if value.is_empty() { lines.next()?.trim().to_owned() } else { value };
    let name = value.split([';', ' ', '\t', '(']).next()?.trim();
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    (!name.is_empty() && name.len() <= 253 && name.chars().all(plain)).then(|| name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::results_server;

    #[test]
    fn the_topmost_field_names_the_server() {
        let raw = b"Received: x\r\nAuthentication-Results: MX.example.org 1;\r\n dmarc=pass\r\nAuthentication-Results: evil;\r\n\r\nx";
        assert_eq!(results_server(raw).as_deref(), Some("mx.example.org"));
        assert_eq!(
            results_server(b"Authentication-Results:\r\n mx.google.com;\r\n\r\n").as_deref(),
            Some("mx.google.com")
        );
        assert_eq!(results_server(b"Subject: x\r\n\r\nAuthentication-Results: evil;"), None);
    }
}
