//! The plain form in which texts and subjects are compared, and the hashes of it. Pure.

use sha2::{Digest, Sha256};
use uuid::Uuid;

/// The text in one line of lower-case words with single spaces: what of it counts when texts are compared.
pub fn normal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let c = match c {
            '\u{2018}' | '\u{2019}' | '\u{02bc}' | '`' => '\'',
            '\u{201c}' | '\u{201d}' | '\u{201e}' | '\u{00ab}' | '\u{00bb}' => '"',
            '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
            '\u{200b}'..='\u{200f}' | '\u{feff}' | '\u{00ad}' => continue,
            c => c,
        };
        if c.is_whitespace() || c.is_control() {
            if !out.is_empty() && !out.ends_with(' ') {
                out.push(' ');
            }
        } else {
            out.extend(c.to_lowercase());
        }
    }
    out.trim_end_matches([' ', '.', '!', ';', ',']).to_owned()
}

/// SHA-256 of the plain form.
pub fn content_hash(text: &str) -> String {
    digest(&normal(text))
}

fn digest(text: &str) -> String {
    base::text::hex(&Sha256::digest(text.as_bytes()))
}

/// Who is meant, as it is compared. A session speaks of its owner in many ways.
fn who(subject: &str) -> String {
    let subject = normal(subject);
    let plain = subject.strip_prefix("the ").unwrap_or(&subject);
    match plain {
        "user" | "owner" | "me" | "i" | "myself" | "self" => "owner".to_owned(),
        _ => plain.to_owned(),
    }
}

/// What a fact is about, without saying it: SHA-256 of its scope, its entity or else its subject, and its predicate.
pub fn topic_hash(scope: &str, entity: Option<Uuid>, subject: &str, predicate: &str) -> String {
    let about = entity.map_or_else(|| who(subject), |id| id.to_string());
    digest(&format!("{scope}\u{1f}{about}\u{1f}{predicate}"))
}

/// Whether two facts speak of the same.
pub fn same_subject(a: (Option<Uuid>, &str), b: (Option<Uuid>, &str)) -> bool {
    match (a.0, b.0) {
        (Some(a), Some(b)) => a == b,
        _ => who(a.1) == who(b.1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plain_form_does_not_hang_on_spaces_case_and_quotes() {
        assert_eq!(normal("  Ada’s  home\nis “Lyon”. "), "ada's home is \"lyon\"");
        assert_eq!(content_hash("Likes tea."), content_hash("likes  TEA"));
        assert_ne!(content_hash("weighs 80 kg"), content_hash("weighs 82 kg"));
        let topic = |subject: &str, entity| topic_hash("global", entity, subject, "home");
        assert_eq!(topic("User", None), topic("the owner", None));
        assert_ne!(topic("Ada", None), topic("Bea", None));
        assert_ne!(topic("Ada", Some(Uuid::nil())), topic("Ada", None));
    }
}
