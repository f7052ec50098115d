//! What sessions may have of a butler's tools, as these are now.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};

use super::definition::{Definition, Effect};
use super::finder::Finder;

/// The tools that sessions may be told of. Clones share it; it holds definitions alone, and so keeps no butler.
#[derive(Clone)]
pub struct Offered(Arc<RwLock<Arc<OfferedTools>>>);

/// The tools that sessions may be told of, at one time.
pub struct OfferedTools {
    pub names: Vec<String>,
    pub finder: Finder,
    /// The names of those that change nothing.
    pub readers: BTreeSet<String>,
}

impl Default for Offered {
    fn default() -> Self {
        Self(Arc::new(RwLock::new(Arc::new(OfferedTools::of(Vec::new())))))
    }
}

impl Offered {
    pub fn now(&self) -> Arc<OfferedTools> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set(&self, tools: Vec<Arc<Definition>>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(OfferedTools::of(tools));
    }
}

impl OfferedTools {
    fn of(tools: Vec<Arc<Definition>>) -> Self {
        let readers = tools.iter().filter(|def| def.effect() == Effect::None).map(|def| def.name.clone()).collect();
        Self { names: tools.iter().map(|def| def.name.clone()).collect(), finder: Finder::new(tools), readers }
    }
}
