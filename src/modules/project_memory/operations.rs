//! What can be asked of a project's memory, by whichever way.

use memory::sql::{Rows, experiences, store_error};
use memory::write::{Origin, WriteError};
use project::wire::Identity;
use serde_json::{Value, json};
use store::StoreError;
use uuid::Uuid;

use super::arguments::{Arguments, wrong};
use super::request::{Caller, ProjectMemory, ProjectRequest};
use super::{exchange, find, injection, look, remember, sql, upkeep};
use base::{RequestContext, crash};

/// Operations that change something, and so need a transaction.
const WRITES: &[&str] = &[
    "remember",
    "forget",
    "forget_by_tags",
    "forget_matching",
    "cleanup",
    "dedup",
    "undo",
    "import_memories",
    "add_todo",
    "complete_todo",
    "clear_todos",
    "inject",
    "told",
    "forget_session",
];

impl ProjectMemory {
    /// Does what is asked. Returns the project that it was done to, and what came of it.
    pub async fn run(
        &self,
        caller: Caller<'_>,
        op: &str,
        by: &Identity,
        branch: Option<&str>,
        args: &Value,
    ) -> Result<(Uuid, Value), WriteError> {
        let context = caller.context();
        let tenant = &context.tenant_id;
        let project = self.project(context, by).await?;
        let request = ProjectRequest {
            house: self,
            project: &project,
            tenant,
            branch,
            args: Arguments(args),
            origin: Origin {
                butler: self.memory.butler.to_string(),
                actor: context.source_channel.clone(),
                session: None,
                request: Some(context.request_id.0),
                ..Origin::default()
            },
        };
        let done = match (caller, WRITES.contains(&op)) {
            (Caller::Call(call), true) => {
                let mut lease = call.lease().await.map_err(store_error)?;
                let mut tx = call.begin(&mut lease).await.map_err(store_error)?;
                let done = perform(&request, op, &mut tx).await;
                match done {
                    Ok(_) => tx.commit().await.map_err(store_error)?,
                    // A connection that is gone takes its transaction with it.
                    Err(_) => drop(tx.rollback().await),
                }
                done
            }
            (Caller::Call(mut call), false) => perform(&request, op, &mut call).await,
            (Caller::Program(context), true) => {
                let mut lease = self.store.lease(context).await?;
                let mut tx = lease.begin().await.map_err(StoreError::query("beginning"))?;
                let done = perform(&request, op, &mut tx).await;
                crash::point("project.performed");
                match done {
                    Ok(_) => tx.commit().await.map_err(StoreError::query("remembering"))?,
                    Err(_) => drop(tx.rollback().await),
                }
                crash::point("project.committed");
                done
            }
            (Caller::Program(context), false) => {
                let mut lease = self.store.lease(context).await?;
                perform(&request, op, &mut lease).await
            }
        }?;
        if WRITES.contains(&op) && !matches!(op, "inject" | "told" | "forget_session") {
            // What is not searchable yet will be at the next look.
            if let Err(e) = self.memory.step(tenant).await {
                tracing::warn!(error = %e, "what was remembered of a project is not searchable yet");
            }
        }
        Ok((project.id, done))
    }
}

impl ProjectMemory {
    /// Notes that the memories of an answer were used. It comes behind the answer, because it waits for writers.
    pub async fn used(&self, context: &RequestContext, op: &str, answer: &Value) {
        let listed = match op {
            "recall" | "proactive_context" => answer.as_array(),
            "inject" => answer["lines"].as_array(),
            _ => None,
        };
        let ids = listed.into_iter().flatten().filter_map(|memory| memory["id"].as_str()?.parse().ok());
        let ids: Vec<Uuid> = ids.collect();
        if ids.is_empty() {
            return;
        }
        let noted = async {
            let mut lease = self.store.lease(context).await?;
            let mut tx = lease.begin().await.map_err(StoreError::query("beginning"))?;
            experiences::touch(&mut tx, &ids).await?;
            tx.commit().await.map_err(StoreError::query("noting what was used"))
        };
        if let Err(e) = noted.await {
            tracing::warn!(error = %e, "it is not noted which memories of a project were used");
        }
    }
}

async fn perform(request: &ProjectRequest<'_>, op: &str, rows: &mut dyn Rows) -> Result<Value, WriteError> {
    match op {
        "remember" => remember::remember(request, rows).await,
        "forget" => remember::forget(request, rows, "id").await,
        "forget_by_tags" => remember::forget_by_tags(request, rows).await,
        "forget_matching" => remember::forget_matching(request, rows).await,
        "add_todo" => remember::add_todo(request, rows).await,
        "complete_todo" => remember::forget(request, rows, "todo_id").await,
        "clear_todos" => remember::clear_todos(request, rows).await,
        "list_todos" => look::todos(request, rows).await,
        "recall" => find::recall(request, rows).await,
        "proactive_context" => find::proactive(request, rows).await,
        "recall_by_date" => look::by_date(request, rows).await,
        "list_memories" => look::list(request, rows).await,
        "get_memory" => look::get(request, rows).await,
        "context_summary" => look::summary(request, rows).await,
        "brain" => look::brain(request, rows).await,
        "memory_stats" => look::stats(request, rows).await,
        "graph_stats" => look::graph(request, rows).await,
        "health" | "verify_index" => look::health(request, rows).await,
        "status" => look::status(request, rows).await,
        "consolidation_report" => look::report(request, rows).await,
        "projects" => projects(rows).await,
        "audit" => upkeep::audit(request, rows).await,
        "dedup" => upkeep::dedup(request, rows).await,
        "cleanup" => upkeep::cleanup(request, rows).await,
        "undo" => upkeep::undo(request, rows).await,
        "export_memories" => exchange::export(request, rows).await,
        "import_memories" => exchange::import(request, rows).await,
        "exchanged" => exchange::exchanged(request, rows).await,
        "exchanges" => exchange::exchanges(request, rows).await,
        "inject" => injection::inject(request, rows).await,
        "told" => injection::told(request, rows).await,
        "forget_session" => injection::forget_session(request, rows).await,
        "metrics" => injection::metrics(request, rows).await,
        other => Err(wrong(format!("There is no operation {other:?} on a project's memory."))),
    }
}

/// All projects with how much is remembered of each.
async fn projects(rows: &mut dyn Rows) -> Result<Value, WriteError> {
    let mut listed = Vec::new();
    for project in sql::all(rows).await? {
        let memories = experiences::count(rows, &super::projects::scope(project.id)).await?;
        listed.push(json!({"id": project.id, "name": project.name, "root_commit": project.root_commit,
            "origin": project.origin, "created_at": project.created_at, "memories": memories}));
    }
    Ok(json!(listed))
}
