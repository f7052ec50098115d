//! A page's markup as a browser would take it: its tags, what could run in it, where it leads, and its forms.

/// A tag that begins something, or ends it where its name begins with a slash.
pub struct Tag {
    pub name: String,
    pub attributes: Vec<(String, String)>,
}

impl Tag {
    pub fn value(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

/// A form that changes something, with the fields that it sends as it stands.
#[derive(Clone, Debug)]
pub struct Form {
    pub action: String,
    pub fields: Vec<(String, String)>,
}

/// All tags of a page.
pub fn tags(html: &str) -> Vec<Tag> {
    let (mut all, mut rest) = (Vec::new(), html);
    while let Some((_, after)) = rest.split_once('<') {
        let (tag, left) = tag(after);
        all.push(tag);
        rest = left;
    }
    all
}

fn tag(text: &str) -> (Tag, &str) {
    let (name, mut rest) = word(text, &[]);
    let mut attributes = Vec::new();
    loop {
        rest = rest.trim_start();
        if rest.is_empty() || rest.starts_with('>') {
            return (Tag { name: name.to_ascii_lowercase(), attributes }, rest);
        }
        let (name, left) = word(rest, &['=']);
        let (value, left) = match left.strip_prefix('=') {
            None => ("", left),
            Some(after) => match after.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
                None => word(after, &[]),
            },
        };
        attributes.push((name.to_ascii_lowercase(), plain(value)));
        rest = left;
    }
}

/// What comes before a blank, the tag's end, or one of these.
fn word<'a>(text: &'a str, more: &[char]) -> (&'a str, &'a str) {
    let end = text.find(|c: char| c.is_whitespace() || c == '>' || more.contains(&c)).unwrap_or(text.len());
    text.split_at(end)
}

fn plain(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

/// Text as a page holds it.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// What a page of ours never has: a tag or an attribute that runs, loads or leads anything that is not ours.
pub fn live(html: &str) -> Vec<String> {
    let mut found = Vec::new();
    for tag in tags(html) {
        let foreign = ["iframe", "object", "embed", "base", "style", "template", "math", "frame"];
        let script = tag.name == "script" && !tag.value("src").is_some_and(|src| src.starts_with("/assets/"));
        if foreign.contains(&tag.name.as_str()) || script || tag.value("http-equiv").is_some() {
            found.push(format!("<{}> {:?}", tag.name, tag.attributes));
        }
        for (name, value) in &tag.attributes {
            let leads = ["href", "src", "action", "formaction", "hx-get", "data-live", "data-stream"];
            let own = value.is_empty() || (value.starts_with(['/', '#', '?']) && !value.starts_with("//"));
            let runs = name.starts_with("on") || ["style", "srcdoc", "xlink:href"].contains(&name.as_str());
            if runs || (leads.contains(&name.as_str()) && !own) {
                found.push(format!("<{} {name}={value:?}>", tag.name));
            }
        }
    }
    found
}

/// Where a page's links lead, in this daemon.
pub fn links(html: &str) -> Vec<String> {
    let all = tags(html);
    let links = all.iter().filter(|tag| tag.name == "a").filter_map(|tag| tag.value("href"));
    links.filter(|to| to.starts_with('/')).map(|to| to.split('#').next().unwrap_or_default().to_owned()).collect()
}

/// The forms of a page that change something, filled in as little as they may be.
pub fn forms(html: &str) -> Vec<Form> {
    let mut all: Vec<Form> = Vec::new();
    let mut inside = false;
    for tag in tags(html) {
        match tag.name.as_str() {
            "form" => {
                inside = tag.value("method") == Some("post");
                if inside {
                    let action = tag.value("action").unwrap_or_default().to_owned();
                    all.push(Form { action, fields: Vec::new() });
                }
                continue;
            }
            "/form" => inside = false,
            _ => {}
        }
        let Some(form) = all.last_mut().filter(|_| inside) else { continue };
        let value = tag.value("value").unwrap_or_default();
        match (tag.name.as_str(), tag.value("name")) {
            // The session's own mark is left to whoever sends the form.
            (_, Some("form")) => {}
            ("input", Some(name)) => {
                let value = if value.is_empty() { "1" } else { value };
                form.fields.push((name.to_owned(), value.to_owned()));
            }
            ("textarea", Some(name)) => form.fields.push((name.to_owned(), "x".to_owned())),
            ("select", Some(name)) => form.fields.push((name.to_owned(), String::new())),
            ("option", _) => {
                if let Some((_, chosen)) = form.fields.last_mut().filter(|(_, chosen)| chosen.is_empty()) {
                    value.clone_into(chosen);
                }
            }
            _ => {}
        }
    }
    all
}

/// Whether a path is one that a pattern declares; `*` stands for one part of it.
pub fn fits(pattern: &str, path: &str) -> bool {
    let (wanted, given): (Vec<&str>, Vec<&str>) = (pattern.split('/').collect(), path.split('/').collect());
    wanted.len() == given.len() && wanted.iter().zip(given).all(|(wanted, given)| *wanted == "*" || *wanted == given)
}
