//! Which sentences of an assistant are worth remembering: decisions with their reason, causes and fixes that were found,
//! and what must be or never be, because. What is doubtful is left out: a store full of noise is worse than a gap.

use std::collections::HashSet;
use std::sync::LazyLock;

use base::redact::may_hold_secret;
use regex::Regex;

use super::{clean, prose};
use crate::record::ExperienceType;

/// Fewer characters say too little.
const SHORTEST: usize = 40;
/// More are a report.
const LONGEST: usize = 600;
/// A sentence that names nothing by name has so many words at least.
const WORDS: usize = 10;
/// A text of which so many words in a hundred stand in one that is known is no news.
const ECHO_PERCENT: usize = 75;

/// A memory that could be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    pub kind: ExperienceType,
    pub content: String,
    /// How sure it is worth it.
    weight: u8,
}

/// A way in which people say what is worth remembering.
struct Signal {
    kind: ExperienceType,
    weight: u8,
    /// Whether it counts only beside a reason or what was not chosen.
    needs_reason: bool,
    /// Whether it counts only where something is named by name.
    needs_name: bool,
    pattern: Regex,
}

/// Kind, weight, whether a reason is needed, whether a name is needed, pattern.
const SIGNALS: &[(ExperienceType, u8, bool, bool, &str)] = &[
    (
        ExperienceType::Decision,
        3,
        true,
        false,
        r"(?i)\b(we|I)(\s+have|'ve|\s+also|\s+finally|\s+therefore)?\s+(decided|agreed|chose|settled|opted|selected|standardi[sz]ed|went\s+with|picked)\b",
    ),
    (
        ExperienceType::Decision,
        3,
        true,
        false,
        r"(?i)\bwe('ll|\s+will|\s+now)?\s+(use|keep|stay\s+with|stick\s+(with|to)|go\s+with|store)\b",
    ),
    (ExperienceType::Decision, 2, false, true, r"(?i)^instead\s+of\b.{3,200}\bwe\s+\w+"),
    (ExperienceType::Decision, 3, false, false, r"(?i)^(the\s+)?(design\s+)?decision\s*(:|was\b|is\b)"),
    (
        ExperienceType::Learning,
        3,
        false,
        false,
        r"(?i)\b(root|underlying|actual|real)\s+(cause|problem|issue|bug|culprit)\b(\s+of\b.{3,80})?\s*(:|\b(was|is|were|turned\s+out))",
    ),
    (
        ExperienceType::Learning,
        3,
        false,
        false,
        r"(?i)\bthe\s+(problem|issue|bug|failure|cause|culprit|flakiness|deadlock|leak)\s+(was\s+(that|caused|due|in|a|an|the)|is\s+that|came\s+from|happened\s+because|occurred\s+because|turned\s+out)\b",
    ),
    (
        ExperienceType::Learning,
        2,
        false,
        true,
        r"(?i)\b(fixed|solved|resolved)\s+((it|this|that|the\s+\S+)\s+)?by\s+\w+ing\b",
    ),
    (ExperienceType::Learning, 2, false, true, r"(?i)\bthe\s+fix\s+(was|is)\s+(to|that|a|an|\w+ing)\b"),
    (ExperienceType::Learning, 2, false, false, r"(?i)\bturn(s|ed)\s+out\b"),
    (
        ExperienceType::Learning,
        1,
        false,
        true,
        r"(?i)^(please\s+)?(note\s+that|note:|keep\s+in\s+mind|be\s+aware|beware|gotcha:|pitfall:|caveat:|lesson:|lesson\s+learned:|important:)",
    ),
    (
        ExperienceType::Learning,
        2,
        false,
        false,
        r"(?i)\b(must(\s+not)?|never|always|can't|cannot|has\s+to|have\s+to|may\s+not)\b.{3,300}\b(because|otherwise|or\s+else)\b",
    ),
];

/// Why something is so, or what it is instead of.
const REASON: &str = r"(?i)\b(because|since|so\s+that|due\s+to|instead\s+of|rather\s+than|in\s+order\s+to|to\s+avoid|otherwise|over\s+\S+|the\s+reason)\b";

/// What makes a sentence none to remember, whatever else it says.
const REFUSED: &[&str] = &[
    // What is done now or next, and talk.
    r"(?i)^(now|next|first|then|finally|ok|okay|great|perfect|good|done|sure|yes|no|sorry|apologies|wait|hmm|all|let|looking|going|time)\b",
    r"(?i)\b(let\s+me|let's|let\s+us|I'll|I\s+will|I'm|I\s+am|I've|I\s+have|I'd|going\s+to|want\s+me|shall\s+I|should\s+I|do\s+you|would\s+you|you\s+(can|could|should|may|might|want|asked|said|mentioned|need)|your|me|my)\b",
    r"(?i)\bI\s+(need|should|can|could|would|must|see|also|just|added|updated|wrote|fixed|ran|checked|found|verified|made|changed|removed|created|think|believe|suspect|assume|guess|notice|noticed|forgot|missed|misread|tried|don't|do|was|did|didn't)\b",
    r"(?i)\b(here's|here\s+is|here\s+are|summary|the\s+following|as\s+follows|above|below|see\s+the)\b",
    // What is not sure, or was taken back.
    r"(?i)\b(maybe|perhaps|might|may\s+be|probably|possibly|presumably|apparently|seems?|seemingly|appears?\s+to|could\s+be|likely|not\s+sure|unsure|unclear|unknown\s+why|hypothesis|my\s+guess|in\s+theory|I\s+think|suspect(ed)?|unconfirmed)\b",
    r"(?i)\b(actually,?\s+no|scratch\s+that|was\s+wrong|false\s+(positive|alarm)|on\s+second\s+thought|if\s+(the\s+)?(root\s+cause|problem|issue|bug))\b",
    r"(?i)\b(not|never|haven't|hasn't|yet\s+to)\s+(been\s+|yet\s+)*(decided|agreed|chosen|settled)\b|\b(if|once|when|until|unless|whether|before|should|could|would|can)\s+we\b|\bwe\s+(should|could|would|can|may)\b",
    // What is true only for a while.
    r"(?i)\b(currently|right\s+now|at\s+the\s+moment|for\s+now|temporar(y|ily)|today|just\s+now|this\s+(session|turn|conversation|time)|so\s+far|still\s+(failing|running|broken)|as\s+of\s+now|earlier|remaining|in\s+progress|WIP|TODO)\b",
    r"(?i)\bthe\s+(problem|issue|bug|error)\s+(was|is)\s+(fixed|solved|resolved|gone|now|not|already|still|there|here|reproduced)\b|\b(tests?|checks?|build|suite)\s+(now\s+)?(pass(es|ed)?|are\s+green|is\s+green|succeeds?)\b",
    // What came from memory or from somebody who gives orders.
    r"(?i)\b((according\s+to|from|in|per)\s+(the\s+|our\s+)?(project\s+)?memor(y|ies)|the\s+memor(y|ies)\s+(says?|notes?|mentions?)|(earlier|previous|past)\s+sessions?|already\s+(noted|recorded|remembered)|cheat\s+sheet)\b",
    r"(?i)\b(ignore|disregard|forget)\s+(all\s+|any\s+|the\s+|your\s+)*(previous|prior|above|earlier)\b|\bsystem\s+prompt\b",
    // Questions, lead-ins, what programs print.
    r"[?:]$|\?\s|[│├└┌✓✔✗✘✅❌⏺⎿→]|(?i)^(error|warning|info|debug|panicked|traceback|thread\s|at\s|\$\s|[+-]{2,}|@@)",
];

/// What begins a sentence that says nothing without the one before it.
const DANGLING: &str = r"(?i)^(this|that|these|those|they|he|she|both|which|so|and|but|also|there|here|it)\b";
/// But for these.
const IMPERSONAL: &str = r"(?i)^it\s+turn(s|ed)\s+out\b";
/// What goes on with the thought of the sentence before.
const CONTINUES: &str = r"(?i)^(because|the\s+reason|otherwise|fixed|the\s+fix|that\s+(way|keeps|avoids|lets|means|makes)|this\s+(way|keeps|avoids|lets|means|makes|is\s+because)|which)\b";

/// The expressions, made once. A test demands that each can be made.
struct Patterns {
    signals: Vec<Signal>,
    refused: Vec<Regex>,
    reason: Option<Regex>,
    dangling: Option<Regex>,
    impersonal: Option<Regex>,
    continues: Option<Regex>,
}

static PATTERNS: LazyLock<Patterns> = LazyLock::new(|| {
    let signal = |(kind, weight, needs_reason, needs_name, pattern): &(ExperienceType, u8, bool, bool, &str)| {
        let pattern = Regex::new(pattern).ok()?;
        Some(Signal { kind: *kind, weight: *weight, needs_reason: *needs_reason, needs_name: *needs_name, pattern })
    };
    Patterns {
        signals: SIGNALS.iter().filter_map(signal).collect(),
        refused: REFUSED.iter().filter_map(|pattern| Regex::new(pattern).ok()).collect(),
        reason: Regex::new(REASON).ok(),
        dangling: Regex::new(DANGLING).ok(),
        impersonal: Regex::new(IMPERSONAL).ok(),
        continues: Regex::new(CONTINUES).ok(),
    }
});

fn fits(pattern: Option<&Regex>, text: &str) -> bool {
    pattern.is_some_and(|pattern| pattern.is_match(text))
}

/// What the texts hold that is worth remembering and not known, in their order.
pub fn memories(texts: &[String], known: &[&str]) -> Vec<Found> {
    let known: Vec<HashSet<String>> = known.iter().map(|text| words(text)).collect();
    let mut all: Vec<Found> = Vec::new();
    for text in texts {
        for paragraph in prose::paragraphs(text) {
            for found in of_paragraph(&paragraph) {
                let own = words(&found.content);
                let is_known = known.iter().any(|known| is_echo(&own, known));
                if !is_known && !all.iter().any(|other| is_echo(&own, &words(&other.content))) {
                    all.push(found);
                }
            }
        }
    }
    all
}

/// Keeps the best, in their order; of equals the latest, which know most.
pub fn best(found: &mut Vec<Found>, most: usize) {
    while found.len() > most {
        let least = found.iter().enumerate().min_by_key(|(_, found)| found.weight).map_or(0, |(at, _)| at);
        found.remove(least);
    }
}

fn of_paragraph(sentences: &[String]) -> Vec<Found> {
    let (mut found, mut at, mut used) = (Vec::new(), 0, 0);
    while at < sentences.len() {
        let Some((from, to, memory)) = group(sentences, at) else {
            at += 1;
            continue;
        };
        // A sentence is part of one memory.
        if from >= used {
            found.push(memory);
        }
        (at, used) = (to, to);
    }
    found
}

/// The memory that the sentence at `at` makes with those around it that belong to it, and from where to where it goes.
fn group(sentences: &[String], at: usize) -> Option<(usize, usize, Found)> {
    let patterns = &*PATTERNS;
    let sentence = &sentences[at];
    if signals(sentence).next().is_none() || is_refused(sentence) {
        return None;
    }
    let is_dangling = |text: &str| fits(patterns.dangling.as_ref(), text) && !fits(patterns.impersonal.as_ref(), text);
    let mut from = at;
    if is_dangling(sentence) {
        from = at.checked_sub(1)?;
        if is_refused(&sentences[from]) || is_dangling(&sentences[from]) {
            return None;
        }
    }
    let mut text = sentences[from..=at].join(" ");
    let mut to = at + 1;
    while let Some(next) = sentences.get(to) {
        let belongs = signals(next).next().is_some() || fits(patterns.continues.as_ref(), next);
        let longer = text.chars().count() + 1 + next.chars().count();
        if !belongs || is_refused(next) || longer > LONGEST {
            break;
        }
        text = format!("{text} {next}");
        to += 1;
    }
    let text = clean::visible(&text);
    let length = text.chars().count();
    if !(SHORTEST..=LONGEST).contains(&length) || !is_prose(&text) || clean::has_tag(&text) {
        return None;
    }
    let has_reason = fits(patterns.reason.as_ref(), &text);
    let has_name = names_something(&text);
    let is_enough = |signal: &&Signal| {
        (has_reason || !signal.needs_reason)
            && (has_name || !signal.needs_name && text.split_whitespace().count() >= WORDS)
    };
    let best = signals(sentence).filter(is_enough).max_by_key(|signal| signal.weight)?;
    let weight = best.weight + u8::from(has_reason) + u8::from(has_name);
    Some((from, to, Found { kind: best.kind, content: text, weight }))
}

fn signals(sentence: &str) -> impl Iterator<Item = &'static Signal> {
    PATTERNS.signals.iter().filter(move |signal| signal.pattern.is_match(sentence))
}

fn is_refused(sentence: &str) -> bool {
    PATTERNS.refused.iter().any(|refused| refused.is_match(sentence)) || may_hold_secret(sentence)
}

/// Whether it is mostly words: no path, table or output.
fn is_prose(text: &str) -> bool {
    let letters = text.chars().filter(|c| c.is_alphabetic() || *c == ' ').count();
    let longest = text.split_whitespace().map(|word| word.chars().count()).max().unwrap_or_default();
    letters * 10 >= text.chars().count() * 8 && longest <= 80
}

/// Whether something is called by its name: code, a path, a version, a word with a capital within a sentence.
fn names_something(text: &str) -> bool {
    let mut begins = true;
    text.split_whitespace().any(|word| {
        let starts = std::mem::replace(&mut begins, word.ends_with(['.', '!', ':']));
        let word = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '`');
        let inner = word.char_indices().skip(1).map(|(_, c)| c);
        let has_inner = word.contains(['`', '_', '/']) || word.contains("::") || inner.clone().any(char::is_uppercase);
        let is_dotted = word.split('.').filter(|part| !part.is_empty()).count() > 1;
        let mixes = word.contains(|c: char| c.is_ascii_digit()) && word.contains(char::is_alphabetic);
        let is_name = !starts && word.chars().count() > 2 && word.starts_with(char::is_uppercase);
        has_inner || is_dotted || mixes || is_name
    })
}

fn words(text: &str) -> HashSet<String> {
    let all = text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.chars().count() > 2);
    all.map(str::to_lowercase).collect()
}

fn is_echo(own: &HashSet<String>, known: &HashSet<String>) -> bool {
    own.intersection(known).count() * 100 >= own.len() * ECHO_PERCENT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_can_be_made() {
        let patterns = &*PATTERNS;
        assert_eq!(patterns.signals.len(), SIGNALS.len());
        assert_eq!(patterns.refused.len(), REFUSED.len());
        for pattern in [&patterns.reason, &patterns.dangling, &patterns.impersonal, &patterns.continues] {
            assert!(pattern.is_some());
        }
    }

    #[test]
    fn the_best_are_kept_in_their_order() {
        let of = |weight: u8| Found { kind: ExperienceType::Learning, content: weight.to_string(), weight };
        let mut found = vec![of(1), of(3), of(2), of(5), of(4)];
        best(&mut found, 3);
        assert_eq!(found, [of(3), of(5), of(4)]);
        best(&mut found, 0);
        assert_eq!(found, []);
    }
}
