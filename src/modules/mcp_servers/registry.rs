//! The servers of a butler, for whoever asks how they are.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::server::Server;

/// The servers of one butler that have started, by name. Cheap to clone.
#[derive(Clone, Default)]
pub struct McpServers(Arc<Mutex<BTreeMap<String, Arc<Server>>>>);

impl McpServers {
    pub(super) fn add(&self, server: &Arc<Server>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(server.parts.name.clone(), server.clone());
    }

    pub(super) fn all(&self) -> Vec<Arc<Server>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}
