//! The tables themselves, and the annotated default file made of them.

use super::super::butler::BUTLER;
use super::super::check::{Checker, joined};
use super::super::daemon::CONFIG;
use super::super::node::{Entry, Node, Value};
use super::super::schema::{Key, Kind, Table};
use super::*;

/// Every key with its path, tables included.
fn keys(table: &'static Table, path: &str, visit: &mut dyn FnMut(&str, &'static Key)) {
    for key in &table.keys {
        let full = joined(path, &key.name);
        visit(&full, key);
        keys(tables_in(&key.kind), &full, visit);
    }
}

/// The table that a key holds, once or many times.
fn tables_in(kind: &'static Kind) -> &'static Table {
    static NONE: Table = Table { keys: Vec::new() };
    match kind {
        Kind::Table(inner) => inner,
        Kind::List(inner) | Kind::Map(_, inner) => tables_in(inner),
        _ => &NONE,
    }
}

#[test]
fn every_key_has_documentation_and_values_that_stand_its_own_check() {
    for root in [&*CONFIG, &*BUTLER] {
        keys(root, "", &mut |full, key| {
            assert!(key.doc.trim().ends_with('.'), "{full} has no documentation");
            for value in key.default.iter().chain(&key.example) {
                let mut checker = Checker::new(Path::new("defaults"), root);
                checker.key(key, false, &Node::from(value), full);
                assert!(checker.mistakes.is_empty(), "{full}: {:?}", checker.mistakes);
            }
        });
    }
}

#[test]
fn the_annotated_default_file_is_the_one_in_the_repository() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/butlerd.toml");
    let made = annotated_default();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&file, &made).unwrap();
    }
    let there = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(there == made, "config/butlerd.toml is not what the tables say: run this test with BLESS=1");
}

#[test]
fn the_annotated_default_file_changes_nothing() {
    let scratch = Scratch::new();
    let without = format!("{:?}", scratch.config());
    scratch.settings(&annotated_default());
    assert_eq!(format!("{:?}", scratch.config()), without);
    // Nor do the defaults in it, once they are no comments; the examples are valid.
    let plain = |line: &str| {
        line.strip_prefix('#').filter(|l| l.starts_with(|c: char| c.is_ascii_lowercase())).map(str::to_owned)
    };
    let active: Vec<String> = annotated_default().lines().map(|l| plain(l).unwrap_or_else(|| l.to_owned())).collect();
    scratch.settings(&active.join("\n"));
    let config = scratch.config();
    assert_eq!(config.owner.notice_channel.as_deref(), Some("telegram"));
    assert_eq!(config.daemon.data_dir, path("/srv/butlerd"));
    assert_eq!(config.spawner.limits.memory.to_string(), "4 GiB");
    for line in annotated_default().lines() {
        assert!(line.chars().count() <= 120, "{line}");
    }
}

#[test]
fn the_defaults_are_those_that_were_agreed() {
    let scratch = Scratch::new();
    let config = scratch.config();
    assert_eq!(config.daemon.roster, scratch.path().join("roster"));
    assert_eq!((config.daemon.ports, config.daemon.shutdown_timeout.0.as_secs()), (Ports::Roster, 30));
    assert!(config.owner.name.is_none() && config.owner.identities.is_empty() && config.owner.quiet_hours.is_none());
    assert!(config.database.url.is_none() && config.database.pg_bin.is_none());
    assert_eq!((config.database.max_connections, config.database.pool_size), (100, 8));
    assert_eq!(config.admin.listen.to_string(), "127.0.0.1:40200");
    assert_eq!(config.admin.max_body.to_string(), "4 MiB");
    let spawner = &config.spawner;
    assert_eq!(
        (spawner.max_sessions, spawner.kill_grace.0.as_secs(), spawner.final_event_grace.0.as_secs()),
        (6, 5, 5)
    );
    let budgets = &spawner.budgets;
    assert!(budgets.session_usd.is_none() && budgets.session_tokens.is_none());
    assert!(budgets.butler_day_usd.is_none() && budgets.butler_day_tokens.is_none());
    assert!(budgets.tenant_day_usd.is_none() && budgets.tenant_day_tokens.is_none());
    let limits = &spawner.limits;
    assert_eq!((limits.file_size.to_string(), limits.open_files, limits.processes), ("64 MiB".to_owned(), 256, 64));
    assert_eq!((limits.memory.to_string(), limits.core.0), ("4 GiB".to_owned(), 0));
    assert!(spawner.child_user.is_none() && spawner.clis.claude.is_none() && !spawner.keep_workspace_on_failure);
    assert_eq!((config.telemetry.log.as_str(), config.telemetry.format), ("info", LogFormat::Auto));
}

#[test]
fn seconds_are_accepted_for_every_duration() {
    for root in [&*CONFIG, &*BUTLER] {
        keys(root, "", &mut |full, key| {
            let inner = tables_in(&key.kind);
            for duration in inner.keys.iter().filter(|k| matches!(k.kind, Kind::Duration(..))) {
                let name = format!("{}_s", duration.name);
                let (found, seconds) = inner.find(&name).unwrap();
                assert!(seconds && found.name == duration.name, "{full}.{name}");
                let mut checker = Checker::new(Path::new("x"), root);
                let value = checker.key(found, seconds, &Node::bare(Value::Int(45)), full);
                assert_eq!(value, Some(Json::from("45s")), "{full}.{name}");
            }
        });
    }
}

#[test]
fn defaults_fill_what_is_absent_and_keep_what_is_given() {
    let entry = |key: &str, value| Entry { key: key.to_owned(), node: Node::bare(value) };
    let section = Value::Table(vec![entry("max_turns", Value::Int(3))]);
    let node = Node::bare(Value::Table(vec![entry("butler", Value::Table(vec![entry("runtime", section)]))]));
    let mut checker = Checker::new(Path::new("x"), &BUTLER);
    let mut map = checker.file(&node);
    BUTLER.fill(&mut map);
    let butler = &map["butler"];
    assert_eq!((&butler["runtime"]["max_turns"], &butler["runtime"]["max_queued"]), (&Json::from(3), &Json::from(20)));
    assert_eq!(butler["shutdown"]["timeout"], "30s");
    assert!(butler.get("switchboard").is_none() && map.get("buffer").is_none(), "optional tables stay absent");
}
