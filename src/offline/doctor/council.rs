//! What a council tells a knowledge graph that is not on this machine.

use base::is_loopback;
use config::ButlerConfig;

use super::Finding;

/// A finding for each butler whose council has a graph elsewhere: by the owner's own setting, and worth knowing.
pub(super) fn findings(butlers: &[ButlerConfig]) -> Vec<Finding> {
    let elsewhere = butlers.iter().filter_map(|butler| {
        let url = butler.modules.get("council")?["graphiti"]["url"].as_str()?;
        (!is_loopback(url)).then(|| leaves(butler.name.as_str(), url))
    });
    elsewhere.collect()
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
    use super::*;
    use crate::doctor::Level;

    #[test]
    fn what_leaves_is_named_with_where_it_goes() {
        let finding = leaves("council", "https://graph.example.org/mcp");
        assert_eq!(finding.level, Level::Warning);
        assert!(finding.text.contains("https://graph.example.org/mcp"), "{finding:?}");
    }
}
