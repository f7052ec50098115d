//! What a council tells a knowledge graph that is not on this machine.

use base::is_loopback;
use config::ButlerConfig;
use serde_json::Value;

use super::Finding;

/// A finding for each butler whose council has a graph elsewhere: by the owner's own setting, and worth knowing.
pub(super) fn findings(butlers: &[ButlerConfig]) -> Vec<Finding> {
    let of = |butler: &ButlerConfig| Some(leaves(butler.name.as_str(), elsewhere(butler.modules.get("council")?)?));
    butlers.iter().filter_map(of).collect()
}

/// The graph's address, where it is not on this machine.
fn elsewhere(council: &Value) -> Option<&str> {
    council["graphiti"]["url"].as_str().filter(|url| !is_loopback(url))
}

fn leaves(butler: &str, url: &str) -> Finding {
    Finding::warning(
        "knowledge graph",
        format!("All that {butler} is asked and answers leaves this machine for {url}."),
    )
    .so("That is [modules.council.graphiti] allow_remote; a server on this machine needs none of it.")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::doctor::Level;

    #[test]
    fn only_what_leaves_is_told_and_with_where_it_goes() {
        let at = |url: &str| json!({"graphiti": {"url": url}});
        assert_eq!(elsewhere(&at("http://127.0.0.1:8000/mcp")), None);
        assert_eq!(elsewhere(&json!({})), None);
        let council = at("https://graph.example.org/mcp");
        let finding = leaves("council", elsewhere(&council).unwrap());
        assert_eq!(finding.level, Level::Warning);
        assert!(finding.text.contains("https://graph.example.org/mcp"), "{finding:?}");
    }
}
