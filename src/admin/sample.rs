//! A household as `status` could show it, for tests of this room and of the command line.

use std::collections::BTreeMap;

use butler::{ButlerState, ButlerStatus, DatabaseStatus, HouseholdStatus};
use modules::{Health, Phase, State};

/// A reason that must not be shown to strangers.
pub const REASON: &str = "roster/health/tools/latest.sql:9: column \"kindd\" does not exist";

/// One butler up with a failed module and no model, one parked, one well.
pub fn household() -> HouseholdStatus {
    let at = "2026-01-01T10:00:00Z".parse().expect("a right moment");
    let butler = |name: &str, port| ButlerStatus {
        name: name.to_owned(),
        description: String::new(),
        state: ButlerState::Up,
        since: at,
        port,
        failed_phase: None,
        error: None,
        note: None,
        removed: false,
        restarts: 0,
        model: Some(model(true, None)),
        modules: BTreeMap::new(),
        sessions_running: 0,
        sessions_queued: 0,
        interrupted_sessions: 0,
        boot_phases: Vec::new(),
    };
    let failed = State {
        health: Health::Failed,
        enabled: true,
        failure_phase: Some(Phase::Tools),
        failure_error: Some(REASON.to_owned()),
        note: None,
        tasks: BTreeMap::new(),
    };
    let health = ButlerStatus {
        model: Some(model(false, Some("health has no model: run `butlerd secret set ANTHROPIC_API_KEY`"))),
        modules: BTreeMap::from([("health".to_owned(), failed)]),
        sessions_running: 1,
        sessions_queued: 2,
        ..butler("health", Some(40103))
    };
    let travel = ButlerStatus {
        state: ButlerState::Parked,
        failed_phase: Some("port".to_owned()),
        error: Some("can't listen on 127.0.0.1:40106: address in use".to_owned()),
        model: None,
        ..butler("travel", None)
    };
    HouseholdStatus {
        version: "0.1.0".to_owned(),
        pid: 4711,
        started_at: at,
        uptime_seconds: 7384.5,
        ready: true,
        troubles: Vec::new(),
        admin: "127.0.0.1:40200".to_owned(),
        log_lines_lost: 0,
        backup: None,
        without_channel: Default::default(),
        database: DatabaseStatus {
            kind: "embedded".to_owned(),
            server: "PostgreSQL 15.18, found on this system (/usr/lib/postgresql/15/bin)".to_owned(),
            up: true,
            error: None,
            connections: 7,
        },
        butlers: vec![butler("switchboard", Some(40100)), health, travel],
    }
}

fn model(ready: bool, reason: Option<&str>) -> sessions::ModelState {
    sessions::ModelState {
        runtime: "native".to_owned(),
        model: Some("a-model".to_owned()),
        ready,
        reason: reason.map(ToOwned::to_owned),
    }
}

/// A session that has succeeded.
pub fn session() -> super::SessionRow {
    serde_json::from_value(serde_json::json!({
        "butler": "health", "id": uuid::Uuid::nil(), "request_id": uuid::Uuid::nil(), "trace_id": "0af7",
        "prompt": "hi", "trigger_source": "trigger", "state": "succeeded", "runtime": "native", "trust": "owner", "audience": [],
        "tool_call_count": 2, "queued_at": "2026-01-01T10:00:00Z",
    }))
    .expect("a session's row")
}
