//! A run: pull, push, and pull again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use uuid::Uuid;

use super::decide::{Theirs, changed, deleted, gone, pulled, taken, unsent};
use super::remote::{Changes, Fetched, Found, Next, Page, PushError, Remote, Stored};
use super::store::{Conflict, ConflictKind, Item, LocalStore, Which, Write};
use crate::lines::uid;

/// Items that are fetched and committed together.
const BATCH: usize = 50;
/// How often a change is decided anew because the house or the server moved meanwhile.
const MOST_TRIES: usize = 5;
/// Items that may fail one after the other, twice, before a run believes that the server is away.
const MOST_FAILURES: usize = 5;
/// Pages of one list; a server that has more goes in circles.
const MOST_PAGES: usize = 10_000;
/// Fewer items than this may be missing from a list that still has others.
const FEW: usize = 10;

/// How a run is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Nothing is written to the server; what was edited here waits.
    pub read_only: bool,
    /// A person said that most items were deleted on purpose.
    pub believe_mass_deletion: bool,
}

/// What a run did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Items that came from the server, new or changed.
    pub pulled: usize,
    /// Items that the server deleted.
    pub removed: usize,
    /// Items that were created, changed or deleted at the server.
    pub pushed: usize,
    /// Conflicts that were recorded.
    pub conflicts: usize,
    /// Whether everything was listed, because the cursor was missing or not known any more.
    pub listed: bool,
    /// Items of the server that can't be read: href and why. They are tried again when they change, or all are listed.
    pub unreadable: Vec<(String, String)>,
    /// Items of the house that the server doesn't take, and why. They are tried again with each run.
    pub refused: Vec<(Uuid, String)>,
    /// Set if the run stopped because most items are missing from the server's list.
    pub held: Option<Held>,
}

/// A list that is not believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    pub missing: usize,
    pub known: usize,
}

#[derive(Debug, thiserror::Error)]
pub enum SyncError<R, S> {
    /// The server; the next run goes on where this one ended.
    #[error("{0}")]
    Remote(#[source] R),
    #[error("the items can't be read or written: {0}")]
    Store(#[source] S),
    #[error("the server's list of changes has no end; check that `url` names one collection")]
    Endless,
}

type Outcome<T, R, S> = Result<T, SyncError<<R as Remote>::Error, <S as LocalStore>::Error>>;

/// Makes both sides equal, as far as they stand still.
///
/// # Errors
///
/// What ended the run before. Whatever was done until then is committed, and the next run goes on.
pub async fn sync<R: Remote, S: LocalStore>(remote: &R, store: &S, options: Options) -> Outcome<Report, R, S> {
    let mut run = Run { remote, store, options, report: Report::default() };
    run.pull().await?;
    if run.report.held.is_none() && !options.read_only && run.push().await? {
        run.pull().await?;
    }
    Ok(run.report)
}

struct Run<'a, R, S> {
    remote: &'a R,
    store: &'a S,
    options: Options,
    report: Report,
}

impl<R: Remote, S: LocalStore> Run<'_, R, S> {
    async fn pull(&mut self) -> Outcome<(), R, S> {
        let mut since = self.store.cursor().await.map_err(SyncError::Store)?;
        // Of a list of everything, what was on it.
        let mut listed: Option<BTreeSet<String>> = None;
        let mut taken = true;
        for n in 0.. {
            if n == MOST_PAGES {
                return Err(SyncError::Endless);
            }
            let changes = self.remote.changes(since.as_deref()).await.map_err(SyncError::Remote)?;
            let Changes::Page(page) = changes else {
                if since.is_none() {
                    return Err(SyncError::Endless);
                }
                (since, listed, taken) = (None, None, true);
                continue;
            };
            if page.whole && listed.is_none() {
                listed = Some(BTreeSet::new());
            }
            if let Some(listed) = &mut listed {
                for href in &page.gone {
                    listed.remove(href);
                }
                listed.extend(page.changed.iter().map(|(href, _)| href.clone()));
            }
            let next = page.next.clone();
            taken &= self.page(page).await?;
            match next {
                Next::More(cursor) => since = Some(cursor),
                Next::Done(cursor) => {
                    if let Some(listed) = listed {
                        taken &= self.missing(&listed).await?;
                    }
                    // A server that tells changes once would not tell again what was not taken.
                    if taken {
                        self.store.set_cursor(cursor.as_deref()).await.map_err(SyncError::Store)?;
                    }
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Deletions first: an item that moved to another href is linked to where it went.
    /// `false` if not all of it could be taken.
    async fn page(&mut self, page: Page) -> Outcome<bool, R, S> {
        let page = once(page);
        let mut taken = true;
        for hrefs in page.gone.chunks(BATCH) {
            taken &= self.absent(hrefs).await?;
        }
        // While some are written, the server is asked for the next.
        let mut came = Vec::new();
        for listed in page.changed.chunks(BATCH) {
            let stale = self.stale(listed).await?;
            let remote = self.remote;
            let (next, done) = tokio::join!(
                async { if stale.is_empty() { Ok(Vec::new()) } else { remote.fetch(&stale).await } },
                self.present(came)
            );
            taken &= done?;
            came = next.map_err(SyncError::Remote)?;
        }
        Ok(taken & self.present(came).await?)
    }

    /// Of what was listed, what is to be fetched.
    async fn stale(&self, listed: &[(String, String)]) -> Outcome<Vec<String>, R, S> {
        let hrefs: Vec<String> = listed.iter().map(|(href, _)| href.clone()).collect();
        let known = self.by_href(&hrefs).await?;
        let stale = |(href, etag): &&(String, String)| {
            let item = known.get(href);
            etag.is_empty()
                || item.is_none_or(|item| item.reread || item.sent.is_some() || item.etag.as_ref() != Some(etag))
        };
        Ok(listed.iter().filter(stale).map(|(href, _)| href.clone()).collect())
    }

    /// Takes what the server has, however the house moves meanwhile.
    /// `false` if the house edits faster than this, and something is still to be taken.
    async fn present(&mut self, fetched: Vec<Fetched>) -> Outcome<bool, R, S> {
        let mut fetched = last(fetched);
        if fetched.is_empty() {
            return Ok(true);
        }
        let store = self.store;
        let told = move |bytes: &[u8]| store.told(bytes);
        for _ in 0..MOST_TRIES {
            let hrefs: Vec<String> = fetched.iter().map(|fetched| fetched.href.clone()).collect();
            let mut known = self.by_href(&hrefs).await?;
            let mut twins = self.twins(&fetched, &known).await?;
            let (mut writes, mut of) = (Vec::new(), BTreeMap::new());
            for Fetched { href, what } in &fetched {
                let item = known.remove(href);
                let write = match what {
                    Found::Here { etag, bytes } => {
                        let theirs = Theirs { href, etag: etag.as_deref(), bytes };
                        let item = item.or_else(|| twins.remove(&uid(bytes)?));
                        Some(item.map_or_else(|| pulled(&theirs), |item| changed(item, &theirs, &told)))
                    }
                    Found::Missing => item.map(|item| gone(item, &told)),
                    Found::Unreadable(why) => {
                        self.report.unreadable.push((href.clone(), why.clone()));
                        None
                    }
                };
                if let Some(write) = write {
                    of.insert(write.id(), href.clone());
                    writes.push(write);
                }
            }
            let steps: Vec<(Uuid, bool)> = writes.iter().map(|write| (write.id(), write.removes())).collect();
            let refused = self.write(writes).await?;
            for (_, removes) in steps.iter().filter(|(id, _)| !refused.contains(id)) {
                *(if *removes { &mut self.report.removed } else { &mut self.report.pulled }) += 1;
            }
            let again: BTreeSet<&String> = refused.iter().filter_map(|id| of.get(id)).collect();
            fetched.retain(|fetched| again.contains(&fetched.href) && !matches!(fetched.what, Found::Unreadable(_)));
            if fetched.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// By their UIDs, items of the house that are new and have the UID of what the server has at an href that nobody here
    /// knows: one for each UID.
    async fn twins(
        &self,
        fetched: &[Fetched],
        known: &BTreeMap<String, Item>,
    ) -> Outcome<BTreeMap<String, Item>, R, S> {
        let of = |Fetched { href, what }: &Fetched| match what {
            Found::Here { bytes, .. } if !known.contains_key(href) => uid(bytes),
            _ => None,
        };
        let uids: Vec<String> = fetched.iter().filter_map(of).collect();
        if uids.is_empty() {
            return Ok(BTreeMap::new());
        }
        let items = self.store.items(Which::Uids(&uids)).await.map_err(SyncError::Store)?;
        let found = |item: &Item| known.values().any(|known| known.id == item.id);
        let free = items.into_iter().filter(|item| item.base.is_none() && item.ours.is_some() && !found(item));
        // Of several the oldest.
        Ok(free.rev().filter_map(|item| Some((item.uid.clone()?, item))).collect())
    }

    async fn absent(&mut self, hrefs: &[String]) -> Outcome<bool, R, S> {
        let missing = |href: &String| Fetched { href: href.clone(), what: Found::Missing };
        self.present(hrefs.iter().map(missing).collect()).await
    }

    /// Removes what a list of everything didn't name and what isn't there either when it is asked for by itself, because
    /// items that move while a list is made may be missing from it. `false` if it is not believed, or not all is taken.
    async fn missing(&mut self, listed: &BTreeSet<String>) -> Outcome<bool, R, S> {
        self.report.listed = true;
        let linked = self.store.linked().await.map_err(SyncError::Store)?;
        let known = linked.len();
        let unlisted: Vec<String> =
            linked.into_iter().map(|(_, href)| href).filter(|href| !listed.contains(href)).collect();
        // Only hrefs are kept until it is decided: what is there after all is taken at once, and removes nothing.
        let (mut missing, mut taken) = (BTreeSet::new(), true);
        for hrefs in unlisted.chunks(BATCH) {
            let fetched = self.remote.fetch(hrefs).await.map_err(SyncError::Remote)?;
            let (gone, there): (Vec<Fetched>, _) = last(fetched).into_iter().partition(|f| f.what == Found::Missing);
            missing.extend(gone.into_iter().map(|fetched| fetched.href));
            taken &= self.present(there).await?;
        }
        if mass_deletion(missing.len(), known) && !self.options.believe_mass_deletion {
            self.report.held = Some(Held { missing: missing.len(), known });
            return Ok(false);
        }
        let missing: Vec<String> = missing.into_iter().collect();
        for hrefs in missing.chunks(BATCH) {
            taken &= self.absent(hrefs).await?;
        }
        Ok(taken)
    }

    /// Whether anything was sent that is to be read back.
    async fn push(&mut self) -> Outcome<bool, R, S> {
        let before = self.report.pushed;
        let mut waiting: VecDeque<Uuid> = self.store.pending().await.map_err(SyncError::Store)?.into();
        let (mut failed, mut in_a_row, mut went_on) = (None, 0, false);
        while let Some(id) = waiting.pop_front() {
            match self.push_item(id).await {
                Ok(()) => (in_a_row, went_on) = (0, false),
                Err(SyncError::Remote(e)) => {
                    failed.get_or_insert(e);
                    in_a_row += 1;
                }
                Err(e) => return Err(e),
            }
            if in_a_row == MOST_FAILURES {
                if went_on {
                    break;
                }
                // It may be away, or stumble over just these, which are the oldest each time. Whoever waits behind them gets
                // a turn: the run goes on anywhere, so that sooner or later it comes to each.
                (in_a_row, went_on) = (0, true);
                waiting.rotate_left(anywhere(waiting.len()));
            }
        }
        match failed {
            Some(e) => Err(SyncError::Remote(e)),
            None => Ok(self.report.pushed > before),
        }
    }

    /// All steps for one item.
    async fn push_item(&mut self, id: Uuid) -> Outcome<(), R, S> {
        for _ in 0..MOST_TRIES {
            let item = self.store.items(Which::Id(id)).await.map_err(SyncError::Store)?.pop();
            let Some(item) = item.filter(Item::is_pending) else { break };
            if self.push_one(item).await? {
                break;
            }
        }
        Ok(())
    }

    /// One step for one item; `true` if nothing more is to be done for it now.
    async fn push_one(&mut self, mut item: Item) -> Outcome<bool, R, S> {
        if item.base.is_some() && item.etag.is_none() || item.base.is_none() && item.ours.is_none() {
            return self.look(item).await;
        }
        if item.ours.is_none() {
            // An update that is still under way finds nothing, or is what the deletion finds.
            return self.push_deletion(item).await;
        }
        // What was sent and not answered goes first, unchanged.
        let Some(bytes) = item.sent.clone().or(item.ours.clone()) else { return Ok(true) };
        if item.sent.is_none() {
            item.sent = Some(bytes.clone());
            if item.base.is_none() {
                let name = Uuid::new_v4().to_string();
                item.href = self.remote.new_href(&name);
            }
            if !self.write(vec![Write::Save { item: item.clone(), conflict: None }]).await?.is_empty() {
                return Ok(false);
            }
        }
        let href = item.href.clone().unwrap_or_default();
        let done = match (&item.base, &item.etag) {
            (Some(_), Some(etag)) => self.remote.update(&href, etag, &bytes).await,
            _ => self.remote.create(&href, &bytes).await,
        };
        match done {
            Ok(Stored { href, etag }) => {
                self.report.pushed += 1;
                let take = |item| taken(item, bytes.clone(), href.clone(), etag.clone());
                self.settle(item.id, take).await?;
                // What was edited meanwhile goes with the next run, when it is known what the server made of this.
                Ok(true)
            }
            Err(PushError::Missing) if item.base.is_none() => {
                let why = "the collection is not at the server any more; look there whether it was deleted or moved";
                self.report.refused.push((item.id, why.to_owned()));
                self.settle(item.id, unsent).await?;
                Ok(true)
            }
            Err(PushError::Changed | PushError::Missing) => self.look_at(&href, item).await,
            Err(PushError::SameUid) => self.same_uid(item).await,
            Err(PushError::Refused(why)) => {
                self.report.refused.push((item.id, why));
                self.settle(item.id, unsent).await?;
                Ok(true)
            }
            Err(PushError::Failed(e)) => Err(SyncError::Remote(e)),
        }
    }

    async fn push_deletion(&mut self, item: Item) -> Outcome<bool, R, S> {
        let (href, etag) = (item.href.clone().unwrap_or_default(), item.etag.clone().unwrap_or_default());
        match self.remote.delete(&href, &etag).await {
            Ok(()) => {
                self.report.pushed += 1;
                self.settle(item.id, deleted).await?;
                Ok(true)
            }
            Err(PushError::Missing | PushError::Changed) => self.look_at(&href, item).await,
            Err(PushError::Refused(why)) => {
                self.report.refused.push((item.id, why));
                Ok(true)
            }
            Err(PushError::SameUid) => Ok(true),
            Err(PushError::Failed(e)) => Err(SyncError::Remote(e)),
        }
    }

    /// Asks the server what it has before anything is sent.
    async fn look(&mut self, item: Item) -> Outcome<bool, R, S> {
        match (item.href.clone(), &item.sent) {
            // It was never sent.
            (None, _) | (Some(_), None) if item.base.is_none() => {
                self.settle(item.id, |item| match item.ours {
                    None => Write::Remove { id: item.id, revision: item.revision, conflict: None },
                    Some(_) => Write::Save { item, conflict: None },
                })
                .await?;
                Ok(true)
            }
            (href, _) => self.look_at(&href.unwrap_or_default(), item).await,
        }
    }

    /// The server's item is not as it was thought; it is decided anew.
    async fn look_at(&mut self, href: &str, item: Item) -> Outcome<bool, R, S> {
        let fetched = self.remote.fetch(&[href.to_owned()]).await.map_err(SyncError::Remote)?;
        let here = fetched.iter().any(|fetched| matches!(fetched.what, Found::Here { .. }));
        let unreadable = fetched.iter().any(|fetched| matches!(fetched.what, Found::Unreadable(_)));
        if !here && !unreadable && item.base.is_none() && item.ours.is_some() {
            // Nothing is there, and yet it can't be created: the server will say why, or there is another place.
            self.settle(item.id, unsent).await?;
            return Ok(false);
        }
        let nameless = fetched.iter().any(|fetched| matches!(fetched.what, Found::Here { etag: None, .. }));
        self.present(fetched).await?;
        if nameless {
            return self.unsafe_to_send(item.id).await;
        }
        Ok(unreadable)
    }

    /// Without an etag nobody could say under which condition it is sent, and it might overwrite what somebody else wrote.
    /// `true` if something waits for that.
    async fn unsafe_to_send(&mut self, id: Uuid) -> Outcome<bool, R, S> {
        let item = self.store.items(Which::Id(id)).await.map_err(SyncError::Store)?.pop();
        let waits = item.is_some_and(|item| item.is_pending() && item.base.is_some() && item.etag.is_none());
        if waits {
            let why =
                "the server names no etag for this item, so an edit could overwrite somebody else's; edit it there";
            self.report.refused.push((id, why.to_owned()));
        }
        Ok(waits)
    }

    /// The server has its UID elsewhere. Where that is an item of the house, this one is its double.
    async fn same_uid(&mut self, item: Item) -> Outcome<bool, R, S> {
        let others = match &item.uid {
            Some(uid) => self.store.items(Which::Uids(std::slice::from_ref(uid))).await.map_err(SyncError::Store)?,
            None => Vec::new(),
        };
        let twin = others.into_iter().find(|other| other.id != item.id && other.base.is_some());
        if let Some(twin) = twin.filter(|_| item.base.is_none()) {
            let remove = |item: Item| {
                let (id, revision) = (item.id, item.revision);
                let theirs = twin.base.clone();
                let kind = ConflictKind::BothCreated;
                let conflict = Conflict { kind, uid: item.uid, base: None, ours: item.ours, theirs };
                Write::Remove { id, revision, conflict: Some(conflict) }
            };
            self.settle(item.id, remove).await?;
            return Ok(true);
        }
        let why = "the server has another item with this UID; give this one a new UID, or delete one of the two";
        self.report.refused.push((item.id, why.to_owned()));
        self.settle(item.id, unsent).await?;
        Ok(true)
    }

    /// Writes what became of an item, on top of what the house did to it meanwhile.
    async fn settle(&mut self, id: Uuid, become_: impl Fn(Item) -> Write) -> Outcome<(), R, S> {
        // Without an end it would be bad luck beyond measure; with one, the next run finds what was sent.
        for _ in 0..MOST_TRIES {
            let item = self.store.items(Which::Id(id)).await.map_err(SyncError::Store)?.pop();
            let Some(item) = item else { return Ok(()) };
            if self.write(vec![become_(item)]).await?.is_empty() {
                return Ok(());
            }
        }
        Ok(())
    }

    async fn by_href(&self, hrefs: &[String]) -> Outcome<BTreeMap<String, Item>, R, S> {
        let items = self.store.items(Which::Hrefs(hrefs)).await.map_err(SyncError::Store)?;
        Ok(items.into_iter().filter_map(|item| Some((item.href.clone()?, item))).collect())
    }

    /// Commits; tells which rows have moved on.
    async fn write(&mut self, writes: Vec<Write>) -> Outcome<Vec<Uuid>, R, S> {
        if writes.is_empty() {
            return Ok(Vec::new());
        }
        let conflicts: Vec<Uuid> = writes.iter().filter(|write| write.conflict().is_some()).map(Write::id).collect();
        let refused = self.store.write(writes).await.map_err(SyncError::Store)?;
        self.report.conflicts += conflicts.iter().filter(|id| !refused.contains(id)).count();
        Ok(refused)
    }
}

/// A place in a list of this length, by chance.
fn anywhere(length: usize) -> usize {
    let chance = Uuid::new_v4().as_u128() % length.max(1) as u128;
    chance as usize
}

/// Of what is named twice, the last: two would become two items.
fn last(fetched: Vec<Fetched>) -> Vec<Fetched> {
    let by_href: BTreeMap<String, Found> = fetched.into_iter().map(|Fetched { href, what }| (href, what)).collect();
    by_href.into_iter().map(|(href, what)| Fetched { href, what: kept(what) }).collect()
}

/// No text of a database has a NUL: one item with it would have all that are committed with it refused, each time.
fn kept(what: Found) -> Found {
    match what {
        Found::Here { bytes, .. } if bytes.contains(&0) => {
            Found::Unreadable("it has a NUL character, which no text may have; change it there".to_owned())
        }
        other => other,
    }
}

/// A page that names each href once: the last time. What it says is there and gone is asked for by itself.
fn once(page: Page) -> Page {
    let mut changed: BTreeMap<String, String> = page.changed.into_iter().collect();
    let mut gone: BTreeSet<String> = page.gone.into_iter().collect();
    gone.retain(|href| match changed.get_mut(href) {
        Some(etag) => {
            etag.clear();
            false
        }
        None => true,
    });
    Page { changed: changed.into_iter().collect(), gone: gone.into_iter().collect(), ..page }
}

/// More than half of all that was known, and more than a few; or all of several.
fn mass_deletion(missing: usize, known: usize) -> bool {
    missing > FEW && missing * 2 > known || missing == known && known > 2
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_list_that_misses_most_is_not_believed() {
        use super::mass_deletion;
        for (missing, known) in [(3, 3), (11, 20), (11, 11), (600, 1000), (5000, 5000)] {
            assert!(mass_deletion(missing, known), "{missing} of {known}");
        }
        for (missing, known) in [(0, 0), (1, 1), (2, 2), (10, 11), (10, 1000), (400, 1000)] {
            assert!(!mass_deletion(missing, known), "{missing} of {known}");
        }
    }
}
