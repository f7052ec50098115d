//! What a person is shown of a call before they decide: the one form of it, for notices, the command line, the chat and
//! every API.
//!
//! It shows everything: whom the call reaches, whose words are behind it, the model's reason, and each argument whole.
//! What others wrote stands behind a bar, `│`, or in quotes, with every character made visible, so that no text looks
//! like the frame around it. What does not fit on one page goes on the next; nothing is cut.

use serde_json::Value;

use super::types::{Action, ActionRecipient, Source, sha256};
use base::Trust;
use base::text::visible::{odd_addresses, odd_letters, visible, visible_line};

/// The longest line, in characters; a longer one goes on behind `┊`.
const WIDTH: usize = 120;
/// What one page holds: so much fits in a message of every channel.
const PAGE_LINES: usize = 40;
const PAGE_CHARS: usize = 1800;
/// The longest value that stands beside its name.
const SHORT: usize = 60;
/// Where requests come from that are no messages.
const OWN_CHANNELS: [&str; 7] = ["butlerd", "cli", "mcp", "module", "rpc", "scenario", "schedule"];

impl Action {
    /// All that a person is to see before they decide, in parts that a message can hold; at least one.
    pub fn pages(&self) -> Vec<String> {
        let mut pages = vec![String::new()];
        let (mut lines, mut chars) = (0, 0);
        for line in self.lines() {
            let length = line.chars().count() + 1;
            if lines > 0 && (lines == PAGE_LINES || chars + length > PAGE_CHARS) {
                pages.push(String::new());
                (lines, chars) = (0, 0);
            }
            (lines, chars) = (lines + 1, chars + length);
            if let Some(page) = pages.last_mut() {
                page.push_str(&line);
                page.push('\n');
            }
        }
        pages
    }

    /// The SHA-256, in hex, of the exact call and of all that is shown of it: what an approval approves.
    pub fn shown_sha256(&self) -> String {
        let parts = [self.id.to_string(), self.args_sha256.clone()];
        sha256(parts.into_iter().chain(self.pages()))
    }

    /// On one line: who wants to call what, and with what; cut.
    pub fn brief(&self, most: usize) -> String {
        let args = visible_line(&self.tool_args.to_string());
        let cut = args.char_indices().nth(most).map_or("", |_| "…");
        let args: String = args.chars().take(most).collect();
        format!("{} {args}{cut}", visible_line(&self.tool_name))
    }

    fn lines(&self) -> Vec<String> {
        let mut page = Lines(Vec::new());
        page.say(&format!("{} asks to call `{}`.", visible_line(&self.butler), visible_line(&self.tool_name)));
        page.recipient(self.recipient.as_ref());
        page.sources(self);
        for (address, odd) in self.odd() {
            page.say(&format!("Look out: \"{}\" {}.", visible_line(&address), visible_line(&odd)));
        }
        if let Some(why) = &self.why {
            page.say("The reason, in the model's own words, which may be anybody's:");
            page.quote(why);
        }
        page.arguments(&self.tool_args, &self.hidden);
        page.0
    }

    /// Addresses of which the letters are not what they seem.
    fn odd(&self) -> Vec<(String, String)> {
        let address = self.recipient.as_ref().and_then(|to| to.address.as_deref());
        let mut found: Vec<(String, String)> =
            address.and_then(|address| Some((address.to_owned(), odd_letters(address)?))).into_iter().collect();
        let from = self.sources.iter().map(|source| source.who.split_once(':').map_or("", |(_, identity)| identity));
        found.extend(from.filter_map(|who| Some((who.to_owned(), odd_letters(who)?))));
        texts(&self.tool_args, &mut |text| found.extend(odd_addresses(text)));
        let mut known = Vec::new();
        found.retain(|(address, _)| {
            !known.contains(address) && {
                known.push(address.clone());
                true
            }
        });
        found
    }
}

/// The SHA-256, in hex, of calls that are decided on together, whatever their order.
pub fn shown_sha256_of(calls: &[Action]) -> String {
    let mut each: Vec<String> = calls.iter().map(Action::shown_sha256).collect();
    each.sort_unstable();
    sha256(each)
}

fn texts(value: &Value, each: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => each(text),
        Value::Array(items) => items.iter().for_each(|item| texts(item, each)),
        Value::Object(members) => members.iter().for_each(|(name, member)| {
            each(name);
            texts(member, each);
        }),
        _ => {}
    }
}

/// How people say whose words these are.
fn whose(trust: Trust) -> &'static str {
    match trust {
        Trust::Stranger => "a stranger",
        Trust::Known => "somebody you know",
        Trust::System => "the household itself",
        Trust::Owner => "you",
    }
}

struct Lines(Vec<String>);

impl Lines {
    /// A line of the frame. What others wrote in it is on one line already.
    fn say(&mut self, line: &str) {
        self.wrapped(line, "", "  ┊ ");
    }

    /// What others wrote, whole.
    fn quote(&mut self, text: &str) {
        for line in visible(text).split('\n') {
            self.wrapped(line, "  │ ", "  ┊ ");
        }
    }

    fn wrapped(&mut self, line: &str, first: &str, more: &str) {
        let chars: Vec<char> = line.chars().collect();
        if chars.is_empty() {
            self.0.push(first.trim_end().to_owned());
        }
        for (n, part) in chars.chunks(WIDTH).enumerate() {
            let part: String = part.iter().collect();
            self.0.push(format!("{}{part}", if n == 0 { first } else { more }));
        }
    }

    fn recipient(&mut self, to: Option<&ActionRecipient>) {
        let Some(to) = to else { return self.say("To: nobody outside of the household.") };
        let (Some(channel), Some(address)) = (&to.channel, &to.address) else {
            return self.say(&format!("To: {}; the tool does not say whom it reaches.", visible_line(&to.to)));
        };
        let name = to.name.as_ref().map(|name| format!("\"{}\", ", visible_line(name))).unwrap_or_default();
        self.say(&format!("To: {name}\"{}\" over {}.", visible_line(address), visible_line(channel)));
        // What the address alone does not tell: to what an invitation is, which is answered.
        if let Some(more) = to.to.strip_prefix(address.as_str()).filter(|more| !more.is_empty()) {
            self.say(&format!("    {}", visible_line(more.trim_start_matches(", "))));
        }
        match to.written_before {
            Some(true) => self.say("    Something was sent to this address before."),
            // Who sees a calendar, and comes to its events, is no address that anything was sent to.
            _ if channel == "calendar" => {}
            _ => self.say("    NEW: nothing was ever sent to this address."),
        }
    }

    fn sources(&mut self, action: &Action) {
        let trust = action.exposure["trust"].as_str().map_or(Trust::Stranger, Trust::from_name);
        let people: Vec<&str> =
            action.exposure["audience"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let private = match people.as_slice() {
            [] => ", and it was shown what the household alone may learn".to_owned(),
            people => format!(", and all that it was shown, {} may learn", visible_line(&people.join(", "))),
        };
        self.say(&format!("Where it comes from: the least trusted in its session is {}{private}.", whose(trust)));
        if trust < Trust::System && action.exposure["changes"] == true {
            self.say("    What it changes, of yours as well, is believed no more than that from then on.");
        }
        for Source { who, trust, root_request_id, .. } in &action.sources {
            let (channel, who) = (who.split(':').next().unwrap_or_default(), visible_line(who));
            let open = if OWN_CHANNELS.contains(&channel) { "timeline" } else { "inbox show" };
            self.say(&format!("    \"{who}\" ({}): butlerd {open} {root_request_id}", whose(*trust)));
        }
        self.say(&format!("    its session: butlerd sessions show {}", action.session_id));
    }

    fn arguments(&mut self, args: &Value, hidden: &[String]) {
        let Some(members) = args.as_object().filter(|members| !members.is_empty()) else {
            return self.say("It has no arguments.");
        };
        self.say("With exactly this:");
        for (name, value) in members {
            let label = format!("  {}", visible_line(name));
            match value {
                Value::String(told) if hidden.contains(name) => self.say(&format!("{label}: {}", visible_line(told))),
                Value::String(text) => self.text(&label, text),
                Value::Object(_) | Value::Array(_) => {
                    self.say(&format!("{label}:"));
                    self.quote(&serde_json::to_string_pretty(value).unwrap_or_default());
                }
                value => self.say(&format!("{label}: {value}")),
            }
        }
    }

    fn text(&mut self, label: &str, text: &str) {
        let length = text.chars().count();
        if length <= SHORT && !text.contains(['\n', '\t', '"']) {
            return self.say(&format!("{label}: \"{}\"", visible(text)));
        }
        self.say(&format!("{label} ({length} characters):"));
        self.quote(text);
    }
}

#[cfg(test)]
#[path = "rendering_tests.rs"]
mod tests;
