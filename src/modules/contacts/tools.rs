//! The tools: how address books are, a sync at once, and what people decide about who is who.

use std::sync::Arc;

use serde_json::{Value, json};
use uuid::Uuid;

use super::people::Said;
use super::run::{Mode, run};
use super::source::{Outcome, Source};
use super::sql::{self, decisions};
use super::work;
use crate::contract::ModuleError;
use ::tools::{Definition, Effect, Meta, Tool, ToolCall, ToolError, handler};
use base::{Label, Trust};

const SYNC: &str = "contacts_sync_now";
const STATUS: &str = "contacts_sync_status";
const LIST: &str = "contacts_source_list";
const RECONCILE: &str = "contacts_source_reconcile";
const CONFLICTS: &str = "contacts_conflicts";

pub(super) const NAMES: [&str; 5] = [SYNC, STATUS, LIST, RECONCILE, CONFLICTS];

/// A handler for one address book.
macro_rules! with {
    ($source:expr, $butler:expr, $run:path) => {{
        let (source, butler) = (Arc::clone($source), Arc::<str>::from($butler));
        handler(move |call| $run(call, source.clone(), butler.clone()))
    }};
}

pub(super) fn tools(source: &Arc<Source>, butler: &str) -> Result<Vec<Tool>, ModuleError> {
    let define = |name: &str, description: &str, properties: Value, meta: Meta| {
        let schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
        Definition::new(name, description, schema, meta).map(Arc::new).map_err(ModuleError::new)
    };
    let provider =
        json!({"type": "string", "enum": ["carddav", "google", "vcard"], "description": "All, if not given"});
    let account = json!({"type": "string", "maxLength": 2000, "description": "As contacts_source_list names it; all, if not given"});
    let id = |about: &str| json!({"type": "string", "format": "uuid", "description": about});
    let sync = define(
        SYNC,
        "Sync the address book with the household's people now, both ways. Says what came and went.",
        json!({"provider": provider, "account": account, "mode": {"type": "string",
            "enum": ["incremental", "full", "believe_deletions"], "default": "incremental", "description":
            "What changed; everything anew; or everything anew where most cards were deleted on purpose"}}),
        Meta { operators: true, ..Meta::write(Effect::Idempotent) },
    )?;
    let status = define(
        STATUS,
        "How the last sync of the address book went, and what waits for a person.",
        json!({"provider": provider, "account": account}),
        Meta::read(),
    )?;
    let list = define(
        LIST,
        "The address books that people come from, each with its state and how many cards it has.",
        json!({"provider": provider}),
        Meta::read(),
    )?;
    let reconcile = define(
        RECONCILE,
        "Decide who is who. `show` lists what cards of address books may mean and nobody has decided, or the cards of one \
         contact. `accept` and `reject` decide a proposal; `merge` makes two contacts one; `split` takes a card out of its \
         contact. `butlerd undo` takes each back.",
        json!({
            "action": {"type": "string", "enum": ["show", "accept", "reject", "merge", "split"], "default": "show"},
            "contact_id": id("Of show: one contact's alone. Of merge: the contact that goes into the other"),
            "into": id("Of merge: the contact that stays"),
            "name": {"type": "string", "maxLength": 500, "description": "Of show: the contacts of this name as well"},
            "proposal_id": id("Of accept and reject, from show"),
            "card_id": id("Of split, from show with contact_id"),
        }),
        Meta { operators: true, reads_untrusted: true, ..Meta::write(Effect::Once) },
    )?;
    let conflicts = define(
        CONFLICTS,
        "Cards that the address book and the household both changed: which versions there are, and which a person wants \
         instead. `seen` leaves the card as it is. Another choice can be made later.",
        json!({"conflict_id": {"type": "integer", "description": "One of them; all that are open, if not given"},
               "take": {"type": "string", "enum": ["base", "ours", "theirs", "seen"]}}),
        Meta { operators: true, reads_untrusted: true, ..Meta::write(Effect::Once) },
    )?;
    Ok(vec![
        Tool::new(&sync, with!(source, butler, sync_now)),
        Tool::new(&status, with!(source, butler, sync_status)),
        Tool::new(&list, with!(source, butler, source_list)),
        Tool::new(&reconcile, with!(source, butler, reconcile_source)),
        Tool::new(&conflicts, with!(source, butler, super::choices::conflicts)),
    ])
}

/// The butler's address books, as far as the call asks for them.
async fn sources(call: &ToolCall, source: &Source, butler: &str) -> Result<Vec<Value>, ToolError> {
    let mut all = sql::shown(&mut source.lease().await?, butler).await?;
    for key in ["provider", "account"] {
        if let Some(wanted) = call.text(key) {
            all.retain(|source| source[key] == wanted);
        }
    }
    // Why something failed quotes the server, and names of cards that anybody sent there.
    let lists = |row: &Value| ["unreadable", "refused"].iter().any(|key| row["last_run"][*key][0].is_string());
    if all.iter().any(|row| row["error"].is_string() || lists(row)) {
        call.shows(&Label::household(Trust::Stranger));
    }
    Ok(all)
}

async fn sync_now(call: ToolCall, source: Arc<Source>, butler: Arc<str>) -> Result<Value, ToolError> {
    // The row of this address book, whatever other rows name the butler.
    let own = |all: Vec<Value>| all.into_iter().find(|row| row["source_id"] == source.id.to_string());
    if own(sources(&call, &source, &butler).await?).is_none() {
        let why = format!("No such address book; this butler's is {}.", source.account);
        return Err(ToolError::refused("not_found", why));
    }
    let mode = match call.text("mode") {
        Some("full") => Mode::Full,
        Some("believe_deletions") => Mode::BelieveDeletions,
        _ => Mode::Incremental,
    };
    let (status, error) = match run(&source, mode).await? {
        Outcome::Done(_) => ("ok", None),
        Outcome::Elsewhere => {
            ("running", Some("This address book is being synced just now; ask contacts_sync_status.".to_owned()))
        }
        Outcome::Later(why) => ("later", Some(why)),
        Outcome::Owner(why) => ("needs_owner", Some(why)),
    };
    let source = own(sources(&call, &source, &butler).await?).unwrap_or_default();
    Ok(json!({"status": status, "error": error, "source": source}))
}

async fn sync_status(call: ToolCall, source: Arc<Source>, butler: Arc<str>) -> Result<Value, ToolError> {
    Ok(json!({"sources": sources(&call, &source, &butler).await?}))
}

async fn source_list(call: ToolCall, source: Arc<Source>, butler: Arc<str>) -> Result<Value, ToolError> {
    let shown = |source: &Value| {
        let of = |key: &str| source[key].clone();
        json!({"source_id": of("source_id"), "provider": of("provider"), "account": of("account"), "state": of("state"),
               "error": of("error"), "synced_at": of("synced_at"), "cards": of("cards"), "archived": of("archived"),
               "linked": of("linked"), "proposals": of("proposals")})
    };
    Ok(sources(&call, &source, &butler).await?.iter().map(shown).collect())
}

fn uuid(call: &ToolCall, name: &str) -> Result<Uuid, ToolError> {
    let given = call.text(name).and_then(|id| id.parse().ok());
    given.ok_or_else(|| ToolError::refused("invalid_arguments", format!("This action needs {name}.")))
}

fn not_found(what: &str) -> ToolError {
    let why = format!(
        "{what} Nothing was changed; butlerd contacts matches shows what waits, and with a name a contact's cards."
    );
    ToolError::refused("not_found", why)
}

async fn reconcile_source(call: ToolCall, source: Arc<Source>, _: Arc<str>) -> Result<Value, ToolError> {
    let action = call.text("action").unwrap_or("show").to_owned();
    if action == "show" {
        return show(&call, &source).await;
    }
    // What a card says is read before the transaction, in which the butler sees no card.
    let card = match action.as_str() {
        "split" => {
            let id = uuid(&call, "card_id")?;
            let bytes = sql::bytes(&mut source.lease().await?, id).await?;
            let said = bytes.as_deref().and_then(Said::of).ok_or_else(|| not_found("There is no such card."))?;
            Some((id, said))
        }
        _ => None,
    };
    let mut lease = call.lease().await?;
    let mut tx = call.begin(&mut lease).await?;
    let done = match (action.as_str(), card) {
        ("accept" | "reject", _) => {
            let proposal = uuid(&call, "proposal_id")?;
            if !decisions::decide(&mut tx, proposal, action == "accept").await? {
                tx.rollback().await?;
                return Err(not_found("There is no such proposal, or it is decided already."));
            }
            json!({"status": "ok", "proposal_id": proposal})
        }
        ("split", Some((card, said))) => {
            let Some(made) = decisions::split(&mut tx, card, &said.name, &json!(said.ids)).await? else {
                tx.rollback().await?;
                return Err(not_found("This card speaks of nobody."));
            };
            json!({"status": "ok", "card_id": card, "contact_id": made})
        }
        _ => {
            let (source, target) = (uuid(&call, "contact_id")?, uuid(&call, "into")?);
            if !decisions::merge(&mut tx, source, target).await? {
                tx.rollback().await?;
                return Err(not_found("These are not two contacts, or one was merged already."));
            }
            json!({"status": "ok", "contact_id": target, "merged": source})
        }
    };
    decisions::record(&mut tx, &action, &done).await?;
    tx.commit().await?;
    work::follow(&source).await;
    Ok(done)
}

async fn show(call: &ToolCall, source: &Source) -> Result<Value, ToolError> {
    let contact = call.text("contact_id").and_then(|id| id.parse::<Uuid>().ok());
    let mut lease = source.lease().await?;
    let proposals = sql::proposals(&mut lease, contact).await?;
    let cards = match contact {
        Some(contact) => sql::cards_of(&mut lease, contact).await?,
        None => Vec::new(),
    };
    // Anybody may have written what stands on a card.
    if !proposals.is_empty() || !cards.is_empty() {
        call.shows(&Label::household(Trust::Stranger));
    }
    let mut shown = json!({"proposals": proposals, "cards": cards});
    if let Some(name) = call.text("name") {
        shown["contacts"] = json!(sql::of_name(&mut lease, name.trim()).await?);
        call.shows(&Label::household(Trust::Stranger));
    }
    Ok(shown)
}
