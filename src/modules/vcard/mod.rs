//! Contacts as vCards: the text that address books exchange (RFC 6350), over the register that the relationship butler
//! keeps.
//!
//! The register is the roster's: its functions `contact_cards(uuid)` and `contact_from_card(jsonb)` say what a card
//! holds and make a contact of one. Here the text is read and written.

mod card;
mod sql;

use std::path::Path;

use async_trait::async_trait;
use serde_json::{Value, json};
use uuid::Uuid;

use super::contract::{Factory, Manifest, Module, ModuleContext, ModuleError};
use base::{ButlerName, TenantId};
use store::StoreError;
use tools::{Definition, Effect, Meta, Tool, ToolCall, ToolError, handler};

const EXPORT: &str = "contact_export_vcard";
const IMPORT: &str = "contact_import_vcard";
/// Of one import: bytes of text, and cards.
const MAX_TEXT: usize = 1 << 20;
const MAX_CARDS: usize = 500;

pub(super) struct VcardFactory;

impl Factory for VcardFactory {
    fn name(&self) -> &str {
        "vcard"
    }
    fn build(&self, _: &Value, _: &ButlerName, _: &Path) -> Result<Box<dyn Module>, ModuleError> {
        Ok(Box::new(VcardModule))
    }
}

struct VcardModule;

#[async_trait]
impl Module for VcardModule {
    fn manifest(&self) -> Result<Manifest, ModuleError> {
        Ok(Manifest { tools: vec![EXPORT.to_owned(), IMPORT.to_owned()], ..Manifest::default() })
    }

    async fn tools(&self, cx: &ModuleContext) -> Result<Vec<Tool>, ModuleError> {
        let mut lease = cx.store.tenant(&TenantId::owner()).await.map_err(ModuleError::new)?;
        if !sql::is_kept(&mut lease).await.map_err(ModuleError::new)? {
            return Err("this butler keeps no register of contacts: its migrations define no contact_cards(uuid) and \
                        contact_from_card(jsonb)"
                .into());
        }
        let export = Definition::of(
            EXPORT,
            "One contact, or all that are listed, as vCard 4.0 text for an address book.",
            json!({"contact_id": {"type": "string", "format": "uuid", "description":
                "The contact, by the id that contact_resolve or contact_search gave. Leave it out for all."}}),
            json!([]),
            Meta::read(),
        )?;
        let import = Definition::of(
            IMPORT,
            "Take in vCard text (versions 2.1 to 4.0, one card or many). Somebody of the same name who is there already \
             gets what is new. What a card holds that can't be taken in is told, card by card.",
            json!({"vcf_content": {"type": "string", "minLength": 1, "maxLength": MAX_TEXT,
                                   "description": "The text, with BEGIN:VCARD and END:VCARD"}}),
            json!(["vcf_content"]),
            Meta { reads_untrusted: true, ..Meta::write(Effect::Idempotent) },
        )?;
        Ok(vec![Tool::new(&export, handler(contact_export)), Tool::new(&import, handler(contact_import))])
    }
}

async fn contact_export(call: ToolCall) -> Result<Value, ToolError> {
    let which: Option<Uuid> = call.text("contact_id").and_then(|id| id.parse().ok());
    let mut lease = call.lease().await?;
    let cards = sql::cards(&mut lease, which).await.map_err(refusal)?;
    let text: String = cards.iter().map(card::write).collect();
    Ok(json!({"contacts": cards.len(), "vcard": text}))
}

async fn contact_import(call: ToolCall) -> Result<Value, ToolError> {
    let (cards, strange) = card::read(call.text("vcf_content").unwrap_or_default());
    if cards.is_empty() {
        let why = "There is no vCard in this text. A card begins with BEGIN:VCARD, ends with END:VCARD and has a name (FN or N).";
        return Err(ToolError::refused("invalid_value", why));
    }
    if cards.len() > MAX_CARDS {
        let why = format!("These are {} cards; at most {MAX_CARDS} are taken in at once. Split the text.", cards.len());
        return Err(ToolError::refused("too_many", why));
    }
    let mut lease = call.lease().await?;
    let mut tx = call.begin(&mut lease).await?;
    let mut taken = Vec::with_capacity(cards.len());
    for card in &cards {
        taken.extend(sql::take_in(&mut tx, card).await?);
    }
    tx.commit().await?;
    Ok(json!({"contacts": taken, "lines_not_understood": strange}))
}

/// What the register refuses is its sentence.
fn refusal(e: tokio_postgres::Error) -> ToolError {
    match e.as_db_error() {
        Some(db) if db.code().code().starts_with("22") => ToolError::refused("invalid_value", db.message().to_owned()),
        _ => ToolError::Store(StoreError::Query { step: "reading contacts", source: e }),
    }
}
