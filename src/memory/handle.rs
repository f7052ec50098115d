//! Where a butler's memory is found by those of its modules that stand on it.

use std::sync::{Arc, OnceLock};

use crate::Memory;

/// A butler's memory: there once it has begun to remember, and never before. All clones are of the same.
#[derive(Clone, Default)]
pub struct MemoryHandle {
    memory: Arc<OnceLock<Arc<Memory>>>,
}

impl MemoryHandle {
    /// Says that this is the butler's memory from now on. The first one stays.
    pub fn set(&self, memory: &Arc<Memory>) {
        let _ = self.memory.set(memory.clone());
    }

    /// The butler's memory; `None`: it does not remember.
    pub fn get(&self) -> Option<Arc<Memory>> {
        self.memory.get().cloned()
    }
}
