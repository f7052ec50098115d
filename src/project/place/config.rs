//! A repository's settings, read as git writes them, for the one that is asked in each hook.

/// What a repository's `config` says of its origin.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OriginSetting {
    /// The first URL of the remote `origin`, from which git fetches.
    pub url: Option<String>,
    /// Whether other files are included, which may say it as well.
    pub has_includes: bool,
}

impl OriginSetting {
    pub fn read(config: &str) -> Self {
        let mut found = Self::default();
        let mut in_origin = false;
        let mut lines = config.lines();
        while let Some(line) = lines.next() {
            let mut line = line.trim_start();
            if let Some(header) = line.strip_prefix('[') {
                let Some((section, rest)) = header_of(header) else { continue };
                in_origin = section == ("remote".to_owned(), Some("origin".to_owned()));
                found.has_includes |= section.0 == "include" || section.0 == "includeif";
                line = rest.trim_start();
            }
            if line.starts_with(['#', ';']) {
                continue;
            }
            // Whatever it belongs to: a line that goes on must not be taken for the next one.
            let (value, key) = (line.split_once('='), line.split('=').next().unwrap_or_default().trim());
            let mut reader = ValueReader::default();
            let mut part = value.map_or("", |(_, value)| value);
            while reader.goes_on_after(part) {
                let Some(next) = lines.next() else { break };
                part = next;
            }
            if in_origin && found.url.is_none() && key.eq_ignore_ascii_case("url") {
                found.url = Some(reader.value()).filter(|url| !url.is_empty());
            }
        }
        found
    }
}

/// A section's name in lower case, its subsection, and what stands behind the bracket.
fn header_of(header: &str) -> Option<((String, Option<String>), &str)> {
    let end = header.find([']', '"'])?;
    if header[end..].starts_with(']') {
        return Some(((header[..end].trim().to_lowercase(), None), &header[end + 1..]));
    }
    let section = header[..end].trim().to_lowercase();
    let (mut name, mut escaped) = (String::new(), false);
    for (at, c) in header[end + 1..].char_indices() {
        match c {
            '\\' if !escaped => escaped = true,
            '"' if !escaped => {
                let rest = header[end + 1 + at + 1..].trim_start().strip_prefix(']')?;
                return Some(((section, Some(name)), rest));
            }
            c => {
                name.push(c);
                escaped = false;
            }
        }
    }
    None
}

/// Reads a value that may be quoted and go on in the next line.
#[derive(Default)]
struct ValueReader {
    value: String,
    /// So much of it is no white space at its end.
    kept: usize,
    quoted: bool,
}

impl ValueReader {
    fn goes_on_after(&mut self, line: &str) -> bool {
        let mut chars = line.chars();
        while let Some(c) = chars.next() {
            match c {
                '\\' => match chars.next() {
                    None => return true,
                    Some(c) => self.push(match c {
                        'n' => '\n',
                        't' => '\t',
                        other => other,
                    }),
                },
                '"' => {
                    self.quoted = !self.quoted;
                    self.kept = self.value.len();
                }
                '#' | ';' if !self.quoted => return false,
                c if c.is_whitespace() && !self.quoted => {
                    if !self.value.is_empty() {
                        self.value.push(c);
                    }
                }
                c => self.push(c),
            }
        }
        false
    }

    fn push(&mut self, c: char) {
        self.value.push(c);
        self.kept = self.value.len();
    }

    fn value(mut self) -> String {
        self.value.truncate(self.kept);
        self.value
    }
}

#[cfg(test)]
mod tests {
    use super::OriginSetting;

    #[test]
    fn the_url_is_read_as_git_reads_it() {
        let url = |text: &str| OriginSetting::read(text).url;
        let usual = "[core]\n\tbare = false\n[remote \"up\"]\n\turl = no\n[remote \"origin\"]\n\turl = git@h:a/b.git\n\tfetch = +x\n";
        assert_eq!(url(usual).as_deref(), Some("git@h:a/b.git"));
        assert_eq!(url("[REMOTE \"origin\"] URL=\"https://h/a # b\" ; why\n").as_deref(), Some("https://h/a # b"));
        assert_eq!(url("[remote \"origin\"]\n url = https://h/\\\na  # why\n").as_deref(), Some("https://h/a"));
        assert_eq!(url("[remote \"origin\"]\nurl = one\nurl = two\n").as_deref(), Some("one"));
        assert_eq!(url("[remote \"Origin\"]\nurl = one\n"), None);
        assert_eq!(url("[remote \"origin\"]\npushurl = one\n[branch \"x\"]\nurl = two\n"), None);
        assert_eq!(url("[alias]\n x = \"!f() { \\\n[remote \\\"origin\\\"]\\\nurl = no\"\n"), None);
        assert_eq!(url("[remote \"origin\"]\n# url = no\n; url = no\n"), None);
        assert_eq!(url("broken ] [\n[remote \"origin\n\\"), None);
    }

    #[test]
    fn includes_are_noticed() {
        assert!(OriginSetting::read("[include]\n\tpath = x\n").has_includes);
        assert!(OriginSetting::read("[includeIf \"gitdir:~/w/\"]\n\tpath = x\n").has_includes);
        assert!(!OriginSetting::read("[core]\n\tinclude = x\n").has_includes);
    }
}
