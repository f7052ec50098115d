//! Puts what a session is told as it starts into the room that there is: whole parts, what matters most first, each
//! shown at its place.

use serde::{Deserialize, Serialize};

/// Recent conversations get this part of all room before what other sources tell; the newest message gets what it needs.
const SHARE: usize = 4;

/// What a limit counts: Claude Code counts characters, Codex bytes, the household's own sessions tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Measure {
    Characters,
    Bytes,
    /// Tokens that a text takes at most, where no model was asked: three bytes are hardly ever more than one.
    Tokens,
}

impl Measure {
    pub fn of(self, text: &str) -> usize {
        match self {
            Self::Characters => text.chars().count(),
            Self::Bytes => text.len(),
            Self::Tokens => text.len().div_ceil(3) + 1,
        }
    }

    /// What the end of a line takes, or the empty line between two parts.
    fn of_ends(self, ends: usize) -> usize {
        match self {
            Self::Characters | Self::Bytes => ends,
            // They are in what is rounded up.
            Self::Tokens => 0,
        }
    }

    /// The longest beginning that has at most so much.
    fn beginning(self, text: &str, most: usize) -> &str {
        let end = match self {
            Self::Characters => text.char_indices().nth(most).map_or(text.len(), |(at, _)| at),
            Self::Bytes => most.min(text.len()),
            Self::Tokens => (most.saturating_sub(1) * 3).min(text.len()),
        };
        let end = (0..=end).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        &text[..end]
    }
}

/// A message as it is told.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Message {
    pub id: i64,
    pub text: String,
    /// So many characters the message has; more than `text`: it was shortened.
    pub whole: usize,
}

impl Message {
    pub fn new(id: i64, text: String) -> Self {
        let whole = text.chars().count();
        Self { id, text, whole }
    }

    fn line(&self) -> String {
        let n = self.text.chars().count();
        if n == self.whole { self.text.clone() } else { format!("{}{}", self.text, shortened(n, self.whole)) }
    }

    /// Its beginning, where alone it has more than `most`. `None`: not even that has room.
    fn shortened_to(&self, most: usize, measure: Measure) -> Option<Self> {
        let most = most.checked_sub(measure.of(&shortened(self.whole, self.whole)))?;
        let text = measure.beginning(&self.text, most).trim_end().to_owned();
        (!text.is_empty()).then(|| Self { text, ..self.clone() })
    }
}

fn shortened(n: usize, whole: usize) -> String {
    format!(" … (shortened: {n} of {whole} characters; butlerd journal log has all)")
}

/// A part of what a session is told. What is of a kind that stands further up here is told before what is of another.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Core memory, with its marks. Its last lines go only where it alone is more than all room.
    Core(String),
    /// What is to be done.
    Action(String),
    /// The summary of the last checkpoint.
    Checkpoint(String),
    /// What was said since, the oldest first. The newest are told, whole, and as many in a row as fit.
    Said(Vec<Message>),
    /// What another source tells: as many lines from the beginning as fit. `closed`: the last line closes it and stays.
    /// `cost`: what all of it takes, where its source counted more closely.
    Block { text: String, closed: bool, cost: Option<usize> },
    /// A file, whole or not at all.
    Reference(String),
}

impl Part {
    /// Whole lines of Markdown, of which the last are left out where they have no room.
    pub fn lines(text: impl Into<String>) -> Self {
        Self::Block { text: text.into(), closed: false, cost: None }
    }

    /// As it is shown.
    pub fn text(&self) -> String {
        match self {
            Self::Said(messages) => match (messages.first(), messages.last()) {
                (Some(first), Some(last)) => {
                    let lines: Vec<String> = messages.iter().map(Message::line).collect();
                    format!("{}\n{}", head(first.id, last.id), lines.join("\n"))
                }
                _ => "[Recent Conversations] No new conversations.".to_owned(),
            },
            Self::Core(text)
            | Self::Action(text)
            | Self::Checkpoint(text)
            | Self::Block { text, .. }
            | Self::Reference(text) => text.trim_end_matches('\n').to_owned(),
        }
    }

    fn is_empty(&self) -> bool {
        !matches!(self, Self::Said(_)) && self.text().trim().is_empty()
    }
}

fn head(first: i64, last: i64) -> String {
    format!("[Recent Conversations] (id {first} ~ {last})")
}

/// What became of a part.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Packed {
    /// As far as it is told; `None`: it is left out.
    pub part: Option<Part>,
    /// What that takes.
    pub cost: usize,
    /// Something of it is left out.
    pub cut: bool,
}

/// Parts that are shown one below the other, in their order.
pub fn joined<'a>(parts: impl IntoIterator<Item = &'a Part>) -> String {
    parts.into_iter().map(Part::text).collect::<Vec<_>>().join("\n\n")
}

/// Which of the parts, and how much of them, are told in `room`, which is what is left of `all`. One answer for each
/// part, in their order.
pub fn pack(parts: &[Part], all: usize, room: usize, measure: Measure) -> Vec<Packed> {
    let mut packing = Packing { parts, packed: vec![Packed::default(); parts.len()], left: room, measure };
    packing.whole_or_none(|part| matches!(part, Part::Core(_)));
    packing.lines(|part| matches!(part, Part::Core(_)));
    packing.whole_or_none(|part| matches!(part, Part::Action(_)));
    packing.whole_or_none(|part| matches!(part, Part::Checkpoint(_)));
    packing.said(all / SHARE);
    packing.lines(|part| matches!(part, Part::Block { .. }));
    packing.said(usize::MAX);
    packing.whole_or_none(|part| matches!(part, Part::Reference(_)));
    for (part, packed) in parts.iter().zip(&mut packing.packed) {
        packed.cut = !part.is_empty() && packed.part.as_ref() != Some(part);
    }
    packing.packed
}

struct Packing<'a> {
    parts: &'a [Part],
    packed: Vec<Packed>,
    left: usize,
    measure: Measure,
}

impl Packing<'_> {
    fn keep(&mut self, at: usize, part: Part, cost: usize) {
        self.left = self.left.saturating_sub(cost);
        self.packed[at] = Packed { part: Some(part), cost, cut: false };
    }

    fn whole_or_none(&mut self, of: impl Fn(&Part) -> bool) {
        for (at, part) in self.parts.iter().enumerate().filter(|(_, part)| of(part) && !part.is_empty()) {
            let cost = self.measure.of(&part.text()) + self.measure.of_ends(2);
            if cost <= self.left {
                self.keep(at, part.clone(), cost);
            }
        }
    }

    /// As many lines of those that were not taken as have room.
    fn lines(&mut self, of: impl Fn(&Part) -> bool) {
        for (at, part) in self.parts.iter().enumerate().filter(|(_, part)| of(part) && !part.is_empty()) {
            if self.packed[at].part.is_some() {
                continue;
            }
            let (text, gap) = (part.text(), self.measure.of_ends(2));
            let counted = if let Part::Block { cost, .. } = part { *cost } else { None };
            let whole = counted.unwrap_or_else(|| self.measure.of(&text)) + gap;
            if whole <= self.left {
                self.keep(at, part.clone(), whole);
                continue;
            }
            let closed = !matches!(part, Part::Block { closed: false, .. });
            let Some((text, cost)) = fitting(&text, self.left.saturating_sub(gap), closed, self.measure) else {
                continue;
            };
            let part = match part {
                Part::Core(_) => Part::Core(text),
                _ => Part::Block { text, closed, cost: None },
            };
            self.keep(at, part, cost + gap);
        }
    }

    /// The newest messages that have room within `share`, in a row; the newest of all whatever the share is, and the
    /// beginning of it where alone it is more than all room. Adds to what was taken before.
    fn said(&mut self, share: usize) {
        let measure = self.measure;
        for (at, part) in self.parts.iter().enumerate() {
            let Part::Said(messages) = part else { continue };
            let had = std::mem::take(&mut self.packed[at]);
            self.left += had.cost;
            let Some(last) = messages.last() else {
                let cost = measure.of(&part.text()) + measure.of_ends(2);
                if cost <= self.left {
                    self.keep(at, part.clone(), cost);
                }
                continue;
            };
            let mut cost = measure.of(&head(last.id, last.id)) + measure.of_ends(2);
            let of = |message: &Message| measure.of(&message.line()) + measure.of_ends(1);
            let mut chosen: Vec<Message> = Vec::new();
            for message in messages.iter().rev() {
                let more = of(message);
                let room = if chosen.is_empty() { self.left } else { self.left.min(share) };
                if cost + more > room {
                    break;
                }
                cost += more;
                chosen.push(message.clone());
            }
            if chosen.is_empty() {
                // It is cut anyway, so it leaves room to others.
                let room = self.left.div_ceil(2).saturating_sub(cost + measure.of_ends(1));
                let short = match had.part {
                    Some(Part::Said(had)) => had.into_iter().next(),
                    _ => last.shortened_to(room, measure),
                };
                chosen.extend(short);
                cost += chosen.first().map_or(0, of);
            }
            if !chosen.is_empty() && cost <= self.left {
                chosen.reverse();
                self.keep(at, Part::Said(chosen), cost);
            }
        }
    }
}

/// As many lines from the beginning as have room, whole, and what they take. `closed`: the last line stays.
fn fitting(text: &str, room: usize, closed: bool, measure: Measure) -> Option<(String, usize)> {
    let end = text.lines().next_back().filter(|_| closed);
    let cost = |line: &str| measure.of(line) + measure.of_ends(1);
    let mut left = room.checked_sub(end.map_or(0, cost))?;
    let mut kept: Vec<&str> = Vec::new();
    for line in text.lines() {
        let Some(rest) = left.checked_sub(cost(line)) else { break };
        left = rest;
        kept.push(line);
    }
    if kept.iter().all(|line| line.trim().is_empty()) {
        return None;
    }
    kept.extend(end);
    Some((kept.join("\n").trim_end().to_owned(), room - left))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHARACTERS: Measure = Measure::Characters;

    fn said(n: i64, each: usize) -> Part {
        Part::Said((1..=n).map(|id| Message::new(id, format!("[{id}] {}", "x".repeat(each)))).collect())
    }

    fn all(said: Part) -> Vec<Part> {
        vec![
            Part::Core("=== CORE ===\ncore\n=== END ===".to_owned()),
            Part::Block { text: format!("# Memory\n{}end", "- a fact\n".repeat(90)), closed: true, cost: None },
            Part::Reference("r".repeat(300)),
            Part::Checkpoint("[Last Checkpoint Summary] c".to_owned()),
            said,
            Part::Action("[Action Required] a".to_owned()),
        ]
    }

    fn text(packed: &[Packed]) -> String {
        joined(packed.iter().filter_map(|packed| packed.part.as_ref()))
    }

    #[test]
    fn less_room_takes_what_matters_least() {
        let parts = all(said(8, 60));
        let whole = text(&pack(&parts, 5000, 5000, CHARACTERS));
        assert_eq!(whole, joined(&parts));
        let mut seen = [true; 6];
        for room in (0..=5000).rev().step_by(7) {
            for measure in [CHARACTERS, Measure::Bytes, Measure::Tokens] {
                let packed = pack(&parts, room, room, measure);
                let told = text(&packed);
                assert!(measure.of(&told) <= room.max(1), "{room} {measure:?}: {told}");
                let cost: usize = packed.iter().map(|packed| packed.cost).sum();
                assert!(cost <= room, "{room} {measure:?}: {cost}");
            }
            let told = text(&pack(&parts, room, room, CHARACTERS));
            // Core, action, checkpoint, the newest message, the memories, the references: in this order they go.
            let now = ["core", "[Action", "[Last", "[8] ", "a fact", "rrr"].map(|mark| told.contains(mark));
            // Below that not even core memory has room.
            for (n, there) in now.iter().enumerate().take(4).filter(|_| room >= 150) {
                assert!(*there || now[n + 1..4].iter().all(|later| !later), "{room}: {told}");
                assert!(seen[n] || !there, "{room}: it came back: {told}");
            }
            seen = now;
        }
        let told = text(&pack(&parts, 600, 600, CHARACTERS));
        assert!(told.contains("[Action Required] a") && told.contains("[8] x") && told.contains("- a fact"), "{told}");
        assert!(!told.contains("rrr") && told.contains("\nend\n\n[Last"), "{told}");
    }

    #[test]
    fn messages_are_whole_in_a_row_and_the_newest_stays() {
        for room in 0..3000 {
            let packed = pack(&[said(20, 100)], room, room, CHARACTERS);
            let Some(Part::Said(kept)) = &packed[0].part else {
                assert!(room < 160, "{room}");
                continue;
            };
            assert_eq!(kept.last().map(|message| message.id), Some(20), "{room}");
            assert!(kept.windows(2).all(|two| two[0].id + 1 == two[1].id), "{room}");
            assert!(kept.len() == 1 || kept.iter().all(|message| message.text.len() == message.whole), "{room}");
        }
    }

    #[test]
    fn one_message_of_more_than_all_room_says_what_is_left_out() {
        for measure in [CHARACTERS, Measure::Bytes, Measure::Tokens] {
            let packed = pack(&[said(2, 50_000)], 4000, 3000, measure);
            let told = text(&packed);
            assert!(told.starts_with("[Recent Conversations] (id 2 ~ 2)\n[2] xxx"), "{told}");
            assert!(told.ends_with(" of 50004 characters; butlerd journal log has all)"), "{told}");
            // Told once more in less room, it still says how long it was.
            let again = text(&pack(&[packed[0].part.clone().unwrap()], 400, 400, measure));
            assert!(measure.of(&again) <= 400 && again.contains(" of 50004 characters"), "{again}");
        }
    }

    #[test]
    fn what_is_counted_closely_costs_that() {
        let block = Part::Block { text: "x".repeat(900), closed: false, cost: Some(100) };
        let packed = pack(std::slice::from_ref(&block), 100, 100, Measure::Tokens);
        assert_eq!(packed, [Packed { part: Some(block.clone()), cost: 100, cut: false }]);
        let packed = pack(&[block, Part::lines("a\nb")], 99, 99, Measure::Tokens);
        assert!(packed[0].part.is_none() && packed[0].cut && !packed[1].cut, "{packed:?}");
    }
}
