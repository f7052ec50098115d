//! What two modules answer at their own sockets, for whoever may not open those: the journal, and projects' memories.
//!
//! The daemon asks itself, as the user that it runs as. What is answered there is the owner's, so that no tenant's token
//! sees it.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use jsonrpsee::Extensions;
use jsonrpsee::proc_macros::rpc;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use super::failure::Failure;
use super::rights::Need;
use super::rpc::{Rpc, typed};
use super::visitor::may;
use base::TenantId;
use base::local::{ConnectionError, LocalConnection};
use butler::Butler;
use journal::wire::{Accepted, Checked, Checkpoint, Edit, EditId, FileText, Op, Status};

/// What looking takes at the very most.
const PATIENCE: Duration = Duration::from_secs(10);
/// Checkpoints at once.
const MOST: u32 = 200;
/// Memories of a project that are shown.
const NEWEST: u32 = 50;

/// The journal and projects' memories.
#[rpc(server, client, namespace = "butlerd", namespace_separator = ".")]
pub trait LocalAnswersApi {
    /// How a butler's journal is. Scope `read`, the owner's.
    #[method(name = "journal_status", param_kind = map, with_extensions)]
    async fn journal_status(&self, butler: String) -> Result<Status, Failure>;

    /// One file of a journal. Scope `read`, the owner's.
    #[method(name = "journal_file", param_kind = map, with_extensions)]
    async fn journal_file(&self, butler: String, file: String) -> Result<FileText, Failure>;

    /// The newest checkpoints of a journal, at most 200; with `before` those with a lower number. Scope `read`, the owner's.
    #[method(name = "journal_checkpoints", param_kind = map, with_extensions)]
    async fn journal_checkpoints(
        &self,
        butler: String,
        before: Option<i64>,
        most: u32,
    ) -> Result<Vec<Checkpoint>, Failure>;

    /// Files of a journal that somebody edited, each with what changed. Scope `read`, the owner's.
    #[method(name = "journal_edits", param_kind = map, with_extensions)]
    async fn journal_edits(&self, butler: String) -> Result<Vec<Edit>, Failure>;

    /// Takes such edits in, as far as the files still have these hashes. `looked`: a person was shown them and said yes.
    /// Scope `admin`, the owner's.
    #[method(name = "journal_accept", param_kind = map, with_extensions)]
    async fn journal_accept(&self, butler: String, edits: Vec<EditId>, looked: bool) -> Result<Accepted, Failure>;

    /// Looks whether a journal is whole, and puts right what it can. Scope `admin`, the owner's.
    #[method(name = "journal_check", param_kind = map, with_extensions)]
    async fn journal_check(&self, butler: String) -> Result<Checked, Failure>;

    /// All projects that are remembered, with how much. Scope `read`, the owner's.
    #[method(name = "project_list", param_kind = map, with_extensions)]
    async fn project_list(&self, butler: String) -> Result<Vec<ProjectRow>, Failure>;

    /// One project: what is remembered by kind, what was done of late, its newest memories. Scope `read`, the owner's.
    #[method(name = "project_show", param_kind = map, with_extensions)]
    async fn project_show(&self, butler: String, project: Uuid) -> Result<ProjectPage, Failure>;
}

/// A project, as `project_list` answers it.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ProjectRow {
    pub id: Uuid,
    pub name: String,
    pub root_commit: Option<String>,
    pub origin: Option<String>,
    pub created_at: Value,
    pub memories: i64,
}

/// What `project_show` answers: what the module says under these names.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ProjectPage {
    pub project: ProjectRow,
    pub stats: Value,
    pub report: Value,
    pub health: Value,
    pub memories: Value,
    /// How the exchange over the repository stands, machine by machine.
    #[serde(default)]
    pub exchanges: Vec<ProjectExchange>,
}

/// How one machine's exchange of a project's memories over the repository stands.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ProjectExchange {
    /// `<user>/<machine>`.
    pub identity: String,
    pub pushed_at: Option<Timestamp>,
    pub pulled_at: Option<Timestamp>,
    /// Why the last try came to nothing, or only to a part.
    pub error: Option<String>,
    /// When it last said so.
    pub noted_at: Timestamp,
}

impl Rpc {
    /// The butler, for somebody who may do this with what is the owner's.
    async fn owners(&self, ext: &Extensions, need: Need, butler: &str) -> Result<Butler, Failure> {
        let grant = may(ext, need)?;
        if grant.tenant != TenantId::owner() {
            return Err(Failure::forbidden("This is the owner's, and the token is another tenant's."));
        }
        self.butler(&grant, butler).await
    }

    /// Where a module of a butler answers: where its settings say, else in the usual place.
    /// A butler without the module has none: the usual place may be another butler's.
    fn socket(&self, butler: &Butler, module: &str, usual: &str) -> Result<PathBuf, Failure> {
        let settings = butler.module_settings(module).filter(|settings| settings["enabled"] != json!(false));
        let none = || Failure::new("not_found", format!("{} has no module {module}.", butler.name()));
        let named = settings.ok_or_else(none)?["socket"].as_str();
        Ok(named.map_or_else(
            || match std::env::var_os("RUNTIME_DIRECTORY").filter(|dir| !dir.is_empty()) {
                Some(dir) => PathBuf::from(dir).join(usual),
                None => self.supervisor.services().data_dir.join("run").join(usual),
            },
            PathBuf::from,
        ))
    }

    async fn journal<T>(&self, ext: &Extensions, need: Need, butler: &str, op: Op) -> Result<T, Failure>
    where
        T: DeserializeOwned,
    {
        let butler = self.owners(ext, need, butler).await?;
        let path = self.socket(&butler, "journal", &journal::client::socket_of(butler.name().as_str()))?;
        typed(ask(path, json!(op), "journal").await?)
    }

    async fn project(&self, butler: &Butler, op: &str, project: Value, args: Value) -> Result<Value, Failure> {
        let path = self.socket(butler, "project_memory", "project.sock")?;
        let answer = ask(path, json!({"op": op, "project": project, "args": args}), "memory of projects").await?;
        Ok(answer["result"].clone())
    }

    async fn projects(&self, butler: &Butler) -> Result<Vec<ProjectRow>, Failure> {
        typed(self.project(butler, "projects", json!({"name": project::wire::GLOBAL}), json!({})).await?)
    }
}

/// Sends one line and reads one, as the clients of those sockets do.
async fn ask(path: PathBuf, request: Value, what: &'static str) -> Result<Value, Failure> {
    let away = move |why: String| Failure::new("unavailable", format!("The {what} can't be asked just now: {why}."));
    let asked = tokio::task::spawn_blocking(move || -> Result<Vec<u8>, ConnectionError> {
        LocalConnection::open_first(vec![path], PATIENCE)?.exchange(request.to_string().into_bytes())
    });
    let answer = asked.await.map_err(|e| Failure::internal("Asking a module", &e))?;
    let answer = answer.map_err(|e| away(e.to_string().trim_end_matches('.').to_owned()))?;
    let mut answer: Value =
        serde_json::from_slice(&answer).map_err(|e| Failure::internal("Reading a module's answer", &e))?;
    match answer["refused"].take() {
        Value::Null => Ok(answer["done"].take()),
        refused => Err(Failure::new(
            refused["code"].as_str().unwrap_or("refused"),
            refused["message"].as_str().unwrap_or("It was refused."),
        )),
    }
}

#[async_trait]
impl LocalAnswersApiServer for Rpc {
    async fn journal_status(&self, ext: &Extensions, butler: String) -> Result<Status, Failure> {
        self.journal(ext, Need::Look, &butler, Op::Status).await
    }

    async fn journal_file(&self, ext: &Extensions, butler: String, file: String) -> Result<FileText, Failure> {
        self.journal(ext, Need::Look, &butler, Op::Show { file }).await
    }

    async fn journal_checkpoints(
        &self,
        ext: &Extensions,
        butler: String,
        before: Option<i64>,
        most: u32,
    ) -> Result<Vec<Checkpoint>, Failure> {
        self.journal(ext, Need::Look, &butler, Op::Checkpoints { most: most.min(MOST), before }).await
    }

    async fn journal_edits(&self, ext: &Extensions, butler: String) -> Result<Vec<Edit>, Failure> {
        self.journal(ext, Need::Look, &butler, Op::Edits).await
    }

    async fn journal_accept(
        &self,
        ext: &Extensions,
        butler: String,
        edits: Vec<EditId>,
        looked: bool,
    ) -> Result<Accepted, Failure> {
        self.journal(ext, Need::Manage, &butler, Op::Accept { edits, looked, deletions: false }).await
    }

    async fn journal_check(&self, ext: &Extensions, butler: String) -> Result<Checked, Failure> {
        self.journal(ext, Need::Manage, &butler, Op::Check).await
    }

    async fn project_list(&self, ext: &Extensions, butler: String) -> Result<Vec<ProjectRow>, Failure> {
        let butler = self.owners(ext, Need::Look, &butler).await?;
        self.projects(&butler).await
    }

    async fn project_show(&self, ext: &Extensions, butler: String, project: Uuid) -> Result<ProjectPage, Failure> {
        let butler = self.owners(ext, Need::Look, &butler).await?;
        let found = self.projects(&butler).await?.into_iter().find(|row| row.id == project);
        let project = found.ok_or_else(|| Failure::new("not_found", "There is no such project."))?;
        let named = json!({"id": project.id, "name": project.name});
        let asked = |op: &'static str, args: Value| self.project(&butler, op, named.clone(), args);
        Ok(ProjectPage {
            stats: asked("memory_stats", json!({})).await?,
            report: asked("consolidation_report", json!({})).await?,
            health: asked("health", json!({})).await?,
            memories: asked("list_memories", json!({"limit": NEWEST})).await?,
            exchanges: typed(asked("exchanges", json!({})).await?)?,
            project,
        })
    }
}
