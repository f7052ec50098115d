//! Cards and people of the house, compared with each other: one transaction for each card.

use serde_json::{Value, json};
use uuid::Uuid;

use super::people::{Contact, Id, Learned, Said, Seen, learned, new_card, taught};
use super::source::Source;
use super::sql;
use base::crash;
use dav::sync::Item;
use store::{StoreError, Tx};

/// Cards that are looked for at once, and people who are added in one transaction.
const BATCH: i64 = 100;

/// Compares all cards that changed, or whose contacts did. How many cards of the address book were edited.
///
/// # Errors
/// Why not; what was done until then is committed.
pub(super) async fn compare(source: &Source, writes: bool) -> Result<u64, StoreError> {
    let (mut after, mut edited) = (Uuid::nil(), 0);
    loop {
        let due = sql::due(&mut source.lease().await?, source.id, after, BATCH).await?;
        for card in &due {
            edited += u64::from(one(source, *card, writes).await?);
        }
        match due.last() {
            Some(last) => after = *last,
            None => return Ok(edited),
        }
    }
}

/// After what a person decided: what follows from it a sync does as well.
pub(super) async fn follow(source: &Source) {
    if let Err(e) = compare(source, source.settings.writes()).await {
        tracing::warn!(error = %e, "cards are compared with people at the next sync");
    }
    source.wake.notify_one();
}

/// One card. Whether it was edited.
async fn one(source: &Source, id: Uuid, writes: bool) -> Result<bool, StoreError> {
    let mut lease = source.lease().await?;
    let mut tx = lease.begin().await.map_err(StoreError::query("beginning"))?;
    sql::hold_people(&mut tx).await?;
    let Some(card) = sql::card(&mut tx, id).await? else {
        tx.rollback().await.map_err(StoreError::query("rolling back"))?;
        return Ok(false);
    };
    let mut seen: Option<Seen> = card.seen.clone().and_then(|seen| serde_json::from_value(seen).ok());
    let mut ours = card.ours.clone();
    let was_another = seen.as_ref().is_some_and(|seen| card.contact != Some(seen.contact));
    if let Some(before) = seen.take_if(|seen| card.contact != Some(seen.contact)) {
        withdraw(source, &mut tx, id, &before).await?;
        let edits = if writes { before.untaught() } else { Vec::new() };
        ours = ours.map(|ours| dav::card::edited(&ours, &edits).unwrap_or(ours));
    }
    let said = ours.as_deref().and_then(Said::of);
    let mut work = Work { source, tx: &mut tx, card: id, state: card.state.as_deref(), was_another };
    let contact = match &said {
        Some(said) => work.whom(said, card.contact, card.seen.is_some()).await?,
        None => None,
    };
    let (ours, seen) = match (&said, contact) {
        (Some(said), Some(contact)) => work.both(said, seen, contact, (&ours, writes)).await?,
        _ => (ours, None),
    };
    let edited = ours != card.ours;
    let seen = seen.map(|seen| json!(seen));
    sql::compared(&mut tx, &card, &ours, &seen).await?;
    crash::point("contacts.comparing");
    tx.commit().await.map_err(StoreError::query("committing"))?;
    crash::point("contacts.compared");
    Ok(edited)
}

/// A card does not speak of a contact any more: what it alone said of them goes.
async fn withdraw(source: &Source, tx: &mut Tx<'_>, card: Uuid, before: &Seen) -> Result<(), StoreError> {
    let (others, _) = sql::others(tx, before.contact, card).await?;
    let others = ids(&others);
    for id in before.card.iter().filter(|id| !others.contains(id)) {
        sql::forget(tx, before.contact, (&id.channel, &id.identity), Some(source.id)).await?;
    }
    Ok(())
}

/// All identities of these lists.
fn ids(lists: &[Value]) -> Vec<Id> {
    let all = lists.iter().filter_map(Value::as_array).flatten();
    all.filter_map(|id| serde_json::from_value(id.clone()).ok()).collect()
}

/// The work on one card.
struct Work<'w, 't> {
    source: &'w Source,
    tx: &'w mut Tx<'t>,
    card: Uuid,
    state: Option<&'w str>,
    /// It spoke of another contact until now.
    was_another: bool,
}

impl Work<'_, '_> {
    /// Of whom the card speaks. `None`: of nobody, or a person has to say.
    async fn whom(&mut self, said: &Said, linked: Option<Uuid>, was: bool) -> Result<Option<Uuid>, StoreError> {
        let contact = match (self.state, linked) {
            (Some("left_out"), _) => return Ok(None),
            (Some("linked" | "apart"), Some(contact)) => Some(contact),
            // The house forgot the person, and is not told of them again.
            (Some("linked"), None) if was => {
                sql::link(self.tx, self.card, "left_out", None).await?;
                return Ok(None);
            }
            (Some("apart"), None) => Some(sql::make(self.tx, &said.name, self.source.id).await?),
            _ => self.find(said).await?,
        };
        let state = if contact.is_some() { "linked" } else { "waiting" };
        if (self.state, linked) != (Some(state), contact) {
            sql::link(self.tx, self.card, state, contact).await?;
        }
        Ok(contact)
    }

    /// By an identity for certain, by a name as a proposal. Somebody new is made.
    async fn find(&mut self, said: &Said) -> Result<Option<Uuid>, StoreError> {
        sql::unask(self.tx, self.card).await?;
        let mut found: Vec<Uuid> =
            sql::by_identity(self.tx, &json!(said.ids)).await?.into_iter().map(|(contact, ..)| contact).collect();
        found.dedup();
        let (some, refused) = (!found.is_empty(), sql::refused(self.tx, self.card).await?);
        found.retain(|contact| !refused.contains(contact));
        if some && found.is_empty() {
            self.state = Some("apart");
            return Ok(Some(sql::make(self.tx, &said.name, self.source.id).await?));
        }
        // Whoever writes the owner's address on a card is not thereby the owner, nor is the owner reached as the card says.
        let owner = sql::by_identity(self.tx, &json!(self.source.owner)).await?.first().map(|(contact, ..)| *contact);
        if said.ids.iter().any(|id| self.source.is_owner(id)) || owner.is_some_and(|owner| found.contains(&owner)) {
            self.ask("owner", (owner, None), said, &said.ids).await?;
            return Ok(None);
        }
        match found.as_slice() {
            [] => {}
            // Whom the same address book has by another name is somebody else: ten people share a switchboard's number.
            [only] if self.has_other_name(*only, said).await? => {
                self.ask("identity", (Some(*only), None), said, &said.ids).await?;
                return Ok(None);
            }
            [only] => {
                sql::unarchive(self.tx, *only).await?;
                return Ok(Some(*only));
            }
            several => {
                for contact in several {
                    self.ask("identity", (Some(*contact), None), said, &said.ids).await?;
                }
                return Ok(None);
            }
        }
        let named = sql::by_name(self.tx, &said.name, self.source.id).await?;
        for (contact, entity) in &named {
            let entity = if contact.is_some() { None } else { *entity };
            self.ask("name", (*contact, entity), said, &said.ids).await?;
        }
        if named.is_empty() { Ok(Some(sql::make(self.tx, &said.name, self.source.id).await?)) } else { Ok(None) }
    }

    /// Whether the same address book has a contact, and never by this name.
    async fn has_other_name(&mut self, contact: Uuid, said: &Said) -> Result<bool, StoreError> {
        let (names, name) = (sql::called(self.tx, contact, self.card).await?, said.name.to_lowercase());
        Ok(!names.is_empty() && names.iter().all(|one| one.to_lowercase() != name))
    }

    async fn ask(
        &mut self,
        kind: &str,
        of: (Option<Uuid>, Option<Uuid>),
        said: &Said,
        ids: &[Id],
    ) -> Result<(), StoreError> {
        let says = json!({"name": said.name, "identities": ids});
        sql::ask(self.tx, (self.card, kind), of, &says).await
    }

    /// Lets the card and its contact learn of each other. The card's bytes then, and what both said.
    async fn both(
        &mut self,
        said: &Said,
        seen: Option<Seen>,
        contact: Uuid,
        (ours, writes): (&Option<Vec<u8>>, bool),
    ) -> Result<(Option<Vec<u8>>, Option<Seen>), StoreError> {
        let Some(before) = sql::face(self.tx, contact).await?.map(Contact::new) else {
            return Ok((ours.clone(), None));
        };
        let (others, older) = sql::others(self.tx, contact, self.card).await?;
        let (elsewhere, leads) = (ids(&others), !older);
        let news = learned(said, seen.as_ref(), &before, leads);
        // Whoever was said to be somebody else just now is not asked about again, identity by identity.
        let alone = self.was_another && others.is_empty();
        let decided = seen.is_none() && (alone || self.state == Some("apart"));
        self.learn(said, news, contact, (&before, &elsewhere, decided)).await?;
        let house = sql::face(self.tx, contact).await?.map_or_else(|| before.clone(), Contact::new);
        let edits = match writes {
            true => taught(said, seen.as_ref(), (&house, &before), leads, &elsewhere),
            false => Vec::new(),
        };
        let edited = ours.as_deref().filter(|_| !edits.is_empty()).and_then(|ours| dav::card::edited(ours, &edits));
        let ours = edited.or_else(|| ours.clone());
        let after = ours.as_deref().and_then(Said::of).unwrap_or_else(|| said.clone());
        let mut taught = seen.map(|seen| seen.taught).unwrap_or_default();
        taught.extend(after.ids.iter().filter(|id| !said.ids.contains(id)).cloned());
        taught.retain(|id| after.ids.contains(id));
        Ok((ours, Some(Seen { contact, name: after.name, card: after.ids, house: house.raw, taught })))
    }

    /// Tells the contact what its card says now. What is somebody else's, and what is about the owner, a person has to say.
    async fn learn(
        &mut self,
        said: &Said,
        news: Learned,
        contact: Uuid,
        (house, elsewhere, decided): (&Contact, &[Id], bool),
    ) -> Result<(), StoreError> {
        let of_owner = house.ids.iter().any(|id| self.source.is_owner(id));
        let whose = sql::by_identity(self.tx, &json!(news.added)).await?;
        let mut owners = Vec::new();
        for id in &news.added {
            let has = whose.iter().find(|(_, channel, identity)| *channel == id.channel && *identity == id.identity);
            match has {
                Some((other, ..)) if *other != contact && decided => {}
                Some((other, ..)) if *other != contact => {
                    self.ask("identity", (Some(*other), None), said, std::slice::from_ref(id)).await?;
                }
                None if of_owner || self.source.is_owner(id) => owners.push(id.clone()),
                _ => {
                    let (by, believed) = ((id.channel.as_str(), id.identity.as_str()), self.source.believed);
                    if has.is_none() {
                        sql::note(self.tx, contact, self.source.id, by, believed).await?;
                    } else {
                        sql::believe_again(self.tx, contact, by, believed).await?;
                    }
                }
            }
        }
        if !owners.is_empty() {
            self.ask("owner", (Some(contact), None), said, &owners).await?;
        }
        for id in news.gone.iter().filter(|id| !elsewhere.contains(id) && !self.source.is_owner(id)) {
            sql::forget(self.tx, contact, (&id.channel, &id.identity), None).await?;
        }
        match news.name {
            Some(name) => sql::rename(self.tx, contact, self.source.id, &name).await,
            None => Ok(()),
        }
    }
}

/// Makes cards of people whom no address book speaks of. How many.
///
/// # Errors
/// Why not; what was done until then is committed.
pub(super) async fn add_people(source: &Source) -> Result<u64, StoreError> {
    let mut added = 0;
    loop {
        let mut lease = source.lease().await?;
        let mut tx = lease.begin().await.map_err(StoreError::query("beginning"))?;
        sql::hold_people(&mut tx).await?;
        let people = sql::without_card(&mut tx, &json!(source.owner), 100).await?;
        if people.is_empty() {
            tx.rollback().await.map_err(StoreError::query("rolling back"))?;
            return Ok(added);
        }
        for (contact, house) in people {
            let house = Contact::new(house);
            let bytes = new_card(contact, &house).unwrap_or_default();
            let said = Said::of(&bytes);
            let item = Item::new(dav::uid(&bytes), bytes);
            let (name, card) = said.map_or_else(Default::default, |said| (said.name, said.ids));
            let seen = Seen { contact, name, taught: card.clone(), card, house: house.raw };
            sql::add_card(&mut tx, source.id, &item, &json!(seen)).await?;
            sql::link(&mut tx, item.id, "linked", Some(contact)).await?;
            added += 1;
        }
        tx.commit().await.map_err(StoreError::query("committing"))?;
        crash::point("contacts.added");
    }
}
