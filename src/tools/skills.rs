//! `skill_list` and `skill_read`: a butler's skills for those who can't read files.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use super::call::{ToolCall, ToolError};
use super::definition::{Definition, Meta};
use super::tool::{Tool, handler};
use config::Skill;
use config::skills::{SKILL_FILE, SkillFile, body};

/// Lists a butler's skills.
pub const SKILL_LIST: &str = "skill_list";
/// Reads one skill, or a file beside its `SKILL.md`.
pub const SKILL_READ: &str = "skill_read";

/// The longest file that is handed to a model in one piece, in bytes.
const MAX_READ: u64 = 256 * 1024;

/// The tools over a butler's skills; none where it has no skills.
pub fn skill_tools(skills: &Arc<[Skill]>) -> Vec<Tool> {
    static DEFS: OnceLock<[Arc<Definition>; 2]> = OnceLock::new();
    if skills.is_empty() {
        return Vec::new();
    }
    let [list_def, read_def] = DEFS.get_or_init(definitions);
    let (for_list, for_read) = (skills.clone(), skills.clone());
    vec![
        Tool::new(list_def, handler(move |_| list(for_list.clone()))),
        Tool::new(read_def, handler(move |call| read(call, for_read.clone()))),
    ]
}

fn definitions() -> [Arc<Definition>; 2] {
    // They hold what the roster's owner wrote, and nothing of anybody's life.
    let meta = Meta { reads_private: false, ..Meta::read() };
    let define = |name: &str, description: &str, properties: Value, required: Value| {
        Definition::built_in(name, description, properties, required, meta.clone())
    };
    [
        define(
            SKILL_LIST,
            "List this butler's skills: what each is for, and which files it has beside its text.",
            json!({}),
            json!([]),
        ),
        define(
            SKILL_READ,
            "Read a skill, a workflow written for this butler; or with `file` one of the files that it refers to.",
            json!({
                "name": {"type": "string", "minLength": 1, "maxLength": 100, "description": "Name of the skill"},
                "file": {"type": "string", "minLength": 1, "maxLength": 1000,
                         "description": "A file of the skill, by the name that the skill gives it"},
            }),
            json!(["name"]),
        ),
    ]
}

/// The skill that a call of `skill_read` with these arguments loads; `None` if it asks for another file.
pub fn skill_loaded(arguments: &Value) -> Option<&str> {
    let file = arguments.get("file").and_then(Value::as_str).map(|f| f.trim_start_matches("./"));
    arguments.get("name").and_then(Value::as_str).filter(|_| file.is_none_or(|f| f == SKILL_FILE))
}

async fn list(skills: Arc<[Skill]>) -> Result<Value, ToolError> {
    let mut shown = Vec::new();
    for skill in &*skills {
        shown.push(json!({"name": skill.name, "description": skill.description, "version": skill.version,
                          "files": companions(&files(skill)?)}));
    }
    Ok(Value::Array(shown))
}

async fn read(call: ToolCall, skills: Arc<[Skill]>) -> Result<Value, ToolError> {
    let name = call.text("name").unwrap_or_default();
    let Some(skill) = skills.iter().find(|s| s.name == name) else {
        let known: Vec<&str> = skills.iter().map(|s| s.name.as_str()).collect();
        let message = format!("There is no skill `{name}` here; there are: {}.", known.join(", "));
        return Err(ToolError::refused("not_found", message));
    };
    let files = files(skill)?;
    let file = call.text("file").map_or(SKILL_FILE, |f| f.trim_start_matches("./"));
    // What is read is one of what was found, so no name leads anywhere else.
    let Some(found) = files.iter().find(|f| !f.is_dir && f.path.to_str() == Some(file)) else {
        let message = match companions(&files) {
            known if known.is_empty() => format!("The skill `{name}` has no file `{file}`, and none but its text."),
            known => format!("The skill `{name}` has no file `{file}`; its files are: {}.", known.join(", ")),
        };
        return Err(ToolError::refused("not_found", message));
    };
    let text = text(skill, found)?;
    if file != SKILL_FILE {
        return Ok(json!({"name": name, "file": file, "text": text}));
    }
    Ok(json!({"name": name, "version": skill.version, "text": body(&text), "files": companions(&files)}))
}

fn files(skill: &Skill) -> Result<Vec<SkillFile>, ToolError> {
    skill.files().map_err(|e| ToolError::Internal(e.to_string()))
}

/// The files beside `SKILL.md`.
fn companions(files: &[SkillFile]) -> Vec<&str> {
    let beside = files.iter().filter(|f| !f.is_dir && f.path != Path::new(SKILL_FILE));
    beside.filter_map(|f| f.path.to_str()).collect()
}

fn text(skill: &Skill, file: &SkillFile) -> Result<String, ToolError> {
    let path = file.path.display();
    if file.bytes > MAX_READ {
        let message = format!("`{path}` has {} bytes; at most {MAX_READ} can be read.", file.bytes);
        return Err(ToolError::refused("too_large", message));
    }
    let bytes = std::fs::read(skill.dir.join(&file.path))
        .map_err(|e| ToolError::Internal(format!("cannot read {path} of the skill {}: {e}", skill.name)))?;
    String::from_utf8(bytes).map_err(|_| ToolError::refused("not_text", format!("`{path}` is not text.")))
}
