//! A store in memory, which does what a database would: each write is whole or is not.

use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard};

use uuid::Uuid;

use crate::sync::{Conflict, Item, LocalStore, Which, Write};
use crate::uid;

#[derive(Default)]
pub struct MemoryStore(Mutex<State>);

#[derive(Default)]
pub struct State {
    pub items: Vec<Item>,
    pub conflicts: Vec<Conflict>,
    pub cursor: Option<String>,
}

impl MemoryStore {
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// The house makes an item.
    pub fn add(&self, bytes: Vec<u8>) {
        self.state().items.push(Item { revision: 1, ..Item::new(uid(&bytes), bytes) });
    }

    /// The house edits an item or deletes it.
    pub fn edit(&self, id: Uuid, ours: Option<Vec<u8>>) {
        let mut state = self.state();
        let item = state.items.iter_mut().find(|item| item.id == id).unwrap();
        item.ours = ours;
        item.revision += 1;
    }

    /// What the house shows: id and content.
    pub fn shown(&self) -> Vec<(Uuid, Vec<u8>)> {
        self.state().items.iter().filter_map(|item| Some((item.id, item.ours.clone()?))).collect()
    }

    pub fn is_pending(&self) -> bool {
        self.state().items.iter().any(|item| item.is_pending() || item.reread)
    }
}

impl LocalStore for MemoryStore {
    type Error = Infallible;

    async fn cursor(&self) -> Result<Option<String>, Infallible> {
        Ok(self.state().cursor.clone())
    }

    async fn set_cursor(&self, cursor: Option<&str>) -> Result<(), Infallible> {
        self.state().cursor = cursor.map(str::to_owned);
        Ok(())
    }

    async fn items(&self, which: Which<'_>) -> Result<Vec<Item>, Infallible> {
        let of = |item: &&Item| match which {
            Which::Id(id) => item.id == id,
            Which::Hrefs(hrefs) => item.href.as_ref().is_some_and(|href| hrefs.contains(href)),
            Which::Uids(uids) => item.uid.as_ref().is_some_and(|uid| uids.contains(uid)),
        };
        Ok(self.state().items.iter().filter(of).cloned().collect())
    }

    async fn linked(&self) -> Result<Vec<(Uuid, String)>, Infallible> {
        let state = self.state();
        let linked = state.items.iter().filter(|item| item.base.is_some());
        Ok(linked.filter_map(|item| Some((item.id, item.href.clone()?))).collect())
    }

    async fn pending(&self) -> Result<Vec<Uuid>, Infallible> {
        Ok(self.state().items.iter().filter(|item| item.is_pending()).map(|item| item.id).collect())
    }

    async fn write(&self, writes: Vec<Write>) -> Result<Vec<Uuid>, Infallible> {
        let mut state = self.state();
        let mut refused = Vec::new();
        for write in writes {
            let at = state.items.iter().position(|item| item.id == write.id());
            let is = at.map_or(0, |at| state.items[at].revision);
            let (Write::Save { item: Item { revision: seen, .. }, .. } | Write::Remove { revision: seen, .. }) = &write;
            if is != *seen {
                refused.push(write.id());
                continue;
            }
            state.conflicts.extend(write.conflict().cloned());
            match (write, at) {
                (Write::Save { mut item, .. }, at) => {
                    item.revision += 1;
                    match at {
                        Some(at) => state.items[at] = item,
                        None => state.items.push(item),
                    }
                }
                (Write::Remove { .. }, Some(at)) => drop(state.items.remove(at)),
                (Write::Remove { .. }, None) => {}
            }
        }
        Ok(refused)
    }
}
