//! Every metric is on the page, and what dashboard and alerts ask for is there.

use std::collections::BTreeSet;

use serde_json::Value;

use super::pages::root;
use crate::support::{Daemon, eventually};

const PAGE: &str = "docs/metrics.md";

fn read(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap_or_else(|e| panic!("{file}: {e}"))
}

/// All names of metrics in a text. A histogram's parts are the histogram.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let parts = ["_bucket", "_sum", "_count"];
    let whole = |name: &str| parts.iter().find_map(|part| name.strip_suffix(part)).unwrap_or(name).to_owned();
    words.filter(|word| word.starts_with("butlerd_")).map(whole).collect()
}

/// Every metric that the daemon has.
fn all() -> BTreeSet<String> {
    let metrics = telemetry::Metrics::default();
    metrics.tell_of(&telemetry::QueueMetrics::default());
    metrics.names().into_iter().map(|metric| metric.name).collect()
}

#[test]
fn page_dashboard_and_alerts_name_the_metrics_that_there_are() {
    let all = all();
    assert!(all.len() > 35, "{all:?}");
    assert_eq!(names(&read(PAGE)), all, "{PAGE} lists all metrics and no others");
    for file in ["docs/grafana.json", "docs/alerts.yml"] {
        let asked = names(&read(file));
        let unknown: Vec<&String> = asked.difference(&all).collect();
        assert!(unknown.is_empty() && asked.len() > 10, "{file} asks for {unknown:?}");
    }
    let dashboard: Value = serde_json::from_str(&read("docs/grafana.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let ids: BTreeSet<u64> = panels.iter().filter_map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len(), "each panel has an id of its own");
}

#[test]
fn each_alert_asks_for_metrics_that_there_are_and_says_what_to_do() {
    let alerts: Value = serde_saphyr::from_str(&read("docs/alerts.yml")).expect("YAML");
    let rules: Vec<&Value> = alerts["groups"]
        .as_array()
        .expect("groups")
        .iter()
        .flat_map(|g| g["rules"].as_array().expect("rules"))
        .collect();
    assert!(rules.len() > 10, "{alerts}");
    let (all, mut wrong) = (all(), Vec::new());
    for rule in rules {
        let text = |pointer: &str| rule.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let asked = names(text("/expr"));
        // Prometheus itself says whether somebody answers.
        if !asked.is_subset(&all) || asked.is_empty() && !text("/expr").starts_with("up{") {
            wrong.push(format!("{rule}: asks for {asked:?}"));
        }
        let said = ["/alert", "/annotations/summary", "/annotations/what_to_do"];
        wrong.extend(said.iter().filter(|key| text(key).is_empty()).map(|key| format!("{rule}: has no {key}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What a household in which something has happened tells: names that are known, and values that are true.
pub async fn of_a_running_household(daemon: &Daemon) {
    // What waits is counted now and then.
    eventually("a look at what waits", || async {
        let (_, text) = daemon.get("/metrics").await;
        if text.contains("\nbutlerd_approvals_waiting{} 1\n") { Ok(()) } else { Err(text) }
    })
    .await;
    let (code, text) = daemon.get("/metrics").await;
    assert_eq!(code, 200, "{text}");
    let told = names(&text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n"));
    let unknown: Vec<String> = told.difference(&all()).cloned().collect();
    assert!(unknown.is_empty(), "/metrics tells what no list has: {unknown:?}");
    let value = |sample: &str| -> f64 {
        let line = text.lines().find(|line| line.strip_prefix(sample).is_some_and(|rest| rest.starts_with(' ')));
        let value = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
        value.unwrap_or_else(|| panic!("no {sample} in:\n{text}"))
    };
    assert_eq!(value("butlerd_messages_accepted_total{sender=\"owner\"}"), 2.0);
    assert_eq!(value("butlerd_messages_ended_total{outcome=\"done\"}"), 1.0);
    assert_eq!(value("butlerd_messages_ended_total{outcome=\"dead\"}"), 1.0);
    assert_eq!(value("butlerd_approvals_waiting{}"), 1.0);
    assert!(value("butlerd_sessions_total{butler=\"health\",outcome=\"failed\"}") >= 1.0);
    assert!(value("butlerd_deliveries_ended_total{channel=\"chat\",outcome=\"sent\"}") >= 1.0);
    assert!(value("butlerd_sessions_total{butler=\"health\",outcome=\"succeeded\"}") >= 2.0);
    assert!(value("butlerd_tokens_total{butler=\"health\",kind=\"input\"}") > 0.0);
    assert!(value("butlerd_cost_usd_total{butler=\"health\"}") > 0.0);
    assert!(value("butlerd_schedule_runs_total{butler=\"health\",outcome=\"done\"}") >= 1.0);
    assert!(value("butlerd_memory_calls_total{butler=\"general\",tool=\"memory_store_fact\",outcome=\"ok\"}") >= 1.0);
    assert!(value("butlerd_pool_connections{pool=\"health\",state=\"idle\"}") >= 0.0);
    assert!(value("butlerd_pool_limit{pool=\"health\"}") >= 1.0);
    assert!(value("butlerd_process_resident_memory_bytes") > 1e6 && value("butlerd_children_cpu_seconds_total") > 0.0);
    // The queue of messages was looked at, and nothing waits in it.
    assert_eq!(value("butlerd_queue_waiting{butler=\"switchboard\",queue=\"message\"}"), 0.0);
}
