//! `butlerd council init` and `import`: the butler's directory with the settings of a council.

use std::fmt::Write as _;
use std::path::Path;

use config::{RuntimeKind, load_config};
use council::import::import as read;
use offline::setup::{COUNCIL, switch_on};
use serde_json::json;

use crate::problem::{FAILED, Problem};
use crate::{Outcome, Place, reload};

/// The section of the knowledge graph.
const GRAPHITI: &str = "[modules.council.graphiti]\n";

/// Models as they are typed.
pub struct Named {
    pub members: Vec<String>,
    pub chairman: Option<String>,
    pub router: Option<String>,
}

/// Switches the council on with these models.
pub fn init(place: Place, named: &Named, graphiti: Option<String>) -> Outcome {
    let mut toml = String::from("[modules.council]\n");
    let models: Vec<Result<String, Problem>> = named.members.iter().map(|typed| model(typed)).collect();
    for (at, model) in models.into_iter().enumerate() {
        let _ = write!(toml, "\n[[modules.council.members]]\nname = \"member {}\"\n{}", at + 1, model?);
    }
    for (section, typed) in [("chairman", &named.chairman), ("router", &named.router)] {
        if let Some(typed) = typed {
            let _ = write!(toml, "\n[modules.council.{section}]\n{}", model(typed)?);
        }
    }
    take_up(place, &toml, &[], graphiti, false)
}

/// Switches it on with the settings of the file.
pub fn import(place: Place, file: &Path, graphiti: Option<String>, dry_run: bool) -> Outcome {
    let unread = |why: String| Problem::usage(format!("{}: {why}.", file.display()), "Name a council's config.json.");
    let text = std::fs::read_to_string(file).map_err(|e| unread(e.to_string()))?;
    let imported = read(&text).map_err(|e| unread(e.to_string()))?;
    let mut left_out = imported.left_out;
    if graphiti.is_none() && imported.toml.contains(GRAPHITI) {
        let why = "what is told to a knowledge graph has no place without its address: give it with --graphiti";
        left_out.push(("memory.group_id and memory.record_*".to_owned(), why.to_owned()));
    }
    take_up(place, &imported.toml, &left_out, graphiti, dry_run)
}

/// `[RUNTIME:]MODEL[@URL]` as lines of settings.
fn model(typed: &str) -> Result<String, Problem> {
    let (name, endpoint) = match typed.split_once("@http") {
        Some((name, url)) => (name, Some(format!("http{url}"))),
        None => (typed, None),
    };
    let (runtime, name) = match name.split_once(':') {
        Some((runtime, rest)) if runtime.parse::<RuntimeKind>().is_ok() => (Some(runtime), rest),
        _ => (None, name),
    };
    if name.trim().is_empty() {
        return Err(Problem::usage(
            format!("\"{typed}\" names no model."),
            "Write [RUNTIME:]MODEL[@URL], such as claude-code:claude-opus-4-1.",
        ));
    }
    let runtime = runtime.map(|runtime| format!("runtime = {}\n", json!(runtime))).unwrap_or_default();
    let endpoint = endpoint.map(|url| format!("endpoint = {}\n", json!(url))).unwrap_or_default();
    Ok(format!("{runtime}model = {}\n{endpoint}", json!(name)))
}

/// Puts the butler into the roster where it is not, gives it these settings, and has the daemon take it up.
fn take_up(
    place: Place,
    toml: &str,
    left_out: &[(String, String)],
    graphiti: Option<String>,
    dry_run: bool,
) -> Outcome {
    let toml = with_graphiti(toml, graphiti.as_deref());
    let out = place.out.clone();
    if !dry_run {
        let roster = load_config(&place.overrides, &place.environment)?.daemon.roster;
        switch_on(COUNCIL, &place.overrides, &place.environment, false)
            .map_err(|e| Problem::new(FAILED, "setup", e.to_string(), ""))?;
        let file = roster.join(COUNCIL).join("butler.toml");
        let written = std::fs::read_to_string(&file).and_then(|before| {
            let whole = file.with_extension("toml.part");
            std::fs::write(&whole, replaced(&before, &toml))?;
            std::fs::rename(&whole, &file)
        });
        written.map_err(|e| Problem::new(FAILED, "setup", format!("{} can't be written: {e}.", file.display()), ""))?;
    }
    let left: Vec<_> = left_out.iter().map(|(key, why)| json!({"key": key, "why": why})).collect();
    let done = json!({"settings": toml, "left_out": left, "written": !dry_run});
    out.answer(&done, |out, _| {
        out.line(toml.trim_end());
        for (key, why) in left_out {
            out.line(&format!("left out: {key} ({why})"));
        }
        if dry_run {
            out.line("Nothing was written.");
        }
    })?;
    if dry_run {
        return Ok(0);
    }
    if let Err(problem) = place.call(|caller| reload::takes_up(caller, COUNCIL)) {
        out.aside(&format!(
            "The daemon takes the council up when it is started, or by butlerd reload: {}",
            problem.message
        ));
    }
    Ok(0)
}

fn with_graphiti(toml: &str, url: Option<&str>) -> String {
    let Some(url) = url else {
        // Settings of a graph that nobody has an address of would be a mistake.
        return match toml.find(GRAPHITI) {
            Some(at) => {
                let end = toml[at + GRAPHITI.len()..].find("\n[").map_or(toml.len(), |end| at + GRAPHITI.len() + end);
                format!("{}{}", toml[..at].trim_end(), &toml[end..]).trim_end().to_owned() + "\n"
            }
            None => toml.to_owned(),
        };
    };
    let line = format!("url = {}\n", json!(url));
    match toml.find(GRAPHITI) {
        Some(at) => format!("{}{line}{}", &toml[..at + GRAPHITI.len()], &toml[at + GRAPHITI.len()..]),
        None => format!("{}\n\n{GRAPHITI}{line}", toml.trim_end()),
    }
}

/// The file with these sections in the place of those of the council that it has.
fn replaced(before: &str, toml: &str) -> String {
    let mut own = false;
    let mut kept = String::new();
    for line in before.lines() {
        let head = line.trim_start();
        if head.starts_with('[') {
            let name = head.trim_start_matches('[').trim_start();
            own = name.starts_with("modules.council]") || name.starts_with("modules.council.");
        }
        if !own {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    format!("{}\n\n{toml}", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_read_as_they_are_typed() {
        assert_eq!(model("gpt-5").unwrap(), "model = \"gpt-5\"\n");
        assert_eq!(model("codex:gpt-5").unwrap(), "runtime = \"codex\"\nmodel = \"gpt-5\"\n");
        assert_eq!(
            model("qwen3:8b@http://10.0.0.2:11434/v1").unwrap(),
            "model = \"qwen3:8b\"\nendpoint = \"http://10.0.0.2:11434/v1\"\n"
        );
        assert!(model("codex:").is_err());
    }

    #[test]
    fn only_the_councils_sections_are_replaced() {
        let before = "[butler]\nname = \"council\"\n\n[modules.council]\nrounds = 1\n\n[[modules.council.members]]\nmodel = \"a\"\n\n\
                      [modules.memory]\n";
        let after = replaced(before, "[modules.council]\nrounds = 3\n");
        assert_eq!(after, "[butler]\nname = \"council\"\n\n[modules.memory]\n\n[modules.council]\nrounds = 3\n");
    }

    #[test]
    fn a_graph_without_an_address_is_left_out() {
        let toml = "[modules.council]\n\n[modules.council.graphiti]\ngroup_id = \"g\"\n";
        assert_eq!(with_graphiti(toml, None), "[modules.council]\n");
        assert!(
            with_graphiti(toml, Some("http://127.0.0.1:8000/mcp"))
                .contains("]\nurl = \"http://127.0.0.1:8000/mcp\"\ngroup_id")
        );
    }
}
