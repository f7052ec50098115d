//! What became of letters that were sent: delivery reports (RFC 3464).

use super::clean;
use super::decode;
use super::fields::Fields;
use super::ids::ids;
use super::letter::DeliveryReport;
use super::mime::{Leaf, Tree};

/// Recipients of one report.
const MOST: usize = 100;
/// Characters of a server's words.
const LONGEST: usize = 500;
const ACTIONS: [&str; 5] = ["failed", "delayed", "delivered", "relayed", "expanded"];

/// What the letter reports, for each recipient. `answers` are the letters that it names as those that it answers.
pub(crate) fn reports(tree: &Tree<'_>, answers: &[String]) -> Vec<DeliveryReport> {
    let leaves = tree.leaves();
    let is_status = |leaf: &&&Leaf<'_>| {
        leaf.kind.is("message", "delivery-status") || leaf.kind.is("message", "global-delivery-status")
    };
    let Some(status) = leaves.iter().find(is_status) else { return Vec::new() };
    let message_id = leaves.iter().find_map(|leaf| returned(leaf)).or_else(|| answers.first().cloned());
    let content = status.content();
    let mut reports = Vec::new();
    let mut rest: &[u8] = &content;
    while !rest.is_empty() && reports.len() < MOST {
        let (fields, behind) = Fields::parse(rest);
        rest = behind;
        reports.extend(report(&fields, message_id.as_ref()));
    }
    reports
}

/// The name of the letter that came back, whole or its header alone.
fn returned(leaf: &Leaf<'_>) -> Option<String> {
    let header = leaf.kind.is("text", "rfc822-headers") || leaf.kind.is("message", "global-headers");
    if !header && !leaf.is_letter() {
        return None;
    }
    let content = leaf.content();
    let id = Fields::parse(&content).0.text("message-id")?;
    ids(&id).into_iter().next()
}

/// `None`: the block is about no recipient.
fn report(fields: &Fields<'_>, message_id: Option<&String>) -> Option<DeliveryReport> {
    // In front stands of what kind the value is.
    let value = |name: &str| {
        let value = fields.text(name)?;
        let value = value.split_once(';').map_or(value.as_str(), |(_, value)| value);
        Some(clean::line(&decode::words(value), LONGEST)).filter(|value| !value.is_empty())
    };
    let address = |name: &str| value(name).map(|address| address.trim_matches(['<', '>']).to_owned());
    let original = address("original-recipient");
    let recipient = address("final-recipient").or_else(|| original.clone())?;
    let status = clean::line(&fields.text("status").unwrap_or_default(), LONGEST);
    let status = status.split(' ').next().unwrap_or_default().to_owned();
    let action = fields.text("action").unwrap_or_default().trim().to_ascii_lowercase();
    let action = match ACTIONS.iter().find(|known| action.split([' ', '(']).next() == Some(**known)) {
        Some(known) => *known,
        None => match status.bytes().next()? {
            b'2' => "delivered",
            b'4' => "delayed",
            b'5' => "failed",
            _ => return None,
        },
    };
    let diagnostic = value("diagnostic-code");
    Some(DeliveryReport {
        message_id: message_id.cloned(),
        recipient,
        original,
        action: action.to_owned(),
        status,
        diagnostic,
    })
}
