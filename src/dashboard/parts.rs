//! The few pieces that all pages are made of.

use base::Money;
use maud::{Markup, html};
use serde_json::Value;

/// How good or bad something is, as a colour with a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(super) enum Tone {
    Good,
    Busy,
    Warn,
    Bad,
    Quiet,
}

base::named!(Tone);

impl Tone {
    /// What a state's name usually means.
    pub fn of(state: &str) -> Self {
        match state {
            "up" | "succeeded" | "success" | "ok" | "sent" | "done" | "approved" | "executed" | "active" | "ran"
            | "delivered" | "answered" | "healthy" | "triggered" => Tone::Good,
            "running" | "booting" | "draining" | "sending" | "processing" | "claimed" | "starting" => Tone::Busy,
            "queued" | "pending" | "waiting" | "deferred" | "unknown" | "late" | "stale" | "interrupted" | "paused"
            | "skipped" | "rerouted" => Tone::Warn,
            "failed" | "dead" | "parked" | "timed_out" | "error" | "rejected" | "quarantined" | "cascade_failed"
            | "refused" => Tone::Bad,
            _ => Tone::Quiet,
        }
    }
}

/// A state as a small label.
pub(super) fn badge(state: &str) -> Markup {
    toned(Tone::of(state), &state.replace('_', " "))
}

/// A word in a tone.
pub(super) fn toned(tone: Tone, text: &str) -> Markup {
    html! { span class={ "badge " (tone.as_str()) } { (text) } }
}

/// A list that has nothing in it.
pub(super) fn empty(sentence: &str) -> Markup {
    html! { p.empty { (sentence) } }
}

/// Something to know before all else.
pub(super) fn note(tone: Tone, body: &Markup) -> Markup {
    let role = if matches!(tone, Tone::Bad | Tone::Warn) { "alert" } else { "status" };
    html! { div class={ "note " (tone.as_str()) } role=(role) { (body) } }
}

/// What can't be seen just now.
pub(super) fn unavailable(all: &[admin::Unavailable]) -> Markup {
    html! {
        @for one in all {
            (note(Tone::Warn, &html! { strong { (one.butler) } " can't be asked just now: " (one.reason) }))
        }
    }
}

/// What stands in the place of an empty list. Of those that could not be asked nobody knows whether they have nothing.
pub(super) fn none_of(down: &[admin::Unavailable], text: &str) -> Markup {
    if down.is_empty() {
        empty(text)
    } else {
        html! {}
    }
}

/// Money, or that it is not known.
pub(super) fn money(cost: Option<Money>) -> Markup {
    html! { @match cost {
        Some(cost) => span.num { (cost.to_string()) },
        None => span.dim title="unknown" { "unknown" },
    } }
}

/// A whole number with its thousands apart.
pub(super) fn count(n: impl Into<i128>) -> String {
    let n: i128 = n.into();
    let digits = n.unsigned_abs().to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    if n < 0 { format!("−{out}") } else { out }
}

/// How many sessions: `1 session`, `2 sessions`.
pub(super) fn sessions(n: impl Into<i128>) -> String {
    let n: i128 = n.into();
    format!("{} session{}", count(n), if n == 1 { "" } else { "s" })
}

/// The beginning of an id, all of it as one points at it.
pub(super) fn id(id: &uuid::Uuid) -> Markup {
    let text = id.to_string();
    html! { span.id title=(text) { (&text[text.len() - 8..]) } }
}

/// The beginning of a text on one line.
pub(super) fn line(text: &str, most: usize) -> String {
    let flat: Vec<&str> = text.split_whitespace().collect();
    base::text::truncate(&flat.join(" "), most)
}

/// Text of somebody, as it was written.
pub(super) fn said(text: &str) -> Markup {
    html! { div.said { (text) } }
}

/// JSON as people read it: short values in a table of names, others as they are.
pub(super) fn json(value: &Value) -> Markup {
    match value {
        Value::Null => html! { span.dim { "nothing" } },
        Value::String(text) => html! { div.said { (text) } },
        Value::Object(map) if map.is_empty() => html! { span.dim { "none" } },
        Value::Object(map) => html! {
            dl.fields { @for (name, value) in map { dt { (name) } dd { (inner(value)) } } }
        },
        other => html! { pre tabindex="0" { (pretty(other)) } },
    }
}

fn inner(value: &Value) -> Markup {
    match value {
        Value::Null => html! { span.dim { "nothing" } },
        Value::String(text) => html! { div.said { (text) } },
        Value::Bool(_) | Value::Number(_) => html! { code { (value.to_string()) } },
        other => html! { pre tabindex="0" { (pretty(other)) } },
    }
}

pub(super) fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// The steps of a page's title, the last being the page itself.
pub(super) fn crumbs(steps: &[(&str, &str)]) -> Markup {
    html! { nav.crumbs aria-label="You are here" {
        @for (n, (name, href)) in steps.iter().enumerate() {
            @if n > 0 { span aria-hidden="true" { "›" } }
            a href=(href) { (name) }
        }
    } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_in_threes() {
        let shown: Vec<String> = [0i64, 999, 1000, -1_234_567].map(count).to_vec();
        assert_eq!(shown, ["0", "999", "1\u{202f}000", "−1\u{202f}234\u{202f}567"]);
    }

    #[test]
    fn what_somebody_wrote_is_text() {
        let evil = "<script>alert(1)</script>\" onload=\"x";
        for shown in [said(evil), json(&serde_json::json!({evil: evil})), badge(evil), json(&evil.into())] {
            assert!(!shown.0.contains("<script") && !shown.0.contains("\" onload"), "{}", shown.0);
        }
    }
}
