//! Tools about the butler itself: `status`, `trigger`, `tick`, `module.states`, `module.set_enabled`.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use super::handle::Core;
use super::routed::council_tool;
use modules::{Health, State, switch_key};
use schedule::Scheduler;
use sessions::{SessionState, Trigger, show_end};
use tools::sql::state;
use tools::{Definition, Effect, Meta, Tool, ToolCall, ToolError, handler};

/// The tools about `core`'s butler, and the one by which it asks the household's council.
pub(super) fn self_tools(core: &Arc<Core>, schedules: &Scheduler) -> Vec<Tool> {
    static DEFS: LazyLock<Vec<Arc<Definition>>> = LazyLock::new(definitions);
    macro_rules! on_core {
        ($f:ident) => {{
            let core = core.clone();
            handler(move |call| $f(call, core.clone()))
        }};
    }
    let schedules = schedules.clone();
    let handlers = [
        on_core!(status),
        on_core!(trigger),
        handler(move |call| run_tick(call, schedules.clone())),
        on_core!(module_states),
        on_core!(module_set_enabled),
    ];
    let of_itself = DEFS.iter().zip(handlers).map(|(d, h)| Tool::new(d, h));
    let services = &core.services;
    of_itself.chain(council_tool(&services.inbox, &services.roster_dir, core.config.name.as_str())).collect()
}

fn definitions() -> Vec<Arc<Definition>> {
    let define = Definition::built_in;
    let plain = Meta { reads_private: false, ..Meta::read() };
    vec![
        define(
            "status",
            "Who this butler is, whether it is well, and the state of its modules.",
            json!({}),
            json!([]),
            plain.clone(),
        ),
        define(
            "trigger",
            "Start a new session of this butler with a prompt and wait for its end.",
            json!({"prompt": {"type": "string", "minLength": 1, "description": "What to do"},
                   "context": {"type": "string", "description": "Facts for the new session; given to it as data"}}),
            json!(["prompt"]),
            // What the new session was shown may stand in its last words.
            Meta { reads_private: true, reads_untrusted: true, ..Meta::write(Effect::Once) }.labelled(),
        ),
        define("tick", "Let every schedule that is due begin now.", json!({}), json!([]), Meta::write(Effect::Once)),
        define("module.states", "Health and switch of each module.", json!({}), json!([]), plain),
        define(
            "module.set_enabled",
            "Turn a module's tools on or off. The choice outlives restarts.",
            json!({"name": {"type": "string", "description": "Name of the module"}, "enabled": {"type": "boolean"}}),
            json!(["name", "enabled"]),
            // A stranger's words could ask for it.
            Meta { operators: true, ..Meta::write(Effect::Idempotent) },
        ),
    ]
}

async fn status(call: ToolCall, core: Arc<Core>) -> Result<Value, ToolError> {
    let modules = core.modules.all();
    let well = modules.values().all(|m| m.health == Health::Active);
    let shown: serde_json::Map<String, Value> = modules
        .into_iter()
        .map(|(name, m)| {
            let mut entry = json!({"status": m.health, "enabled": m.enabled});
            if let (false, Value::Object(o)) = (m.tasks.is_empty(), &mut entry) {
                o.insert("tasks".into(), json!(m.tasks));
            }
            if let (Some(note), Value::Object(o)) = (told(&call, &m), &mut entry) {
                o.insert("note".into(), json!(note));
            }
            if let (Some(phase), Value::Object(o)) = (m.failure_phase, &mut entry) {
                o.insert("phase".into(), json!(phase));
                o.insert("error".into(), json!(m.failure_error));
            }
            (name, entry)
        })
        .collect();
    let model = core.spawner.model_state().await;
    Ok(json!({
        "name": core.config.name.as_str(), "description": core.config.description, "port": core.port, "modules": shown,
        "health": if well { "ok" } else { "degraded" }, "uptime_seconds": core.up_since.elapsed().as_secs(),
        "model": model,
    }))
}

/// A trigger's answer, as callers of the seed system know it.
async fn trigger(call: ToolCall, core: Arc<Core>) -> Result<Value, ToolError> {
    let own_session = call.session();
    let request = match own_session {
        Some(session) => Arc::new(call.context().caused_by(session, call.store.clock())),
        None => call.caller.context.clone(),
    };
    let prompt = call.text("prompt").unwrap_or_default();
    let trigger = Trigger { context: call.args.get("context").cloned(), ..Trigger::new(prompt, "trigger", request) };
    match core.spawner.trigger_from(trigger, own_session).await {
        Ok(end) => {
            show_end(&call, end.session_id).await?;
            Ok(json!({
                "output": end.output, "success": end.state == SessionState::Succeeded, "error": end.error,
                "error_class": end.error_class, "duration_ms": end.duration_ms, "session_id": end.session_id,
            }))
        }
        Err(e) => Err(ToolError::refused(e.code(), e.to_string())),
    }
}

/// The loop does this by itself at the time; here somebody does not want to wait for it.
async fn run_tick(_: ToolCall, schedules: Scheduler) -> Result<Value, ToolError> {
    Ok(json!({"dispatched": schedules.tick().await?}))
}

/// What a module says of itself: for people, because it may quote a stranger.
fn told(call: &ToolCall, module: &State) -> Option<String> {
    module.note.clone().filter(|_| call.session().is_none())
}

async fn module_states(call: ToolCall, core: Arc<Core>) -> Result<Value, ToolError> {
    let shown = core.modules.all().into_iter().map(|(name, m)| {
        (
            name,
            json!({"health": m.health, "enabled": m.enabled, "failure_phase": m.failure_phase,
                      "failure_error": m.failure_error, "note": told(&call, &m), "tasks": m.tasks}),
        )
    });
    Ok(Value::Object(shown.collect()))
}

async fn module_set_enabled(call: ToolCall, core: Arc<Core>) -> Result<Value, ToolError> {
    if call.context().tenant_id != base::TenantId::owner() {
        return Err(ToolError::refused("forbidden", "Only the household's owner turns modules on and off."));
    }
    let name = call.text("name").unwrap_or_default();
    let on = call.args.get("enabled").and_then(Value::as_bool).unwrap_or(true);
    let states = core.modules.all();
    match states.get(name) {
        None => {
            let known: Vec<&str> = states.keys().map(String::as_str).collect();
            let message = format!("There is no module `{name}` here; there are: {}.", known.join(", "));
            return Err(ToolError::refused("not_found", message));
        }
        Some(m) if !matches!(m.health, Health::Active | Health::Degraded) => {
            let why = m.failure_error.clone().unwrap_or_default();
            return Err(ToolError::refused("module_failed", format!("The module `{name}` has failed: {why}")));
        }
        Some(_) => {}
    }
    state::set(&call, &switch_key(name), &json!(on)).await?;
    core.modules.switch(name, on);
    Ok(json!({"status": "ok", "name": name, "enabled": on}))
}
