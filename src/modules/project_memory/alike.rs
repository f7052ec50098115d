//! Which memories say the same: groups in which each is like each other. Pure.
//!
//! Two texts are alike by the share of their words that both have (Dice's coefficient over words with their counts), and
//! are never the same while their numbers differ, or one denies what the other says: `port 8080` is not `port 8081`, and
//! "always squash" is not "don't always squash". Chains don't merge their ends, because
//! a group takes in only what is like all of it (complete linkage).

use std::collections::{BTreeMap, HashMap, HashSet};

use memory_index::same::negates;
use memory_index::text::normal;

/// A text, as it is compared.
struct Bag {
    /// How often each word stands in it.
    words: HashMap<u32, u32>,
    /// Of all words.
    length: u32,
    numbers: Vec<String>,
    /// How often it says no.
    negations: usize,
}

impl Bag {
    /// Whether it can say the same at all.
    fn may_say(&self, other: &Self) -> bool {
        self.numbers == other.numbers && self.negations == other.negations
    }
}

/// Groups of at least two of these texts, by their places; the first of a group is its earliest. `least`: from 0 to 1.
pub(super) fn groups(texts: &[&str], least: f64) -> Vec<Vec<usize>> {
    let bags = bags(texts);
    let mut pairs = alike_pairs(&bags, least);
    // The most alike first; among equals the earlier.
    pairs.sort_by(|a, b| b.2.total_cmp(&a.2).then_with(|| (a.0, a.1).cmp(&(b.0, b.1))));
    let alike: HashSet<(usize, usize)> = pairs.iter().map(|(a, b, _)| (*a, *b)).collect();
    let is_alike = |a: usize, b: usize| alike.contains(&(a.min(b), a.max(b)));
    let mut group_of: HashMap<usize, usize> = HashMap::new();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (a, b, _) in pairs {
        let members = |of: &HashMap<usize, usize>, groups: &[Vec<usize>], at: usize| match of.get(&at) {
            Some(group) => groups[*group].clone(),
            None => vec![at],
        };
        let (left, right) = (members(&group_of, &groups, a), members(&group_of, &groups, b));
        if left == right || !left.iter().all(|x| right.iter().all(|y| is_alike(*x, *y))) {
            continue;
        }
        for at in [a, b] {
            if let Some(old) = group_of.get(&at) {
                groups[*old].clear();
            }
        }
        let joined: Vec<usize> = left.into_iter().chain(right).collect();
        for at in &joined {
            group_of.insert(*at, groups.len());
        }
        groups.push(joined);
    }
    groups.retain(|group| !group.is_empty());
    for group in &mut groups {
        group.sort_unstable();
    }
    groups.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    groups
}

fn bags(texts: &[&str]) -> Vec<Bag> {
    let mut ids: HashMap<String, u32> = HashMap::new();
    let bag = |text: &&str| {
        let plain = normal(text);
        let spoken = plain.split(|c: char| !c.is_alphanumeric() && c != '\'');
        let negations = spoken.filter(|word| negates(word)).count();
        let mut bag = Bag { words: HashMap::new(), length: 0, numbers: Vec::new(), negations };
        for word in plain.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()) {
            let next = u32::try_from(ids.len()).unwrap_or(u32::MAX);
            let id = *ids.entry(word.to_owned()).or_insert(next);
            *bag.words.entry(id).or_default() += 1;
            bag.length += 1;
            if word.chars().any(|c| c.is_ascii_digit()) {
                bag.numbers.push(word.to_owned());
            }
        }
        bag.numbers.sort();
        bag
    };
    texts.iter().map(bag).collect()
}

/// Pairs that are alike enough, each once, the earlier first. Only those are compared that share one of their rarest
/// words: of two texts that are alike in a share of their words, some rare word stands in both.
fn alike_pairs(bags: &[Bag], least: f64) -> Vec<(usize, usize, f64)> {
    let mut frequency: HashMap<u32, usize> = HashMap::new();
    for word in bags.iter().flat_map(|bag| bag.words.keys()) {
        *frequency.entry(*word).or_default() += 1;
    }
    let mut holders: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    let mut pairs = Vec::new();
    for (at, bag) in bags.iter().enumerate() {
        let mut rarest: Vec<u32> = bag.words.keys().copied().collect();
        rarest.sort_by_key(|word| (frequency[word], *word));
        rarest.truncate(prefix(bag, least));
        let mut seen = HashSet::new();
        for word in &rarest {
            let others = holders.entry(*word).or_default();
            for other in others.iter().filter(|other| seen.insert(**other)) {
                let share = share(&bags[*other], bag);
                if share >= least && bags[*other].may_say(bag) {
                    pairs.push((*other, at, share));
                }
            }
            others.push(at);
        }
    }
    pairs
}

/// How many of its rarest words must be looked at: whatever is alike enough has one of them.
fn prefix(bag: &Bag, least: f64) -> usize {
    // Both share at least `least / (2 - least)` of this one's words; all but so many may be missing in the other.
    let shared = (f64::from(bag.length) * least / (2.0 - least)).ceil();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to the text's words")]
    let missing = (f64::from(bag.length) - shared).max(0.0) as usize;
    missing + 1
}

fn share(a: &Bag, b: &Bag) -> f64 {
    let common: u32 = a.words.iter().map(|(word, n)| b.words.get(word).map_or(0, |m| *n.min(m))).sum();
    match a.length + b.length {
        0 => 0.0,
        all => 2.0 * f64::from(common) / f64::from(all),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_the_same_is_grouped_and_numbers_keep_apart() {
        let texts = [
            "The retry limit of the queue is 5, because the vendor counts calls",
            "The build needs libclang",
            "The retry limit of the queue is 5 because the vendor counts its calls",
            "The retry limit of the queue is 6, because the vendor counts calls",
            "the build needs libclang.",
            "The build never needs libclang",
            "The build doesn\u{2019}t need libclang",
        ];
        assert_eq!(groups(&texts, 0.75), [vec![0, 2], vec![1, 4]]);
        assert!(groups(&[], 0.5).is_empty() && groups(&["", ""], 0.5).is_empty());
    }

    #[test]
    fn a_chain_does_not_join_its_ends() {
        let texts = ["a b c d", "b c d e", "c d e f"];
        let found = groups(&texts, 0.7);
        assert_eq!(found, [vec![0, 1]], "the ends share half of their words");
    }

    #[test]
    fn no_pair_is_missed_by_looking_at_rare_words_only() {
        let words = ["cache", "queue", "lock", "port", "token", "retry", "index"];
        // Texts of up to five of seven words, by a counter in base seven.
        let texts: Vec<String> = (0..200_usize)
            .map(|n| (0..=n % 5).map(|k| words[(n * 31 + k * (n % 3 + 1) * 7 + k) % 7]).collect::<Vec<_>>().join(" "))
            .collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        for least in [0.3, 0.5, 0.75, 0.9, 1.0] {
            let bags = bags(&texts);
            let mut fast: Vec<(usize, usize)> = alike_pairs(&bags, least).iter().map(|(a, b, _)| (*a, *b)).collect();
            fast.sort_unstable();
            let mut slow = Vec::new();
            for b in 0..bags.len() {
                slow.extend((0..b).filter(|a| share(&bags[*a], &bags[b]) >= least).map(|a| (a, b)));
            }
            slow.sort_unstable();
            assert_eq!(fast, slow, "{least}");
        }
    }
}
