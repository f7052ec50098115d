//! The statements on `shared.tokens` and `shared.secrets`.

use jiff::Timestamp;
use uuid::Uuid;

store::row! {
    /// A live token, as the book needs it.
    pub struct TokenRow {
        pub id: Uuid,
        pub sha256: Vec<u8>,
        pub label: String,
        pub butler: Option<String>,
        pub scopes: Vec<String>,
        pub channels: Vec<String>,
        pub endpoints: Vec<String>,
        pub expires_at: Option<Timestamp>,
        pub tenant_id: String,
    }
}

pub const LIVE_TOKENS: &str = "SELECT id, sha256, label, butler, scopes, channels, endpoints, expires_at, tenant_id
    FROM shared.tokens WHERE revoked_at IS NULL AND NOT (browser AND expires_at <= shared.clock())";

pub const ADD_TOKEN: &str =
    "INSERT INTO shared.tokens (id, sha256, label, butler, scopes, expires_at, channels, endpoints, browser, made_by)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";

/// What may be told of the live tokens, newest first. A browser's session that is over is none any more.
pub const TOLD_TOKENS: &str =
    "SELECT id, label, tenant_id AS tenant, butler, scopes, channels, endpoints, browser, created_at, expires_at
     FROM shared.tokens WHERE revoked_at IS NULL AND NOT (browser AND expires_at <= shared.clock())
     ORDER BY created_at DESC, id DESC";

/// Ends a token, and the sessions of browsers that it let in.
pub const REVOKE_TOKEN: &str = "UPDATE shared.tokens SET revoked_at = shared.clock()
    WHERE (id = $1 OR made_by = $1) AND revoked_at IS NULL RETURNING id, sha256";

/// Ends the oldest sessions of browsers that one token made, besides the newest ones and the one of this id.
pub const REVOKE_OLDEST_BROWSERS: &str = "UPDATE shared.tokens SET revoked_at = shared.clock()
    WHERE id IN (SELECT id FROM shared.tokens
                 WHERE browser AND revoked_at IS NULL AND expires_at > shared.clock() AND id <> $2
                   AND made_by IS NOT DISTINCT FROM $1
                 ORDER BY created_at DESC, id DESC OFFSET $3) RETURNING sha256";

store::row! {
    /// A secret as it is stored.
    pub struct SealedRow {
        pub nonce: Vec<u8>,
        pub ciphertext: Vec<u8>,
    }
}

pub const SET_SECRET: &str = "INSERT INTO shared.secrets (name, nonce, ciphertext, key_id) VALUES ($1, $2, $3, $4)
    ON CONFLICT (tenant_id, name) DO UPDATE
    SET nonce = $2, ciphertext = $3, key_id = $4, updated_at = shared.clock()";

pub const GET_SECRET: &str = "SELECT nonce, ciphertext FROM shared.secrets WHERE tenant_id = $1 AND name = $2";

/// The same, which nobody else changes meanwhile.
pub const LOCK_SECRET: &str =
    "SELECT nonce, ciphertext FROM shared.secrets WHERE tenant_id = $1 AND name = $2 FOR UPDATE";

pub const LIST_SECRETS: &str = "SELECT name, updated_at FROM shared.secrets WHERE tenant_id = $1 ORDER BY name";

pub const REMOVE_SECRET: &str = "DELETE FROM shared.secrets WHERE tenant_id = $1 AND name = $2";
