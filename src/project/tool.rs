//! The tools of project memory: names, descriptions and arguments, once for the stdio server, the workshop's port and
//! the command line, so that all of them do the same.

use serde_json::{Value, json};

/// Where a tool's work is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// In the daemon, which has the memories.
    Daemon,
    /// Where the repository is, under the developer's rights: git, and files that are named.
    Developer,
}

/// A tool.
#[derive(Clone, Debug)]
pub struct ProjectTool {
    pub name: &'static str,
    pub description: &'static str,
    /// The properties of its arguments, as JSON Schema has them.
    pub properties: Value,
    pub required: &'static [&'static str],
    /// Whether it changes what is remembered.
    pub writes: bool,
    pub place: Place,
}

impl ProjectTool {
    /// The JSON Schema of its arguments.
    pub fn schema(&self) -> Value {
        json!({"type": "object", "additionalProperties": false, "properties": self.properties, "required": self.required})
    }
}

/// The type that a memory gets whose tool call names none.
pub const DEFAULT_TYPE: &str = "Learning";
/// So many memories are recalled where nothing is said.
pub const DEFAULT_LIMIT: u64 = 5;
/// Memories at least so alike are the same to `audit` and `dedup`.
pub const DEFAULT_ALIKE: f64 = 0.75;
/// `cleanup` forgets memories of less importance.
pub const DEFAULT_LEAST_IMPORTANCE: f64 = 0.2;
/// `cleanup` forgets memories of fewer characters.
pub const DEFAULT_LEAST_LENGTH: u64 = 20;

fn text(what: &str) -> Value {
    json!({"type": "string", "description": what})
}

fn tags() -> Value {
    json!({"type": "string", "default": "", "description": "Comma-separated"})
}

fn limit(default: u64) -> Value {
    json!({"type": "integer", "minimum": 1, "maximum": 200, "default": default, "description": "How many at most"})
}

fn threshold(default: f64, what: &str) -> Value {
    json!({"type": "number", "minimum": 0, "maximum": 1, "default": default, "description": what})
}

fn dry_run() -> Value {
    json!({"type": "boolean", "default": false, "description": "Only say what would be done"})
}

fn tool(
    name: &'static str,
    description: &'static str,
    properties: Value,
    required: &'static [&'static str],
) -> ProjectTool {
    ProjectTool { name, description, properties, required, writes: false, place: Place::Daemon }
}

/// One without arguments.
fn plain(name: &'static str, description: &'static str) -> ProjectTool {
    tool(name, description, json!({}), &[])
}

fn writing(tool: ProjectTool) -> ProjectTool {
    ProjectTool { writes: true, ..tool }
}

fn developers(tool: ProjectTool) -> ProjectTool {
    ProjectTool { place: Place::Developer, ..tool }
}

/// All tools, in the order in which they are listed.
pub fn all() -> Vec<ProjectTool> {
    [memory(), upkeep(), exchange(), todos()].concat()
}

fn memory() -> Vec<ProjectTool> {
    vec![
        writing(tool(
            "remember",
            "Remember something about this project for later sessions: a decision and its reason, a pitfall, a fix. \
             Returns the memory's id.",
            json!({"content": text("What to remember, in words that make sense later"),
                   "type": {"type": "string", "default": DEFAULT_TYPE, "description": "Decision, Learning or Context"},
                   "tags": tags()}),
            &["content"],
        )),
        tool(
            "recall",
            "Search this project's memories. Those of the branch that is checked out come first where they fit as well.",
            json!({"query": text("What is looked for"), "limit": limit(DEFAULT_LIMIT),
                   "mode": {"type": "string", "enum": ["hybrid", "semantic", "keyword"], "default": "hybrid",
                            "description": "By words and meaning, or by one of them"},
                   "tags": tags()}),
            &["query"],
        ),
        tool(
            "proactive_context",
            "Memories of this project that bear on what you are doing, each with its relevance (0 to 1) and why.",
            json!({"context": text("What is being done"), "limit": limit(DEFAULT_LIMIT)}),
            &["context"],
        ),
        writing(tool("forget", "Forget one memory.", json!({"id": text("Its id, or how the id begins")}), &["id"])),
        writing(tool(
            "forget_by_tags",
            "Forget all memories that have one of these tags.",
            json!({"tags": {"type": "string", "minLength": 1, "description": "Comma-separated"}}),
            &["tags"],
        )),
        tool(
            "list_memories",
            "The newest memories, of one type or of all.",
            json!({"type": {"type": "string", "default": "", "description": "Decision, Learning or Context; all without it"},
                   "limit": limit(20)}),
            &[],
        ),
        tool(
            "get_memory",
            "One memory with all that is known of it.",
            json!({"id": text("Its id, or how the id begins")}),
            &["id"],
        ),
        tool(
            "context_summary",
            "What matters most: decisions, learnings, context, failures, the most important of each.",
            json!({"topic": {"type": "string", "default": "", "description": "Only what is about this"}}),
            &[],
        ),
        plain("brain", "Which memories are in use: those of the last hour, of the last day, and the rest."),
        plain("memory_stats", "How many memories there are, by type, tag and importance."),
    ]
}

fn upkeep() -> Vec<ProjectTool> {
    vec![
        plain("health", "Whether memories can be read and written."),
        tool(
            "audit",
            "Groups of memories that say the same, without changing anything.",
            json!({"threshold": threshold(DEFAULT_ALIKE, "How alike they must be")}),
            &[],
        ),
        writing(tool(
            "cleanup",
            "Forget memories that are too short or matter too little. The whole run can be taken back.",
            json!({"threshold": threshold(DEFAULT_LEAST_IMPORTANCE, "The least importance that stays"), "dry_run": dry_run()}),
            &[],
        )),
        writing(tool(
            "dedup",
            "Make memories that say the same one, with all of their tags. The whole run can be taken back.",
            json!({"threshold": threshold(DEFAULT_ALIKE, "How alike they must be"), "dry_run": dry_run()}),
            &[],
        )),
        plain("verify_index", "How many memories are stored here, and how many the index of all projects holds."),
        tool(
            "consolidation_report",
            "What was done to this project's memories: stored, forgotten, merged, taken back.",
            json!({"since": {"type": "string", "default": "", "description": "RFC 3339; a week without it"}}),
            &[],
        ),
        plain("graph_stats", "How memories hang together: tags and merged wordings."),
        tool(
            "recall_by_date",
            "Memories of a span of time, the newest first.",
            json!({"since": {"type": "string", "default": "", "description": "RFC 3339 or a day"},
                   "until": {"type": "string", "default": "", "description": "RFC 3339 or a day"}, "limit": limit(20)}),
            &[],
        ),
    ]
}

fn exchange() -> Vec<ProjectTool> {
    vec![
        writing(developers(plain("sync", "Push this machine's memories by git and take in those of others."))),
        writing(developers(plain("sync_push", "Push this machine's memories by git."))),
        writing(developers(tool(
            "sync_pull",
            "Take in by git what others have pushed.",
            json!({"from_source": {"type": "string", "default": "", "description": "user/machine; all others without it"}}),
            &[],
        ))),
        developers(plain("sync_status", "When memories were pushed and pulled last, and by whom there are others.")),
        plain("export_memories", "All memories of this project as one JSON object."),
        writing(developers(tool(
            "import_memories",
            "Take in the memories of an export. What is known, or was forgotten here, is passed over.",
            json!({"file_path": text("The export, a file of the developer's"), "dry_run": dry_run()}),
            &["file_path"],
        ))),
    ]
}

fn todos() -> Vec<ProjectTool> {
    vec![
        writing(tool(
            "add_todo",
            "Note what is left to do in this project.",
            json!({"content": text("What is to be done"), "tags": tags()}),
            &["content"],
        )),
        tool("list_todos", "What is left to do.", json!({}), &[]),
        writing(tool(
            "complete_todo",
            "It is done.",
            json!({"todo_id": text("Its id, or how the id begins")}),
            &["todo_id"],
        )),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Specification 003 names these.
    const SPECIFIED: &str = "remember recall proactive_context forget forget_by_tags list_memories get_memory context_summary \
        brain memory_stats health audit cleanup dedup sync sync_push sync_pull sync_status export_memories import_memories";

    #[test]
    fn each_tool_of_the_specification_is_there_once() {
        let all = all();
        for name in SPECIFIED.split_whitespace() {
            assert_eq!(all.iter().filter(|tool| tool.name == name).count(), 1, "{name}");
        }
        for tool in &all {
            assert!(tool.required.iter().all(|name| tool.properties.get(name).is_some()), "{}", tool.name);
        }
    }
}
