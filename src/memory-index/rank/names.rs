//! Names and identifiers that many rows share, each kept once.

use std::collections::HashMap;
use std::hash::Hash;

/// Things numbered from 1 in the order of their arrival; 0 is none.
pub struct Names<T> {
    numbers: HashMap<T, u32>,
}

impl<T> Default for Names<T> {
    fn default() -> Self {
        Self { numbers: HashMap::new() }
    }
}

impl<T: Eq + Hash> Names<T> {
    /// The number of `name`, which gets one if it has none.
    pub fn number<Q: Eq + Hash + ToOwned<Owned = T> + ?Sized>(&mut self, name: &Q) -> u32
    where
        T: std::borrow::Borrow<Q>,
    {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.numbers.len() as u32 + 1;
        self.numbers.insert(name.to_owned(), number);
        number
    }

    /// The number of a name that stands in some row.
    pub fn find<Q: Eq + Hash + ?Sized>(&self, name: &Q) -> Option<u32>
    where
        T: std::borrow::Borrow<Q>,
    {
        self.numbers.get(name).copied()
    }

    /// How many numbers there are, 0 included.
    pub fn count(&self) -> usize {
        self.numbers.len() + 1
    }

    pub fn bytes(&self) -> usize {
        self.numbers.capacity() * 8 / 7 * (size_of::<(T, u32)>() + 1)
    }
}
