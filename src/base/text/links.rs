//! Links that do nothing: no program that shows the text makes a link of it, previews it or fetches anything.
//!
//! Two steps. A link that is recognised is shortened to its host, and what its address carries besides is named. Then
//! *every* text goes through [`disarm`], which looks at single characters and knows no forms of links: a dot or a colon
//! that could join the parts of an address is bracketed, and the pairs that begin an image, a link, a tag or an entity
//! are parted. What the first step overlooks is disarmed all the same.

use std::borrow::Cow;

use serde_json::Value;

use super::visible::{is_mark, readable};
use crate::Trust;

/// The longest name of a page that is taken for nothing but a name, and of the machine before a domain.
const PLAIN_NAME: usize = 24;
const PLAIN_MACHINE: usize = 12;
/// Names of a path that are taken for nothing but a place.
const PLAIN_NAMES: usize = 2;
/// Of what an address carries, this much is shown.
const CARRIED: usize = 2000;
/// The longest name of a character in HTML, with its semicolon.
const LONGEST_ENTITY: usize = 33;
/// The longest address of IP version 4.
const LONGEST_IP: usize = 15;

/// A text for the owner, made by somebody of this trust. The owner's own words and those of the house are as they are;
/// in all others links do nothing.
pub fn for_owner(text: &str, trust: Trust) -> Cow<'_, str> {
    match trust >= Trust::System {
        true => Cow::Borrowed(text),
        false => Cow::Owned(inert(text)),
    }
}

/// As [`for_owner`], for each text in a value.
pub fn value_for_owner(value: &mut Value, trust: Trust) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(told) = for_owner(text, trust) {
                *text = told;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| value_for_owner(item, trust)),
        Value::Object(members) => {
            for (name, mut member) in std::mem::take(members) {
                value_for_owner(&mut member, trust);
                members.insert(for_owner(&name, trust).into_owned(), member);
            }
        }
        _ => {}
    }
}

/// The text with links that do nothing, each with what its address carries: `hxxps://example[.]org/… (this address
/// carries 9 characters: w=82.4kg)`. What can't be seen is made visible.
pub fn inert(text: &str) -> String {
    let text = readable(text);
    let mut named = String::with_capacity(text.len());
    let (mut rest, ends) = (text.as_str(), |c: char| c.is_whitespace() || "<>\"`|".contains(c));
    while !rest.is_empty() {
        let end = rest.find(ends).unwrap_or(rest.len());
        let (token, after) = rest.split_at(end);
        match Link::find(token) {
            Some(link) => link.write(token, &mut named),
            None => named.push_str(token),
        }
        let gap = after.find(|c| !ends(c)).unwrap_or(after.len());
        named.push_str(&after[..gap]);
        rest = &after[gap..];
    }
    disarm(&named)
}

/// An address in a text, by what it carries.
struct Link<'t> {
    /// Where it stands in its token.
    start: usize,
    end: usize,
    /// What is shown of it: as it is, if it carries nothing.
    shown: String,
    /// What it tells whoever fetches it, besides the name of a page.
    carried: Vec<&'t str>,
}

impl<'t> Link<'t> {
    /// The first address in a text without blanks. One that is no address yet, such as a lone scheme, is none.
    fn find(token: &'t str) -> Option<Self> {
        let word = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
        let colon = token.match_indices(':').map(|(at, _)| at).find(|at| {
            let scheme = &token[token[..*at].rfind(|c| !word(c)).map_or(0, |n| n + step(&token[n..]))..*at];
            let begins = scheme.starts_with(|c: char| c.is_ascii_alphabetic());
            // A host with its port is no scheme.
            begins && !scheme.contains('.') && token.len() > at + 1
        });
        let Some(colon) = colon else { return Self::bare(token) };
        let start = token[..colon].rfind(|c| !word(c)).map_or(0, |n| n + step(&token[n..]));
        let end = start + trimmed(&token[start..]).len();
        if end <= colon + 1 {
            return None;
        }
        let (scheme, rest) = (&token[start..colon], &token[colon + 1..end]);
        let Some(rest) = rest.strip_prefix("//").or_else(|| rest.strip_prefix("\\\\")) else {
            let (address, more) = rest.find(['?', '#']).map_or((rest, ""), |at| rest.split_at(at));
            let plain = ["mailto", "tel", "sms"].iter().any(|s| scheme.eq_ignore_ascii_case(s));
            let carried = match plain {
                true => more.get(1..).filter(|more| !more.is_empty()),
                false => Some(rest).filter(|rest| rest.chars().count() > PLAIN_NAME),
            };
            let shown = match carried {
                Some(_) if plain => format!("{scheme}:{address}…"),
                Some(_) => format!("{scheme}:…"),
                None => token[start..end].to_owned(),
            };
            return Some(Self { start, end, shown, carried: carried.into_iter().collect() });
        };
        Some(Self::of(start, end, &token[start..end], &format!("{scheme}://"), rest))
    }

    /// An address without a scheme, if it carries something: `evil.org/?w=82`.
    fn bare(token: &'t str) -> Option<Self> {
        let start = token.find(char::is_alphanumeric)?;
        let text = trimmed(&token[start..]);
        let host = text.split(['/', '?', '#', '\\']).next().unwrap_or_default();
        let domain = host.rsplit('@').next().unwrap_or_default().split(':').next().unwrap_or_default();
        let (name, top) = domain.rsplit_once('.')?;
        let is_domain = !name.is_empty() && top.chars().count() > 1 && top.chars().all(char::is_alphabetic);
        let is_number = !domain.is_empty() && domain.split('.').count() == 4 && domain.split('.').all(is_byte);
        // An e-mail address carries nothing by itself.
        let names_more = text.len() > host.len() || !host.contains('@');
        ((is_domain || is_number) && names_more).then(|| Self::of(start, start + text.len(), text, "", text))
    }

    /// What `rest`, an address from its host on, carries.
    fn of(start: usize, end: usize, whole: &str, scheme: &str, rest: &'t str) -> Self {
        let (authority, path) = rest.find(['/', '?', '#', '\\']).map_or((rest, ""), |at| rest.split_at(at));
        let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        let mut carried: Vec<&str> = user.into_iter().filter(|user| !user.is_empty()).collect();
        carried.extend(machine(host).filter(|name| !is_machine(name)));
        let place = path.trim_start_matches(['/', '\\']);
        let beyond = (!is_place(path)).then_some(place).filter(|place| !place.is_empty());
        carried.extend(beyond);
        let shown = match carried.is_empty() {
            true => whole.to_owned(),
            false if beyond.is_some() => format!("{scheme}{host}/…"),
            false => format!("{scheme}{host}{path}"),
        };
        Self { start, end, shown, carried }
    }

    fn write(&self, token: &str, out: &mut String) {
        out.push_str(&token[..self.start]);
        out.push_str(&self.shown);
        if !self.carried.is_empty() {
            let count: usize = self.carried.iter().map(|part| part.chars().count()).sum();
            let parts = self.carried.join(" ");
            let cut = parts.char_indices().nth(CARRIED).map_or("", |_| "…");
            let parts: String = parts.chars().take(CARRIED).collect();
            let noun = if count == 1 { "character" } else { "characters" };
            out.push_str(&format!(" (this address carries {count} {noun}: {parts}{cut})"));
        }
        out.push_str(&token[self.end..]);
    }
}

/// How many bytes the first character has.
fn step(text: &str) -> usize {
    text.chars().next().map_or(0, char::len_utf8)
}

/// Without what ends a sentence or a bracket that was opened before.
fn trimmed(text: &str) -> &str {
    let mut text = text;
    loop {
        let last = text.chars().next_back();
        let open = match last {
            Some('.' | ',' | ';' | ':' | '!' | '\'') => None,
            Some(')') => Some('('),
            Some(']') => Some('['),
            Some('}') => Some('{'),
            _ => return text,
        };
        let close = last.unwrap_or_default();
        if open.is_some_and(|open| text.matches(open).count() >= text.matches(close).count()) {
            return text;
        }
        text = &text[..text.len() - close.len_utf8()];
    }
}

fn is_byte(part: &str) -> bool {
    part.len() <= 3 && part.parse::<u16>().is_ok_and(|n| n < 256)
}

/// What stands before the domain and its top: `a.b` of `a.b.example.org:80`.
fn machine(host: &str) -> Option<&str> {
    let host = host.split(':').next().unwrap_or_default();
    if host.split('.').all(|part| part.parse::<u32>().is_ok()) {
        return None;
    }
    let domain = host.rsplit_once('.').map_or(host, |(rest, _)| rest);
    domain.rsplit_once('.').map(|(machine, _)| machine)
}

/// A name such as people give: letters and hyphens, and not many.
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name.chars().count() <= PLAIN_NAME
        && name.chars().all(|c| c.is_alphabetic() || c == '-' || c == '_')
}

/// The name of a machine such as `www` or `docs.en`.
fn is_machine(name: &str) -> bool {
    name.len() <= PLAIN_MACHINE && name.split('.').count() <= 2 && name.split('.').all(is_plain)
}

/// Whether a path is the plain name of a page: at most two such names, and the kind of a file.
fn is_place(path: &str) -> bool {
    let names: Vec<&str> = path.split(['/', '\\']).filter(|name| !name.is_empty()).collect();
    let known = |name: &&str| {
        let (name, kind) = name.rsplit_once('.').unwrap_or((name, "html"));
        is_plain(name) && ["html", "htm", "php", "pdf", "txt", "md"].contains(&kind)
    };
    names.len() <= PLAIN_NAMES && names.iter().all(known)
}

/// Parts what a program would make a link, an image or a tag of, whatever it looks like as a whole.
fn disarm(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for (at, c) in chars.iter().copied().enumerate() {
        match c {
            '.' | '。' | '．' | '｡' | '․' | '﹒' if joins_names(&chars, at) => bracketed("[.]", &mut out),
            ':' | '：' | '﹕' | '꞉' | '∶' if ends_scheme(&chars, at) => colon(&chars, at, &mut out),
            '<' if after(&chars, at).is_some_and(|next| next.is_ascii_alphabetic() || "/!?@#&%$⟨".contains(next)) => {
                out.push('‹');
            }
            '&' if begins_entity(&chars, at) => out.push_str("& "),
            // `](`, `][`, `]:`, `![`, `[[`, `\\host`.
            '(' | '[' | ':' if out.ends_with(']') => out.extend([' ', c]),
            '[' if out.ends_with(['!', '[']) || begins_tag(&chars, at) => {
                out.extend([if out.ends_with(['!', '[']) { " [" } else { "[ " }])
            }
            '\\' if out.ends_with('\\') => out.push_str(" \\"),
            _ => out.push(c),
        }
    }
    out
}

/// What is not drawn, or only says how other characters are drawn: programs skip it before they look for links.
fn is_skipped(c: char) -> bool {
    matches!(c, '\\' | '*' | '_' | '~' | '`' | '|' | '\u{200C}' | '\u{200D}' | '\u{FE0F}') || is_mark(c)
}

fn before(chars: &[char], at: usize) -> Option<char> {
    chars[..at].iter().rev().copied().find(|c| !is_skipped(*c))
}

fn after(chars: &[char], at: usize) -> Option<char> {
    chars[at + 1..].iter().copied().find(|c| !is_skipped(*c))
}

/// Whether a dot stands between two names of a domain or two numbers of an IP address.
fn joins_names(chars: &[char], at: usize) -> bool {
    let (Some(left), Some(right)) = (before(chars, at), after(chars, at)) else { return false };
    if !left.is_alphanumeric() || !right.is_alphanumeric() {
        return false;
    }
    if matches!(chars[at], '。' | '｡') && left as u32 > 0x2E80 && right as u32 > 0x2E80 && !is_wide_ascii(left, right)
    {
        // The full stop of Chinese and Japanese, between two sentences.
        return false;
    }
    if left.is_ascii_digit() && right.is_ascii_digit() && chars[at] == '.' {
        return is_in_ip(chars, at);
    }
    // No domain ends in a single letter: `e.g.`
    let tail = chars[at + 1..].iter().take_while(|c| c.is_alphanumeric() || **c == '-' || is_skipped(**c));
    !(right.is_ascii_alphabetic() && tail.take(2).count() == 1)
}

fn is_wide_ascii(left: char, right: char) -> bool {
    [left, right].iter().any(|c| ('\u{FF01}'..='\u{FF5E}').contains(c))
}

/// Whether the dot is one of an address such as `192.0.2.1`, and not of a number or a date.
fn is_in_ip(chars: &[char], at: usize) -> bool {
    let part = |c: &&char| c.is_ascii_digit() || **c == '.';
    let left: Vec<char> = chars[..at].iter().rev().take(LONGEST_IP).take_while(part).copied().collect();
    let run: String = left.iter().rev().chain(chars[at..].iter().take(LONGEST_IP).take_while(part)).collect();
    let parts: Vec<&str> = run.split('.').collect();
    parts.windows(4).any(|four| four.iter().all(|part| is_byte(part)))
}

/// The word that a colon ends: letters, digits and `+-.`, full-width ones as plain ones, in lower case.
fn word_before(chars: &[char], at: usize) -> String {
    let plain = |c: char| match u32::from(c) {
        n @ 0xFF01..=0xFF5E => char::from_u32(n - 0xFEE0).unwrap_or(c),
        _ => c,
    };
    let word = chars[..at].iter().rev().copied().filter(|c| !is_skipped(*c)).map(plain);
    let word: Vec<char> = word.take_while(|c| c.is_ascii_alphanumeric() || "+-.".contains(*c)).collect();
    word.into_iter().rev().collect::<String>().to_ascii_lowercase()
}

/// Whether a colon ends the scheme of an address: `https:`, `tel:`, `anything:there`. Not that of a time or of a
/// sentence.
fn ends_scheme(chars: &[char], at: usize) -> bool {
    let Some(next) = after(chars, at).filter(|c| !c.is_whitespace()) else { return false };
    let word = word_before(chars, at);
    // A dot of the sentence before it is no part of a scheme.
    let word = word.trim_start_matches(['+', '-', '.']);
    let last = word.rsplit(['+', '-', '.']).next().unwrap_or_default();
    let known = ["http", "https", "ftp", "data", "javascript", "mailto", "tel"].contains(&last);
    let slash = "/／\\∕⁄".contains(next) || chars.get(at + 1) == Some(&'\\');
    match chars[at] {
        ':' => [word, last].iter().any(|of| of.starts_with(|c: char| c.is_ascii_alphabetic())) || slash,
        _ => slash || known,
    }
}

/// Puts brackets where they begin no image, reference or wiki link with what stands before them.
fn bracketed(what: &str, out: &mut String) {
    if out.ends_with(['[', ']', '!']) {
        out.push(' ');
    }
    out.push_str(what);
}

fn colon(chars: &[char], at: usize, out: &mut String) {
    let word = word_before(chars, at);
    let web = match word.as_str() {
        "http" => "hxxp",
        "https" => "hxxps",
        _ => "",
    };
    let begin = out.len().saturating_sub(word.len());
    if !web.is_empty() && chars[at] == ':' && out.as_bytes()[begin..].eq_ignore_ascii_case(word.as_bytes()) {
        out.truncate(begin);
        out.push_str(web);
        out.push(':');
    } else {
        bracketed("[:]", out);
    }
}

/// `&#58;`, `&colon;`
fn begins_entity(chars: &[char], at: usize) -> bool {
    let mut rest = chars[at + 1..].iter().filter(|c| !is_skipped(**c)).take(LONGEST_ENTITY);
    let first = rest.next();
    first == Some(&'#')
        || first.is_some_and(char::is_ascii_alphanumeric) && rest.find(|c| !c.is_ascii_alphanumeric()) == Some(&';')
}

/// `[img]`, `[url=…]`
fn begins_tag(chars: &[char], at: usize) -> bool {
    let name: String = chars[at + 1..].iter().take_while(|c| c.is_ascii_alphabetic()).take(8).collect();
    ["img", "url", "video", "audio", "media", "youtube"].contains(&name.to_ascii_lowercase().as_str())
}

#[cfg(test)]
#[path = "links_tests.rs"]
mod tests;
