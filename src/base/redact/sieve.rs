//! Whether a text may hold any of some patterns. Mostly it holds none, and that is seen far sooner than by looking for each.

use zeroize::Zeroizing;

/// Bytes that are looked at together.
const BLOCK: usize = 3;
/// Bytes of a pattern's beginning that are compared.
const WINDOW: usize = 8;
/// Of this many bits are the hashes of blocks: their table stays in the processor's first cache.
const BITS: u32 = 13;

/// The beginnings of some patterns. A text is looked at block by block from where the first beginning may end, and jumps over
/// as much as no beginning that has the block in it can end in (S. Wu and U. Manber, "A fast algorithm for multi-pattern
/// searching", 1994).
pub(super) struct Sieve {
    /// Bytes of each beginning; fewer than [`BLOCK`] let every text through.
    window: usize,
    /// By a block's hash: how far behind it the end of a beginning is at least.
    jumps: Box<[u8]>,
    /// The beginnings, sorted.
    begins: Zeroizing<Vec<u64>>,
}

fn hash(block: &[u8]) -> usize {
    let number = block.iter().fold(0, |number, byte| number << 8 | u32::from(*byte));
    (number.wrapping_mul(0x9E37_79B1) >> (u32::BITS - BITS)) as usize
}

fn word(begin: &[u8]) -> u64 {
    begin.iter().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

impl Sieve {
    pub fn new(patterns: &[&[u8]]) -> Self {
        let window = patterns.iter().map(|pattern| pattern.len()).min().unwrap_or_default().min(WINDOW);
        let begins = || patterns.iter().map(|pattern| &pattern[..window]);
        // In front of a block that no beginning has, one may still end with its last two bytes.
        let furthest = (window + 1).saturating_sub(BLOCK);
        let mut jumps = vec![furthest as u8; 1 << BITS].into_boxed_slice();
        for begin in begins() {
            for (at, block) in begin.windows(BLOCK).enumerate() {
                let jump = &mut jumps[hash(block)];
                *jump = (*jump).min((window - BLOCK - at) as u8);
            }
        }
        let mut begins = Zeroizing::new(begins().map(word).collect::<Vec<_>>());
        begins.sort_unstable();
        Self { window, jumps, begins }
    }

    /// `false`: none of the patterns is in the text.
    pub fn lets_through(&self, text: &[u8]) -> bool {
        if self.window < BLOCK {
            return true;
        }
        let mut end = self.window;
        while let Some(block) = text.get(end - BLOCK..end) {
            let jump = usize::from(self.jumps[hash(block)]);
            if jump == 0 && self.begins.binary_search(&word(&text[end - self.window..end])).is_ok() {
                return true;
            }
            end += jump.max(1);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words over few letters, so that their beginnings overlap each other and the text in every way.
    #[test]
    fn nothing_is_let_by_that_is_there() {
        let mut state = 7_u64;
        let mut below = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % n
        };
        let (mut there, mut let_through) = (0, 0);
        for round in 0..20_000 {
            let letters = 2 + round % 20;
            let mut some = |least: u64, most: u64| -> Vec<u8> {
                (0..least + below(most - least + 1)).map(|_| b'a' + below(letters) as u8).collect()
            };
            let patterns: Vec<Vec<u8>> = (0..1 + round % 5).map(|_| some(1 + round % 12, 14)).collect();
            let text = some(0, 40);
            let patterns: Vec<&[u8]> = patterns.iter().map(Vec::as_slice).collect();
            let holds = patterns.iter().any(|pattern| text.windows(pattern.len()).any(|part| part == *pattern));
            let through = Sieve::new(&patterns).lets_through(&text);
            assert!(through || !holds, "{patterns:?} in {text:?}");
            (there, let_through) = (there + usize::from(holds), let_through + usize::from(through));
        }
        assert!(there > 500 && let_through < 18_000, "{there} are there, {let_through} go through");
    }

    #[test]
    fn a_text_of_other_words_is_kept() {
        let sieve = Sieve::new(&[b"sk-ant-0123456789", b"correct horse battery"]);
        assert!(
            !sieve.lets_through("{\"title\":\"Dentist\",\"start_at\":\"2026-12-24T09:00\"}".repeat(100).as_bytes())
        );
        assert!(sieve.lets_through(b"it says correct horse battery"));
        assert!(!sieve.lets_through(b"") && !sieve.lets_through(b"sk-ant"));
        assert!(Sieve::new(&[b"ab"]).lets_through(b"xxx"), "too short to be sieved");
    }
}
