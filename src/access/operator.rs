//! Operators' tokens: rows in `shared.tokens`, mirrored in the book.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use super::browser::MOST_BROWSERS;
use super::ends::ChannelEnds;
use super::grant::{Grant, GrantScope, Holder};
use super::sql::{self, TokenRow};
use super::token::{Token, TokenBook};
use base::{ButlerName, TenantId};
use store::{AsRows, Database, StoreError};

/// Why a token can't be made or revoked.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("no random bytes: {0}")]
    Entropy(getrandom::Error),
    #[error("there is no live token {0}; see: butlerd token list")]
    Unknown(Uuid),
}

/// What a new token shall be.
#[derive(Debug, Clone)]
pub struct NewToken {
    pub label: String,
    pub tenant: TenantId,
    pub butler: Option<ButlerName>,
    pub scopes: BTreeSet<GrantScope>,
    pub ends: ChannelEnds,
    pub expires_at: Option<Timestamp>,
    /// It is the session of a browser, which brings it as a cookie.
    pub browser: bool,
    /// The token that let it in, and with which it ends.
    pub made_by: Option<Uuid>,
}

store::row! {
    /// What may be told of a token.
    #[derive(Debug, Clone, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    pub struct TokenInfo {
        pub id: Uuid,
        pub label: String,
        pub tenant: String,
        pub butler: Option<String>,
        pub scopes: Vec<String>,
        /// The ends of channels that it speaks for.
        #[serde(default)]
        pub channels: Vec<String>,
        #[serde(default)]
        pub endpoints: Vec<String>,
        /// It is the session of a browser.
        #[serde(default)]
        pub browser: bool,
        pub created_at: Timestamp,
        pub expires_at: Option<Timestamp>,
    }
}

/// Makes, lists and revokes operators' tokens.
#[derive(Clone)]
pub struct OperatorTokens {
    db: Arc<Database>,
    book: TokenBook,
}

impl OperatorTokens {
    /// Loads the live tokens of the database into the book.
    pub async fn load(db: Arc<Database>, book: TokenBook) -> Result<Self, TokenError> {
        let mut lease = db.shared(&TenantId::owner()).await?;
        let rows = lease.query(sql::LIVE_TOKENS, &[]).await.map_err(StoreError::query("reading the tokens"))?;
        drop(lease);
        for row in rows.iter().map(TokenRow::from) {
            let unexpected = || TokenError::Store(StoreError::Unexpected("a damaged row in shared.tokens".into()));
            let sha256: [u8; 32] = row.sha256.try_into().map_err(|_| unexpected())?;
            let grant = Grant {
                holder: Holder::Operator { id: row.id, label: row.label },
                tenant: TenantId::new(&row.tenant_id).map_err(|_| unexpected())?,
                butler: row.butler.map(|b| ButlerName::new(&b)).transpose().map_err(|_| unexpected())?,
                tools: None,
                scopes: row.scopes.iter().filter_map(|s| GrantScope::from_name(s)).collect(),
                ends: ChannelEnds {
                    channels: row.channels.into_iter().collect(),
                    endpoints: row.endpoints.into_iter().collect(),
                },
                expires_at: row.expires_at,
            };
            book.insert(sha256, grant);
        }
        Ok(Self { db, book })
    }

    /// Makes a token; it works from the moment its row is committed.
    pub async fn create(&self, new: NewToken) -> Result<(Token, Uuid), TokenError> {
        let token = Token::generate().map_err(TokenError::Entropy)?;
        token.hide();
        let id = Uuid::now_v7();
        let sha256 = if new.browser { token.browser_sha256() } else { token.sha256() };
        let scopes: Vec<&str> = new.scopes.iter().map(|s| s.as_str()).collect();
        let channels: Vec<&String> = new.ends.channels.iter().collect();
        let endpoints: Vec<&String> = new.ends.endpoints.iter().collect();
        let mut lease = self.db.shared(&new.tenant).await?;
        let params: store::Params<'_> = &[
            &id,
            &sha256.as_slice(),
            &new.label,
            &new.butler.as_ref().map(ButlerName::as_str),
            &scopes,
            &new.expires_at,
            &channels,
            &endpoints,
            &new.browser,
            &new.made_by,
        ];
        lease.execute(sql::ADD_TOKEN, params).await.map_err(StoreError::query("storing a token"))?;
        if new.browser {
            let others = i64::try_from(MOST_BROWSERS - 1).unwrap_or(i64::MAX);
            let rows = lease.query(sql::REVOKE_OLDEST_BROWSERS, &[&new.made_by, &id, &others]).await;
            self.forget(&rows.map_err(StoreError::query("ending a browser's oldest session"))?);
        }
        let grant = Grant {
            holder: Holder::Operator { id, label: new.label },
            tenant: new.tenant,
            butler: new.butler,
            tools: None,
            scopes: new.scopes,
            ends: new.ends,
            expires_at: new.expires_at,
        };
        self.book.insert(sha256, grant);
        Ok((token, id))
    }

    /// The live tokens, newest first.
    pub async fn list(&self) -> Result<Vec<TokenInfo>, TokenError> {
        let mut lease = self.db.shared(&TenantId::owner()).await?;
        Ok(lease.query(sql::TOLD_TOKENS, &[]).await.typed().map_err(StoreError::query("listing tokens"))?)
    }

    /// Ends a token at once.
    pub async fn revoke(&self, id: Uuid) -> Result<(), TokenError> {
        let mut lease = self.db.shared(&TenantId::owner()).await?;
        let rows = lease.query(sql::REVOKE_TOKEN, &[&id]).await.map_err(StoreError::query("revoking a token"))?;
        self.forget(&rows);
        match rows.iter().any(|row| row.get::<_, Uuid>("id") == id) {
            true => Ok(()),
            false => Err(TokenError::Unknown(id)),
        }
    }

    /// From now on these are unknown here.
    fn forget(&self, rows: &[Row]) {
        for row in rows {
            if let Ok(sha256) = <[u8; 32]>::try_from(row.get::<_, Vec<u8>>("sha256")) {
                self.book.remove(&sha256);
            }
        }
    }
}
