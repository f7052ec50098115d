//! The registration of the journal: two hooks with Claude Code and with Codex and a skill for Claude Code, for all of a
//! person's sessions, and a section of instructions where somebody works.
//!
//! It is kept apart from project memory's because it belongs to a person and to no project.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use super::error::InitError;
use super::files::{self, Files};
use super::hooks;
use super::instructions::{Section, Unpaired};
use super::{InitReport, JournalCommand};

/// The skill's file, from Claude Code's own directory.
pub const SKILL_FILE: &str = "skills/memory-sync/SKILL.md";
/// The settings that the hooks are merged into, from the same directory.
pub const SETTINGS_FILE: &str = "settings.local.json";

/// Codex's hooks, from its home. They have the form of Claude Code's.
pub const CODEX_FILE: &str = "hooks.json";

/// By this a skill is known as ours, also that of another version. The command that wrote it stands between the two.
const SKILL_MARK: (&str, &str) = ("written by `", " install-hooks`, which replaces it");

/// What is registered and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JournalOptions {
    /// What hooks and skill ask.
    pub command: JournalCommand,
    /// The settings of Claude Code that get the hooks.
    pub settings: PathBuf,
    /// Where the skill goes.
    pub skill: PathBuf,
    /// Codex's hooks; none: there is no Codex here.
    pub codex: Option<PathBuf>,
    /// Only says what would change.
    pub dry_run: bool,
}

/// Puts the hooks before those that the person has, and the skill beside them. Another run changes nothing.
///
/// Claude Code has one skill of the name that the hooks call: it is for the journal that was registered last, and the
/// report says whose it was before.
pub fn install_hooks(options: &JournalOptions) -> Result<InitReport, InitError> {
    let (hook, line) = (options.command.hook()?, options.command.line()?);
    let (mut files, mut notes) = (Files::default(), Vec::new());
    files.edit(&options.settings, "hooks of Claude Code", |text| {
        if text.is_some_and(hooks::are_off) {
            let path = options.settings.display();
            notes.push(format!("{path} has disableAllHooks: Claude Code shows no journal until you take it out."));
        }
        hooks::with(&options.settings, text, &hook).map(Some)
    })?;
    if let Some(codex) = &options.codex {
        let (mut changed, hook) = (false, hook.of_codex());
        files.edit(codex, "hooks of Codex", |text| {
            let with = hooks::with(codex, text, &hook)?;
            changed = text != Some(&*with);
            Ok(Some(with))
        })?;
        if changed {
            notes.push("Codex runs a new hook only after you trust it: type /hooks in Codex.".to_owned());
        }
    }
    files.edit(&options.skill, "skill memory-sync", |text| match text {
        Some(text) if !is_ours(text) => {
            let path = options.skill.display();
            notes.push(format!("{path} is another skill and stays. Move it away and run this again to get ours."));
            Ok(Some(text.to_owned()))
        }
        text => {
            if let Some(other) = another(text, options)? {
                notes.push(format!(
                    "The skill memory-sync goes from `{other}` to `{line}`: Claude Code has one, for the journal that was \
                     registered last. To give it back: {other} install-hooks"
                ));
            }
            options.command.fill(journal::MEMORY_SYNC).map(Some)
        }
    })?;
    carry_out(files, options.dry_run, true, notes)
}

/// Whether a skill is one that this wrote, in whatever version.
fn is_ours(skill: &str) -> bool {
    skill.contains(SKILL_MARK.1)
}

/// The command that a skill of ours names, where it reaches another journal than the one that is meant.
fn another(skill: Option<&str>, options: &JournalOptions) -> Result<Option<String>, InitError> {
    let after = skill.filter(|skill| is_ours(skill)).and_then(|skill| skill.split_once(SKILL_MARK.0));
    let Some((line, _)) = after.and_then(|(_, after)| after.split_once(SKILL_MARK.1)) else { return Ok(None) };
    Ok(options.command.is_another(line)?.then(|| line.to_owned()))
}

/// Takes hooks and skill away again. What the person has beside them stays.
pub fn remove_hooks(options: &JournalOptions) -> Result<InitReport, InitError> {
    let hook = options.command.hook()?;
    let (mut files, mut notes) = (Files::default(), Vec::new());
    let registered = [(Some(&options.settings), "hooks of Claude Code"), (options.codex.as_ref(), "hooks of Codex")];
    for (path, what) in registered.into_iter().filter_map(|(path, what)| Some((path?, what))) {
        files.edit(path, what, |text| match text {
            Some(text) if hooks::has_others(text, &hook) => {
                notes.push(format!(
                    "Project memory uses the hooks of {}, too, so they stay. `butlerd project remove` takes them away.",
                    path.display()
                ));
                Ok(Some(text.to_owned()))
            }
            Some(text) => hooks::without(path, text, &hook),
            None => Ok(None),
        })?;
    }
    files.edit(&options.skill, "skill memory-sync", |text| {
        if let Some(other) = another(text, options)? {
            notes.push(format!(
                "The skill memory-sync that goes is for `{other}`. To have it again: {other} install-hooks"
            ));
        }
        Ok(text.filter(|text| !is_ours(text)).map(str::to_owned))
    })?;
    files.return_to_backups()?;
    carry_out(files, options.dry_run, false, notes)
}

/// Writes the section about the journal, whose files are in `dir` and which `command` reaches, into a file of
/// instructions.
pub fn instruct(path: &Path, dir: &str, command: &JournalCommand, dry_run: bool) -> Result<InitReport, InitError> {
    let section = section(command.fill(SECTION.trim_end())?.replace("{dir}", dir));
    edit_section(path, dry_run, true, |text| section.with(text).map(Some), &section)
}

/// Takes the section away again. A file that held nothing else goes.
pub fn remove_instructions(path: &Path, dry_run: bool) -> Result<InitReport, InitError> {
    // It is known by its marks, whatever it says.
    let section = section(String::new());
    edit_section(path, dry_run, false, |text| text.map_or(Ok(None), |text| section.without(text)), &section)
}

fn edit_section(
    path: &Path,
    dry_run: bool,
    backups: bool,
    change: impl FnOnce(Option<&str>) -> Result<Option<String>, Unpaired>,
    section: &Section,
) -> Result<InitReport, InitError> {
    let mut files = Files::default();
    let (top, name) = (path.parent().unwrap_or(Path::new("/")), path.file_name().unwrap_or_default());
    let name = name.to_string_lossy();
    let what = format!("section of {name} about the journal");
    // A repository may hold a link to any file of its developer.
    if let Some(target) = files::outside(top, &name)? {
        return Err(InitError::Outside { path: path.to_owned(), target });
    }
    files.edit(path, &what, |text| change(text).map_err(|Unpaired| section.unpaired(path)))?;
    carry_out(files, dry_run, backups, Vec::new())
}

fn carry_out(files: Files, dry_run: bool, backups: bool, notes: Vec<String>) -> Result<InitReport, InitError> {
    let changes = files.changes(!dry_run);
    if !dry_run {
        files.write(backups)?;
    }
    Ok(InitReport { changes, notes })
}

fn section(text: String) -> Section {
    Section {
        mark: "butlerd journal",
        heading: "## Memory System",
        text: Cow::Owned(text),
        // The section that zylos writes.
        legacy_signs: &["zylos/memory", "session-inject", "c4-"],
    }
}

const SECTION: &str = "\
## Memory System

Persistent memory stored in `{dir}/`:

### Always Loaded (via SessionStart hook)
- `core.md` - Identity, user profile, active working state, key references (~3KB)

### Load on Demand
- `reference/decisions.md` - Active decisions
- `reference/projects.md` - Active/planned projects
- `reference/preferences.md` - User preferences
- `reference/ideas.md` - Ideas for later

### Session Log
- `sessions/today.md` - Current day's events (append-only)
- `sessions/YYYY-MM-DD.md` - Previous session logs

### Important Practices
1. **Start each session** - core.md is auto-injected; read reference files as needed
2. **Update memory frequently** - don't wait until context is full
3. **Before context compaction** - update memory files first
4. **After each update** - run `butlerd journal accept --yes`, which takes your edits in

### Memory Sync
When you see `[Action Required] invoke /memory-sync --begin X --end Y`:
1. This means that more conversations than the threshold (see `butlerd journal status`) need to be processed into memory
2. Follow the skill memory-sync to process them; it begins with `butlerd journal sync --begin X --end Y`
3. Without the skill, `butlerd journal install-hooks` installs it

### File Persistence
butlerd keeps memory in its database and writes these files from it. Edit the files as you like: an edit counts once it
is accepted. No git commits needed.
";

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::hooks::HookCommand;
    use super::*;

    struct Home {
        dir: tempfile::TempDir,
        options: JournalOptions,
    }

    fn home() -> Home {
        let dir = tempfile::tempdir().unwrap();
        let claude = dir.path().canonicalize().unwrap().join(".claude");
        let options = JournalOptions {
            command: JournalCommand { program: "/opt/my tools/butlerd".into(), ..JournalCommand::default() },
            settings: claude.join(SETTINGS_FILE),
            skill: claude.join(SKILL_FILE),
            codex: None,
            dry_run: false,
        };
        Home { dir, options }
    }

    fn read(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    const THEIRS: &str = "{\n    \"hooks\": {\n        \"SessionStart\": [\n            {\"matcher\": \"\", \"hooks\": [{\"type\": \
                          \"command\", \"command\": \"node c4-session-init.js\", \"timeout\": 10000}]}\n        ]\n    \
                          },\n    \"model\": \"opus\"\n}\n";

    #[test]
    fn hooks_go_before_the_persons_own_and_leave_no_trace() {
        let Home { dir: _dir, options } = home();
        std::fs::create_dir_all(options.settings.parent().unwrap()).unwrap();
        std::fs::write(&options.settings, THEIRS).unwrap();
        let planned = install_hooks(&JournalOptions { dry_run: true, ..options.clone() }).unwrap();
        assert_eq!(read(&options.settings), THEIRS);
        assert!(planned.changes[0].diff.contains("+") && !planned.changes[0].done && !options.skill.exists());

        let report = install_hooks(&options).unwrap();
        assert_eq!(report.changes.len(), 2, "{report:?}");
        let settings: Value = serde_json::from_str(&read(&options.settings)).unwrap();
        let command = |event: &str| format!("'/opt/my tools/butlerd' hook {event}");
        let start = &settings["hooks"]["SessionStart"];
        let ours = json!({"hooks": [{"type": "command", "command": command("SessionStart"), "timeout": 10}]});
        assert_eq!((&start[0], start[1]["hooks"][0]["command"].as_str()), (&ours, Some("node c4-session-init.js")));
        let prompt = json!([{"hooks": [{"type": "command", "command": command("UserPromptSubmit"), "timeout": 5}]}]);
        assert_eq!(settings["hooks"]["UserPromptSubmit"], prompt);
        assert_eq!(read(&options.settings.with_extension("json.bak")), THEIRS);
        let skill = journal::MEMORY_SYNC.replace("butlerd journal", "'/opt/my tools/butlerd' journal");
        assert_eq!(read(&options.skill), skill, "it names the program that the hooks run");
        assert_eq!(install_hooks(&options).unwrap(), InitReport::default());

        remove_hooks(&options).unwrap();
        assert_eq!(read(&options.settings), THEIRS);
        assert!(!options.skill.parent().unwrap().exists());
        assert_eq!(remove_hooks(&options).unwrap(), InitReport::default());
    }

    #[test]
    fn settings_that_were_not_there_go_again() {
        let Home { dir: _dir, mut options } = home();
        options.command.socket = Some("/data/run/journal.sock".into());
        install_hooks(&options).unwrap();
        assert!(
            read(&options.settings).contains("BUTLERD_JOURNAL_SOCKET=/data/run/journal.sock '/opt/my tools/butlerd'")
        );
        remove_hooks(&options).unwrap();
        assert!(!options.settings.exists());
    }

    #[test]
    fn codex_gets_the_same_hooks() {
        let Home { dir, mut options } = home();
        let codex = dir.path().canonicalize().unwrap().join(".codex").join(CODEX_FILE);
        options.codex = Some(codex.clone());
        let report = install_hooks(&options).unwrap();
        assert!(report.changes.len() == 3 && report.notes[0].contains("/hooks"), "{report:?}");
        let hooks: Value = serde_json::from_str(&read(&codex)).unwrap();
        let hook = &hooks["hooks"]["SessionStart"][0]["hooks"][0];
        let command = "BUTLERD_HOOK_OF=codex '/opt/my tools/butlerd' hook SessionStart";
        assert_eq!((&hook["timeout"], &hook["command"]), (&json!(10), &json!(command)), "what Codex counts is its own");
        assert!(!read(&options.settings).contains("BUTLERD_HOOK_OF"));
        assert_eq!(install_hooks(&options).unwrap(), InitReport::default());
        remove_hooks(&options).unwrap();
        assert!(!codex.exists() && !options.settings.exists());
    }

    #[test]
    fn what_is_malformed_is_refused_and_nothing_changes() {
        let Home { dir: _dir, options } = home();
        std::fs::create_dir_all(options.settings.parent().unwrap()).unwrap();
        for broken in ["{\"hooks\": ", "[]", "{\"hooks\": []}", "{\"hooks\": {\"SessionStart\": {}}}"] {
            std::fs::write(&options.settings, broken).unwrap();
            let error = install_hooks(&options).unwrap_err();
            assert!(matches!(error, InitError::Syntax { .. } | InitError::Shape { .. }), "{error}");
            assert_eq!(read(&options.settings), broken);
            assert!(!options.skill.exists() && !options.settings.with_extension("json.bak").exists());
        }
    }

    #[test]
    fn settings_come_back_where_the_skill_cannot_be_written() {
        let Home { dir: _dir, options } = home();
        let claude = options.settings.parent().unwrap();
        std::fs::create_dir_all(claude).unwrap();
        std::fs::write(&options.settings, THEIRS).unwrap();
        std::fs::write(claude.join("skills"), "a file").unwrap();
        install_hooks(&options).unwrap_err();
        assert_eq!(read(&options.settings), THEIRS);
        assert!(!options.settings.with_extension("json.bak").exists());
    }

    #[test]
    fn a_skill_of_somebody_else_stays() {
        let Home { dir: _dir, options } = home();
        std::fs::create_dir_all(options.skill.parent().unwrap()).unwrap();
        std::fs::write(&options.skill, "theirs").unwrap();
        let report = install_hooks(&options).unwrap();
        assert!(report.notes[0].contains("another skill"), "{report:?}");
        remove_hooks(&options).unwrap();
        assert_eq!(read(&options.skill), "theirs");
        // One of ours, of another version, is replaced.
        let old = "old, written by `butlerd journal install-hooks`, which replaces it when it is run again";
        std::fs::write(&options.skill, old).unwrap();
        assert_eq!(install_hooks(&options).unwrap().notes, [] as [&str; 0], "it was for the same journal");
        assert_eq!(read(&options.skill), options.command.fill(journal::MEMORY_SYNC).unwrap());
    }

    #[test]
    fn the_skill_is_for_the_journal_that_was_registered_last() {
        let Home { dir: _dir, options } = home();
        let mut health = options.clone();
        let (socket, butler) = (Some("/d/run/journal-health.sock".into()), Some("health".to_owned()));
        health.command = JournalCommand { socket, butler, data_dir: Some("/d".into()), ..health.command };
        let (one, other) = (options.command.line().unwrap(), health.command.line().unwrap());
        assert_eq!(install_hooks(&options).unwrap().notes, [] as [&str; 0]);
        let note = &install_hooks(&JournalOptions { dry_run: true, ..health.clone() }).unwrap().notes[0];
        assert!(note.contains(&format!("from `{one}` to `{other}`")), "{note}");
        let note = &install_hooks(&health).unwrap().notes[0];
        assert!(note.contains(&format!("from `{one}` to `{other}`")), "{note}");
        assert!(note.ends_with(&format!("{one} install-hooks")), "{note}");
        // Hooks and skill ask the same.
        assert!(read(&options.settings).contains("BUTLERD_JOURNAL_SOCKET=/d/run/journal-health.sock "));
        let skill = read(&options.skill);
        for part in
            ["`{} sync --status`", "Bash({}:*)", "`{} accept --yes`", "`{} checkpoint END ", "`{} install-hooks`"]
        {
            assert!(skill.contains(&part.replace("{}", &other)), "{part}: {skill}");
        }
        assert!(!skill.contains("butlerd journal"), "{skill}");
        assert_eq!(install_hooks(&health).unwrap(), InitReport::default());
        // Whoever takes it away is told whose it was.
        let report = remove_hooks(&options).unwrap();
        assert!(report.notes[0].ends_with(&format!("{other} install-hooks")), "{report:?}");
        assert!(!options.skill.exists() && !options.settings.exists());
    }

    #[test]
    fn both_memories_share_a_settings_file() {
        let path = Path::new("settings.json");
        let (project, ours) = (HookCommand::of_project("butlerd", None), HookCommand::of_journal("butlerd", None));
        let first = hooks::with(path, None, &project).unwrap();
        let both = hooks::with(path, Some(&first), &ours).unwrap();
        assert_ne!(both, first);
        assert!(hooks::are_all(&both, &project) && hooks::are_all(&both, &ours), "{both}");
        assert_eq!(hooks::with(path, Some(&both), &project).unwrap(), both);
        assert_eq!(hooks::with(path, Some(&both), &ours).unwrap(), both);
        assert_eq!(both.matches("hook SessionStart").count(), 1, "{both}");
        assert!(hooks::has_others(&both, &ours) && !hooks::has_others(&both, &project));
    }

    #[test]
    fn each_of_both_memories_keeps_the_socket_that_the_other_named() {
        let path = Path::new("settings.json");
        let project = HookCommand::of_project("/opt/butlerd", Some("/p q/project.sock"));
        let ours = HookCommand::of_journal("/opt/butlerd", Some("/d/journal.sock"));
        let start = "BUTLERD_JOURNAL_SOCKET=/d/journal.sock BUTLERD_PROJECT_SOCKET='/p q/project.sock' /opt/butlerd hook SessionStart";
        for (one, other) in [(&project, &ours), (&ours, &project)] {
            let first = hooks::with(path, None, one).unwrap();
            let both = hooks::with(path, Some(&first), other).unwrap();
            let value: Value = serde_json::from_str(&both).unwrap();
            assert_eq!(value["hooks"]["SessionStart"][0]["hooks"][0]["command"], start, "{both}");
            // What project memory alone listens to has its own only.
            let stop = "BUTLERD_PROJECT_SOCKET='/p q/project.sock' /opt/butlerd hook Stop";
            assert_eq!(value["hooks"]["Stop"][0]["hooks"][0]["command"], stop, "{both}");
            assert!(hooks::are_all(&both, &project) && hooks::are_all(&both, &ours), "{both}");
            for again in [one, other] {
                assert_eq!(hooks::with(path, Some(&both), again).unwrap(), both, "nothing is left to do");
            }
            // Another socket of one's own takes the place of one's own alone.
            let moved = HookCommand::of_journal("/opt/butlerd", Some("/e/journal.sock"));
            let both = hooks::with(path, Some(&both), &moved).unwrap();
            assert!(both.contains(&start.replace("/d/", "/e/")) && !both.contains("/d/journal.sock"), "{both}");
            // Project memory goes, and leaves the journal its hooks and its socket.
            let left = hooks::without(path, &both, &project).unwrap().unwrap();
            assert_eq!(left, hooks::with(path, None, &moved).unwrap());
            let unnamed = HookCommand::of_journal("/opt/butlerd", None);
            let both = hooks::with(path, Some(&both), &unnamed).unwrap();
            assert!(
                both.contains("\"BUTLERD_PROJECT_SOCKET='/p q/project.sock' /opt/butlerd hook SessionStart\""),
                "{both}"
            );
        }
    }

    #[test]
    fn the_skill_says_what_it_must() {
        let skill = journal::MEMORY_SYNC;
        assert!(skill.starts_with("---\nname: memory-sync\n") && is_ours(skill));
        for part in [
            "butlerd journal sync --status",
            "butlerd journal sync --begin",
            "butlerd journal accept --yes",
            "butlerd journal checkpoint END --summary",
            "No conversations to process",
            "7. ",
        ] {
            assert!(skill.contains(part), "{part}");
        }
    }

    #[test]
    fn the_section_is_written_once_and_taken_away() {
        let dir = tempfile::tempdir().unwrap();
        let program = "/opt/my tools/butlerd".into();
        let command = JournalCommand { program, butler: Some("health".to_owned()), ..JournalCommand::default() };
        let path = dir.path().join("CLAUDE.md");
        std::fs::write(&path, "# Mine\n").unwrap();
        assert_eq!(instruct(&path, "/data/journal", &command, true).unwrap().changes.len(), 1);
        assert_eq!(read(&path), "# Mine\n");
        instruct(&path, "/data/journal", &command, false).unwrap();
        let text = read(&path);
        assert!(text.contains("Persistent memory stored in `/data/journal/`:") && text.contains("## Memory System"));
        for part in ["`{} accept --yes`", "`{} sync --begin X --end Y`", "`{} install-hooks`", "(see `{} status`)"] {
            let part = part.replace("{}", "'/opt/my tools/butlerd' journal --butler health");
            assert!(text.contains(&part), "{part}: {text}");
        }
        assert!(!text.contains("30"), "the threshold is a setting: {text}");
        assert_eq!(instruct(&path, "/data/journal", &command, false).unwrap(), InitReport::default());
        remove_instructions(&path, false).unwrap();
        assert_eq!(read(&path), "# Mine\n");

        // What an earlier version wrote is replaced, and taken away.
        let (begin, end) = ("<!-- butlerd journal: begin -->", "<!-- butlerd journal: end -->");
        let old = format!("# Mine\n\n{begin}\n## Memory System\n\n1. This means >30 conversations\n{end}\n");
        for replaced in [true, false] {
            std::fs::write(&path, &old).unwrap();
            if replaced {
                instruct(&path, "/data/journal", &command, false).unwrap();
                assert!(read(&path).matches("## Memory System").count() == 1 && !read(&path).contains(">30"));
            }
            remove_instructions(&path, false).unwrap();
            assert_eq!(read(&path), "# Mine\n");
        }

        let zylos = "# Z\n\n## Memory System\n\nPersistent memory in `~/zylos/memory/`.\n\n## Rest\nx\n";
        std::fs::write(&path, zylos).unwrap();
        instruct(&path, "/data/journal", &command, false).unwrap();
        let text = read(&path);
        assert!(!text.contains("zylos") && text.matches("## Memory System").count() == 1 && text.contains("## Rest"));
    }
}
