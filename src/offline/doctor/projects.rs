//! Whether developers' programs reach the memory of their projects, looked at as the user that runs this.

use std::path::Path;

use super::Finding;
use super::daemon::Daemon;
use config::{ButlerConfig, Config};
use project::connection::{ConnectionError, reachable};

const TOPIC: &str = "project memory";
const MODULE: &str = "project_memory";

pub(super) fn findings(config: &Config, butlers: &[ButlerConfig], daemon: &Daemon) -> Vec<Finding> {
    let is_on = |butler: &&ButlerConfig| butler.modules.get(MODULE).is_some_and(|set| set["enabled"] != false);
    // Without a daemon nobody answers, and that is told already.
    let Some(butler) = butlers.iter().find(is_on).filter(|_| daemon.status().is_some()) else { return Vec::new() };
    let named = butler.modules.get(MODULE).and_then(|set| set["socket"].as_str()).map(Path::new);
    vec![judge(reachable(Some(&config.daemon.data_dir), named), &butler.name.to_string())]
}

fn judge(reached: Result<std::path::PathBuf, ConnectionError>, butler: &str) -> Finding {
    match reached {
        Ok(path) => Finding::ok(TOPIC, format!("this user's programs may ask {butler} at {}", path.display())),
        Err(e @ ConnectionError::Closed { .. }) => Finding::warning(TOPIC, e.to_string()).so(format!(
            "If this user is a developer, name a group of theirs in roster/{butler}/butler.toml: [modules.{MODULE}] group = \"…\"."
        )),
        Err(e) => Finding::problem(TOPIC, e.to_string())
            .so(format!("`butlerd status` says whether {butler} is up and its module {MODULE} runs.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    #[test]
    fn a_closed_socket_is_told_with_what_to_do() {
        let path = std::path::PathBuf::from("/run/butlerd/project.sock");
        assert_eq!(judge(Ok(path.clone()), "workshop").level, Level::Ok);
        let source = std::io::ErrorKind::PermissionDenied.into();
        let closed = judge(Err(ConnectionError::Closed { path: path.clone(), source }), "workshop");
        assert_eq!(closed.level, Level::Warning);
        assert!(closed.text.contains("/run/butlerd/project.sock") && closed.advice.unwrap().contains("group"));
        let away = judge(Err(ConnectionError::Away { tried: vec![path] }), "workshop");
        assert_eq!(away.level, Level::Problem);
    }
}
