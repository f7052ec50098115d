//! Modules that fail on demand, for tests: `[modules.probe]` and, depending on it, `[modules.probe_child]`.
//!
//! Only builds with debug assertions have them.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::contract::{Credential, Factory, Manifest, Module, ModuleContext, Phase};
use base::ButlerName;
use store::migrate::{Chain, Migration};
use tools::{Definition, Effect, Meta, Tool, handler};

/// The test modules.
pub(super) fn factories() -> Vec<Box<dyn Factory>> {
    vec![
        Box::new(ProbeFactory { name: "probe", needs: &[] }),
        Box::new(ProbeFactory { name: "probe_child", needs: &["probe"] }),
    ]
}

struct ProbeFactory {
    name: &'static str,
    needs: &'static [&'static str],
}

fn text<'a>(config: &'a Value, key: &str) -> Option<&'a str> {
    config.get(key).and_then(Value::as_str)
}

impl Factory for ProbeFactory {
    fn name(&self) -> &str {
        self.name
    }
    fn dependencies(&self) -> &[&str] {
        self.needs
    }
    fn check(&self, config: &Value) -> Vec<String> {
        let mut wrong = Vec::new();
        if text(config, "fail_in") == Some("config") {
            wrong.push("fail_in: asked to fail in phase config".to_owned());
        }
        for key in config.as_object().into_iter().flat_map(|o| o.keys()) {
            if !["fail_in", "tool", "undeclared", "stop_marker", "once"].contains(&key.as_str()) {
                wrong.push(format!("{key}: unknown key"));
            }
        }
        wrong
    }
    fn build(&self, config: &Value, _: &ButlerName, _: &Path) -> Result<Box<dyn Module>, String> {
        let fail_in = text(config, "fail_in").map(|p| match p {
            "credentials" => Phase::Credentials,
            "migration" => Phase::Migration,
            "startup" => Phase::Startup,
            "tools" => Phase::Tools,
            _ => Phase::Config,
        });
        Ok(Box::new(Probe {
            name: self.name,
            fail_in,
            tool: text(config, "tool").map_or_else(|| format!("{}_echo", self.name), str::to_owned),
            undeclared: text(config, "undeclared").map(str::to_owned),
            stop_marker: text(config, "stop_marker").map(str::to_owned),
            effect: if config["once"] == true { Effect::Once } else { Effect::None },
        }))
    }
}

struct Probe {
    name: &'static str,
    fail_in: Option<Phase>,
    tool: String,
    undeclared: Option<String>,
    stop_marker: Option<String>,
    /// What its tool is said to do.
    effect: Effect,
}

fn define(name: &str, effect: Effect) -> Tool {
    let schema = json!({"type": "object", "properties": {"text": {"type": "string"}, "ms": {"type": "integer"},
                        "hang": {"type": "boolean"}}});
    let meta = Meta { reads_private: false, effect: Some(effect), sensitive: vec!["secret".into()], ..Meta::default() };
    let def = Definition::new(name, "Echo a text after some milliseconds.", schema, meta).expect("a right schema");
    Tool::new(
        &Arc::new(def),
        handler(|call| async move {
            if call.args.get("hang") == Some(&Value::Bool(true)) {
                std::future::pending::<()>().await;
            }
            // Waits in the database, as a long query of a real tool would.
            let seconds = call.args.get("ms").and_then(Value::as_f64).unwrap_or(0.0) / 1000.0;
            call.query("SELECT pg_sleep($1)", &[&seconds]).await?;
            Ok(json!({"echo": call.args.get("text")}))
        }),
    )
}

#[async_trait]
impl Module for Probe {
    fn manifest(&self) -> Result<Manifest, String> {
        Ok(Manifest { tools: vec![self.tool.clone()] })
    }
    fn credentials(&self) -> Vec<Credential> {
        let required = self.fail_in == Some(Phase::Credentials);
        vec![Credential { name: "PROBE_CREDENTIAL".to_owned(), required }]
    }
    fn migrations(&self) -> Result<Option<Chain>, String> {
        let sql = match self.fail_in {
            Some(Phase::Migration) => "SELECT no_such_column FROM state",
            _ => {
                "CREATE TABLE IF NOT EXISTS probe_rows (id int); SELECT shared.tenant_table('probe_rows')
                  WHERE NOT EXISTS (SELECT 1 FROM pg_attribute WHERE attrelid = 'probe_rows'::regclass
                                    AND attname = 'tenant_id')"
            }
        };
        let migration = Migration {
            version: 1,
            name: "probe".into(),
            sql: sql.into(),
            file: format!("{}/001_probe.sql", self.name),
            shipped: false,
        };
        Ok(Some(Chain { name: self.name.to_owned(), migrations: vec![migration] }))
    }
    async fn start(&self, _: &ModuleContext) -> Result<(), String> {
        if self.fail_in == Some(Phase::Startup) { Err("asked to fail in phase startup".to_owned()) } else { Ok(()) }
    }
    async fn tools(&self, _: &ModuleContext) -> Result<Vec<Tool>, String> {
        if self.fail_in == Some(Phase::Tools) {
            return Err("asked to fail in phase tools".to_owned());
        }
        Ok(std::iter::once(&self.tool).chain(&self.undeclared).map(|n| define(n, self.effect)).collect())
    }
    async fn stop(&self) {
        if let Some(path) = &self.stop_marker {
            use std::io::Write;
            let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
            // A test reads the marker; that it is missing is then the finding.
            let _ = file.and_then(|mut f| writeln!(f, "{}", self.name));
        }
    }
}
