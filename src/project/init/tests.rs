//! Registration and its removal, whole, in directories of their own and with a `claude` that is a script.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::wire::Identity;

/// It keeps one list of servers, as Claude Code does, and notes how it was called. It knows no program but itself: its
/// PATH has none.
const CLAUDE: &str = r#"#!/bin/sh
echo "$*" >> "$HOME/calls"
pwd >> "$HOME/directories"
if [ -e "$HOME/fails-$2" ]; then echo "it is Sunday" >&2; exit 1; fi
server() { printf '{"projects": {"%s": {"mcpServers": {%s}}}}\n' "$(cat_top)" "$1" > "$HOME/.claude.json"; }
cat_top() { read -r top < "$HOME/top"; printf '%s' "$top"; }
case "$2" in
add)
    shift 6
    args=""
    command="$1"
    shift
    for arg; do args="$args${args:+, }\"$arg\""; done
    server "\"wt-tools\": {\"type\": \"stdio\", \"command\": \"$command\", \"args\": [$args], \"env\": {}}"
    ;;
add-json) server "\"$3\": $6" ;;
remove)
    if ! [ -e "$HOME/.claude.json" ]; then echo "No MCP server named \"$3\"" >&2; exit 1; fi
    server ""
    ;;
esac
"#;

struct Bench {
    dir: TempDir,
    place: ProjectPlace,
    options: InitOptions,
}

impl Bench {
    /// A project in a repository, without any program.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (top, home) = (root.join("my project"), root.join("home"));
        fs::create_dir_all(top.join(".git")).unwrap();
        fs::create_dir_all(&home).unwrap();
        fs::create_dir_all(root.join("bin")).unwrap();
        fs::write(home.join("top"), top.to_str().unwrap()).unwrap();
        let identity = Identity { name: "my project".into(), ..Identity::default() };
        let place = ProjectPlace { common_dir: Some(top.join(".git")), top, identity, branch: None };
        let options = InitOptions {
            program: "/opt/my tools/butlerd".into(),
            assistants: vec![Assistant::Claude],
            dry_run: false,
            codex_home: None,
            path: root.join("bin").into(),
            home,
            socket: None,
        };
        Self { dir, place, options }
    }

    fn with_claude() -> Self {
        let bench = Self::new();
        let program = bench.dir.path().join("bin/claude");
        fs::write(&program, CLAUDE).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        // It is busy while a process that another test starts has not let go of what was open here.
        let run = || std::process::Command::new(&program).env("HOME", program.parent().unwrap()).status();
        while run().is_err_and(|error| error.kind() == std::io::ErrorKind::ExecutableFileBusy) {}
        bench
    }

    fn of(mut self, assistants: &[Assistant]) -> Self {
        self.options.assistants = assistants.to_vec();
        self
    }

    fn file(&self, name: &str) -> PathBuf {
        self.place.top.join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.file(name).parent().unwrap()).unwrap();
        fs::write(self.file(name), text).unwrap();
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.text(name)).unwrap()
    }

    fn home(&self, name: &str) -> String {
        fs::read_to_string(self.options.home.join(name)).unwrap_or_default()
    }

    fn init(&self) -> InitReport {
        init(&self.place, &self.options).unwrap()
    }

    fn remove(&self) -> InitReport {
        remove(&self.place, &self.options).unwrap()
    }

    fn status(&self) -> Vec<(bool, bool, bool)> {
        status(&self.place, &self.options).iter().map(|of| (of.server, of.hooks, of.instructions)).collect()
    }

    /// Every file below the project and the home, with its text.
    fn all(&self) -> Vec<(PathBuf, String)> {
        let mut found = Vec::new();
        let mut open = vec![self.place.top.clone(), self.options.home.clone()];
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    open.push(path);
                } else if !["calls", "directories"].iter().any(|name| path.ends_with(name)) {
                    found.push((path.clone(), fs::read_to_string(path).unwrap()));
                }
            }
        }
        found.sort();
        found
    }
}

fn diff(report: &InitReport, name: &str) -> String {
    let change = report.changes.iter().find(|change| change.path.ends_with(name));
    change.unwrap_or_else(|| panic!("{name} in {report:#?}")).diff.clone()
}

#[test]
fn claude_code_is_told_by_its_own_program() {
    let bench = Bench::with_claude();
    let report = bench.init();
    let top = bench.place.top.to_str().unwrap();
    let calls = format!(
        "mcp remove wt-memory\nmcp remove wt-tools --scope local\n\
         mcp add wt-tools --scope local -- env CLAUDE_PROJECT_DIR={top} /opt/my tools/butlerd mcp\n"
    );
    assert_eq!(bench.home("calls"), calls);
    assert_eq!(bench.home("directories"), format!("{top}\n").repeat(3));
    assert!(report.changes.iter().all(|change| change.done), "{report:#?}");
    assert_eq!(report.notes, [] as [&str; 0]);
    assert!(!bench.file(".mcp.json").exists());
    assert_eq!(bench.status(), [(true, true, true)]);
    assert_eq!(bench.init(), InitReport::default());
    assert_eq!(bench.home("calls"), calls);
}

#[test]
fn an_old_registration_is_overwritten_and_another_socket_is_passed_on() {
    let mut bench = Bench::with_claude();
    let top = bench.place.top.to_str().unwrap().to_owned();
    let old = json!({"type": "stdio", "command": "uv", "args": ["--token", "hush"], "env": {}});
    let list = json!({"projects": {top.clone(): {"mcpServers": {"wt-tools": old, "wt-memory": {"command": "x"}}}}});
    fs::write(bench.options.home.join(".claude.json"), list.to_string()).unwrap();
    bench.write(".mcp.json", "{\n  \"mcpServers\": {\n    \"wt-memory\": {},\n    \"mine\": {}\n  }\n}\n");
    bench.options.socket = Some("/run/x/project.sock".into());
    let report = bench.init();
    let calls = bench.home("calls");
    let want = format!(
        "mcp remove wt-memory --scope local\nmcp remove wt-tools --scope local\nmcp add wt-tools --scope local -- env \
         BUTLERD_PROJECT_SOCKET=/run/x/project.sock CLAUDE_PROJECT_DIR={top} /opt/my tools/butlerd mcp\n"
    );
    assert_eq!(calls, want);
    assert!(!diff(&report, ".claude.json").contains("hush"), "{report:#?}");
    assert_eq!(bench.text(".mcp.json"), "{\n  \"mcpServers\": {\n    \"mine\": {}\n  }\n}\n");
    let command = &bench.json(".claude/settings.json")["hooks"]["Stop"][0]["hooks"][0]["command"];
    assert_eq!(command, "BUTLERD_PROJECT_SOCKET=/run/x/project.sock '/opt/my tools/butlerd' hook Stop");
    assert_eq!(bench.init(), InitReport::default());
    bench.options.socket = None;
    assert_eq!(bench.status(), [(false, false, true)]);
    assert_eq!(bench.init().changes.len(), 2);
    assert_eq!(bench.status(), [(true, true, true)]);
}

#[test]
fn a_program_that_fails_leaves_everything_as_it_was() {
    let bench = Bench::with_claude();
    let top = bench.place.top.to_str().unwrap();
    let list = json!({"projects": {top: {"mcpServers": {"wt-tools": {"command": "uv", "args": []}}}}});
    fs::write(bench.options.home.join(".claude.json"), list.to_string()).unwrap();
    fs::write(bench.options.home.join("fails-add"), "").unwrap();
    bench.write(".claude/settings.json", "{}");
    bench.write("CLAUDE.md", "# Us\n");
    let before = bench.all();
    let error = init(&bench.place, &bench.options).unwrap_err();
    assert!(matches!(error, InitError::Program { .. }), "{error}");
    let said = error.to_string();
    assert!(said.contains("`claude mcp add wt-tools` failed") && said.contains("it is Sunday"), "{said}");
    let now = bench.all();
    let servers = |all: &[(PathBuf, String)]| -> Value {
        let list = all.iter().find(|(path, _)| path.ends_with(".claude.json")).unwrap();
        serde_json::from_str(&list.1).unwrap()
    };
    assert_eq!(servers(&now), servers(&before));
    let files = |all: Vec<(PathBuf, String)>| -> Vec<_> {
        all.into_iter().filter(|(path, _)| !path.ends_with(".claude.json")).collect()
    };
    assert_eq!(files(now), files(before));
}

#[test]
fn without_its_program_the_project_has_the_list() {
    let bench = Bench::new();
    let theirs = "{\n    \"mcpServers\": {\n        \"mine\": {\"command\": \"x\"}\n    }\n}\n";
    bench.write(".mcp.json", theirs);
    let report = bench.init();
    let list = &bench.json(".mcp.json")["mcpServers"];
    assert_eq!(list["mine"], json!({"command": "x"}));
    let env = json!({"CLAUDE_PROJECT_DIR": bench.place.top.to_str().unwrap()});
    let want = json!({"type": "stdio", "command": "/opt/my tools/butlerd", "args": ["mcp"], "env": env});
    assert_eq!(list["wt-tools"], want);
    assert!(report.notes[0].contains("not on this PATH"), "{report:#?}");
    assert_eq!(bench.status(), [(true, true, true)]);
    assert!(bench.init().changes.is_empty());
    bench.remove();
    assert_eq!(bench.text(".mcp.json"), theirs);
}

/// What a developer had, with an order and a formatting of its own.
const SETTINGS: &str = r#"{
    "permissions": {"allow": ["Bash(ls:*)"], "deny": []},
    "hooks": {
        "Stop": [
            {"hooks": [{"type": "command", "command": "say done"}]}
        ],
        "PostToolUse": [
            {"matcher": "Read|Bash", "hooks": [{"type": "command", "command": "lint", "timeout": 9}]}
        ]
    },
    "model": "opus"
}
"#;

#[test]
fn hooks_are_added_beside_the_developers_own() {
    let bench = Bench::with_claude();
    bench.write(".claude/settings.json", SETTINGS);
    let report = bench.init();
    let text = bench.text(".claude/settings.json");
    assert!(diff(&report, "settings.json").lines().all(|line| !line.starts_with('-') || text.contains(&line[1..])));
    let hooks = &bench.json(".claude/settings.json")["hooks"];
    assert_eq!(hooks["Stop"][0]["hooks"][0]["command"], "say done");
    assert_eq!(hooks["PostToolUse"][0]["hooks"][0]["command"], "lint");
    let of = |event: &str, matcher: Option<&str>, seconds: u32| {
        let command = format!("'/opt/my tools/butlerd' hook {event}");
        let hook = json!([{"type": "command", "command": command, "timeout": seconds}]);
        match matcher {
            Some(matcher) => json!({"matcher": matcher, "hooks": hook}),
            None => json!({"hooks": hook}),
        }
    };
    assert_eq!(hooks["Stop"][1], of("Stop", None, 30));
    assert_eq!(hooks["PostToolUse"][1], of("PostToolUse", Some("Read|Bash"), 5));
    assert_eq!(hooks["PostToolUseFailure"], json!([of("PostToolUseFailure", Some("Bash"), 5)]));
    assert_eq!(hooks["PreToolUse"], json!([of("PreToolUse", Some("Skill"), 5)]));
    for event in ["SessionStart", "UserPromptSubmit", "SubagentStart", "SubagentStop", "PreCompact"] {
        assert_eq!(hooks[event], json!([of(event, None, 5)]), "{event}");
    }
    assert_eq!(hooks.as_object().unwrap().len(), 9);
    assert_eq!(bench.text(".claude/settings.json.bak"), SETTINGS);
    assert!(bench.init().changes.is_empty());
    bench.remove();
    assert_eq!(bench.text(".claude/settings.json"), SETTINGS);
    assert!(!bench.file(".claude/settings.json.bak").exists());
}

#[test]
fn old_hooks_are_replaced_and_strays_go() {
    let bench = Bench::with_claude();
    let old = json!({"hooks": {
        "SessionStart": [
            {"matcher": "", "hooks": [{"type": "command", "command": "wt-hook-memory SessionStart", "timeout": 10}]},
            {"matcher": "compact", "hooks": [{"type": "command", "command": "wt-hook-memory SessionStart"}]},
        ],
        "Stop": [{"hooks": [
            {"type": "command", "command": "wt-hook-stop"},
            {"type": "command", "command": "/old/butlerd hook Stop", "timeout": 30},
        ]}],
        "Notification": [{"hooks": [{"type": "command", "command": "/old/butlerd hook Notification"}]}],
    }});
    bench.write(".claude/settings.json", &old.to_string());
    bench.init();
    let hooks = &bench.json(".claude/settings.json")["hooks"];
    assert_eq!(hooks["SessionStart"].as_array().unwrap().len(), 1);
    assert_eq!(hooks["SessionStart"][0]["hooks"][0]["command"], "'/opt/my tools/butlerd' hook SessionStart");
    assert_eq!(hooks["Stop"][0], json!({"hooks": [{"type": "command", "command": "wt-hook-stop"}]}));
    assert_eq!(hooks["Stop"][1]["hooks"][0]["command"], "'/opt/my tools/butlerd' hook Stop");
    assert_eq!(hooks.get("Notification"), None);
    assert!(bench.init().changes.is_empty());
}

#[test]
fn a_file_that_is_not_valid_is_named_and_nothing_changes() {
    let wrong = [
        (".claude/settings.json", "{\n  \"hooks\": {\n  },\n}\n", "settings.json:4: this is not valid JSON"),
        (".claude/settings.json", "{\"hooks\": []}", "`hooks` is not an object"),
        (".claude/settings.json", "{\"hooks\": {\"Stop\": {}}}", "`hooks.Stop` is not a list"),
        (".mcp.json", "[]", "`the whole file` is not an object"),
        ("CLAUDE.md", "<!-- butlerd project memory: begin -->\n", "is not a pair of lines"),
    ];
    for (name, text, said) in wrong {
        let bench = Bench::new();
        bench.write(name, text);
        bench.write("AGENTS.md", "# Agents\n");
        let before = bench.all();
        let error = init(&bench.place, &bench.options).unwrap_err().to_string();
        assert!(error.contains(said) && error.contains(name), "{error}");
        assert_eq!(bench.all(), before);
    }
    let bench = Bench::new().of(&[Assistant::Codex]);
    fs::create_dir_all(bench.options.home.join(".codex")).unwrap();
    fs::write(bench.options.home.join(".codex/config.toml"), "a = 1\nb = \n").unwrap();
    let error = init(&bench.place, &bench.options).unwrap_err().to_string();
    assert!(error.contains("config.toml:2: this is not valid TOML"), "{error}");
}

#[test]
fn a_write_that_fails_takes_the_others_back() {
    let bench = Bench::new();
    bench.write(".claude/settings.json", SETTINGS);
    // The backup can't be made: its names lead nowhere, and it must not be written through them.
    std::os::unix::fs::symlink("/nowhere/at/all", bench.file("CLAUDE.md.bak")).unwrap();
    bench.write("CLAUDE.md", "# Us\n");
    let error = init(&bench.place, &bench.options).unwrap_err();
    assert!(matches!(error, InitError::Write { .. }), "{error}");
    assert_eq!(bench.text(".claude/settings.json"), SETTINGS);
    assert_eq!(bench.text("CLAUDE.md"), "# Us\n");
    for name in [".mcp.json", ".claude/settings.json.bak"] {
        assert!(!bench.file(name).exists(), "{name}");
    }
}

#[test]
fn codex_has_one_server_for_all_projects_and_keeps_its_comments() {
    let bench = Bench::new().of(&[Assistant::Codex]);
    let config = bench.options.home.join(".codex/config.toml");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    let theirs = "# mine\nmodel = \"gpt-5\" # the best\n\n[mcp_servers.a]\ncommand = \"x\"\n# args later\n\n\
                  [mcp_servers.wt-memory]\ncommand = \"old\"\n\n[tui]\n# last\n";
    fs::write(&config, theirs).unwrap();
    bench.init();
    let text = fs::read_to_string(&config).unwrap();
    let file: toml_edit::DocumentMut = text.parse().unwrap();
    let server = &file["mcp_servers"]["wt-tools"];
    assert_eq!(server["command"].as_str(), Some("/opt/my tools/butlerd"));
    assert_eq!(server["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()).collect::<Vec<_>>(), ["mcp"]);
    assert!(!text.contains("CLAUDE_PROJECT_DIR") && !text.contains("wt-memory"), "{text}");
    // The comment stands below what it stood below.
    assert!(text.contains("command = \"x\"\n# args later\n\n[mcp_servers.wt-tools]\n"), "{text}");
    for comment in ["# mine\n", "# the best\n", "# args later\n", "# last\n"] {
        assert!(text.contains(comment), "{comment} in {text}");
    }
    assert!(bench.init().changes.is_empty());
    assert_eq!(bench.status(), [(true, false, false)]);
    bench.remove();
    let left = fs::read_to_string(&config).unwrap();
    assert!(
        !left.contains("wt-tools") && left.contains("# args later\n") && left.contains("[tui]\n# last\n"),
        "{left}"
    );
}

#[test]
fn codex_gets_back_byte_for_byte_what_it_had() {
    for theirs in ["", "a = 1\n", "a = 1", "[x]\nb = 2\n\n# end\n", "[mcp_servers]\nq = { command = \"z\" }\n"] {
        let mut bench = Bench::new().of(&[Assistant::Codex]);
        let home = bench.options.home.join("elsewhere");
        bench.options.codex_home = Some(home.clone());
        bench.options.socket = Some("/s".into());
        fs::create_dir_all(&home).unwrap();
        fs::write(home.join("config.toml"), theirs).unwrap();
        bench.init();
        let text = fs::read_to_string(home.join("config.toml")).unwrap();
        assert!(text.contains("env = { BUTLERD_PROJECT_SOCKET = \"/s\" }"), "{text}");
        assert!(bench.status()[0].0, "{text}");
        bench.remove();
        assert_eq!(fs::read_to_string(home.join("config.toml")).unwrap(), theirs);
    }
}

#[test]
fn gemini_has_the_server_in_the_projects_settings() {
    let bench = Bench::new().of(&[Assistant::Gemini]);
    let theirs = "{\n  // mine\n  \"model\": {\"name\": \"x\"}\n}\n";
    bench.write(".gemini/settings.json", theirs);
    bench.write("GEMINI.md", "# G\n");
    bench.init();
    let text = bench.text(".gemini/settings.json");
    assert!(text.contains("// mine") && text.contains("\"trust\": false"), "{text}");
    assert_eq!(bench.status(), [(true, false, true)]);
    assert!(!bench.file("CLAUDE.md").exists());
    assert!(bench.init().changes.is_empty());
    bench.remove();
    assert_eq!((bench.text(".gemini/settings.json"), bench.text("GEMINI.md")), (theirs.into(), "# G\n".into()));
}

#[test]
fn what_is_there_is_found_and_all_of_it_goes_again() {
    let bench = Bench::new().of(&[]);
    assert!(bench.init().notes[0].starts_with("No coding assistant was found"));
    for dir in [bench.file(".claude"), bench.file(".gemini"), bench.options.home.join(".codex")] {
        fs::create_dir_all(dir).unwrap();
    }
    bench.write("AGENTS.md", "# Agents");
    let before = bench.all();
    bench.init();
    assert_eq!(bench.status(), [(true, true, true), (true, false, true), (true, false, false)]);
    assert!(bench.init().changes.is_empty());
    let report = bench.remove();
    assert!(report.changes.len() >= 5, "{report:#?}");
    assert_eq!(bench.all(), before);
    assert_eq!(bench.remove(), InitReport::default());
}

#[test]
fn a_dry_run_shows_all_and_does_nothing() {
    let mut bench = Bench::with_claude().of(&[Assistant::Claude, Assistant::Codex]);
    bench.write("CLAUDE.md", "# Us\n");
    bench.options.dry_run = true;
    let before = bench.all();
    let report = bench.init();
    assert_eq!((bench.all(), bench.home("calls")), (before, String::new()));
    assert!(report.changes.iter().all(|change| !change.done && !change.diff.is_empty()), "{report:#?}");
    assert_eq!(report.changes.len(), 4, "{report:#?}");
    assert!(diff(&report, "CLAUDE.md").contains("+## Persistent Memory\n"));
    assert!(diff(&report, ".claude.json").contains("+wt-tools: env CLAUDE_PROJECT_DIR="));
    bench.options.dry_run = false;
    bench.init();
    bench.options.dry_run = true;
    let report = bench.remove();
    assert_eq!(bench.status()[0], (true, true, true));
    assert!(diff(&report, ".claude.json").starts_with("-wt-tools: "), "{report:#?}");
    bench.options.dry_run = false;
    bench.remove();
    assert_eq!(bench.status(), [(false, false, false); 2]);
    assert_eq!(bench.text("CLAUDE.md"), "# Us\n");
    assert!(!bench.file(".claude").exists() && !bench.options.home.join(".codex/config.toml").exists());
}

#[test]
fn worktrees_share_claude_codes_list_and_have_files_of_their_own() {
    let mut bench = Bench::with_claude();
    let main = bench.place.top.clone();
    let tree = bench.dir.path().join("tree");
    fs::create_dir_all(&tree).unwrap();
    fs::write(tree.join(".git"), format!("gitdir: {}/.git/worktrees/tree\n", main.display())).unwrap();
    bench.place.top = tree.clone();
    bench.init();
    let want = format!("-- env CLAUDE_PROJECT_DIR={} /opt/my tools/butlerd mcp\n", main.display());
    assert!(bench.home("calls").ends_with(&want), "{}", bench.home("calls"));
    assert!(tree.join(".claude/settings.json").exists() && !main.join(".claude").exists());
    bench.place.top = main;
    assert_eq!(bench.status(), [(true, false, false)]);
    assert!(bench.init().changes.iter().all(|change| !change.path.ends_with(".claude.json")));
}

#[test]
fn a_link_that_leads_out_of_the_project_is_not_followed() {
    let bench = Bench::new();
    let secret = bench.options.home.join(".bashrc");
    fs::write(&secret, "# mine\n").unwrap();
    std::os::unix::fs::symlink(&secret, bench.file("CLAUDE.md")).unwrap();
    let report = bench.init();
    assert!(report.notes.iter().any(|note| note.contains(".bashrc")), "{report:#?}");
    assert_eq!(bench.home(".bashrc"), "# mine\n");
    fs::remove_file(bench.file(".claude/settings.json")).unwrap();
    std::os::unix::fs::symlink(&secret, bench.file(".claude/settings.json")).unwrap();
    let error = init(&bench.place, &bench.options).unwrap_err();
    assert!(matches!(error, InitError::Outside { .. }), "{error}");
    // One that stays inside is followed, and stays a link.
    fs::remove_file(bench.file("CLAUDE.md")).unwrap();
    fs::remove_file(bench.file(".claude/settings.json")).unwrap();
    bench.write("AGENTS.md", "# Agents\n");
    std::os::unix::fs::symlink("AGENTS.md", bench.file("CLAUDE.md")).unwrap();
    bench.init();
    assert_eq!(bench.text("AGENTS.md").matches("## Persistent Memory").count(), 1);
    assert!(fs::symlink_metadata(bench.file("CLAUDE.md")).unwrap().is_symlink());
}

#[test]
fn backups_are_made_once_for_each_text_and_keep_their_rights() {
    let bench = Bench::new();
    bench.write("CLAUDE.md", "# One\n");
    fs::set_permissions(bench.file("CLAUDE.md"), fs::Permissions::from_mode(0o600)).unwrap();
    bench.init();
    let mode = |name: &str| fs::metadata(bench.file(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("CLAUDE.md"), mode("CLAUDE.md.bak")), (0o600, 0o600));
    bench.write("CLAUDE.md", "# One\n");
    bench.init();
    assert!(!bench.file("CLAUDE.md.bak.1").exists());
    bench.write("CLAUDE.md", "# Two\n");
    bench.init();
    assert_eq!((bench.text("CLAUDE.md.bak"), bench.text("CLAUDE.md.bak.1")), ("# One\n".into(), "# Two\n".into()));
}

#[test]
fn names_of_assistants_are_read_back() {
    for assistant in Assistant::ALL {
        assert_eq!(Assistant::from_name(assistant.as_str()), Some(assistant));
    }
    assert_eq!(Assistant::from_name("copilot"), None);
    let mut bench = Bench::new();
    bench.options.program = Path::new("butlerd").into();
    assert!(matches!(init(&bench.place, &bench.options), Err(InitError::Path { .. })));
}
