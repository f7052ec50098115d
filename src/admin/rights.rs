//! Who may do what on the admin port.

use super::failure::Failure;
use access::{Grant, GrantScope, Holder};
use base::{ButlerName, TenantId};

/// What a call needs of the token behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Scope `read`.
    Look,
    /// Scope `ingest`.
    HandIn,
    /// Scope `tools`.
    Work,
    /// Scope `admin`.
    Manage,
    /// Scope `admin`, and neither held to one butler nor to a tenant of their own: what concerns the whole household.
    Household,
}

/// Whether the grant may do it at all.
pub fn check(grant: &Grant, need: Need) -> Result<(), Failure> {
    // The child of a session has its butler's port, and a list of tools there; nothing here is for it.
    if matches!(grant.holder, Holder::Session { .. }) {
        return Err(Failure::forbidden("A session's token opens its butler's own port only."));
    }
    let scope = match need {
        Need::Look => GrantScope::Read,
        Need::HandIn => GrantScope::Ingest,
        Need::Work => GrantScope::Tools,
        Need::Manage | Need::Household => GrantScope::Admin,
    };
    if !grant.has(scope) {
        return Err(Failure::forbidden(format!(
            "This token lacks the scope `{scope}`. Make one that has it: butlerd token new --scope {scope}",
            scope = scope.as_str()
        )));
    }
    if need == Need::Household && (grant.butler.is_some() || grant.tenant != TenantId::owner()) {
        return Err(Failure::forbidden(
            "This concerns the whole household, and the token is held to one butler or one tenant.",
        ));
    }
    Ok(())
}

/// Whether the grant reaches this butler; tokens are for all butlers or for one.
pub fn reaches(grant: &Grant, butler: &str) -> bool {
    grant.butler.as_ref().is_none_or(|own| own.as_str() == butler)
}

/// As [`reaches`], with the refusal.
pub fn check_butler(grant: &Grant, butler: &str) -> Result<(), Failure> {
    match &grant.butler {
        Some(own) if own.as_str() != butler => {
            Err(Failure::forbidden(format!("This token is for {own}, not for {butler}.")))
        }
        _ => Ok(()),
    }
}

/// The butler that a list is about: the one that was asked for, else the grant's own; `None` is all.
pub fn own_or(grant: &Grant, butler: Option<String>) -> Result<Option<String>, Failure> {
    let butler = butler.or_else(|| grant.butler.as_ref().map(ToString::to_string));
    butler.as_deref().map_or(Ok(()), |butler| check_butler(grant, butler))?;
    Ok(butler)
}

/// What a new token may be: never more than the one that makes it.
pub fn check_new(grant: &Grant, butler: Option<&ButlerName>, tenant: &TenantId) -> Result<(), Failure> {
    check(grant, Need::Manage)?;
    if let Some(own) = &grant.butler
        && butler != Some(own)
    {
        return Err(Failure::forbidden(format!("This token is for {own}, so it can make tokens for {own} only.")));
    }
    if grant.tenant != TenantId::owner() && *tenant != grant.tenant {
        let own = &grant.tenant;
        return Err(Failure::forbidden(format!(
            "This token is the tenant {own}'s, so it can make tokens of {own} only."
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use access::ToolsSeen;
    use base::{Clock, RequestContext, SessionId, Trust};

    fn grant(scopes: &[GrantScope]) -> Grant {
        Grant { scopes: scopes.iter().copied().collect(), ..Grant::owner("test") }
    }

    fn name(s: &str) -> ButlerName {
        ButlerName::new(s).unwrap()
    }

    #[test]
    fn each_scope_opens_its_own_and_admin_opens_all() {
        use GrantScope::{Admin, Ingest, Read, Tools};
        for (scope, opens) in [
            (Read, &[Need::Look][..]),
            (Tools, &[Need::Work]),
            (Ingest, &[]),
            (Admin, &[Need::Look, Need::Work, Need::Manage, Need::Household]),
        ] {
            for need in [Need::Look, Need::Work, Need::Manage, Need::Household] {
                assert_eq!(check(&grant(&[scope]), need).is_ok(), opens.contains(&need), "{scope:?} {need:?}");
            }
        }
        assert!(check(&grant(&[]), Need::Look).unwrap_err().message.contains("--scope read"));
    }

    #[test]
    fn a_sessions_token_opens_nothing_here() {
        let context = RequestContext::root(&Clock::default(), TenantId::owner(), "cli", "l", "o", Trust::Owner);
        let calls = Arc::new(access::CallGuard::new(1, |_| {}));
        let holder = Holder::Session {
            session: SessionId::new(),
            context: Arc::new(context),
            calls,
            tools_seen: ToolsSeen::default(),
            tools_shown: Default::default(),
            taint: Default::default(),
        };
        let session = Grant { holder, ..grant(GrantScope::ALL) };
        for need in [Need::Look, Need::Work, Need::Manage, Need::Household] {
            assert_eq!(check(&session, need).unwrap_err().code, "forbidden");
        }
    }

    #[test]
    fn a_token_of_one_butler_stays_there() {
        let health = Grant { butler: Some(name("health")), ..grant(&[GrantScope::Admin]) };
        assert!(check_butler(&health, "health").is_ok() && reaches(&health, "health"));
        assert!(check_butler(&health, "finance").is_err() && !reaches(&health, "finance"));
        assert!(check(&health, Need::Manage).is_ok());
        assert!(check(&health, Need::Household).is_err());
        assert!(check_new(&health, Some(&name("health")), &TenantId::owner()).is_ok());
        for wider in [None, Some(name("finance"))] {
            assert!(check_new(&health, wider.as_ref(), &TenantId::owner()).is_err());
        }
    }

    #[test]
    fn a_tenants_admin_stays_in_the_tenant() {
        let neighbour = TenantId::new("neighbour").unwrap();
        let theirs = Grant { tenant: neighbour.clone(), ..grant(&[GrantScope::Admin]) };
        assert!(check(&theirs, Need::Household).is_err());
        assert!(check_new(&theirs, None, &neighbour).is_ok());
        assert!(check_new(&theirs, None, &TenantId::owner()).is_err());
        assert!(check_new(&grant(&[GrantScope::Admin]), None, &neighbour).is_ok());
    }
}
