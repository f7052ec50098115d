//! The roster's own module of a butler: `[modules.<butler>]` loads `roster/<butler>/tools/*.sql` and `*.http`.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use serde_json::Value;

use super::contract::{Credential, Factory, Manifest, Module, ModuleContext, ModuleError};
use base::ButlerName;
use tools::{Tool, ToolFileError};
use tools::{http, sql};

pub(super) struct RosterFactory;

impl Factory for RosterFactory {
    fn name(&self) -> &str {
        "roster"
    }
    fn build(&self, _: &Value, _: &ButlerName, dir: &Path) -> Result<Box<dyn Module>, ModuleError> {
        Ok(Box::new(RosterModule { tools: dir.join("tools") }))
    }
}

struct RosterModule {
    tools: PathBuf,
}

fn sentence(list: Vec<ToolFileError>) -> ModuleError {
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ").into()
}

#[async_trait]
impl Module for RosterModule {
    /// The files declare the tools, so the manifest is their names.
    fn manifest(&self) -> Result<Manifest, ModuleError> {
        let mut tools = Vec::new();
        if let Ok(entries) = std::fs::read_dir(&self.tools) {
            for path in entries.filter_map(|e| e.ok().map(|e| e.path())) {
                if path.extension().is_some_and(|e| e == "sql" || e == "http") {
                    tools.extend(path.file_stem().and_then(|s| s.to_str()).map(str::to_owned));
                }
            }
        }
        Ok(Manifest { tools, ..Manifest::default() })
    }

    /// A tool whose secret is missing says so itself; the others work.
    fn credentials(&self) -> Vec<Credential> {
        let tools = http::load_dir(&self.tools).unwrap_or_default();
        let name = |name: &String| Credential { name: name.clone(), token_env: None, required: false };
        tools.iter().flat_map(|tool| tool.secrets()).map(name).collect()
    }

    async fn tools(&self, cx: &ModuleContext) -> Result<Vec<Tool>, ModuleError> {
        let loaded = sql::load_dir(&self.tools, sql::Use::Tool).map_err(sentence)?;
        let asking = http::load_dir(&self.tools).map_err(sentence)?;
        let mut lease = cx.store.tenant(&base::TenantId::owner()).await.map_err(ModuleError::new)?;
        let mut tools = sql::prepare(&mut lease, loaded).await.map_err(sentence)?;
        tools.extend(asking.into_iter().map(|tool| tool.into_tool(&cx.credentials)));
        Ok(tools)
    }
}
