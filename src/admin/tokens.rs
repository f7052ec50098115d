//! Operators' tokens.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use jsonrpsee::Extensions;
use jsonrpsee::proc_macros::rpc;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::failure::Failure;
use super::rights::{self, Need};
use super::rpc::Rpc;
use super::sealed::Sealed;
use super::visitor::may;
use access::{ChannelEnds, Grant, GrantScope, NewToken, TokenInfo};
use base::{ButlerName, Clock, HumanDuration, Secret, TenantId};
use inbox::envelope;

const MOST_LABEL: usize = 100;
const MOST_ENDPOINT: usize = 1000;
const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Tokens for programs.
#[rpc(server, client, namespace = "butlerd", namespace_separator = ".")]
pub trait TokensApi {
    /// Makes an operator's token; this answer is the only place where it ever stands in clear. Scope `admin`.
    #[method(name = "token_create", param_kind = map, with_extensions)]
    async fn token_create(&self, wanted: WantedToken) -> Result<MadeToken, Failure>;

    /// The live tokens, without their secret part. Scope `admin`.
    #[method(name = "token_list", param_kind = map, with_extensions)]
    async fn token_list(&self) -> Result<Vec<TokenInfo>, Failure>;

    /// Ends a token at once. Scope `admin`.
    #[method(name = "token_revoke", param_kind = map, with_extensions)]
    async fn token_revoke(&self, id: Uuid) -> Result<Revoked, Failure>;
}

/// What a new token shall be.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WantedToken {
    pub label: String,
    #[serde(default)]
    pub butler: Option<String>,
    #[serde(default)]
    pub tenant: Option<String>,
    pub scopes: Vec<String>,
    /// A duration such as `30d`; without it the token lasts until it is revoked.
    #[serde(default)]
    pub expires_in: Option<String>,
    /// Of scope `ingest`: the channels that it speaks for, and the household's own ends of them.
    #[serde(default)]
    pub channels: Vec<String>,
    #[serde(default)]
    pub endpoints: Vec<String>,
}

/// A token that was just made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MadeToken {
    /// The token in clear.
    pub token: Sealed,
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
    pub expires_at: Option<Timestamp>,
}

/// What `token_revoke` answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Revoked {
    pub id: Uuid,
}

#[async_trait]
impl TokensApiServer for Rpc {
    async fn token_create(&self, ext: &Extensions, wanted: WantedToken) -> Result<MadeToken, Failure> {
        let grant = may(ext, Need::Manage)?;
        let butler = match &wanted.butler {
            Some(name) => Some(self.known(name).await?),
            None => None,
        };
        let services = self.supervisor.services();
        let new = checked(&grant, wanted, butler, &services.clock)?;
        let (token, id) = services.operators.create(new.clone()).await?;
        Ok(MadeToken {
            token: Sealed::from(Secret::new(token.expose().to_owned())),
            id,
            label: new.label,
            tenant: new.tenant.to_string(),
            butler: new.butler.map(|b| b.to_string()),
            scopes: new.scopes.iter().map(|s| s.as_str().to_owned()).collect(),
            channels: new.ends.channels.into_iter().collect(),
            endpoints: new.ends.endpoints.into_iter().collect(),
            expires_at: new.expires_at,
        })
    }

    async fn token_list(&self, ext: &Extensions) -> Result<Vec<TokenInfo>, Failure> {
        may(ext, Need::Household)?;
        Ok(self.supervisor.services().operators.list().await?)
    }

    async fn token_revoke(&self, ext: &Extensions, id: Uuid) -> Result<Revoked, Failure> {
        may(ext, Need::Household)?;
        self.supervisor.services().operators.revoke(id).await?;
        Ok(Revoked { id })
    }
}

/// What was asked for, checked; never more than what `grant` itself may.
fn checked(grant: &Grant, wanted: WantedToken, butler: Option<ButlerName>, clock: &Clock) -> Result<NewToken, Failure> {
    let WantedToken { label, tenant, scopes, expires_in, channels, endpoints, .. } = wanted;
    let tenant = match tenant {
        Some(name) => TenantId::new(&name).map_err(|e| Failure::invalid(format!("The tenant {e}.")))?,
        None => grant.tenant.clone(),
    };
    rights::check_new(grant, butler.as_ref(), &tenant)?;
    let label = base::text::clean(label.trim());
    if label.is_empty() || label.len() > MOST_LABEL {
        return Err(Failure::invalid(format!("A token needs a label of 1 to {MOST_LABEL} bytes, to know it again.")));
    }
    let known = || GrantScope::ALL.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(", ");
    let scopes: BTreeSet<GrantScope> = scopes
        .iter()
        .map(|s| {
            GrantScope::from_name(s)
                .ok_or_else(|| Failure::invalid(format!("`{s}` is not a scope; there are: {}.", known())))
        })
        .collect::<Result<_, _>>()?;
    if scopes.is_empty() {
        return Err(Failure::invalid(format!("A token needs at least one scope: {}.", known())));
    }
    let expires_at = match expires_in {
        None => None,
        Some(text) => {
            let span = HumanDuration::parse(&text).map_err(|e| Failure::invalid(format!("expires_in: {e}.")))?.0;
            if span.is_zero() || span > LONGEST {
                return Err(Failure::invalid("A token lasts longer than nothing and at most a hundred years."));
            }
            Some(clock.now().checked_add(span).map_err(|e| Failure::invalid(e.to_string()))?)
        }
    };
    let ends = ends(&scopes, butler.is_some(), channels, endpoints)?;
    Ok(NewToken { label, tenant, butler, scopes, ends, expires_at, browser: false, made_by: None })
}

/// The ends of channels that a new token shall speak for, checked.
fn ends(
    scopes: &BTreeSet<GrantScope>,
    of_one_butler: bool,
    channels: Vec<String>,
    endpoints: Vec<String>,
) -> Result<ChannelEnds, Failure> {
    let channels: BTreeSet<String> = channels.into_iter().collect();
    let endpoints: BTreeSet<String> = endpoints.into_iter().map(|endpoint| endpoint.trim().to_owned()).collect();
    if !channels.is_empty() && !scopes.contains(&GrantScope::Ingest) {
        return Err(Failure::invalid("Only a token of the scope ingest speaks for channels: add --scope ingest."));
    }
    if channels.is_empty() && !endpoints.is_empty() {
        return Err(Failure::invalid("An endpoint belongs to a channel: name it with --channel."));
    }
    if of_one_butler && !channels.is_empty() {
        return Err(Failure::invalid(
            "Messages are for the whole household, so a token of one butler speaks for no channel.",
        ));
    }
    for channel in &channels {
        if !envelope::is_channel(channel) {
            return Err(Failure::invalid(format!(
                "`{channel}` is not a channel for messages from outside; such as telegram, email."
            )));
        }
    }
    if endpoints.iter().any(|endpoint| endpoint.is_empty() || endpoint.len() > MOST_ENDPOINT) {
        return Err(Failure::invalid(format!("An endpoint has 1 to {MOST_ENDPOINT} bytes.")));
    }
    Ok(ChannelEnds { channels, endpoints })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(label: &str, scopes: &[&str], expires_in: Option<&str>) -> Result<NewToken, Failure> {
        ask_for(label, scopes, expires_in, WantedToken::default())
    }

    fn ask_for(label: &str, scopes: &[&str], expires_in: Option<&str>, more: WantedToken) -> Result<NewToken, Failure> {
        let scopes: Vec<String> = scopes.iter().map(ToString::to_string).collect();
        let wanted = WantedToken { label: label.into(), scopes, expires_in: expires_in.map(Into::into), ..more };
        checked(&Grant::owner("test"), wanted, None, &Clock::default())
    }

    #[test]
    fn requests_are_checked() {
        let made = ask("  laptop ", &["tools", "read", "tools"], Some("30d")).unwrap();
        assert_eq!(made.label, "laptop");
        assert_eq!(made.scopes.len(), 2);
        assert_eq!(made.tenant, TenantId::owner());
        let left = made.expires_at.unwrap().duration_since(Clock::default().now());
        assert!((29 * 86_400..=30 * 86_400).contains(&left.as_secs()), "{left:?}");
        assert!(ask("laptop", &["read"], None).unwrap().expires_at.is_none());
    }

    #[test]
    fn a_token_names_ends_of_channels_that_there_are() {
        let list = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let of = |scopes: &[&str], channels: &[&str], endpoints: &[&str]| {
            let more = WantedToken { channels: list(channels), endpoints: list(endpoints), ..WantedToken::default() };
            ask_for("x", scopes, None, more).map(|new| new.ends)
        };
        let home = of(&["ingest"], &["email", "email"], &[" home "]).unwrap();
        assert!(home.name("email", "home") && !home.name("email", "office"));
        assert_eq!(of(&["ingest"], &[], &[]).unwrap(), ChannelEnds::default());
        for (scopes, channels, endpoints, says) in [
            (&["tools"][..], &["email"][..], &[][..], "--scope ingest"),
            (&["ingest"], &[], &["home"], "--channel"),
            (&["ingest"], &["chat"], &[], "`chat`"),
            (&["ingest"], &["E Mail"], &[], "`E Mail`"),
            (&["ingest"], &["email"], &[" "], "endpoint"),
        ] {
            let failure = of(scopes, channels, endpoints).unwrap_err();
            assert!(failure.message.contains(says), "{}", failure.message);
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (label, scopes, expires, says) in [
            ("", &["tools"][..], None, "label"),
            ("x", &[], None, "scope"),
            ("x", &["root"], None, "`root`"),
            ("x", &["tools"], Some("soon"), "expires_in"),
            ("x", &["tools"], Some("0s"), "longer than nothing"),
            ("x", &["tools"], Some("90000d"), "hundred years"),
        ] {
            let failure = ask(label, scopes, expires).unwrap_err();
            assert_eq!(failure.code, "invalid_arguments");
            assert!(failure.message.contains(says), "{}", failure.message);
        }
    }
}
