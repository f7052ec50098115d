//! A rule as the arguments of a call give it.

use uuid::Uuid;

use super::rules::{Kind, Rule};
use crate::handle::Inbox;
use crate::types::Action;
use tools::{ToolCall, ToolError};

/// The rule that the arguments speak of, if they are sound.
pub(super) fn rule_of(call: &ToolCall, inbox: &Inbox) -> Result<Rule, ToolError> {
    let wrong = |why: String| ToolError::refused("invalid_rule", why);
    let text = |name: &str| call.text(name).map(str::trim).unwrap_or_default();
    let kind = Kind::from_name(text("kind")).ok_or_else(|| wrong("A rule needs a kind.".to_owned()))?;
    let action = serde_json::from_value::<Action>(text("action").into());
    let action = action.map_err(|_| wrong("A rule needs an action.".to_owned()))?;
    let pattern = text("pattern");
    if let Some(why) = mistake(kind, pattern) {
        return Err(wrong(why));
    }
    let butler = call.text("butler").map(str::to_owned);
    match (action, &butler) {
        (Action::RouteTo, butler) => {
            let named = butler.as_deref().unwrap_or_default();
            if let Some(there) = inbox.butlers().others_than(named) {
                let there = there.join(", ");
                return Err(match butler {
                    None => wrong(format!("route_to needs a butler; there are: {there}.")),
                    Some(butler) => {
                        let why = format!("There is no butler `{butler}` to route to; there are: {there}.");
                        ToolError::refused("unknown_butler", why)
                    }
                });
            }
        }
        (_, None) => {}
        (action, Some(_)) => return Err(wrong(format!("Only route_to takes a butler, not {}.", action.as_str()))),
    }
    let note = call.text("note").map(str::to_owned);
    Ok(Rule { id: Uuid::now_v7(), position: 0, kind, pattern: pattern.to_owned(), action, butler, enabled: true, note })
}

/// Why a pattern can never fit.
fn mistake(kind: Kind, pattern: &str) -> Option<String> {
    if pattern.is_empty() {
        return Some("The pattern is empty.".to_owned());
    }
    match kind {
        Kind::SenderDomain if pattern.trim_start_matches('@').contains('@') || pattern == "@" => {
            Some(format!("`{pattern}` is not a domain; give example.org, or the kind sender_address for one sender."))
        }
        Kind::Header if pattern.split(':').next().is_none_or(|name| name.trim().is_empty()) => {
            Some(format!("`{pattern}` names no header; write it as in `List-Id: news`."))
        }
        Kind::MimeType if !pattern.contains('/') => {
            Some(format!("`{pattern}` is not a type; give text/calendar, or image/* for a family."))
        }
        _ => None,
    }
}

pub(super) fn no_such_rule() -> ToolError {
    ToolError::refused("not_found", "There is no rule of that id; triage_rule_list (butlerd rules list) shows them.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_can_never_fit_are_named() {
        for (kind, pattern) in [
            (Kind::Substring, ""),
            (Kind::SenderDomain, "ada@example.org"),
            (Kind::Header, ": x"),
            (Kind::MimeType, "calendar"),
        ] {
            assert!(mistake(kind, pattern).is_some(), "{kind:?} {pattern:?}");
        }
        for (kind, pattern) in [
            (Kind::SenderDomain, "@example.org"),
            (Kind::Header, "List-Id"),
            (Kind::Header, "Precedence: bulk"),
            (Kind::MimeType, "image/*"),
            (Kind::SenderAddress, "ada@example.org"),
        ] {
            assert_eq!(mistake(kind, pattern), None, "{kind:?} {pattern:?}");
        }
    }
}
