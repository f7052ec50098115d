//! What a butler's approvals come to: expired, called once, and told to the butler. Looks at rows, whatever woke it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::gate::ApprovalGate;
use super::sql::{self, ApprovedRow, NewEvent, SettledCall, failed};
use super::types::{ActionRecipient, Cause, Status, args_sha256};
use access::{Caller, approval_label};
use base::{HumanDuration, Label, RequestContext, SessionId, TenantId, Trust, crash};
use store::{Claim, Claimed, Database, Handler, Queue, QueueOptions, QueueTable, RunningQueue, StoreError, Verdict};
use tools::sql::calls;
use tools::{EgressRecipient, Reply, ToolError, ToolSet};

/// Rows are looked for this often even if nobody says that there are any. Whoever calls [`super::butlers_due`] does.
const LOOK: Duration = Duration::from_secs(600);
/// After a try that the database broke off.
const AGAIN: Duration = Duration::from_secs(1);

/// A call that is told to break off gets this long to do so by itself.
const GRACE: Duration = Duration::from_secs(5);

/// What the worker works with.
pub struct ApprovalParts {
    pub gate: ApprovalGate,
    pub tools: ToolSet,
    /// Who claims rows here: the same after a restart.
    pub node: String,
    /// Tells the butler's route inbox that something is there.
    pub told: Arc<Notify>,
}

/// Takes up what the last run left, then begins to work: one call at a time.
pub async fn start(parts: ApprovalParts) -> Result<RunningQueue, StoreError> {
    let (butler, wake) = (parts.gate.butler.to_string(), parts.gate.wake.clone());
    let table = QueueTable {
        table: "shared.pending_actions".to_owned(),
        key: "id",
        open: format!("status = 'approved' AND butler = '{butler}'"),
        take: None,
        give: None,
        order: "n.seq".to_owned(),
        retry: None,
        leases: 1.0,
    };
    let options = QueueOptions { butler, wake, slots: 1, claimers: 1, longest: LOOK };
    Queue::new(Worker { parts, table }, options).start().await
}

struct Worker {
    parts: ApprovalParts,
    table: QueueTable,
}

/// The call, as it can be made.
struct Call {
    row: ApprovedRow,
    tenant: TenantId,
    /// `None`: in no form that is known here.
    request: Option<RequestContext>,
}

/// How a call ended.
struct Outcome {
    to: Status,
    result: Value,
    what: &'static str,
    /// The label of what the result shows; whoever is told of it inherits that.
    seen: Label,
}

impl Outcome {
    /// It was made, which its row in the audit log tells and nothing else.
    fn made(how: &str) -> Self {
        let result = json!({"success": true, "result": null, "error": null, "note": how});
        Self { to: Status::Executed, result, what: "executed", seen: Label::NOTHING }
    }

    fn abandoned(why: &str) -> Self {
        let result = json!({"success": false, "result": null, "error": why});
        Self { to: Status::Abandoned, result, what: "abandoned", seen: Label::NOTHING }
    }
}

#[async_trait]
impl Handler for Worker {
    const NAME: &'static str = "approval";
    const WATCHED: bool = true;
    type Row = Call;
    type End = Outcome;

    fn table(&self) -> &QueueTable {
        &self.table
    }

    fn db(&self) -> &Arc<Database> {
        &self.parts.gate.actions.db
    }

    fn node(&self) -> &str {
        &self.parts.node
    }

    async fn prepare(&self, _in_hand: &[Uuid]) -> Result<(), StoreError> {
        self.parts.gate.actions.expire(self.butler()).await.map(drop)
    }

    async fn claim(&self, in_hand: &[Uuid]) -> Result<Option<Claimed<Call>>, StoreError> {
        let (id, mut lease) = (Uuid::now_v7(), self.db().every_tenant().await?);
        let row = sql::claim(&mut lease, &self.table, (id, self.node()), in_hand).await?;
        let Some(row) = row else { return Ok(None) };
        let tenant = TenantId::new(&row.tenant_id).map_err(|e| StoreError::Unexpected(e.to_string()))?;
        let request = serde_json::from_value(row.request.clone()).ok();
        let claim = Claim { row: row.id, id };
        Ok(Some(Claimed { claim, attempts: 0, row: Call { row, tenant, request } }))
    }

    async fn follow(&self) -> Result<(), StoreError> {
        while self.hand_back().await? {
            self.parts.told.notify_one();
        }
        Ok(())
    }

    /// A call is not broken off because its claim is lost. That of whoever holds it now can't have its effect a second
    /// time.
    async fn run(&self, claimed: &Claimed<Call>, _lost: &CancellationToken) -> Verdict<Outcome> {
        match self.carry_out(&claimed.row).await {
            Ok(Some(outcome)) => Verdict::Settle(outcome),
            Ok(None) => Verdict::Later { after: AGAIN, counts: false },
            Err(e) => {
                tracing::warn!(butler = self.butler(), action = %claimed.claim.row, error = %e, "an approved call can't be made yet");
                Verdict::Later { after: AGAIN, counts: false }
            }
        }
    }

    async fn settle(&self, claimed: &Claimed<Call>, end: &Outcome) -> Result<bool, StoreError> {
        let Claimed { claim, row: Call { tenant, request, .. }, .. } = claimed;
        let unread = Label::household(Trust::Stranger);
        let label = request.as_ref().map_or(unread, |request| request.label().join(&end.seen));
        let actions = &self.parts.gate.actions;
        let executed = (end.to == Status::Executed).then(|| actions.clock.now());
        let mut lease = actions.db.shared(tenant).await?;
        let mut tx = lease.begin().await.map_err(failed())?;
        let settled = SettledCall { to: end.to, result: &end.result, executed_at: executed, label: &label };
        if !sql::settle(&mut tx, &self.table, claim, &settled).await? {
            tx.rollback().await.map_err(failed())?;
            return Ok(false);
        }
        // Of an error nothing is kept here: it may quote what was hidden in the arguments.
        let meta = json!({"success": end.result["success"]});
        let (action, actor) = (Some(claim.row), "butlerd");
        sql::note(&mut tx, tenant, &NewEvent { action, rule: None, what: end.what, actor, reason: None, meta }).await?;
        crash::point("approval.settling");
        tx.commit().await.map_err(failed())?;
        if end.to == Status::Abandoned {
            let why = end.result["error"].as_str().unwrap_or_default();
            tracing::error!(butler = self.butler(), action = %claim.row, "an approved call failed: {why}");
            // The owner is told as well.
            (self.parts.gate.call)();
        }
        Ok(true)
    }
}

impl Worker {
    fn butler(&self) -> &str {
        self.parts.gate.butler.as_str()
    }

    /// Makes the call, unless its row of an earlier try says that it was made. `None`: what became of it, its audit row
    /// tells as soon as the database is back.
    async fn carry_out(&self, call: &Call) -> Result<Option<Outcome>, StoreError> {
        let Call { row, request, .. } = call;
        let args = serde_json::from_str::<Map<String, Value>>(&row.tool_args);
        let (Ok(args), true) = (args, args_sha256(self.butler(), &row.tool_name, &row.tool_args) == row.args_sha256)
        else {
            return Ok(Some(Outcome::abandoned("its arguments are not those that were approved")));
        };
        let Some(request) = request else {
            return Ok(Some(Outcome::abandoned("this version of butlerd can't read it")));
        };
        if self.was_made(call).await? {
            return Ok(Some(Outcome::made("it was made before butlerd was started again; its answer was lost")));
        }
        // What a message proposed is now the owner's own will; what is sent is still in the words of whoever wrote it.
        let proposed = row.cause == Cause::Influenced.as_str();
        let trust = if proposed { Trust::Owner } else { request.trust };
        let request = RequestContext { trust, ..request.clone() };
        let caller = Caller::approved(row.id, Some(SessionId(row.session_id)), Arc::new(request));
        match self.reaches_another(row, &args, &caller).await {
            Ok(false) => {}
            Ok(true) => return Ok(Some(Outcome::abandoned("whom it reaches now is not whom you approved it for"))),
            Err(ToolError::Store(e)) => return Err(e),
            Err(e) => return Ok(Some(Outcome::abandoned(&format!("it is not known whom it would reach: {e}")))),
        }
        crash::point("approval.calling");
        let within = self.parts.gate.settings.call_timeout;
        let cancelled = CancellationToken::new();
        let made = self.parts.tools.call(&row.tool_name, args, caller, cancelled.clone());
        let Some(reply) = in_time(made, &cancelled, within.0).await else {
            return self.broken_off(call, within).await.map(Some);
        };
        crash::point("approval.called");
        let Some(Reply { json: answer, is_error, seen, .. }) = reply else {
            return Ok(Some(Outcome::abandoned("there is no such tool any more")));
        };
        let code = answer["code"].as_str().unwrap_or_default();
        if is_error && matches!(code, "unavailable" | "outcome_unknown") {
            return Ok(None);
        }
        let done = code == "done_but_unreadable";
        let refused = !done && (is_error || answer["status"] == "error");
        let error = refused.then(|| answer["error"].as_str().unwrap_or("it failed").to_owned());
        let result = json!({"success": !refused, "result": (!refused).then_some(&answer), "error": error,
                            "executed_at": self.parts.gate.actions.clock.now().to_string()});
        Ok(Some(Outcome { to: Status::Executed, result, what: "executed", seen }))
    }

    /// Whether what the arguments name, a person or a contact, has come to mean another address since it was shown, or anybody
    /// where it was nobody outside of the household.
    async fn reaches_another(
        &self,
        row: &ApprovedRow,
        args: &Map<String, Value>,
        caller: &Caller,
    ) -> Result<bool, ToolError> {
        let approved = row.recipient.clone().and_then(|to| serde_json::from_value::<ActionRecipient>(to).ok());
        let known = approved.map(|to| to.channel.zip(to.address));
        if let Some(None) = known {
            return Ok(false);
        }
        let now = self.parts.tools.egress_target(&row.tool_name, args.clone(), caller).await?;
        let Some((channel, address)) = known.flatten() else { return Ok(now.is_some_and(|to| to.outward)) };
        let same = |to: &EgressRecipient| to.channel == channel && to.address == address;
        Ok(!now.and_then(|to| to.recipient).is_some_and(|to| same(&to)))
    }

    /// Its time was over. Of its effect in the database its audit row tells; of what it did outside nothing does.
    async fn broken_off(&self, call: &Call, within: HumanDuration) -> Result<Outcome, StoreError> {
        if self.was_made(call).await? {
            return Ok(Outcome::made("it was made, and did not come to its end in time; its answer was lost"));
        }
        Ok(Outcome::abandoned(&format!(
            "it did not end within {within} and was broken off; it may have done a part of what it was to do, so look \
             before it is asked for again"
        )))
    }

    /// A call's row in the audit log is committed with its effect, so it says whether there was one.
    async fn was_made(&self, call: &Call) -> Result<bool, StoreError> {
        self.parts.tools.flush_audit().await;
        let mut lease = self.parts.gate.store.tenant(&call.tenant).await?;
        calls::went_well(&mut lease, call.row.session_id, &approval_label(call.row.id)).await
    }

    /// Tells the butler how one of its wishes ended, by a new session. `false`: there is none to tell of.
    async fn hand_back(&self) -> Result<bool, StoreError> {
        let actions = &self.parts.gate.actions;
        let mut lease = actions.db.every_tenant().await?;
        let mut tx = lease.begin().await.map_err(failed())?;
        let Some(row) = sql::next_ended(&mut tx, self.butler()).await? else {
            tx.rollback().await.map_err(failed())?;
            return Ok(false);
        };
        // The owner waits for what came of it only where it was the owner who had asked.
        let gate = &self.parts.gate;
        let owner_waits = (gate.pieces.owner_waits)(gate.store.schema(), "a.session_id");
        let waits = sql::owner_waits(&mut tx, row.id, &owner_waits).await?;
        let data = json!({"action_id": row.id, "tool": row.tool_name, "arguments": row.args_shown,
                          "status": row.status, "reason": row.decision_reason, "outcome": row.execution_result});
        let prompt = told(&row.tool_name, &row.status, row.execution_result.as_ref());
        sql::hand_back(&mut tx, self.butler(), (&row.request, waits), (&prompt, &data)).await?;
        sql::handed_back(&mut tx, row.id, actions.clock.now()).await?;
        crash::point("approval.handing_back");
        tx.commit().await.map_err(failed())?;
        crash::point("approval.handed_back");
        Ok(true)
    }
}

/// Waits for a call for so long. `None`: it did not end, not even when it was told to.
async fn in_time<F>(call: F, cancelled: &CancellationToken, within: Duration) -> Option<Option<Reply>>
where
    F: Future<Output = Option<Reply>>,
{
    tokio::pin!(call);
    if let Ok(reply) = tokio::time::timeout(within, &mut call).await {
        return Some(reply);
    }
    cancelled.cancel();
    // A transaction that is open then is rolled back.
    let reply = tokio::time::timeout(GRACE, &mut call).await.ok()?;
    (!reply.as_ref().is_some_and(|r| r.is_error && r.json["code"] == "cancelled")).then_some(reply)
}

/// What the butler is told.
fn told(tool: &str, status: &str, result: Option<&Value>) -> String {
    let outcome = match status {
        "executed" if result.is_some_and(|r| r["success"] == json!(true)) => "The owner approved it, and it was done",
        "executed" => "The owner approved it; it was tried and failed",
        "rejected" => "The owner turned it down, so it was not done. Don't ask for the same again",
        "expired" => "Nobody decided in time, so it was not done",
        _ => "It was approved and could not be done",
    };
    format!("A call of `{tool}` that you had made waited for the owner. {outcome}. Do what is left to do with that.")
}
