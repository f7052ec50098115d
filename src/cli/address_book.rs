//! `butlerd contacts sync`, `matches`, `accept`, `reject`, `merge` and `split`: address books, by the tools of the butler whose
//! settings name one.

use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::problem::{FAILED, Problem};
use super::text::{count, one_line};
use super::{Caller, Outcome};

const RECONCILE: &str = "contacts_source_reconcile";

/// Whose address book.
#[derive(Debug, Args)]
pub struct Whose {
    /// The butler whose settings have [modules.contacts]
    #[arg(long, value_name = "BUTLER", default_value = "relationship")]
    butler: String,
}

/// What is done with address books.
#[derive(Debug, Subcommand)]
pub enum AddressBook {
    /// Sync an address book now, both ways
    Sync {
        /// List all of it, not what changed
        #[arg(long)]
        full: bool,
        /// Most of its cards were deleted on purpose
        #[arg(long, conflicts_with = "full")]
        believe_deletions: bool,
        #[command(flatten)]
        whose: Whose,
    },
    /// Show what cards may mean and nobody has decided; with a contact, also its cards
    Matches {
        /// A contact's name or id
        contact: Option<String>,
        #[command(flatten)]
        whose: Whose,
    },
    /// Say that a card is whom a match names
    Accept {
        proposal: Uuid,
        #[command(flatten)]
        whose: Whose,
    },
    /// Say that a card is not whom a match names
    Reject {
        proposal: Uuid,
        #[command(flatten)]
        whose: Whose,
    },
    /// Make two contacts one: the first goes into the second
    Merge {
        /// Name or id of the contact that goes
        contact: String,
        /// Name or id of the contact that stays
        into: String,
        #[command(flatten)]
        whose: Whose,
    },
    /// Show cards that both sides had changed and nobody looked at, or take another version of one
    Conflicts {
        conflict: Option<i64>,
        /// The version that is wanted; `seen` leaves the card as it is
        #[arg(long, value_name = "VERSION", value_parser = ["base", "ours", "theirs", "seen"], requires = "conflict")]
        take: Option<String>,
        #[command(flatten)]
        whose: Whose,
    },
    /// Take a card out of its contact: it is somebody else's
    Split {
        card: Uuid,
        #[command(flatten)]
        whose: Whose,
    },
}

/// What waits for a person, and a contact's cards.
#[derive(Deserialize, Serialize)]
struct Shown {
    proposals: Vec<Proposal>,
    cards: Vec<Card>,
}

#[derive(Deserialize, Serialize)]
struct Proposal {
    proposal_id: Uuid,
    kind: String,
    card_says: Said,
    /// Of the contact or person that it may be.
    name: Option<String>,
    #[serde(flatten)]
    more: Map<String, Value>,
}

#[derive(Deserialize, Serialize)]
struct Said {
    name: String,
    #[serde(flatten)]
    more: Map<String, Value>,
}

#[derive(Deserialize, Serialize)]
struct Card {
    card_id: Uuid,
    account: String,
    name: Option<String>,
    #[serde(flatten)]
    more: Map<String, Value>,
}

/// The contacts of a name.
#[derive(Deserialize)]
struct Named {
    contacts: Vec<Face>,
}

/// What tells contacts of one name apart.
#[derive(Deserialize)]
struct Face {
    contact: Uuid,
    identities: Vec<Identity>,
}

#[derive(Deserialize)]
struct Identity {
    identity: String,
}

impl Face {
    fn told(&self) -> String {
        let all: Vec<String> = self.identities.iter().map(|one| one_line(&one.identity, 60)).collect();
        if all.is_empty() { self.contact.to_string() } else { format!("{} ({})", self.contact, all.join(", ")) }
    }
}

/// The contact that is meant by a name or an id.
async fn named(caller: &Caller, whose: &Whose, contact: &str) -> Result<Uuid, Problem> {
    if let Ok(id) = contact.parse() {
        return Ok(id);
    }
    let found: Named = caller.tool(&whose.butler, RECONCILE, json!({"name": contact})).await?;
    match found.contacts.as_slice() {
        [] => Err(Problem::new(FAILED, "not_found", format!("No contact is called {contact}."), "Give the whole name")),
        [one] => Ok(one.contact),
        several => {
            let all: Vec<String> = several.iter().map(Face::told).collect();
            let why = format!("Several contacts are called {contact}: {}.", all.join("; "));
            Err(Problem::new(FAILED, "ambiguous", why, "Give the id of the one that is meant"))
        }
    }
}

pub async fn run(caller: Caller, what: AddressBook) -> Outcome {
    let out = &caller.out;
    let decided = async |whose: Whose, args: Value, said: &str| {
        let done: Value = caller.tool(&whose.butler, RECONCILE, args).await?;
        out.answer(&done, |out, _| {
            out.line(said);
            out.aside("Taken back with: butlerd undo");
        })
    };
    match what {
        AddressBook::Sync { full, believe_deletions, whose } => {
            let mode = match (full, believe_deletions) {
                (_, true) => "believe_deletions",
                (true, _) => "full",
                _ => "incremental",
            };
            let ran: Value = caller.tool(&whose.butler, "contacts_sync_now", json!({"mode": mode})).await?;
            if let Some(why) = ran["error"].as_str() {
                return Err(Problem::new(FAILED, "not_synced", format!("The address book was not synced: {why}."), ""));
            }
            out.answer(&ran, |out, ran| {
                let last = &ran["source"]["last_run"];
                let number = |key: &str| last[key].as_u64().map_or_else(|| "unknown".to_owned(), |n| n.to_string());
                let (came, went, gone) = (number("pulled"), number("pushed"), number("removed"));
                out.line(&format!("{came} came, {went} went, {gone} archived."));
                let open = ran["source"]["proposals"].as_u64().unwrap_or_default();
                if open > 0 {
                    out.aside(&format!("{open} for you to decide: butlerd contacts matches"));
                }
            })
        }
        AddressBook::Conflicts { conflict, take, whose } => {
            let asked = json!({"conflict_id": conflict, "take": take});
            let answer: Value = caller.tool(&whose.butler, "contacts_conflicts", asked).await?;
            super::calendar::show_conflicts(&caller, answer)
        }
        AddressBook::Matches { contact, whose } => {
            let contact = match contact {
                Some(contact) => Some(named(&caller, &whose, &contact).await?),
                None => None,
            };
            let shown: Shown = caller.tool(&whose.butler, RECONCILE, json!({"contact_id": contact})).await?;
            out.answer(&shown, |out, shown| {
                out.table(&shown.proposals)
                    .column("MATCH", |p| p.proposal_id.to_string())
                    .column("KIND", |p| &p.kind)
                    .column("CARD SAYS", |p| one_line(&p.card_says.name, 40))
                    .column("MAY BE", |p| one_line(p.name.as_deref().unwrap_or("the owner"), 40))
                    .print("Nothing waits for a decision.");
                if !shown.cards.is_empty() {
                    out.line(&format!("{}:", count(shown.cards.len(), "card")));
                    out.table(&shown.cards)
                        .column("CARD", |c| c.card_id.to_string())
                        .column("NAME", |c| one_line(c.name.as_deref().unwrap_or_default(), 40))
                        .column("ADDRESS BOOK", |c| one_line(&c.account, 60))
                        .print("");
                }
            })
        }
        AddressBook::Accept { proposal, whose } => {
            decided(whose, json!({"action": "accept", "proposal_id": proposal}), "It is theirs.").await
        }
        AddressBook::Reject { proposal, whose } => {
            decided(whose, json!({"action": "reject", "proposal_id": proposal}), "It is somebody else's.").await
        }
        AddressBook::Merge { contact, into, whose } => {
            let (contact, into) = (named(&caller, &whose, &contact).await?, named(&caller, &whose, &into).await?);
            decided(whose, json!({"action": "merge", "contact_id": contact, "into": into}), "They are one contact now.")
                .await
        }
        AddressBook::Split { card, whose } => {
            decided(whose, json!({"action": "split", "card_id": card}), "It is a contact of its own now.").await
        }
    }
}
