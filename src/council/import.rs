//! A council's settings out of the `config.json` of the program that had councils first.

use serde_json::{Map, Value};

/// The settings as this household has them, and what of the file is not among them.
#[derive(Clone, PartialEq, Debug)]
pub struct Imported {
    /// The section `[modules.council]`, as TOML.
    pub toml: String,
    /// Each key of the file that is left out, with the reason.
    pub left_out: Vec<(String, String)>,
}

/// Why nothing was made of a file: a sentence.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ImportError {
    #[error("it is not JSON: {0}")]
    Json(String),
    #[error("it has no models.council: a list of the models that are to answer")]
    NoCouncil,
    #[error("the entry {0} of models.council has no id")]
    NoModel(usize),
}

/// Makes the settings.
pub fn import(text: &str) -> Result<Imported, ImportError> {
    let file: Value = serde_json::from_str(text).map_err(|e| ImportError::Json(e.to_string()))?;
    let mut reading = Reading { file: &file, used: Vec::new(), left_out: Vec::new(), keys: Vec::new() };
    let toml = reading.settings()?;
    reading.rest("", &file);
    Ok(Imported { toml, left_out: reading.left_out })
}

struct Reading<'a> {
    file: &'a Value,
    /// The paths that were read, or named as left out.
    used: Vec<String>,
    left_out: Vec<(String, String)>,
    /// The keys of servers that were found, so that the same one gets one name.
    keys: Vec<String>,
}

/// Keys whose meaning butlerd has elsewhere, or has no use for.
const ELSEWHERE: [(&str, &str); 14] = [
    ("models.formatter", "answers are written as they are to be read"),
    ("models.prompt_engineer", "there is no rewriting of questions"),
    ("models.categorization", "memories are not sorted into kinds"),
    ("models.software_architect", "the council has no part of this name"),
    ("memory.categorization_enabled", "memories are not sorted into kinds"),
    ("memory.default_user_name", "who asks is known by the household's people"),
    ("memory.default_ai_name", "members have no names towards each other"),
    ("deliberation.enable_cross_review", "members always judge each other's answers"),
    ("deliberation.refinement_prompt_template", "the prompts are the program's own"),
    ("response_config", "how long answers are is said in the roster's prompt"),
    ("timeout_config", "limits of time are [butler.runtime] session_timeout and the members' own"),
    ("server.base_url_template", "it has no place without a model"),
    ("server.ip", "it has no place without a model"),
    ("server.port", "it has no place without a model"),
];

impl Reading<'_> {
    fn get(&mut self, path: &str) -> Option<Value> {
        let value = path.split('.').try_fold(self.file, |at, name| at.get(name))?;
        self.used.push(path.to_owned());
        Some(value.clone())
    }

    fn settings(&mut self) -> Result<String, ImportError> {
        let mut toml = String::from("[modules.council]\n");
        let (most, usual) = (self.get("deliberation.max_rounds"), self.get("deliberation.rounds"));
        if most.is_some() && usual.is_some() {
            self.leave_out(
                "deliberation.rounds",
                "max_rounds is the limit; rounds end before it where the ranking is stable",
            );
        }
        if let Some(rounds) = most.or(usual).and_then(|rounds| rounds.as_u64()) {
            if rounds > 5 {
                self.leave_out("deliberation.max_rounds", "there are five rounds at most");
            }
            toml += &format!("rounds = {}\n", rounds.min(5));
        }
        let council = self.get("models.council").and_then(|council| council.as_array().cloned());
        for (at, member) in
            council.filter(|council| !council.is_empty()).ok_or(ImportError::NoCouncil)?.iter().enumerate()
        {
            let path = format!("models.council[{at}]");
            let name = format!("name = \"member-{}\"\n", at + 1);
            let model = self.model(&path, member).ok_or(ImportError::NoModel(at + 1))?;
            toml += &format!("\n[[modules.council.members]]\n{name}{model}");
        }
        for (path, section) in [
            ("models.chairman", "chairman"),
            ("models.tool_calling", "router"),
            ("models.confidence", "confidence"),
            ("models.title_generation", "title"),
            ("title_generation", "title"),
        ] {
            let Some(value) = self.get(path) else { continue };
            let on = value.get("enabled").is_none_or(|enabled| enabled != &Value::Bool(false));
            match self.model(path, &value).filter(|_| on) {
                Some(model) if !toml.contains(&format!("council.{section}]")) => {
                    toml += &format!("\n[modules.council.{section}]\n{model}");
                }
                Some(_) => self.leave_out(path, "it is set twice"),
                // An empty id means the chairman there, as it does here.
                None => self.leave_out(path, "it names no model; the chairman does it"),
            }
        }
        toml += &self.section(
            "memory",
            [
                ("memory.enabled", "enabled"),
                ("memory.confidence_threshold", "threshold"),
                ("memory.max_memory_age_days", "max_age_days"),
            ],
        );
        toml += &self.section(
            "graphiti",
            [
                ("memory.group_id", "group_id"),
                ("memory.record_user_messages", "record_user"),
                ("memory.record_council_responses", "record_council"),
                ("memory.record_chairman_synthesis", "record_chairman"),
            ],
        );
        for (path, why) in ELSEWHERE {
            let taken = self.used.iter().any(|used| used == path);
            if !taken && self.get(path).is_some() {
                self.leave_out(path, why);
            }
        }
        Ok(toml)
    }

    fn section<const N: usize>(&mut self, name: &str, keys: [(&str, &str); N]) -> String {
        let mut lines = String::new();
        for (path, key) in keys {
            match self.get(path) {
                Some(value @ (Value::Bool(_) | Value::Number(_) | Value::String(_))) => {
                    lines += &format!("{key} = {value}\n");
                }
                Some(_) => self.leave_out(path, "its value is none that can be taken"),
                None => {}
            }
        }
        if lines.is_empty() { lines } else { format!("\n[modules.council.{name}]\n{lines}") }
    }

    /// The lines of a model: which, and at which server. Texts and numbers are in TOML what they are in JSON.
    fn model(&mut self, path: &str, value: &Value) -> Option<String> {
        let fields = value.as_object()?;
        let id =
            fields.get("id").or_else(|| fields.get("model")).and_then(Value::as_str).filter(|id| !id.is_empty())?;
        let mut lines = format!("model = {}\n", Value::from(id));
        let endpoint = self.endpoint(fields);
        if let Some(endpoint) = &endpoint {
            lines += &format!("endpoint = {}\n", Value::from(endpoint.as_str()));
        }
        if let Some(key) = self.field(fields, "api_key").filter(|key| !key.is_empty()) {
            let from =
                if fields.contains_key("api_key") { format!("{path}.api_key") } else { "server.api_key".to_owned() };
            let why = if endpoint.is_some() {
                let at = self.keys.iter().position(|known| *known == key).unwrap_or_else(|| {
                    self.keys.push(key);
                    self.keys.len() - 1
                });
                let name = format!("COUNCIL_KEY_{}", at + 1);
                lines += &format!("key = \"{name}\"\n");
                format!("a key is kept as a secret: run `butlerd secret set {name}`")
            } else {
                "it has no server; the vendor's own key is a secret of the household".to_owned()
            };
            self.leave_out(&from, &why);
        }
        for words in ["name", "description"].into_iter().filter(|field| fields.contains_key(*field)) {
            self.leave_out(
                &format!("{path}.{words}"),
                "members are known by their place, so that nothing gives them away",
            );
        }
        let known = ["id", "model", "ip", "port", "base_url_template", "api_key", "name", "description", "enabled"];
        for field in fields.keys().filter(|field| !known.contains(&field.as_str())) {
            self.leave_out(&format!("{path}.{field}"), "there is no such setting");
        }
        Some(lines)
    }

    /// A field of a model, else of the server that all have.
    fn field(&mut self, fields: &Map<String, Value>, name: &str) -> Option<String> {
        let common = self.file.get("server").and_then(|server| server.get(name));
        if common.is_some() {
            self.used.push(format!("server.{name}"));
        }
        match fields.get(name).filter(|value| !value.is_null() && *value != "").or(common)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }

    fn endpoint(&mut self, fields: &Map<String, Value>) -> Option<String> {
        let (ip, port) = (self.field(fields, "ip"), self.field(fields, "port"));
        let template = self.field(fields, "base_url_template");
        let template = match (&template, &ip) {
            (Some(template), _) => template.as_str(),
            (None, Some(_)) => "http://{ip}:{port}/v1",
            (None, None) => return None,
        };
        let url = template.replace("{ip}", &ip.unwrap_or_default()).replace("{port}", &port.unwrap_or_default());
        (!url.contains('{')).then_some(url)
    }

    fn leave_out(&mut self, path: &str, why: &str) {
        self.used.push(path.to_owned());
        if !self.left_out.iter().any(|(known, _)| known == path) {
            self.left_out.push((path.to_owned(), why.to_owned()));
        }
    }

    /// Names what nobody has read.
    fn rest(&mut self, at: &str, value: &Value) {
        for (name, value) in value.as_object().into_iter().flatten() {
            let path = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
            if self.used.contains(&path) {
                continue;
            }
            let inner = format!("{path}.");
            if value.is_object() && self.used.iter().any(|used| used.starts_with(&inner)) {
                self.rest(&path, value);
            } else {
                self.leave_out(&path, "there is no such setting");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"{
        "server": {"ip": "10.0.0.5", "port": 11434, "base_url_template": "http://{ip}:{port}/v1", "api_key": "sk-1"},
        "models": {
            "council": [{"id": "qwen3:8b", "name": "Q", "description": "quick"}, {"id": "llama3", "ip": "10.0.0.6", "api_key": "sk-2"}],
            "chairman": {"id": "gpt-oss:20b"},
            "confidence": {"id": ""},
            "formatter": {"id": "x"}
        },
        "memory": {"enabled": true, "confidence_threshold": 0.8, "max_memory_age_days": 30, "group_id": "llm_council",
                   "record_user_messages": true, "categorization_enabled": true, "dreams": 1},
        "deliberation": {"rounds": 2, "max_rounds": 4},
        "theme": "dark"
    }"#;

    #[test]
    fn every_key_is_taken_or_named() {
        let imported = import(FILE).unwrap();
        for line in [
            "rounds = 4",
            "model = \"qwen3:8b\"",
            "endpoint = \"http://10.0.0.5:11434/v1\"",
            "key = \"COUNCIL_KEY_1\"",
            "endpoint = \"http://10.0.0.6:11434/v1\"",
            "key = \"COUNCIL_KEY_2\"",
            "[modules.council.chairman]",
            "threshold = 0.8",
            "max_age_days = 30",
            "group_id = \"llm_council\"",
            "record_user = true",
        ] {
            assert!(imported.toml.contains(line), "{line} is not in\n{}", imported.toml);
        }
        assert!(!imported.toml.contains("sk-"), "keys are no settings");
        assert!(!imported.left_out.iter().any(|(path, _)| path == "server.ip"), "what was taken is not left out");
        let left: Vec<&str> = imported.left_out.iter().map(|(path, _)| path.as_str()).collect();
        for path in [
            "server.api_key",
            "models.council[0].name",
            "models.council[0].description",
            "models.council[1].api_key",
            "models.confidence",
            "models.formatter",
            "memory.categorization_enabled",
            "memory.dreams",
            "theme",
        ] {
            assert!(left.contains(&path), "{path} is not in {left:?}");
        }
    }

    #[test]
    fn what_is_no_council_is_refused() {
        assert!(matches!(import("{"), Err(ImportError::Json(_))));
        assert_eq!(import("{}"), Err(ImportError::NoCouncil));
        assert_eq!(import(r#"{"models": {"council": []}}"#), Err(ImportError::NoCouncil));
        assert_eq!(import(r#"{"models": {"council": [{"id": "a"}, {}]}}"#), Err(ImportError::NoModel(2)));
    }
}
