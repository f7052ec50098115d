//! Which ids begin as somebody has typed: all commands that take an id take its beginning.

use std::sync::Arc;

use async_trait::async_trait;
use jsonrpsee::Extensions;
use jsonrpsee::proc_macros::rpc;
use serde::{Deserialize, Serialize};
use serde_json::Map;
use uuid::Uuid;

use super::failure::Failure;
use super::rights::{self, Need};
use super::rpc::{Rpc, Unavailable};
use super::visitor::may;
use access::Grant;
use base::IdBeginning;
use inbox::SWITCHBOARD;
use store::StoreError;

/// So many are told; more than one are too many to act on anyway.
const MOST: i64 = 10;

/// Ids by their beginning.
#[rpc(server, client, namespace = "butlerd", namespace_separator = ".")]
pub trait IdsApi {
    /// The ids of this kind that begin so, in order, at most ten. Scope `read`; of tokens `admin`.
    #[method(name = "ids", param_kind = map, with_extensions)]
    async fn ids(&self, kind: IdKind, beginning: String) -> Result<FoundIds, Failure>;
}

/// What an id names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdKind {
    Session,
    /// A message that came in.
    Message,
    Delivery,
    /// A call that waits for consent, or a proposal.
    Approval,
    StandingRule,
    /// A triage rule.
    Rule,
    Token,
    /// Whatever a timeline is of: a session, a request, a trace or a schedule.
    Traced,
}

impl IdKind {
    /// What it is called, and which command lists them.
    pub fn named(self) -> (&'static str, &'static str) {
        match self {
            Self::Session => ("session", "sessions list"),
            Self::Message => ("message", "inbox list"),
            Self::Delivery => ("delivery", "deliveries list"),
            Self::Approval => ("action or proposal", "approvals list --all"),
            Self::StandingRule => ("standing rule", "approvals rules"),
            Self::Rule => ("rule", "rules list"),
            Self::Token => ("token", "token list"),
            Self::Traced => ("session, request, trace or schedule", "sessions list"),
        }
    }
}

/// What `ids` answers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FoundIds {
    pub ids: Vec<Uuid>,
    /// Butlers that can't be asked just now.
    pub unavailable: Vec<Unavailable>,
}

impl Rpc {
    async fn sessions_beginning(
        &self,
        grant: &Arc<Grant>,
        beginning: &IdBeginning,
        traced: bool,
    ) -> Result<FoundIds, Failure> {
        let (butlers, unavailable) = self.butlers(grant, None).await?;
        let (mut found, caller) = (FoundIds { ids: Vec::new(), unavailable }, self.caller(grant));
        for butler in butlers {
            let ids = async {
                let mut ids = butler.spawner().ids(&caller.context, beginning, traced, MOST).await?;
                if traced {
                    ids.extend(butler.schedules().ids(&grant.tenant, beginning, MOST).await?);
                }
                Ok::<_, StoreError>(ids)
            };
            match ids.await {
                Ok(ids) => found.ids.extend(ids),
                Err(e) => found.unavailable.push(Unavailable::new(&butler, &e)),
            }
        }
        Ok(found)
    }

    /// Triage rules are few, and the switchboard's own tool lists them.
    async fn rules_beginning(&self, grant: &Arc<Grant>, beginning: &IdBeginning) -> Result<Vec<Uuid>, Failure> {
        #[derive(Deserialize)]
        struct Rule {
            id: Uuid,
        }
        let switchboard = self.butler(grant, SWITCHBOARD).await?;
        let rules: Result<Vec<Rule>, _> = self.own_tool(grant, &switchboard, "triage_rule_list", Map::new()).await;
        let rules =
            rules.map_err(|why| Failure::new("unavailable", format!("The rules can't be read: {}.", why.reason)))?;
        Ok(rules.into_iter().map(|rule| rule.id).filter(|id| beginning.fits(*id)).collect())
    }
}

#[async_trait]
impl IdsApiServer for Rpc {
    async fn ids(&self, ext: &Extensions, kind: IdKind, beginning: String) -> Result<FoundIds, Failure> {
        let grant = may(ext, if kind == IdKind::Token { Need::Household } else { Need::Look })?;
        let beginning: IdBeginning = beginning.parse().map_err(|e| Failure::invalid(format!("{e}.")))?;
        let (services, tenant) = (self.supervisor.services(), &grant.tenant);
        let reached = |found: Vec<(Uuid, String)>| -> Vec<Uuid> {
            found.into_iter().filter(|(_, butler)| rights::reaches(&grant, butler)).map(|(id, _)| id).collect()
        };
        let mut found = FoundIds::default();
        match kind {
            IdKind::Session => found = self.sessions_beginning(&grant, &beginning, false).await?,
            IdKind::Traced => found = self.sessions_beginning(&grant, &beginning, true).await?,
            IdKind::Message => {
                rights::check_butler(&grant, SWITCHBOARD)?;
                found.ids = services.inbox.ids(tenant, &beginning, MOST).await?;
            }
            IdKind::Delivery => found.ids = reached(services.outbox.ids(tenant, &beginning, MOST).await?),
            IdKind::Approval => found.ids = reached(self.actions().ids(tenant, &beginning, MOST).await?),
            IdKind::StandingRule => {
                let rules = self.actions().rules(tenant, None, None, false).await?;
                let reached = rules.into_iter().filter(|rule| rights::reaches(&grant, &rule.butler));
                found.ids = reached.map(|rule| rule.id).filter(|id| beginning.fits(*id)).collect();
            }
            IdKind::Rule => found.ids = self.rules_beginning(&grant, &beginning).await?,
            IdKind::Token => {
                let tokens = services.operators.list().await?;
                found.ids = tokens.into_iter().map(|token| token.id).filter(|id| beginning.fits(*id)).collect();
            }
        }
        found.ids.sort();
        found.ids.dedup();
        found.ids.truncate(MOST as usize);
        Ok(found)
    }
}
