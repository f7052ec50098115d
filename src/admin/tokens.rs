//! Operators' tokens, made over the admin port.

use std::collections::BTreeSet;
use std::time::Duration;

use super::api::MadeToken;
use super::failure::Failure;
use super::rights;
use super::sealed::Sealed;
use access::{Grant, GrantScope, NewToken, OperatorTokens};
use base::{ButlerName, Clock, HumanDuration, Secret, TenantId};

const MOST_LABEL: usize = 100;
const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);

/// What was asked for, checked; never more than what `grant` itself may.
pub(super) fn requested(
    grant: &Grant,
    label: String,
    butler: Option<ButlerName>,
    tenant: Option<String>,
    scopes: &[String],
    expires_in: Option<String>,
    clock: &Clock,
) -> Result<NewToken, Failure> {
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
                .ok_or_else(|| Failure::invalid(format!("`{s}` is no scope; there are: {}.", known())))
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
                return Err(Failure::invalid("A token lasts longer than nothing, and a hundred years at most."));
            }
            Some(clock.now().checked_add(span).map_err(|e| Failure::invalid(e.to_string()))?)
        }
    };
    Ok(NewToken { label, tenant, butler, scopes, expires_at })
}

/// Makes the token.
pub(super) async fn make(operators: &OperatorTokens, new: NewToken) -> Result<MadeToken, Failure> {
    let (token, id) = operators.create(new.clone()).await?;
    Ok(MadeToken {
        token: Sealed::from(Secret::new(token.expose().to_owned())),
        id,
        label: new.label,
        tenant: new.tenant.to_string(),
        butler: new.butler.map(|b| b.to_string()),
        scopes: new.scopes.iter().map(|s| s.as_str().to_owned()).collect(),
        expires_at: new.expires_at,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use access::Holder;

    fn ask(label: &str, scopes: &[&str], expires_in: Option<&str>) -> Result<NewToken, Failure> {
        let admin = Grant {
            holder: Holder::Operator { id: uuid::Uuid::nil(), label: "test".into() },
            tenant: TenantId::owner(),
            butler: None,
            tools: None,
            scopes: [GrantScope::Admin].into(),
            expires_at: None,
        };
        let scopes: Vec<String> = scopes.iter().map(ToString::to_string).collect();
        requested(&admin, label.into(), None, None, &scopes, expires_in.map(Into::into), &Clock::default())
    }

    #[test]
    fn wishes_are_checked() {
        let made = ask("  laptop ", &["tools", "read", "tools"], Some("30d")).unwrap();
        assert_eq!(made.label, "laptop");
        assert_eq!(made.scopes.len(), 2);
        assert_eq!(made.tenant, TenantId::owner());
        let left = made.expires_at.unwrap().duration_since(Clock::default().now());
        assert!((29 * 86_400..=30 * 86_400).contains(&left.as_secs()), "{left:?}");
        assert!(ask("laptop", &["read"], None).unwrap().expires_at.is_none());
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
