//! Two tenants and two butlers write and search at once, and nobody is told what is another's: not by a tool, not out
//! of an index, not by SQL as a butler's role.
//!
//! `MEMORY_OPS` makes it longer: `just soak`.

use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use crate::support::Household;

const BUTLERS: [&str; 2] = ["health", "general"];
const TENANTS: [&str; 2] = ["owner", "neighbour"];

fn operations() -> usize {
    std::env::var("MEMORY_OPS").ok().and_then(|text| text.parse().ok()).unwrap_or(2000)
}

/// A household whose two butlers remember.
fn household() -> Household {
    Household::new()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_tenants_and_two_butlers_at_once_cross_no_row() {
    let household = household();
    let daemon = household.start().await;
    let (code, out, err) = household.cli(&["token", "new", "--tenant", "neighbour", "--scope", "tools", "--json"]);
    assert_eq!(code, 0, "{err}");
    let token: Value = serde_json::from_str(&out).expect("JSON");
    let neighbour = token["token"].as_str().expect("a token").to_owned();
    let whole = operations();
    stream::iter(0..whole)
        .for_each_concurrent(8, |n| {
            let (tenant, butler) = (TENANTS[n % 2], BUTLERS[n / 2 % 2]);
            let mcp = match tenant {
                "owner" => daemon.mcp(butler),
                _ => daemon.mcp(butler).with_token(Some(&neighbour)),
            };
            async move {
                let own = format!("{tenant} of {butler}");
                if n / 4 % 3 == 0 {
                    let given = json!({"subject": format!("shelf {n}"), "predicate": format!("holds_{n}"), "scope": butler,
                        "content": format!("{own} keeps the jar number {n} with plums and cinnamon")});
                    let stored = mcp.ok("memory_store_fact", given).await;
                    assert_eq!(stored["status"], "stored", "{n}: {stored}");
                    // On its return it is found.
                    let found = mcp.ok("memory_search", json!({"query": format!("jar number {n} shelf {n}"), "limit": 50})).await;
                    let mark = format!("number {n} with");
                    let there = found["results"].as_array().expect("results").iter().any(|r| r["content"].as_str().is_some_and(|c| c.contains(&mark)));
                    assert!(there || found["answered_by"] == "full_text", "{n}: {found}");
                    return;
                }
                let mode = ["hybrid", "semantic", "keyword"][n % 3];
                let asked = json!({"query": format!("jar with plums {n}"), "mode": mode, "limit": 50});
                let found = mcp.ok("memory_search", asked).await;
                for result in found["results"].as_array().expect("results") {
                    let content = result["content"].as_str().expect("text");
                    assert!(content.starts_with(&own), "{own} was told: {content}");
                }
                let told = mcp.ok("memory_context", json!({"trigger_prompt": format!("where is the jar with plums {n}")})).await;
                let block = told["context"].as_str().expect("a block");
                for line in block.lines().filter(|line| line.contains("keeps the jar")) {
                    assert!(line.contains(&own), "{own} was told: {line}");
                }
            }
        })
        .await;
    for butler in BUTLERS {
        let role = household.role(butler).await;
        let all = format!(
            "SELECT content FROM {butler}.memory_facts UNION ALL SELECT content FROM shared.memory_catalog WHERE live"
        );
        assert!(role.query(&all, &[]).await.expect("rows").is_empty(), "no tenant, no row");
        for tenant in TENANTS {
            role.batch_execute(&format!("SET butlerd.tenant = '{tenant}'")).await.expect("a setting");
            let rows = role.query(&all, &[]).await.expect("rows");
            assert!(!rows.is_empty(), "{tenant} of {butler} has some");
            for row in rows {
                let content: String = row.get(0);
                assert!(content.starts_with(&format!("{tenant} of {butler}")), "{tenant} at {butler} sees: {content}");
            }
        }
    }
}
