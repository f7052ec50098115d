//! Tools over the data that every butler has: its key-value state and its attachments.

use std::sync::{Arc, LazyLock};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::call::{ToolCall, ToolError};
use super::definition::{Definition, Effect, Meta};
use super::sql::state::RESERVED_PREFIX;
use super::sql::{blobs, state};
use super::tool::{Tool, handler};
use base::{Label, Trust};
use store::Lease;

const MAX_KEY: usize = 256;
/// The largest value of `state_set`, as JSON text.
const MAX_VALUE: usize = 256 * 1024;
/// The largest attachment that is handed to a model in one piece.
const MAX_ATTACHMENT: i32 = 8 * 1024 * 1024;

/// `state_*` and `get_attachment`.
pub fn core_tools() -> Vec<Tool> {
    static DEFS: LazyLock<Vec<Arc<Definition>>> = LazyLock::new(definitions);
    let handlers =
        [handler(state_get), handler(state_set), handler(state_delete), handler(state_list), handler(get_attachment)];
    DEFS.iter().zip(handlers).map(|(d, h)| Tool::new(d, h)).collect()
}

fn definitions() -> Vec<Arc<Definition>> {
    let key = json!({"type": "string", "minLength": 1, "maxLength": MAX_KEY, "description": "Name of the entry"});
    let define = Definition::built_in;
    vec![
        define(
            "state_get",
            "Read one entry of this butler's key-value store. The value is null when there is no such key.",
            json!({"key": key}),
            json!(["key"]),
            Meta::read(),
        ),
        define(
            "state_set",
            "Store a JSON value under a key in this butler's key-value store, replacing what was there.",
            json!({"key": key, "value": {"description": "Any JSON value"}}),
            json!(["key", "value"]),
            Meta::write(Effect::Idempotent),
        ),
        define(
            "state_delete",
            "Remove a key from this butler's key-value store. Removing a key that is not there is fine.",
            json!({"key": key}),
            json!(["key"]),
            Meta::write(Effect::Idempotent),
        ),
        define(
            "state_list",
            "List the keys of this butler's key-value store in order, or keys with their values.",
            json!({
                "prefix": {"type": "string", "maxLength": MAX_KEY, "description": "Only keys that begin with this"},
                "keys_only": {"type": "boolean", "default": true, "description": "false: return the values too"},
            }),
            json!([]),
            Meta::read(),
        ),
        define(
            "get_attachment",
            "Fetch a stored attachment by its storage_ref (as given with a message): base64 content and media type.",
            json!({"storage_ref": {"type": "string", "description": "blob:sha256:<64 hex digits>"}}),
            json!(["storage_ref"]),
            Meta { reads_untrusted: true, ..Meta::read() },
        ),
    ]
}

async fn state_get(call: ToolCall) -> Result<Value, ToolError> {
    let key = call.text("key").unwrap_or_default();
    Ok(json!({"key": key, "value": state::get(&call, key).await?}))
}

async fn state_set(call: ToolCall) -> Result<Value, ToolError> {
    let key = call.text("key").unwrap_or_default();
    own_key(key)?;
    let value = call.args.get("value").unwrap_or(&Value::Null);
    let size = value.to_string().len();
    if size > MAX_VALUE {
        return Err(ToolError::refused(
            "too_large",
            format!("The value is {size} bytes as JSON; at most {MAX_VALUE} fit. Store it in parts."),
        ));
    }
    state::set(&call, key, value).await?;
    Ok(json!({"key": key, "status": "ok"}))
}

fn own_key(key: &str) -> Result<(), ToolError> {
    if key.starts_with(RESERVED_PREFIX) {
        return Err(ToolError::refused(
            "reserved",
            format!("Keys that begin with `{RESERVED_PREFIX}` are butlerd's own."),
        ));
    }
    Ok(())
}

async fn state_delete(call: ToolCall) -> Result<Value, ToolError> {
    let key = call.text("key").unwrap_or_default();
    own_key(key)?;
    state::delete(&call, key).await?;
    Ok(json!({"key": key, "status": "deleted"}))
}

async fn state_list(call: ToolCall) -> Result<Value, ToolError> {
    let prefix = call.text("prefix").unwrap_or_default();
    let keys_only = call.args.get("keys_only").and_then(Value::as_bool).unwrap_or(true);
    if keys_only {
        return Ok(json!(state::keys(&call, prefix).await?));
    }
    let entries = state::entries(&call, prefix).await?;
    Ok(entries.into_iter().map(|entry| json!({"key": entry.key, "value": entry.value})).collect())
}

/// The name under which a blob's content is known: `blob:sha256:<hex>`.
pub fn blob_ref(content: &[u8]) -> String {
    format!("blob:sha256:{}", base::text::hex(&Sha256::digest(content)))
}

/// Stores an attachment for the connection's tenant and returns its reference. The same content is stored once. Who sent
/// it is not known yet, so it counts as a stranger's; whoever it is handed on to gets it with its sender's trust.
pub async fn put_blob(
    lease: &mut Lease,
    content: &[u8],
    media_type: &str,
    filename: Option<&str>,
) -> Result<String, tokio_postgres::Error> {
    let reference = blob_ref(content);
    let hex = reference.rsplit(':').next().unwrap_or_default();
    blobs::put(lease, hex, media_type, filename, content, Trust::Stranger).await?;
    Ok(reference)
}

/// The largest picture that goes to a model with its message, in bytes; vendors take 5 MB as base64.
const MAX_PICTURE: i32 = 3_700_000;
/// So many pictures go along, and so many bytes of them.
const MAX_PICTURES: usize = 8;
const MAX_PICTURES_BYTES: usize = 12_000_000;

/// The pictures among these attachments, each with its media type, that are no less trusted than `trust`: whoever is shown
/// the others fetches them with `get_attachment`, and is tainted by them. Too large ones are left out.
pub async fn pictures(
    lease: &mut Lease,
    references: &[String],
    trust: Trust,
) -> Result<Vec<(String, Vec<u8>)>, store::StoreError> {
    let hashes: Vec<String> =
        references.iter().filter_map(|r| r.strip_prefix("blob:sha256:")).map(str::to_owned).collect();
    let (mut found, mut bytes) = (Vec::new(), 0);
    for picture in blobs::pictures(lease, &hashes, MAX_PICTURE).await? {
        bytes += picture.content.len();
        if found.len() == MAX_PICTURES || bytes > MAX_PICTURES_BYTES {
            break;
        }
        if Trust::from_name(&picture.trust) >= trust {
            found.push((picture.media_type, picture.content));
        }
    }
    Ok(found)
}

const NO_REFERENCE: &str = "A storage_ref looks like blob:sha256:<64 hex digits>.";
const NO_ATTACHMENT: &str =
    "There is no attachment with this storage_ref, or it was older than [retention] attachments keeps them.";

/// The hash that a reference names.
fn hash_of(reference: &str) -> Option<&str> {
    let hex = reference.strip_prefix("blob:sha256:")?;
    (hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit())).then_some(hex)
}

/// A stored attachment.
pub struct Attached {
    pub media_type: String,
    pub filename: Option<String>,
    pub content: Vec<u8>,
    /// Of what it holds.
    pub label: Label,
}

/// The attachment of this reference with at most so many bytes, for a call that passes it on. It counts as shown.
pub async fn attachment(call: &ToolCall, reference: &str, most: usize) -> Result<Attached, ToolError> {
    let hex = hash_of(reference).ok_or_else(|| ToolError::refused("invalid_arguments", NO_REFERENCE))?;
    let blob = blobs::get(call, hex, i32::try_from(most).unwrap_or(i32::MAX)).await?;
    let blob = blob.ok_or_else(|| ToolError::refused("not_found", NO_ATTACHMENT))?;
    let size = blob.size;
    let too_large =
        || ToolError::refused("too_large", format!("The attachment has {size} bytes; at most {most} go along."));
    let content = blob.content.ok_or_else(too_large)?;
    Ok(Attached { media_type: blob.media_type, filename: blob.filename, content, label: blob.label })
}

async fn get_attachment(call: ToolCall) -> Result<Value, ToolError> {
    let reference = call.text("storage_ref").unwrap_or_default();
    let Some(hex) = hash_of(reference) else {
        return Ok(json!({"status": "invalid", "error": NO_REFERENCE}));
    };
    let Some(blob) = blobs::get(&call, hex, MAX_ATTACHMENT).await? else {
        return Ok(json!({"status": "not_found", "error": NO_ATTACHMENT}));
    };
    let size = blob.size;
    let Some(content) = blob.content else {
        let error = format!("The attachment has {size} bytes; at most {MAX_ATTACHMENT} are handed out at once.");
        return Ok(json!({"status": "error", "error": error, "code": "too_large", "size_bytes": size}));
    };
    Ok(json!({
        "status": "ok",
        "storage_ref": reference,
        "media_type": blob.media_type,
        "filename": blob.filename,
        "size_bytes": size,
        "content_base64": BASE64.encode(content),
    }))
}
