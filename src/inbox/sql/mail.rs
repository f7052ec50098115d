//! The statements on `mail`: notes that were left for butlers.

use serde_json::Value;
use uuid::Uuid;

use base::Secret;
use store::AsRows;
use tools::{EffectTx, ToolError};

/// A note for a butler.
pub struct Note<'a> {
    pub id: Uuid,
    pub request: Uuid,
    pub butler: &'a str,
    pub sender: Option<&'a str>,
    pub channel: Option<&'a str>,
    pub subject: Option<&'a str>,
    pub body: &'a str,
    pub priority: Option<i16>,
    pub metadata: Option<&'a Value>,
}

/// Stores a note. `false`: the same was left in this request.
pub async fn add(tx: &mut EffectTx<'_, '_>, note: &Note<'_>) -> Result<bool, ToolError> {
    let sql =
        "INSERT INTO mail (id, request_id, target_butler, sender, sender_channel, subject, body, priority, metadata)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING RETURNING id";
    let Note { id, request, butler, sender, channel, subject, body, priority, metadata } = note;
    let rows = tx.query(sql, &[id, request, butler, sender, channel, subject, body, priority, metadata]).await?;
    Ok(!rows.is_empty())
}

/// The same note, as it was left first.
pub async fn first(tx: &mut EffectTx<'_, '_>, note: &Note<'_>) -> Result<Option<Uuid>, ToolError> {
    let sql = "SELECT id FROM mail WHERE request_id = $1 AND target_butler = $2 AND body = $3
               AND subject IS NOT DISTINCT FROM $4";
    tx.query_opt(sql, &[&note.request, &note.butler, &note.body, &note.subject]).await.cell("id")
}

/// Hands a note to its butler. `false`: the butler is not there.
pub async fn hand_over(
    tx: &mut EffectTx<'_, '_>,
    note: &Note<'_>,
    (request, prompt, told): (&Value, &str, &Value),
    seal: &Secret<String>,
) -> Result<bool, ToolError> {
    let sql = "UPDATE mail SET route_id = shared.hand_mail($2, $3, $4, $5, $6) WHERE id = $1 RETURNING route_id";
    let row = tx.query_opt(sql, &[&note.id, &note.butler, &request, &prompt, &told, seal.expose()]).await?;
    Ok(row.and_then(|row| row.get::<_, Option<Uuid>>("route_id")).is_some())
}
