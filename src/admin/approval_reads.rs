//! Approvals for programs: reading one shows it to nobody, and letting it through takes the hash of all that there is to see.

use std::sync::Arc;

use jsonrpsee::Extensions;
use uuid::Uuid;

use super::approvals::{ActionPage, ProposalPage};
use super::failure::Failure;
use super::rights::Need;
use super::rpc::Rpc;
use super::visitor::may;
use access::Grant;
use approvals::{Action, Ruling, Subject};

impl Rpc {
    /// One action with all of its pages, as `approvals_show` has it. That the caller was shown them is not noted.
    pub async fn approval(&self, ext: &Extensions, id: Uuid) -> Result<ActionPage, Failure> {
        let grant = may(ext, Need::Look)?;
        let action = self.action(&grant, id).await?;
        self.unnoted(&grant, action).await
    }

    /// What a message asks for, as `approvals_proposal` has it. That the caller was shown it is not noted.
    pub async fn proposal_asked(&self, ext: &Extensions, id: Uuid) -> Result<ProposalPage, Failure> {
        let grant = may(ext, Need::Look)?;
        let (calls, seen) = self.proposal(&grant, id).await?;
        let mut actions = Vec::with_capacity(calls.len());
        for call in calls {
            actions.push(self.unnoted(&grant, call).await?);
        }
        Ok(ProposalPage { id, actions, seen })
    }

    /// Lets an action through for a caller who has the hash of all of its pages, which stands beside them: only now they
    /// count as shown.
    pub async fn approve_seen(&self, ext: &Extensions, id: Uuid, seen: String) -> Result<Action, Failure> {
        let grant = may(ext, Need::Manage)?;
        let action = self.action(&grant, id).await?;
        if action.shown_sha256() == seen {
            self.note_whole(&grant, &action).await?;
        }
        self.decide_on(ext, id, Ruling::Approve(Some(seen))).await
    }

    /// The same for all that a proposal still waits for.
    pub async fn approve_proposal_seen(
        &self,
        ext: &Extensions,
        id: Uuid,
        seen: String,
    ) -> Result<Vec<Action>, Failure> {
        let grant = may(ext, Need::Manage)?;
        let (calls, hash) = self.proposal(&grant, id).await?;
        if hash == seen {
            for call in &calls {
                self.note_whole(&grant, call).await?;
            }
        }
        self.decide(ext, Subject::Proposal(id), Ruling::Approve(Some(seen))).await
    }

    async fn unnoted(&self, grant: &Grant, action: Action) -> Result<ActionPage, Failure> {
        let (pages, events) = (action.pages(), self.actions().events(&grant.tenant, action.id).await?);
        Ok(ActionPage { seen: action.shown_sha256(), of: pages.len(), action, pages, page: None, events })
    }

    async fn note_whole(&self, grant: &Arc<Grant>, action: &Action) -> Result<(), Failure> {
        let numbers: Vec<i32> = (1..).take(action.pages().len()).collect();
        Ok(self.actions().note_shown(&grant.tenant, action, &self.actor(grant), &numbers).await?)
    }
}
