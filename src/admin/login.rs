//! Links by which a browser signs in to the dashboard: each opens once, for a moment, and gives no more than whoever made
//! it may do.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use jiff::Timestamp;
use jsonrpsee::Extensions;
use jsonrpsee::proc_macros::rpc;
use serde::{Deserialize, Serialize};

use super::failure::Failure;
use super::login_links::{Offer, Redeemed};
use super::place::reachable;
use super::rights::Need;
use super::rpc::Rpc;
use super::sealed::Sealed;
use super::visitor::visitor;
use access::{Grant, GrantScope, Holder, NewToken, Token, TokenError};
use base::text::truncate;
use base::{HumanDuration, Secret};

/// How long a link opens that says nothing else.
const USUAL: Duration = Duration::from_secs(60);
/// In bytes.
const MOST_LABEL: usize = 100;
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Signing in to the dashboard.
#[rpc(server, client, namespace = "butlerd", namespace_separator = ".")]
pub trait LoginApi {
    /// Makes a link that signs one browser in, once. It may do what the caller's token may, or less. Scope `read`.
    #[method(name = "login_link", param_kind = map, with_extensions)]
    async fn login_link(&self, wanted: WantedLink) -> Result<LoginLink, Failure>;
}

/// What a link shall be.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WantedLink {
    /// How long it opens, such as `10m`; at most a day, a minute if it is not said.
    #[serde(default)]
    pub lasts: Option<String>,
    /// The browser may look, and nothing more.
    #[serde(default)]
    pub only_look: bool,
}

/// A link that was just made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoginLink {
    /// On this machine.
    pub url: Sealed,
    /// From elsewhere, if `[admin] public_url` says how.
    pub public_url: Option<Sealed>,
    pub expires_at: Timestamp,
}

impl Rpc {
    /// Signs a browser in that brought a link, if whoever made it may still do what it gives.
    pub async fn redeem(&self, link: &str) -> Redeemed {
        let offer = match self.links().take(link, Instant::now()) {
            Ok(offer) => offer,
            Err(wrong) => return wrong,
        };
        let grant = match offer.maker.grant(Need::Look) {
            Ok(grant) => grant,
            Err(_) => return Redeemed::Unknown,
        };
        match self.begin_session(&grant, &offer.scopes).await {
            Ok(token) => Redeemed::Session(token),
            Err(failure) => Redeemed::Failed(failure),
        }
    }

    async fn begin_session(&self, grant: &Grant, scopes: &[GrantScope]) -> Result<Token, Failure> {
        let services = self.supervisor().services();
        let lasts = services.config.admin.browser_session.0;
        let end = services.clock.now().checked_add(lasts).map_err(|e| Failure::invalid(e.to_string()))?;
        // Its maker's name goes along: what a browser says and decides is on record under it.
        let (made_by, maker) = match &grant.holder {
            Holder::Operator { id, label } => (Some(*id).filter(|id| !id.is_nil()), label.as_str()),
            _ => (None, "nobody"),
        };
        let label = truncate(&format!("browser of {maker}"), MOST_LABEL);
        let new = NewToken {
            label,
            tenant: grant.tenant.clone(),
            butler: grant.butler.clone(),
            scopes: scopes.iter().copied().collect(),
            ends: Default::default(),
            // Nobody stays longer than whoever let them in.
            expires_at: Some(grant.expires_at.map_or(end, |at| at.min(end))),
            browser: true,
            made_by,
        };
        Ok(services.operators.create(new).await?.0)
    }
}

#[async_trait]
impl LoginApiServer for Rpc {
    async fn login_link(&self, ext: &Extensions, wanted: WantedLink) -> Result<LoginLink, Failure> {
        let maker = visitor(ext)?.clone();
        let grant = maker.grant(Need::Look)?;
        let lasts = match &wanted.lasts {
            None => USUAL,
            Some(text) => HumanDuration::parse(text).map_err(|e| Failure::invalid(format!("lasts: {e}.")))?.0,
        };
        if lasts.is_zero() || lasts > LONGEST {
            return Err(Failure::invalid("A link opens for longer than nothing and at most a day."));
        }
        let scopes = match wanted.only_look {
            true => vec![GrantScope::Read],
            false => grant.scopes.iter().copied().filter(|scope| *scope != GrantScope::Ingest).collect(),
        };
        let token = Token::generate().map_err(|e| Failure::from(TokenError::Entropy(e)))?;
        let made = Instant::now();
        let hidden = token.hide_while();
        self.links().offer(&token, Offer { maker, scopes, made, until: made + lasts, _hidden: hidden });
        let services = self.supervisor().services();
        let at = |base: &str| Secret::new(format!("{}/login/{}", base.trim_end_matches('/'), token.expose())).into();
        let expires_at = services.clock.now().checked_add(lasts).map_err(|e| Failure::invalid(e.to_string()))?;
        let own = self.supervisor().status().await.admin;
        let own = own.parse::<std::net::SocketAddr>().map_or(own, |addr| reachable(addr).to_string());
        Ok(LoginLink {
            url: at(&format!("http://{own}")),
            public_url: services.config.admin.public_url.as_deref().map(at),
            expires_at,
        })
    }
}
