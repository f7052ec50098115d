//! Whether a machine wrote a letter.

use super::fields::Fields;
use super::letter::Automatic;
use super::mime::{Node, Tree};

/// What the letter says of itself. `address` is the sender's.
pub(crate) fn automatic(fields: &Fields<'_>, tree: &Tree<'_>, address: &str) -> Option<Automatic> {
    let says = |name: &str| fields.text(name).map(|value| first_word(&value));
    let is_yes = |name: &str| says(name).is_some_and(|value| !matches!(value.as_str(), "" | "no" | "false"));
    let local = address.rsplit_once('@').map_or(address, |(local, _)| local).to_lowercase();
    let submitted = says("auto-submitted").filter(|value| !value.is_empty() && value != "no");
    let precedence = says("precedence").unwrap_or_default();

    if is_report(tree) {
        return Some(Automatic::Report);
    }
    let replied = submitted.as_deref() == Some("auto-replied");
    if replied || is_yes("x-autoreply") || is_yes("x-autorespond") || precedence == "auto_reply" {
        return Some(Automatic::Reply);
    }
    let no_way_back =
        fields.text("return-path").is_some_and(|path| path.split_whitespace().collect::<String>() == "<>");
    if no_way_back || matches!(local.as_str(), "mailer-daemon" | "postmaster") {
        return Some(Automatic::Report);
    }
    let listed = fields.has("list-id") || fields.has("list-post");
    if listed || matches!(precedence.as_str(), "bulk" | "junk" | "list") {
        return Some(Automatic::List);
    }
    let plain: String = local.chars().filter(|c| c.is_alphanumeric()).collect();
    let nobody = ["noreply", "donotreply", "nepasrepondre", "noresponder", "nichtantworten"];
    let notice = submitted.is_some()
        || fields.has("list-unsubscribe")
        || is_yes("x-auto-response-suppress") && says("x-auto-response-suppress").as_deref() != Some("none")
        || nobody.iter().any(|name| plain.contains(name));
    notice.then_some(Automatic::Notice)
}

/// In lower case, without what is said about it.
fn first_word(value: &str) -> String {
    value.split([' ', ';', '(', ',']).find(|word| !word.is_empty()).unwrap_or_default().to_ascii_lowercase()
}

/// What became of a letter, or that somebody opened it.
fn is_report(tree: &Tree<'_>) -> bool {
    let Node::Many { kind, .. } = &tree.root else { return false };
    let about = kind.parameter("report-type").unwrap_or_default().to_ascii_lowercase();
    let known =
        ["delivery-status", "global-delivery-status", "disposition-notification", "global-disposition-notification"];
    kind.sub == "report" && (known.contains(&about.as_str()) || about.is_empty())
}
