//! What a butler's approvals come to: expired, called once, and told to the butler. Looks at rows, whatever woke it.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

use super::actions::{failed, note};
use super::gate::ApprovalGate;
use super::types::{Status, args_sha256};
use access::{Caller, approval_label};
use base::{HumanDuration, RequestContext, TenantId, Trust, crash, task};
use store::{Claim, ClaimTable, StoreError, Tx, lease_seconds};
use tools::{Reply, ToolSet};

/// Rows are looked for this often even if nobody says that there are any: wishes expire by themselves.
const LOOK: Duration = Duration::from_secs(30);
/// After a look that failed.
const AGAIN: Duration = Duration::from_secs(1);

/// A call that is told to break off gets this long to do so by itself.
const GRACE: Duration = Duration::from_secs(5);

static CLAIMS: ClaimTable = ClaimTable::shared("shared.pending_actions");

/// What the worker works with.
pub struct ApprovalParts {
    pub gate: ApprovalGate,
    pub tools: ToolSet,
    /// Who claims rows here: the same after a restart.
    pub node: String,
    /// Tells the butler's route inbox that something is there.
    pub told: std::sync::Arc<tokio::sync::Notify>,
}

/// The worker of a butler that is up.
pub struct Approvals {
    task: JoinHandle<()>,
    stop: CancellationToken,
    _ends: DropGuard,
}

/// A call that was let through and that this claim holds.
struct Claimed {
    id: Uuid,
    claim: Uuid,
    tenant: TenantId,
    session: Uuid,
    tool: String,
    args: String,
    approved: String,
    /// `None`: in no form that is known here.
    request: Option<RequestContext>,
}

impl Approvals {
    /// Takes up what the last run left, then begins to work.
    pub async fn start(parts: ApprovalParts) -> Result<Self, StoreError> {
        let stop = CancellationToken::new();
        let worker = Worker { parts, stop: stop.clone() };
        worker.release_own().await?;
        let task = task::spawn(task::Kind::Actor, "approvals", worker.run());
        Ok(Self { task, _ends: stop.clone().drop_guard(), stop })
    }

    /// Ends it; a call that is under way is finished.
    pub async fn stop(self, within: Duration) {
        self.stop.cancel();
        if tokio::time::timeout(within, self.task).await.is_err() {
            tracing::warn!("an approved call was not over before the stop; the next start looks what became of it");
        }
    }
}

struct Worker {
    parts: ApprovalParts,
    stop: CancellationToken,
}

impl Worker {
    fn butler(&self) -> &str {
        self.parts.gate.butler.as_str()
    }

    async fn release_own(&self) -> Result<(), StoreError> {
        let mut lease = self.parts.gate.actions.db.every_tenant().await?;
        let sql = "UPDATE shared.pending_actions SET claim_id = NULL, claimed_by = NULL, lease_until = NULL
                   WHERE butler = $1 AND status = 'approved' AND claimed_by = $2";
        lease.execute(sql, &[&self.butler(), &self.parts.node]).await.map_err(failed())?;
        Ok(())
    }

    async fn run(self) {
        loop {
            let next = match self.look().await {
                Ok(()) => LOOK,
                Err(e) => {
                    tracing::warn!(butler = self.butler(), error = %e, "approvals can't be looked after just now");
                    AGAIN
                }
            };
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = self.parts.gate.wake.notified() => {}
                () = tokio::time::sleep(next) => {}
            }
        }
    }

    async fn look(&self) -> Result<(), StoreError> {
        self.parts.gate.actions.expire(self.butler()).await?;
        while !self.stop.is_cancelled()
            && let Some(claimed) = self.claim().await?
        {
            let held = Claim { row: claimed.id, id: claimed.claim };
            let work = self.carry_out(&claimed);
            tokio::pin!(work);
            tokio::select! {
                done = &mut work => done?,
                // A call is not broken off. That of whoever holds it now can't have its effect a second time.
                () = CLAIMS.hold(&self.parts.gate.actions.db, held) => work.await?,
            }
        }
        while self.hand_back().await? {
            self.parts.told.notify_one();
        }
        Ok(())
    }

    async fn claim(&self) -> Result<Option<Claimed>, StoreError> {
        let claim = Uuid::now_v7();
        let mut lease = self.parts.gate.actions.db.every_tenant().await?;
        let row = lease
            .query_opt(
                "UPDATE shared.pending_actions SET claim_id = $3, claimed_by = $2,
                        lease_until = clock_timestamp() + make_interval(secs => $4)
                 WHERE id = (SELECT id FROM shared.pending_actions
                             WHERE butler = $1 AND status = 'approved'
                               AND (claim_id IS NULL OR lease_until < clock_timestamp())
                             ORDER BY seq LIMIT 1 FOR UPDATE SKIP LOCKED)
                 RETURNING id, tenant_id, session_id, tool_name, tool_args, args_sha256, request",
                &[&self.butler(), &self.parts.node, &claim, &lease_seconds()],
            )
            .await
            .map_err(failed())?;
        let Some(row) = row else { return Ok(None) };
        crash::point("approval.claimed");
        Ok(Some(Claimed {
            id: row.get(0),
            claim,
            tenant: TenantId::new(row.get::<_, &str>(1)).map_err(|e| StoreError::Unexpected(e.to_string()))?,
            session: row.get(2),
            tool: row.get(3),
            args: row.get(4),
            approved: row.get(5),
            request: serde_json::from_value(row.get(6)).ok(),
        }))
    }

    /// Makes the call, unless its row of an earlier try says that it was made.
    async fn carry_out(&self, claimed: &Claimed) -> Result<(), StoreError> {
        let args = serde_json::from_str::<Map<String, Value>>(&claimed.args);
        let (Ok(args), true) = (args, args_sha256(self.butler(), &claimed.tool, &claimed.args) == claimed.approved)
        else {
            return self.abandon(claimed, "its arguments are not those that were approved").await;
        };
        let Some(request) = &claimed.request else {
            return self.abandon(claimed, "this version of butlerd can't read it").await;
        };
        if self.was_made(claimed).await? {
            return self.made(claimed, "it was made before butlerd was started again; its answer was lost").await;
        }
        let context = std::sync::Arc::new(request.clone());
        let caller = Caller::approved(claimed.id, Some(base::SessionId(claimed.session)), context);
        crash::point("approval.calling");
        let within = self.parts.gate.settings.call_timeout;
        let cancelled = CancellationToken::new();
        let call = self.parts.tools.call(&claimed.tool, args, caller, cancelled.clone());
        let Some(reply) = in_time(call, &cancelled, within.0).await else {
            return self.broken_off(claimed, within).await;
        };
        crash::point("approval.called");
        let Some(Reply { json: answer, is_error, seen }) = reply else {
            return self.abandon(claimed, "there is no such tool any more").await;
        };
        let code = answer["code"].as_str().unwrap_or_default();
        if is_error && matches!(code, "unavailable" | "outcome_unknown") {
            // What became of it, its audit row tells as soon as the database is back.
            self.release(claimed).await?;
            return Err(StoreError::Unreachable("the database went away during an approved call".to_owned()));
        }
        let done = code == "done_but_unreadable";
        let refused = !done && (is_error || answer["status"] == "error");
        let error = refused.then(|| answer["error"].as_str().unwrap_or("it failed").to_owned());
        let result = json!({"success": !refused, "result": (!refused).then_some(&answer), "error": error,
                            "executed_at": self.parts.gate.actions.clock.now().to_string()});
        self.settle(claimed, Status::Executed, result, "executed", seen).await
    }

    /// It was made, which its row in the audit log tells and nothing else.
    async fn made(&self, claimed: &Claimed, how: &str) -> Result<(), StoreError> {
        let result = json!({"success": true, "result": null, "error": null, "note": how});
        self.settle(claimed, Status::Executed, result, "executed", Trust::Owner).await
    }

    /// Its time was over. Of its effect in the database its audit row tells; of what it did outside nothing does.
    async fn broken_off(&self, claimed: &Claimed, within: HumanDuration) -> Result<(), StoreError> {
        if self.was_made(claimed).await? {
            return self.made(claimed, "it was made, and did not come to its end in time; its answer was lost").await;
        }
        let why = format!(
            "it did not end within {within} and was broken off; it may have done a part of what it was to do, so look \
             before it is asked for again"
        );
        self.abandon(claimed, &why).await
    }

    /// A call's row in the audit log is committed with its effect, so it says whether there was one.
    async fn was_made(&self, claimed: &Claimed) -> Result<bool, StoreError> {
        self.parts.tools.flush_audit().await;
        let mut lease = self.parts.gate.store.tenant(&claimed.tenant).await?;
        let sql = "SELECT 1 FROM tool_calls WHERE session_id = $1 AND caller = $2 AND outcome = 'ok'";
        let rows = lease.read(sql, &[&claimed.session, &approval_label(claimed.id)]).await.map_err(failed())?;
        Ok(!rows.is_empty())
    }

    async fn release(&self, claimed: &Claimed) -> Result<(), StoreError> {
        let mut lease = self.parts.gate.actions.db.shared(&claimed.tenant).await?;
        let sql = "UPDATE shared.pending_actions SET claim_id = NULL, claimed_by = NULL, lease_until = NULL
                   WHERE id = $1 AND claim_id = $2";
        lease.execute(sql, &[&claimed.id, &claimed.claim]).await.map(drop).map_err(failed())
    }

    async fn abandon(&self, claimed: &Claimed, why: &str) -> Result<(), StoreError> {
        tracing::error!(butler = self.butler(), action = %claimed.id, "an approved call came to nothing: {why}");
        let result = json!({"success": false, "result": null, "error": why});
        self.settle(claimed, Status::Abandoned, result, "abandoned", Trust::Owner).await?;
        // The owner is told as well.
        (self.parts.gate.call)();
        Ok(())
    }

    /// `seen`: how far what the result shows is believed; whoever is told of it inherits that.
    async fn settle(
        &self,
        claimed: &Claimed,
        to: Status,
        result: Value,
        what: &str,
        seen: Trust,
    ) -> Result<(), StoreError> {
        let trust = claimed.request.as_ref().map_or(Trust::Stranger, |request| request.trust.min(seen));
        let actions = &self.parts.gate.actions;
        let executed = (to == Status::Executed).then(|| actions.clock.now());
        let mut lease = actions.db.shared(&claimed.tenant).await?;
        let mut tx = lease.begin().await.map_err(failed())?;
        let held = tx
            .execute(
                "UPDATE shared.pending_actions SET status = $3, execution_result = $4, executed_at = $5, claim_id = NULL,
                        claimed_by = NULL, lease_until = NULL, trust = $6,
                        request = jsonb_set(request, '{trust}', to_jsonb($6::text))
                 WHERE id = $1 AND claim_id = $2 AND status = 'approved'",
                &[&claimed.id, &claimed.claim, &to.as_str(), &result, &executed, &trust.as_str()],
            )
            .await
            .map_err(failed())?;
        if held == 0 {
            tracing::warn!(action = %claimed.id, "somebody else holds this action; nothing was settled");
            return tx.rollback().await.map_err(failed());
        }
        // Of an error nothing is kept here: it may quote what was hidden in the arguments.
        let meta = json!({"success": result["success"]});
        note(&mut tx, &claimed.tenant, Some(claimed.id), None, what, "butlerd", None, meta).await?;
        crash::point("approval.settling");
        tx.commit().await.map_err(failed())?;
        crash::point("approval.settled");
        Ok(())
    }

    /// Tells the butler how one of its wishes ended, by a new session. `false`: there is none to tell of.
    async fn hand_back(&self) -> Result<bool, StoreError> {
        let actions = &self.parts.gate.actions;
        let mut lease = actions.db.every_tenant().await?;
        let mut tx = lease.begin().await.map_err(failed())?;
        let row = tx
            .query_opt(
                "SELECT id, tool_name, args_shown, status, decision_reason, execution_result, request, decided_by
                 FROM shared.pending_actions
                 WHERE butler = $1 AND handed_back_at IS NULL AND status IN ('rejected', 'expired', 'executed', 'abandoned')
                 ORDER BY seq LIMIT 1 FOR UPDATE SKIP LOCKED",
                &[&self.butler()],
            )
            .await
            .map_err(failed())?;
        let Some(row) = row else {
            tx.rollback().await.map_err(failed())?;
            return Ok(false);
        };
        let id: Uuid = row.get(0);
        let (tool, status): (String, String) = (row.get(1), row.get(3));
        let result: Option<Value> = row.get(5);
        let request: Value = row.get(6);
        // The owner waits for what came of it only where it was the owner who had asked.
        let waits = self.waits(&mut tx, id).await?;
        let data = json!({"action_id": id, "tool": tool, "arguments": row.get::<_, Value>(2), "status": status,
                          "reason": row.get::<_, Option<String>>(4), "outcome": result});
        let prompt = told(&tool, &status, result.as_ref());
        let sql = "SELECT shared.hand_back($1, $2, $3, $4, $5)";
        tx.query(sql, &[&self.butler(), &request, &waits, &prompt, &data]).await.map_err(failed())?;
        let sql = "UPDATE shared.pending_actions SET handed_back_at = $2 WHERE id = $1";
        tx.execute(sql, &[&id, &actions.clock.now()]).await.map_err(failed())?;
        crash::point("approval.handing_back");
        tx.commit().await.map_err(failed())?;
        crash::point("approval.handed_back");
        Ok(true)
    }

    /// Whether the owner waits in the conversation that the wish came out of.
    async fn waits(&self, tx: &mut Tx<'_>, action: Uuid) -> Result<bool, StoreError> {
        let sql = format!(
            "SELECT coalesce((r.route ->> 'interactive')::boolean, false)
                    AND r.route #>> '{{request_context,trust}}' IN ('owner', 'system')
             FROM shared.pending_actions a
             JOIN \"{schema}\".sessions s ON s.id = a.session_id
             JOIN \"{schema}\".route_inbox r ON r.id = s.route_id WHERE a.id = $1",
            schema = self.parts.gate.store.schema()
        );
        Ok(tx.query_opt(&sql, &[&action]).await.map_err(failed())?.is_some_and(|row| row.get(0)))
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
