//! A household with a council, each of whose members has a model server of its own.

use std::path::Path;

use serde_json::{Value, json};
use testkit::model::ScriptedModel;

use super::{Daemon, Household, model};

/// What every judge, the chairman, and whoever decides about the question is asked with.
pub const JUDGED: &str = "Judge the answers in the context";
pub const CONCLUDED: &str = "Write the answer out of what is in the context";
pub const ABOUT: &str = "The question:";

/// A member's server: its answer to everything, and what it says as a judge.
pub async fn member(answer: &str, ranking: &str) -> ScriptedModel {
    model(json!([
        {"when": JUDGED, "steps": [{"say": format!("All fine.\n\nFINAL RANKING:\n{ranking}")}]},
        {"when": ".", "steps": [{"say": answer}]},
    ]))
    .await
}

/// One more server, for the butler's own model: chairman, and whoever decides about the question.
pub async fn chairman(answer: &str, about: &str) -> ScriptedModel {
    model(json!([
        {"when": CONCLUDED, "steps": [{"say": answer}]},
        {"when": ABOUT, "steps": [{"say": about}]},
        {"when": ".", "steps": [{"say": "Alone: 42."}]},
    ]))
    .await
}

/// A household whose own model is `own`, with a council of these: name, model, server.
pub fn with_council(own: &ScriptedModel, members: &[(&str, &str, &ScriptedModel)], more: &str) -> Household {
    council_of(Household::few_with_model(own), &settings(members, more))
}

/// The settings of a council of these, with these lines.
pub fn settings(members: &[(&str, &str, &ScriptedModel)], more: &str) -> String {
    let mut toml = String::from("\n[modules.council]\n");
    let (settings, sections) = more.split_once('[').map_or((more, String::new()), |(a, b)| (a, format!("[{b}")));
    toml.push_str(settings);
    for (name, model, server) in members {
        let (name, model, url) = (json!(name), json!(model), json!(server.base_url()));
        toml.push_str(&format!("\n[[modules.council.members]]\nname = {name}\nmodel = {model}\nendpoint = {url}\n"));
    }
    toml.push_str(&format!("\n{sections}\n"));
    toml
}

/// The same household with the shipped butler and these lines behind its settings.
pub fn council_of(household: Household, toml: &str) -> Household {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("roster/.council");
    let mut household = household;
    for file in std::fs::read_dir(shipped).expect("the shipped butler").flatten() {
        let text = std::fs::read_to_string(file.path()).expect("a file");
        let name = file.file_name().to_string_lossy().into_owned();
        // Memory that is late on a busy machine is no answer, and the council is asked.
        let patient = "\n[modules.memory.retrieval]\ndeadline = \"10s\"\n";
        let text = if name == "butler.toml" { format!("{text}{toml}{patient}") } else { text };
        household = household.write(&format!("council/{name}"), &text);
    }
    household.model("council", "own-model")
}

impl Household {
    /// Asks the council by the command line and waits: the session's end.
    pub fn asks_council(&self, question: &str) -> Value {
        let (_, out, err) = self.cli(&["trigger", "council", question, "--json"]);
        serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"))
    }
}

impl Daemon {
    /// The newest question with all its steps.
    pub async fn newest_question(&self) -> Value {
        let mcp = self.mcp("council");
        let listed = mcp.ok("council_questions", json!({"limit": 1})).await;
        let id = listed["questions"][0]["id"].clone();
        mcp.ok("council_question", json!({"id": id})).await
    }
}

/// The steps of a stage: member and what it said.
pub fn steps(question: &Value, stage: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = question["steps"].as_array().cloned().unwrap_or_default();
    let of = all.iter().filter(|step| step["stage"] == stage);
    of.map(|step| {
        (text(&step["member"]), if step["said"].is_null() { text(&step["failure"]) } else { text(&step["said"]) })
    })
    .collect()
}
