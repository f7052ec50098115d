//! Approvals for people: looking, deciding, and the rules that decide for them.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::failure::Failure;
use super::rights;
use super::rpc::Rpc;
use access::Grant;
use approvals::{Action, Actions, Constraint, Constraints, DecideError, Draft, Event, Filter, Rule, Status};
use base::task;

const MOST: u32 = 200;
const USUAL: u32 = 50;
const MOST_REASON: usize = 2000;

/// An action with what happened to it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ActionPage {
    pub action: Action,
    pub events: Vec<Event>,
}

impl From<DecideError> for Failure {
    fn from(e: DecideError) -> Self {
        match e {
            DecideError::Store(e) => e.into(),
            e => {
                let text = e.to_string();
                let mut chars = text.chars();
                let first = chars.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
                Self::new(e.code(), format!("{first}{}. See: butlerd approvals list", chars.as_str()))
            }
        }
    }
}

fn actions(rpc: &Rpc) -> Actions {
    let services = rpc.supervisor.services();
    Actions::new(&services.db, &services.clock)
}

/// The newest actions, of the butlers that the grant reaches.
pub(super) async fn list(
    rpc: &Rpc,
    grant: &Grant,
    butler: Option<String>,
    status: Option<&str>,
    limit: Option<u32>,
) -> Result<Vec<Action>, Failure> {
    let butler = butler.or_else(|| grant.butler.as_ref().map(ToString::to_string));
    if let Some(butler) = &butler {
        rights::check_butler(grant, butler)?;
    }
    let limit = limit.unwrap_or(USUAL);
    if !(1..=MOST).contains(&limit) {
        return Err(Failure::invalid(format!("The limit must be from 1 to {MOST}.")));
    }
    let known = |name: &str| {
        let names: Vec<&str> = Status::ALL.iter().map(|s| s.as_str()).collect();
        let unknown = || Failure::invalid(format!("There is no status `{name}`; there are: {}.", names.join(", ")));
        Status::from_name(name).ok_or_else(unknown)
    };
    let status = status.map(known).transpose()?;
    let filter = Filter { butler, status, ..Filter::default() };
    Ok(actions(rpc).list(&grant.tenant, &filter, i64::from(limit)).await?)
}

async fn reached(rpc: &Rpc, grant: &Grant, id: Uuid) -> Result<Action, Failure> {
    let found = actions(rpc).get(&grant.tenant, id).await?;
    let action = found.filter(|a| rights::reaches(grant, &a.butler)).ok_or(DecideError::Unknown(id))?;
    Ok(action)
}

pub(super) async fn show(rpc: &Rpc, grant: &Grant, id: Uuid) -> Result<ActionPage, Failure> {
    let action = reached(rpc, grant, id).await?;
    let events = actions(rpc).events(&grant.tenant, id).await?;
    Ok(ActionPage { action, events })
}

/// Lets an action through, or turns it down. `seen`: the hash of the arguments that the person saw.
pub(super) async fn decide(
    rpc: &Rpc,
    grant: &Grant,
    id: Uuid,
    approve: bool,
    seen: Option<String>,
    reason: Option<String>,
) -> Result<Action, Failure> {
    let action = reached(rpc, grant, id).await?;
    if reason.as_ref().is_some_and(|r| r.len() > MOST_REASON) {
        return Err(Failure::invalid(format!("A reason has at most {MOST_REASON} bytes.")));
    }
    let actor = access::Caller::of(grant.clone().into(), &rpc.supervisor.services().clock, "cli").label().to_owned();
    let (actions, tenant) = (actions(rpc), grant.tenant.clone());
    // A task of its own: what is committed is begun, even when the caller hangs up just now.
    let work = task::spawn(task::Kind::Request, "approval", async move {
        match approve {
            true => actions.approve(&tenant, id, &actor, seen.as_deref()).await,
            false => actions.reject(&tenant, id, &actor, reason.as_deref()).await,
        }
    });
    let decided = work.await.map_err(|e| Failure::internal("The decision", &e))??;
    if let Ok(butler) = rpc.supervisor.butler(&action.butler) {
        butler.approvals_changed();
    }
    Ok(decided)
}

/// Standing rules, of the butlers that the grant reaches.
pub(super) async fn rules(rpc: &Rpc, grant: &Grant, all: bool) -> Result<Vec<Rule>, Failure> {
    let butler = grant.butler.as_ref().map(ToString::to_string);
    Ok(actions(rpc).rules(&grant.tenant, butler.as_deref(), None, !all).await?)
}

/// What a rule is to be that is made from an action.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RuleRequest {
    pub description: Option<String>,
    pub max_uses: Option<i32>,
    pub expires_at: Option<jiff::Timestamp>,
    /// Arguments that may be anything.
    #[serde(default)]
    pub any: Vec<String>,
}

/// Allows calls like this one from now on.
pub(super) async fn rule(rpc: &Rpc, grant: &Grant, id: Uuid, request: RuleRequest) -> Result<Rule, Failure> {
    let action = reached(rpc, grant, id).await?;
    let named = action.tool_args.as_object();
    if let Some(name) = request.any.iter().find(|name| named.is_none_or(|args| !args.contains_key(*name))) {
        return Err(Failure::invalid(format!("The call has no argument `{name}`. See: butlerd approvals show {id}")));
    }
    let butler = rpc.butler(grant, &action.butler).await?;
    let actor = access::Caller::of(grant.clone().into(), &rpc.supervisor.services().clock, "cli").label().to_owned();
    let overrides = Constraints(request.any.into_iter().map(|name| (name, Constraint::Any)).collect());
    let gate = butler.gate();
    let draft = gate.draft_like(&grant.tenant, id, overrides, request.description.as_deref()).await?;
    let draft = Draft { expires_at: request.expires_at, max_uses: request.max_uses, ..draft };
    Ok(gate.allow(&grant.tenant, &draft, &actor).await?)
}

/// Ends a standing rule.
pub(super) async fn revoke(rpc: &Rpc, grant: &Grant, id: Uuid) -> Result<Rule, Failure> {
    let unknown = || Failure::new("not_found", format!("There is no rule {id}. See: butlerd approvals rules"));
    let actions = actions(rpc);
    let rule =
        actions.rule(&grant.tenant, id).await?.filter(|r| rights::reaches(grant, &r.butler)).ok_or_else(unknown)?;
    let actor = access::Caller::of(grant.clone().into(), &rpc.supervisor.services().clock, "cli").label().to_owned();
    if !actions.revoke_rule(&grant.tenant, id, &actor).await? {
        return Err(Failure::new("already_decided", "The rule was ended before."));
    }
    Ok(Rule { active: false, ..rule })
}
