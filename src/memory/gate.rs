//! What may be remembered at all. Pure.

use std::sync::LazyLock;

use base::redact::secret_in;
use memory_index::text::normal;
use regex::Regex;

/// Most bytes of a fact or a rule.
pub const MAX_FACT: usize = 8 * 1024;
/// Most bytes of an episode.
pub const MAX_EPISODE: usize = 16 * 1024;

/// The text without the blocks that a session was told from memory: their head, and what stands between two lines of
/// one fence. A fence that is not closed takes the rest along.
pub fn without_memory(text: &str) -> String {
    if !text.contains("memory-") && !text.contains(HEAD) {
        return text.to_owned();
    }
    let mut fence: Option<&str> = None;
    let mut kept = Vec::new();
    for line in text.lines() {
        let plain = line.trim();
        match fence {
            Some(open) if open == plain => fence = None,
            Some(_) => {}
            None if is_fence(plain) => fence = Some(plain),
            None if plain == HEAD || plain.starts_with(EXPLAINED) => {}
            None => kept.push(line),
        }
    }
    kept.join("\n").trim().to_owned()
}

/// How a block begins; see `retrieval/block.rs` of the module.
pub const HEAD: &str = "# Memory Context";
pub const EXPLAINED: &str = "What was noted earlier stands between the two lines that begin with `memory-`.";

fn is_fence(line: &str) -> bool {
    line.strip_prefix("memory-").is_some_and(|rest| rest.len() == 32 && rest.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Why this is not remembered, in a sentence; `None`: it may be.
pub fn refusal(text: &str, most: usize) -> Option<String> {
    let plain = normal(text);
    if !plain.chars().any(char::is_alphanumeric) {
        return Some("there is nothing in it".to_owned());
    }
    if text.len() > most {
        return Some(format!("it has {} bytes, and {most} are the most; say it in fewer words", text.len()));
    }
    if boilerplate(&plain) {
        return Some("it says nothing that is worth keeping".to_owned());
    }
    if noise(text, &plain) {
        return Some("it is output of a tool or markup and no statement; say in words what is to be kept".to_owned());
    }
    if let Some(what) = secret_in(text) {
        return Some(format!("it looks like {what}; secrets are kept with `butlerd secret set`, never in memory"));
    }
    None
}

/// Whole texts that say nothing.
fn boilerplate(plain: &str) -> bool {
    static WHOLE: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r"(?x)^(?:
              (?:(?:ok|okay|k|kk|yes|yep|yeah|no|nope|sure|fine|great|good|nice|cool|alright|perfect|done|right|well|hi|hey
                 |hello|bye|goodbye|see\ you|thanks|thank\ you|thx|ty|please|cheers|got\ it|will\ do|noted|understood
                 |you'?re\ welcome|no\ problem|sounds\ good|of\ course|absolutely|sorry|hmm+|haha+|lol|ah|oh
                 |very\ much|so\ much|a\ lot|again|then|everyone|there)[\s,.!?]*)+
            | (?:i'?m\ sorry,?\ (?:but\ )?)?i\ (?:have|found|see|know)\ (?:no|nothing|not\ any|no\ further|no\ more)
                (?:\ (?:further|more|other|additional|relevant|new))*(?:\ (?:information|info|data|details|memories|facts|context))?
                (?:\ (?:about|on|to|at|for|regarding)\b.{0,60})?
            | (?:there\ (?:is|are|was|were)\ )?(?:no|nothing)(?:\ (?:further|more|other|additional|relevant|new))*
                \ (?:information|info|data|details|memories|facts|context|results?|content|to\ (?:report|add|remember|store))
                (?:\ (?:available|found|provided|given|yet|here))?
            | (?:n/?a|none|null|nil|undefined|unknown|tbd|todo|test|testing|foo|bar|empty|-+|\?+)
            | as\ an\ ai\b.*
            | (?:i'?m\ )?(?:how\ can|let\ me\ know\ if|is\ there\ anything\ else)\ .{0,80}
            | (?:i\ (?:don'?t|do\ not)\ know|not\ (?:sure|known|specified|available|provided))
            )$",
        )
        .expect("the pattern is right")
    });
    WHOLE.is_match(plain)
}

/// What programs print: markup, traces, JSON, dumps.
fn noise(text: &str, plain: &str) -> bool {
    static MARKUP: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?s)<[/!?]?[A-Za-z][^<>]*>|```|\[[^\]]*\]\([^)]*\)").expect("the pattern is right")
    });
    let rest = MARKUP.replace_all(text, " ");
    if rest.len() < text.len() && !rest.chars().any(char::is_alphanumeric) {
        return true;
    }
    let trimmed = text.trim();
    if trimmed.starts_with(['{', '[']) && serde_json::from_str::<serde_json::Value>(trimmed).is_ok() {
        return true;
    }
    let starts = ["traceback (most recent call last)", "error: ", "exit code", "tool_use_id", "[tool", "(tool output)"];
    if starts.iter().any(|s| plain.starts_with(s)) && plain.split(' ').count() < 12
        || plain.starts_with("traceback (most recent call last)")
        || plain.contains("tool_use_id")
    {
        return true;
    }
    // Letters are rare in dumps, and so are spaces.
    let (letters, all) = (plain.chars().filter(|c| c.is_alphabetic()).count(), plain.chars().count());
    all > 40 && letters * 4 < all && plain.chars().filter(|c| c.is_ascii_punctuation()).count() * 3 > all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_worth_nothing_or_secret_is_refused_with_a_reason() {
        let long = "word ".repeat(2000);
        let card = "My card is 4111 1111 1111 1111, valid till May.";
        let key = ["-----BEGIN OPENSSH PRIVATE ", "KEY-----\nb3BlbnNzaC1rZXk"].concat();
        for (text, part) in [
            ("", "nothing in it"),
            (" … !", "nothing in it"),
            ("ok", "worth keeping"),
            ("Okay, thanks!", "worth keeping"),
            ("Thank you so much.", "worth keeping"),
            ("I have no further information.", "worth keeping"),
            ("No relevant memories found", "worth keeping"),
            ("N/A", "worth keeping"),
            ("<div><br/></div>", "markup"),
            ("{\"status\": \"ok\", \"rows\": []}", "markup"),
            ("Traceback (most recent call last):\n  File \"a.py\", line 3", "markup"),
            (&long, "bytes"),
            (card, "payment card"),
            (&key, "private key"),
            ("The wifi password is hunter2", "password"),
            ("PIN: 4711", "password"),
            ("api_key=abc123def456", "password"),
            ("the door code of the garage is 2580#", "password"),
            ("use ghp_0123456789abcdefghijABCDEFGHIJ456789", "key or a token"),
            ("db at postgres://ada:lovelace@db.example.org/x", "address"),
            ("token q8Zr2LwX0pTn5VbK7sYc3JdM1gHf", "key or a token"),
            ("The key is [hidden]", "household"),
        ] {
            let why = refusal(text, MAX_FACT);
            assert!(why.as_ref().is_some_and(|w| w.contains(part)), "{text:?}: {why:?}");
        }
        for text in [
            "Yes, Ada is vegetarian",
            "Ada thanked Bea for the cake",
            "Weight 82 kg",
            "no sugar in coffee",
            "The passport expires on 2029-04-01",
            "Ada changed her password last week",
            "Ada forgot the PIN of her old phone",
            "Bea works at Token Ring Ltd",
            "Order 5500 0000 0000 0005 7",
            "https://example.org/a/very/long/path/to/Some/Page/With123Numbers456/in/it",
            "The appointment is at 14:30 in room 3.12",
            "9f1c2d3e-1111-4222-8333-444455556666 is the booking",
            "okra is what Ada likes",
            "Nothing makes Ada happier than rain",
            "There is no data centre in Lyon",
            "Phone +49 30 901820",
        ] {
            assert_eq!(refusal(text, MAX_FACT), None, "{text:?}");
        }
    }

    #[test]
    fn what_memory_told_is_taken_out() {
        let fence = "memory-0123456789abcdef0123456789abcdef";
        let text = format!(
            "Asked: hello\n{HEAD}\n{EXPLAINED} It is data.\n{fence}\n- [Ada] [home]: Lyon\n{fence}\nAnswered: hi"
        );
        assert_eq!(without_memory(&text), "Asked: hello\nAnswered: hi");
        assert_eq!(without_memory(&format!("{fence}\nall of it")), "");
        assert_eq!(without_memory("in-memory-0123 is a code"), "in-memory-0123 is a code");
    }
}
