//! What a run changes, thought out before anything is changed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::assistant::{self, Assistant};
use super::claude::{self, Calls, Registered};
use super::files::{self, Files};
use super::hooks::{self, HookCommand};
use super::servers::{LEGACY, ListFile, NAME, Server, Shape};
use super::{InitError, InitOptions, InitReport, Registration, codex, instructions};
use crate::connection::SOCKET_VARIABLE;
use crate::place::ProjectPlace;

/// Claude Code's list of servers in a project, and Gemini's settings.
const SHARED_FILE: &str = ".mcp.json";
const GEMINI_FILE: &str = ".gemini/settings.json";
/// By this the server knows its project wherever it is started.
const PROJECT_VARIABLE: &str = "CLAUDE_PROJECT_DIR";

/// All changes of a run.
pub(super) struct Plan<'a> {
    place: &'a ProjectPlace,
    options: &'a InitOptions,
    wanted: Wanted,
    /// Claude Code's program, if it is there.
    claude: Option<PathBuf>,
    files: Files,
    calls: Calls,
    notes: Vec<String>,
    removes: bool,
}

/// What is to be registered.
struct Wanted {
    /// In the project's own files.
    here: Server,
    /// In Claude Code's list, which all worktrees of a repository share.
    shared: Server,
    /// For all projects.
    global: Server,
    hook: HookCommand,
}

impl Wanted {
    fn of(place: &ProjectPlace, options: &InitOptions) -> Result<Self, InitError> {
        let text = |path: &Path| match path.to_str().filter(|_| path.is_absolute()) {
            Some(text) => Ok(text.to_owned()),
            None => Err(InitError::Path { path: path.to_owned() }),
        };
        let program = text(&options.program)?;
        let socket = options.socket.as_deref().map(text).transpose()?;
        let server = |top: Option<&Path>| -> Result<Server, InitError> {
            let mut env = BTreeMap::new();
            if let Some(top) = top {
                env.insert(PROJECT_VARIABLE.to_owned(), text(top)?);
            }
            env.extend(socket.iter().map(|socket| (SOCKET_VARIABLE.to_owned(), socket.clone())));
            Ok(Server { program: program.clone(), args: vec!["mcp".to_owned()], env })
        };
        let hook = HookCommand::of_project(&program, socket.as_deref());
        let (here, shared) = (server(Some(&place.top))?, server(Some(&claude::main_top(place)))?);
        Ok(Self { here, shared, global: server(None)?, hook })
    }
}

impl<'a> Plan<'a> {
    fn new(place: &'a ProjectPlace, options: &'a InitOptions, removes: bool) -> Result<Self, InitError> {
        let claude = assistant::program(&options.path, Assistant::Claude.as_str());
        let wanted = Wanted::of(place, options)?;
        let (files, calls, notes) = (Files::default(), Calls::default(), Vec::new());
        Ok(Self { place, options, wanted, claude, files, calls, notes, removes })
    }

    /// What registers the project's memory with each assistant that is meant.
    pub fn to_register(place: &'a ProjectPlace, options: &'a InitOptions) -> Result<Self, InitError> {
        let mut plan = Self::new(place, options, false)?;
        let chosen = assistant::chosen(&place.top, options);
        if chosen.is_empty() {
            plan.notes.push("No coding assistant was found here. Name one: claude, codex or gemini.".to_owned());
            return Ok(plan);
        }
        for one in &chosen {
            match one {
                Assistant::Claude => plan.register_claude()?,
                Assistant::Codex => plan.register_codex()?,
                Assistant::Gemini => plan.register_gemini()?,
            }
        }
        for one in Assistant::ALL {
            plan.instruct(one, chosen.contains(&one))?;
        }
        Ok(plan)
    }

    /// What takes it away again.
    pub fn to_remove(place: &'a ProjectPlace, options: &'a InitOptions) -> Result<Self, InitError> {
        let mut plan = Self::new(place, options, true)?;
        for one in assistant::named(options) {
            match one {
                Assistant::Claude => plan.remove_claude()?,
                Assistant::Codex => plan.remove_codex()?,
                Assistant::Gemini => plan.remove_servers(GEMINI_FILE, true)?,
            }
            plan.remove_instructions(one)?;
        }
        plan.files.return_to_backups()?;
        Ok(plan)
    }

    /// Makes the changes, all or none, unless it is a dry run.
    pub fn carry_out(mut self) -> Result<InitReport, InitError> {
        let done = !self.options.dry_run;
        let mut changes = self.files.changes(done);
        if !self.calls.is_empty() {
            changes.push(self.calls.change(self.options, done));
        }
        if done {
            let written = self.files.write(!self.removes)?;
            if let Some(program) = self.claude.as_ref().filter(|_| !self.calls.is_empty())
                && let Err(error) = self.calls.run(program, &self.place.top, self.options)
            {
                return Err(written.put_back(error));
            }
            self.check_claude();
        }
        Ok(InitReport { changes, notes: self.notes })
    }

    /// Looks whether Claude Code's program did what it said.
    fn check_claude(&mut self) {
        if self.calls.is_empty() || self.removes {
            return;
        }
        let found = Registered::read(self.place, self.options).ok().and_then(|list| list.server());
        if found.as_ref() != Some(&self.wanted.shared) {
            let file = claude::list_file(self.options);
            let file = file.display();
            self.notes.push(format!(
                "Claude Code took the MCP server {NAME}, but {file} does not have it. See `claude mcp list`."
            ));
        }
    }

    fn register_claude(&mut self) -> Result<(), InitError> {
        let top = &self.place.top;
        let shared = top.join(SHARED_FILE);
        let list = ListFile { path: &shared, comments: false };
        if self.claude.is_some() {
            // Claude Code's own list has the server, and a second one of the name would only be in its way.
            self.files.edit_inside(top, SHARED_FILE, "old MCP servers", |text| match text {
                Some(text) => list.without(text, &[NAME, LEGACY]),
                None => Ok(None),
            })?;
            self.calls = Registered::read(self.place, self.options)?.calls_to_add(&self.wanted.shared);
        } else {
            let server = &self.wanted.here;
            self.files.edit_inside(top, SHARED_FILE, "MCP server of Claude Code", |text| {
                list.with(text, server, Shape::Shared).map(Some)
            })?;
            self.notes.push(format!(
                "The program claude is not on this PATH, so {SHARED_FILE} has the MCP server. Claude Code asks once \
                 before it starts one from there."
            ));
        }
        let (path, hook) = (top.join(hooks::FILE), &self.wanted.hook);
        let mut off = false;
        self.files.edit_inside(top, hooks::FILE, "hooks of Claude Code", |text| {
            off = text.is_some_and(hooks::are_off);
            hooks::with(&path, text, hook).map(Some)
        })?;
        if off {
            let path = path.display();
            self.notes.push(format!("{path} has disableAllHooks: Claude Code shows no memory until you take it out."));
        }
        Ok(())
    }

    fn register_codex(&mut self) -> Result<(), InitError> {
        let path = assistant::codex_home(self.options).join(codex::FILE);
        let server = &self.wanted.global;
        self.files.edit(&path, "MCP server of Codex", |text| codex::with(&path, text, server).map(Some))
    }

    fn register_gemini(&mut self) -> Result<(), InitError> {
        let path = self.place.top.join(GEMINI_FILE);
        let (list, server) = (ListFile { path: &path, comments: true }, &self.wanted.here);
        self.files.edit_inside(&self.place.top, GEMINI_FILE, "MCP server of Gemini", |text| {
            list.with(text, server, Shape::Gemini).map(Some)
        })
    }

    /// Writes the section where the file is; for Claude Code, if it is `chosen`, also where it is not.
    fn instruct(&mut self, one: Assistant, chosen: bool) -> Result<(), InitError> {
        let name = one.instructions();
        let path = self.place.top.join(name);
        let made = chosen && one == Assistant::Claude;
        if !made && std::fs::symlink_metadata(&path).is_err() {
            return Ok(());
        }
        if let Some(target) = files::outside(&self.place.top, name)? {
            let (path, target) = (path.display(), target.display());
            self.notes.push(format!("{path} leads to {target}, outside of the project, so it has no section."));
            return Ok(());
        }
        let what = format!("section of {name} about memory");
        self.files.edit(&path, &what, |text| {
            let section = &instructions::PROJECT_MEMORY;
            section.with(text).map(Some).map_err(|instructions::Unpaired| section.unpaired(&path))
        })
    }

    fn remove_claude(&mut self) -> Result<(), InitError> {
        self.remove_servers(SHARED_FILE, false)?;
        let top = &self.place.top;
        let (path, hook) = (top.join(hooks::FILE), &self.wanted.hook);
        self.files.edit_inside(top, hooks::FILE, "hooks of Claude Code", |text| match text {
            Some(text) => hooks::without(&path, text, hook),
            None => Ok(None),
        })?;
        let calls = Registered::read(self.place, self.options)?.calls_to_remove(&self.wanted.shared);
        if calls.is_empty() {
            return Ok(());
        }
        if self.claude.is_none() {
            let top = self.place.top.display();
            let lines = calls.lines().join(", ");
            self.notes.push(format!("The program claude is not on this PATH. In {top}, run {lines}."));
            return Ok(());
        }
        if claude::main_top(self.place) != *top {
            let note = "Claude Code's MCP server is gone from all worktrees of this repository: they share it.";
            self.notes.push(note.to_owned());
        }
        self.calls = calls;
        Ok(())
    }

    fn remove_codex(&mut self) -> Result<(), InitError> {
        let path = assistant::codex_home(self.options).join(codex::FILE);
        let server = &self.wanted.global;
        self.files.edit(&path, "MCP server of Codex, of all projects", |text| match text {
            Some(text) => codex::without(&path, text, server),
            None => Ok(None),
        })
    }

    /// Takes our server out of a list of the project. One of its name that is somebody else's stays.
    fn remove_servers(&mut self, name: &str, comments: bool) -> Result<(), InitError> {
        let path = self.place.top.join(name);
        let (list, server) = (ListFile { path: &path, comments }, &self.wanted.here);
        self.files.edit_inside(&self.place.top, name, "MCP server", |text| {
            let Some(text) = text else { return Ok(None) };
            match list.server(text, NAME)?.filter(|found| found.is_ours(server)) {
                Some(_) => list.without(text, &[NAME]),
                None => Ok(Some(text.to_owned())),
            }
        })
    }

    fn remove_instructions(&mut self, one: Assistant) -> Result<(), InitError> {
        let name = one.instructions();
        let path = self.place.top.join(name);
        if std::fs::symlink_metadata(&path).is_err() || files::outside(&self.place.top, name)?.is_some() {
            return Ok(());
        }
        let section = &instructions::PROJECT_MEMORY;
        self.files.edit(&path, &format!("section of {name} about memory"), |text| match text {
            Some(text) => section.without(text).map_err(|instructions::Unpaired| section.unpaired(&path)),
            None => Ok(None),
        })
    }
}

/// What is registered with each assistant that was named, or else with all.
pub(super) fn status(place: &ProjectPlace, options: &InitOptions) -> Vec<Registration> {
    let Ok(wanted) = Wanted::of(place, options) else { return Vec::new() };
    let text = |name: &str| files::read(&place.top.join(name)).ok().flatten();
    let listed = |name: &str, comments: bool| {
        let (path, text) = (place.top.join(name), text(name)?);
        ListFile { path: &path, comments }.server(&text, NAME).ok()?
    };
    let state = |assistant: Assistant| {
        let server = match assistant {
            Assistant::Claude => {
                let own = Registered::read(place, options).ok().and_then(|list| list.server());
                own.as_ref() == Some(&wanted.shared) || listed(SHARED_FILE, false).as_ref() == Some(&wanted.here)
            }
            Assistant::Codex => {
                let path = assistant::codex_home(options).join(codex::FILE);
                let text = files::read(&path).ok().flatten();
                text.is_some_and(|text| codex::is_registered(&path, &text, &wanted.global))
            }
            Assistant::Gemini => listed(GEMINI_FILE, true).as_ref() == Some(&wanted.here),
        };
        let hooks = assistant == Assistant::Claude
            && text(hooks::FILE).is_some_and(|text| hooks::are_all(&text, &wanted.hook) && !hooks::are_off(&text));
        let instructions =
            text(assistant.instructions()).is_some_and(|text| instructions::PROJECT_MEMORY.is_current(&text));
        Registration { assistant, server, hooks, instructions }
    };
    assistant::named(options).into_iter().map(state).collect()
}
